//! Which settings of the gate? From a server, the peak it has to expect and what callers put up with: B, L, H, q and
//! `max_wait` of a gate ⟨L,H⟩|B.
//!
//! Here is what is asked for and what is recommended; `tune/cost.rs` is what a refusal costs, `capacity.rs` says what refusals
//! leave of the server and chooses q, `wait.rs` turns times into places, `predict.rs` asks the models, `search.rs` chooses L and
//! H, `nearest.rs` answers impossible wishes, `verify.rs` simulates what was chosen, and `compare.rs` holds the two beside each
//! other; where the simulation misses a limit, `settle.rs` asks the model for more.
//!
//! # Assumptions
//!
//! As `hysteresis.rs`: one server, first come first served, nobody sends again. Nobody does as long as waiting and service
//! end before T1. Each refusal costs the server c services (0 where somebody else writes it).
//!
//! # Symbols
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | μ | service rate | 1/s |
//! | λ | offered at the peak; of bursts the highest rate of all phases | 1/s |
//! | c | what a refusal costs | services |
//! | W | longest wait allowed | s |
//! | γ1, γ2 | greatest P2 of all time, least τ allowed, at the peak and over all time, as in `thresholds.rs` | –, s |
//!
//! # The choice
//!
//! 0. Refusals must not take more than half of the server at the peak: c λ ≤ μ/2.
//! 1. B is the largest number of services that take at most W on average, even while refusals take most: W (μ − c λ). A model
//!    that takes too long for so many cuts it.
//! 2. H is at most the largest number of services that take at most W with probability 99 %. Who is admitted while overload
//!    begins is then served in time, and `max_wait` = W refuses hardly anybody late.
//! 3. q leaves a fifth of the server at the peak to work off the line: q λ = 0.8 μ' with μ' = μ − c (1−q) λ. Where that is too
//!    much for γ1 it leaves more, in steps of a tenth.
//! 4. H is then the largest with P2 ≤ γ1, so that a burst that the line can hold is refused nothing, and L the largest with
//!    τ ≥ γ2, so that overload is as short as the wished calm allows.
//!
//! # Source
//!
//! The models are those of `hysteresis.rs`, `hysteresis/embedded.rs` and `hysteresis/modulated.rs`, the limits γ1 and γ2 those
//! of `thresholds.rs`; T1: RFC 3261 section 17.1.1.1.

mod capacity;
mod compare;
mod cost;
mod nearest;
mod predict;
mod search;
mod settle;
mod verify;
mod wait;

use overload::Levels;

pub use compare::{Quantity, Unit};
pub use cost::Cost;
pub use nearest::{Impossible, Limit, Unmet};
pub use predict::Prediction;
pub use settle::{ROUNDS, Settled};
pub use verify::{Effort, Verified};

use crate::mmpp::{Mmpp, Phase};
use crate::parameter::{self, ParameterError};
use crate::service::ServiceLaw;
use crate::simulate::{NANOS_PER_S, T1_NS};

/// T1 of RFC 3261: a client that has no answer by then sends again.
const T1_S: f64 = T1_NS as f64 / NANOS_PER_S;
/// Loads for which the models' tests hold.
const LOAD_MIN: f64 = 0.01;
const LOAD_MAX: f64 = 100.0;
/// Originals per second. No instance is known to carry more, and the simulation would remember too many calls.
const RATE_MAX: f64 = 1e6;
/// The load between bursts where none is given, unless the peak is lower.
const BASE_LOAD: f64 = 0.5;
/// Lengths of peaks and pauses: from some services of a fast server to days.
const SOJOURNS_S: std::ops::RangeInclusive<f64> = 1e-3..=1e6;
/// The cycle that is aimed at where none is wished: what clients with overload control are told holds for so long
/// (`reply.oc_validity`), and should not be outdated before.
const CALM_S: f64 = 0.5;

/// The highest load to expect.
#[derive(Debug, Clone, PartialEq)]
pub enum Peak {
    /// As a multiple of the service rate.
    Load(f64),
    /// Originals per second.
    Rate(f64),
    /// Phases of offered originals per second, of which the highest counts.
    Phases(Mmpp),
}

/// How peaks come and go, where they are not given by phases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// Mean length of a peak, in seconds.
    pub length_s: f64,
    /// Mean time between two peaks, in seconds.
    pub pause_s: f64,
    /// The load between them, as a multiple of the service rate. Without it a half, or the peak's if that is lower.
    pub base_load: Option<f64>,
}

