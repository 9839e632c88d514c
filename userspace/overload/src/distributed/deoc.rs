//! DEOC: an edge that learns from refusals alone.
//!
//! In each period Tc the edge compares the share ε of 503 among the answers to its requests with θ: with ε ≤ θ it sends
//! more, otherwise less ([`AdaptiveRate`]). A core needs nothing but a gate that refuses. A period without an answer says
//! nothing, and changes nothing.
//!
//! Source: DEOC (Computer Networks 2012).

use super::adaptive::{AdaptiveConfig, AdaptiveRate};
use super::{Category, ClientControl, Response};
use crate::Nanos;
use crate::config::{ConfigError, Problem};

/// Settings of [`Deoc`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeocConfig {
    /// How the rate changes.
    pub adaptive: AdaptiveConfig,
    /// θ: the share of refusals up to which a period counts as one without overload, at least 0 and below 1.
    pub refusals: f64,
}

impl Default for DeocConfig {
    /// Two refusals in a hundred answers are still no overload.
    fn default() -> Self {
        Self { adaptive: AdaptiveConfig::default(), refusals: 0.02 }
    }
}

impl DeocConfig {
    /// All problems, one for each wrong parameter.
    #[must_use]
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = self.adaptive.check();
        if !(0.0..1.0).contains(&self.refusals) {
            let range = "at least 0 and below 1";
            problems.push(Problem::Range { field: "refusals", value: self.refusals, range });
        }
        problems
    }
}

/// The control of [`DeocConfig`].
#[derive(Debug, Clone)]
pub struct Deoc {
    refusals_max: f64,
    rate: AdaptiveRate,
    answers: u64,
    refusals: u64,
}

impl Deoc {
    /// An edge at the beginning of its first period.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration.
    pub fn new(config: &DeocConfig) -> Result<Self, ConfigError> {
        ConfigError::check(config.check())?;
        let rate = AdaptiveRate::new(&config.adaptive)?;
        Ok(Self { refusals_max: config.refusals, rate, answers: 0, refusals: 0 })
    }

    fn judge(&mut self, now: Nanos) {
        if self.rate.period_ends(now) && self.answers > 0 {
            let share = self.refusals as f64 / self.answers as f64;
            self.rate.adapt(share > self.refusals_max);
            (self.answers, self.refusals) = (0, 0);
        }
    }
}

impl ClientControl for Deoc {
    fn ask(&mut self, now: Nanos, category: Category, _draw: u32) -> bool {
        self.judge(now);
        self.rate.ask(now, category)
    }

