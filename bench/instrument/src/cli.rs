//! The command line: which scenarios, how long, and where the results go.

use std::fs::File;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    let scenarios = chosen(scenario::all()?, &arguments.only, arguments.quick)?;
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
    let go_on = || -> anyhow::Result<()> {
        ensure!(!stop.load(Ordering::Relaxed), "interrupted");
        Ok(())
    };
    for scenario in &scenarios {
        println!("# {}: {}", scenario.name, scenario.what);
        let scenario_begin = Instant::now();
        // A stage of its own: no scenario finds what another has left.
        let room = || -> anyhow::Result<Room<'_>> {
            Ok(Room {
                stage: Stage::set_up(scenario.queues)?,
                programs: &programs,
                quick: arguments.quick,
                stop: Arc::clone(&stop),
            })
        };
        match caught(|| room()?.measure(scenario)) {
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
                go_on()?;
                eprintln!("{}: {error:#}", scenario.name);
                failed.push(scenario.name.as_str());
            }
        }
        go_on()?;
    }
    report.seconds = begin.elapsed().as_secs_f64();

    if let Some(json) = json {
        json.write(&report.json()?)?;
    }
    if let Some(html) = html {
        html.write(&page(&report))?;
    }
    ensure!(failed.is_empty(), "not measured: {}", failed.join(", "));
    if let Some(folder) = &arguments.record {
        println!("kept: {}", keep(&report, folder)?.display());
    }
    println!("{:.0} s", report.seconds);
    Ok(())
}

/// The tests' furniture (namespaces, processes) panics where it fails, when it is made and when it is taken down, too. What
/// it holds undoes itself on the way, and the other scenarios can still be measured.
fn caught(work: impl FnOnce() -> anyhow::Result<Found>) -> anyhow::Result<Found> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        bail!("{}", text.unwrap_or("it has panicked"))
    })
}

/// The scenarios of these names, or all that belong to such a run.
fn chosen(all: Vec<Scenario>, names: &[String], quick: bool) -> anyhow::Result<Vec<Scenario>> {
    let unknown = names.iter().find(|name| all.iter().all(|scenario| scenario.name != **name));
    let known: Vec<&str> = all.iter().map(|scenario| scenario.name.as_str()).collect();
    ensure!(
        unknown.is_none(),
        "--only {}: the scenarios are {}",
        unknown.map_or("", |n| n),
        known.join(", ")
    );
    let is_chosen = |scenario: &Scenario| match names {
        [] => !(quick && scenario.only_full),
        names => names.contains(&scenario.name),
    };
    Ok(all.into_iter().filter(is_chosen).collect())
}

/// A file to be written at the end; one that never is leaves nothing behind.
struct Output<'a> {
    file: File,
    path: &'a Path,
    is_written: bool,
}

fn create(path: &Path) -> anyhow::Result<Output<'_>> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    Ok(Output { file, path, is_written: false })
}

impl Output<'_> {
    fn write(mut self, text: &str) -> anyhow::Result<()> {
        self.is_written = true;
        self.file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        if !self.is_written && self.file.metadata().is_ok_and(|found| found.is_file()) {
            let _removed = std::fs::remove_file(self.path);
        }
    }
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
    use super::{caught, chosen, create};
    use crate::scenario;

    #[test]
    fn a_panic_of_the_furniture_is_an_error_with_its_words() {
        let error = caught(|| panic!("no namespace {}", 7)).expect_err("an error").to_string();
        assert_eq!(error, "no namespace 7");
    }

    #[test]
    fn a_file_that_is_never_written_is_not_left_behind() {
        let path = std::env::temp_dir().join(format!("sipweir-bench-{}.json", std::process::id()));
        drop(create(&path).expect("writable"));
        assert!(!path.exists());
        create(&path).expect("writable").write("{}").expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "{}");
        std::fs::remove_file(&path).expect("removed");
        assert!(create(std::path::Path::new("/nonexistent/x")).is_err());
    }

    #[test]
    fn scenarios_are_chosen_by_name_and_an_unknown_one_is_refused_with_the_known() {
        let all = || scenario::all().expect("all can be read");
        assert_eq!(chosen(all(), &[], false).expect("all").len(), all().len());
        let one = chosen(all(), &["drain".to_owned()], true).expect("one");
        assert_eq!((one.len(), one[0].name.as_str()), (1, "drain"));
        let error = chosen(all(), &["drian".to_owned()], false).expect_err("unknown").to_string();
        assert!(error.contains("drian") && error.contains("shed_original"), "{error}");
    }

    #[test]
    fn a_quick_run_leaves_the_long_scenarios_out_unless_they_are_named() {
        let all = || scenario::all().expect("all can be read");
        let quick = chosen(all(), &[], true).expect("some");
        assert!(quick.iter().all(|scenario| !scenario.only_full) && quick.len() < all().len());
        assert_eq!(chosen(all(), &["table".to_owned()], true).expect("one").len(), 1);
    }
}
