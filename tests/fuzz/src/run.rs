//! The differential run: case after case until there are enough of them, on every core.
//!
//! Batches of cases are handed out by number, so what is run depends on the seed alone and not on the number of
//! threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::case::Case;
use crate::engine::{BATCH, Disagreement, Engine};
use crate::report::Finding;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Seed of all cases.
    pub seed: u64,
    /// Number of the first case.
    pub from: u64,
    /// Cases at most.
    pub messages: u64,
    /// Time at most.
    pub time: Duration,
    /// Threads, each with programs of its own.
    pub threads: usize,
}

/// What was run and found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Cases that were run.
    pub messages: u64,
    /// Packets that the program decided; every case is run twice.
    pub decided: u64,
    /// Packets that it left to user space because of a bound or of something unclear.
    pub undecided: u64,
    /// At most one for each thread, which then ends.
    pub findings: Vec<Finding>,
}

/// Runs a plan. `progress` is told the number of cases now and then.
///
/// # Errors
///
/// Without root, or if the kernel refuses programs or runs; disagreements are no errors.
pub fn run(plan: &Plan, corpus: &[Vec<u8>], progress: &(dyn Fn(u64) + Sync)) -> Result<Outcome> {
    let shared = Shared {
        plan,
        corpus,
        progress,
        next: AtomicU64::new(0),
        done: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        deadline: Instant::now().checked_add(plan.time),
    };
    let outcomes = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.threads.max(1)).map(|_| scope.spawn(|| shared.work())).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_panic| anyhow!("a thread panicked"))?)
            .collect()
    });
    let outcomes: Result<Vec<Outcome>> = outcomes;
    let mut total = Outcome::default();
    for outcome in outcomes? {
        total.messages += outcome.messages;
        total.decided += outcome.decided;
        total.undecided += outcome.undecided;
        total.findings.extend(outcome.findings);
    }
    Ok(total)
}

struct Shared<'a> {
    plan: &'a Plan,
    corpus: &'a [Vec<u8>],
    progress: &'a (dyn Fn(u64) + Sync),
    /// Cases handed out, counted from `plan.from`.
    next: AtomicU64,
    done: AtomicU64,
    stop: AtomicBool,
    deadline: Option<Instant>,
}

impl Shared<'_> {
    fn work(&self) -> Result<Outcome> {
        let mut engine = Engine::new()?;
        let mut case = Case::default();
        let mut outcome = Outcome::default();
        while !self.is_over() {
            let first = self.next.fetch_add(BATCH, Ordering::Relaxed);
            if first >= self.plan.messages {
                break;
            }
            let batch = self.plan.from + first..self.plan.from + (first + BATCH).min(self.plan.messages);
            outcome.messages += batch.end - batch.start;
            if let Some((index, found)) = self.run_batch(&mut engine, &mut case, batch.clone())? {
                self.stop.store(true, Ordering::Relaxed);
                let smallest = engine.minimise(found.clone())?;
                outcome.findings.push(Finding { seed: self.plan.seed, index, found, smallest });
                break;
            }
            let done = self.done.fetch_add(batch.end - batch.start, Ordering::Relaxed);
            (self.progress)(done + batch.end - batch.start);
        }
        outcome.decided = engine.decided;
        outcome.undecided = engine.undecided;
        Ok(outcome)
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn run_batch(
        &self,
        engine: &mut Engine,
        case: &mut Case,
        batch: std::ops::Range<u64>,
    ) -> Result<Option<(u64, Disagreement)>> {
        for index in batch.clone() {
            case.make(self.plan.seed, index, self.corpus);
            if let Some(found) = engine.run(case)? {
                return Ok(Some((index, found)));
            }
        }
        if engine.counters_agree()? {
            return Ok(None);
        }
        for index in batch.clone() {
            case.make(self.plan.seed, index, self.corpus);
            if let Some(found) = engine.run_closely(case)? {
                return Ok(Some((index, found)));
            }
        }
        Err(anyhow!(
            "cases {batch:?} of seed {} were miscounted together, but not one by one",
            self.plan.seed
        ))
    }
}
