//! TNTC: presence notifications throttled by a token bucket that keeps only the newest update.
//!
//! # Assumptions
//!
//! Updates of one presentity are Poisson, tokens are Poisson, a bucket holds up to b tokens, and a token that finds it
//! full is lost. An update takes a token and is notified at once; without one it waits, and a newer update replaces it.
//! The next token takes the waiting update. Sending takes no time.
//!
//! # Symbols
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | λ, r | rate of updates, of tokens | 1/s |
//! | x = r/λ | tokens for each update | |
//! | b | depth of the bucket | tokens |
//! | S(x, m) | Σ x^i over i < m | |
//!
//! # Solution
//!
//! Count 0 for a waiting update and i + 1 for i tokens: a birth–death chain on 0..=b+1, up with r and down with λ, so
//! π(j) = x^j/S(x, b+2). A watcher sees what is valid unless an update waits: 1 − π(0) = 1 − (1−x)/(1−x^(b+2)), at x = 1
//! 1 − 1/(b+2). Every token that is not lost sends one notification: r (1 − π(b+1)) = λ (1 − π(0)).
//!
//! # Source
//!
//! Liao, Wang et al., token-bucket based notification traffic control, Computer Communications 2011.

use crate::parameter::{self, ParameterError};

/// A bucket deeper than this holds more tokens than a presentity ever has updates.
const DEPTH_MAX: u32 = 1_000_000;

/// The model's parameters, checked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Notifications {
    update_rate_per_s: f64,
    token_rate_per_s: f64,
    depth: u32,
}

/// What the model predicts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NotificationEquilibrium {
    /// The probability that a watcher holds the newest update.
    pub valid_access_probability: f64,
    /// Notifications sent per second.
    pub notification_rate_per_s: f64,
}

impl Notifications {
    /// The model for λ, r and b.
    ///
    /// # Errors
    /// The first parameter that is outside its range.
    pub fn new(update_rate_per_s: f64, token_rate_per_s: f64, depth: u32) -> Result<Self, ParameterError> {
        if depth > DEPTH_MAX {
            let range = format!("between 0 and {DEPTH_MAX} tokens");
            return Err(ParameterError::new("depth", depth, range));
        }
        Ok(Self {
            update_rate_per_s: parameter::positive("update-rate", update_rate_per_s)?,
            token_rate_per_s: parameter::positive("token-rate", token_rate_per_s)?,
            depth,
        })
    }

    /// Solves the model.
    #[must_use]
    pub fn solve(&self) -> NotificationEquilibrium {
        let x = self.token_rate_per_s / self.update_rate_per_s;
        // (1 − π(0))/x^s and S(x, b+2)/x^s with s = 0 or b + 1: sums of the smaller of x and 1/x, which cannot overflow.
        let ratio = x.min(1.0 / x);
        let shorter = (0..=self.depth).fold(0.0, |sum: f64, _| sum.mul_add(ratio, 1.0));
        let longer = shorter.mul_add(ratio, 1.0);
        let valid_access_probability = if x > 1.0 { shorter / longer } else { x * shorter / longer };
        NotificationEquilibrium {
            valid_access_probability,
            notification_rate_per_s: self.update_rate_per_s * valid_access_probability,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::Notifications;

    #[test]
    fn the_reference_values_are_met() {
        for (x, depth, valid) in [(0.5, 4, 0.492_063), (1.0, 8, 0.9)] {
            let found = Notifications::new(10.0, 10.0 * x, depth).unwrap().solve();
            assert!((found.valid_access_probability - valid).abs() < 1e-6, "{found:?}");
            assert!((found.notification_rate_per_s - 10.0 * valid).abs() < 1e-5);
        }
    }

    #[test]
    fn an_endless_flow_of_tokens_never_lets_an_update_wait_and_a_trickle_is_all_used() {
        let rich = Notifications::new(1.0, 1e9, 1_000_000).unwrap().solve();
        assert!((rich.valid_access_probability - 1.0).abs() < 1e-12);
        let poor = Notifications::new(1e6, 1e-3, 10).unwrap().solve();
        assert!((poor.notification_rate_per_s / 1e-3 - 1.0).abs() < 1e-6, "each token sends one");
    }

    #[test]
    fn parameters_outside_their_range_are_named() {
        for (model, name) in [
            (Notifications::new(0.0, 1.0, 1), "update-rate"),
            (Notifications::new(1.0, f64::NAN, 1), "token-rate"),
            (Notifications::new(1.0, 1.0, u32::MAX), "depth"),
        ] {
            assert_eq!(model.unwrap_err().name, name);
        }
    }

    proptest! {
        #[test]
        fn the_formula_is_the_balance_of_the_bucket(
            updates in 0.1..100.0_f64, tokens in 0.1..100.0_f64, depth in 0_u32..20,
        ) {
            // Power iteration on the uniformised bucket: slow and obvious.
            let places = depth as usize + 2;
            let total = updates + tokens;
            let mut chance = vec![1.0 / places as f64; places];
            for _ in 0..40_000 {
                let mut next = vec![0.0; places];
                for (place, mass) in chance.iter().enumerate() {
                    next[(place + 1).min(places - 1)] += mass * tokens / total;
                    next[place.saturating_sub(1)] += mass * updates / total;
                }
                chance = next;
            }
            let found = Notifications::new(updates, tokens, depth).unwrap().solve();
            prop_assert!((found.valid_access_probability - (1.0 - chance[0])).abs() < 1e-9);
            let used = tokens * (1.0 - chance[places - 1]);
            prop_assert!((found.notification_rate_per_s / used - 1.0).abs() < 1e-9);
        }
    }
}
