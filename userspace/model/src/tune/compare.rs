//! What the model says and what the simulation saw, side by side, and where they contradict each other.
//!
//! They do where they are apart by more than 4 standard errors and 2 %. The standard error is that of the replications; where
//! less than a hundred cycles or discards are to be expected in all of them it may be too small, down to 0 for what was
//! never seen, and a mean of k of them may be off by 4/√k.

use super::settle::{misses_least, misses_most};
use super::{Recommendation, Tuning, Verified};
use crate::simulate::Estimate;

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A share or a probability.
    Share,
    /// Seconds.
    Seconds,
}

/// One number, by model and by simulation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantity {
    /// The key in JSON.
    pub name: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// What it is.
    pub meaning: &'static str,
    /// The limit on it, if there is one.
    pub limit: Option<f64>,
    /// By the model; none where it does not know.
    pub computed: Option<f64>,
    /// By simulation; none where nothing was seen.
    pub simulated: Option<Estimate>,
    /// Whether the two contradict each other.
    pub differs: bool,
    /// Whether the simulation surely misses the limit.
    pub misses: bool,
}

/// With fewer events than this the spread of the replications is not to be trusted alone.
const FEW: f64 = 100.0;

impl Tuning {
    /// All numbers of a recommendation.
    #[must_use]
    pub fn quantities(&self, chosen: &Recommendation, verified: &Verified) -> Vec<Quantity> {
        let model = &chosen.model;
        let (_, high, buffer) = chosen.levels.as_tuple();
        let seconds = verified.seconds;
        let cycles = seconds / model.cycle_s;
        let discard_s = f64::from(buffer - high) / self.demand.slowest_rate_per_s();
        let discards = seconds * model.states[2] / discard_s;
        let wished = self.demand.min_cycle_s;
        let quantity = |name, unit, meaning, computed, simulated, events: f64| Quantity {
            name,
            unit,
            meaning,
            limit: None,
            misses: false,
            computed,
            simulated,
            differs: computed
                .zip(simulated)
                .is_some_and(|(computed, simulated)| differs(computed, &simulated, events)),
        };
        let share = |name, meaning, computed, simulated, events| {
            quantity(name, Unit::Share, meaning, Some(computed), simulated, events)
        };
        let time = |name, meaning, computed: Option<f64>, simulated, events| {
            quantity(
                name,
                Unit::Seconds,
                meaning,
                computed.filter(|time| time.is_finite()),
                simulated,
                events,
            )
        };
        vec![
            share(
                "reject_probability",
                "share of originals that is refused",
                model.rejected,
                verified.rejected,
                cycles,
            ),
            share(
                "p_overload",
                "share of time in which the share q is admitted",
                model.states[1],
                verified.states[1],
                cycles,
            ),
            Quantity {
                limit: Some(self.demand.max_discard),
                misses: verified.states[2].is_some_and(|seen| misses_most(&seen, self.demand.max_discard)),
                ..share(
                    "p_discard",
                    "share of time in which none is admitted",
                    model.states[2],
                    verified.states[2],
                    discards,
                )
            },
            time(
                "mean_wait",
                "until service begins, of those admitted, mean",
                Some(model.mean_wait_s),
                verified.mean_wait_s,
                cycles,
            ),
            time(
                "answer_p99",
                "waiting and service, exceeded by one in a hundred",
                model.answer_p99_s,
                verified.answer_p99_s,
                cycles,
            ),
            time(
                "return_time",
                "from entering overload until normal, mean",
                Some(model.return_time_s),
                verified.return_time_s,
                cycles,
            ),
            Quantity {
                limit: wished,
                misses: wished
                    .zip(verified.cycle_s)
                    .is_some_and(|(least_s, seen)| misses_least(&seen, least_s)),
                ..time(
                    "cycle_time",
                    "from one entry into overload to the next, mean",
                    Some(model.cycle_s),
                    verified.cycle_s,
                    cycles,
                )
            },
        ]
    }
}

/// Whether a simulated number contradicts a computed one that rests on so many events.
fn differs(computed: f64, simulated: &Estimate, events: f64) -> bool {
    let few = if events < FEW && events > 0.0 { computed.abs() * 4.0 / events.sqrt() } else { 0.0 };
    let tolerance = 4.0f64.mul_add(simulated.standard_error, 0.02 * computed.abs()) + few;
    (simulated.mean - computed).abs() > tolerance
}

#[cfg(test)]
mod tests {
    use super::differs;
    use crate::simulate::Estimate;

    #[test]
    fn two_numbers_contradict_each_other_beyond_chance_only() {
        let seen = |mean, standard_error| Estimate { count: 10, mean, standard_error, half_width: 0.0 };
        assert!(!differs(1.0, &seen(1.05, 0.01), 1e6));
        assert!(differs(1.0, &seen(1.07, 0.01), 1e6));
        // A discard is to be expected in every second run of this length, and none was seen.
        assert!(!differs(1e-6, &seen(0.0, 0.0), 0.5));
        assert!(differs(1e-3, &seen(0.0, 0.0), 500.0));
        assert!(!differs(0.0, &seen(0.0, 0.0), 0.0));
    }
}
