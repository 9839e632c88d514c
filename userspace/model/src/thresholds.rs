//! Which thresholds? The shortest mean return time with P(discard) at most γ1 and a mean cycle of at least γ2.
//!
//! # Assumptions
//!
//! M|M|1|⟨L,H⟩|B as in `hysteresis.rs`; B, λ, μ and q are given, 0 < L ≤ H < B are free.
//!
//! # Symbols
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | γ1 | greatest P2 allowed: a full buffer refuses everybody | |
//! | γ2 | least τ allowed: each cycle reconfigures all callers | s |
//!
//! # Solution
//!
//! With H kept and L lowered, E\[R\] and τ grow and P2 falls. So for each H the best L is the highest that satisfies both
//! limits, found by halving the interval, and one satisfies them if L = 1 does. Each ⟨L,H⟩ costs constant time
//! (`hysteresis/weights.rs`), the whole choice B log B. Tests hold it against the search of all pairs.
//!
//! # Source
//!
//! The optimisation problem: Abaev, Gaidamaka, Samouylov and others, as in `hysteresis.rs`.

use std::convert::Infallible;

use crate::hysteresis::ClosedForm;
use crate::numeric::{down, last, log_sum_exp, up};
use crate::parameter::{self, ParameterError};

/// What is given, checked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThresholdProblem {
    arrival_rate_per_s: f64,
    service_rate_per_s: f64,
    buffer: u32,
    share: f64,
    max_discard: f64,
    min_cycle_s: f64,
}

/// A pair of thresholds and what it does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// L.
    pub low: u32,
    /// H.
    pub high: u32,
    /// E\[R\] in seconds.
    pub return_time_s: f64,
    /// τ in seconds.
    pub cycle_s: f64,
    /// P2.
    pub p_discard: f64,
}

/// No pair satisfies both limits. Numbers are rounded to where they can be met.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum OutOfReach {
    /// γ1 alone.
    #[error(
        "max-discard {wanted} cannot be met whatever min-cycle is: it must be at least {}, reached with low {} and \
         high {}; or a longer buffer, or a smaller admit", up(.nearest.p_discard, 4), .nearest.low, .nearest.high
    )]
    Discard {
        /// γ1.
        wanted: f64,
        /// The pair of the lowest P2.
        nearest: Thresholds,
    },
    /// γ2 alone.
    #[error(
        "min-cycle {wanted} cannot be met whatever max-discard is: it must be at most {}, reached with low {} and \
         high {}; or a longer buffer", down(.nearest.cycle_s, 4), .nearest.low, .nearest.high
    )]
    Cycle {
        /// γ2.
        wanted: f64,
        /// The pair of the longest τ.
        nearest: Thresholds,
    },
    /// Each, but not both.
    #[error(
        "min-cycle {min_cycle_s} cannot be met together with max-discard {max_discard}: with that max-discard min-cycle \
         must be at most {} (low {}, high {}), with that min-cycle max-discard must be at least {} (low {}, high {})",
        down(.longest.cycle_s, 4), .longest.low, .longest.high, up(.surest.p_discard, 4), .surest.low, .surest.high
    )]
    Together {
        /// γ1.
        max_discard: f64,
        /// γ2.
        min_cycle_s: f64,
        /// The pair of the longest τ that keeps γ1.
        longest: Thresholds,
        /// The pair of the lowest P2 that keeps γ2.
        surest: Thresholds,
    },
}

/// ⟨L,H⟩ and the logarithms of what it does, times in mean services.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    low: u32,
    high: u32,
    log_return: f64,
    log_cycle: f64,
    log_discard: f64,
}

impl ThresholdProblem {
    /// The problem for λ and μ, B, q, γ1 and γ2.
    ///
    /// # Errors
    /// The first parameter that is outside its range.
    pub fn new(
        (arrival_rate_per_s, service_rate_per_s): (f64, f64),
        buffer: u32,
        share: f64,
        max_discard: f64,
        min_cycle_s: f64,
    ) -> Result<Self, ParameterError> {
        if !(min_cycle_s >= 0.0 && min_cycle_s.is_finite()) {
            return Err(ParameterError::new(
                "min-cycle",
                min_cycle_s,
                "a finite number of at least 0, in seconds",
            ));
        }
        Ok(Self {
            arrival_rate_per_s: parameter::positive("arrival-rate", arrival_rate_per_s)?,
            service_rate_per_s: parameter::positive("service-rate", service_rate_per_s)?,
            buffer: parameter::buffer(buffer, 2)?,
            share: parameter::share("admit", share)?,
            max_discard: parameter::share("max-discard", max_discard)?,
            min_cycle_s,
        })
    }

