//! What clients that take part in overload control are told (RFC 7339, the `loss` algorithm): how much of what they
//! would send they shall keep to themselves, and for how long.
//!
//! The number follows from the gate's word alone. Not here: how it is written into a reply (`sip`), and clients that
//! do not take part; those are refused without being told anything (RFC 7339 section 5.10.2).

use crate::Nanos;
use crate::gate::{GateState, GateWord};

/// Nanoseconds of one step of the sequence number, whose fraction has five digits.
pub(crate) const STEP_NS: Nanos = 10_000;

/// One piece of advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advice {
    /// Share of their requests that clients shall not send, 0 to 100 (`oc`).
    pub percent: u8,
    /// How long that holds, milliseconds; 0 ends the control (`oc-validity`).
    pub validity_ms: u32,
    /// Hundred-thousandths of a second, larger than in any advice before (`oc-seq`).
    pub seq: u64,
}

/// Gives advice; one for each service at each worker.
#[derive(Debug, Clone)]
pub struct Feedback {
    validity_ms: u32,
    /// What makes a time of day of a time.
    epoch_ns: Nanos,
    last_seq: u64,
}

impl Feedback {
    /// Advice that holds for `validity_ms`. `epoch_ns` is the time of day (since 1970) at which the clock of `now`
    /// stood at 0. Sequence numbers must grow over restarts, also over those of the machine, since a client ignores
    /// whatever is not larger than what it has seen from this address (RFC 7339 section 4.4).
    #[must_use]
    pub const fn new(validity_ms: u32, epoch_ns: Nanos) -> Self {
        Self { validity_ms, epoch_ns, last_seq: 0 }
    }

    /// Advice holds for so long from now on.
    pub const fn set_validity_ms(&mut self, validity_ms: u32) {
        self.validity_ms = validity_ms;
    }

    /// The advice while the gate says `word`.
    #[must_use]
    pub fn advise(&mut self, word: GateWord, now: Nanos) -> Advice {
        let clock = self.epoch_ns.saturating_add(now) / STEP_NS;
        self.last_seq = clock.max(self.last_seq + 1);
        let percent = percent_of(word);
        Advice { percent, validity_ms: if percent == 0 { 0 } else { self.validity_ms }, seq: self.last_seq }
    }
}

/// 100·(1 - q). Where q is neither 0 nor 1 the rounded number is neither 100, which would let nobody in, nor 0, which
/// would end the control.
fn percent_of(word: GateWord) -> u8 {
    match word.state() {
        GateState::Normal => 0,
        GateState::Discard => 100,
        GateState::Overload if word.share_threshold() == 0 => 100,
        GateState::Overload => {
            let shed = (1_u64 << 32) - u64::from(word.share_threshold());
            // At most 100, so it fits.
            ((shed * 100 + (1 << 31)) >> 32).clamp(1, 99) as u8
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};

    use super::{Feedback, STEP_NS};
    use crate::gate::{GateState, GateWord};

    fn percent(state: GateState, share: f64) -> u8 {
        let threshold = (share * f64::from(u32::MAX)).round() as u32;
        Feedback::new(500, 0).advise(GateWord::new(state, threshold), 0).percent
    }

    #[test]
    fn the_percentage_is_what_the_gate_sheds() {
        assert_eq!(percent(GateState::Normal, 0.5), 0);
        assert_eq!(percent(GateState::Overload, 0.5), 50);
        assert_eq!(percent(GateState::Overload, 0.25), 75);
        assert_eq!(percent(GateState::Overload, 0.8), 20);
        assert_eq!(percent(GateState::Overload, 0.0), 100);
        assert_eq!(percent(GateState::Discard, 0.5), 100);
    }

    #[test]
    fn rounding_neither_shuts_everybody_out_nor_ends_the_control() {
        assert_eq!(percent(GateState::Overload, 0.001), 99);
        assert_eq!(percent(GateState::Overload, 0.999), 1);
        assert_eq!(percent(GateState::Overload, 1.0), 1);
    }

    #[test]
    fn control_ends_with_a_validity_of_zero() {
        let mut feedback = Feedback::new(500, 0);
        assert_eq!(feedback.advise(GateWord::OPEN, 0).validity_ms, 0);
        assert_eq!(feedback.advise(GateWord::new(GateState::Discard, 0), 0).validity_ms, 500);
    }

    #[test]
    fn the_sequence_is_the_time_of_day_and_grows_over_a_restart_of_the_machine() {
        let second = 1_000_000_000;
        let mut before = Feedback::new(500, 1_700_000_000 * second);
        assert_eq!(before.advise(GateWord::OPEN, 90 * second).seq, 1_700_000_090 * 100_000);
        let mut after = Feedback::new(500, 1_700_000_100 * second);
        assert!(after.advise(GateWord::OPEN, 0).seq > before.advise(GateWord::OPEN, 99 * second).seq);
    }

    proptest! {
        #[test]
        fn the_sequence_grows_with_every_advice_whatever_the_clock_does(
            times in proptest::collection::vec(any::<u32>(), 2..100), epoch_ns in any::<u64>(),
        ) {
            let mut feedback = Feedback::new(500, epoch_ns);
            let mut last = 0;
            for time in times {
                let seq = feedback.advise(GateWord::OPEN, u64::from(time) * STEP_NS / 7).seq;
                prop_assert!(seq > last);
                last = seq;
            }
        }
    }
}
