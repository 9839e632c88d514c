//! Random two-threshold control in equilibrium, with the queue as it is now: the exact chain for w = 1.
//!
//! # Assumptions
//!
//! Requests are Poisson, service times exponential, one server, room for B in the system. Each request is judged by the
//! number in the system that it finds (w = 1: the average of the published rule has no memory), independently. Nobody
//! sends again.
//!
//! # Symbols
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | λ, μ, ρ = λ/μ | offered and service rate, offered load | 1/s |
//! | n | number in the system, waiting plus in service | messages |
//! | Tmin, Tmax | below Tmin all are admitted, above Tmax none | messages |
//! | P0 | probability of rejection at Tmin | |
//! | r(n) | probability of rejection by a request that finds n | |
//!
//! # Solution
//!
//! r(n) = 0 for n < Tmin, 1 for n > Tmax and for n = B, and (n − Tmin)(1 − P0)/(Tmax − Tmin) + P0 between. A birth–death
//! chain: π(n+1) = ρ (1 − r(n)) π(n). Rejected: Σ r(n) π(n).
//!
//! # Source
//!
//! Patent CN101369971A. A published P0 of 1.6 cannot be a probability and is refused with that reason.

use crate::numeric::{LogSequence, log_sum_exp, sum};
use crate::parameter::{self, ParameterError};

/// The model's parameters, checked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RandomControl {
    arrival_rate_per_s: f64,
    service_rate_per_s: f64,
    min_threshold: u32,
    max_threshold: u32,
    buffer: u32,
    initial_probability: f64,
}

/// What the model predicts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RandomEquilibrium {
    /// The share of offered requests that is refused.
    pub reject_probability: f64,
    /// E\[N\].
    pub mean_in_system: f64,
}

impl RandomControl {
    /// The model for λ, μ, Tmin, Tmax, B and P0, with 0 ≤ Tmin < Tmax ≤ B.
    ///
    /// # Errors
    /// The first parameter that is outside its range.
    pub fn new(
        (arrival_rate_per_s, service_rate_per_s): (f64, f64),
        (min_threshold, max_threshold): (u32, u32),
        buffer: u32,
        initial_probability: f64,
    ) -> Result<Self, ParameterError> {
        parameter::positive("arrival-rate", arrival_rate_per_s)?;
        parameter::positive("service-rate", service_rate_per_s)?;
        parameter::buffer(buffer, 1)?;
        if !(1..=buffer).contains(&max_threshold) {
            let range = format!("between 1 and buffer {buffer}");
            return Err(ParameterError::new("max-threshold", max_threshold, range));
        }
        if min_threshold >= max_threshold {
            let range = format!("between 0 and {} (below max-threshold)", max_threshold - 1);
            return Err(ParameterError::new("min-threshold", min_threshold, range));
        }
        if !(0.0..=1.0).contains(&initial_probability) {
            let range = "between 0 and 1: it is the probability of rejection at min-threshold, which a published P0 of 1.6 \
                         cannot be";
            return Err(ParameterError::new("initial-probability", initial_probability, range));
        }
        Ok(Self {
            arrival_rate_per_s,
            service_rate_per_s,
            min_threshold,
            max_threshold,
            buffer,
            initial_probability,
        })
    }

    /// r(n).
    fn rejection(&self, in_system: u32) -> f64 {
        if in_system >= self.buffer || in_system > self.max_threshold {
            return 1.0;
        }
        if in_system < self.min_threshold {
            return 0.0;
        }
        let part =
            f64::from(in_system - self.min_threshold) / f64::from(self.max_threshold - self.min_threshold);
        part.mul_add(1.0 - self.initial_probability, self.initial_probability)
    }

    /// Solves the model.
    #[must_use]
    pub fn solve(&self) -> RandomEquilibrium {
        let rho = self.arrival_rate_per_s / self.service_rate_per_s;
        let mut weights = LogSequence::new(1, self.buffer as usize + 1);
        weights.push(1.0);
        for n in 0..self.buffer {
            let last = weights.relative()[n as usize];
            weights.push(last * rho * (1.0 - self.rejection(n)));
        }
        let logs = weights.into_logs();
        let total = log_sum_exp(&logs);
        let probability = || (0..).zip(logs.iter().map(|log| (log - total).exp()));
        RandomEquilibrium {
            reject_probability: sum(probability().map(|(n, p)| self.rejection(n) * p)),
            mean_in_system: sum(probability().map(|(n, p)| f64::from(n) * p)),
        }
    }
}

#[cfg(test)]
mod tests;
