//! Bursty arrivals: a Poisson process whose rate follows a Markov chain of K phases (MMPP).
//!
//! # Symbols
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | λ_k | arrival rate in phase k | 1/s |
//! | t_k | mean sojourn in phase k, exponential | s |
//! | p_kj | probability that phase j follows phase k | |
//!
//! # Text
//!
//! One phase is `rate:sojourn`, or `rate:sojourn:p1:…:pK` where the order of phases is not a circle. Phases are separated
//! by commas or lines; spaces may stand for colons; `#` begins a comment. Without probabilities phase k+1 follows phase
//! k, and the first the last.

use std::str::FromStr;

use crate::elimination::BandedChain;
use crate::parameter::{self, ParameterError};

/// Phases at most: the cost of a solution grows with their cube.
const PHASES_MAX: usize = 32;

/// One phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// λ_k.
    pub rate_per_s: f64,
    /// t_k.
    pub sojourn_s: f64,
    /// p_kj by j; empty: the next in the list, or the first after the last.
    pub next: Vec<f64>,
}

/// The process, checked: every phase is left, and each is reached from each.
#[derive(Debug, Clone, PartialEq)]
pub struct Mmpp {
    phases: Vec<Phase>,
}

impl Mmpp {
    /// A process of these phases.
    ///
    /// # Errors
    /// The first phase that is wrong, and phases that are never reached.
    pub fn new(mut phases: Vec<Phase>) -> Result<Self, ParameterError> {
        let count = phases.len();
        if !(1..=PHASES_MAX).contains(&count) {
            let range = format!("between 1 and {PHASES_MAX}");
            return Err(ParameterError::new("mmpp", format_args!("number of phases {count}"), range));
        }
        for (k, phase) in phases.iter_mut().enumerate() {
            if phase.next.is_empty() {
                phase.next = vec![0.0; count];
                phase.next[(k + 1) % count] = 1.0;
            }
            phase.check(k, count)?;
        }
        let process = Self { phases };
        if process.phases.iter().all(|phase| phase.rate_per_s == 0.0) {
            return Err(ParameterError::new("mmpp", "with rate 0 in all phases", "above 0 in one at least"));
        }
        for (from, to) in (1..count).flat_map(|k| [(0, k), (k, 0)]) {
            if !process.reaches(from, to) {
                let value = format!("phase {}", to + 1);
                return Err(ParameterError::new(
                    "mmpp",
                    value,
                    format_args!("reachable from phase {}", from + 1),
                ));
            }
        }
        Ok(process)
    }

    /// The phases, each with all its probabilities.
    #[must_use]
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The share of time in each phase.
    #[must_use]
    pub fn shares(&self) -> Vec<f64> {
        let count = self.phases.len();
        let mut chain = BandedChain::new(count, count - 1);
        for (from, to, rate_per_s) in self.changes() {
            chain.add(from, to, rate_per_s);
        }
        let weights: Vec<f64> = chain.equilibrium().into_iter().map(f64::exp).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / total).collect()
    }

    /// Arrivals per second over all phases.
    #[must_use]
    pub fn mean_rate_per_s(&self) -> f64 {
        self.shares().iter().zip(&self.phases).map(|(share, phase)| share * phase.rate_per_s).sum()
    }

    /// Changes of phase: from, to, and how often per second.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        self.phases.iter().enumerate().flat_map(|(from, phase)| {
            let ways = phase.next.iter().enumerate().filter(move |&(to, &chance)| to != from && chance > 0.0);
            ways.map(move |(to, chance)| (from, to, chance / phase.sojourn_s))
        })
    }

    fn reaches(&self, from: usize, to: usize) -> bool {
        let mut seen = vec![false; self.phases.len()];
        let mut open = vec![from];
        while let Some(phase) = open.pop() {
            if !std::mem::replace(&mut seen[phase], true) {
                open.extend(self.changes().filter(|change| change.0 == phase).map(|change| change.1));
            }
        }
        seen[to]
    }
}

