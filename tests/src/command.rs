//! Commands that are run to their end.

use std::fmt;
use std::process::{Command, ExitStatus};

/// What a command that ended left behind.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The command line, for messages.
    pub argv: Vec<String>,
    /// How it ended.
    pub status: ExitStatus,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
}

impl Finished {
    /// Its standard output, if it succeeded.
    ///
    /// # Panics
    /// If it failed, with command line and both streams.
    #[track_caller]
    #[must_use]
    pub fn expect_success(self) -> String {
        assert!(self.status.success(), "{self}");
        self.stdout
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { argv, status, stdout, stderr } = self;
        write!(f, "`{}`: {status}\n--- stdout\n{stdout}\n--- stderr\n{stderr}", argv.join(" "))
    }
}

/// Runs a command to its end, whatever its exit status.
///
/// # Panics
/// If it cannot be started.
#[track_caller]
#[must_use]
pub fn finish<S: AsRef<str>>(argv: &[S]) -> Finished {
    let argv: Vec<String> = argv.iter().map(|word| word.as_ref().to_owned()).collect();
    let output = Command::new(&argv[0])
        .args(&argv[1..])
        .output()
        .unwrap_or_else(|error| panic!("cannot start `{}`: {error}", argv.join(" ")));
    Finished {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        argv,
    }
}

/// Runs a command that must succeed and gives its standard output.
///
/// # Panics
/// If it cannot be started or fails, with command line and both streams.
#[track_caller]
pub fn run<S: AsRef<str>>(argv: &[S]) -> String {
    finish(argv).expect_success()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_a_command_that_succeeds_is_returned() {
        assert_eq!(run(&["echo", "a", "b"]), "a b\n");
    }

    #[test]
    fn a_failure_shows_command_line_status_and_both_streams() {
        let shown = finish(&["sh", "-c", "echo on-out; echo on-err >&2; exit 3"]).to_string();
        for part in ["`sh -c", "exit status: 3", "on-out", "on-err"] {
            assert!(shown.contains(part), "{part:?} is missing in {shown}");
        }
    }
}
