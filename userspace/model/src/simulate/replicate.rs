//! Replications: the same scenario with other seeds, and what their spread says about the mean.
//!
//! Runs are independent, so the mean of a measure over n of them has the standard error s/√n, and a 95 % confidence
//! interval by Student's t with n − 1 degrees of freedom. Seeds follow each other; run k of one variant and run k of another
//! see the same callers.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::network::{Scenario, ScenarioError};
use super::outcome::Outcome;

/// Two-sided confidence of the interval.
const CONFIDENCE: f64 = 0.95;

/// A mean over replications.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Replications in which the measure had a value.
    pub count: usize,
    /// The mean.
    pub mean: f64,
    /// s/√n; infinite with one replication.
    pub standard_error: f64,
    /// Half the width of the confidence interval; infinite with one replication.
    pub half_width: f64,
}

impl Estimate {
    /// The estimate from the values of a measure; what is not a number (a delay without answers) is left out. `None`
    /// if nothing is left.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let freedom = count as f64 - 1.0;
        let standard_error = (squares / freedom / count as f64).sqrt();
        let (standard_error, half_width) = match StudentsT::new(0.0, 1.0, freedom) {
            Ok(student) => (standard_error, student.inverse_cdf(0.5 + CONFIDENCE / 2.0) * standard_error),
            Err(_) => (f64::INFINITY, f64::INFINITY),
        };
        Some(Self { count, mean, standard_error, half_width })
    }

    /// The ends of the confidence interval.
    #[must_use]
    pub const fn interval(&self) -> (f64, f64) {
        (self.mean - self.half_width, self.mean + self.half_width)
    }
}

/// Runs the scenario `seeds` times, from its own seed upwards, on as many threads as asked for. `done` is called after
/// each run, with nothing promised about the order; the outcomes are in the order of the seeds.
///
/// # Errors
/// Everything that is wrong with the scenario.
pub fn replicate(
    scenario: &Scenario,
    seeds: usize,
    threads: usize,
    done: impl Fn() + Sync,
) -> Result<Vec<Outcome>, ScenarioError> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(vec![None; seeds]);
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, seeds.max(1)) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= seeds {
                        return;
                    }
                    let seed = scenario.seed.wrapping_add(number as u64);
                    let outcome = super::run(&Scenario { seed, ..scenario.clone() });
                    // A thread that panics ends the scope with its panic; nobody sees a half-written list.
                    if let Ok(mut outcomes) = outcomes.lock() {
                        outcomes[number] = Some(outcome);
                    }
                    done();
                }
            });
        }
    });
    outcomes.into_inner().unwrap_or_default().into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::Estimate;

    #[test]
    fn the_interval_is_that_of_the_t_table() {
        // t(0.975) is 2.776445 with 4 degrees of freedom.
        let estimate = Estimate::of([1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let error = (2.5_f64 / 5.0).sqrt();
        assert_eq!((estimate.count, estimate.mean), (5, 3.0));
        assert!((estimate.standard_error - error).abs() < 1e-12);
        assert!((estimate.half_width - 2.776_445_105 * error).abs() < 1e-6, "{}", estimate.half_width);
        let (low, high) = estimate.interval();
        assert!((high - low - 2.0 * estimate.half_width).abs() < 1e-12);
    }

    #[test]
    fn one_run_says_nothing_about_the_spread_and_none_says_nothing() {
        let one = Estimate::of([7.0, f64::NAN]).unwrap();
        assert_eq!((one.count, one.mean, one.half_width), (1, 7.0, f64::INFINITY));
        assert_eq!(Estimate::of([f64::NAN]), None);
    }

    #[test]
    fn equal_runs_have_no_spread() {
        assert_eq!(Estimate::of([2.0; 4]).unwrap().half_width, 0.0);
    }
}
