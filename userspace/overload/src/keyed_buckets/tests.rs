use std::collections::HashMap;

use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

use super::{Allowance, KeyedBuckets, WAYS};
use crate::NANOS_PER_S;

const MS: u64 = 1_000_000;

fn allowance(per_s: f64, burst_ms: u64) -> Allowance {
    Allowance { per_s, burst_ns: burst_ms * MS }
}

/// Keys of one and the same set.
fn crowd(count: u64) -> impl Iterator<Item = u64> {
    1..=count
}

#[test]
fn a_source_gets_its_burst_and_then_its_rate() {
    let mut buckets = KeyedBuckets::new(8);
    let cap = allowance(100.0, 250);
    assert_eq!((0..50).filter(|_| buckets.take(7, 1, cap, 0)).count(), 25);
    assert!(!buckets.take(7, 1, cap, 9 * MS));
    assert!(buckets.take(7, 1, cap, 10 * MS));
    let second: usize = (0..1000).filter(|ms| buckets.take(7, 1, cap, (10 + ms) * MS)).count();
    assert!((99..=101).contains(&second), "{second}");
}

#[test]
fn one_source_does_not_use_up_the_tokens_of_another() {
    let mut buckets = KeyedBuckets::new(1024);
    let cap = allowance(10.0, 100);
    while buckets.take(1, 1, cap, 0) {}
    assert!(buckets.take(2, 1, cap, 0));
}

#[test]
fn a_cap_of_less_than_one_a_burst_still_lets_one_through() {
    let mut buckets = KeyedBuckets::new(8);
    let cap = allowance(1.0, 250);
    assert!(buckets.take(1, 1, cap, 0));
    assert!(!buckets.take(1, 1, cap, NANOS_PER_S - 1));
    assert!(buckets.take(1, 1, cap, NANOS_PER_S));
}

#[test]
fn what_is_not_there_as_a_whole_is_not_taken_in_part() {
    let mut buckets = KeyedBuckets::new(8);
    let cap = allowance(100.0, 50);
    assert!(!buckets.take(1, 6, cap, 0));
    assert!(buckets.take(1, 5, cap, 0));
    assert!(!buckets.take(1, 1, cap, 0));
    assert!(buckets.take(1, 0, cap, 0));
}

#[test]
fn rates_that_are_none_give_nothing_and_an_infinite_one_everything() {
    let mut buckets = KeyedBuckets::new(8);
    for per_s in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
        assert!(!buckets.take(1, 1, allowance(per_s, 1000), 0), "{per_s}");
    }
    for _ in 0..10_000 {
        assert!(buckets.take(1, u32::MAX, allowance(f64::INFINITY, 0), 0));
    }
    assert!(buckets.take(2, 1, allowance(f64::MIN_POSITIVE, 0), 0), "one is always there");
    assert!(!buckets.take(2, 1, allowance(1e9, 0), NANOS_PER_S));
}

#[test]
fn a_source_that_has_been_quiet_frees_its_place() {
    let mut buckets = KeyedBuckets::new(WAYS);
    let cap = allowance(10.0, 100);
    for key in crowd(WAYS as u64) {
        assert!(buckets.take(key, 1, cap, 0));
    }
    // All are full again, so a stranger finds a full bucket, and it is nobody's loss.
    assert!(buckets.take(99, 1, cap, 100 * MS));
    assert!(crowd(WAYS as u64).all(|key| buckets.take(key, 1, cap, 200 * MS)));
}

proptest! {
    #[test]
    fn while_there_is_room_each_source_is_held_to_the_cap_as_if_it_were_alone(
        per_s in 1_u32..2000, burst_ms in 0_u64..500,
        steps in proptest::collection::vec((0_u64..20, 0_u64..8, 0_u32..4), 1..300),
    ) {
        let cap = allowance(f64::from(per_s), burst_ms);
        let mut buckets = KeyedBuckets::new(64);
        // The oracle: a level that grows, in nanoseconds of growth.
        let one_ns = NANOS_PER_S as f64 / f64::from(per_s);
        let most_ns = (cap.burst_ns as f64).max(one_ns);
        let mut oracle: HashMap<u64, (f64, u64)> = HashMap::new();
        let mut now = 0;
        for (wait_ms, key, tokens) in steps {
            now += wait_ms * MS;
            let (level, last) = oracle.entry(key).or_insert((most_ns, now));
            *level = (*level + (now - *last) as f64).min(most_ns);
            *last = now;
            let wanted = f64::from(tokens) * one_ns;
            let taken = buckets.take(key << 32, tokens, cap, now);
            // Whole nanoseconds against fractions: the two may differ where it is a matter of a few of them.
            if (*level - wanted).abs() > 1000.0 {
                prop_assert_eq!(taken, wanted <= *level);
            }
            if taken {
                *level = (*level - wanted).max(0.0);
            }
        }
    }

    #[test]
    fn however_many_sources_there_are_a_full_set_gives_no_more_than_its_places_times_the_cap(
        per_s in 1_u32..500, burst_ms in 0_u64..300,
        steps in proptest::collection::vec((0_u64..5, 1_u64..1000), 1..600),
    ) {
        let cap = allowance(f64::from(per_s), burst_ms);
        let mut buckets = KeyedBuckets::new(WAYS);
        let (mut now, mut taken) = (0, 0_u32);
        for (wait_ms, key) in steps {
            now += wait_ms * MS;
            taken += u32::from(buckets.take(key, 1, cap, now));
        }
        let burst = (cap.burst_ns as f64 * f64::from(per_s) / 1e9).max(1.0);
        let most = WAYS as f64 * (burst + now as f64 * f64::from(per_s) / 1e9 + 1.0);
        prop_assert!(f64::from(taken) <= most, "{taken} of {most}");
    }
}
