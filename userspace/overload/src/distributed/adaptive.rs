//! A sending rate that an edge finds by itself: additive increase, multiplicative decrease, and its non-linear form.
//!
//! | symbol | here | meaning |
//! |---|---|---|
//! | r | `rate_per_s` | requests per second that the edge allows itself |
//! | α | `increase` | r += α/r^k in a period without overload |
//! | k | `exponent` | 0: AIMD; above 0 a fast edge grows more slowly than a slow one |
//! | β | `decrease` | r = r·(1 − β) in a period with overload |
//!
//! Why it is fair: with k = 0 an increase leaves the difference of two edges as it is, and a decrease takes the part β of
//! it away. After m common decreases |r1 − r2| = (1 − β)^m·|r1 − r2|_0. A common capacity that is reached together is used
//! between 1 − β and 1, in the mean to about 1 − β/2.
//!
//! Source: DEOC (Computer Networks 2012) and PEOC (JNCA 2014); which periods are overloaded is their business.

use super::Category;
use super::leaky_bucket::LeakyBucket;
use crate::Nanos;
use crate::config::{ConfigError, Problem};

/// Settings of [`AdaptiveRate`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdaptiveConfig {
    /// Tc, the time between two changes of the rate. At least some answers should come in it.
    pub period_ns: Nanos,
    /// α, in units of rate^(k+1): with k = 0 requests per second that a period adds.
    pub increase: f64,
    /// β, above 0 and below 1.
    pub decrease: f64,
    /// k, at least 0.
    pub exponent: f64,
    /// The rate to begin with.
    pub initial_per_s: f64,
    /// The rate never falls below this, or an edge could never find out that the overload is over.
    pub min_per_s: f64,
    /// Nor does it rise above this: what the edge could ever have to send.
    pub max_per_s: f64,
    /// How many intervals of the rate a request of the first category may come early; see [`LeakyBucket`].
    pub tolerance: f64,
}

impl Default for AdaptiveConfig {
    /// One change in 200 ms; from any rate down by a fifth, up by 10 requests per second.
    fn default() -> Self {
        Self {
            period_ns: 200_000_000,
            increase: 10.0,
            decrease: 0.2,
            exponent: 0.0,
            initial_per_s: 100.0,
            min_per_s: 1.0,
            max_per_s: 1e6,
            tolerance: 4.0,
        }
    }
}

impl AdaptiveConfig {
    /// All problems, one for each wrong parameter.
    #[must_use]
    pub fn check(&self) -> Vec<Problem> {
        let range = |field, value, range| Problem::Range { field, value, range };
        let mut problems = Vec::new();
        if self.period_ns == 0 {
            problems.push(Problem::Zero { field: "period_ns" });
        }
        if !(self.increase.is_finite() && self.increase > 0.0) {
            problems.push(range("increase", self.increase, "above 0"));
        }
        if !(self.decrease > 0.0 && self.decrease < 1.0) {
            problems.push(range("decrease", self.decrease, "above 0 and below 1"));
        }
        if !(self.exponent.is_finite() && self.exponent >= 0.0) {
            problems.push(range("exponent", self.exponent, "at least 0"));
        }
        if !(self.tolerance.is_finite() && self.tolerance >= 0.0) {
            problems.push(range("tolerance", self.tolerance, "at least 0"));
        }
        let is_rate = |value: f64| value.is_finite() && value > 0.0;
        if !is_rate(self.min_per_s) {
            problems.push(Problem::Rate { field: "min_per_s", value: self.min_per_s });
        }
        if !is_rate(self.max_per_s) || self.max_per_s < self.min_per_s {
            problems.push(range("max_per_s", self.max_per_s, "finite and at least min_per_s"));
        } else if !(self.min_per_s..=self.max_per_s).contains(&self.initial_per_s) {
            problems.push(range("initial_per_s", self.initial_per_s, "between min_per_s and max_per_s"));
        }
        problems
    }
}

/// The rate, and the bucket that keeps to it.
#[derive(Debug, Clone)]
pub(super) struct AdaptiveRate {
    config: AdaptiveConfig,
    /// r.
    pub(super) rate_per_s: f64,
    bucket: LeakyBucket,
    /// End of the running period; the first one begins with the first call.
    period_end: Option<Nanos>,
}

impl AdaptiveRate {
    /// A rate at its beginning.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration.
    pub(super) fn new(config: &AdaptiveConfig) -> Result<Self, ConfigError> {
        ConfigError::check(config.check())?;
        let (rate_per_s, bucket) = (config.initial_per_s, LeakyBucket::default());
        Ok(Self { config: *config, rate_per_s, bucket, period_end: None })
    }

    /// Whether a period has ended since the last call. However many have passed, one is to be judged: what came in
    /// them was counted together.
    pub(super) fn period_ends(&mut self, now: Nanos) -> bool {
        let end = *self.period_end.get_or_insert(now.saturating_add(self.config.period_ns));
        if now < end {
            return false;
        }
        let passed = (now - end) / self.config.period_ns + 1;
        self.period_end = Some(end.saturating_add(passed.saturating_mul(self.config.period_ns)));
        true
    }

    /// Changes the rate after a period.
    pub(super) fn adapt(&mut self, is_overloaded: bool) {
        let AdaptiveConfig { increase, decrease, exponent, min_per_s, max_per_s, .. } = self.config;
        let rate = self.rate_per_s;
        let changed =
            if is_overloaded { rate * (1.0 - decrease) } else { rate + increase / rate.powf(exponent) };
        self.rate_per_s = changed.clamp(min_per_s, max_per_s);
    }

