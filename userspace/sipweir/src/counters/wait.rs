//! How long messages waited, counted in fixed buckets: a histogram with one writer.
//!
//! The worker adds with plain stores, one to a bucket and one to the sum. Percentiles are for whoever reads it: sums of
//! several workers' buckets are still buckets.

use super::Count;

/// What bounds are counted in, nanoseconds: fine enough for a queue that hardly waits, and coarse enough that four seconds
/// are a 16-bit number.
const STEP_NS: u64 = 100_000;

/// Upper bounds of the buckets but the last, which has none, in steps of 100 us. Close together where thresholds and `max_wait`
/// lie by default (200 to 400 ms) and at T1, 500 ms (RFC 3261 section 17.1.1.1). As many as two vectors of 16-bit numbers hold,
/// so that all are compared at once.
const BOUNDS: [u16; 16] =
    [1, 5, 10, 25, 50, 100, 250, 500, 1000, 2000, 2500, 3000, 4000, 5000, 10_000, 20_000];

/// Buckets of a histogram.
pub const WAIT_BUCKETS: usize = BOUNDS.len() + 1;

/// Upper bounds of the buckets but the last, seconds; a wait as long as a bound is in its bucket.
#[must_use]
pub fn wait_bounds_s() -> [f64; WAIT_BUCKETS - 1] {
    // Divided, not multiplied: 0.25 must be printed as 0.25.
    BOUNDS.map(|bound| f64::from(bound) / 1e4)
}

/// Waits of one class.
#[derive(Debug)]
pub struct WaitHistogram {
    buckets: [Count; WAIT_BUCKETS],
    sum_ns: Count,
}

impl Default for WaitHistogram {
    fn default() -> Self {
        Self { buckets: [const { Count::zero() }; WAIT_BUCKETS], sum_ns: Count::default() }
    }
}

impl WaitHistogram {
    /// Counts one wait; only the owning worker may.
    pub fn add(&self, waited_ns: u64) {
        self.buckets[bucket_of(waited_ns)].add(1);
        self.sum_ns.add(waited_ns);
    }

    /// Waits counted in each bucket, from the shortest on.
    #[must_use]
    pub fn buckets(&self) -> [u64; WAIT_BUCKETS] {
        std::array::from_fn(|bucket| self.buckets[bucket].get())
    }

    /// Sum of all waits, nanoseconds.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns.get()
    }
}

/// How many bounds a wait is above.
fn bucket_of(waited_ns: u64) -> usize {
    let steps = u16::try_from(waited_ns.div_ceil(STEP_NS)).unwrap_or(u16::MAX);
    usize::from(BOUNDS.iter().map(|bound| u16::from(steps > *bound)).sum::<u16>())
}

#[cfg(test)]
mod tests {
    use super::{BOUNDS, STEP_NS, WAIT_BUCKETS, WaitHistogram, bucket_of, wait_bounds_s};

    #[test]
    fn a_wait_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        assert!(BOUNDS.is_sorted());
        for (bucket, bound) in BOUNDS.into_iter().enumerate() {
            let bound_ns = u64::from(bound) * STEP_NS;
            for (waited_ns, expected) in
                [(bound_ns - 1, bucket), (bound_ns, bucket), (bound_ns + 1, bucket + 1)]
            {
                assert_eq!(bucket_of(waited_ns), expected, "{waited_ns} ns");
            }
        }
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, WAIT_BUCKETS - 1));
    }

    #[test]
    fn what_was_added_is_there_once() {
        let histogram = WaitHistogram::default();
        for waited_ns in [0, 1_000_000, 1_000_001, 250_000_000, 9_000_000_000] {
            histogram.add(waited_ns);
        }
        let mut expected = [0; WAIT_BUCKETS];
        for bucket in [0, 2, 3, 10, WAIT_BUCKETS - 1] {
            expected[bucket] = 1;
        }
        assert_eq!(histogram.buckets(), expected);
        assert_eq!(histogram.sum_ns(), 9_252_000_001);
    }

    #[test]
    fn bounds_are_printed_as_a_person_would_write_them() {
        let bounds: Vec<String> = wait_bounds_s().map(|bound| bound.to_string()).into();
        assert_eq!(bounds[..4], ["0.0001", "0.0005", "0.001", "0.0025"]);
        assert_eq!(bounds[10..], ["0.25", "0.3", "0.4", "0.5", "1", "2"]);
    }
}
