//! `sipweir experiment`: the data path that runs, held against the theory, on a veth pair of its own.
//!
//! Each experiment runs instances of this very program in namespaces (those of the demo) with an embedded server of known
//! law and callers of known law, and prints what was measured beside what the models say at the same parameters. It needs
//! root and a quiet machine of two cores. Not here: judgement. Tests judge, this shows.
//!
//! `live` is a run, `estimate` what its batches say, `comparison` the table, `plot` the picture; one file for each experiment.

mod comparison;
mod estimate;
mod hysteresis;
mod live;
mod plot;
mod random;
mod slowdown;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::demo;
use crate::demo::stage::Stage;
use crate::page::Output;
use comparison::{Case, Comparison};
use live::{Found, Setup};

/// What is held against what.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Experiment {
    /// The hysteretic gate against M|M|1|⟨L,H⟩|B: state shares, rejected share, return time, control cycle.
    Hysteresis {
        /// Offered loads, as multiples of the capacity.
        #[arg(long, value_name = "RHO,…", value_delimiter = ',', default_values_t = [1.2, 1.5])]
        rho: Vec<f64>,
        /// Seconds measured per run, after a warm-up.
        #[arg(long, default_value_t = 240, value_parser = clap::value_parser!(u32).range(10..=86_400))]
        seconds: u32,
        /// Seed and files.
        #[command(flatten)]
        common: Common,
    },
    /// The random gate against its exact chain: rejected share, mean number in the system.
    Random {
        /// Seconds measured per run, after a warm-up.
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(10..=86_400))]
        seconds: u32,
        /// Seed and files.
        #[command(flatten)]
        common: Common,
    },
    /// A server that is slow at first, with one queue and with strict priority, against the simulation (four minutes).
    Slowdown {
        /// How many times as fast as the model, T1 too; three runs of 333 s, divided by it.
        #[arg(long, default_value_t = slowdown::SPEED, value_parser = clap::value_parser!(u32).range(1..=10))]
        speed: u32,
        /// Seed and files.
        #[command(flatten)]
        common: Common,
    },
}

/// What every experiment is called with.
#[derive(Debug, Clone, clap::Args)]
pub struct Common {
    /// Seed of arrivals, identities and hashes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw what was measured in units of the theory.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Where runs take place, and what ends them.
struct Theatre {
    stage: Stage,
    stop: Arc<AtomicBool>,
}

impl Theatre {
    fn run(&self, name: &str, setup: &Setup) -> anyhow::Result<Found> {
        eprintln!("{name}: {:.0} s", setup.caller.duration_ns as f64 / 1e9);
        setup.run(&self.stage, &self.stop)
    }
}

/// Runs an experiment.
///
/// # Errors
/// Without root or iproute2, when a file cannot be written, when a run fails, and after Ctrl-C or SIGTERM.
pub fn main(experiment: &Experiment) -> anyhow::Result<()> {
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "an experiment makes network namespaces and attaches an XDP program: run it as root"
    );
    let common = match experiment {
        Experiment::Hysteresis { rho, common, .. } => {
            for rho in rho {
                hysteresis::theory(*rho)?;
            }
            common
        }
        Experiment::Random { common, .. } | Experiment::Slowdown { common, .. } => common,
    };
    let json = common.json.as_deref().map(Output::open).transpose()?;
    let svg = common.svg.as_deref().map(Output::open).transpose()?;
    let theatre = Theatre { stop: demo::catch_signals()?, stage: Stage::set_up()? };
    let comparison = compare(experiment, &theatre, common.seed)?;
    drop(theatre);
    print!("{}", comparison.table());
    if let Some(json) = json {
        println!("\nJSON: {}", json.write(&comparison.json()?)?);
    }
    if let Some(svg) = svg {
        println!("\nplot: {}", svg.write(&plot::draw(&comparison))?);
    }
    Ok(())
}

fn compare(experiment: &Experiment, theatre: &Theatre, seed: u64) -> anyhow::Result<Comparison> {
    let seeds = seed..;
    match experiment {
        Experiment::Hysteresis { rho, seconds, .. } => {
            let cases = rho.iter().zip(seeds).map(|(&rho, seed)| {
                let setup = hysteresis::setup(rho, *seconds, seed);
                hysteresis::compare(rho, &theatre.run(&format!("load {rho}"), &setup)?)
            });
            Ok(Comparison {
                experiment: "hysteresis",
                theory: "closed form",
                cases: cases.collect::<anyhow::Result<Vec<Case>>>()?,
            })
        }
        Experiment::Random { seconds, .. } => {
            let cases = random::THRESHOLDS.into_iter().zip(seeds).map(|(thresholds, seed)| {
                let setup = random::setup(thresholds, *seconds, seed);
                random::compare(thresholds, &theatre.run(&format!("thresholds {thresholds:?}"), &setup)?)
            });
            Ok(Comparison {
                experiment: "random",
                theory: "exact chain",
                cases: cases.collect::<anyhow::Result<Vec<Case>>>()?,
            })
        }
        Experiment::Slowdown { speed, .. } => {
            let cases = slowdown::POLICIES.into_iter().zip(seeds).map(|(policy, seed)| {
                policy.compare(*speed, &theatre.run(policy.name, &policy.setup(*speed, seed))?)
            });
            Ok(Comparison {
                experiment: "slowdown",
                theory: "simulation",
                cases: cases.collect::<anyhow::Result<Vec<Case>>>()?,
            })
        }
    }
}
