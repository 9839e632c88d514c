//! The leaky bucket of RFC 7415 section 3.5.1, which makes a rate of a stream of requests.
//!
//! | symbol | here | meaning |
//! |---|---|---|
//! | X | `content_ns` | what is in the bucket after the last conforming request |
//! | LCT | `last` | time of that request |
//! | T | `interval_ns` | what a request puts in; 1/rate |
//! | TAU | `tolerance` × T | how full it may be for a request to conform |
//!
//! The bucket leaks one nanosecond per nanosecond. All are integers, so that TAU = 4T lets exactly 5 requests pass at once.

use crate::{NANOS_PER_S, Nanos};

/// A leaky bucket. Interval and tolerance are given with each request, since both may change.
#[derive(Debug, Clone, Default)]
pub(super) struct LeakyBucket {
    content_ns: Nanos,
    last: Nanos,
}

impl LeakyBucket {
    /// T of a rate above 0, at least one nanosecond.
    #[must_use]
    pub(super) fn interval_ns(rate_per_s: f64) -> Nanos {
        // The cast saturates.
        ((NANOS_PER_S as f64 / rate_per_s).round() as Nanos).max(1)
    }

    /// Whether a request conforms now; if so it is in the bucket.
    pub(super) fn conforms(&mut self, now: Nanos, interval_ns: Nanos, tolerance: f64) -> bool {
        let now = now.max(self.last);
        let left_ns = self.content_ns.saturating_sub(now - self.last);
        let conforms = left_ns <= (interval_ns as f64 * tolerance) as Nanos;
        if conforms {
            self.content_ns = left_ns.saturating_add(interval_ns);
            self.last = now;
        }
        conforms
    }

    /// Puts in a request that needs no permission; others wait for it.
    pub(super) fn force(&mut self, now: Nanos, interval_ns: Nanos) {
        let _conforms = self.conforms(now, interval_ns, f64::INFINITY);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::LeakyBucket;

    fn back_to_back(interval_ns: u64, tolerance: f64) -> usize {
        let mut bucket = LeakyBucket::default();
        (0..1000).take_while(|_| bucket.conforms(0, interval_ns, tolerance)).count()
    }

    #[test]
    fn a_tolerance_of_n_intervals_passes_n_and_one_requests_at_once() {
        let interval_ns = LeakyBucket::interval_ns(150.0);
        assert_eq!(interval_ns, 6_666_667, "6.667 ms");
        for (tolerance, passed) in [(0.0, 1), (4.0, 5), (5.0, 6), (10.0, 11)] {
            assert_eq!(back_to_back(interval_ns, tolerance), passed);
        }
    }

    #[test]
    fn a_forced_request_makes_others_wait() {
        let mut bucket = LeakyBucket::default();
        for _ in 0..3 {
            bucket.force(0, 10);
        }
        assert!(!bucket.conforms(29, 10, 0.0));
        assert!(bucket.conforms(30, 10, 0.0));
    }

    #[test]
    fn a_clock_that_goes_back_leaks_nothing() {
        let mut bucket = LeakyBucket::default();
        assert!(bucket.conforms(100, 50, 0.0));
        assert!(!bucket.conforms(20, 50, 0.0));
        assert!(!bucket.conforms(149, 50, 0.0));
        assert!(bucket.conforms(150, 50, 0.0));
    }

    proptest! {
        #[test]
        fn any_tolerance_and_rate_pass_as_many_at_once(rate in 0.1..1e5_f64, tolerance in 0_u32..500) {
            let passed = back_to_back(LeakyBucket::interval_ns(rate), f64::from(tolerance));
            prop_assert_eq!(passed, tolerance as usize + 1);
        }

        /// The other form of the algorithm, by the theoretical arrival time, conforms the same requests.
        #[test]
        fn it_conforms_what_the_virtual_scheduling_form_conforms(
            gaps in proptest::collection::vec(0_u64..200, 1..300), interval in 1_u64..150, tolerance in 0_u64..10,
        ) {
            let mut bucket = LeakyBucket::default();
            let (mut now, mut expected_at) = (0, 0);
            for gap in gaps {
                now += gap;
                let conforms = now + tolerance * interval >= expected_at;
                prop_assert_eq!(bucket.conforms(now, interval, tolerance as f64), conforms);
                if conforms {
                    expected_at = expected_at.max(now) + interval;
                }
            }
        }

        #[test]
        fn no_span_passes_more_than_its_rate_and_the_burst(
            gaps in proptest::collection::vec(0_u64..200, 2..300), interval in 1_u64..150, tolerance in 0_u64..10,
        ) {
            let mut bucket = LeakyBucket::default();
            let mut now = 0;
            let mut passed = Vec::new();
            for gap in gaps {
                now += gap;
                if bucket.conforms(now, interval, tolerance as f64) {
                    passed.push(now);
                }
            }
            for (first, from) in passed.iter().enumerate() {
                for (last, to) in passed.iter().enumerate().skip(first) {
                    let count = (last - first + 1) as u64;
                    prop_assert!((count - 1) * interval <= to - from + tolerance * interval);
                }
            }
        }
    }
}
