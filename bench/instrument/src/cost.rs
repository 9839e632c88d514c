//! What a process and all that it forked have used: CPU time, memory, wake-ups.

use std::fs;

use anyhow::Context as _;
use serde::Serialize;

/// A reading of counters that only grow, and of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Usage {
    /// On a CPU, nanoseconds (the scheduler's own account, not ticks).
    pub(crate) task_clock_ns: u64,
    /// Times that it went to sleep by itself and was woken.
    pub(crate) wake_ups: u64,
    /// Resident memory.
    pub(crate) resident_kib: u64,
}

impl Usage {
    /// Of all processes of that process group: a process that was started as its leader, and what it forked.
    pub(crate) fn of_group(leader: u32) -> anyhow::Result<Self> {
        let mut sum = Self::default();
        for entry in fs::read_dir("/proc").context("cannot read /proc")? {
            let name = entry.context("cannot read /proc")?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            // It may have ended since.
            let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
            if group_of(&stat) == Some(leader) {
                sum = sum.plus(&Self::of_process(pid).unwrap_or_default());
            }
        }
        anyhow::ensure!(sum.resident_kib > 0, "there is no process of group {leader} (any more)");
        Ok(sum)
    }

    fn of_process(pid: u32) -> Option<Self> {
        let mut sum = Self::default();
        for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
            let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
            sum.task_clock_ns += ran_ns(&read("schedstat")).unwrap_or(0);
            sum.wake_ups += field(&read("status"), "voluntary_ctxt_switches:").unwrap_or(0);
        }
        sum.resident_kib =
            field(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmRSS:").unwrap_or(0);
        Some(sum)
    }

    fn plus(&self, other: &Self) -> Self {
        Self {
            task_clock_ns: self.task_clock_ns + other.task_clock_ns,
            wake_ups: self.wake_ups + other.wake_ups,
            resident_kib: self.resident_kib + other.resident_kib,
        }
    }

    /// What was used since an earlier reading; memory as it is now.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            task_clock_ns: self.task_clock_ns.saturating_sub(earlier.task_clock_ns),
            wake_ups: self.wake_ups.saturating_sub(earlier.wake_ups),
            resident_kib: self.resident_kib,
        }
    }
}

/// CPU time of the threads of a process whose name begins so, nanoseconds.
pub(crate) fn task_clock_ns_of_threads(pid: u32, prefix: &str) -> anyhow::Result<u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).with_context(|| format!("no process {pid}"))?;
    let clocks: Vec<u64> = tasks
        .flatten()
        .filter(|task| {
            fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with(prefix))
        })
        .filter_map(|task| ran_ns(&fs::read_to_string(task.path().join("schedstat")).ok()?))
        .collect();
    anyhow::ensure!(!clocks.is_empty(), "process {pid} has no thread {prefix}…");
    Ok(clocks.iter().sum())
}

/// The first number of `schedstat`: nanoseconds on a CPU.
fn ran_ns(schedstat: &str) -> Option<u64> {
    schedstat.split(' ').next()?.parse().ok()
}

/// The process group in `/proc/PID/stat`: the third field behind the name, which may hold anything but ends with the
/// last bracket.
fn group_of(stat: &str) -> Option<u32> {
    stat.rsplit_once(") ")?.1.split(' ').nth(2)?.parse().ok()
}

fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Usage, field, group_of, ran_ns, task_clock_ns_of_threads};

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_hide_the_group() {
        assert_eq!(group_of("12 (a) b (c) S 1 77 77 0"), Some(77));
        assert_eq!(group_of("12 no brackets"), None);
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let status = "nonvoluntary_ctxt_switches:\t9\nVmRSS:\t  123 kB\nvoluntary_ctxt_switches:\t4\n";
        assert_eq!(field(status, "voluntary_ctxt_switches:"), Some(4));
        assert_eq!(field(status, "VmRSS:"), Some(123));
        assert_eq!(field(status, "VmHWM:"), None);
    }

    #[test]
    fn threads_are_told_by_their_names() {
        assert_eq!(ran_ns("123 4 5\n"), Some(123));
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("diligent-1".to_owned()).spawn(move || {
            let begin = std::time::Instant::now();
            while begin.elapsed().as_millis() < 20 {
                std::hint::spin_loop();
            }
            go.send(()).expect("somebody waits");
            std::thread::park();
        });
        let thread = thread.expect("a thread");
        wait.recv().expect("it has worked");
        let ns = task_clock_ns_of_threads(std::process::id(), "diligent-").expect("it is there");
        thread.thread().unpark();
        thread.join().expect("ended");
        // Others may have had the core meanwhile.
        assert!((1_000_000..1_000_000_000).contains(&ns), "{ns}");
        assert!(task_clock_ns_of_threads(std::process::id(), "lazy-").is_err());
    }

    #[test]
    fn work_of_a_forked_process_is_its_group_s() {
        use std::os::unix::process::CommandExt as _;
        let mut leader = std::process::Command::new("sh")
            .args(["-c", "(i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; sleep 60) & wait"])
            .process_group(0)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut line = String::new();
        let stdout = leader.stdout.take().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("a line");
        let usage = Usage::of_group(leader.id());
        let group = rustix::process::Pid::from_child(&leader);
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).expect("ours");
        leader.wait().expect("ended");
        let usage = usage.expect("it lives");
        assert!(usage.task_clock_ns > 10_000_000, "{usage:?}");
        assert!(usage.resident_kib > 500, "{usage:?}");
    }
}
