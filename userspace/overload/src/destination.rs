//! How often one destination may be sent something that it did not ask for: a table of buckets of fixed size.
//!
//! The sender of a UDP request may be forged, and then our reply hits somebody who is no client of ours. No such
//! somebody gets more than so many replies per second, whoever pretends to be him. Keys are keyed hashes of
//! destinations, made by the caller (`sip::destination_key`), so that nobody outside can aim at a row of the table.
//! Not here: the limit for all replies together, which is a [`crate::TokenBucket`].
//!
//! # One number for each bucket
//!
//! A bucket that fills at r tokens per second up to b = r is kept as the time at which it will be full again (the
//! generic cell rate algorithm of ATM, there "theoretical arrival time"). A token is 1/r s of that time; one may be
//! taken as long as the time is at most 1 s - 1/r ahead. A time that is past says "full", however long it is past.
//!
//! # Why eviction gives nothing away
//!
//! Each key belongs to one row. A key that is not in its row takes the place of the one whose time is the earliest,
//! and *takes over that time* instead of a fresh one. So
//!
//! 1. no time in the table ever falls: a token moves it forward, an eviction leaves it as it is;
//! 2. the earliest time of a row never falls either;
//! 3. a key is evicted with the earliest time of its row, and when it comes back it takes over the time which is then
//!    the earliest, which by 2 is not before the one it had.
//!
//! Hence a key in the table never has more tokens than a bucket of its own would have: the tests compare with such
//! buckets, kept for ever. And a row, whatever number of keys share it, gives no more than `WAYS` buckets. The price
//! is paid on the other side: somebody new, in a row of which every place is spent, gets nothing for a moment. A
//! flood reaches that only if it spends all rows at once, for the keys are hashes; [`DestinationCap::new`] makes the
//! table so large that the limit for all replies together comes first.

use crate::{NANOS_PER_S, Nanos};

/// Places of a row. Eight of 16 bytes are two cache lines.
const WAYS: usize = 8;
/// The smallest table has this many rows, 64 KiB.
const ROWS_MIN: usize = 512;
/// The largest, 64 MiB.
const ROWS_MAX: usize = 1 << 19;
/// The table has places for this many times the destinations that could be kept spent at the total rate.
const SPARE: u64 = 4;

/// One bucket.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    key: u64,
    /// When it is full again.
    full_at: Nanos,
}

/// A token bucket for each destination, in a fixed number of places. Nothing is allocated after construction.
#[derive(Debug, Clone)]
pub struct DestinationCap {
    /// INVARIANT: a power of two.
    rows: Box<[[Place; WAYS]]>,
}

impl DestinationCap {
    /// A table that suits at most `total_per_s` replies per second to all destinations, of which the slowest may get
    /// `per_destination`.
    #[must_use]
    pub fn new(total_per_s: u32, per_destination: u32) -> Self {
        let spent_at_once = u64::from(total_per_s) / u64::from(per_destination.max(1));
        // Bounded, so it fits.
        let rows = (spent_at_once * SPARE / WAYS as u64).clamp(ROWS_MIN as u64, ROWS_MAX as u64) as usize;
        Self::with_rows(rows.next_power_of_two())
    }

    fn with_rows(rows: usize) -> Self {
        Self { rows: vec![[Place::default(); WAYS]; rows].into() }
    }

    /// Whether a destination with `per_s` tokens per second, and as many at once, has one now. Takes none. A key
    /// always comes with the same `per_s`.
    #[must_use]
    pub fn has_token(&self, key: u64, per_s: u32, now: Nanos) -> bool {
        let row = &self.rows[self.row_of(key)];
        is_within(row[place_of(row, key)].full_at, per_s, now)
    }

    /// Takes a token of a destination if it has one.
    pub fn take(&mut self, key: u64, per_s: u32, now: Nanos) -> bool {
        let index = self.row_of(key);
        let row = &mut self.rows[index];
        let place = &mut row[place_of(row, key)];
        if !is_within(place.full_at, per_s, now) {
            return false;
        }
        *place = Place { key, full_at: place.full_at.max(now).saturating_add(token_ns(per_s)) };
        true
    }

    /// The upper bits choose the row.
    const fn row_of(&self, key: u64) -> usize {
        // The product's upper half is below the number of rows.
        ((key as u128 * self.rows.len() as u128) >> 64) as usize
    }
}

/// The key's own place, or the one that it would take: the earliest.
fn place_of(row: &[Place; WAYS], key: u64) -> usize {
    let mut earliest = 0;
    for (index, place) in row.iter().enumerate() {
        if place.key == key {
            return index;
        }
        if place.full_at < row[earliest].full_at {
            earliest = index;
        }
    }
    earliest
}

/// What one token is worth, rounded up, so that no more than `per_s` are given.
const fn token_ns(per_s: u32) -> Nanos {
    if per_s == 0 { Nanos::MAX } else { NANOS_PER_S.div_ceil(per_s as u64) }
}

/// Whether a token is left in a bucket that holds a second's worth.
const fn is_within(full_at: Nanos, per_s: u32, now: Nanos) -> bool {
    match NANOS_PER_S.checked_sub(token_ns(per_s)) {
        Some(ahead_max) => full_at <= now.saturating_add(ahead_max),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{DestinationCap, ROWS_MAX, ROWS_MIN, WAYS};
    use crate::{NANOS_PER_S, TokenBucket};

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
        let mut cap = DestinationCap::with_rows(1);
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
        assert_eq!(DestinationCap::new(50_000, 100).rows.len(), ROWS_MIN);
        assert_eq!(DestinationCap::new(1_000_000, 1).rows.len(), ROWS_MAX);
        assert_eq!(DestinationCap::new(50_000, 1).rows.len(), 32_768);
        assert_eq!(DestinationCap::new(0, 0).rows.len(), ROWS_MIN);
    }

    #[test]
    fn the_extremes_neither_overflow_nor_give_anything_for_nothing() {
        let mut cap = DestinationCap::with_rows(1);
        assert!(!cap.take(1, 0, 0) && !cap.take(1, 0, u64::MAX), "no rate, no token");
        assert!(cap.take(u64::MAX, 1, u64::MAX));
        assert_eq!((0..2_000_000).filter(|_| cap.take(2, 1_000_000, 0)).count(), 1_000_000);
        assert!(cap.take(3, u32::MAX, 0));
    }

    #[test]
    fn a_clock_that_steps_back_gives_nothing() {
        let mut cap = DestinationCap::with_rows(1);
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
            let mut cap = DestinationCap::with_rows(1 << rows_log2);
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
            let mut cap = DestinationCap::with_rows(1);
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
            let mut cap = DestinationCap::with_rows(1);
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