    /// Whether a request may be sent. The first category keeps to the rate; others pass, and it waits for them.
    pub(super) fn ask(&mut self, now: Nanos, category: Category) -> bool {
        let interval_ns = LeakyBucket::interval_ns(self.rate_per_s);
        if category == Category::FIRST {
            return self.bucket.conforms(now, interval_ns, self.config.tolerance);
        }
        self.bucket.force(now, interval_ns);
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::{AdaptiveConfig, AdaptiveRate};
    use crate::config::Problem;
    use crate::distributed::Category;

    fn rate(config: AdaptiveConfig) -> AdaptiveRate {
        AdaptiveRate::new(&config).unwrap()
    }

    #[test]
    fn it_rises_by_alpha_over_r_to_the_k_and_falls_by_beta() {
        for (exponent, risen) in [(0.0, 110.0), (1.0, 100.1), (0.5, 101.0)] {
            let mut rate = rate(AdaptiveConfig { exponent, ..AdaptiveConfig::default() });
            rate.adapt(false);
            assert!((rate.rate_per_s - risen).abs() < 1e-9, "{exponent}");
            rate.adapt(true);
            assert!((rate.rate_per_s - 0.8 * risen).abs() < 1e-9, "{exponent}");
        }
    }

    #[test]
    fn it_stays_between_its_ends() {
        let config = AdaptiveConfig { min_per_s: 90.0, max_per_s: 105.0, ..AdaptiveConfig::default() };
        let mut rate = rate(config);
        rate.adapt(false);
        assert_eq!(rate.rate_per_s, 105.0);
        rate.adapt(true);
        assert_eq!(rate.rate_per_s, 90.0);
    }

    #[test]
    fn a_period_ends_once_however_late_it_is_asked() {
        let mut rate = rate(AdaptiveConfig { period_ns: 100, ..AdaptiveConfig::default() });
        let ended: Vec<bool> = [50, 149, 150, 151, 480, 549, 550].map(|now| rate.period_ends(now)).into();
        assert_eq!(ended, [false, false, true, false, true, false, true]);
    }

    #[test]
    fn later_categories_pass_and_the_first_waits_for_them() {
        let mut rate = rate(AdaptiveConfig { tolerance: 0.0, ..AdaptiveConfig::default() });
        assert!((0..10).all(|_| rate.ask(0, Category::SECOND)));
        assert!(!rate.ask(99_999_999, Category::FIRST));
        assert!(rate.ask(100_000_000, Category::FIRST), "ten intervals of 10 ms");
    }

    #[test]
    fn each_wrong_parameter_is_named_once() {
        let valid = AdaptiveConfig::default();
        for (config, field) in [
            (AdaptiveConfig { period_ns: 0, ..valid }, "period_ns"),
            (AdaptiveConfig { increase: 0.0, ..valid }, "increase"),
            (AdaptiveConfig { increase: f64::INFINITY, ..valid }, "increase"),
            (AdaptiveConfig { decrease: 1.0, ..valid }, "decrease"),
            (AdaptiveConfig { decrease: f64::NAN, ..valid }, "decrease"),
            (AdaptiveConfig { exponent: -0.5, ..valid }, "exponent"),
            (AdaptiveConfig { tolerance: -1.0, ..valid }, "tolerance"),
            (AdaptiveConfig { min_per_s: 0.0, ..valid }, "min_per_s"),
            (AdaptiveConfig { max_per_s: 0.5, ..valid }, "max_per_s"),
            (AdaptiveConfig { initial_per_s: 0.5, ..valid }, "initial_per_s"),
        ] {
            assert_eq!(config.check().iter().map(Problem::field).collect::<Vec<_>>(), [field]);
        }
        assert_eq!(valid.check(), []);
    }

    proptest! {
        #[test]
        fn m_common_decreases_leave_the_power_m_of_a_difference(
            first in 50.0..1e4_f64, second in 50.0..1e4_f64, decrease in 0.01..0.5_f64,
            overloaded in proptest::collection::vec(proptest::bool::ANY, 1..40),
        ) {
            let start = |initial_per_s| {
                rate(AdaptiveConfig { initial_per_s, decrease, min_per_s: 1e-9, ..AdaptiveConfig::default() })
            };
            let mut rates = [start(first), start(second)];
            let mut decreases = 0;
            for is_overloaded in overloaded {
                decreases += i32::from(is_overloaded);
                for rate in &mut rates {
                    rate.adapt(is_overloaded);
                }
                let difference = (rates[0].rate_per_s - rates[1].rate_per_s).abs();
                let expected = (1.0 - decrease).powi(decreases) * (first - second).abs();
                prop_assert!((difference - expected).abs() < 1e-9 * first.max(second), "{difference} {expected}");
            }
        }

        #[test]
        fn a_fast_edge_never_gains_on_a_slow_one(
            first in 50.0..1e4_f64, second in 50.0..1e4_f64, exponent in 0.0..2.0_f64,
            overloaded in proptest::collection::vec(proptest::bool::ANY, 1..40),
        ) {
            // So little is added that the steps of the non-linear form do not overtake each other.
            let start = |initial_per_s| {
                let (increase, min_per_s) = (0.1, 50.0);
                rate(AdaptiveConfig { initial_per_s, increase, exponent, min_per_s, ..AdaptiveConfig::default() })
            };
            let mut rates = [start(first.max(second)), start(first.min(second))];
            for is_overloaded in overloaded {
                let before = rates[0].rate_per_s - rates[1].rate_per_s;
                for rate in &mut rates {
                    rate.adapt(is_overloaded);
                }
                let after = rates[0].rate_per_s - rates[1].rate_per_s;
                prop_assert!(after.abs() <= before.abs() + 1e-9, "{before} {after}");
            }
        }
    }
}
