//! Whether a server that has a socket answers at all, by probes.

use crate::Nanos;

/// Unanswered probes in a row after which a server is silent. Fewer: a lost datagram makes it so; more: calls wait for
/// longer for a server that is stopped.
const UNANSWERED_MAX: u32 = 3;

/// The judge of one server's silence: says when to probe, and what the answers mean.
#[derive(Debug, Clone)]
pub struct Silence {
    interval: Nanos,
    next: Nanos,
    /// Probes sent since the last answer.
    unanswered: u32,
    /// Since it was there. One that never did may not know how, or not where it is asked; one that came back may be
    /// another, or have another configuration.
    has_answered: bool,
    is_silent: bool,
}

impl Silence {
    /// A server that is taken to answer, probed every `interval` nanoseconds from now on.
    #[must_use]
    pub const fn new(interval: Nanos, now: Nanos) -> Self {
        Self { interval, next: now, unanswered: 0, has_answered: false, is_silent: false }
    }

    /// Whether a probe is due; the caller sends it. `is_there`: nobody is asked who has no socket or whose address is not
    /// here, and it is not silence that makes it so.
    pub fn probe_is_due(&mut self, now: Nanos, is_there: bool) -> bool {
        if !is_there {
            (self.unanswered, self.has_answered, self.is_silent, self.next) = (0, false, false, now);
            return false;
        }
        if now < self.next {
            return false;
        }
        // One interval after this one, not after when it should have been: no burst after a pause.
        self.next = now.saturating_add(self.interval);
        self.is_silent |= self.has_answered && self.unanswered >= UNANSWERED_MAX;
        self.unanswered = self.unanswered.saturating_add(1);
        true
    }

    /// Notes an answer, to any probe: it is there.
    pub const fn answered(&mut self) {
        (self.unanswered, self.has_answered, self.is_silent) = (0, true, false);
    }

    /// Whether it is silent.
    #[must_use]
    pub const fn is_silent(&self) -> bool {
        self.is_silent
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Silence, UNANSWERED_MAX};

    const INTERVAL: u64 = 1000;

    /// One that has answered before.
    fn known() -> Silence {
        let mut silence = Silence::new(INTERVAL, 0);
        silence.answered();
        silence
    }

    #[test]
    fn one_that_has_never_answered_is_not_judged() {
        let mut silence = Silence::new(INTERVAL, 0);
        for probe in 0..100 {
            assert!(silence.probe_is_due(probe * INTERVAL, true) && !silence.is_silent());
        }
    }

    #[test]
    fn three_probes_without_answer_are_silence_when_the_next_is_due_and_one_answer_ends_it() {
        let mut silence = known();
        for probe in 0..u64::from(UNANSWERED_MAX) {
            assert!(silence.probe_is_due(probe * INTERVAL, true));
            assert!(!silence.probe_is_due(probe * INTERVAL + INTERVAL - 1, true) && !silence.is_silent());
        }
        assert!(silence.probe_is_due(3 * INTERVAL, true) && silence.is_silent());
        silence.answered();
        assert!(!silence.is_silent());
    }

    #[test]
    fn one_that_is_gone_is_not_silent_and_is_asked_at_once_when_it_is_back_and_judged_when_it_has_answered() {
        let mut silence = known();
        (0..9).for_each(|probe| {
            silence.probe_is_due(probe * INTERVAL, true);
        });
        assert!(silence.is_silent());
        assert!(!silence.probe_is_due(9 * INTERVAL, false) && !silence.is_silent());
        for probe in 0..9 {
            assert!(
                silence.probe_is_due((9 + probe) * INTERVAL + 1, true) && !silence.is_silent(),
                "{probe}"
            );
        }
        silence.answered();
        (18..22).for_each(|probe| {
            silence.probe_is_due(probe * INTERVAL + 1, true);
        });
        assert!(silence.is_silent());
    }

    proptest! {
        #[test]
        fn who_answers_one_in_three_is_never_silent(answers in proptest::collection::vec(0_u32..UNANSWERED_MAX, 1..50)) {
            let mut silence = known();
            let mut now = 0;
            for lost in answers {
                for _ in 0..=lost {
                    prop_assert!(silence.probe_is_due(now, true));
                    prop_assert!(!silence.is_silent());
                    now += INTERVAL;
                }
                silence.answered();
            }
        }
    }
}
