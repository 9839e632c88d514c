//! How often one destination may be sent something that it did not ask for: a table of buckets of fixed size.
//!
//! The sender of a UDP request may be forged, and then our reply hits somebody who is no client of ours. No such
//! somebody gets more than so many replies per second, whoever pretends to be him. Keys are keyed hashes of
//! destinations, made by the caller (`sip::address_key`), so that nobody outside can aim at a row of the table.
//! Not here: the limit for all replies together, which is a [`crate::TokenBucket`].
//!
//! # Why eviction gives nothing away
//!
//! [`KeyedBuckets`] gives a new key the place and the debt of the bucket that is full soonest. So
//!
//! 1. no time in the table ever falls: a token moves it forward, an eviction leaves it as it is;
//! 2. the earliest time of a set never falls either;
//! 3. a key is evicted with the earliest time of its set, and when it comes back it takes over the time which is then
//!    the earliest, which by 2 is not before the one it had.
//!
//! Hence a key never has more tokens than a bucket of its own would have: the tests compare with such buckets, kept for
//! ever. The price is paid on the other side: somebody new, in a set of which every place is spent, gets nothing for a
//! moment. A flood reaches that only if it spends all sets at once, for the keys are hashes; [`DestinationCap::new`]
//! makes the table so large that the limit for all replies together comes first.

use crate::{Allowance, KeyedBuckets, NANOS_PER_S, Nanos};

/// The smallest table has places for this many destinations, 64 KiB.
const PLACES_MIN: usize = 1 << 12;
/// The largest, 64 MiB.
const PLACES_MAX: usize = 1 << 22;
/// The table has places for this many times the destinations that could be kept spent at the total rate.
const SPARE: u64 = 4;

/// A token bucket for each destination, in a fixed number of places. Nothing is allocated after construction.
#[derive(Debug, Clone)]
pub struct DestinationCap(KeyedBuckets);

impl DestinationCap {
    /// A table that suits at most `total_per_s` replies per second to all destinations, of which the slowest may get
    /// `per_destination`.
    #[must_use]
    pub fn new(total_per_s: u32, per_destination: u32) -> Self {
        let spent_at_once = u64::from(total_per_s) / u64::from(per_destination.max(1));
        // Bounded, so it fits.
        let places = (spent_at_once * SPARE).clamp(PLACES_MIN as u64, PLACES_MAX as u64) as usize;
        Self(KeyedBuckets::new(places))
    }

    /// Destinations that there is room for.
    #[must_use]
    pub fn places(&self) -> usize {
        self.0.places()
    }

    /// Whether a destination with `per_s` tokens per second, and as many at once, has one now. Takes none.
    #[must_use]
    pub fn has_token(&self, key: u64, per_s: u32, now: Nanos) -> bool {
        self.0.has(key, 1, seconds_worth(per_s), now)
    }

    /// Takes a token of a destination if it has one.
    pub fn take(&mut self, key: u64, per_s: u32, now: Nanos) -> bool {
        self.0.take(key, 1, seconds_worth(per_s), now)
    }
}

