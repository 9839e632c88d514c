//! The hysteretic gate in equilibrium: M|M|1|⟨L,H⟩|B in closed form.
//!
//! Other service laws are in `embedded.rs`, bursty callers in `modulated.rs`, the law of the return time in
//! `return_time.rs`.
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
//! | W_q | waiting time of what is admitted, not counting its service, on average | s |
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
//! With W the sum over all states and W12 that over s ≥ 1: E\[R\] = W12/μ, τ = W/μ, rejected = (1−q) P1 + P2, and by
//! Little's law W_q = Σ (n−1) π(n)/(λ (1 − rejected)) over n ≥ 1. E\[R\] depends on the load through a only; choose q so
//! that q times the highest ρ stays below 1: beyond, E\[R\] grows like a^(H−L) and soon leaves the range of a float (it
//! is then infinite; the probabilities stand).
//!
//! Weights are kept as logarithms, since ρ^±B leaves the range of a float long before the probabilities do. All terms
//! are positive: nothing cancels. Time and memory are linear in B.
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

use crate::numeric::sum;
use crate::parameter::{self, ParameterError};

mod embedded;
mod modulated;
mod return_time;
mod weights;

pub use modulated::ModulatedHysteresis;
pub use return_time::ReturnTime;
pub(crate) use weights::ClosedForm;

/// The model's parameters, checked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hysteresis {
    levels: Levels,
    arrival_rate_per_s: f64,
    service_rate_per_s: f64,
    share: f64,
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
    /// E\[R\] in seconds; infinite beyond the range of a float.
    pub return_time_s: f64,
    /// τ in seconds; infinite beyond the range of a float.
    pub cycle_s: f64,
    /// The share of offered originals that is refused.
    pub rejected: f64,
    /// E\[N\].
    pub mean_in_system: f64,
    /// W_q in seconds.
    pub mean_wait_s: f64,
    /// π, by state and then by number.
    pub distribution: Vec<StateProbability>,
}

/// s, n, and the logarithm of an unnormalised probability.
pub(crate) type LogWeight = (GateState, u32, f64);

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
        let (low, high, buffer) = levels.as_tuple();
        Ok(Self {
            levels: parameter::levels(low, high, buffer)?,
            arrival_rate_per_s: parameter::positive("arrival-rate", arrival_rate_per_s)?,
            service_rate_per_s: parameter::positive("service-rate", service_rate_per_s)?,
            share: parameter::share("admit", share)?,
        })
    }

    /// ρ.
    fn load(&self) -> f64 {
        self.arrival_rate_per_s / self.service_rate_per_s
    }

    /// a.
    fn accepted_load(&self) -> f64 {
        self.share * self.load()
    }

    /// Solves the model for exponential service.
    #[must_use]
    pub fn solve(&self) -> Equilibrium {
        let form = ClosedForm::new(self.load(), self.accepted_load(), self.levels.buffer());
        self.equilibrium([form.normal_weights(self.levels), form.shed_weights(self.levels)].concat())
    }

    /// What weights say that have the flow into overload as unit, in mean service times.
    fn equilibrium(&self, weights: Vec<LogWeight>) -> Equilibrium {
        // The weights have the flow into overload as unit, so their sum is the mean stay, whatever ρ is.
        let stay = |shed: bool| {
            let of = weights.iter().filter(|(gate, _, _)| (*gate != GateState::Normal) == shed);
            sum(of.map(|&(_, _, log)| log.exp())) / self.service_rate_per_s
        };
        let return_time_s = stay(true);
        let cycle_s = stay(false) + return_time_s;
        let largest = weights.iter().map(|&(_, _, log)| log).fold(f64::NEG_INFINITY, f64::max);
        let total = sum(weights.iter().map(|&(_, _, log)| (log - largest).exp()));
        let distribution: Vec<_> = weights
            .into_iter()
            .map(|(gate, in_system, log)| {
                let probability = (log - largest).exp() / total;
                StateProbability { gate, in_system, probability }
            })
            .collect();
        let states = GateState::ALL.map(|gate| {
            sum(distribution.iter().filter(|state| state.gate == gate).map(|state| state.probability))
        });
        let rejected = (1.0 - self.share).mul_add(states[1], states[2]);
        let admitted_per_s = self.arrival_rate_per_s * self.share.mul_add(states[1], states[0]);
        Equilibrium::new(states, [return_time_s, cycle_s], rejected, admitted_per_s, distribution)
    }
}

impl Equilibrium {
    /// With E\[N\] and, by Little's law, W_q.
    pub(crate) fn new(
        states: [f64; 3],
        [return_time_s, cycle_s]: [f64; 2],
        rejected: f64,
        admitted_per_s: f64,
        distribution: Vec<StateProbability>,
    ) -> Self {
        let mean = |count: fn(u32) -> u32| {
            sum(distribution.iter().map(|state| f64::from(count(state.in_system)) * state.probability))
        };
        Self {
            states,
            return_time_s,
            cycle_s,
            rejected,
            mean_in_system: mean(|n| n),
            mean_wait_s: mean(|n| n.saturating_sub(1)) / admitted_per_s,
            distribution,
        }
    }
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
