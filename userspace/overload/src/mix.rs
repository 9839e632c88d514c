//! Which part of what the server gets are originals.
//!
//! The server's rate counts every message that it takes, but the gate counts originals, and an ACK or a BYE costs
//! a server next to nothing beside an INVITE. Thresholds in time therefore rest on the rate of originals: the
//! measured rate of all messages, times their share.

/// Messages after which the older half of the memory is forgotten: at 1,000 messages per second a change of the
/// mix shows within seconds. Smaller: single bursts show; larger: a changed mix takes longer to be believed.
const MEMORY_MESSAGES: u32 = 4096;

/// The share of originals among the messages handed over lately.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    originals: u32,
    all: u32,
}

/// Originals that are taken to have been handed over before the first message was. Smaller: a few control messages at the
/// start make thresholds in time so small that originals are refused; larger: the true mix takes longer to show.
const PRIOR: u32 = 64;

impl Default for Mix {
    fn default() -> Self {
        Self { originals: PRIOR, all: PRIOR }
    }
}

impl Mix {
    /// Notes one message that was handed over.
    pub const fn handed(&mut self, original: bool) {
        self.originals += original as u32;
        self.all += 1;
        if self.all >= MEMORY_MESSAGES {
            self.originals /= 2;
            self.all /= 2;
        }
    }

    /// The share of originals, above 0 and at most 1; 1 until something was handed over.
    #[must_use]
    pub fn share(&self) -> f64 {
        // One imaginary original keeps the share from 0, where every threshold would be the least there is.
        f64::from(self.originals + 1) / f64::from(self.all + 1)
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
    fn the_share_follows_a_changed_mix_and_never_reaches_zero() {
        let mut mix = Mix::default();
        for n in 0..30_000 {
            mix.handed(n % 3 == 0);
        }
        assert!((mix.share() - 1.0 / 3.0).abs() < 0.01, "{}", mix.share());
        for _ in 0..30_000 {
            mix.handed(true);
        }
        assert!(mix.share() > 0.98, "{}", mix.share());
        for _ in 0..100_000 {
            mix.handed(false);
        }
        assert!(mix.share() > 0.0 && mix.share() < 0.01, "{}", mix.share());
    }
}
