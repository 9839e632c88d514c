//! The hysteretic gate in equilibrium: M|M|1|⟨L,H⟩|B in closed form.
//!
//! # Assumptions
//!
//! Offered originals are Poisson, service times exponential, one server, first come first served. Each original is
//! inside the admitted share with probability q, independently. Nobody sends again.
//!
//! # Symbols
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | λ, μ | offered and service rate | 1/s |
//! | ρ = λ/μ | offered load | |
//! | q | share admitted in overload | |
//! | a = qρ | load in overload | |
//! | n | number in the system, waiting plus in service | messages |
//! | s | 0 normal, 1 overload, 2 discard | |
//! | L, H, B | overload ends below L, begins at H; discarding begins at B and ends at H | messages |
//! | π_s(n), P_s | probability of (s, n), of state s | |
//! | R | return time: from entering overload until normal again | s |
//! | τ | control cycle: from one entry into overload to the next, on average | s |
//! | S(x, m) | Σ x^i over i < m | |
//!
//! # Solution
//!
//! Unnormalised, with the flow H−1 → H as unit (so π0(H−1) = 1/ρ):
//!
//! ```text
//!   π0(n) = S(1/ρ, H−n)/ρ                            L−1 ≤ n ≤ H−1
//!   π0(n) = ρ^(n−L+1) π0(L−1)                        n ≤ L−2
//!   π1(n) = S(a, n−L+1)                              L ≤ n ≤ H
//!   π1(n) = k S(1/a, B−n)/a                          H < n < B
//!   π2(n) = k = S(a, H−L+1) / (S(1/a, B−H)/a)        H < n ≤ B
//! ```
//!
//! With W the sum over all states and W12 that over s ≥ 1: E\[R\] = W12/μ, τ = W/μ, rejected = (1−q) P1 + P2. E\[R\]
//! depends on the load through a only; choose q so that q times the highest ρ stays below 1.
//!
//! The sums are taken in logarithms, since ρ^±B leaves the range of a float long before the probabilities do. All
//! terms are positive: nothing cancels.
//!
//! # Sources
//!
//! - The model, P1, P2, E\[R\] and τ: Abaev, Gaidamaka, Samouylov, Pechinkin, Razumchik, Shorgin, on hysteretic overload
//!   control of SIP servers: ECMS 2012, NEW2AN 2012, ICUMT 2012 and 2014, Informatika i ee primeneniya 7(4) 2013,
//!   Computing and Informatics 33(1) 2014.
//! - Overload control by refusing a share: RFC 6357 section 5, RFC 7339.
//!
//! The formulas above were derived for this project from the state diagram (`overload::Hysteretic`), and tests hold
//! them against the diagram's balance equations.

use overload::{GateState, Levels};

/// The model's parameters, checked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hysteresis {
    levels: Levels,
    arrival_rate_per_s: f64,
    service_rate_per_s: f64,
    share: f64,
}

/// A parameter outside its range.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum ParameterError {
    /// λ is negative or not a number.
    #[error("arrival rate {0} per second must be a finite number of at least 0")]
    ArrivalRate(f64),
    /// μ is not positive.
    #[error("service rate {0} per second must be a finite number above 0")]
    ServiceRate(f64),
    /// q is outside 0 to 1.
    #[error("admitted share {0} must be between 0 and 1")]
    Share(f64),
}

/// One state of the chain and its probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StateProbability {
    /// s.
    pub gate: GateState,
    /// n.
    pub in_system: u32,
    /// π_s(n).
    pub probability: f64,
}

/// What the model predicts.
#[derive(Debug, Clone, PartialEq)]
pub struct Equilibrium {
    /// P0, P1, P2: the share of time in normal, overload and discard.
    pub states: [f64; 3],
    /// E\[R\] in seconds.
    pub return_time_s: f64,
    /// τ in seconds; infinite without arrivals.
    pub cycle_s: f64,
    /// The share of offered originals that is refused.
    pub rejected: f64,
    /// E\[N\].
    pub mean_in_system: f64,
    /// π, by state and then by number.
    pub distribution: Vec<StateProbability>,
}

impl Hysteresis {
    /// The model for these levels, λ, μ and q.
    ///
    /// # Errors
    /// The first parameter that is outside its range.
    pub fn new(
        levels: Levels,
        arrival_rate_per_s: f64,
        service_rate_per_s: f64,
        share: f64,
    ) -> Result<Self, ParameterError> {
        if !(arrival_rate_per_s >= 0.0 && arrival_rate_per_s.is_finite()) {
            return Err(ParameterError::ArrivalRate(arrival_rate_per_s));
        }
        if !(service_rate_per_s > 0.0 && service_rate_per_s.is_finite()) {
            return Err(ParameterError::ServiceRate(service_rate_per_s));
        }
        if !(0.0..=1.0).contains(&share) {
            return Err(ParameterError::Share(share));
        }
        Ok(Self { levels, arrival_rate_per_s, service_rate_per_s, share })
    }

