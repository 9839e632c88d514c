//! The random gate: between two thresholds of an average, originals are refused with a probability that grows.
//!
//! ```text
//!   refused
//!      1 ┤              ┌──────    each request:  Q ← Q·(1 − w) + w·n
//!        │            ╱ │          Q < Tmin       admit
//!        │        ╱     │          Tmin ≤ Q ≤ Tmax  refuse with P = P0 + (1 − P0)·(Q − Tmin)/(Tmax − Tmin)
//!     P0 ┤     ┌        │          Q > Tmax       refuse
//!      0 ┼─────┘        │
//!        └─────┴────────┴──► Q    n ≥ B           refuse, whatever Q
//!             Tmin     Tmax
//! ```
//!
//! | symbol | here | meaning |
//! |---|---|---|
//! | n | `in_system` | number in the system that the request finds |
//! | Q | `average` | weighted average of n over the requests |
//! | w | `weight` | part that one request renews |
//! | Tmin, Tmax, B | `low`, `high`, `buffer` | thresholds, in messages |
//! | P0 | `initial_probability` | probability of a refusal at Q = Tmin |
//!
//! Source: patent CN101369971A. The draw is the transaction's share hash: a request is refused if the hash is not below
//! 1 − P, so that all copies of it get one answer at the same Q. With w = 1 the gate makes a birth-death chain of the line,
//! which `tests/random.rs` compares with.
//!
//! # What the word sheds, the average does not see
//!
//! Q is defined over all requests. Where the XDP program sheds by a published word, only a share s of them arrives here,
//! and none would if the word said discard: Q would stand still above Tmax for ever. Hence three rules while a word with
//! share s is in force:
//!
//! - **The word always admits a sixteenth**, as a sample: what is inside it and beyond 1 − P is refused here. In steady
//!   overload the admitted share is about μ/λ, so at least one request per service time arrives, and n does not
//!   move unnoticed in between.
//! - **A request whose hash is below s counts for 1/s requests**: Q ← n + (Q − n)·(1 − w)^(1/s), since on average
//!   1/s − 1 others were shed before it. One beyond s came in another way (past the NIC under an older word, or by the side
//!   door, which no word guards); it is judged, but those below s speak for it already. So the count is right whatever mix
//!   of filtered and unfiltered requests comes. What brings credentials has half a hash and counts twice, which gives it
//!   more weight in the average and does not move it.
//! - **An empty system forgets**: each service time without anybody counts as a request that found n = 0, as in RED
//!   (Floyd and Jacobson 1993, section 4). Otherwise the first callers after an overload would have to be refused for Q to
//!   learn that it is over.
//!
//! Without a published word (simulation, theory) every request counts once and the rules above do nothing.

mod config;

pub use config::RandomConfig;

use crate::config::ConfigError;
use crate::gate::{Decision, Discipline, Gate, GateState, GateWord, ShedReason};
use crate::levels::Levels;
use crate::{NANOS_PER_S, Nanos};

/// Least share of a word as a threshold: 1/16. Smaller: n moves unnoticed between two samples, and Q reacts late. Larger:
/// more requests cost a turn of the worker only to be refused.
const SAMPLE_THRESHOLD: u32 = 1 << 28;

/// The gate of [`RandomConfig`].
#[derive(Debug, Clone)]
pub struct Random {
    config: RandomConfig,
    capacity: u32,
    /// Tmin, Tmax, B in messages.
    levels: [u32; 3],
    service_rate_per_s: f64,
    /// Q.
    average: f64,
    /// Threshold of the share that lets requests through to here; `None` while all come.
    filter: Option<u32>,
    /// Until when the emptiness of the system is accounted for, while it is empty.
    empty_since: Option<Nanos>,
    state: GateState,
    transitions: u64,
}

impl Random {
    /// A gate for a line in which `capacity` messages can wait, at a first guess of the service rate.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration.
    pub fn new(config: &RandomConfig, capacity: u32, rate_per_s: f64) -> Result<Self, ConfigError> {
        ConfigError::check(config.check(capacity))?;
        let mut gate = Self {
            config: *config,
            capacity,
            levels: [1, 2, 3],
            service_rate_per_s: 0.0,
            average: 0.0,
            filter: None,
            empty_since: None,
            state: GateState::Normal,
            transitions: 0,
        };
        gate.set_service_rate(rate_per_s);
        Ok(gate)
    }

    /// Goes on where a gate of its kind ends.
    pub(crate) fn continue_from(&mut self, old: &Self) {
        self.average = old.average;
        self.filter = old.filter;
        self.empty_since = old.empty_since;
        (self.state, self.transitions) = (old.state, old.transitions);
    }

