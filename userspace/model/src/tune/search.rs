//! The choice of B, q, L and H, as the head of `tune.rs` has it.
//!
//! With H kept and L lowered, τ grows and P2 falls; with L = 1 and H raised, τ grows and P2 grows. So what can be reached
//! at all is decided at L = 1 by the lowest H whose cycle is long enough, and each choice is found by halving.

use super::predict::Model;
use super::{CALM_S, Demand, Recommendation, wait};
use crate::numeric::last;
use crate::parameter::{self, BUFFER_MAX, ParameterError};
use crate::service::ServiceLaw;

/// The embedded chain of other laws takes too long for longer lines: a search asks it thousands of times.
const LAW_BUFFER_MAX: u32 = 400;
/// Places times the cube of the number of phases: what the chain of bursts takes too long beyond.
const BURST_STEPS_MAX: usize = 20_000;
/// A line for bursts is not cut to less, however many phases there are.
const BURST_BUFFER_MIN: usize = 100;
/// The part of the server that refusals may take at the peak. Beyond, what waits behind refusals that come one by one is not
/// what the model says, and most callers are refused in any case.
pub(super) const REFUSING_MAX: f64 = 0.5;
/// Fewer places leave no L < H < B, which thresholds in time need.
const BUFFER_MIN: u32 = 3;

/// The settings for a checked demand; none if its wishes are impossible.
pub(super) fn choose(demand: &Demand) -> Result<Option<Recommendation>, ParameterError> {
    let Some(choice) = find(demand)? else { return Ok(None) };
    let Choice { line, low, high, admit, share, min_cycle_s } = choice;
    let buffer = line.buffer;
    let model = Model::new(demand, buffer, share).predict(low, high)?;
    Ok(Some(Recommendation {
        levels: parameter::levels(low, high, buffer)?,
        buffer_in_time: line.in_time,
        admit,
        share,
        min_cycle_s,
        peak_service_rate_per_s: demand.peak_service_rate_per_s(),
        model,
    }))
}

/// Whether the wishes can be met. The demand need not have been checked: what is out of range cannot.
pub(super) fn is_possible(demand: &Demand) -> Result<bool, ParameterError> {
    if demand.check().is_err() {
        return Ok(false);
    }
    let Some(line) = line(demand)? else { return Ok(false) };
    for (_, share) in demand.shares() {
        let search = Search::new(demand, line, share);
        match search.lowest_high()? {
            Lowest::High(..) => return Ok(true),
            Lowest::TooShort => break,
            Lowest::TooFull => {}
        }
    }
    Ok(false)
}

struct Choice {
    line: Line,
    low: u32,
    high: u32,
    admit: f64,
    share: f64,
    min_cycle_s: f64,
}

/// How long the waiting line may be.
#[derive(Clone, Copy)]
struct Line {
    /// B.
    buffer: u32,
    /// B as W allows it, before it is cut to what the model can solve.
    in_time: u32,
    /// The largest H that lets be served in time.
    high_max: u32,
}

/// The longest line that the demand's model is asked for.
fn buffer_max(demand: &Demand) -> Result<u32, ParameterError> {
    if demand.has_bursts() {
        let phases = demand.phases()?.phases().len();
        return Ok((BURST_STEPS_MAX / phases.pow(3)).max(BURST_BUFFER_MIN) as u32);
    }
    Ok(if demand.service == ServiceLaw::Exponential { BUFFER_MAX } else { LAW_BUFFER_MAX })
}

/// The line of a demand; none if it leaves no room for thresholds.
fn line(demand: &Demand) -> Result<Option<Line>, ParameterError> {
    if demand.slowest_rate_per_s() < (1.0 - REFUSING_MAX) * demand.service_rate_per_s {
        return Ok(None);
    }
    // In services at the rate that is left while all are refused.
    let services = demand.max_wait_s * demand.slowest_rate_per_s();
    // A float that is too large saturates.
    let in_time = (services + 1e-9) as u32;
    let buffer = in_time.min(buffer_max(demand)?);
    let high_max = wait::in_time(demand.service, services).min(buffer.saturating_sub(1));
    Ok((buffer >= BUFFER_MIN && high_max >= 2).then_some(Line { buffer, in_time, high_max }))
}

fn find(demand: &Demand) -> Result<Option<Choice>, ParameterError> {
    let Some(line) = line(demand)? else { return Ok(None) };
    for (admit, share) in demand.shares() {
        let search = Search::new(demand, line, share);
        if let Some((low, high, min_cycle_s)) = search.thresholds()? {
            return Ok(Some(Choice { line, low, high, admit, share, min_cycle_s }));
        }
    }
    Ok(None)
}

/// The lowest H that will do, with L = 1.
enum Lowest {
    /// H, and γ2.
    High(u32, f64),
    /// No H gives so long a cycle. A smaller q makes overload, and with it the cycle, shorter still.
    TooShort,
    /// One does, but it leaves too little room up to B. A smaller q may do with that.
    TooFull,
}

/// For one B and q.
struct Search<'a> {
    model: Model<'a>,
    demand: &'a Demand,
    high_max: u32,
}

impl<'a> Search<'a> {
    fn new(demand: &'a Demand, line: Line, share: f64) -> Self {
        Self { model: Model::new(demand, line.buffer, share), demand, high_max: line.high_max }
    }

    fn keeps_discard(&self, low: u32, high: u32) -> Result<bool, ParameterError> {
        Ok(self.model.p_discard(low, high)? <= self.demand.max_discard)
    }

    fn keeps_cycle(&self, low: u32, high: u32, min_cycle_s: f64) -> Result<bool, ParameterError> {
        Ok(self.model.cycle_s(low, high, min_cycle_s)? >= min_cycle_s)
    }

    /// γ2 is as wished, or what is possible without pressing it.
    fn lowest_high(&self) -> Result<Lowest, ParameterError> {
        let min_cycle_s = if let Some(cycle_s) = self.demand.min_cycle_s {
            cycle_s
        } else {
            let highest = last(2, self.high_max, |high| self.keeps_discard(1, high))?;
            let Some(high) = highest else { return Ok(Lowest::TooFull) };
            CALM_S.min(self.model.cycle_s(1, high, 0.0)? / 2.0)
        };
        let too_short = last(2, self.high_max, |high| Ok(!self.keeps_cycle(1, high, min_cycle_s)?))?;
        let lowest = too_short.map_or(2, |high| high + 1);
        Ok(if lowest > self.high_max {
            Lowest::TooShort
        } else if self.keeps_discard(1, lowest)? {
            Lowest::High(lowest, min_cycle_s)
        } else {
            Lowest::TooFull
        })
    }

    /// L and H within the limits, and γ2.
    fn thresholds(&self) -> Result<Option<(u32, u32, f64)>, ParameterError> {
        let Lowest::High(lowest, min_cycle_s) = self.lowest_high()? else { return Ok(None) };
        let calm_low = |high: u32| {
            let low = last(1, high - 1, |low| self.keeps_cycle(low, high, min_cycle_s))?;
            // H is high enough for L = 1.
            Ok::<_, ParameterError>(low.unwrap_or(1))
        };
        let highest = last(lowest, self.high_max, |high| self.keeps_discard(calm_low(high)?, high))?;
        if let Some(high) = highest {
            return Ok(Some((calm_low(high)?, high, min_cycle_s)));
        }
        let low = last(1, calm_low(lowest)?, |low| self.keeps_discard(low, lowest))?;
        Ok(low.map(|low| (low, lowest, min_cycle_s)))
    }
}
