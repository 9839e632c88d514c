//! The service in which overload begins: transforms of what is left of it, by how many are admitted in that time.
//!
//! # Symbols
//!
//! | symbol | meaning |
//! |---|---|
//! | v | what is left of the service when its j-th arrival makes H |
//! | y_j | services begun at H−j, `Begun` |
//! | φ_j(σ) | E\[e^(−σv); A ≥ j\] |
//! | ρ, a | arrivals and admitted arrivals in one service on average |
//!
//! # Solution
//!
//! With k admitted in v, E\[e^(−sv) z^k\] = φ_j(s + a(1−z)), and integration by parts gives, for any law of service,
//!
//! ```text
//!   φ_0(σ) = E[e^(−σS)]        x φ_j = φ_(j−1) − P(A=j−1)        x = 1 − σ/ρ
//! ```
//!
//! It is read upwards where |x| > 1, and downwards, as Σ_j y_j φ_j = Σ_e c_e x^e with c_e = Σ_j y_j P(A=j+e), where
//! |x| ≤ 1: so errors never grow. The coefficients of z follow from values on the unit circle (discrete Fourier
//! transform), or on a smaller one where v may see more arrivals than are asked for. A law of exponential phases needs none of this: what is left of a phase is the phase again.

use num_complex::Complex64;

use super::passage::Number;
use super::{Begun, thinned};
use crate::hysteresis::Hysteresis;
use crate::jet::Jet;
use crate::service::{ArrivalCounts, ServiceLaw, add_terms, at};

/// Where coefficients beyond those that are asked for are left out, they are this small in those: the radius of the circle
/// to the power of its values.
const ALIAS: f64 = 1e-15;
/// Values on the circle for each coefficient then; the error grows to the power 3/4 of `ALIAS`.
const VALUES: usize = 4;
/// What is less likely, all of it together, is left out.
const NEGLIGIBLE: f64 = 1e-17;

/// The service in which overload begins, one such service as unit.
pub(super) struct Residual<'a> {
    law: ServiceLaw,
    all: &'a ArrivalCounts,
    share: f64,
    load: f64,
    /// B−H.
    places: usize,
    begun: Begun,
    /// Σ_j y_j P(A ≥ j).
    flow: f64,
    /// c_e.
    after: Vec<f64>,
    /// Values on the circle, and its radius.
    circle: usize,
    radius: f64,
}

