//! The hysteretic gate under bursts: MMPP|M|1|⟨L,H⟩|B.
//!
//! # Assumptions
//!
//! As `hysteresis.rs`, but offered originals are an MMPP of K phases (`mmpp.rs`). The chain of phases is not affected by
//! the gate.
//!
//! # Solution
//!
//! States (s, n, k). With the at most two s of one n beside each other, n takes 2K states and leads to n ± 1 only: a band
//! of 2K, solved by elimination (`elimination.rs`), in B K³ steps. With π_s(n,k) normalised,
//!
//! ```text
//!   flow into overload  f = Σ_k λ_k π0(H−1, k)          τ = 1/f          E[R] = (P1+P2)/f
//!   rejected = Σ_k λ_k ((1−q) P1(k) + P2(k)) / Σ_k λ_k P(k)
//! ```
//!
//! Callers see their own phase, so the refused share is weighted by the rates. R begins in (1,H) with phase k with
//! probability λ_k π0(H−1,k)/f; its moments and its transform are collected on the states with s ≥ 1 and inverted
//! numerically (`inversion.rs`).
//!
//! Where a refusal costs the server c services, it serves while r of the originals are refused at rate μ − c r λ_k only:
//! r is 0, 1−q and 1 in the three states. That takes refusals for a drain that runs beside service; in fact they come one by
//! one and in between, which matters only where c is not far below 1.
//!
//! # Source
//!
//! Model and check as in `hysteresis.rs`; equal rates in all phases give its rows.

use num_complex::Complex64;
use overload::{GateState, Levels};

use crate::elimination::{BandedChain, Rate};
use crate::hysteresis::{Equilibrium, Hysteresis, ReturnTime, StateProbability};
use crate::inversion::Law;
use crate::mmpp::{Mmpp, Phase};
use crate::numeric::{log_sum_exp, sum};
use crate::parameter::ParameterError;

/// Rates kept at most: 400 MB.
const KEPT_MAX: usize = 50_000_000;
/// Steps of one transform at most: its quantiles take some thousand transforms.
const TRANSFORM_STEPS_MAX: usize = 100_000;

/// The hysteretic gate under bursty callers.
#[derive(Debug, Clone, PartialEq)]
pub struct ModulatedHysteresis {
    levels: Levels,
    arrivals: Mmpp,
    service_rate_per_s: f64,
    share: f64,
    refusal_cost: f64,
}

impl ModulatedHysteresis {
    /// The model for these levels, arrivals, μ and q.
    ///
    /// # Errors
    /// The first parameter that is outside its range, and a buffer too long for this number of phases.
    pub fn new(
        levels: Levels,
        arrivals: Mmpp,
        service_rate_per_s: f64,
        share: f64,
    ) -> Result<Self, ParameterError> {
        let simple = Hysteresis::new(levels, arrivals.mean_rate_per_s(), service_rate_per_s, share)?;
        let phases = arrivals.phases().len();
        let kept_per_place = BandedChain::<f64>::size(2 * phases, 2 * phases);
        if levels.buffer() as usize * kept_per_place > KEPT_MAX {
            let range = format!("at most {} with {phases} phases", KEPT_MAX / kept_per_place);
            return Err(ParameterError::new("buffer", levels.buffer(), range));
        }
        Ok(Self { levels: simple.levels, arrivals, service_rate_per_s, share, refusal_cost: 0.0 })
    }

    /// The same where each refusal costs the server this many services.
    ///
    /// # Errors
    /// When the refusals alone would take the whole server in some phase.
    pub fn with_refusal_cost(self, services: f64) -> Result<Self, ParameterError> {
        let highest_per_s = self.arrivals.phases().iter().map(|phase| phase.rate_per_s).fold(0.0, f64::max);
        if !(services >= 0.0 && services * highest_per_s < self.service_rate_per_s) {
            let range = format_args!("at least 0 and below {}", self.service_rate_per_s / highest_per_s);
            return Err(ParameterError::new("reply-cost", services, range));
        }
        Ok(Self { refusal_cost: services, ..self })
    }

