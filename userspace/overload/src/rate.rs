//! How fast the server serves while it has something to do.
//!
//! Messages served and time spent are averaged apart, both with the same exponential weight, and divided last. A
//! ratio of sums has no bias from short or uneven intervals, which an average of ratios would have. Time in which the
//! server may have been idle counts for nothing, so a quiet night does not make the server look slow in the morning.

use crate::config::Problem;
use crate::{NANOS_PER_S, Nanos};

/// First guess and memory of the estimator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateConfig {
    /// Messages a second until something has been measured; it fades as busy time accumulates.
    pub initial_per_s: f64,
    /// Busy time after which an observation weighs 1/e, in nanoseconds. Below some dozens of service times the
    /// thresholds jitter; above some seconds the gate is late when the server slows down.
    pub time_constant_ns: Nanos,
}

impl Default for RateConfig {
    fn default() -> Self {
        Self { initial_per_s: 1000.0, time_constant_ns: NANOS_PER_S }
    }
}

impl RateConfig {
    /// All problems.
    #[must_use]
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if !(self.initial_per_s > 0.0 && self.initial_per_s.is_finite()) {
            problems.push(Problem::Rate { field: "initial_per_s", value: self.initial_per_s });
        }
        if self.time_constant_ns == 0 {
            problems.push(Problem::Zero { field: "time_constant" });
        }
        problems
    }
}

/// The estimator. Feed it every look at the server, busy or not.
#[derive(Debug, Clone)]
pub struct ServiceRate {
    time_constant_ns: f64,
    /// Weighted sums over busy time; the first guess is one time constant's worth of both.
    served: f64,
    spent_ns: f64,
    last: Nanos,
    busy_ns: Nanos,
}

impl ServiceRate {
    /// An estimator that starts from the configured guess. The configuration is taken as checked.
    #[must_use]
    pub fn new(config: RateConfig, now: Nanos) -> Self {
        let time_constant_ns = config.time_constant_ns.max(1) as f64;
        let served = config.initial_per_s * time_constant_ns / NANOS_PER_S as f64;
        Self { time_constant_ns, served, spent_ns: time_constant_ns, last: now, busy_ns: 0 }
    }

    /// Takes in that `served` messages were finished since the last call. `busy` says that the server had work all
    /// the while, as far as one can tell (see `credit`).
    pub fn observe(&mut self, now: Nanos, served: u64, busy: bool) {
        let elapsed_ns = now.saturating_sub(self.last);
        self.last = self.last.max(now);
        if !busy || elapsed_ns == 0 {
            // Without time there is no rate. Departures noticed in the same instant are too few to matter.
            return;
        }
        let keep = (-(elapsed_ns as f64) / self.time_constant_ns).exp();
        self.served = self.served * keep + served as f64;
        self.spent_ns = self.spent_ns * keep + elapsed_ns as f64;
        self.busy_ns = self.busy_ns.saturating_add(elapsed_ns);
    }

    /// Replaces the first guess, if nothing has been measured yet.
    pub fn guess(&mut self, per_s: f64) {
        if self.busy_ns == 0 {
            self.served = per_s * self.spent_ns / NANOS_PER_S as f64;
        }
    }

    /// Messages a second of busy time.
    #[must_use]
    pub fn rate_per_s(&self) -> f64 {
        self.served / self.spent_ns * NANOS_PER_S as f64
    }

    /// Busy time seen so far. Below one time constant the first guess still weighs more than the measurement.
    #[must_use]
    pub const fn busy_ns(&self) -> Nanos {
        self.busy_ns
    }
}

#[cfg(test)]
mod tests {
    use super::{RateConfig, ServiceRate};

    const MS: u64 = 1_000_000;

    #[test]
    fn the_first_guess_holds_until_something_is_measured_and_then_fades() {
        let mut rate = ServiceRate::new(RateConfig::default(), 0);
        assert!((rate.rate_per_s() - 1000.0).abs() < 1e-6);
        for step in 1..=10_000 {
            rate.observe(step * MS, u64::from(step % 5 == 0), true);
        }
        assert!((rate.rate_per_s() - 200.0).abs() < 2.0, "{}", rate.rate_per_s());
        assert_eq!(rate.busy_ns(), 10_000 * MS);
    }

    #[test]
    fn a_new_guess_counts_until_something_is_measured() {
        let mut rate = ServiceRate::new(RateConfig::default(), 0);
        rate.guess(50.0);
        assert!((rate.rate_per_s() - 50.0).abs() < 1e-9);
        (1..=10_000).for_each(|step| rate.observe(step * MS, 1, true));
        rate.guess(50.0);
        assert!((rate.rate_per_s() - 1000.0).abs() < 1.0, "{}", rate.rate_per_s());
    }

    #[test]
    fn idle_time_does_not_make_the_server_look_slow() {
        let mut rate = ServiceRate::new(RateConfig::default(), 0);
        let mut now = 0;
        for step in 0..20_000_u64 {
            now += MS;
            rate.observe(now, 2, true);
            if step % 10 == 0 {
                now += 1000 * MS;
                rate.observe(now, 1, false);
            }
        }
        assert!((rate.rate_per_s() - 2000.0).abs() < 1.0, "{}", rate.rate_per_s());
    }

    #[test]
    fn uneven_looks_give_the_same_rate_as_even_ones() {
        let mut rate = ServiceRate::new(RateConfig::default(), 0);
        let mut now = 0;
        for step in 0..30_000_u64 {
            let (span_ns, served) = if step % 2 == 0 { (MS / 10, 0) } else { (MS * 39 / 10, 2) };
            now += span_ns;
            rate.observe(now, served, true);
        }
        assert!((rate.rate_per_s() - 500.0).abs() < 2.5, "{}", rate.rate_per_s());
    }

    #[test]
    fn a_server_that_stops_while_busy_is_noticed_within_some_time_constants() {
        let mut rate = ServiceRate::new(RateConfig::default(), 0);
        (1..=5000).for_each(|step| rate.observe(step * MS, 0, true));
        assert!(rate.rate_per_s() < 10.0);
        rate.observe(0, 1_000_000, true);
        assert!(rate.rate_per_s() < 10.0, "a clock that steps back adds nothing");
    }

    #[test]
    fn nonsense_is_reported_by_field() {
        let problems = RateConfig { initial_per_s: f64::NAN, time_constant_ns: 0 }.check();
        assert_eq!(
            problems.iter().map(super::Problem::field).collect::<Vec<_>>(),
            ["initial_per_s", "time_constant"]
        );
        assert_eq!(RateConfig::default().check(), []);
    }
}
