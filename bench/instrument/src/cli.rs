//! The command line: which scenarios, how long, and where the results go.

use std::fs::File;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use clap::Parser;

use crate::measure::{Found, Room};
use crate::report::{Machine, Report, keep, page};
use crate::rival::programs::Programs;
use crate::scenario::{self, Scenario};
use crate::stage::Stage;

/// Measures sipweir against the bare kernel and against what would run instead, in namespaces of its own.
#[derive(Debug, Parser)]
#[command(name = "sipweir-bench")]
struct Arguments {
    /// Few and short rounds: ends within 50 seconds.
    #[arg(long)]
    quick: bool,
    /// Only these scenarios, by name; may be repeated.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Write the report as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as a page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Keep the report in this folder, by its date.
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
}

/// The program. Exit status 1: a scenario could not be measured, or has measured something else than it says. Targets are
/// shown, and judged by nobody.
#[must_use]
pub fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sipweir-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "the bench makes network namespaces and loads BPF programs: run it as root"
    );
    let scenarios = chosen(scenario::all()?, &arguments.only)?;
    let stop = catch_signals()?;
    // Opened first: a run of minutes must not end at a folder that is not there.
    let json = arguments.json.as_deref().map(create).transpose()?;
    let html = arguments.html.as_deref().map(create).transpose()?;
    let begin = Instant::now();
    let mut report = Report::new(Machine::read(), arguments.quick, &scenarios);
    let mut failed = Vec::new();

    println!("{}", Report::header());
    // The error says it all.
    set_hook(Box::new(|_| {}));
    let programs = Programs::load()?;
    for scenario in &scenarios {
        // A stage of its own: no scenario finds what another has left.
        let room = Room {
            stage: Stage::set_up()?,
            programs: &programs,
            quick: arguments.quick,
            stop: Arc::clone(&stop),
        };
        println!("# {}: {}", scenario.name, scenario.what);
        let scenario_begin = Instant::now();
        match measured(&room, scenario) {
            Ok(mut found) => {
                found.details.note("seconds", scenario_begin.elapsed().as_secs_f64());
                for row in found.rows {
                    println!("{}", report.line(&row));
                    report.rows.push(row);
                }
                report.details.insert(scenario.name.clone(), found.details);
            }
            Err(error) => {
                // After a signal, whatever went wrong is of no interest.
                room.go_on()?;
                eprintln!("{}: {error:#}", scenario.name);
                failed.push(scenario.name.as_str());
            }
        }
        room.go_on()?;
    }
    report.seconds = begin.elapsed().as_secs_f64();

    if let Some((mut file, path)) = json {
        file.write_all(report.json()?.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some((mut file, path)) = html {
        file.write_all(page(&report).as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    ensure!(failed.is_empty(), "not measured: {}", failed.join(", "));
    if let Some(folder) = &arguments.record {
        println!("kept: {}", keep(&report, folder)?.display());
    }
    println!("{:.0} s", report.seconds);
    Ok(())
}

/// The tests' furniture (namespaces, processes) panics where it fails. What it holds undoes itself on the way, and the other
/// scenarios can still be measured.
fn measured(room: &Room<'_>, scenario: &Scenario) -> anyhow::Result<Found> {
    catch_unwind(AssertUnwindSafe(|| room.measure(scenario))).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        bail!("{}", text.unwrap_or("it has panicked"))
    })
}

/// The scenarios of these names, or all.
fn chosen(all: Vec<Scenario>, names: &[String]) -> anyhow::Result<Vec<Scenario>> {
    let unknown = names.iter().find(|name| all.iter().all(|scenario| scenario.name != **name));
    let known: Vec<&str> = all.iter().map(|scenario| scenario.name.as_str()).collect();
    ensure!(
        unknown.is_none(),
        "--only {}: the scenarios are {}",
        unknown.map_or("", |n| n),
        known.join(", ")
    );
    Ok(all.into_iter().filter(|scenario| names.is_empty() || names.contains(&scenario.name)).collect())
}

fn create(path: &Path) -> anyhow::Result<(File, &Path)> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    Ok((file, path))
}

/// A flag that is set by Ctrl-C, SIGTERM or a terminal that goes away; it is looked at between two measurements.
fn catch_signals() -> anyhow::Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot catch signals")?;
    }
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use super::chosen;
    use crate::scenario;

    #[test]
    fn scenarios_are_chosen_by_name_and_an_unknown_one_is_refused_with_the_known() {
        let all = || scenario::all().expect("all can be read");
        assert_eq!(chosen(all(), &[]).expect("all").len(), all().len());
        let one = chosen(all(), &["drain".to_owned()]).expect("one");
        assert_eq!((one.len(), one[0].name.as_str()), (1, "drain"));
        let error = chosen(all(), &["drian".to_owned()]).expect_err("unknown").to_string();
        assert!(error.contains("drian") && error.contains("shed_original"), "{error}");
    }
}