    /// What the server serves per second in this state and phase.
    fn service_rate_in(&self, gate: GateState, phase: &Phase) -> f64 {
        let refused = match gate {
            GateState::Normal => 0.0,
            GateState::Overload => 1.0 - self.share,
            GateState::Discard => 1.0,
        };
        (-self.refusal_cost * refused).mul_add(phase.rate_per_s, self.service_rate_per_s)
    }

    /// Solves the model, with the law of R where its quantiles do not take too long.
    #[must_use]
    pub fn solve(&self) -> (Equilibrium, Option<ReturnTime>) {
        let (equilibrium, begins) = self.equilibrium();
        (equilibrium, self.return_time(&begins))
    }

    /// Solves the model, and says in which phases overload begins, by their probabilities.
    pub(crate) fn equilibrium(&self) -> (Equilibrium, Vec<f64>) {
        let phases = self.arrivals.phases();
        let places = Places { levels: self.levels, phases: phases.len(), normal: true };
        let logs = self.chain::<f64>(&places, |rate| rate).equilibrium();
        let total = log_sum_exp(&logs);
        let probability = |gate, n, k| (logs[places.state(gate, n, k)] - total).exp();
        let over_phases = |gate, n| sum((0..phases.len()).map(|k| probability(gate, n, k)));
        let distribution: Vec<_> = places
            .all()
            .map(|(gate, n)| StateProbability { gate, in_system: n, probability: over_phases(gate, n) })
            .collect();
        let states = GateState::ALL.map(|gate| {
            sum(distribution.iter().filter(|state| state.gate == gate).map(|state| state.probability))
        });
        // Offered while the gate is in each state, per second.
        let offered = GateState::ALL.map(|gate| {
            let of = places.all().filter(|place| place.0 == gate);
            sum(of.flat_map(|(gate, n)| {
                phases.iter().enumerate().map(move |(k, phase)| phase.rate_per_s * probability(gate, n, k))
            }))
        });
        let last = self.levels.high() - 1;
        // By logarithms: changes may be too rare for a float, and yet their phases are known.
        let changes: Vec<f64> = phases
            .iter()
            .enumerate()
            .map(|(k, phase)| phase.rate_per_s.ln() + logs[places.state(GateState::Normal, last, k)])
            .collect();
        let log_changes = log_sum_exp(&changes);
        let changes_per_s = (log_changes - total).exp();
        let rejected = (1.0 - self.share).mul_add(offered[1], offered[2]) / offered.iter().sum::<f64>();
        let admitted_per_s = self.share.mul_add(offered[1], offered[0]);
        let begins: Vec<f64> = changes.iter().map(|change| (change - log_changes).exp()).collect();
        let shed: Vec<f64> = places
            .all()
            .filter(|(gate, _)| *gate != GateState::Normal)
            .flat_map(|(gate, n)| (0..phases.len()).map(move |k| (gate, n, k)))
            .map(|(gate, n, k)| logs[places.state(gate, n, k)])
            .collect();
        let times_s = [(log_sum_exp(&shed) - log_changes).exp(), 1.0 / changes_per_s];
        (Equilibrium::new(states, times_s, rejected, admitted_per_s, distribution), begins)
    }

    /// The law of R from the phases in which it begins. None where a transform takes too long, or where bursts that
    /// lead to overload are too rare to be told from none.
    fn return_time(&self, begins: &[f64]) -> Option<ReturnTime> {
        let phases = begins.len();
        let places = Places { levels: self.levels, phases, normal: false };
        let steps = places.states() * (2 * phases).pow(2);
        if steps > TRANSFORM_STEPS_MAX || !begins.iter().all(|chance| chance.is_finite()) {
            return None;
        }
        let exits = |state: usize| {
            let phase = self.arrivals.phases().get(state);
            phase.map_or(0.0, |phase| self.service_rate_in(GateState::Overload, phase))
        };
        let first = places.state(GateState::Overload, self.levels.high(), 0);
        let chain = self.chain::<f64>(&places, |rate| rate);
        let collect =
            |reward: Vec<f64>| chain.clone().collected((0..places.states()).map(exits).collect(), reward);
        let from_begin = |values: &[f64]| -> f64 {
            begins.iter().zip(&values[first..]).map(|(chance, value)| chance * value).sum()
        };
        let means = collect(vec![1.0; places.states()]);
        let squares = collect(means.iter().map(|mean| 2.0 * mean).collect());
        let mean = from_begin(&means);
        let sd = (from_begin(&squares) - mean * mean).sqrt();
        let complex = self.chain(&places, Complex64::from);
        let transform = |s: Complex64| {
            let out = (0..places.states()).map(|state| s + exits(state)).collect();
            let reward = (0..places.states()).map(|state| exits(state).into()).collect();
            let found = complex.clone().collected(out, reward);
            begins.iter().zip(&found[first..]).map(|(&chance, &value)| chance * value).sum()
        };
        let levels_to_fall = f64::from(self.levels.high() - self.levels.low() + 1);
        let median_min = (levels_to_fall - 1.0 / 3.0) / self.service_rate_per_s;
        let law = Law { transform, mean, sd, median_min };
        Some(ReturnTime { mean_s: mean, sd_s: sd, p50_s: law.quantile(0.5), p99_s: law.quantile(0.99) })
    }