    /// Solves the model.
    #[must_use]
    pub fn solve(&self) -> Equilibrium {
        let mu = self.service_rate_per_s;
        let shed = self.shed_log_weights();
        // The weights have the flow into overload as unit, so their sum is the mean stay there, whatever ρ is.
        let return_time_s = shed.iter().map(|&(_, _, log)| log.exp()).sum::<f64>() / mu;
        let weights = if self.arrival_rate_per_s > 0.0 {
            [self.normal_log_weights(), shed].concat()
        } else {
            vec![(GateState::Normal, 0, 0.0)]
        };
        let largest = weights.iter().map(|&(_, _, log)| log).fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = weights.iter().map(|&(_, _, log)| (log - largest).exp()).sum();
        let distribution: Vec<_> = weights
            .into_iter()
            .map(|(gate, in_system, log)| {
                let probability = (log - largest).exp() / total;
                StateProbability { gate, in_system, probability }
            })
            .collect();
        let states = GateState::ALL.map(|gate| {
            distribution.iter().filter(|state| state.gate == gate).map(|state| state.probability).sum::<f64>()
        });
        Equilibrium {
            states,
            return_time_s,
            cycle_s: if self.arrival_rate_per_s > 0.0 { total * largest.exp() / mu } else { f64::INFINITY },
            rejected: (1.0 - self.share).mul_add(states[1], states[2]),
            mean_in_system: distribution
                .iter()
                .map(|state| f64::from(state.in_system) * state.probability)
                .sum(),
            distribution,
        }
    }

    /// ln π0(n), unnormalised; needs ρ > 0.
    fn normal_log_weights(&self) -> Vec<LogWeight> {
        let (low, high, _) = self.levels.as_tuple();
        let rho = self.arrival_rate_per_s / self.service_rate_per_s;
        let from_low = |n: u32| log_sum_inverse(rho, high - n);
        let below_low = |n: u32| f64::from(low - 1 - n).mul_add(-rho.ln(), from_low(low - 1));
        (0..high)
            .map(|n| (GateState::Normal, n, if n + 1 >= low { from_low(n) } else { below_low(n) }))
            .collect()
    }

    /// ln π1(n) and ln π2(n), unnormalised. With a = 0 nothing lies above H.
    fn shed_log_weights(&self) -> Vec<LogWeight> {
        let (low, high, buffer) = self.levels.as_tuple();
        let a = self.share * self.arrival_rate_per_s / self.service_rate_per_s;
        let mut weights = Vec::with_capacity(2 * buffer as usize);
        weights.extend((low..=high).map(|n| (GateState::Overload, n, log_sum(a, n - low + 1))));
        if a > 0.0 {
            let log_k = log_sum(a, high - low + 1) - log_sum_inverse(a, buffer - high);
            let between = high + 1..buffer;
            weights.extend(between.map(|n| (GateState::Overload, n, log_k + log_sum_inverse(a, buffer - n))));
            weights.extend((high + 1..=buffer).map(|n| (GateState::Discard, n, log_k)));
        }
        weights
    }
}

/// s, n, and the logarithm of an unnormalised probability.
type LogWeight = (GateState, u32, f64);

/// ln S(x, m) for x ≥ 0 and m ≥ 1.
fn log_sum(x: f64, terms: u32) -> f64 {
    if x > 1.0 {
        f64::from(terms - 1).mul_add(x.ln(), geometric(1.0 / x, terms).ln())
    } else {
        geometric(x, terms).ln()
    }
}

/// ln (S(1/x, m)/x) for x > 0 and m ≥ 1, which is ln (x^−m S(x, m)).
fn log_sum_inverse(x: f64, terms: u32) -> f64 {
    f64::from(terms).mul_add(-x.ln(), log_sum(x, terms))
}

/// Σ x^i over i < m for 0 ≤ x ≤ 1, by Horner's rule: exact at x = 1, where the fraction is 0/0.
fn geometric(x: f64, terms: u32) -> f64 {
    (0..terms).fold(0.0, |sum, _| f64::mul_add(sum, x, 1.0))
}

#[cfg(test)]
mod tests;
