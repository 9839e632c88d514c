//! What the doctor says: findings, and the report that they make.
//!
//! The JSON form is what these types serialise to. It is stable: names of checks, levels and keys are changed by adding,
//! and `version` grows when something is taken away. docs/operations.md has the list of checks.

use serde::Serialize;

/// How good a finding is, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Nothing to change.
    Fine,
    /// It could not be read, so nobody knows; counts as a warning.
    Unknown,
    /// It will work, but worse than it could, or only until something happens.
    Warning,
    /// It will not work.
    Failure,
}

impl Level {
    /// The word in front of a finding.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
    }
}

/// Something that changes what was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A command line for a root shell, complete.
    Command(String),
    /// Lines of sipweir's configuration.
    Configuration(String),
    /// What no command does: another kernel, a boot parameter, a choice.
    Advice(String),
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the check, such as `offload.lro`.
    pub check: &'static str,
    /// How good it is.
    pub level: Level,
    /// What was found.
    pub what: String,
    /// Why it matters.
    pub why: String,
    /// What changes it, in order; empty if nothing needs to change.
    pub change: Vec<Change>,
}

impl Finding {
    fn new(check: &'static str, level: Level, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { check, level, what: what.into(), why: why.into(), change: Vec::new() }
    }

    /// Nothing to change.
    pub fn fine(check: &'static str, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(check, Level::Fine, what, why)
    }

    /// It could not be read.
    pub fn unknown(check: &'static str, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(check, Level::Unknown, what, why)
    }

    /// Worse than it could be.
    pub fn warning(check: &'static str, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(check, Level::Warning, what, why)
    }

    /// Will not work.
    pub fn failure(check: &'static str, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(check, Level::Failure, what, why)
    }

    /// The same with a command that changes it.
    #[must_use]
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.change.push(Change::Command(command.into()));
        self
    }

    /// The same with lines of the configuration that change it.
    #[must_use]
    pub fn configuration(mut self, lines: impl Into<String>) -> Self {
        self.change.push(Change::Configuration(lines.into()));
        self
    }

    /// The same with what to do where no command helps.
    #[must_use]
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.change.push(Change::Advice(advice.into()));
        self
    }
}

/// All findings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Of this form.
    pub version: u32,
    /// The interface that was looked at; `None`: the host alone.
    pub interface: Option<String>,
    /// The worst level.
    pub verdict: Level,
    /// What the command ends with: 0 fine, 1 warnings or unknown, 2 it will not work.
    pub exit_status: u8,
    /// In the order in which they were looked at.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Sums up.
    #[must_use]
    pub fn new(interface: Option<String>, findings: Vec<Finding>) -> Self {
        let verdict = findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Fine);
        let exit_status = match verdict {
            Level::Fine => 0,
            Level::Unknown | Level::Warning => 1,
            Level::Failure => 2,
        };
        Self { version: 1, interface, verdict, exit_status, findings }
    }

    /// How many findings have this level.
    #[must_use]
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Finding, Level, Report};

    #[test]
    fn the_worst_finding_decides_and_unknown_is_never_fine() {
        let status = |findings: &[Finding]| Report::new(None, findings.to_vec()).exit_status;
        let fine = Finding::fine("a", "", "");
        assert_eq!(status(&[]), 0);
        assert_eq!(status(std::slice::from_ref(&fine)), 0);
        assert_eq!(status(&[Finding::unknown("b", "", ""), fine.clone()]), 1);
        assert_eq!(status(&[fine.clone(), Finding::warning("b", "", "")]), 1);
        assert_eq!(status(&[Finding::failure("b", "", ""), Finding::warning("c", "", ""), fine]), 2);
    }

    #[test]
    fn the_json_form_is_the_documented_one() {
        let finding = Finding::warning("offload.lro", "it is on", "it merges")
            .command("ethtool -K eth0 lro off")
            .configuration("xdp.mode = \"generic\"")
            .advice("or not");
        assert_eq!(finding.change[0], Change::Command("ethtool -K eth0 lro off".into()));
        let report = Report::new(Some("eth0".into()), vec![finding]);
        let expected = serde_json::json!({
            "version": 1,
            "interface": "eth0",
            "verdict": "warning",
            "exit_status": 1,
            "findings": [{
                "check": "offload.lro",
                "level": "warning",
                "what": "it is on",
                "why": "it merges",
                "change": [
                    {"command": "ethtool -K eth0 lro off"},
                    {"configuration": "xdp.mode = \"generic\""},
                    {"advice": "or not"},
                ],
            }],
        });
        assert_eq!(serde_json::to_value(&report).expect("JSON"), expected);
        assert_eq!(report.count(Level::Warning), 1);
    }
}
