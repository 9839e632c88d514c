//! `sipweir demo`: the main job, shown on a server of known capacity, on this machine, within minutes.
//!
//! ```text
//!  namespace swdemo-client-PID              namespace swdemo-server-PID
//!  ┌───────────────────────┐     veth      ┌────────────────────────────────────────────┐
//!  │ caller (bench), core 0├───────────────┤ sipweir run, last core ── embedded server  │
//!  └───────────────────────┘ sw0       sw0 └────────────────────────────────────────────┘
//!         thread of this process                     child process per run
//! ```
//!
//! Every pair of policy and load is one run against a fresh instance of this very program, so what is shown
//! is what `sipweir run` does. All that is made (namespaces, child, files) is held by guards and gone on
//! every way out; what a killed demo left is removed by the next one.
//!
//! In the order in which a reader meets them: `plan` what is run, `stage` the two namespaces, `instance` the
//! child, `take` one run, `row` what is counted, `report` table and JSON, `html` the page.
//!
//! Deliberately absent: judgement by exit status. The demo shows numbers; tests judge them.

mod environment;
mod html;
pub(crate) mod instance;
pub(crate) mod plan;
mod progress;
mod report;
mod row;
pub(crate) mod stage;
mod take;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;

use self::environment::Environment;
use self::plan::{Marker, Plan, ServiceTime};
use self::progress::Display;
use self::report::Report;
use self::stage::Stage;
use crate::page::Output;

/// What the demo is called with.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Loads 1, 2 and 5 only, short runs: ends within 45 seconds.
    #[arg(long)]
    quick: bool,
    /// Write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report with its plots.
    #[arg(long, value_name = "FILE", default_value = "sipweir-demo.html")]
    html: PathBuf,
    /// Requests per second that the embedded server can serve; the demo offers up to ten times that.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(100..=10_000))]
    capacity: u32,
    /// Law of the server's service time.
    #[arg(long, value_name = "LAW", default_value = "exponential")]
    service_time: ServiceTime,
    /// How the caller says which copy of a request it sends.
    #[arg(long, value_name = "FORM", default_value = "field")]
    marker: Marker,
    /// Seed of arrivals and identities.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the demo.
///
/// # Errors
///
/// Without root or iproute2, when a file cannot be written, when a run fails, and after Ctrl-C or SIGTERM.
pub fn main(args: &Args) -> anyhow::Result<()> {
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "the demo makes network namespaces and attaches an XDP program: run it as root"
    );
    let stop = catch_signals()?;
    let html = Output::open(&args.html)?;
    let json = args.json.as_deref().map(Output::open).transpose()?;
    let plan = Plan::new(args.quick, args.capacity, args.service_time, args.marker, args.seed);

    let mut display = Display::on_stderr(plan.runs().len());
    display.line(&plan.announcement());
    let stage = Stage::set_up()?;
    let mut report = Report::new(Environment::read(&plan), plan.capacity_per_s);
    for &run in plan.runs() {
        let take = take::take(&plan, &stage, run, &stop, &mut display)
            .with_context(|| format!("{} at {} × capacity", run.policy.name(), run.load))?;
        display.result(&take.row);
        report.add(take);
    }
    drop(stage);

    println!("\n{}", report.table());
    for finding in report.findings() {
        println!("{finding}");
    }
    println!();
    if let Some(json) = json {
        println!("JSON:   {}", json.write(&report.json()?)?);
    }
    println!("report: {}", html.write(&html::page(&report))?);
    Ok(())
}

/// A flag that is set by Ctrl-C, SIGTERM or a terminal that goes away.
pub(crate) fn catch_signals() -> anyhow::Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot catch signals")?;
    }
    Ok(stop)
}