    fn hear(&mut self, now: Nanos, response: &Response) {
        self.judge(now);
        self.answers += 1;
        self.refusals += u64::from(response.is_refusal());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::{Deoc, DeocConfig};
    use crate::config::Problem;
    use crate::distributed::{AdaptiveConfig, Category, ClientControl, Response};

    const PERIOD_NS: u64 = 100_000_000;
    const SERVED: Response = Response::new(200, 1_000_000);
    const REFUSED: Response = Response::new(503, 1_000_000);

    fn deoc(initial_per_s: f64, increase: f64, decrease: f64, refusals: f64) -> Deoc {
        let adaptive = AdaptiveConfig {
            period_ns: PERIOD_NS,
            increase,
            decrease,
            initial_per_s,
            ..AdaptiveConfig::default()
        };
        Deoc::new(&DeocConfig { adaptive, refusals }).unwrap()
    }

    fn limit(edge: &Deoc) -> f64 {
        edge.rate.rate_per_s
    }

    #[test]
    fn a_period_with_more_refusals_than_allowed_lowers_the_rate_and_any_other_raises_it() {
        let mut edge = deoc(100.0, 10.0, 0.25, 0.1);
        let mut hear = |refused, served, now| {
            (0..refused).for_each(|_| edge.hear(now, &REFUSED));
            (0..served).for_each(|_| edge.hear(now, &SERVED));
            edge.hear(now + PERIOD_NS, &SERVED);
            limit(&edge)
        };
        assert_eq!(hear(1, 9, 0), 110.0);
        // The answer with which the last period ended belongs to this one.
        assert_eq!(hear(2, 7, PERIOD_NS), 82.5);
        // Other codes are the callee's business; a time-out may be the network's.
        let mut edge = deoc(100.0, 10.0, 0.25, 0.0);
        for code in [486, 404, 500, 0] {
            edge.hear(0, &Response::new(code, 0));
        }
        edge.hear(PERIOD_NS, &SERVED);
        assert_eq!(limit(&edge), 110.0);
    }

    #[test]
    fn periods_without_an_answer_change_nothing() {
        let mut edge = deoc(100.0, 10.0, 0.25, 0.0);
        for period in 0..50 {
            edge.ask(period * PERIOD_NS, Category::FIRST, 0);
        }
        assert_eq!(limit(&edge), 100.0);
    }

    /// Edges that send all they may, in turn, to a core that serves `capacity_per_s` and refuses the rest of each period
    /// at once. Their rates after each period, and the requests served in it.
    fn network(edges: &mut [Deoc], capacity_per_s: f64, periods: u64) -> Vec<(Vec<f64>, u32)> {
        const STEPS: u64 = 2_000;
        let capacity = (capacity_per_s * PERIOD_NS as f64 / 1e9).round() as u32;
        let mut history = Vec::new();
        for period in 0..periods {
            let (mut offered, mut served) = (vec![0_u32; edges.len()], 0);
            for step in 0..STEPS {
                let now = period * PERIOD_NS + step * PERIOD_NS / STEPS;
                for (edge, offered) in edges.iter_mut().zip(&mut offered) {
                    *offered += u32::from(edge.ask(now, Category::FIRST, 0));
                }
            }
            let all: u32 = offered.iter().sum();
            for (edge, offered) in edges.iter_mut().zip(offered) {
                let refused = (u64::from(offered) * u64::from(all.saturating_sub(capacity)))
                    .div_ceil(u64::from(all).max(1));
                for answer in 0..u64::from(offered) {
                    edge.hear(
                        (period + 1) * PERIOD_NS - 1,
                        if answer < refused { &REFUSED } else { &SERVED },
                    );
                }
                served += offered - refused as u32;
            }
            history.push((edges.iter().map(limit).collect(), served));
        }
        history
    }

    #[test]
    fn synchronised_edges_use_the_capacity_to_one_less_half_beta() {
        for (edges, decrease) in [(1, 0.5), (4, 0.5), (4, 0.2), (10, 0.3)] {
            let capacity_per_s = 2000.0;
            let initial = capacity_per_s / f64::from(edges);
            let mut edges: Vec<_> =
                (0..edges).map(|_| deoc(initial, initial / 100.0, decrease, 0.0)).collect();
            let history = network(&mut edges, capacity_per_s, 1000);
            let served: u32 = history.iter().skip(100).map(|(_, served)| *served).sum();
            let utilisation = f64::from(served) / (900.0 * capacity_per_s * 0.1);
            assert!((utilisation - (1.0 - decrease / 2.0)).abs() < 0.02, "{decrease}: {utilisation}");
        }
    }

    #[test]
    fn unequal_edges_become_equal_by_their_common_decreases() {
        let mut edges = [deoc(1500.0, 5.0, 0.5, 0.0), deoc(300.0, 5.0, 0.5, 0.0)];
        let history = network(&mut edges, 1000.0, 1000);
        let mut decreases = 0;
        let mut before = vec![1500.0, 300.0];
        for (rates, _) in history {
            decreases += i32::from(rates[0] < before[0] && rates[1] < before[1]);
            let expected = 1200.0 * 0.5_f64.powi(decreases);
            assert!(((rates[0] - rates[1]) - expected).abs() < 1e-6, "{rates:?} after {decreases} decreases");
            before = rates;
        }
        assert!(decreases > 5, "{decreases}");
    }

    #[test]
    fn wrong_parameters_are_named_those_of_the_rate_too() {
        let adaptive = AdaptiveConfig { decrease: 0.0, ..AdaptiveConfig::default() };
        let error = Deoc::new(&DeocConfig { adaptive, refusals: 1.0 }).unwrap_err();
        assert_eq!(error.problems.iter().map(Problem::field).collect::<Vec<_>>(), ["decrease", "refusals"]);
    }

    proptest! {
        #[test]
        fn the_rate_is_what_the_definition_makes_of_the_periods(
            periods in proptest::collection::vec((0_u32..20, 0_u32..20), 1..40), refusals in 0.0..0.9_f64,
        ) {
            let mut edge = deoc(100.0, 7.0, 0.2, refusals);
            edge.ask(0, Category::FIRST, 0);
            let mut rate = 100.0;
            for (period, (refused, served)) in periods.into_iter().enumerate() {
                let now = period as u64 * PERIOD_NS + PERIOD_NS / 2;
                (0..refused).for_each(|_| edge.hear(now, &REFUSED));
                (0..served).for_each(|_| edge.hear(now, &SERVED));
                edge.ask((period as u64 + 1) * PERIOD_NS, Category::FIRST, 0);
                if refused + served > 0 {
                    let is_overloaded = f64::from(refused) / f64::from(refused + served) > refusals;
                    rate = if is_overloaded { f64::max(rate * 0.8, 1.0) } else { rate + 7.0 };
                }
                prop_assert!((limit(&edge) - rate).abs() < 1e-9);
            }
        }
    }
}
