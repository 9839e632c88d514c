//! What a core has announced about its load (RFC 7339 section 4), as far as it is new and still holds.

use crate::Nanos;
use crate::feedback::Advice;

/// How long an announcement holds that does not say so (RFC 7339 section 4.3).
const VALIDITY_MS_DEFAULT: u32 = 500;

/// What the number in `oc` means (`oc-algo`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Percentage of requests that shall not be sent (RFC 7339).
    Loss,
    /// Requests per second that may be sent (RFC 7415).
    Rate,
}

/// The overload control parameters of one response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement {
    /// `oc-algo`: the core's choice.
    pub algorithm: Algorithm,
    /// `oc`.
    pub value: u32,
    /// `oc-validity` in milliseconds; 0 ends the control.
    pub validity_ms: Option<u32>,
    /// `oc-seq` in its smallest unit; grows with every change.
    pub seq: u64,
}

impl From<Advice> for Announcement {
    /// What [`crate::Feedback`] says is of the `loss` algorithm.
    fn from(advice: Advice) -> Self {
        Self {
            algorithm: Algorithm::Loss,
            value: u32::from(advice.percent),
            validity_ms: Some(advice.validity_ms),
            seq: advice.seq,
        }
    }
}

/// The latest announcement of one core, of the one algorithm that its listener knows.
#[derive(Debug, Clone)]
pub(super) struct Announced {
    algorithm: Algorithm,
    last_seq: Option<u64>,
    value: u32,
    until: Nanos,
}

impl Announced {
    /// Nothing announced yet.
    #[must_use]
    pub(super) const fn new(algorithm: Algorithm) -> Self {
        Self { algorithm, last_seq: None, value: 0, until: 0 }
    }

    /// Takes over an announcement. One of another algorithm was not offered and is ignored; so is one whose sequence
    /// number is not larger than the last: responses overtake each other (RFC 7339 section 4.4).
    pub(super) fn hear(&mut self, now: Nanos, announcement: &Announcement) {
        let is_new = self.last_seq.is_none_or(|last| announcement.seq > last);
        if announcement.algorithm == self.algorithm && is_new {
            let validity_ms = announcement.validity_ms.unwrap_or(VALIDITY_MS_DEFAULT);
            self.last_seq = Some(announcement.seq);
            self.value = announcement.value;
            self.until = now.saturating_add(u64::from(validity_ms) * 1_000_000);
        }
    }

    /// `oc`, while it holds.
    #[must_use]
    pub(super) const fn value(&self, now: Nanos) -> Option<u32> {
        if now < self.until { Some(self.value) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::{Algorithm, Announced, Announcement};
    use crate::feedback::Feedback;
    use crate::gate::{GateState, GateWord};

    const MS: u64 = 1_000_000;

    fn loss(value: u32, validity_ms: Option<u32>, seq: u64) -> Announcement {
        Announcement { algorithm: Algorithm::Loss, value, validity_ms, seq }
    }

    #[test]
    fn an_announcement_holds_for_its_validity_and_for_500_ms_without_one() {
        let mut announced = Announced::new(Algorithm::Loss);
        assert_eq!(announced.value(0), None);
        announced.hear(0, &loss(20, Some(100), 1));
        assert_eq!((announced.value(100 * MS - 1), announced.value(100 * MS)), (Some(20), None));
        announced.hear(200 * MS, &loss(30, None, 2));
        assert_eq!((announced.value(700 * MS - 1), announced.value(700 * MS)), (Some(30), None));
    }

    #[test]
    fn a_validity_of_zero_ends_the_control_at_once() {
        let mut announced = Announced::new(Algorithm::Loss);
        announced.hear(0, &loss(20, Some(1000), 1));
        announced.hear(1, &loss(20, Some(0), 2));
        assert_eq!(announced.value(1), None);
    }

    #[test]
    fn only_a_larger_sequence_number_is_heard() {
        let mut announced = Announced::new(Algorithm::Loss);
        announced.hear(0, &loss(20, Some(1000), 7));
        for seq in [0, 6, 7] {
            announced.hear(1, &loss(90, Some(0), seq));
            assert_eq!(announced.value(1), Some(20));
        }
        announced.hear(1, &loss(10, Some(1000), 8));
        assert_eq!(announced.value(1), Some(10));
    }

    #[test]
    fn the_advice_of_a_gate_is_an_announcement_and_ends_with_the_overload() {
        let mut feedback = Feedback::new(500, 0);
        let mut announced = Announced::new(Algorithm::Loss);
        announced.hear(0, &feedback.advise(GateWord::new(GateState::Overload, 1 << 30), 0).into());
        assert_eq!(announced.value(499 * MS), Some(75));
        announced.hear(100 * MS, &feedback.advise(GateWord::OPEN, 100 * MS).into());
        assert_eq!(announced.value(100 * MS), None);
    }

    #[test]
    fn another_algorithm_is_not_heard() {
        let mut announced = Announced::new(Algorithm::Rate);
        announced.hear(0, &loss(20, Some(1000), 1));
        assert_eq!(announced.value(0), None);
        announced.hear(0, &Announcement { algorithm: Algorithm::Rate, ..loss(150, Some(1000), 1) });
        assert_eq!(announced.value(0), Some(150), "nor does it use up sequence numbers");
    }
}
