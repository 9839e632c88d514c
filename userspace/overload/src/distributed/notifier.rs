//! TNTC: a presence server that sends no more notifications than it has tokens for, and of pending updates only the newest.
//!
//! ```text
//!   update ──► token? ── yes: notify, one token less
//!                  └──── no:  pending (an older one is replaced)
//!   token  ──► pending? ─ yes: notify
//!                  └──── no:  one token more, up to b
//! ```
//!
//! | symbol | here | meaning |
//! |---|---|---|
//! | λ | – | updates per second |
//! | r | – | tokens per second |
//! | b | `depth` | most tokens that are saved up |
//! | x | – | r/λ |
//!
//! What a watcher knows is valid unless an update is pending. With Poisson updates and tokens, the tokens that are
//! saved up, or −1 with an update pending, make a birth-death chain on −1..=b with ratio x, so that the valid access
//! probability is 1 − (1 − x)/(1 − x^(b+2)), and 1 − 1/(b + 2) at x = 1. An update is lost only to a newer one.
//!
//! Source: TNTC (Computer Communications 2011).

/// Sends updates while there are tokens. Tokens come from the caller's clock.
#[derive(Debug, Clone)]
pub struct Notifier<T> {
    depth: u32,
    tokens: u32,
    pending: Option<T>,
}

impl<T> Notifier<T> {
    /// A notifier with a full bucket of `depth` tokens. With a depth of 0 every update waits for the next token.
    #[must_use]
    pub const fn new(depth: u32) -> Self {
        Self { depth, tokens: depth, pending: None }
    }

    /// Takes an update; `Some` is to be sent now.
    pub fn update(&mut self, update: T) -> Option<T> {
        if self.tokens > 0 {
            self.tokens -= 1;
            return Some(update);
        }
        self.pending = Some(update);
        None
    }

    /// Takes a token; `Some` has waited for it and is to be sent now.
    pub fn token(&mut self) -> Option<T> {
        let waited = self.pending.take();
        if waited.is_none() {
            self.tokens = self.depth.min(self.tokens + 1);
        }
        waited
    }

    /// Whether watchers know the latest update.
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        self.pending.is_none()
    }

    /// The chance that they do, for Poisson updates and `ratio` = r/λ tokens per update.
    #[must_use]
    pub fn valid_access_probability(ratio: f64, depth: u32) -> f64 {
        // 1/(1 + x + … + x^(b+1)): the share of the state in which an update is pending. The sum needs no case for x = 1
        // and does not cancel near it; Horner's scheme keeps it short of overflow as long as the result is above 0.
        let sum = (0..=depth).fold(1.0, |sum, _| (sum * ratio + 1.0).min(f64::MAX));
        1.0 - 1.0 / sum
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::{Rng, SeedableRng};

    use super::Notifier;

    #[test]
    fn updates_use_up_the_bucket_and_then_only_the_newest_waits() {
        let mut notifier = Notifier::new(2);
        let sent: Vec<_> = (1..=5).map(|update| notifier.update(update)).collect();
        assert_eq!(sent, [Some(1), Some(2), None, None, None]);
        assert!(!notifier.is_valid());
        assert_eq!((notifier.token(), notifier.is_valid()), (Some(5), true));
        assert_eq!(notifier.update(6), None, "the token was used for 5");
        assert_eq!(notifier.token(), Some(6));
        assert_eq!([notifier.token(), notifier.token(), notifier.token()], [None; 3]);
        assert_eq!(
            [7, 8, 9].map(|update| notifier.update(update)),
            [Some(7), Some(8), None],
            "two were saved"
        );
    }

    /// Share of the updates and tokens, which come in random order, that find no update pending.
    fn simulated(ratio: f64, depth: u32, seed: u64) -> f64 {
        const EVENTS: u32 = 1_000_000;
        let mut random = Pcg64::seed_from_u64(seed);
        let mut notifier = Notifier::new(depth);
        let token_below = ratio / (1.0 + ratio) * 2.0_f64.powi(32);
        let mut valid = 0;
        for event in 0..EVENTS {
            if f64::from(random.next_u32()) < token_below {
                notifier.token();
            } else {
                notifier.update(event);
            }
            // Events of the merged Poisson streams see time averages.
            valid += u32::from(notifier.is_valid());
        }
        f64::from(valid) / f64::from(EVENTS)
    }

    #[test]
    fn the_valid_access_probability_has_the_values_of_the_literature() {
        let formula = Notifier::<()>::valid_access_probability;
        assert!((formula(0.5, 4) - 0.492063).abs() < 5e-7);
        assert!((formula(1.0, 8) - 0.9).abs() < 1e-12);
        for (ratio, depth) in [(0.5, 4), (1.0, 8), (2.0, 0), (0.9, 30)] {
            let (found, expected) = (simulated(ratio, depth, 1), formula(ratio, depth));
            assert!((found - expected).abs() < 0.01 * expected, "{ratio} {depth}: {found} {expected}");
        }
    }

    #[test]
    fn the_formula_is_sound_at_its_ends() {
        let formula = Notifier::<()>::valid_access_probability;
        assert_eq!(formula(0.0, 5), 0.0);
        assert_eq!(formula(1e6, 1000), 1.0);
        let closed = |x: f64, b: i32| 1.0 - (1.0 - x) / (1.0 - x.powi(b + 2));
        for (x, b) in [(0.3, 1), (1.5, 7), (0.99, 3), (3.0, 0)] {
            assert!((formula(x, b as u32) - closed(x, b)).abs() < 1e-12, "{x} {b}");
        }
    }

    proptest! {
        #[test]
        fn the_newest_update_arrives_and_none_older_after_it(
            depth in 0_u32..6, is_token in proptest::collection::vec(any::<bool>(), 1..200),
        ) {
            let mut notifier = Notifier::new(depth);
            let (mut newest, mut known, mut sent, mut tokens) = (0, 0, 0, u64::from(depth));
            for is_token in is_token {
                let told = if is_token {
                    tokens += 1;
                    notifier.token()
                } else {
                    newest += 1;
                    notifier.update(newest)
                };
                if let Some(told) = told {
                    prop_assert_eq!(told, newest, "what is sent is the latest");
                    known = told;
                    sent += 1;
                }
                prop_assert_eq!(notifier.is_valid(), known == newest);
                prop_assert!(sent <= tokens);
            }
        }
    }
}