fn seconds_worth(per_s: u32) -> Allowance {
    Allowance { per_s: f64::from(per_s), burst_ns: NANOS_PER_S }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{DestinationCap, PLACES_MAX, PLACES_MIN};
    use crate::{KeyedBuckets, NANOS_PER_S, TokenBucket};

    /// Places of a set of the table.
    const WAYS: usize = 8;

    fn with_sets(sets: usize) -> DestinationCap {
        DestinationCap(KeyedBuckets::new(sets * WAYS))
    }

    #[test]
    fn a_destination_gets_a_seconds_worth_at_once_and_then_its_rate() {
        let mut cap = DestinationCap::new(50_000, 100);
        assert_eq!((0..500).filter(|_| cap.take(7, 100, 5)).count(), 100);
        assert!(!cap.has_token(7, 100, 5 + NANOS_PER_S / 100 - 1));
        assert!(cap.has_token(7, 100, 5 + NANOS_PER_S / 100));
        assert!(cap.take(7, 100, 5 + NANOS_PER_S / 100));
        assert!(!cap.take(7, 100, 5 + NANOS_PER_S / 100));
        assert!(cap.take(8, 100, 5), "another destination is not concerned");
        assert_eq!((0..500).filter(|_| cap.take(7, 100, 900 * NANOS_PER_S)).count(), 100);
    }

    #[test]
    fn a_look_takes_nothing() {
        let mut cap = DestinationCap::new(50_000, 1);
        for _ in 0..10 {
            assert!(cap.has_token(7, 1, 0));
        }
        assert!(cap.take(7, 1, 0));
        assert!(!cap.has_token(7, 1, 0));
    }

    #[test]
    fn a_flooder_that_leaves_its_place_and_comes_back_finds_no_fresh_bucket() {
        let mut cap = with_sets(1);
        let own = (0..1000).filter(|_| cap.take(1, 100, 0)).count();
        assert_eq!(own, 100);
        // So many others that key 1 is evicted over and over, and it asks again after each of them.
        let mut others = 0;
        for other in 2..100_000 {
            others += usize::from(cap.take(other, 100, 0));
            assert!(!cap.take(1, 100, 0), "after {other}");
        }
        assert_eq!(others, (WAYS - 1) * 100, "a row gives what its places give");
    }

    #[test]
    fn while_a_flood_of_forged_senders_fills_the_budget_a_newcomer_is_still_answered() {
        // The total budget is 50,000/s; let ten seconds of it go to destinations that each come once.
        let mut cap = DestinationCap::new(50_000, 100);
        let mix = |n: u64| (n ^ 0x9e37_79b9).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        for n in 0..500_000_u64 {
            let now = n * 20_000;
            assert!(cap.take(mix(n), 100, now), "{n}");
        }
    }

    #[test]
    fn the_table_grows_with_what_can_be_spent_at_once_and_is_bounded() {
        assert_eq!(DestinationCap::new(50_000, 100).0.places(), PLACES_MIN);
        assert_eq!(DestinationCap::new(u32::MAX, 1).0.places(), PLACES_MAX);
        assert_eq!(DestinationCap::new(50_000, 1).0.places(), 262_144);
        assert_eq!(DestinationCap::new(0, 0).0.places(), PLACES_MIN);
    }

    #[test]
    fn the_extremes_neither_overflow_nor_give_anything_for_nothing() {
        let mut cap = with_sets(1);
        assert!(!cap.take(1, 0, 0) && !cap.take(1, 0, u64::MAX), "no rate, no token");
        assert!(cap.take(u64::MAX, 1, u64::MAX));
        assert_eq!((0..2_000_000).filter(|_| cap.take(2, 1_000_000, 0)).count(), 1_000_000);
        assert!(cap.take(3, u32::MAX, 0));
    }

    #[test]
    fn a_clock_that_steps_back_gives_nothing() {
        let mut cap = with_sets(1);
        assert!(cap.take(1, 1, 10 * NANOS_PER_S));
        assert!(!cap.take(1, 1, 0));
        assert!(!cap.take(1, 1, 10 * NANOS_PER_S));
        assert!(cap.take(1, 1, 11 * NANOS_PER_S));
    }

    /// Rates that divide a second, so that a bucket in whole tokens is an exact oracle.
    const RATES: [u32; 4] = [1, 4, 100, 1000];

    proptest! {
        /// The oracle keeps a bucket of its own for each key, for ever, and takes a token of it where the table gave
        /// one. With rows of eight and up to 40 keys, eviction is the rule.
        #[test]
        fn nobody_gets_more_than_a_bucket_of_its_own_would_give(
            rows_log2 in 0_u32..3,
            steps in proptest::collection::vec((0_u64..40, 0_u64..300_000_000), 1..600),
            rates in proptest::collection::vec(0_usize..4, 40),
        ) {
            let mut cap = with_sets(1 << rows_log2);
            let mut oracle = HashMap::new();
            let mut now = 0;
            for (key, wait_ns) in steps {
                // Most come in bursts.
                now += if wait_ns % 4 == 0 { wait_ns } else { 0 };
                let per_s = RATES[rates[usize::try_from(key).unwrap()]];
                let key = (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let had = cap.has_token(key, per_s, now);
                let got = cap.take(key, per_s, now);
                prop_assert_eq!(had, got);
                let bucket = oracle.entry(key).or_insert_with(|| TokenBucket::new(per_s, per_s, 0));
                if got {
                    prop_assert!(bucket.take(now), "more than its own at {now}");
                }
            }
        }

        /// With no more keys than places, nobody is evicted and each gets exactly its own.
        #[test]
        fn without_eviction_everybody_gets_exactly_its_own(
            steps in proptest::collection::vec((0_u64..8, 0_u64..30_000_000), 1..600),
            rate in 0_usize..4,
        ) {
            let mut cap = with_sets(1);
            let mut oracle = HashMap::new();
            let (mut now, per_s) = (0, RATES[rate]);
            for (key, wait_ns) in steps {
                now += if wait_ns % 3 == 0 { wait_ns } else { 0 };
                let bucket = oracle.entry(key).or_insert_with(|| TokenBucket::new(per_s, per_s, 0));
                prop_assert_eq!(cap.take(key + 1, per_s, now), bucket.take(now));
            }
        }

        /// However many keys share a row, over any span it gives no more than eight buckets.
        #[test]
        fn a_row_gives_no_more_than_its_places(
            keys in proptest::collection::vec(any::<u64>(), 1..2000),
            step_ns in 0_u64..2_000_000,
        ) {
            let mut cap = with_sets(1);
            let mut taken: u64 = 0;
            let mut now = 0;
            for key in keys {
                now += step_ns;
                taken += u64::from(cap.take(key, 20, now));
                let allowed = WAYS as u64 * (20 * NANOS_PER_S + 20 * now);
                prop_assert!(taken * NANOS_PER_S <= allowed);
            }
        }
    }
}
