//! The law of R for any service law: moments, median and 99 % quantile.
//!
//! R is what is left of the service in which overload begins (`residual`) and a first passage from where it ends
//! (`passage`), so with G_k the transform of the former with k admitted in it
//!
//! ```text
//!   E[e^(−sR)] = Σ_k G_k T_(H−1+k)        k < B−H, and those of more by discarding: E[e^(−sS)]^(B−1−H) T_H
//! ```
//!
//! Its power series at 0 gives the standard deviation; quantiles come by inversion (`inversion.rs`), for fixed service
//! times by counting (`fixed`) unless R is so long that single services do not show.

use num_complex::Complex64;

use super::passage::{Bounds, Number, Services, passages};
use super::residual::{Residual, told_apart};
use super::{Begun, Normal, fixed};
use crate::hysteresis::{Equilibrium, Hysteresis, ReturnTime};
use crate::inversion::Law;
use crate::jet::Jet;
use crate::parameter::ParameterError;
use crate::service::{ArrivalCounts, ServiceLaw, at};

/// Steps of one transform at most: its quantiles take some thousand transforms.
const TRANSFORM_STEPS_MAX: usize = 300_000;
/// With fewer admitted per service the probability of two leaves the range of a float; nobody is ever admitted then.
const LOAD_MIN: f64 = 1e-140;
/// A quantile below this part of the mean is told as this part.
const QUANTILE_MIN: f64 = 1e-9;

impl Hysteresis {
    /// Solves the model for a service law with mean 1/μ, with the law of R; quantiles that would take more than some seconds
    /// are not a number.
    ///
    /// # Errors
    /// As `solve_with_service`.
    pub fn solve_with_return_time(
        &self,
        law: ServiceLaw,
    ) -> Result<(Equilibrium, ReturnTime), ParameterError> {
        let counts = self.arrivals_in_service(law)?;
        let normal = Normal::solve(self, &counts[0]);
        let equilibrium = self.equilibrium_of(&normal, &counts);
        let mean = equilibrium.return_time_s * self.service_rate_per_s;
        let [mean_s, sd_s, p50_s, p99_s] =
            self.passage(law, &counts, &normal).law(mean).map(|time| time / self.service_rate_per_s);
        Ok((equilibrium, ReturnTime { mean_s, sd_s, p50_s, p99_s }))
    }

    fn passage<'a>(
        &'a self,
        law: ServiceLaw,
        [all, accepted]: &'a [ArrivalCounts; 2],
        normal: &Normal,
    ) -> Passage<'a> {
        let begun = Begun::new(self.levels.high() as usize, all, normal);
        Passage { model: self, law, accepted, residual: Residual::new(self, law, [all, accepted], begun) }
    }
}

#[cfg(test)]
impl Hysteresis {
    /// E\[R\] in services by the series alone.
    fn mean_by_series(&self, law: ServiceLaw) -> f64 {
        let counts = self.arrivals_in_service(law).unwrap();
        -self.passage(law, &counts, &Normal::solve(self, &counts[0])).series(1.0).0[1]
    }
}

/// R in mean services.
struct Passage<'a> {
    model: &'a Hysteresis,
    law: ServiceLaw,
    accepted: &'a ArrivalCounts,
    residual: Residual<'a>,
}

