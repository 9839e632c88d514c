//! How long a gate was in each of its states, and how long it took to come back to normal: what the theory of hysteretic
//! control speaks of (control cycle, return time), measured on the gate that runs.
//!
//! A control cycle goes from one end of normal to the next; its return time is the part outside normal. Returns of one gate
//! are independent of each other. Sums only grow: the difference of two readings is what happened between them. Not here: any
//! decision.

use crate::Nanos;
use crate::gate::GateState;

/// Sums since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GateSums {
    /// Time in normal, overload and discard.
    pub state_ns: [Nanos; 3],
    /// Returns to normal, each of which ends a control cycle.
    pub returns: u64,
    /// Σ return time, of the returns that are complete.
    pub return_ns: Nanos,
    /// ∫ n dt, in messages times nanoseconds, n as the gate counts it.
    pub in_system_ns: u128,
}

/// Keeps the sums. Told of the state as often as it may have changed.
#[derive(Debug, Clone)]
pub struct GateTimes {
    sums: GateSums,
    noted: Nanos,
    state: GateState,
    in_system: usize,
    left_normal: Nanos,
}

impl GateTimes {
    /// A gate that is normal and empty from now on.
    #[must_use]
    pub fn new(now: Nanos) -> Self {
        Self {
            sums: GateSums::default(),
            noted: now,
            state: GateState::Normal,
            in_system: 0,
            left_normal: now,
        }
    }

    /// Notes the state and the number in the system from now on. A time before the last one changes nothing but those.
    pub fn note(&mut self, now: Nanos, state: GateState, in_system: usize) {
        let since = now.saturating_sub(self.noted);
        self.sums.state_ns[self.state as usize] += since;
        self.sums.in_system_ns += u128::from(since) * self.in_system as u128;
        self.noted = self.noted.max(now);
        match (self.state, state) {
            (GateState::Normal, GateState::Overload | GateState::Discard) => self.left_normal = self.noted,
            (GateState::Overload | GateState::Discard, GateState::Normal) => {
                self.sums.returns += 1;
                self.sums.return_ns += self.noted - self.left_normal;
            }
            _ => {}
        }
        self.state = state;
        self.in_system = in_system;
    }

    /// The sums up to the last note.
    #[must_use]
    pub const fn sums(&self) -> GateSums {
        self.sums
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::{GateSums, GateTimes};
    use crate::gate::GateState::{self, Discard, Normal, Overload};

    #[test]
    fn a_return_lasts_from_the_end_of_normal_to_its_next_beginning() {
        let mut times = GateTimes::new(1_000_000);
        for (now, state, in_system) in [
            (2, Overload, 5),
            (4, Discard, 7),
            (5, Overload, 7),
            (9, Normal, 1),
            (10, Overload, 2),
            (13, Normal, 0),
        ] {
            times.note(now * 1_000_000, state, in_system);
        }
        let expected = GateSums {
            state_ns: [2_000_000, 9_000_000, 1_000_000],
            returns: 2,
            return_ns: 10_000_000,
            in_system_ns: 10_000_000 + 7_000_000 + 28_000_000 + 1_000_000 + 6_000_000,
        };
        assert_eq!(times.sums(), expected);
    }

    #[test]
    fn a_return_that_is_not_over_is_in_the_time_but_not_among_the_returns() {
        let mut times = GateTimes::new(0);
        times.note(1, Overload, 0);
        times.note(5, Overload, 0);
        assert_eq!((times.sums().state_ns, times.sums().returns), ([1, 4, 0], 0));
    }

    proptest! {
        #[test]
        fn all_time_is_in_one_state_and_all_time_outside_normal_is_in_returns(
            steps in proptest::collection::vec((0u64..1000, 0u8..3, 0usize..50), 0..200),
        ) {
            let mut times = GateTimes::new(0);
            let mut now = 0;
            for (later, state, in_system) in steps {
                now += later;
                times.note(now, GateState::from_u8(state).unwrap(), in_system);
            }
            times.note(now, Normal, 0);
            let sums = times.sums();
            prop_assert_eq!(sums.state_ns.iter().sum::<u64>(), now);
            prop_assert_eq!(sums.state_ns[1] + sums.state_ns[2], sums.return_ns);
        }
    }
}
