//! `cargo run --release -p sipweir-fuzz --bin sipweir-copies`: 100 million requests through the transaction table
//! (`fuzz::copies`). Exit status 1 if one of them is taken for a copy, or if too many copies are not known.

use std::process::ExitCode;

use clap::Parser;
use fuzz::copies::{REQUESTS_PER_S, run};

/// The least share of copies that must be known at half load.
const KNOWN_MIN: f64 = 0.999;

/// Whether the transaction table tells copies from originals.
#[derive(Debug, Parser)]
struct Options {
    /// Requests, each different from all others.
    #[arg(long, default_value_t = 100_000_000)]
    requests: u64,
    /// Seed of the hash.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    let Options { requests, seed } = Options::parse();
    let tally = run(requests, seed);
    let share = tally.known as f64 / tally.copies.max(1) as f64;
    println!(
        "{requests} requests at {REQUESTS_PER_S}/s: {} taken for copies, {} evicted",
        tally.false_copies, tally.evicted
    );
    println!("{} copies by timer E: {} known, {:.4} %", tally.copies, tally.known, share * 100.0);
    if tally.false_copies == 0 && share >= KNOWN_MIN { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
