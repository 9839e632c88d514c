//! `sipweir simulate`: runs a plan of the event simulation and shows what came of it.
//!
//! The simulation is `model::simulate` over the gates and the waiting line that run live; plans are read by `model::plan`.
//! Here: what the command is called with, progress, and the four forms of the results: `table` on standard output, `export` CSV and
//! JSON, `html` the page.

mod export;
mod html;
mod table;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use model::plan::{Plan, Progress, RunResult, execute};

use crate::page::Output;

/// What the command is called with.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Plan to run; those of the literature's scenarios are in userspace/model/plans.
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Replications of each run, instead of the plan's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    seeds: Option<u32>,
    /// Write a page with tables and plots.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the results as JSON; without FILE to standard output, instead of the tables.
    #[arg(long, value_name = "FILE")]
    json: Option<Option<PathBuf>>,
    /// Write the results as CSV, one line for each measure.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Replications at a time.
    #[arg(long, value_name = "N", default_value_t = cores(), value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
}

fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(1))
}

/// A plan and what came of it.
#[derive(Debug)]
struct Report {
    /// The plan's file, as it was given.
    file: String,
    plan: Plan,
    results: Vec<RunResult>,
}

/// Makes a file's content of a report.
type Form = fn(&Report) -> anyhow::Result<String>;

/// Runs the command.
#[must_use]
pub fn main(args: &Args) -> ExitCode {
    match read(&args.plan, args.seeds) {
        Err(error) => crate::cli::fail(crate::cli::USAGE, &*error),
        Ok(plan) => crate::cli::environment(simulate(args, plan)),
    }
}

fn read(file: &Path, seeds: Option<u32>) -> Result<Plan, Box<dyn std::error::Error>> {
    let shown = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("cannot read {shown}: {error}; plans are in userspace/model/plans"))?;
    let plan = Plan::parse(&text).map_err(|error| format!("{shown}: {error}"))?;
    match seeds {
        None => Ok(plan),
        Some(seeds) => plan.with_seeds(seeds as usize).map_err(|error| format!("--seeds: {error}").into()),
    }
}

fn simulate(args: &Args, plan: Plan) -> anyhow::Result<()> {
    let open = |path: Option<&PathBuf>| path.map(|path| Output::open(path)).transpose();
    let json = args.json.as_ref().and_then(Option::as_ref);
    let (html, json, csv) = (open(args.html.as_ref())?, open(json)?, open(args.csv.as_ref())?);
    let begin = Instant::now();
    let results = execute(&plan, args.threads as usize, |progress| show(&progress, begin))
        .context("the plan was checked, and yet")?;
    finish_progress(begin);
    let report = Report { file: args.plan.display().to_string(), plan, results };
    let printed = if args.json == Some(None) { export::json(&report)? } else { table::text(&report) };
    crate::cli::print_text(&printed)?;
    let forms: [(Option<Output>, Form); 3] = [
        (html, |report| Ok(html::page(report))),
        (json, export::json),
        (csv, |report| Ok(export::csv(report))),
    ];
    for (output, content) in forms {
        if let Some(output) = output {
            eprintln!("written: {}", output.write(&content(&report)?)?);
        }
    }
    Ok(())
}

/// A line on standard error, rewritten in place on a terminal; elsewhere one line for each run.
fn show(progress: &Progress<'_>, begin: Instant) {
    let run = progress.run;
    let terminal = std::io::stderr().is_terminal();
    let chosen: Vec<String> = run.parameters.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    let text = format!("{} {}", run.mechanism, chosen.join(", "));
    let (done, all, spent_s) = (progress.done, progress.all, begin.elapsed().as_secs());
    // A terminal that is gone is no reason to stop.
    let _shown = if terminal {
        let mut stderr = std::io::stderr().lock();
        // Without wrapping: a line that is cut can be rewritten, one that is broken cannot.
        write!(stderr, "\r\x1b[2K\x1b[?7l[{done}/{all}] {spent_s} s  {text}\x1b[?7h")
            .and_then(|()| stderr.flush())
    } else if progress.begins {
        writeln!(std::io::stderr(), "[{done}/{all}] {spent_s} s  {text}")
    } else {
        Ok(())
    };
}

fn finish_progress(begin: Instant) {
    let spent_s = begin.elapsed().as_secs_f64();
    let lead = if std::io::stderr().is_terminal() { "\r\x1b[2K" } else { "" };
    eprintln!("{lead}done in {spent_s:.1} s");
}

#[cfg(test)]
mod tests {
    use std::fs;

    use model::plan::Plan;
    use overload::{GateConfig, HystereticConfig, RandomConfig};

    use super::read;
    use crate::config::{Gate, GateKind};

    const PLAN: &str = "title = \"x\"\n[source.callers]\nrate_per_s = 1\nto = \"server\"\n[node.server]\nrate_per_s = 1\n\
                        [mechanism.one]\nroom = 5000\n[mechanism.one.gate]\n";

    #[test]
    fn a_gate_table_means_the_same_in_a_plan_and_in_the_configuration() {
        for table in [
            "kind = \"hysteretic\"\nlow = 74\nhigh = 85\nbuffer = 100\nadmit = 0.5\n",
            "kind = \"hysteretic\"\nlow = \"200ms\"\nhigh = \"0.25s\"\nbuffer = \"350ms\"\nadmit = 1\n",
            "kind = \"random\"\nlow = 25\nhigh = 80\nbuffer = 100\nweight = 0.4\ninitial_probability = 0.2\n",
            "kind = \"tail_drop\"\nbuffer = 700\n",
            "kind = \"fifo\"\nbuffer = \"350ms\"\n",
        ] {
            let configured: Gate = toml::from_str(table).expect("a gate of the configuration");
            let buffer = configured.buffer.0;
            let expected = match configured.kind {
                GateKind::Hysteretic => GateConfig::Hysteretic(HystereticConfig {
                    admit_below: configured.low.0,
                    shed_at: configured.high.0,
                    discard_at: buffer,
                    share: configured.admit,
                }),
                GateKind::Random => GateConfig::Random(RandomConfig {
                    low: configured.low.0,
                    high: configured.high.0,
                    buffer,
                    weight: configured.weight,
                    initial_probability: configured.initial_probability,
                }),
                GateKind::TailDrop => GateConfig::TailDrop { buffer },
                GateKind::Fifo => GateConfig::Fifo { buffer },
            };
            let plan = Plan::parse(&format!("{PLAN}{table}")).expect("a plan");
            assert_eq!(plan.runs[0].scenario.nodes[0].gate, expected, "{table}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_plan_is_said_with_file_and_key() {
        let error = read("/nonexistent.toml".as_ref(), None).expect_err("no such file").to_string();
        assert!(error.contains("cannot read /nonexistent.toml"), "{error}");
        let file = std::env::temp_dir().join(format!("sipweir-plan-{}.toml", std::process::id()));
        fs::write(&file, format!("{PLAN}kind = \"fifo\"\nbuffer = 0\n")).expect("write");
        let error = read(&file, None).expect_err("buffer 0").to_string();
        fs::write(&file, format!("{PLAN}kind = \"fifo\"\nbuffer = 9\n")).expect("write");
        let plan = read(&file, Some(3)).expect("a plan");
        fs::remove_file(&file).expect("remove");
        assert!(error.contains(&format!("{}: node.server.gate", file.display())), "{error}");
        assert!(error.contains("buffer is 0; it must be above 0"), "{error}");
        assert_eq!(plan.seeds, 3);
    }
}
