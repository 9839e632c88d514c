//! The law of the return time R of M|M|1|⟨L,H⟩|B: first passage from (1,H) to normal.
//!
//! Symbols as in `hysteresis.rs`, and l = H−L+1 levels to fall, m = B−H places to discarding.
//!
//! # Moments
//!
//! R is a sum of independent first passages X_n from n to n−1, H ≥ n ≥ L, and from H up a stay D above H: down again, or
//! at B through B−H departures. With T the transform of a passage and U that of the stay above it,
//! T(s) = μ/(μ + qλ + s − qλ U(s)), so in units of 1/μ, where nothing cancels,
//!
//! ```text
//!   E[X] = 1 + a E[Y]      E[X²]/E[X]² = 2 + a E[Y²]/E[X]²       Y = X_(n+1), or D for n = H
//! ```
//!
//! D begins one above H between two ends; its moments solve a tridiagonal system by elimination, in which the
//! probability γ of falling to H first stands for itself and not as 1 less something.
//!
//! # Distribution
//!
//! The transform of R solves qλ u(n+1) − (qλ+μ+s) u(n) + μ u(n−1) = 0 on L ≤ n < B with u(L−1) = 1 and
//! u(B) = (μ/(μ+s))^m u(H). With the roots |z1| < 1 < |z2| of qλ z² − (qλ+μ+s) z + μ, w = z1/z2 and
//! v = (μ/(μ+s))^m z2^−m it is
//!
//! ```text
//!   R(s) = z1^l (1 − w^m) / [ (1 − v)(1 − w^l) + w^l (1 − w^m) ]
//! ```
//!
//! All powers are of numbers inside the unit circle. The roots are taken as 1 + y with the small y by the product of the
//! roots, and each 1 − x^k from ln x, so that a mean of 10^300 is found as well as one of a service. Inverted
//! numerically (`inversion.rs`).

use num_complex::Complex64;

use crate::hysteresis::Hysteresis;
use crate::inversion::{Law, exp_m1, ln_1p, ratio};
use crate::numeric::sum;

/// R in seconds; infinite where it leaves the range of a float.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReturnTime {
    /// E\[R\].
    pub mean_s: f64,
    /// Standard deviation.
    pub sd_s: f64,
    /// Median.
    pub p50_s: f64,
    /// What one return in a hundred exceeds.
    pub p99_s: f64,
}

impl Hysteresis {
    /// The law of R for exponential service.
    #[must_use]
    pub fn return_time(&self) -> ReturnTime {
        let (low, high, buffer) = self.levels.as_tuple();
        let passage = Passage {
            accepted_load: self.accepted_load(),
            to_fall: high - low + 1,
            to_discard: buffer - high,
        };
        let (mean, sd) = passage.moments();
        let law = Law {
            transform: |s| passage.transform(s),
            mean,
            sd,
            // At least l departures; the median of that sum is above l − 1/3 (Chen and Rubin 1986).
            median_min: f64::from(passage.to_fall) - 1.0 / 3.0,
        };
        let [mean_s, sd_s, p50_s, p99_s] =
            [mean, sd, law.quantile(0.5), law.quantile(0.99)].map(|time| time / self.service_rate_per_s);
        ReturnTime { mean_s, sd_s, p50_s, p99_s }
    }
}

/// R in units of 1/μ.
struct Passage {
    /// a.
    accepted_load: f64,
    /// l.
    to_fall: u32,
    /// m.
    to_discard: u32,
}

impl Passage {
    /// Mean and standard deviation.
    fn moments(&self) -> (f64, f64) {
        let a = self.accepted_load;
        let (above, above_square) = self.stay_above_high();
        let mut mean = a.mul_add(above, 1.0);
        let mut square_ratio = 2.0 + a * above_square / (mean * mean);
        let mut passages = Vec::with_capacity(self.to_fall as usize);
        for _ in 0..self.to_fall {
            passages.push((mean, square_ratio));
            let next = a.mul_add(mean, 1.0);
            square_ratio = (a * square_ratio).mul_add((mean / next).powi(2), 2.0);
            mean = next;
        }
        let total = sum(passages.iter().map(|&(mean, _)| mean));
        if !total.is_finite() {
            return (f64::INFINITY, f64::INFINITY);
        }
        let relative = sum(passages.iter().map(|&(mean, ratio)| (mean / total).powi(2) * (ratio - 1.0)));
        (total, total * relative.sqrt())
    }

    /// E\[D\] and E\[D²\].
    fn stay_above_high(&self) -> (f64, f64) {
        let a = self.accepted_load;
        let places = f64::from(self.to_discard);
        // From j above H, of those that are between: the chance to be j + 1 above before H is a·gain, and the time until
        // either is (1 + that from j − 1)·gain.
        let mut gains = Vec::with_capacity(self.to_discard as usize);
        let mut falls = 1.0;
        for _ in 1..self.to_discard {
            let gain = 1.0 / (a + falls);
            falls *= gain;
            gains.push(gain);
        }
        let solve = |reward: &dyn Fn(usize) -> f64, at_buffer: f64| -> Vec<f64> {
            let mut collected = 0.0;
            let mut times: Vec<f64> = (0..gains.len())
                .map(|j| {
                    collected = (reward(j) + collected) * gains[j];
                    collected
                })
                .collect();
            let mut above = at_buffer;
            for (time, gain) in times.iter_mut().zip(&gains).rev() {
                *time += a * gain * above;
                above = *time;
            }
            times.push(at_buffer);
            times
        };
        // From B it is m departures.
        let means = solve(&|_| 1.0, places);
        let squares = solve(&|j| 2.0 * means[j], places * (places + 1.0));
        (means[0], squares[0])
    }

    /// The transform of R.
    fn transform(&self, s: Complex64) -> Complex64 {
        let a = self.accepted_load;
        let (l, m) = (f64::from(self.to_fall), f64::from(self.to_discard));
        let departure = ln_1p(s);
        // A share that no stream of callers would ever show.
        if a < 1e-100 {
            return (-l * departure).exp();
        }
        // y of z = 1 + y: a y² + b y − s = 0 with b = a − 1 − s. The sign of the root is that of b: nothing cancels.
        let b = a - 1.0 - s;
        let root = (b * b + 4.0 * a * s).sqrt();
        let sum = if b.re.mul_add(root.re, b.im * root.im) >= 0.0 { b + root } else { b - root };
        let (far, near) = (ln_1p(-sum / (2.0 * a)), ln_1p(2.0 * s / sum));
        let (z1, z2) = if far.re < near.re { (far, near) } else { (near, far) };
        let w = z1 - z2;
        let above = -exp_m1(m * w);
        let below = -exp_m1(l * w);
        let stays = -exp_m1(-m * (departure + z2));
        ratio((l * z1).exp() * above, stays * below + (l * w).exp() * above)
    }
}

#[cfg(test)]
mod tests;
