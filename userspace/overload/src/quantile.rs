//! Quantiles of what was counted in buckets.

/// The value that a share `q` of what was counted does not exceed, by a straight line within its bucket. `bounds` are the upper
/// bounds of all buckets but the last, which has none and answers with its lower one; the first begins at 0. `None` if
/// nothing was counted.
#[must_use]
pub fn quantile(counts: &[u64], bounds: &[f64], q: f64) -> Option<f64> {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return None;
    }
    let wanted = q.clamp(0.0, 1.0) * total as f64;
    let (mut below, mut lower) = (0.0, 0.0);
    for (count, bound) in counts.iter().zip(bounds) {
        let count = *count as f64;
        if count > 0.0 && below + count >= wanted {
            return Some(lower + (bound - lower) * ((wanted - below) / count).max(0.0));
        }
        (below, lower) = (below + count, *bound);
    }
    Some(lower)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::quantile;

    const BOUNDS: [f64; 3] = [1.0, 2.0, 4.0];

    #[test]
    fn a_straight_line_within_the_bucket() {
        assert_eq!(quantile(&[0, 0, 0, 0], &BOUNDS, 0.5), None);
        assert_eq!(quantile(&[4, 0, 0, 0], &BOUNDS, 0.5), Some(0.5));
        assert_eq!(quantile(&[0, 0, 10, 0], &BOUNDS, 0.1), Some(2.2));
        assert_eq!(quantile(&[2, 2, 0, 0], &BOUNDS, 0.75), Some(1.5));
        assert_eq!(
            quantile(&[0, 0, 0, 3], &BOUNDS, 0.5),
            Some(4.0),
            "the last bucket has a lower bound only"
        );
        assert_eq!(quantile(&[0, 5, 0, 0], &BOUNDS, 0.0), Some(1.0));
        assert_eq!(quantile(&[0, 5, 0, 0], &BOUNDS, 1.0), Some(2.0));
    }

    proptest! {
        #[test]
        fn it_grows_with_the_share_and_stays_within_the_bounds(
            counts in proptest::array::uniform4(0_u64..100),
            shares in (0.0_f64..=1.0, 0.0_f64..=1.0),
        ) {
            let (low, high) = (shares.0.min(shares.1), shares.0.max(shares.1));
            if let (Some(a), Some(b)) = (quantile(&counts, &BOUNDS, low), quantile(&counts, &BOUNDS, high)) {
                prop_assert!(0.0 <= a && a <= b && b <= 4.0, "{a} {b}");
            }
        }
    }
}
