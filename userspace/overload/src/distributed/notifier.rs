//! TNTC: a presence server that sends no more notifications than it has tokens for, and of pending updates only the newest.
//!
//! ```text
//!   update ──► token? ── yes: notify, one token less
//!                  └──── no:  pending (an older one is replaced)
//!   token  ──► pending? ─ yes: notify
//!                  └──── no:  one token more, up to b
//! ```
//!
//! b is the most tokens that are saved up (`depth`). What a watcher knows is valid unless an update is pending; how often that
//! is so is in the model (`model::notifications`), whose test drives this type. An update is lost only to a newer one.
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
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

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
