//! A distribution function from the Laplace transform of its density, and its quantiles.
//!
//! The Euler method of Abate and Whitt (ORSA Journal on Computing 7(1), 1995): with f̂ the transform of the density,
//!
//! ```text
//!   F(t) ≈ e^(A/2)/t [ ½ Re F̂(A/2t) + Σ_{k≥1} (−1)^k Re F̂((A + 2kπi)/2t) ],    F̂(s) = f̂(s)/s
//! ```
//!
//! and the alternating series averaged binomially over its last partial sums. The error of the formula is below
//! e^−A. The series is taken as far as the law needs: a smooth one a few dozen terms, one that is narrow against t as
//! many as there are widths in t.

use std::collections::VecDeque;

use num_complex::Complex64;

/// A: e^−25 is 1e-11, and e^(A/2) takes five digits of the sixteen.
const DISCRETISATION: f64 = 25.0;
/// Partial sums averaged less one; as in the paper, 11 to 15 do.
const AVERAGED: usize = 12;
/// The series is as good as this when twice as many terms change it by less.
const TOLERANCE: f64 = 1e-10;
/// As far as the series goes: enough for a law of one hundred-thousandth of t in width.
const TERMS_MAX: usize = 1 << 19;

/// F(t) and its derivative.
pub(crate) fn distribution(transform: &impl Fn(Complex64) -> Complex64, t: f64) -> (f64, f64) {
    // By s t, which is never far from 1: s itself may be 10^−200, of which no square is left.
    let term = |k: usize| {
        let st = Complex64::new(DISCRETISATION / 2.0, std::f64::consts::PI * k as f64);
        let density = transform(st / t);
        let sign = if k.is_multiple_of(2) { 1.0 } else { -1.0 };
        [sign * (density / st).re, sign * density.re]
    };
    let scale = (DISCRETISATION / 2.0).exp();
    let mut sums = term(0).map(|first| first / 2.0);
    let mut recent = VecDeque::from([sums]);
    let mut last = f64::INFINITY;
    let mut checkpoint = 32;
    for k in 1.. {
        let next = term(k);
        sums = [sums[0] + next[0], sums[1] + next[1]];
        if recent.len() > AVERAGED {
            recent.pop_front();
        }
        recent.push_back(sums);
        if k < checkpoint {
            continue;
        }
        let [probability, density] = binomial_average(&recent).map(|sum| scale * sum);
        // What is not a number will not become one.
        if (probability - last).abs() < TOLERANCE || checkpoint >= TERMS_MAX || probability.is_nan() {
            return (probability, density / t);
        }
        last = probability;
        checkpoint *= 2;
    }
    unreachable!("the series ends at its last checkpoint")
}

/// Σ binomial(m, j) 2^−m S_(n+j) over the kept sums.
fn binomial_average(sums: &VecDeque<[f64; 2]>) -> [f64; 2] {
    let order = sums.len() - 1;
    let mut weight = 0.5_f64.powi(order as i32);
    let mut average = [0.0; 2];
    for (j, sum) in sums.iter().enumerate() {
        average = [weight.mul_add(sum[0], average[0]), weight.mul_add(sum[1], average[1])];
        weight *= (order - j) as f64 / (j + 1) as f64;
    }
    average
}

/// A law on (0, ∞) by its transform, its first two moments and a time that its median is not below.
pub(crate) struct Law<F> {
    pub(crate) transform: F,
    pub(crate) mean: f64,
    pub(crate) sd: f64,
    /// Above 0.
    pub(crate) median_min: f64,
}

/// Steps of the search: bisection of the logarithm alone would need forty.
const STEPS_MAX: usize = 100;

impl<F: Fn(Complex64) -> Complex64> Law<F> {
    /// The times that are not exceeded with probabilities of at least 1/2; infinite if the mean or sd is, and not a
    /// number where the transform is none.
    ///
    /// Newton's steps from the quantile of a lognormal law of the same moments, kept inside what is known: a quantile of p
    /// is at most √(p/(1−p)) standard deviations above the mean (Cantelli).
    pub(crate) fn quantile(&self, p: f64) -> f64 {
        if !(self.mean.is_finite() && self.sd.is_finite()) {
            return f64::INFINITY;
        }
        let mut low = self.median_min;
        let mut high = (self.sd * (p / (1.0 - p)).sqrt()).mul_add(1.0 + 1e-9, self.mean).max(low);
        let mut t = self.lognormal_quantile(p).clamp(low, high);
        for _ in 0..STEPS_MAX {
            let (reached, density) = distribution(&self.transform, t);
            if reached.is_nan() {
                return f64::NAN;
            }
            if reached < p {
                low = t;
            } else {
                high = t;
            }
            let newton = t - (reached - p) / density;
            let next = if low < newton && newton < high { newton } else { low.sqrt() * high.sqrt() };
            // A step that starts at an end of the interval may leave its other end far away.
            if (next - t).abs() <= 1e-10 * t || high - low <= 1e-10 * low {
                return next;
            }
            t = next;
        }
        t
    }