/// What is given and what is wished.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// μ.
    pub service_rate_per_s: f64,
    /// The law of the service time.
    pub service: ServiceLaw,
    /// λ.
    pub peak: Peak,
    /// Without it the peak lasts.
    pub burst: Option<Burst>,
    /// The share of originals that bring credentials, which sipweir admits by 2q instead of q.
    pub credentials: f64,
    /// c.
    pub reply_cost: Cost,
    /// W.
    pub max_wait_s: f64,
    /// γ1.
    pub max_discard: f64,
    /// γ2; without it half a second, or half of what is possible.
    pub min_cycle_s: Option<f64>,
}

/// A checked demand.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuning {
    demand: Demand,
}

/// What is recommended and what it will do.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation {
    /// L, H and B.
    pub levels: Levels,
    /// B as the wait allows it. More than B where the model of bursts, or of another law of service, cannot be asked for so
    /// long a line.
    pub buffer_in_time: u32,
    /// q as it is to be set.
    pub admit: f64,
    /// The share that is admitted in overload, those with credentials included.
    pub share: f64,
    /// γ2 as wished, or what was taken instead.
    pub min_cycle_s: f64,
    /// What the server serves at the peak, which is what the gate measures then: thresholds in time rest on it.
    pub peak_service_rate_per_s: f64,
    /// What the model says.
    pub model: Prediction,
}

/// Why there is no recommendation.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TuneError {
    /// A parameter outside its range.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// Wishes that cannot be met.
    #[error(transparent)]
    Impossible(#[from] Impossible),
}

impl Demand {
    /// λ.
    fn peak_rate_per_s(&self) -> f64 {
        match &self.peak {
            Peak::Load(load) => load * self.service_rate_per_s,
            Peak::Rate(rate_per_s) => *rate_per_s,
            Peak::Phases(mmpp) => mmpp.phases().iter().map(|phase| phase.rate_per_s).fold(0.0, f64::max),
        }
    }

    /// c.
    #[must_use]
    pub fn refusal_services(&self) -> f64 {
        self.reply_cost.services(self.service_rate_per_s)
    }

    /// λ/μ.
    fn peak_load(&self) -> f64 {
        self.peak_rate_per_s() / self.service_rate_per_s
    }

    /// The phases of the load; one where the peak lasts.
    fn phases(&self) -> Result<Mmpp, ParameterError> {
        let phase = |rate_per_s, sojourn_s| Phase { rate_per_s, sojourn_s, next: Vec::new() };
        match (&self.peak, self.burst) {
            (Peak::Phases(mmpp), _) => Ok(mmpp.clone()),
            (_, None) => Mmpp::new(vec![phase(self.peak_rate_per_s(), 1.0)]),
            (_, Some(Burst { length_s, pause_s, base_load })) => Mmpp::new(vec![
                phase(self.peak_rate_per_s(), length_s),
                phase(
                    base_load.unwrap_or_else(|| BASE_LOAD.min(self.peak_load())) * self.service_rate_per_s,
                    pause_s,
                ),
            ]),
        }
    }

