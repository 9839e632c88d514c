//! `sipweir model thresholds`: the L and H of the shortest overload within limits.

use ::model::thresholds::{ThresholdProblem, Thresholds};
use serde::Serialize;

use super::table::Table;
use super::{Answer, ModelError};

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Args {
    /// Originals offered per second.
    #[arg(long, value_name = "PER_SECOND", allow_hyphen_values = true)]
    arrival_rate: f64,
    /// Originals that the server can serve per second.
    #[arg(long, value_name = "PER_SECOND", allow_hyphen_values = true)]
    service_rate: f64,
    /// All are refused from this many in the system until H.
    #[arg(long, value_name = "B", allow_hyphen_values = true)]
    buffer: u32,
    /// Share admitted in overload, 0 to 1.
    #[arg(long, value_name = "q", allow_hyphen_values = true)]
    admit: f64,
    /// Greatest share of time allowed in which none is admitted.
    #[arg(long, value_name = "γ1", allow_hyphen_values = true)]
    max_discard: f64,
    /// Least mean time allowed from one entry into overload to the next.
    #[arg(long, value_name = "γ2 SECONDS", allow_hyphen_values = true)]
    min_cycle: f64,
}

/// The keys of the JSON.
#[derive(Debug, Serialize)]
pub(super) struct ThresholdsAnswer {
    low: u32,
    high: u32,
    return_time: f64,
    cycle_time: f64,
    p_discard: f64,
}

impl Args {
    pub(super) fn solve(&self) -> Result<ThresholdsAnswer, ModelError> {
        let rates = (self.arrival_rate, self.service_rate);
        let problem =
            ThresholdProblem::new(rates, self.buffer, self.admit, self.max_discard, self.min_cycle)?;
        let Thresholds { low, high, return_time_s, cycle_s, p_discard } = problem.solve()?;
        Ok(ThresholdsAnswer { low, high, return_time: return_time_s, cycle_time: cycle_s, p_discard })
    }
}

impl Answer for ThresholdsAnswer {
    fn table(&self) -> Table {
        Table::default()
            .count("low", self.low, "L: overload ends when fewer than this are in the system")
            .count("high", self.high, "H: overload begins when this many are in the system")
            .time("return_time", Some(self.return_time), "from entering overload until normal, mean")
            .time("cycle_time", Some(self.cycle_time), "from one entry into overload to the next, mean")
            .number("p_discard", self.p_discard, "share of time in which none is admitted")
    }
}
