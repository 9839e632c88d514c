//! A token bucket for what may be done only so often, such as replies.

use crate::{NANOS_PER_S, Nanos};

/// At most `rate_per_s` a second on average and `burst` at once, in integers: over any span of t seconds it gives at
/// most `rate_per_s`·t + `burst`. A clock that steps back is taken as standing still.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    rate_per_s: u32,
    /// In billionths of a token, so that `rate_per_s` times nanoseconds adds up without rounding.
    /// INVARIANT: at most `burst` · 10^9, which a u64 holds for every u32.
    level: u64,
    level_max: u64,
    last: Nanos,
}

impl TokenBucket {
    /// A full bucket.
    #[must_use]
    pub const fn new(rate_per_s: u32, burst: u32, now: Nanos) -> Self {
        let level_max = burst as u64 * NANOS_PER_S;
        Self { rate_per_s, level: level_max, level_max, last: now }
    }

    /// Goes on at another rate with another burst. What there is stays, up to the new burst.
    pub fn change(&mut self, rate_per_s: u32, burst: u32, now: Nanos) {
        let _at_the_old_rate = self.available(now);
        self.rate_per_s = rate_per_s;
        self.level_max = u64::from(burst) * NANOS_PER_S;
        self.level = self.level.min(self.level_max);
    }

    /// Takes one token if there is one.
    #[must_use]
    pub fn take(&mut self, now: Nanos) -> bool {
        self.take_up_to(now, 1) == 1
    }

    /// Takes as many tokens as there are, at most `wanted`, and says how many.
    #[must_use]
    pub fn take_up_to(&mut self, now: Nanos, wanted: u32) -> u32 {
        let taken = self.available(now).min(wanted);
        self.level -= u64::from(taken) * NANOS_PER_S;
        taken
    }

    /// The whole tokens there are.
    pub fn available(&mut self, now: Nanos) -> u32 {
        let elapsed_ns = now.saturating_sub(self.last);
        self.last = self.last.max(now);
        let gain = elapsed_ns.saturating_mul(u64::from(self.rate_per_s));
        self.level = self.level.saturating_add(gain).min(self.level_max);
        // The level is at most u32::MAX · 10^9, so the quotient fits.
        (self.level / NANOS_PER_S) as u32
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::TokenBucket;
    use crate::NANOS_PER_S;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = TokenBucket::new(10, 3, 0);
        assert_eq!((0..5).filter(|_| bucket.take(0)).count(), 3);
        assert!(!bucket.take(99_999_999));
        assert!(bucket.take(100_000_000));
        assert!(!bucket.take(100_000_000));
        assert_eq!(bucket.available(3600 * NANOS_PER_S), 3);
    }

    #[test]
    fn the_extremes_neither_overflow_nor_give_anything_for_nothing() {
        let mut bucket = TokenBucket::new(u32::MAX, u32::MAX, 0);
        assert_eq!(bucket.take_up_to(0, u32::MAX), u32::MAX);
        assert_eq!(bucket.available(u64::MAX), u32::MAX);
        let mut none = TokenBucket::new(u32::MAX, 0, 0);
        assert!(!none.take(u64::MAX));
        let mut once = TokenBucket::new(0, 1, 0);
        assert!(once.take(5));
        assert!(!once.take(u64::MAX));
    }

    #[test]
    fn a_change_gives_nothing_and_takes_only_what_is_beyond_the_new_burst() {
        let mut bucket = TokenBucket::new(10, 10, 0);
        assert_eq!(bucket.take_up_to(0, 7), 7);
        bucket.change(1000, 50, 0);
        assert_eq!(bucket.available(0), 3);
        assert_eq!(bucket.available(10_000_000), 13);
        bucket.change(1, 2, 10_000_000);
        assert_eq!(bucket.available(10_000_000), 2);
    }

    #[test]
    fn a_clock_that_steps_back_gives_nothing() {
        let mut bucket = TokenBucket::new(1, 1, 0);
        assert!(bucket.take(NANOS_PER_S));
        assert!(!bucket.take(0));
        assert!(!bucket.take(NANOS_PER_S));
        assert!(bucket.take(2 * NANOS_PER_S));
    }

    proptest! {
        #[test]
        fn any_span_gives_at_most_its_rate_and_one_burst(
            rate_per_s in 0_u32..5000, burst in 0_u32..50,
            steps in proptest::collection::vec((0_u64..5_000_000, 0_u32..20), 1..200),
        ) {
            let mut bucket = TokenBucket::new(rate_per_s, burst, 0);
            let mut now = 0;
            let mut taken = Vec::new();
            for (wait_ns, wanted) in steps {
                now += wait_ns;
                taken.push((now, bucket.take_up_to(now, wanted)));
            }
            for first in 0..taken.len() {
                let mut sum = 0;
                for &(at, count) in &taken[first..] {
                    sum += u64::from(count);
                    let span_ns = at - taken[first].0;
                    let allowed = u128::from(span_ns) * u128::from(rate_per_s) + u128::from(burst) * 1_000_000_000;
                    prop_assert!(u128::from(sum) * 1_000_000_000 <= allowed);
                }
            }
        }

        #[test]
        fn a_greedy_taker_gets_all_that_is_promised(rate_per_s in 1_u32..5000, burst in 2_u32..50) {
            // Asked ten times a token, the bucket never runs over, and parts of a token are not lost.
            let mut bucket = TokenBucket::new(rate_per_s, burst, 0);
            let steps = 20 * u64::from(rate_per_s);
            let at = |step: u64| step * NANOS_PER_S / u64::from(rate_per_s) / 10;
            let taken: u64 = (0..=steps).map(|step| u64::from(bucket.take_up_to(at(step), 50))).sum();
            prop_assert_eq!(taken, u64::from(burst) + 2 * u64::from(rate_per_s));
        }
    }
}
