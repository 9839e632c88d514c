//! Which part of what the server gets are originals.
//!
//! The server's rate counts every message that it takes, but the gate counts originals, and an ACK or a BYE costs
//! a server next to nothing beside an INVITE. Thresholds in time therefore rest on the rate of originals: the
//! measured rate of all messages, times their share.

use crate::{NANOS_PER_S, Nanos};

/// Messages after which the older half of the memory is forgotten: at 1,000 messages per second a change of the
/// mix shows within seconds. Smaller: single bursts show; larger: a changed mix takes longer to be believed.
const MEMORY_MESSAGES: u64 = 4096;

/// Time without a message after which nothing is remembered. A flood of control messages must not make the thresholds of the
/// quiet time after it so small that originals are refused.
const MEMORY_NS: Nanos = 5 * NANOS_PER_S;

/// The share of originals among the messages handed over lately.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    originals: u64,
    all: u64,
    noted: Nanos,
}

/// Originals that are taken to have been handed over before the first message was. Smaller: a few control messages at the
/// start make thresholds in time so small that originals are refused; larger: the true mix takes longer to show.
const PRIOR: u64 = 64;

impl Default for Mix {
    fn default() -> Self {
        Self { originals: PRIOR, all: PRIOR, noted: 0 }
    }
}

impl Mix {
    /// Notes one message that was handed over.
    pub const fn handed(&mut self, original: bool, now: Nanos) {
        self.note(original as u64, 1, now);
    }

    /// Notes several at once, so many of them originals.
    pub const fn note(&mut self, originals: u64, all: u64, now: Nanos) {
        if all > 0 {
            self.noted = now;
        }
        self.originals += originals;
        self.all += all;
        while self.all >= MEMORY_MESSAGES {
            self.originals /= 2;
            self.all /= 2;
        }
    }

    /// Forgets what was noted if that is long ago.
    pub fn forget_if_old(&mut self, now: Nanos) {
        if now.saturating_sub(self.noted) > MEMORY_NS {
            *self = Self { noted: now, ..Self::default() };
        }
    }

    /// The share of originals, above 0 and at most 1; 1 until something was handed over.
    #[must_use]
    pub fn share(&self) -> f64 {
        // One imaginary original keeps the share from 0, where every threshold would be the least there is.
        (self.originals + 1) as f64 / (self.all + 1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::Mix;

    #[test]
    fn nothing_known_counts_as_originals_only() {
        assert!((Mix::default().share() - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_flood_is_forgotten_after_five_seconds_of_silence() {
        let mut mix = Mix::default();
        (0..10_000).for_each(|n| mix.handed(false, n));
        mix.forget_if_old(5_000_009_999);
        assert!(mix.share() < 0.01);
        mix.forget_if_old(5_000_010_000);
        assert_eq!(mix.share(), 1.0);
    }

    #[test]
    fn several_at_once_are_what_one_after_the_other_is() {
        let (mut single, mut bulk) = (Mix::default(), Mix::default());
        for n in 0..3000 {
            single.handed(n % 3 == 0, 7);
        }
        bulk.note(1000, 3000, 7);
        assert!((single.share() - bulk.share()).abs() < f64::EPSILON);
        bulk.note(0, 0, 9_000_000_000);
        bulk.forget_if_old(6_000_000_000);
        assert_eq!(bulk.share(), 1.0, "nothing came at the second time");
    }

    #[test]
    fn the_share_follows_a_changed_mix_and_never_reaches_zero() {
        let mut mix = Mix::default();
        for n in 0..30_000 {
            mix.handed(n % 3 == 0, 0);
        }
        assert!((mix.share() - 1.0 / 3.0).abs() < 0.01, "{}", mix.share());
        for _ in 0..30_000 {
            mix.handed(true, 0);
        }
        assert!(mix.share() > 0.98, "{}", mix.share());
        for _ in 0..100_000 {
            mix.handed(false, 0);
        }
        assert!(mix.share() > 0.0 && mix.share() < 0.01, "{}", mix.share());
    }
}
