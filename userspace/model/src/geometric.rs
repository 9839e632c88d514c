//! Tables of geometric sums, S(x, m) = Σ x^i over i < m, and of their sums T(x, m) = Σ S(x, j) over 1 ≤ j ≤ m.
//!
//! For x > 1 the tables hold S(x, m)/x^(m−1) = S(1/x, m) and T(x, m)/x^(m−1), so nothing overflows; read out are
//! logarithms. Horner's rule is exact at x = 1, where the fractions are 0/0, and all terms are positive: nothing cancels.

/// The tables of one x, up to a number of terms.
#[derive(Debug)]
pub(crate) struct GeometricSums {
    /// ln x for x > 1, otherwise 0.
    log_scale: f64,
    sums: Vec<f64>,
    double_sums: Vec<f64>,
}

impl GeometricSums {
    /// Tables for x ≥ 0 and m ≤ `terms`.
    pub(crate) fn new(x: f64, terms: u32) -> Self {
        let (ratio, log_scale, fade) = if x > 1.0 { (1.0 / x, x.ln(), 1.0 / x) } else { (x, 0.0, 1.0) };
        let mut sums = Vec::with_capacity(terms as usize + 1);
        let mut double_sums = Vec::with_capacity(terms as usize + 1);
        let (mut single, mut double) = (0.0_f64, 0.0_f64);
        sums.push(single);
        double_sums.push(double);
        for _ in 0..terms {
            single = single.mul_add(ratio, 1.0);
            double = double.mul_add(fade, single);
            sums.push(single);
            double_sums.push(double);
        }
        Self { log_scale, sums, double_sums }
    }

    /// ln S(x, m); −∞ for m = 0.
    pub(crate) fn log_sum(&self, terms: u32) -> f64 {
        self.log_scale.mul_add(f64::from(terms) - 1.0, self.sums[terms as usize].ln())
    }

    /// ln T(x, m); −∞ for m = 0.
    pub(crate) fn log_double_sum(&self, terms: u32) -> f64 {
        self.log_scale.mul_add(f64::from(terms) - 1.0, self.double_sums[terms as usize].ln())
    }
}

#[cfg(test)]
mod tests {
    use super::GeometricSums;

    #[test]
    fn tables_agree_with_term_by_term_sums() {
        for x in [0.0, 0.01, 0.5, 0.999_999, 1.0, 1.000_001, 1.7, 100.0_f64] {
            let tables = GeometricSums::new(x, 60);
            let mut double = 0.0;
            for terms in 1..=60 {
                let single: f64 = (0..terms).map(|i| x.powi(i)).sum();
                double += single;
                assert!((tables.log_sum(terms as u32) - single.ln()).abs() < 1e-12, "{x} {terms}");
                assert!((tables.log_double_sum(terms as u32) - double.ln()).abs() < 1e-12, "{x} {terms}");
            }
        }
    }

    #[test]
    fn an_empty_sum_is_nothing_and_a_long_one_stays_finite() {
        let tables = GeometricSums::new(100.0, 100_000);
        assert_eq!(tables.log_sum(0), f64::NEG_INFINITY);
        let expected = 99_999.0 * 100_f64.ln() - 0.99_f64.ln();
        assert!((tables.log_sum(100_000) - expected).abs() < 1e-8);
    }
}