impl Phase {
    /// Checks phase k of `count`.
    fn check(&self, k: usize, count: usize) -> Result<(), ParameterError> {
        let number = k + 1;
        let wrong = |what: String, range: &str| Err(ParameterError::new("mmpp", what, range));
        if self.rate_per_s != 0.0 && parameter::positive("mmpp", self.rate_per_s).is_err() {
            let what = format!("rate {} of phase {number}", self.rate_per_s);
            return wrong(what, "0 or a number above 0 (between 1e-9 and 1e12), per second");
        }
        if parameter::positive("mmpp", self.sojourn_s).is_err() {
            let what = format!("sojourn {} of phase {number}", self.sojourn_s);
            return wrong(what, "a number above 0 (between 1e-9 and 1e12), in seconds");
        }
        let sum: f64 = self.next.iter().sum();
        let probabilities = self.next.iter().all(|chance| (0.0..=1.0).contains(chance));
        // A process of one phase follows itself, which is no change.
        let stays = self.next.get(k).copied().unwrap_or(0.0) != 0.0 && count > 1;
        if self.next.len() != count || !probabilities || (sum - 1.0).abs() > 1e-6 || stays {
            let range = format!("{count} probabilities that sum to 1, the {number}. of them 0");
            return wrong(format!("followers of phase {number}"), &range);
        }
        Ok(())
    }
}

impl FromStr for Mmpp {
    type Err = ParameterError;

    fn from_str(text: &str) -> Result<Self, ParameterError> {
        let mut phases = Vec::new();
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.split('#').next().unwrap_or_default();
            for entry in content.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
                let wrong = || {
                    let value = format!("line {line} \"{entry}\"");
                    let range = "a phase, rate:sojourn in 1/s and s, or rate:sojourn:p1:…:pK with the probabilities \
                                 of the phases that follow";
                    ParameterError::new("mmpp", value, range)
                };
                let fields =
                    entry.split(|c: char| c == ':' || c.is_whitespace()).filter(|field| !field.is_empty());
                let numbers: Vec<f64> =
                    fields.map(str::parse).collect::<Result<_, _>>().map_err(|_not_a_number| wrong())?;
                let [rate_per_s, sojourn_s, next @ ..] = &numbers[..] else { return Err(wrong()) };
                let next = next.to_vec();
                phases.push(Phase { rate_per_s: *rate_per_s, sojourn_s: *sojourn_s, next });
            }
        }
        Self::new(phases)
    }
}

#[cfg(test)]
mod tests {
    use super::Mmpp;

    #[test]
    fn one_line_and_a_file_say_the_same() {
        let line: Mmpp = "400:1,80:1".parse().unwrap();
        let file: Mmpp = "# busy hour\n400 1\n\n80:1  # and the rest\n".parse().unwrap();
        assert_eq!(line, file);
        assert_eq!((line.shares(), line.mean_rate_per_s()), (vec![0.5, 0.5], 240.0));
    }

    #[test]
    fn phases_follow_each_other_as_their_probabilities_say() {
        // Phase 1 is visited every second time, 2 and 3 every fourth.
        let process: Mmpp = "1:1:0:.5:.5\n2:2:1:0:0\n4:4:1:0:0".parse().unwrap();
        let shares = process.shares();
        for (share, expected) in shares.iter().zip([0.25, 0.25, 0.5]) {
            assert!((share - expected).abs() < 1e-12, "{shares:?}");
        }
        assert!((process.mean_rate_per_s() - 2.75).abs() < 1e-12);
        assert_eq!("7:3".parse::<Mmpp>().unwrap().shares(), [1.0]);
    }

    #[test]
    fn a_wrong_phase_is_named() {
        for (text, said) in [
            ("400:1\n\n80:x", "mmpp line 3 \"80:x\" must be a phase"),
            ("400", "mmpp line 1 \"400\""),
            ("", "number of phases 0"),
            ("-1:1", "rate -1 of phase 1"),
            ("NaN:1", "rate NaN of phase 1"),
            ("1:1,1:0", "sojourn 0 of phase 2"),
            ("0:1,0:1", "rate 0 in all phases"),
            ("1:1:0:1,1:1:.5:.5", "followers of phase 2"),
            ("1:1:0:.5:.4,1:1,1:1", "followers of phase 1"),
            ("1:1:0:1:0,1:1:1:0:0,1:1", "phase 3 must be reachable from phase 1"),
        ] {
            let error = text.parse::<Mmpp>().unwrap_err();
            assert_eq!(error.name, "mmpp");
            assert!(error.to_string().contains(said), "{text:?}: {error}");
        }
    }
}
