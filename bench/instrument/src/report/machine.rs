//! Where the figures come from: what must be the same for two of them to be comparable.

use std::fs;

use serde::Serialize;

/// A machine and what it ran.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Day and time, UTC.
    pub(crate) date: String,
    /// Of sipweir: `git describe`, or the version if there is no git.
    pub(crate) revision: String,
    pub(crate) kernel: String,
    pub(crate) architecture: String,
    pub(crate) cpu_model: String,
    pub(crate) cores: usize,
    pub(crate) memory_mib: u64,
    /// Runnable tasks in the last minute, before the run.
    pub(crate) load: String,
    /// Both sides of the wire are on this machine.
    pub(crate) network: &'static str,
}

impl Machine {
    pub(crate) fn read() -> Self {
        let system = rustix::system::uname();
        let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
        let file = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            date: said_by(&["date", "--utc", "+%Y-%m-%dT%H:%M:%SZ"]).unwrap_or_default(),
            revision: said_by(&["git", "describe", "--always", "--dirty"])
                .unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned()),
            kernel: text(system.release()),
            architecture: text(system.machine()),
            cpu_model: value_of(&file("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
            memory_mib: memory_mib(&file("/proc/meminfo")),
            load: file("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
            network: "veth pairs between two network namespaces",
        }
    }
}

/// What a command writes, if it is there and succeeds.
fn said_by(argv: &[&str]) -> Option<String> {
    let output = std::process::Command::new(argv[0]).args(&argv[1..]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The first value of `name : value`.
fn value_of(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.split_once(':'))?;
    Some(line.1.trim().to_owned())
}

fn memory_mib(meminfo: &str) -> u64 {
    let kib = value_of(meminfo, "MemTotal").and_then(|value| value.split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

#[cfg(test)]
mod tests {
    use super::{memory_mib, said_by, value_of};

    #[test]
    fn processor_and_memory_are_found() {
        assert_eq!(
            value_of("processor\t: 0\nmodel name\t: Some CPU\n", "model name").as_deref(),
            Some("Some CPU")
        );
        assert_eq!(memory_mib("MemTotal:       24576000 kB\nMemFree: 1 kB\n"), 24_000);
        assert_eq!(memory_mib(""), 0);
    }

    #[test]
    fn a_command_that_fails_says_nothing() {
        assert_eq!(said_by(&["echo", "a"]).as_deref(), Some("a"));
        assert_eq!(said_by(&["false"]), None);
        assert_eq!(said_by(&["no-such-command"]), None);
    }
}