    /// The chain on these places; what would lead elsewhere is left out.
    fn chain<T: Rate>(&self, places: &Places, number: impl Fn(f64) -> T) -> BandedChain<T> {
        use GateState::{Discard, Normal, Overload};
        let (low, high, buffer) = self.levels.as_tuple();
        let mut chain = BandedChain::new(places.states(), 2 * self.arrivals.phases().len());
        for (gate, n) in places.all() {
            let (up, share) = match gate {
                Normal if n + 1 == high => ((Overload, high), 1.0),
                Normal => ((Normal, n + 1), 1.0),
                Overload if n + 1 == buffer => ((Discard, buffer), self.share),
                Overload => ((Overload, n + 1), self.share),
                Discard => ((Discard, n), 0.0),
            };
            let down = match gate {
                Normal => n.checked_sub(1).map(|n| (Normal, n)),
                Overload if n == low => places.normal.then_some((Normal, low - 1)),
                Discard if n == high + 1 => Some((Overload, high)),
                Overload | Discard => Some((gate, n - 1)),
            };
            for (k, phase) in self.arrivals.phases().iter().enumerate() {
                let here = places.state(gate, n, k);
                if share * phase.rate_per_s > 0.0 {
                    chain.add(here, places.state(up.0, up.1, k), number(share * phase.rate_per_s));
                }
                if let Some((to, n)) = down {
                    chain.add(here, places.state(to, n, k), number(self.service_rate_in(gate, phase)));
                }
            }
            for (from, to, rate_per_s) in self.arrivals.changes() {
                chain.add(places.state(gate, n, from), places.state(gate, n, to), number(rate_per_s));
            }
        }
        chain
    }
}

/// Numbers of the states (s, n, k): by n, then s, then k.
struct Places {
    levels: Levels,
    phases: usize,
    /// With those of normal.
    normal: bool,
}

impl Places {
    /// Places (s, m) with m below n.
    fn before(&self, n: u32) -> usize {
        let (low, high, buffer) = self.levels.as_tuple();
        let normal = if self.normal { n.min(high) } else { 0 };
        let overload = n.clamp(low, buffer) - low;
        let discard = n.saturating_sub(high + 1);
        (normal + overload + discard) as usize
    }

    fn states(&self) -> usize {
        self.before(self.levels.buffer() + 1) * self.phases
    }

    fn state(&self, gate: GateState, n: u32, k: usize) -> usize {
        let second = match gate {
            GateState::Normal => false,
            GateState::Overload => self.normal && n < self.levels.high(),
            GateState::Discard => n < self.levels.buffer(),
        };
        (self.before(n) + usize::from(second)) * self.phases + k
    }

    /// All places by s and then n.
    fn all(&self) -> impl Iterator<Item = (GateState, u32)> {
        let (low, high, buffer) = self.levels.as_tuple();
        let normal = if self.normal { 0..high } else { 0..0 };
        (normal.map(|n| (GateState::Normal, n)))
            .chain((low..buffer).map(|n| (GateState::Overload, n)))
            .chain((high + 1..=buffer).map(|n| (GateState::Discard, n)))
    }
}

#[cfg(test)]
mod tests;