impl Passage<'_> {
    fn bounds(&self) -> Bounds {
        let (low, high, buffer) = self.model.levels.as_tuple();
        Bounds { low: low as usize, high: high as usize, buffer: buffer as usize }
    }

    /// Mean, standard deviation, median and 99 % quantile.
    fn law(&self, mean: f64) -> [f64; 4] {
        let bounds = self.bounds();
        if !mean.is_finite() {
            return [f64::INFINITY; 4];
        }
        let sd = mean * self.relative_variance(mean).max(0.0).sqrt();
        if self.law == ServiceLaw::Deterministic {
            let longest = 20.0_f64.mul_add(sd, mean) + 2.0;
            let counted = fixed::quantiles(bounds, self.accepted, &self.residual, [0.5, 0.99], longest);
            if let Some([median, p99]) = counted {
                return [mean, sd, median, p99];
            }
        }
        let levels = bounds.buffer - bounds.low;
        let arrivals = told_apart(self.accepted.probability.iter().copied()).min(levels);
        if levels * arrivals + self.residual.steps() > TRANSFORM_STEPS_MAX {
            return [mean, sd, f64::NAN, f64::NAN];
        }
        let law = Law {
            transform: |s| self.transform(s),
            mean,
            sd,
            // The median is at most one standard deviation from the mean.
            median_min: (mean - sd).max(QUANTILE_MIN * mean),
        };
        [mean, sd, law.quantile(0.5), law.quantile(0.99)]
    }

    /// Var R/E\[R\]².
    fn relative_variance(&self, mean: f64) -> f64 {
        let Jet([_, _, square]) = self.series(mean);
        2.0_f64.mul_add(square, -1.0)
    }

    /// The series of E\[e^(−sR)\], s in units of 1/`unit`.
    fn series(&self, unit: f64) -> Jet {
        let cv2 = self.law.cv2();
        let load = self.model.accepted_load();
        // E[S; A'=i] = (i+1)/a P(A'=i+1), and so on.
        let arrivals: Vec<Jet> = if load > LOAD_MIN {
            let moment = |i: usize| (i as f64 / load) * at(&self.accepted.probability, i);
            let square = |i: usize| (i as f64 - 1.0) / load * moment(i);
            (0..self.accepted.len())
                .map(|i| {
                    let probability = self.accepted.probability[i];
                    Jet([probability, -moment(i + 1) / unit, square(i + 2) / (2.0 * unit * unit)])
                })
                .collect()
        } else {
            vec![Jet([1.0, -1.0 / unit, (1.0 + cv2) / (2.0 * unit * unit)])]
        };
        let killed = Jet([0.0, 1.0 / unit, -(1.0 + cv2) / (2.0 * unit * unit)]);
        let discards = (self.bounds().buffer - 1 - self.bounds().high) as f64;
        // (1 − x)^m with x = killed.
        let square = discards.mul_add(-killed.0[2], discards * (discards - 1.0) / (2.0 * unit * unit));
        let services = Services {
            at_least: at_least(&arrivals, Jet::default()),
            arrivals,
            killed,
            discard: Jet([1.0, -discards / unit, square]),
            discard_killed: Jet([0.0, discards / unit, -square]),
        };
        self.whole(&self.residual.series(unit), &services)
    }

    /// E\[e^(−sR)\].
    fn transform(&self, s: Complex64) -> Complex64 {
        let bounds = self.bounds();
        let terms_max = bounds.buffer - bounds.low + 1;
        let arrivals = self.law.arrivals_transform(self.model.accepted_load(), s, terms_max);
        let killed = self.law.killed(s);
        // Where the terms are cut off at B−L, the rest is what is not among them.
        let rest = if arrivals.len() == terms_max {
            1.0 - killed - arrivals.iter().sum::<Complex64>()
        } else {
            Complex64::default()
        };
        let discards = (bounds.buffer - 1 - bounds.high) as i32;
        let discard = (1.0 - killed).powi(discards);
        let services = Services {
            at_least: at_least(&arrivals, rest),
            arrivals,
            killed,
            discard,
            // 1 − x^m = (1 − x)(1 + x + … + x^(m−1)).
            discard_killed: killed * geometric(1.0 - killed, discards),
        };
        self.whole(&self.residual.transform(s), &services)
    }

    fn whole<T: Number>(&self, residual: &[T], services: &Services<T>) -> T {
        let bounds = self.bounds();
        let Bounds { low, high, buffer } = bounds;
        let passages = passages(services, bounds);
        let mut sum = T::default();
        for (&left, &passage) in residual.iter().zip(&passages[high - low..buffer - low]) {
            sum += left * passage;
        }
        sum += residual[buffer - high] * services.discard * passages[high + 1 - low];
        sum
    }
}

/// Sums from each term to the last and `rest`.
fn at_least<T: Number>(terms: &[T], rest: T) -> Vec<T> {
    let mut sum = rest;
    let mut sums: Vec<T> = terms
        .iter()
        .rev()
        .map(|&term| {
            sum += term;
            sum
        })
        .collect();
    sums.reverse();
    sums
}

/// 1 + x + … + x^(m−1).
fn geometric(x: Complex64, terms: i32) -> Complex64 {
    (0..terms).fold(Complex64::default(), |sum, _| sum * x + 1.0)
}

#[cfg(test)]
mod tests;
