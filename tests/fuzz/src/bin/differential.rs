//! `sipweir-differential`: the differential run, as `cargo xtask fuzz` calls it. Exit status 1 if the two classifiers
//! disagree, 2 if they could not be run.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Parser;
use fuzz::corpus;
use fuzz::run::{Plan, run};

/// The XDP program against the classifier of user space, over made, mutated and random messages.
#[derive(Debug, Parser)]
struct Arguments {
    /// Messages; each is run with the gate open and with the gate shedding.
    #[arg(long)]
    messages: Option<u64>,
    /// Seconds; the run ends with whichever limit comes first.
    #[arg(long)]
    seconds: Option<u64>,
    /// 300,000 messages.
    #[arg(long, conflicts_with = "messages")]
    quick: bool,
    /// Seed of all messages.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of the first message.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Threads; all cores unless given.
    #[arg(long)]
    threads: Option<usize>,
    /// Where disagreements are saved.
    #[arg(long, default_value = "out/fuzz")]
    save: PathBuf,
}

const MESSAGES: u64 = 10_000_000;
const MESSAGES_QUICK: u64 = 300_000;
const PROGRESS_EVERY: u64 = 1_000_000;

fn main() -> ExitCode {
    match differential(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("sipweir-differential: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn differential(arguments: &Arguments) -> Result<bool> {
    let messages = match (arguments.messages, arguments.seconds) {
        (Some(messages), _) => messages,
        _ if arguments.quick => MESSAGES_QUICK,
        (None, Some(_)) => u64::MAX - arguments.from,
        (None, None) => MESSAGES,
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let plan = Plan {
        seed: arguments.seed,
        from: arguments.from,
        messages,
        time: arguments.seconds.map_or(Duration::MAX, Duration::from_secs),
        threads: arguments.threads.unwrap_or(cores),
    };
    let corpus = corpus::load(&corpus::folder())?;
    let start = Instant::now();
    let told = AtomicU64::new(0);
    let outcome = run(&plan, &corpus, &|done| {
        let step = done / PROGRESS_EVERY;
        if told.fetch_max(step, Ordering::Relaxed) < step {
            println!("{done} messages after {:.0} s", start.elapsed().as_secs_f64());
        }
    })?;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{} messages of seed {} in {seconds:.1} s on {} threads: {:.0} messages/s, {} packets decided in the kernel, {} \
         left undecided, {} disagreements",
        outcome.messages,
        plan.seed,
        plan.threads,
        outcome.messages as f64 / seconds,
        outcome.decided,
        outcome.undecided,
        outcome.findings.len()
    );
    for finding in &outcome.findings {
        println!("\n{}", finding.text());
        println!("saved: {}", finding.save(&arguments.save)?.display());
    }
    Ok(outcome.findings.is_empty())
}
