//! Processes that run beside a test and end with it.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::wait::POLL_INTERVAL;

/// Between being asked to end and being killed, when a test drops it. A process that needs longer has its own test.
const GRACE: Duration = Duration::from_secs(2);

/// A process in a process group of its own, its output in files.
///
/// Dropping it ends the group, the process and what it forked, and nothing else.
#[derive(Debug)]
pub struct Process {
    argv: String,
    child: Child,
    ended: Option<ExitStatus>,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Process {
    /// Starts it in `folder`, with its output in `NAME.stdout` and `NAME.stderr` there.
    ///
    /// # Panics
    /// If it cannot be started.
    #[track_caller]
    #[must_use]
    pub fn start<S: AsRef<str>>(name: &str, argv: &[S], folder: &Path) -> Self {
        let words: Vec<&str> = argv.iter().map(AsRef::as_ref).collect();
        let argv = words.join(" ");
        let stdout = folder.join(format!("{name}.stdout"));
        let stderr = folder.join(format!("{name}.stderr"));
        let file = |path: &Path| {
            File::create(path).unwrap_or_else(|error| panic!("cannot create {}: {error}", path.display()))
        };
        let child = Command::new(words[0])
            .args(&words[1..])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(file(&stdout))
            .stderr(file(&stderr))
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start `{argv}`: {error}"));
        Self { argv, child, ended: None, stdout, stderr }
    }

    /// Its process id. `ip netns exec` replaces itself, so this is the process that was asked for, in a namespace too.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    ///
    /// # Panics
    /// If the kernel does not know the process.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().unwrap_or_else(|error| panic!("`{}`: {error}", self.argv));
            if self.ended.is_some() {
                // Its children, if it left any. Only now: the group's number is ours for as long as one of it lives.
                self.signal_group(Signal::KILL);
            }
        }
        self.ended
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it still runs after `timeout`, with its output.
    #[track_caller]
    pub fn wait(&mut self, timeout: Duration) -> ExitStatus {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(Instant::now() < deadline, "still runs after {timeout:?}: {}", self.describe());
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Asks the process to end (SIGTERM) and waits.
    ///
    /// # Panics
    /// If it still runs after `timeout`, with its output.
    #[track_caller]
    pub fn terminate(&mut self, timeout: Duration) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait(timeout)
    }

    /// `kill -9`: the whole group, at once.
    pub fn kill(&mut self) {
        if self.ended.is_none() {
            self.signal_group(Signal::KILL);
            self.ended = self.child.wait().ok();
        }
    }

    /// Sends a signal to the process alone, not to what it forked.
    pub fn signal(&mut self, signal: Signal) {
        if self.ended.is_none() {
            // It may have ended in this moment. It is not reaped, so the number is not another's.
            let _ = kill_process(Pid::from_child(&self.child), signal);
        }
    }

    /// Command line, state and output so far, for messages.
    pub fn describe(&mut self) -> String {
        let state = self.ended().map_or_else(|| "running".to_owned(), |status| status.to_string());
        let (stdout, stderr) = (tail(&self.stdout), tail(&self.stderr));
        format!("`{}`: {state}\n--- stdout\n{stdout}\n--- stderr\n{stderr}", self.argv)
    }

    /// Its standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    /// Its standard output so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// Sends a signal to the process and to all that it forked.
    pub fn signal_group(&self, signal: Signal) {
        // Fails when the group is empty, which is what is wanted.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Asked first: a parent that ends by itself waits for its children, and a killed one leaves them as zombies where
        // process 1 does not reap.
        self.signal(Signal::TERM);
        let deadline = Instant::now() + GRACE;
        while self.ended().is_none() && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
        self.kill();
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

/// The end of a file, as much of it as one reads in a test's report.
fn tail(path: &Path) -> String {
    const BYTES: usize = 4000;
    let text = read(path);
    let mut start = text.len().saturating_sub(BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exists(pid: &str) -> bool {
        // A killed process that nobody has reaped yet is gone for our purpose.
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn dropping_a_process_ends_what_it_forked_too() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let process = Process::start("sh", &["sh", "-c", "sleep 60 & echo $!; wait"], folder.path());
        crate::wait_until("the shell names its child", Duration::from_secs(5), || {
            process.stdout().ends_with('\n')
        });
        let child = process.stdout().trim().to_owned();
        assert!(exists(&child));
        drop(process);
        crate::wait_until("the child is gone", Duration::from_secs(5), || !exists(&child));
    }

    #[test]
    fn terminate_returns_how_the_process_ended() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let script = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done";
        let mut process = Process::start("sh", &["sh", "-c", script], folder.path());
        crate::wait_until("the trap is set", Duration::from_secs(5), || process.stdout() == "ready\n");
        assert_eq!(process.terminate(Duration::from_secs(5)).code(), Some(7));
    }

    #[test]
    #[should_panic(expected = "still runs after")]
    fn waiting_for_a_process_is_bounded() {
        let folder = tempfile::tempdir().expect("temporary folder");
        Process::start("sleep", &["sleep", "60"], folder.path()).wait(Duration::from_millis(50));
    }
}