impl<'a> Residual<'a> {
    pub(super) fn new(
        model: &Hysteresis,
        law: ServiceLaw,
        [all, accepted]: [&'a ArrivalCounts; 2],
        mut begun: Begun,
    ) -> Self {
        let (_, high, buffer) = model.levels.as_tuple();
        let mut after: Vec<f64> = (0..all.len())
            .map(|e| (begun.first..).zip(&begun.begun).map(|(j, y)| y * at(&all.probability, j + e)).sum())
            .collect();
        let flow: f64 = after.iter().sum();
        after.iter_mut().for_each(|events| *events /= flow);
        after.truncate(told_apart(after.iter().copied()));
        let from = begun.first;
        let reaches = |j: usize| at(&all.probability, j + from) + at(&all.beyond, j + from);
        let reaching = begun.begun.iter().enumerate().map(|(j, y)| y * reaches(j) / flow);
        begun.begun.truncate(told_apart(reaching));
        let places = (buffer - high) as usize;
        let all_of_them = told_apart(accepted.probability.iter().copied()).next_power_of_two();
        let asked_for = (VALUES * places).next_power_of_two();
        let (circle, radius) = if all_of_them <= asked_for {
            (all_of_them, 1.0)
        } else {
            (asked_for, ALIAS.powf(1.0 / asked_for as f64))
        };
        let (share, load) = (model.share, model.load());
        Self { law, all, share, load, places, begun, flow, after, circle, radius }
    }

    /// Steps of one transform.
    pub(super) fn steps(&self) -> usize {
        if self.law.phases().is_empty() {
            self.circle * (self.after.len().max(self.begun.begun.len()) + self.places.min(self.circle))
        } else {
            self.places + self.begun.begun.len()
        }
    }

    /// Whether overload begins with a service, which is H = 1.
    pub(super) const fn is_whole(&self) -> bool {
        self.begun.first == 0
    }

    /// a.
    pub(super) fn admitted_per_service(&self) -> f64 {
        self.share * self.load
    }

    /// The density of v where service always takes 1.
    pub(super) fn density_of_fixed(&self, left: f64) -> f64 {
        let mean = self.load * (1.0 - left);
        // ρ (ρu)^(j−1)/(j−1)! e^(−ρu) with u = 1 − v.
        let mut term = self.load * (-mean).exp();
        let mut sum = 0.0;
        for (j, y) in (self.begun.first..).zip(&self.begun.begun) {
            sum += y * term;
            term *= mean / j as f64;
        }
        sum / self.flow
    }

    /// Power series by the number of admitted arrivals in v, the last for B−H or more. `unit` is a time: s is in its
    /// inverse.
    pub(super) fn series(&self, unit: f64) -> Vec<Jet> {
        let per_event = 1.0 / (self.load * unit);
        let next = |list: &[f64], scale: f64| -> Vec<f64> {
            (1..list.len()).map(|e| list[e] * e as f64 * scale).collect()
        };
        let first = next(&self.after, per_event);
        let second = next(&first, per_event / 2.0);
        let [constant, slope, square] = thinned([&self.after, &first, &second], self.share, self.places);
        (0..=self.places).map(|k| Jet([constant[k], -slope[k], square[k]])).collect()
    }

    /// E\[e^(−sv); k admitted\] by k < B−H, and last for B−H or more.
    pub(super) fn transform(&self, s: Complex64) -> Vec<Complex64> {
        let accepted = self.admitted_per_service();
        let mut found = vec![Complex64::default(); self.places];
        let whole = if self.law.phases().is_empty() {
            let values: Vec<Complex64> =
                (0..self.circle).map(|m| self.generating(s, self.radius * self.root(m))).collect();
            let mut scale = self.circle as f64;
            for (k, coefficient) in found.iter_mut().enumerate().take(self.circle) {
                let sum: Complex64 =
                    values.iter().enumerate().map(|(m, value)| value * self.root(m * k).conj()).sum();
                *coefficient = sum / scale;
                scale *= self.radius;
            }
            self.generating(s, Complex64::new(1.0, 0.0))
        } else {
            let mut terms = Vec::new();
            let mut whole = Complex64::default();
            for (chance, rate) in self.law.phases() {
                let through = self.load / (rate + self.load);
                let reaches: f64 = (self.begun.first as i32..)
                    .zip(&self.begun.begun)
                    .map(|(j, y)| y * chance * through.powi(j))
                    .sum();
                let all = rate + accepted + s;
                let weight = reaches / self.flow;
                add_terms(&mut terms, weight * rate / all, &|_| accepted / all, self.places);
                whole += weight * rate / (rate + s);
            }
            found.iter_mut().zip(terms).for_each(|(found, term)| *found = term);
            whole
        };
        let less: Complex64 = found.iter().sum();
        found.push(whole - less);
        found
    }

    /// e^(2πi m/M).
    fn root(&self, m: usize) -> Complex64 {
        let turn = (m % self.circle) as f64 / self.circle as f64;
        Complex64::cis(std::f64::consts::TAU * turn)
    }

    /// Σ_j y_j φ_j(s + a(1−z)).
    fn generating(&self, s: Complex64, z: Complex64) -> Complex64 {
        let x = (1.0 - self.share) + self.share * z - s / self.load;
        if x.norm_sqr() <= 1.0 {
            return self.after.iter().rev().fold(Complex64::default(), |sum, events| sum * x + events);
        }
        let inverse = x.inv();
        let sigma = s + self.admitted_per_service() * (1.0 - z);
        let mut phi = 1.0 - self.law.killed(sigma);
        let mut sum = Complex64::default();
        for j in 0..self.begun.first + self.begun.begun.len() {
            if j >= self.begun.first {
                sum += self.begun.begun[j - self.begun.first] * phi;
            }
            phi = (phi - at(&self.all.probability, j)) * inverse;
        }
        sum / self.flow
    }
}

/// How many of these probabilities, of which the last are the smallest, count.
pub(super) fn told_apart(probabilities: impl DoubleEndedIterator<Item = f64> + ExactSizeIterator) -> usize {
    let all = probabilities.len();
    let mut left_out = 0.0;
    let few = probabilities.rev().take_while(|probability| {
        left_out += probability;
        left_out < NEGLIGIBLE
    });
    (all - few.count()).max(1)
}

impl Number for Complex64 {
    const ONE: Self = Self::new(1.0, 0.0);
}

impl Number for Jet {
    const ONE: Self = Self([1.0, 0.0, 0.0]);
}
