//! Impossible wishes: which limit cannot be met, and the nearest that can.
//!
//! A limit alone is at fault if there are settings once it is relaxed; how far it must be is found by halving between what
//! was wished and the extreme. Where no single limit helps, limits are given up one after the other until there are
//! settings, and then each is taken back as far as the others allow.

use std::fmt;

use super::search::{REFUSING_MAX, is_possible};
use super::{Burst, Cost, Demand, LOAD_MIN, Peak, RATE_MAX};
use crate::numeric::{down, up};
use crate::parameter::ParameterError;

/// What may have to give way. The names are those of the options of `sipweir tune`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// γ2.
    MinCycle,
    /// γ1.
    MaxDiscard,
    /// W.
    MaxWait,
    /// c, in services.
    ReplyCost,
    /// c, in seconds.
    ReplyTime,
    /// The load between bursts.
    BaseLoad,
    /// λ/μ.
    PeakLoad,
    /// λ.
    PeakRate,
    /// μ, with the peak as a multiple of it.
    ServiceRate,
}

/// Digits shown of what can be met.
const DIGITS: i32 = 4;
/// Halving ends when the two sides are as near as this to each other, which is less than the last of these digits.
const PRECISION: f64 = 1e-5;
/// A rate made from a load must not give a lower load again.
const ROUNDING: f64 = 1.0 + 1e-12;
/// Takes the place of 0 where numbers are compared by their logarithms.
const ZERO: f64 = 1e-12;

/// One limit that cannot be met.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unmet {
    /// Which.
    pub limit: Limit,
    /// What was wished.
    pub wanted: f64,
    /// The nearest that can be, rounded to where it can.
    pub nearest: f64,
}

/// Wishes that cannot be met all together.
#[derive(Debug, Clone, PartialEq)]
pub struct Impossible {
    /// What must give way. Never empty.
    pub unmet: Vec<Unmet>,
    /// All of them must; otherwise one of them, as you like, and all else stays as wished.
    pub together: bool,
}

impl std::error::Error for Impossible {}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, unmet) in self.unmet.iter().enumerate() {
            let Unmet { limit, wanted, nearest } = unmet;
            let (name, bound) = (limit.name(), if limit.is_least() { "most" } else { "least" });
            let [wanted, nearest] = [wanted, nearest].map(|value| limit.shown(*value));
            match (number, self.together) {
                (0, _) => write!(f, "--{name} {wanted} cannot be met: it must be at {bound} {nearest}")?,
                (_, false) => write!(f, ", or --{name} at {bound} {nearest} instead of {wanted}")?,
                (_, true) => write!(f, ", and --{name} at {bound} {nearest} instead of {wanted}")?,
            }
        }
        if !self.together {
            write!(f, "; all else can stay as it is")?;
        }
        Ok(())
    }
}

impl Limit {
    /// Wishes, in the order in which they are given up.
    const WISHES: [Self; 3] = [Self::MinCycle, Self::MaxDiscard, Self::MaxWait];
    /// What is given, and may have to change where no wish helps.
    const GIVEN: [Self; 6] =
        [Self::ReplyCost, Self::ReplyTime, Self::BaseLoad, Self::PeakLoad, Self::PeakRate, Self::ServiceRate];

    /// What is given, in the order in which it is given up together: a lower peak would leave a faster server below the loads
    /// that the models take, and a server that is fast enough needs no lower peak.
    const GIVEN_UP: [Self; 6] =
        [Self::ReplyCost, Self::ReplyTime, Self::BaseLoad, Self::ServiceRate, Self::PeakLoad, Self::PeakRate];

