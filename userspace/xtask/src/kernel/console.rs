//! What the booted machine wrote to its serial console, as `init.sh` writes it.

use anyhow::{Result, bail};

/// Begins each line that is for this program.
const MARK: &str = "xtask: ";
/// Begins the last line of a test binary.
const RESULT: &str = "test result: ";

/// What the console says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// The kernel's release, if init came that far.
    pub(crate) kernel: Option<String>,
    /// Each test binary that was begun, in the order of their runs.
    pub(crate) tests: Vec<Test>,
    /// Whether init reached its end.
    pub(crate) ended: bool,
}

/// One test binary.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Test {
    pub(crate) name: String,
    /// How many passed and failed, in its own words.
    pub(crate) result: Option<String>,
    /// What it exited with, as the shell tells it.
    pub(crate) status: Option<i32>,
}

impl Report {
    /// Reads a console. What is not for this program is passed over.
    pub(crate) fn parse(console: &str) -> Self {
        let mut report = Self::default();
        for line in console.lines().map(str::trim_end) {
            if let Some(result) = line.strip_prefix(RESULT) {
                if let Some(test) = report.tests.last_mut() {
                    test.result = Some(result.to_owned());
                }
                continue;
            }
            let Some(words) = line.strip_prefix(MARK) else { continue };
            match *words.split(' ').collect::<Vec<_>>() {
                ["kernel", release] => report.kernel = Some(release.to_owned()),
                ["begin", name] => report.tests.push(Test { name: name.to_owned(), ..Test::default() }),
                ["exit", name, status] => {
                    if let Some(test) = report.tests.last_mut().filter(|test| test.name == name) {
                        test.status = status.parse().ok();
                    }
                }
                ["end"] => report.ended = true,
                _ => {}
            }
        }
        report
    }

    /// Whether exactly these test binaries ran and passed.
    ///
    /// # Errors
    /// Says what is missing or failed.
    pub(crate) fn check(&self, names: &[&str]) -> Result<()> {
        if self.kernel.is_none() {
            bail!("the machine did not boot");
        }
        if let Some(test) = self.tests.iter().find(|test| test.status.is_none()) {
            bail!("`{}` did not end", test.name);
        }
        let failed = |test: &&Test| test.status != Some(0) || test.result.is_none();
        let failed: Vec<&str> = self.tests.iter().filter(failed).map(|test| test.name.as_str()).collect();
        if !failed.is_empty() {
            bail!("failed: {}", failed.join(", "));
        }
        if let Some(name) = names.iter().find(|name| self.tests.iter().all(|test| test.name != **name)) {
            bail!("`{name}` was not run");
        }
        if !self.ended {
            bail!("the machine stopped before its end mark");
        }
        Ok(())
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "Linux {}", self.kernel.as_deref().unwrap_or("that did not boot"))?;
        for test in &self.tests {
            writeln!(f, "{}: {}", test.name, test.result.as_deref().unwrap_or("no result"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\x1b[cSeaBIOS\r\n\x1b[2J\r\nxtask: kernel 6.1.0-57-cloud-amd64\r\nxtask: begin gate\r\n\r\n\
        running 1 test\r\ntest a ... ok\r\n\r\ntest result: ok. 1 passed; 0 failed\r\n\r\nxtask: exit gate 0\r\n\
        xtask: begin sweeps\r\ntest result: ok. 2 passed; 0 failed\r\nxtask: exit sweeps 0\r\nxtask: end\r\n\
        [   83.376399] reboot: Power down\r\n";

    fn refusal(console: &str) -> String {
        Report::parse(console).check(&["sweeps", "gate"]).expect_err("refused").to_string()
    }

    #[test]
    fn a_good_run_is_read_and_shown() {
        let report = Report::parse(GOOD);
        report.check(&["sweeps", "gate"]).expect("all passed");
        assert_eq!(
            report.to_string(),
            "Linux 6.1.0-57-cloud-amd64\ngate: ok. 1 passed; 0 failed\nsweeps: ok. 2 passed; 0 failed\n"
        );
    }

    #[test]
    fn whatever_is_not_good_is_refused() {
        let cases = [
            (String::new(), "the machine did not boot"),
            (GOOD.replace("exit gate 0", "exit gate 101"), "failed: gate"),
            (GOOD.replace("exit gate 0", "exit gate"), "`gate` did not end"),
            (GOOD.replace("exit gate 0", "exit gaze 0"), "`gate` did not end"),
            (GOOD.replace("test result: ok. 2", ""), "failed: sweeps"),
            (GOOD.replace(" sweeps", " others"), "`sweeps` was not run"),
            (GOOD.replace("xtask: end", ""), "the machine stopped before its end mark"),
        ];
        for (console, expected) in cases {
            assert_eq!(refusal(&console), expected);
        }
    }

    #[test]
    fn a_console_cut_anywhere_is_refused() {
        let end = GOOD.find("xtask: end").expect("end mark") + "xtask: end".len();
        for length in 0..end {
            assert!(Report::parse(&GOOD[..length]).check(&["gate", "sweeps"]).is_err(), "{length}");
        }
    }
}