    fn lognormal_quantile(&self, p: f64) -> f64 {
        let variance = (self.sd / self.mean).powi(2).ln_1p();
        // The normal quantile by its first term, good to some per cent: this is a start and no more.
        let normal = if p > 0.5 { (-2.0 * (1.0 - p).ln()).sqrt() - 0.7 } else { 0.0 };
        self.mean * variance.sqrt().mul_add(normal, -variance / 2.0).exp()
    }
}

/// a/b, also where the square of b is below the range of a float.
pub(crate) fn ratio(a: Complex64, b: Complex64) -> Complex64 {
    let scale = b.re.abs().max(b.im.abs());
    (a / scale) / (b / scale)
}

/// ln(1 + z), also for small z.
pub(crate) fn ln_1p(z: Complex64) -> Complex64 {
    let square = z.re.mul_add(2.0, z.norm_sqr());
    let re = if square > -0.5 { 0.5 * square.ln_1p() } else { (z + 1.0).norm().ln() };
    Complex64::new(re, z.im.atan2(1.0 + z.re))
}

/// e^z − 1, also for small z.
pub(crate) fn exp_m1(z: Complex64) -> Complex64 {
    let half = (z.im / 2.0).sin();
    let re = z.re.exp_m1().mul_add(z.im.cos(), -2.0 * half * half);
    Complex64::new(re, z.re.exp() * z.im.sin())
}

#[cfg(test)]
mod tests {
    use num_complex::Complex64;

    use super::{Law, distribution, exp_m1, ln_1p, ratio};

    #[test]
    fn the_exponential_law_is_found_again() {
        let transform = |s: Complex64| 2.0 / (2.0 + s);
        for t in [0.001_f64, 0.1, 1.0, 5.0] {
            let (probability, density) = distribution(&transform, t);
            assert!((probability + (-2.0 * t).exp_m1()).abs() < 1e-10, "{t} {probability}");
            assert!((density - 2.0 * (-2.0 * t).exp()).abs() < 1e-6, "{t} {density}");
        }
        let law = Law { transform, mean: 0.5, sd: 0.5, median_min: 1e-3 };
        assert!((law.quantile(0.99) - 100_f64.ln() / 2.0).abs() < 1e-8);
        assert!((law.quantile(0.5) - 2_f64.ln() / 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_law_of_any_scale_is_found_again() {
        for mean in [1e-250, 1e-9, 1e9, 1e200] {
            let transform = |s: Complex64| ratio(Complex64::new(1.0 / mean, 0.0), 1.0 / mean + s);
            let law = Law { transform, mean, sd: mean, median_min: 1e-3 * mean };
            assert!((law.quantile(0.5) / mean - 2_f64.ln()).abs() < 1e-9, "{mean}");
        }
        let nothing =
            Law { transform: |_| Complex64::new(f64::NAN, 0.0), mean: 1.0, sd: 1.0, median_min: 0.1 };
        assert!(nothing.quantile(0.99).is_nan());
    }

    #[test]
    fn a_law_far_narrower_than_its_mean_is_found_again() {
        // Erlang of 100,000 phases: normal to a few digits, with median mean − 1/3 of a phase.
        let phases = 1e5;
        let transform = |s: Complex64| (-phases * ln_1p(s)).exp();
        let law = Law { transform, mean: phases, sd: phases.sqrt(), median_min: 1.0 };
        assert!((law.quantile(0.5) - (phases - 1.0 / 3.0)).abs() < 1e-3);
        // Wilson and Hilferty's approximation, good to 1e-7 here.
        let expected = phases * (1.0 - 1.0 / (9.0 * phases) + 2.326_347_874 / (3.0 * phases.sqrt())).powi(3);
        assert!((law.quantile(0.99) / expected - 1.0).abs() < 1e-6);
    }

    #[test]
    fn logarithm_and_exponential_keep_their_digits_near_nothing() {
        for z in [Complex64::new(1e-12, -3e-13), Complex64::new(-1e-9, 1e-9), Complex64::new(1e-14, 0.0)] {
            assert!((ln_1p(z) - (z - z * z / 2.0)).norm() < 1e-15 * z.norm());
            assert!((exp_m1(z) - (z + z * z / 2.0)).norm() < 1e-15 * z.norm());
        }
        let z = Complex64::new(-1.8, 0.7);
        assert!((ln_1p(z) - (z + 1.0).ln()).norm() < 1e-14);
        assert!((exp_m1(z) - (z.exp() - 1.0)).norm() < 1e-14);
    }
}
