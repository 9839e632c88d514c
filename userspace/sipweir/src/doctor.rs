//! `sipweir doctor`: whether the host is ready, and what to change where it is not.
//!
//! `read` collects facts, `check` turns them into findings without looking at the system, `text` prints them. `explain`
//! uses the same findings for a start that failed. Nothing on the host is changed.

pub mod check;
mod explain;
pub mod facts;
pub mod finding;
mod read;
pub mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::cli;
use crate::config::Config;
pub use explain::explain;
use facts::Wanted;
use finding::Report;

/// Call of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Network interface to look at; by default that of the configuration.
    #[arg(long, value_name = "IF")]
    interface: Option<String>,
    /// Configuration whose wishes count; without one, those of the defaults.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command: exit status 0 fine, 1 warnings or unknown, 2 it will not work (or the call is wrong).
pub(crate) fn main(args: &Args) -> ExitCode {
    let (interface, wanted) = match &args.config {
        None => (args.interface.clone(), Wanted::default()),
        Some(file) => match cli::usable(file) {
            Ok(config) => (
                Some(args.interface.clone().unwrap_or_else(|| config.interface.clone())),
                Wanted::of(&config),
            ),
            Err(error) => return cli::fail(cli::USAGE, &*error),
        },
    };
    let report = examine(interface.as_deref(), &wanted);
    let printed = if args.json { cli::print_json(&report) } else { cli::print_text(&text::report(&report)) };
    match printed {
        Ok(()) => ExitCode::from(report.exit_status),
        Err(error) => cli::environment(Err(error)),
    }
}

/// Reads the facts and judges them.
#[must_use]
pub fn examine(interface: Option<&str>, wanted: &Wanted) -> Report {
    let facts = read::facts(interface);
    Report::new(interface.map(str::to_owned), check::diagnose(&facts, wanted))
}

/// What a start that failed with this error has to do with the host, as text; empty if the doctor has nothing to add.
#[must_use]
pub fn consult(error: &anyhow::Error, config: &Config) -> String {
    let checks = explain(error);
    if checks.is_empty() {
        return String::new();
    }
    let report = examine(Some(&config.interface), &Wanted::of(config));
    let found = report.findings.iter().filter(|finding| checks.contains(&finding.check));
    found.filter(|finding| finding.level != finding::Level::Fine).map(text::finding).collect()
}
