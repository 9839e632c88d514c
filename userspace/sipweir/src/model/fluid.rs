//! `sipweir model fluid`: calls as a flow through one server or two.

use std::path::Path;

use ::model::fluid::{Flow, FluidOutcome, SLOT_NS, solve};
use ::model::plan::Plan;
use clap::ValueEnum;
use overload::NANOS_PER_S;
use serde::Serialize;

use super::table::Table;
use super::{Answer, ModelError};

/// Points of the series at most, without the first.
const POINTS: usize = 1000;
/// Slots of the fluid model in a second: the series has no more points than one a second.
const SLOTS_PER_S: usize = (NANOS_PER_S / SLOT_NS) as usize;

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Args {
    /// `slowdown` (S2: a server of 100 a second until second 30, then of 1000, before 200 calls a second), `burst` (S1: 200
    /// calls a second, but 2000 from second 30 to 40, before a server of 1000), or a plan of `sipweir simulate`, of which
    /// callers and servers are taken.
    #[arg(long, value_name = "FILE|slowdown|burst")]
    scenario: String,
    /// One queue, or originals first.
    #[arg(long)]
    discipline: Discipline,
    /// Room for messages at each server; under priority as much again for copies.
    #[arg(long, value_name = "B", allow_hyphen_values = true)]
    buffer: u32,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Discipline {
    /// One queue for all.
    Fifo,
    /// Originals before copies.
    Priority,
}

/// The keys of the JSON; what is not known is not a number, which JSON has as null.
#[derive(Debug, Serialize)]
pub(super) struct FluidAnswer {
    copies_per_call: f64,
    mean_delay: f64,
    peak_queue: f64,
    final_queue: f64,
    failed_share: f64,
    safe_buffer: Option<f64>,
    series: Vec<Point>,
}

/// What waits at a time, in seconds, at each server.
#[derive(Debug, Serialize)]
struct Point {
    time: f64,
    queues: Vec<f64>,
}

impl Args {
    pub(super) fn solve(&self) -> Result<FluidAnswer, ModelError> {
        let discipline = match self.discipline {
            Discipline::Fifo => overload::Discipline::Fifo,
            Discipline::Priority => overload::Discipline::Priority,
        };
        let flow = match self.scenario.as_str() {
            "slowdown" => Flow::slowdown(discipline, 1.0),
            "burst" => Flow::burst(discipline, 1.0),
            file => self.read(Path::new(file))?,
        };
        let flow = flow.behind(discipline, self.buffer)?;
        Ok(FluidAnswer::new(solve(&flow), flow.safe_buffer()))
    }

    /// Callers and servers of a plan. Its mechanisms are not looked at: discipline and buffer are given.
    fn read(&self, file: &Path) -> Result<Flow, ModelError> {
        let wrong = |message: String| ModelError::Scenario { text: self.scenario.clone(), message };
        let text = std::fs::read_to_string(file).map_err(|error| {
            wrong(format!("is neither slowdown nor burst nor a readable plan of `sipweir simulate`: {error}"))
        })?;
        let plan = Plan::parse(&text).map_err(|error| wrong(error.to_string()))?;
        let run = plan.runs.first().ok_or_else(|| wrong("has no run".to_owned()))?;
        let is_taken = |key: &str| key.starts_with("source.") || key.starts_with("node.");
        if let Some((key, _)) = run.parameters.iter().find(|(key, _)| is_taken(key)) {
            return Err(wrong(format!("{key} has several values; give one")));
        }
        Flow::of_network(&run.scenario).map_err(|error| wrong(error.to_string()))
    }
}

impl FluidAnswer {
    fn new(outcome: FluidOutcome, safe_buffer: Option<f64>) -> Self {
        let all = |queues: &[f64]| queues.iter().sum::<f64>();
        let peak_queue = outcome.series.iter().map(|point| all(&point.lines)).fold(0.0, f64::max);
        let every = SLOTS_PER_S.max(outcome.series.len().div_ceil(POINTS));
        let points = outcome.series.iter().enumerate().filter(|(slot, _)| (slot + 1) % every == 0);
        let series =
            points.map(|(_, point)| Point { time: point.at_s, queues: point.lines.clone() }).collect();
        Self {
            copies_per_call: outcome.copies_per_call,
            mean_delay: outcome.mean_delay_s,
            peak_queue,
            final_queue: all(&outcome.final_lines),
            failed_share: outcome.failed_share,
            safe_buffer,
            series,
        }
    }
}

impl Answer for FluidAnswer {
    fn table(&self) -> Table {
        Table::default()
            .number("copies_per_call", self.copies_per_call, "copies that clients sent")
            .time(
                "mean_delay",
                Some(self.mean_delay),
                "first send to first service, over all that was served",
            )
            .number("peak_queue", self.peak_queue, "the most messages that waited at once")
            .number("final_queue", self.final_queue, "messages that wait at the end")
            .number("failed_share", self.failed_share, "calls without an answer after 32 s")
            .length("safe_buffer", self.safe_buffer, "a FIFO of at most this recovers from any disturbance")
    }
}
