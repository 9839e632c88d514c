//! How fast messages may be handed over, when the server's health sets a limit.

use crate::{NANOS_PER_S, Nanos};

/// How much may be handed over at once, as time at the limit. Shorter: a worker that sleeps between looks falls behind the limit;
/// longer: a sick server gets bursts.
const BURST_NS: Nanos = 20_000_000;

/// A limit in messages per second, which may be a fraction, or none. At any limit above 0 one message passes in the end.
#[derive(Debug, Clone)]
pub struct Pace {
    limit_per_s: Option<f64>,
    /// Messages that may pass now.
    level: f64,
    last: Nanos,
}

impl Pace {
    /// No limit.
    #[must_use]
    pub const fn new(now: Nanos) -> Self {
        Self { limit_per_s: None, level: 1.0, last: now }
    }

    /// Sets the limit; `None` is none. What is no positive number is none either.
    pub fn set(&mut self, limit_per_s: Option<f64>) {
        self.limit_per_s = limit_per_s.filter(|limit| limit.is_finite() && *limit > 0.0);
    }

    /// The limit.
    #[must_use]
    pub const fn limit_per_s(&self) -> Option<f64> {
        self.limit_per_s
    }

    /// How many may be handed over now.
    pub fn room(&mut self, now: Nanos) -> u32 {
        let elapsed_s = now.saturating_sub(self.last) as f64 / NANOS_PER_S as f64;
        self.last = self.last.max(now);
        let Some(limit_per_s) = self.limit_per_s else { return u32::MAX };
        // One more, so that the fraction above a whole one is not lost between two looks.
        let most = 1.0 + limit_per_s * BURST_NS as f64 / NANOS_PER_S as f64;
        self.level = (self.level + elapsed_s * limit_per_s).min(most);
        // A cast saturates.
        self.level as u32
    }

    /// Notes one that was handed over.
    pub fn took(&mut self) {
        if self.limit_per_s.is_some() {
            self.level = (self.level - 1.0).max(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Pace;
    use crate::NANOS_PER_S;

    /// What passes in `seconds`, with a look every `step_ns`.
    fn passed(limit_per_s: f64, seconds: u64, step_ns: u64) -> u64 {
        let mut pace = Pace::new(0);
        pace.set(Some(limit_per_s));
        let mut passed = 0;
        let mut now = 0;
        while now < seconds * NANOS_PER_S {
            now += step_ns;
            for _ in 0..pace.room(now) {
                pace.took();
                passed += 1;
            }
        }
        passed
    }

    #[test]
    fn without_a_limit_everything_passes() {
        let mut pace = Pace::new(0);
        for no_limit in [None, Some(f64::NAN), Some(f64::INFINITY), Some(0.0), Some(-1.0)] {
            pace.set(no_limit);
            pace.took();
            assert_eq!((pace.room(1), pace.limit_per_s()), (u32::MAX, None));
        }
    }

    proptest! {
        #[test]
        fn what_passes_is_the_limit_s_and_never_nothing(limit_per_s in 0.2_f64..5000.0, step_ns in 100_000_u64..15_000_000) {
            let passed = passed(limit_per_s, 10, step_ns) as f64;
            let most = 10.0 * limit_per_s + 0.02 * limit_per_s + 2.0;
            prop_assert!(passed <= most, "{passed} of {most}");
            prop_assert!(passed >= (9.8 * limit_per_s).floor().max(1.0) - 1.0, "{passed} of {}", 10.0 * limit_per_s);
            prop_assert!(passed >= 1.0);
        }
    }
}
