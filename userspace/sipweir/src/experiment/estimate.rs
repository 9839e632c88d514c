//! What batches of one run say about a ratio, with a confidence interval.
//!
//! States of a gate depend on each other for some control cycles, and batches that are long against a cycle hardly do. The
//! estimate is the ratio of the sums; its variance follows from the residuals xᵢ − r·yᵢ of the batches (Cochran, Sampling
//! Techniques, section 6.3), and the interval from Student's t.

use model::simulate::Estimate;

use super::comparison::Value;

/// The ratio Σx / Σy over batches (x, y). Not a number if nothing happened.
pub(super) fn ratio(batches: &[(f64, f64)]) -> Value {
    let (x, y) = batches.iter().fold((0.0, 0.0), |(x, y), batch| (x + batch.0, y + batch.1));
    let value = x / y;
    let residuals = Estimate::of(batches.iter().map(|(x, y)| x - value * y));
    let per_batch = y / batches.len() as f64;
    Value { value, half_width: residuals.map(|residuals| residuals.half_width / per_batch) }
}

#[cfg(test)]
mod tests {
    use super::ratio;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn a_constant_ratio_leaves_no_doubt() {
        let value = ratio(&[(1.0, 2.0), (2.0, 4.0), (3.0, 6.0), (0.5, 1.0), (5.0, 10.0)]);
        assert!((value.value - 0.5).abs() < 1e-15 && value.half_width.expect("an interval") < 1e-12);
        assert!(ratio(&[]).value.is_nan());
    }

    #[test]
    fn the_interval_covers_the_truth_about_as_often_as_it_says() {
        let mut random = rand_pcg::Pcg64::seed_from_u64(7);
        let covered = (0..2000)
            .filter(|_| {
                let batches: Vec<_> =
                    (0..20).map(|_| (random.random_range(0.0..2.0), random.random_range(3.0..5.0))).collect();
                let value = ratio(&batches);
                (value.value - 0.25).abs() <= value.half_width.expect("an interval")
            })
            .count();
        assert!((1860..=1940).contains(&covered), "{covered} of 2000");
    }
}
