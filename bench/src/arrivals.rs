//! When calls are meant to start: a seeded Poisson or constant process whose rate may change in steps.
//!
//! The process knows nothing of how the run is going: that is what makes the caller open-loop.

use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;

use crate::clock::{Nanos, SECOND_NS};
use crate::config::{Arrival, CallerConfig, RateStep};

/// Iterator over intended starts, as offsets from the start of the run, in order.
///
/// A gap is one unit of "work" (a unit exponential for Poisson, exactly 1 for constant), used up at the rate of
/// the moment; so a change of rate in the middle of a gap is honoured exactly, and without it the process is the
/// plain one.
#[derive(Debug, Clone)]
pub struct Arrivals {
    kind: Arrival,
    rng: Pcg64Mcg,
    /// Rates still to come, the present one first; never empty.
    rates: Vec<RateStep>,
    present: usize,
    /// Kept as a float so that rounding does not add up; 2^53 ns are 104 days.
    at_ns: f64,
    end_ns: f64,
}

impl Arrivals {
    /// The arrivals of a run.
    #[must_use]
    pub fn new(config: &CallerConfig) -> Self {
        let mut rates = vec![RateStep { at_ns: 0, rate_per_s: config.rate_per_s }];
        rates.extend_from_slice(&config.steps);
        Self {
            kind: config.arrival,
            rng: Pcg64Mcg::seed_from_u64(config.seed),
            rates,
            present: 0,
            at_ns: 0.0,
            end_ns: config.duration_ns as f64,
        }
    }
}

impl Iterator for Arrivals {
    type Item = Nanos;

    fn next(&mut self) -> Option<Nanos> {
        let mut work: f64 = match self.kind {
            Arrival::Poisson => Exp1.sample(&mut self.rng),
            Arrival::Constant => 1.0,
        };
        loop {
            let per_ns = self.rates[self.present].rate_per_s / SECOND_NS as f64;
            let next = self.rates.get(self.present + 1);
            let until_ns = next.map_or(self.end_ns, |step| (step.at_ns as f64).min(self.end_ns));
            let room = (until_ns - self.at_ns) * per_ns;
            if work <= room && per_ns > 0.0 {
                self.at_ns += work / per_ns;
                return (self.at_ns < self.end_ns).then_some(self.at_ns.round() as Nanos);
            }
            if next.is_none() || until_ns >= self.end_ns {
                return None;
            }
            work -= room;
            self.at_ns = until_ns;
            self.present += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(arrival: Arrival, rate_per_s: f64, seconds: u64) -> CallerConfig {
        CallerConfig { arrival, rate_per_s, duration_ns: seconds * SECOND_NS, seed: 7, ..Default::default() }
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_variance_of_an_exponential() {
        let times: Vec<_> = Arrivals::new(&config(Arrival::Poisson, 1000.0, 200)).collect();
        let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / n;
        // 200,000 gaps: the standard error of the mean is 0.22 %, of the variance 0.63 %; four of each.
        assert!((mean / 1e6 - 1.0).abs() < 0.009, "mean gap {mean} ns");
        assert!((variance / 1e12 - 1.0).abs() < 0.026, "variance {variance}");
    }

    #[test]
    fn poisson_counts_are_as_variable_as_their_mean() {
        let mut counts = vec![0_f64; 2000];
        for at in Arrivals::new(&config(Arrival::Poisson, 500.0, 200)) {
            counts[(at / 100_000_000) as usize] += 1.0;
        }
        let mean = counts.iter().sum::<f64>() / 2000.0;
        let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / 2000.0;
        // Index of dispersion 1; its standard error over 2,000 bins is 3.2 %.
        assert!((variance / mean - 1.0).abs() < 0.13, "{variance} / {mean}");
    }

    #[test]
    fn constant_arrivals_do_not_drift() {
        let times: Vec<_> = Arrivals::new(&config(Arrival::Constant, 3.0, 1000)).collect();
        assert!((2999..=3000).contains(&times.len()));
        assert_eq!(times[0], 333_333_333);
        assert!(times[2998].abs_diff(2999 * SECOND_NS / 3) < 1000);
    }

    #[test]
    fn a_seed_fixes_the_arrivals_and_another_changes_them() {
        let first: Vec<_> = Arrivals::new(&config(Arrival::Poisson, 1000.0, 1)).collect();
        let again: Vec<_> = Arrivals::new(&config(Arrival::Poisson, 1000.0, 1)).collect();
        let other = CallerConfig { seed: 8, ..config(Arrival::Poisson, 1000.0, 1) };
        assert_eq!(first, again);
        assert_ne!(first, Arrivals::new(&other).collect::<Vec<_>>());
        assert!(first.is_sorted());
    }

    #[test]
    fn steps_change_the_rate_from_their_time_on() {
        let step = |at_s: u64, rate_per_s| RateStep { at_ns: at_s * SECOND_NS, rate_per_s };
        let steps = vec![step(10, 2000.0), step(20, 0.0), step(30, 100.0)];
        let config = CallerConfig { steps, ..config(Arrival::Poisson, 200.0, 40) };
        let mut per_ten_s = [0_i64; 4];
        for at in Arrivals::new(&config) {
            per_ten_s[(at / (10 * SECOND_NS)) as usize] += 1;
        }
        assert!((per_ten_s[0] - 2_000).abs() < 180, "{per_ten_s:?}");
        assert!((per_ten_s[1] - 20_000).abs() < 570, "{per_ten_s:?}");
        assert_eq!(per_ten_s[2], 0);
        assert!((per_ten_s[3] - 1_000).abs() < 130, "{per_ten_s:?}");
    }

    #[test]
    fn a_rate_of_zero_offers_nothing_and_ends() {
        assert_eq!(Arrivals::new(&config(Arrival::Poisson, 0.0, 1)).count(), 0);
        assert_eq!(Arrivals::new(&config(Arrival::Constant, 0.0, 1)).count(), 0);
    }
}
