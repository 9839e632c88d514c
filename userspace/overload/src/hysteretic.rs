//! The hysteretic gate, M|G|1|⟨L,H⟩|B.
//!
//! ```text
//!                 n reaches H by an arrival          n reaches B by an admitted arrival
//!      ┌────────┐ ──────────────────────► ┌──────────┐ ──────────────────────► ┌─────────┐
//!      │ normal │                         │ overload │                         │ discard │
//!      └────────┘ ◄────────────────────── └──────────┘ ◄────────────────────── └─────────┘
//!       admits all   a departure leaves     admits q     a departure leaves      admits none
//!                          L − 1                               H
//! ```
//!
//! The gap between L and H keeps the gate from chattering: one cycle costs at least H − L + 1 departures. Rules as
//! in the literature on hysteretic control of SIP servers (NEW2AN 2012 and later); `model::hysteresis` has sources and
//! closed form, and `model::simulate` drives this very type.

use crate::Nanos;
use crate::config::{ConfigError, HystereticConfig};
use crate::gate::{Decision, Discipline, Gate, GateState, GateWord, ShedReason};
use crate::levels::Levels;
use crate::threshold::Threshold;

/// The gate of [`HystereticConfig`].
///
/// INVARIANT between calls: in `Normal` n < H, in `Overload` L ≤ n < B, in `Discard` n > H, where n is the number
/// last reported or implied by an admission. A new service rate may move the levels under a standing n; the next
/// call restores the invariant.
#[derive(Debug, Clone)]
pub struct Hysteretic {
    config: HystereticConfig,
    capacity: u32,
    levels: Levels,
    share_threshold: u32,
    state: GateState,
    transitions: u64,
}

impl Hysteretic {
    /// A gate for a line in which `capacity` messages can wait, at a first guess of the service rate.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration.
    pub fn new(config: &HystereticConfig, capacity: u32, rate_per_s: f64) -> Result<Self, ConfigError> {
        ConfigError::check(config.check(capacity))?;
        Ok(Self {
            config: *config,
            capacity,
            levels: Levels::resolve(config, rate_per_s, capacity),
            share_threshold: GateWord::threshold_of(config.share),
            state: GateState::Normal,
            transitions: 0,
        })
    }

    /// A gate with levels in messages, as the models have it.
    ///
    /// # Errors
    /// When `share` is not between 0 and 1.
    pub fn with_levels(levels: Levels, share: f64) -> Result<Self, ConfigError> {
        let config = HystereticConfig {
            admit_below: Threshold::Messages(levels.low()),
            shed_at: Threshold::Messages(levels.high()),
            discard_at: Threshold::Messages(levels.buffer()),
            share,
        };
        Self::new(&config, levels.buffer(), 1.0)
    }

    /// The levels in force.
    #[must_use]
    pub const fn levels(&self) -> Levels {
        self.levels
    }

    /// q, the share admitted in overload.
    #[must_use]
    pub const fn share(&self) -> f64 {
        self.config.share
    }

    /// Goes on in the state in which another gate ends; its own levels say what comes next.
    pub(crate) fn succeed(&mut self, state: GateState, transitions: u64) {
        (self.state, self.transitions) = (state, transitions);
    }

    fn enter(&mut self, state: GateState) {
        self.state = state;
        self.transitions += 1;
    }

    /// Follows a number that has moved by any amount. At most two changes: up as far as n demands, or down.
    fn settle(&mut self, in_system: usize) {
        let (low, high, buffer) = self.levels.as_tuple();
        let n = u32::try_from(in_system).unwrap_or(u32::MAX);
        if self.state == GateState::Discard && n <= high {
            self.enter(GateState::Overload);
        }
        if self.state == GateState::Overload && n < low {
            self.enter(GateState::Normal);
        }
        if self.state == GateState::Normal && n >= high {
            self.enter(GateState::Overload);
        }
        if self.state == GateState::Overload && n >= buffer {
            self.enter(GateState::Discard);
        }
    }
}

impl Gate for Hysteretic {
    fn arrive(&mut self, _now: Nanos, share_hash: u32, in_system: usize) -> Decision {
        // What finds the gate normal belongs to no share, also where the line had grown unreported since: the caller
        // may not even have computed the hash, and 0 would be inside any share.
        let was_normal = self.state == GateState::Normal;
        self.settle(in_system);
        match self.state {
            GateState::Discard => Decision::Shed(ShedReason::GateDiscard),
            GateState::Overload if !was_normal && share_hash >= self.share_threshold => {
                Decision::Shed(ShedReason::ShareOutside)
            }
            GateState::Normal | GateState::Overload => {
                self.settle(in_system.saturating_add(1));
                Decision::Admit
            }
        }
    }

    fn depart(&mut self, _now: Nanos, in_system: usize) {
        self.settle(in_system);
    }

    fn set_service_rate(&mut self, rate_per_s: f64) {
        if rate_per_s >= 0.0 {
            self.levels = Levels::resolve(&self.config, rate_per_s, self.capacity);
        }
    }

    fn state(&self) -> GateState {
        self.state
    }

    fn word(&self) -> GateWord {
        GateWord::new(self.state, self.share_threshold)
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
