//! The two baselines that shedding is compared with: a full buffer refuses, and nothing else does.
//!
//! Both leave the published word open. Whether a buffer is full changes with every departure, so a word that said
//! "full" would be stale for most of the messages that it refuses at the NIC.

use crate::Nanos;
use crate::config::{ConfigError, check_buffer};
use crate::gate::{Decision, Discipline, Gate, GateState, GateWord, ShedReason};
use crate::threshold::Threshold;

/// A buffer that may be given in time.
#[derive(Debug, Clone)]
struct Buffer {
    threshold: Threshold,
    capacity: u32,
    messages: u32,
    /// Of the gates before this one: a count never falls.
    transitions: u64,
}

impl Buffer {
    fn new(threshold: Threshold, capacity: u32, rate_per_s: f64) -> Result<Self, ConfigError> {
        ConfigError::check(check_buffer(threshold, capacity))?;
        let mut buffer = Self { threshold, capacity, messages: 1, transitions: 0 };
        buffer.resolve(rate_per_s);
        Ok(buffer)
    }

    fn resolve(&mut self, rate_per_s: f64) {
        if rate_per_s >= 0.0 {
            self.messages = self.threshold.messages_at(rate_per_s).min(self.capacity);
        }
    }

    fn decide(&self, in_system: usize) -> Decision {
        if in_system < self.messages as usize {
            Decision::Admit
        } else {
            Decision::Shed(ShedReason::BufferFull)
        }
    }
}

macro_rules! baseline {
    ($(#[$doc:meta])* $name:ident, $discipline:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name(Buffer);

        impl $name {
            /// A buffer that holds at most `capacity` messages, at a first guess of the service rate.
            ///
            /// # Errors
            /// Everything that is wrong with the buffer.
            pub fn new(buffer: Threshold, capacity: u32, rate_per_s: f64) -> Result<Self, ConfigError> {
                Buffer::new(buffer, capacity, rate_per_s).map(Self)
            }

            /// How many may be in the system at the present service rate.
            #[must_use]
            pub const fn buffer(&self) -> u32 {
                self.0.messages
            }

            /// Counts on where another gate ends.
            pub(crate) fn succeed(&mut self, state: GateState, transitions: u64) {
                self.0.transitions = transitions + u64::from(state != GateState::Normal);
            }
        }

        impl Gate for $name {
            fn arrive(&mut self, _now: Nanos, _share_hash: u32, in_system: usize) -> Decision {
                self.0.decide(in_system)
            }

            fn depart(&mut self, _now: Nanos, _in_system: usize) {}

            fn set_service_rate(&mut self, rate_per_s: f64) {
                self.0.resolve(rate_per_s);
            }

            fn state(&self) -> GateState {
                GateState::Normal
            }

            fn word(&self) -> GateWord {
                GateWord::OPEN
            }

            fn transitions(&self) -> u64 {
                self.0.transitions
            }

            fn discipline(&self) -> Discipline {
                $discipline
            }
        }
    };
}

baseline!(
    /// Priority classes; an original that finds the buffer full is dropped.
    TailDrop,
    Discipline::Priority
);

baseline!(
    /// One queue without classes, as if sipweir were not there; any message that finds the buffer full is dropped.
    Fifo,
    Discipline::Fifo
);

#[cfg(test)]
mod tests {
    use super::{Fifo, TailDrop};
    use crate::gate::{Decision, Discipline, Gate, GateState, GateWord, ShedReason};
    use crate::threshold::Threshold;

    #[test]
    fn a_full_buffer_refuses_and_the_word_stays_open() {
        let mut gate = TailDrop::new(Threshold::Messages(2), 10, 1.0).unwrap();
        assert_eq!(gate.arrive(0, u32::MAX, 1), Decision::Admit);
        assert_eq!(gate.arrive(0, 0, 2), Decision::Shed(ShedReason::BufferFull));
        gate.depart(0, 1);
        assert_eq!(gate.arrive(0, 0, 1), Decision::Admit);
        assert_eq!((gate.state(), gate.word(), gate.transitions()), (GateState::Normal, GateWord::OPEN, 0));
        assert_eq!(gate.discipline(), Discipline::Priority);
    }

    #[test]
    fn a_buffer_in_time_follows_the_rate_up_to_the_capacity() {
        let mut gate = Fifo::new(Threshold::Time(500_000_000), 600, 100.0).unwrap();
        assert_eq!(gate.buffer(), 50);
        gate.set_service_rate(1000.0);
        assert_eq!(gate.buffer(), 500);
        gate.set_service_rate(10_000.0);
        assert_eq!(gate.buffer(), 600);
        gate.set_service_rate(f64::NAN);
        assert_eq!(gate.buffer(), 600);
        assert_eq!(gate.discipline(), Discipline::Fifo);
    }
}