    /// Goes on where another gate ends, with what is in the system as the first average. Until a word of its own is
    /// published, what comes was filtered by the one before, whose share is taken for the filter.
    pub(crate) fn succeed(&mut self, word: GateWord, transitions: u64, in_system: usize) {
        self.average = in_system as f64;
        (self.state, self.transitions) = (word.state(), transitions);
        self.published(word);
    }

    /// 1 − P at the present average.
    fn admitted_share(&self) -> f64 {
        let [low, high, _] = self.levels.map(f64::from);
        let initial = self.config.initial_probability;
        match self.state {
            GateState::Normal => 1.0,
            GateState::Overload => 1.0 - ((self.average - low) * (1.0 - initial) / (high - low) + initial),
            GateState::Discard => 0.0,
        }
    }

    /// Takes a request that found `in_system` others into the average.
    fn count(&mut self, share_hash: u32, in_system: usize) {
        let (weight, n) = (self.config.weight, in_system as f64);
        match self.filter {
            None => self.average = self.average * (1.0 - weight) + weight * n,
            Some(threshold) if share_hash < threshold => {
                let stands_for = GateWord::new(GateState::Overload, threshold).admitted_share().recip();
                self.average = n + (self.average - n) * (1.0 - weight).powf(stands_for);
            }
            Some(_) => {}
        }
    }

    /// Takes the time up to `now` into the average, as far as the system was empty and requests may have been shed unseen.
    fn forget(&mut self, now: Nanos) {
        if let Some(since) = self.empty_since {
            self.empty_since = Some(since.max(now));
            if self.filter.is_some() {
                let empty_s = now.saturating_sub(since) as f64 / NANOS_PER_S as f64;
                self.average *= (1.0 - self.config.weight).powf(empty_s * self.service_rate_per_s);
            }
        }
    }

    fn settle(&mut self) {
        let [low, high, _] = self.levels.map(f64::from);
        let state = match self.average {
            average if average < low => GateState::Normal,
            average if average <= high => GateState::Overload,
            _ => GateState::Discard,
        };
        self.transitions += u64::from(state != self.state);
        self.state = state;
    }

    fn decide(&self, share_hash: u32, in_system: usize) -> Decision {
        let [.., buffer] = self.levels;
        match self.state {
            _ if in_system >= buffer as usize => Decision::Shed(ShedReason::GateDiscard),
            GateState::Normal => Decision::Admit,
            GateState::Overload if share_hash < GateWord::threshold_of(self.admitted_share()) => {
                Decision::Admit
            }
            GateState::Overload => Decision::Shed(ShedReason::ShareOutside),
            GateState::Discard => Decision::Shed(ShedReason::GateDiscard),
        }
    }
}

impl Gate for Random {
    fn arrive(&mut self, now: Nanos, share_hash: u32, in_system: usize) -> Decision {
        self.forget(now);
        self.count(share_hash, in_system);
        self.settle();
        let decision = self.decide(share_hash, in_system);
        if in_system > 0 || decision == Decision::Admit {
            self.empty_since = None;
        }
        decision
    }

    /// Always: the request itself moves the average by which it is judged.
    fn looks_at_hash(&self) -> bool {
        true
    }

    fn published(&mut self, word: GateWord) {
        match word.state() {
            GateState::Normal => self.filter = None,
            GateState::Overload => self.filter = Some(word.share_threshold()).filter(|share| *share > 0),
            // Not by this gate, but while the server is down: what still comes was let through before.
            GateState::Discard => {}
        }
    }

    fn depart(&mut self, now: Nanos, in_system: usize) {
        self.forget(now);
        self.settle();
        if in_system > 0 {
            self.empty_since = None;
        } else if self.empty_since.is_none() {
            self.empty_since = Some(now);
        }
    }

    fn set_service_rate(&mut self, rate_per_s: f64) {
        if rate_per_s >= 0.0 && rate_per_s.is_finite() {
            let RandomConfig { low, high, buffer, .. } = self.config;
            self.levels = Levels::fit([low, high, buffer], rate_per_s, self.capacity);
            self.service_rate_per_s = rate_per_s;
        }
    }

    fn state(&self) -> GateState {
        self.state
    }

    fn word(&self) -> GateWord {
        match self.state {
            GateState::Normal => GateWord::OPEN,
            GateState::Overload | GateState::Discard => {
                let threshold = GateWord::threshold_of(self.admitted_share());
                GateWord::new(GateState::Overload, threshold.max(SAMPLE_THRESHOLD))
            }
        }
    }

    fn transitions(&self) -> u64 {
        self.transitions
    }

    fn discipline(&self) -> Discipline {
        Discipline::Priority
    }
}

#[cfg(test)]
mod tests;