    /// The option's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MinCycle => "min-cycle",
            Self::MaxDiscard => "max-discard",
            Self::MaxWait => "max-wait",
            Self::ReplyCost | Self::ReplyTime => "reply-cost",
            Self::BaseLoad => "base-load",
            Self::PeakLoad => "peak-load",
            Self::PeakRate => "peak-rate",
            Self::ServiceRate => "service-rate",
        }
    }

    /// A value as the option takes it.
    #[must_use]
    pub fn shown(self, value: f64) -> String {
        match self {
            Self::ReplyTime => Cost::Seconds(value).to_string(),
            _ => value.to_string(),
        }
    }

    /// Whether the nearest that can be met lies below what was wished.
    #[must_use]
    pub const fn is_least(self) -> bool {
        !matches!(self, Self::MaxDiscard | Self::MaxWait | Self::ServiceRate)
    }

    /// What was wished; none if nothing was.
    fn wanted(self, demand: &Demand) -> Option<f64> {
        match (self, &demand.peak) {
            (Self::MinCycle, _) => demand.min_cycle_s,
            (Self::MaxDiscard, _) => Some(demand.max_discard),
            (Self::MaxWait, _) => Some(demand.max_wait_s),
            (Self::ReplyCost, _) => match demand.reply_cost {
                Cost::Services(services) => Some(services).filter(|services| *services > 0.0),
                Cost::Seconds(_) => None,
            },
            (Self::ReplyTime, _) => match demand.reply_cost {
                Cost::Seconds(time_s) => Some(time_s).filter(|time_s| *time_s > 0.0),
                Cost::Services(_) => None,
            },
            (Self::BaseLoad, _) => demand.burst.and_then(|burst| burst.base_load),
            (Self::PeakLoad, Peak::Load(load)) => Some(*load),
            (Self::PeakRate, Peak::Rate(rate_per_s)) => Some(*rate_per_s),
            (Self::PeakLoad | Self::PeakRate, _) => None,
            (Self::ServiceRate, _) => Some(demand.service_rate_per_s),
        }
    }

    /// The limit that is easiest to meet of those that the models take.
    fn easiest(self, demand: &Demand) -> f64 {
        // No peak is lower than the load between two.
        let least_load =
            demand.burst.and_then(|burst| burst.base_load).unwrap_or(0.0).max(LOAD_MIN) * ROUNDING;
        match self {
            Self::MinCycle | Self::ReplyCost | Self::ReplyTime | Self::BaseLoad => 0.0,
            Self::MaxDiscard => 1.0,
            Self::MaxWait => demand.longest_wait_s(),
            Self::PeakLoad => least_load,
            Self::PeakRate => least_load * demand.service_rate_per_s,
            // Refusals that take a time take the more of a server the faster it is, if its peak grows with it; and less than a
            // service in any case.
            Self::ServiceRate => match (&demand.peak, demand.reply_cost) {
                (Peak::Load(load), Cost::Seconds(time_s)) => {
                    let refusing = REFUSING_MAX / (load * time_s);
                    (RATE_MAX / load.max(1.0)).min(refusing).min(1.0 / time_s) / ROUNDING
                }
                (Peak::Load(load), Cost::Services(_)) => RATE_MAX / load.max(1.0) / ROUNDING,
                (_, cost) => {
                    let most = RATE_MAX.min(demand.peak_rate_per_s() / least_load);
                    match cost {
                        Cost::Seconds(time_s) => most.min(1.0 / time_s) / ROUNDING,
                        Cost::Services(_) => most,
                    }
                }
            },
        }
    }

    /// The demand with another value of it.
    pub(super) fn set(self, demand: &Demand, value: f64) -> Demand {
        let mut changed = demand.clone();
        match self {
            Self::MinCycle => changed.min_cycle_s = Some(value),
            Self::MaxDiscard => changed.max_discard = value,
            Self::MaxWait => changed.max_wait_s = value,
            Self::ReplyCost => changed.reply_cost = Cost::Services(value),
            Self::ReplyTime => changed.reply_cost = Cost::Seconds(value),
            Self::BaseLoad => {
                changed.burst = changed.burst.map(|burst| Burst { base_load: Some(value), ..burst });
            }
            Self::PeakLoad => changed.peak = Peak::Load(value),
            Self::PeakRate => changed.peak = Peak::Rate(value),
            Self::ServiceRate => changed.service_rate_per_s = value,
        }
        changed
    }

    /// The nearest value that can be met; none if no value can.
    fn nearest(self, demand: &Demand) -> Result<Option<Unmet>, ParameterError> {
        let Some(wanted) = self.wanted(demand) else { return Ok(None) };
        let possible = |value: f64| is_possible(&self.set(demand, value));
        let mut near = self.easiest(demand);
        // What is wished may be beyond the easiest, which is then no way out.
        let helps = near != wanted && (near < wanted) == self.is_least();
        if !helps || !possible(near)? {
            return Ok(None);
        }
        let mut far = wanted;
        let apart = |near: f64, far: f64| (near.max(ZERO) / far.max(ZERO)).ln().abs() > PRECISION;
        while apart(near, far) {
            let middle = (near.max(ZERO) * far.max(ZERO)).sqrt();
            if possible(middle)? { near = middle } else { far = middle }
        }
        let rounded = match near {
            near if near <= ZERO => near,
            // No time is shown nearer than to the nanosecond.
            near if self == Self::ReplyTime => (down(near, DIGITS) * 1e9 + 1e-3).floor() / 1e9,
            near if self.is_least() => down(near, DIGITS),
            near => up(near, DIGITS),
        };
        let nearest = if possible(rounded)? { rounded } else { near };
        Ok(Some(Unmet { limit: self, wanted, nearest }))
    }
}

/// What must give way.
pub(super) fn impossible(demand: &Demand) -> Result<Impossible, ParameterError> {
    for limits in [&Limit::WISHES[..], &Limit::GIVEN[..]] {
        let mut unmet = Vec::new();
        for limit in limits {
            unmet.extend(limit.nearest(demand)?);
        }
        if !unmet.is_empty() {
            return Ok(Impossible { unmet, together: false });
        }
    }
    let mut relaxed = demand.clone();
    let mut given_up = Vec::new();
    for limit in Limit::WISHES.into_iter().chain(Limit::GIVEN_UP) {
        if let Some(wanted) = limit.wanted(demand) {
            relaxed = limit.set(&relaxed, limit.easiest(&relaxed));
            given_up.push((limit, wanted));
            if is_possible(&relaxed)? {
                break;
            }
        }
    }
    let mut unmet = Vec::new();
    // What is given is kept as far as it goes, and wishes give way.
    for (limit, wanted) in given_up.into_iter().rev() {
        let as_wished = limit.set(&relaxed, wanted);
        if is_possible(&as_wished)? {
            relaxed = as_wished;
        } else if let Some(found) = limit.nearest(&as_wished)? {
            relaxed = limit.set(&relaxed, found.nearest);
            unmet.push(found);
        }
    }
    Ok(Impossible { unmet, together: true })
}