    /// The first parameter that is outside its range.
    fn check(&self) -> Result<(), ParameterError> {
        let outside = |name, value: f64, range: String| Err(ParameterError::new(name, value, range));
        let service_rate_per_s = parameter::positive("service-rate", self.service_rate_per_s)?;
        let longest_s = self.longest_wait_s();
        if longest_s <= 0.0 || service_rate_per_s > RATE_MAX {
            let range =
                format!("above 2, since a service must end before T1 = 0.5 s, and at most {RATE_MAX}");
            return outside("service-rate", service_rate_per_s, range);
        }
        match self.service.check()? {
            ServiceLaw::Hyperexponential(_) => {
                let range = "exponential, deterministic or gamma:CV2, which can be simulated too";
                return Err(ParameterError::new("service", self.service, range));
            }
            ServiceLaw::Exponential => {}
            law if self.burst.is_some() || matches!(self.peak, Peak::Phases(_)) => {
                return Err(ParameterError::new("service", law, "exponential together with bursts"));
            }
            _ => {}
        }
        let load = self.peak_load();
        let (least, most) = (LOAD_MIN, LOAD_MAX.min(RATE_MAX / service_rate_per_s));
        if !(least..=most).contains(&load) {
            let (least_per_s, most_per_s) = (least * service_rate_per_s, most * service_rate_per_s);
            return match &self.peak {
                Peak::Load(load) => outside("peak-load", *load, format!("between {least} and {most}")),
                Peak::Rate(rate) => {
                    let range = format!("between {least_per_s} and {most_per_s} at this service-rate");
                    outside("peak-rate", *rate, range)
                }
                Peak::Phases(_) => {
                    let range =
                        format!("a highest rate between {least_per_s} and {most_per_s} at this service-rate");
                    outside("mmpp", self.peak_rate_per_s(), range)
                }
            };
        }
        if let Some(Burst { length_s, pause_s, base_load }) = self.burst {
            for (name, time_s) in [("burst", length_s), ("pause", pause_s)] {
                if !SOJOURNS_S.contains(&time_s) {
                    let range = format!("between {} and {} seconds", SOJOURNS_S.start(), SOJOURNS_S.end());
                    return outside(name, time_s, range);
                }
            }
            if let Some(base_load) = base_load.filter(|base_load| !(0.0..=load).contains(base_load)) {
                return outside(
                    "base-load",
                    base_load,
                    format!("between 0 and the load of the peak, {load}"),
                );
            }
        }
        let phases = self.phases()?;
        let outside_s = |phase: &&Phase| !SOJOURNS_S.contains(&phase.sojourn_s);
        if let Some(phase) = phases.phases().iter().find(outside_s) {
            let range = format!("between {} and {} seconds", SOJOURNS_S.start(), SOJOURNS_S.end());
            return Err(ParameterError::new("mmpp", format_args!("sojourn {}", phase.sojourn_s), range));
        }
        let count = phases.phases().len();
        let in_turn = |(k, phase): (usize, &Phase)| count == 1 || phase.next[(k + 1) % count] == 1.0;
        if !phases.phases().iter().enumerate().all(in_turn) {
            return Err(ParameterError::new(
                "mmpp",
                "with followers",
                "phases that follow each other in turn, which can be simulated",
            ));
        }
        parameter::share("credentials", self.credentials)?;
        if !(0.0..1.0).contains(&self.refusal_services()) {
            let below = match self.reply_cost {
                Cost::Services(_) => "1, in services".to_owned(),
                Cost::Seconds(_) => {
                    format!("{}, which is a service", Cost::Seconds(1.0 / service_rate_per_s))
                }
            };
            let range = format!("at least 0 and below {below}");
            return Err(ParameterError::new("reply-cost", self.reply_cost, range));
        }
        if !(self.max_wait_s > 0.0 && self.max_wait_s <= longest_s) {
            let range = format!(
                "above 0 and at most {longest_s}: waiting and service must end before T1 = 0.5 s, when clients send again"
            );
            return outside("max-wait", self.max_wait_s, range);
        }
        parameter::share("max-discard", self.max_discard)?;
        if let Some(cycle_s) = self.min_cycle_s.filter(|cycle_s| !(*cycle_s >= 0.0 && cycle_s.is_finite())) {
            return outside("min-cycle", cycle_s, "a finite number of at least 0, in seconds".into());
        }
        Ok(())
    }

    /// The longest W that lets a service end before T1.
    fn longest_wait_s(&self) -> f64 {
        T1_S - 1.0 / self.service_rate_per_s
    }
}

impl Tuning {
    /// Takes a demand.
    ///
    /// # Errors
    /// The first parameter that is outside its range.
    pub fn new(demand: Demand) -> Result<Self, ParameterError> {
        demand.check()?;
        Ok(Self { demand })
    }

    /// What was demanded.
    #[must_use]
    pub const fn demand(&self) -> &Demand {
        &self.demand
    }

    /// λ, originals per second.
    #[must_use]
    pub fn peak_rate_per_s(&self) -> f64 {
        self.demand.peak_rate_per_s()
    }

    /// The settings to take.
    ///
    /// # Errors
    /// When the wishes are impossible, with the nearest that are not; when the law of service is too much for the model.
    pub fn solve(&self) -> Result<Recommendation, TuneError> {
        match search::choose(&self.demand)? {
            Some(choice) => Ok(choice),
            None => Err(nearest::impossible(&self.demand)?.into()),
        }
    }
}

#[cfg(test)]
mod tests;
