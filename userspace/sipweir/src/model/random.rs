//! `sipweir model random`: the random gate of two thresholds.

use ::model::random::RandomControl;
use serde::Serialize;

use super::table::Table;
use super::{Answer, ModelError};

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Args {
    /// Requests offered per second.
    #[arg(long, value_name = "PER_SECOND", allow_hyphen_values = true)]
    arrival_rate: f64,
    /// Requests that the server can serve per second.
    #[arg(long, value_name = "PER_SECOND", allow_hyphen_values = true)]
    service_rate: f64,
    /// Below this many in the system all are admitted.
    #[arg(long, value_name = "TMIN", allow_hyphen_values = true)]
    min_threshold: u32,
    /// Above this many in the system none is admitted.
    #[arg(long, value_name = "TMAX", allow_hyphen_values = true)]
    max_threshold: u32,
    /// Room in the system.
    #[arg(long, value_name = "B", allow_hyphen_values = true)]
    buffer: u32,
    /// Probability of refusal at the minimum threshold, 0 to 1.
    #[arg(long, value_name = "P0", allow_hyphen_values = true)]
    initial_probability: f64,
}

/// The keys of the JSON.
#[derive(Debug, Serialize)]
pub(super) struct RandomAnswer {
    reject_probability: f64,
    mean_in_system: f64,
}

impl Args {
    pub(super) fn solve(&self) -> Result<RandomAnswer, ModelError> {
        let found = RandomControl::new(
            (self.arrival_rate, self.service_rate),
            (self.min_threshold, self.max_threshold),
            self.buffer,
            self.initial_probability,
        )?
        .solve();
        Ok(RandomAnswer {
            reject_probability: found.reject_probability,
            mean_in_system: found.mean_in_system,
        })
    }
}

impl Answer for RandomAnswer {
    fn table(&self) -> Table {
        Table::default()
            .number("reject_probability", self.reject_probability, "share of requests that is refused")
            .number("mean_in_system", self.mean_in_system, "waiting and in service, mean")
    }
}
