//! Transforms of the laws of service, whole and by the number of arrivals in one service.
//!
//! Symbols as in `service.rs`, and s the rate of killing, in units of the inverse mean service time: everything is
//! E\[e^(−sS); …\]. With κ = 1/cv² and r the arrival rate:
//!
//! - deterministic: E\[e^(−sS); A=i\] = e^(−(r+s)) r^i/i!
//! - gamma: (κ/(κ+r+s))^κ times the product over m < i of (κ+m)/(m+1) · r/(κ+r+s)
//! - a phase of rate x: x/(x+r+s) · (r/(x+r+s))^i

use num_complex::Complex64;

use super::ServiceLaw;
use crate::inversion::{exp_m1, ln_1p};

/// Terms below this in size are left out when they fall from there on: the digits of a sum of 1 end earlier.
const NEGLIGIBLE: f64 = 1e-22;
/// The first terms are kept however small they are.
const TERMS_MIN: usize = 4;

impl ServiceLaw {
    /// Chance and rate of each of its exponential phases; none for laws that have no such form.
    pub(crate) fn phases(self) -> Vec<(f64, f64)> {
        match self {
            Self::Exponential => vec![(1.0, 1.0)],
            Self::Hyperexponential(cv2) => {
                let often = super::balanced(cv2);
                [often, 1.0 - often].map(|chance| (chance, 2.0 * chance)).into()
            }
            Self::Deterministic | Self::Gamma(_) => Vec::new(),
        }
    }

    /// cv².
    pub(crate) const fn cv2(self) -> f64 {
        match self {
            Self::Exponential => 1.0,
            Self::Deterministic => 0.0,
            Self::Gamma(cv2) | Self::Hyperexponential(cv2) => cv2,
        }
    }

    /// 1 − E\[e^(−sS)\], which keeps its digits for small s.
    pub(crate) fn killed(self, s: Complex64) -> Complex64 {
        match self {
            Self::Deterministic => -exp_m1(-s),
            Self::Gamma(cv2) => -exp_m1(-ln_1p(s * cv2) / cv2),
            Self::Exponential | Self::Hyperexponential(_) => {
                self.phases().into_iter().map(|(chance, rate)| chance * s / (rate + s)).sum()
            }
        }
    }

    /// E\[e^(−sS); A=i\] by i, up to `terms_max` of them.
    pub(crate) fn arrivals_transform(self, load: f64, s: Complex64, terms_max: usize) -> Vec<Complex64> {
        let mut terms = Vec::new();
        match self {
            Self::Deterministic => {
                let first = (-(s + load)).exp();
                add_terms(&mut terms, first, &|i| Complex64::from(load / (i + 1.0)), terms_max);
            }
            Self::Gamma(cv2) => {
                let shape = 1.0 / cv2;
                let first = (-shape * ln_1p((s + load) * cv2)).exp();
                let ratio = load / (shape + load + s);
                add_terms(&mut terms, first, &|i| (shape + i) / (i + 1.0) * ratio, terms_max);
            }
            Self::Exponential | Self::Hyperexponential(_) => {
                for (chance, rate) in self.phases() {
                    let all = rate + load + s;
                    add_terms(&mut terms, chance * rate / all, &|_| load / all, terms_max);
                }
            }
        }
        terms
    }
}

/// Adds a first term and those that follow from it by ratios.
pub(crate) fn add_terms(
    terms: &mut Vec<Complex64>,
    first: Complex64,
    ratio: &dyn Fn(f64) -> Complex64,
    terms_max: usize,
) {
    let mut term = first;
    for i in 0..terms_max {
        match terms.get_mut(i) {
            Some(sum) => *sum += term,
            None => terms.push(term),
        }
        let ratio = ratio(i as f64);
        term *= ratio;
        if i >= TERMS_MIN && ratio.norm() < 1.0 && term.norm() < NEGLIGIBLE {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use num_complex::Complex64;

    use super::ServiceLaw;

    const LAWS: [ServiceLaw; 5] = [
        ServiceLaw::Exponential,
        ServiceLaw::Deterministic,
        ServiceLaw::Gamma(0.3),
        ServiceLaw::Gamma(4.0),
        ServiceLaw::Hyperexponential(6.0),
    ];

    #[test]
    fn without_killing_the_terms_are_the_law_of_the_arrivals() {
        for law in LAWS {
            let terms = law.arrivals_transform(1.3, Complex64::new(0.0, 0.0), 500);
            let counts = law.arrivals(1.3, 500);
            for (i, term) in terms.iter().enumerate() {
                assert!((term - counts.probability[i]).norm() < 1e-14, "{law} {i}");
            }
        }
    }

    #[test]
    fn the_terms_sum_to_the_transform_of_the_service() {
        for law in LAWS {
            for s in [Complex64::new(0.2, 0.0), Complex64::new(0.1, 3.0), Complex64::new(1.0, -40.0)] {
                let sum: Complex64 = law.arrivals_transform(0.9, s, 5_000).iter().sum();
                assert!((sum + law.killed(s) - 1.0).norm() < 1e-12, "{law} {s}");
            }
        }
    }

    #[test]
    fn hardly_any_killing_keeps_its_digits() {
        for law in LAWS {
            let killed = law.killed(Complex64::new(1e-18, 0.0));
            assert!((killed.re / 1e-18 - 1.0).abs() < 1e-12, "{law} {killed}");
        }
    }
}
