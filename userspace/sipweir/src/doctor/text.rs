//! The report as text: what needs a look first and in full, then what is fine in a line each.

use std::fmt::Write as _;

use super::finding::{Change, Finding, Level, Report};

/// Columns that text is broken at.
const WIDTH: usize = 100;

/// The report for a terminal or a log, without colours.
#[must_use]
pub fn report(report: &Report) -> String {
    let mut text = String::new();
    for level in [Level::Failure, Level::Warning, Level::Unknown] {
        for finding in report.findings.iter().filter(|finding| finding.level == level) {
            text.push_str(&self::finding(finding));
            text.push('\n');
        }
    }
    let names: Vec<&str> = report.findings.iter().map(|finding| finding.check).collect();
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    for finding in report.findings.iter().filter(|finding| finding.level == Level::Fine) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "fine     {:width$}  {}", finding.check, finding.what);
    }
    let place = match &report.interface {
        Some(interface) => interface.as_str(),
        None => "this host (no --interface or --config, so no interface was looked at)",
    };
    let verdict = match report.verdict {
        Level::Fine => "ready",
        Level::Unknown => "ready as far as one can see",
        Level::Warning => "will work, with warnings",
        Level::Failure => "sipweir will not work as it is",
    };
    let _ = writeln!(
        text,
        "\n{place}: {verdict} (failures: {}, warnings: {}, unknown: {}, fine: {})",
        report.count(Level::Failure),
        report.count(Level::Warning),
        report.count(Level::Unknown),
        report.count(Level::Fine)
    );
    text
}

/// One finding in full.
#[must_use]
pub fn finding(finding: &Finding) -> String {
    let mut text = format!("{:8} {}\n", finding.level.name(), finding.check);
    paragraph(&mut text, &finding.what);
    if !finding.why.is_empty() {
        paragraph(&mut text, &finding.why);
    }
    for change in &finding.change {
        match change {
            Change::Command(command) => lines(&mut text, "# ", command),
            Change::Configuration(configuration) => lines(&mut text, "configuration: ", configuration),
            Change::Advice(advice) => paragraph(&mut text, &format!("=> {advice}")),
        }
    }
    text
}

/// Not broken, so that they can be copied.
fn lines(text: &mut String, mark: &str, content: &str) {
    for line in content.lines() {
        let _ = writeln!(text, "         {mark}{line}");
    }
}

fn paragraph(text: &mut String, content: &str) {
    let mut column = 0;
    for word in content.split_whitespace() {
        if column > 0 && column + 1 + word.len() > WIDTH - 9 {
            text.push('\n');
            column = 0;
        }
        let separator = if column == 0 { "         " } else { " " };
        text.push_str(separator);
        text.push_str(word);
        column += word.len() + usize::from(column > 0);
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::report;
    use crate::doctor::finding::{Finding, Report};

    #[test]
    fn what_is_wrong_comes_first_and_commands_are_whole_lines() {
        let long = "word ".repeat(40);
        let findings = vec![
            Finding::fine("kernel.version", "Linux 6.18", "old ones cannot"),
            Finding::warning("offload.lro", long.trim(), "It merges packets.")
                .command("ethtool -K eth0 lro off")
                .configuration("[xdp]\nmode = \"generic\""),
            Finding::failure("interface.xdp_program", "another program is there", "One fits.")
                .advice("stop it"),
        ];
        let text = report(&Report::new(Some("eth0".into()), findings));
        let expected = "\
failure  interface.xdp_program
         another program is there
         One fits.
         => stop it

warning  offload.lro
         word word word word word word word word word word word word word word word word word word
         word word word word word word word word word word word word word word word word word word
         word word word word
         It merges packets.
         # ethtool -K eth0 lro off
         configuration: [xdp]
         configuration: mode = \"generic\"

fine     kernel.version         Linux 6.18

eth0: sipweir will not work as it is (failures: 1, warnings: 1, unknown: 0, fine: 1)
";
        assert_eq!(text, expected);
    }
}