    /// The pair of the shortest E\[R\] within the limits.
    ///
    /// # Errors
    /// Which limit cannot be met, and the nearest that can.
    pub fn solve(&self) -> Result<Thresholds, OutOfReach> {
        let rho = self.arrival_rate_per_s / self.service_rate_per_s;
        let form = ClosedForm::new(rho, self.share * rho, self.buffer);
        let best = (1..self.buffer)
            .filter_map(|high| self.best_low(&form, high))
            .min_by(|one, other| one.log_return.total_cmp(&other.log_return));
        best.map(|candidate| self.thresholds(&candidate)).ok_or_else(|| self.out_of_reach(&form))
    }

    /// The highest L that satisfies both limits with this H.
    fn best_low(&self, form: &ClosedForm, high: u32) -> Option<Candidate> {
        let Ok(low) = last::<Infallible>(1, high, |low| Ok(self.satisfies(&self.candidate(form, low, high))));
        low.map(|low| self.candidate(form, low, high))
    }

    fn candidate(&self, form: &ClosedForm, low: u32, high: u32) -> Candidate {
        let totals = form.log_totals((low, high, self.buffer));
        let log_cycle = log_sum_exp(&totals);
        Candidate {
            low,
            high,
            log_return: log_sum_exp(&totals[1..]),
            log_cycle,
            log_discard: totals[2] - log_cycle,
        }
    }

    fn satisfies(&self, candidate: &Candidate) -> bool {
        self.keeps_discard(candidate) && self.keeps_cycle(candidate)
    }

    fn keeps_discard(&self, candidate: &Candidate) -> bool {
        candidate.log_discard <= self.max_discard.ln()
    }

    fn keeps_cycle(&self, candidate: &Candidate) -> bool {
        candidate.log_cycle >= (self.min_cycle_s * self.service_rate_per_s).ln()
    }

    fn thresholds(&self, candidate: &Candidate) -> Thresholds {
        Thresholds {
            low: candidate.low,
            high: candidate.high,
            return_time_s: candidate.log_return.exp() / self.service_rate_per_s,
            cycle_s: candidate.log_cycle.exp() / self.service_rate_per_s,
            p_discard: candidate.log_discard.exp(),
        }
    }

    /// What is nearest, with L = 1: the lowest P2 and the longest τ of each H.
    fn out_of_reach(&self, form: &ClosedForm) -> OutOfReach {
        let widest = || (1..self.buffer).map(|high| self.candidate(form, 1, high));
        let longest = |of: &dyn Fn(&Candidate) -> bool| {
            widest().filter(|c| of(c)).max_by(|one, other| one.log_cycle.total_cmp(&other.log_cycle))
        };
        let surest = |of: &dyn Fn(&Candidate) -> bool| {
            widest().filter(|c| of(c)).min_by(|one, other| one.log_discard.total_cmp(&other.log_discard))
        };
        let (max_discard, min_cycle_s) = (self.max_discard, self.min_cycle_s);
        match (longest(&|c| self.keeps_discard(c)), surest(&|c| self.keeps_cycle(c))) {
            (Some(longest), Some(surest)) => OutOfReach::Together {
                max_discard,
                min_cycle_s,
                longest: self.thresholds(&longest),
                surest: self.thresholds(&surest),
            },
            (None, _) => {
                let nearest = surest(&|_| true).unwrap_or_else(|| self.candidate(form, 1, 1));
                OutOfReach::Discard { wanted: max_discard, nearest: self.thresholds(&nearest) }
            }
            (Some(_), None) => {
                let nearest = longest(&|_| true).unwrap_or_else(|| self.candidate(form, 1, 1));
                OutOfReach::Cycle { wanted: min_cycle_s, nearest: self.thresholds(&nearest) }
            }
        }
    }
}

#[cfg(test)]
mod tests;
