//! The guarded side of one run: this program again, as `sipweir run`, in the server's namespace.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal};

use super::plan::{SERVICE, SERVICE_NAME};
use super::stage::{DEVICE, Stage};
use crate::control;
use crate::status::{self, Status};

/// Between two looks at something that takes some tenths of a second.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// Loading and verifying the XDP program takes some tenths of a second, ten times that on a slow machine.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// An instance lets go of what it holds after a second.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);
/// Counters are read while the worker works: a picture between two of its steps does not add up. A quiet one comes
/// within a turn or two.
const QUIET_WITHIN: Duration = Duration::from_secs(2);

/// What instances with an embedded server differ in.
#[derive(Debug)]
pub(crate) struct Guarded<'a> {
    pub(crate) seed: u64,
    pub(crate) worker_core: usize,
    pub(crate) frames: u32,
    pub(crate) control: &'a Path,
    /// Lines of the transaction table's section, the service, its embedded server and its gate.
    pub(crate) transactions: &'a str,
    pub(crate) service: &'a str,
    pub(crate) embedded: &'a str,
    pub(crate) gate: &'a str,
}

impl Guarded<'_> {
    /// The configuration file. All callers have one address, as behind a trunk, so that its cap must not be that of a
    /// phone.
    pub(crate) fn configuration(&self) -> String {
        let Self { seed, worker_core, frames, transactions, service, embedded, gate, .. } = self;
        format!(
            "interface = \"{DEVICE}\"\n\
             seed = \"{seed:064x}\"\n\
             [workers]\n\
             cores = [{worker_core}]\n\
             [frames]\n\
             count = {frames}\n\
             [transactions]\n\
             {transactions}\
             [control]\n\
             socket = \"{control}\"\n\
             [service.{SERVICE_NAME}]\n\
             listen = \"{SERVICE}\"\n\
             handoff = \"embedded\"\n\
             {service}\
             [service.{SERVICE_NAME}.embedded]\n\
             {embedded}\
             [service.{SERVICE_NAME}.reply]\n\
             per_destination = 1000000\n\
             [service.{SERVICE_NAME}.gate]\n\
             {gate}",
            control = self.control.display(),
        )
    }
}

/// A running instance; killed when dropped.
#[derive(Debug)]
pub(crate) struct Instance {
    child: Child,
    control: PathBuf,
    log: PathBuf,
}

impl Instance {
    /// Starts it with the configuration that `configuration` writes for a control socket; see [`Self::wait_ready`].
    pub(crate) fn start(stage: &Stage, configuration: impl FnOnce(&Path) -> String) -> anyhow::Result<Self> {
        let [config, control, log] =
            ["sipweir.toml", "control.sock", "sipweir.log"].map(|name| stage.folder.file(name));
        fs::write(&config, configuration(&control)).context("cannot write the configuration")?;
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let output = File::create(&log).context("cannot write the log")?;
        let child = stage
            .server
            .command(&program)
            .args(["run", "--config"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(output.try_clone().context("cannot write the log")?)
            .stderr(output)
            // Ctrl-C goes to the terminal's foreground group; the instance is ended by the demo, in order.
            .process_group(0)
            .spawn()
            .context("cannot start `sipweir run`")?;
        Ok(Self { child, control, log })
    }

    /// Waits until it guards.
    pub(crate) fn wait_ready(&mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        while !self.control.exists() || self.status().is_err() {
            self.check_alive()?;
            if stop.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            if Instant::now() >= deadline {
                bail!("`sipweir run` is not ready after {READY_WITHIN:?}; it said:\n{}", self.said());
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        Ok(())
    }

    /// The picture of this moment.
    pub(crate) fn status(&self) -> anyhow::Result<Status> {
        Ok(control::ask_status(&self.control)?)
    }

    /// An error with its last words if it has ended.
    pub(crate) fn check_alive(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait().context("cannot wait for `sipweir run`")? {
            bail!("`sipweir run` ended with {status}; it said:\n{}", self.said());
        }
        Ok(())
    }

    /// A picture in which every message that was received is accounted for. The load must be over.
    pub(crate) fn conserved_status(&self) -> anyhow::Result<Status> {
        let deadline = Instant::now() + QUIET_WITHIN;
        loop {
            let status = self.status()?;
            let service = status.services.get(SERVICE_NAME).context("the status lacks the demo's service")?;
            let missing = unaccounted(service);
            if missing == 0 {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                bail!("{missing} messages are unaccounted for: {service:?}");
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Ends it and checks that it says all is well.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        // Not reaped yet, so the number is still this child's.
        rustix::process::kill_process(Pid::from_child(&self.child), Signal::TERM)
            .context("cannot end `sipweir run`")?;
        let deadline = Instant::now() + STOPPED_WITHIN;
        loop {
            if let Some(status) = self.child.try_wait().context("cannot wait for `sipweir run`")? {
                if status.success() {
                    return Ok(());
                }
                bail!("`sipweir run` ended with {status}; it said:\n{}", self.said());
            }
            if Instant::now() >= deadline {
                bail!("`sipweir run` still runs {STOPPED_WITHIN:?} after SIGTERM; it said:\n{}", self.said());
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// The end of its log.
    fn said(&self) -> String {
        const LINES: usize = 20;
        let log = String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Does nothing to a child that has ended.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Messages received that neither wait nor have an outcome; 0 at any quiet moment.
fn unaccounted(service: &status::Service) -> i64 {
    let sum = |counts: &BTreeMap<String, u64>| counts.values().sum::<u64>();
    let outcomes: u64 = service.outcomes.values().map(sum).sum();
    sum(&service.received).cast_signed() - (outcomes + service.waiting).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::unaccounted;
    use crate::status::Service;
    use std::collections::BTreeMap;

    #[test]
    fn what_was_received_waits_or_has_an_outcome() {
        let counts = |pairs: &[(&str, u64)]| -> BTreeMap<String, u64> {
            pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        let mut service = Service {
            waiting: 3,
            received: counts(&[("original", 10), ("ack", 4)]),
            outcomes: BTreeMap::from([
                ("original".to_owned(), counts(&[("handed_over", 5), ("rejected", 2)])),
                ("ack".to_owned(), counts(&[("handed_over", 4)])),
            ]),
            ..Default::default()
        };
        assert_eq!(unaccounted(&service), 0);
        service.waiting = 0;
        assert_eq!(unaccounted(&service), 3);
        service.waiting = 5;
        assert_eq!(unaccounted(&service), -2);
    }
}
