//! Quantiles of R where every service takes the same time: the number of services until normal, counted out.
//!
//! R is v, what is left of the service in which overload begins, and then whole services. Their number from n is found
//! step by step, C_n(k) = P(at most k services): C_n(k+1) = Σ_i P(A'=i) C_(n−1+i)(k), and what reaches B comes to H
//! after B−1−H services more. With h_k(v) the density of v with k admitted in it,
//!
//! ```text
//!   P(R ≤ K + τ) = Σ_k C_(H−1+k)(K) ∫_0^τ h_k + C_(H−1+k)(K−1) ∫_τ^1 h_k        0 ≤ τ < 1
//! ```
//!
//! A transform would need many terms here, since the density of R jumps at every whole service.

use super::passage::Bounds;
use super::residual::Residual;
use crate::service::{ArrivalCounts, at};

/// Steps at most, services times levels times arrivals: some seconds.
const STEPS_MAX: f64 = 2e9;
/// Panels of the integral over v, each of the four nodes of Gauss and Legendre.
const PANELS: usize = 64;
const NODES: [(f64, f64); 2] =
    [(0.339_981_043_584_856_3, 0.652_145_154_862_546_1), (0.861_136_311_594_052_6, 0.347_854_845_137_453_9)];

/// The times that are not exceeded with these probabilities, ascending, in services; none where counting `longest`
/// services takes too long.
pub(super) fn quantiles<const N: usize>(
    bounds: Bounds,
    accepted: &ArrivalCounts,
    residual: &Residual<'_>,
    probabilities: [f64; N],
    longest: f64,
) -> Option<[f64; N]> {
    let Bounds { low, buffer, .. } = bounds;
    let steps = longest * (buffer - low) as f64 * accepted.len().min(buffer - low) as f64;
    if steps.is_nan() || steps > STEPS_MAX {
        return None;
    }
    let admitted_per_service = residual.admitted_per_service();
    let all = densities(residual, bounds, admitted_per_service, 1.0);
    let mut counted = Counted::new(bounds, accepted);
    let mut found = Vec::with_capacity(N);
    // Before a service has passed in overload only what needs none is normal: H = L and nobody admitted.
    let mut before = vec![0.0; all.len()];
    let mut whole = 0_u64;
    loop {
        let now = counted.at_begin();
        let reached = dot(&now, &all);
        while let Some(&p) = probabilities.get(found.len()).filter(|p| **p <= reached) {
            let at_part = |part: f64| {
                let early = densities(residual, bounds, admitted_per_service, part);
                let late: Vec<f64> = all.iter().zip(&early).map(|(all, early)| all - early).collect();
                dot(&now, &early) + dot(&before, &late)
            };
            let (mut from, mut to) = (0.0, 1.0);
            for _ in 0..50 {
                let middle = f64::midpoint(from, to);
                if at_part(middle) < p { from = middle } else { to = middle }
            }
            found.push(whole as f64 + to);
        }
        // Rounding may leave the last digits of 1 out of reach; no probability asked for is that close.
        if found.len() == N || whole as f64 > longest {
            return found.try_into().ok();
        }
        before = now;
        counted.step();
        whole += 1;
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// ∫ of h_k over v up to `until`, by k < B−H, and last for B−H or more.
fn densities(residual: &Residual<'_>, bounds: Bounds, admitted: f64, until: f64) -> Vec<f64> {
    let places = bounds.buffer - bounds.high;
    let mut found = vec![0.0; places + 1];
    let mut add = |left: f64, weight: f64| {
        let mut rest = weight;
        let mut term = weight * (-admitted * left).exp();
        for (k, sum) in found.iter_mut().enumerate().take(places) {
            *sum += term;
            rest -= term;
            term *= admitted * left / (k + 1) as f64;
        }
        found[places] += rest.max(0.0);
    };
    if residual.is_whole() {
        // Overload begins with the service.
        add(1.0, if until < 1.0 { 0.0 } else { 1.0 });
        return found;
    }
    let half = until / (2 * PANELS) as f64;
    for panel in 0..PANELS {
        let middle = (2 * panel + 1) as f64 * half;
        for (node, weight) in NODES {
            for left in [middle - node * half, middle + node * half] {
                add(left, weight * half * residual.density_of_fixed(left));
            }
        }
    }
    found
}

/// C_n(k) for one k after the other.
struct Counted<'a> {
    bounds: Bounds,
    accepted: &'a ArrivalCounts,
    /// By n − (L−1), n < B.
    reached: Vec<f64>,
    /// C_H by k.
    from_high: Vec<f64>,
}

impl<'a> Counted<'a> {
    /// At k = 0.
    fn new(bounds: Bounds, accepted: &'a ArrivalCounts) -> Self {
        let mut reached = vec![0.0; bounds.buffer - bounds.low + 1];
        reached[0] = 1.0;
        Self { bounds, accepted, reached, from_high: vec![0.0] }
    }

    /// C_H so many services before k.
    fn high_before(&self, services: usize) -> f64 {
        (self.from_high.len() - 1).checked_sub(services).map_or(0.0, |k| self.from_high[k])
    }

    /// C of H−1+k by k < B−H, and last of those that discard at once.
    fn at_begin(&self) -> Vec<f64> {
        let Bounds { low, high, buffer } = self.bounds;
        let mut found = self.reached[high - low..buffer - low].to_vec();
        found.push(self.high_before(buffer - 1 - high));
        found
    }

    fn step(&mut self) {
        let Bounds { low, high, buffer } = self.bounds;
        let discarded = self.high_before(buffer - 1 - high);
        // From n one service leads to n − 1 at least: upwards, n − 1 is needed no more.
        let mut below = self.reached[0];
        for n in low..buffer {
            let place = n + 1 - low;
            let own = self.reached[place];
            let mut sum = self.accepted.probability[0] * below;
            sum += at(&self.accepted.probability, 1) * own;
            // A service that reaches B ends at B−1, but discards.
            let above = self.reached.iter().skip(place + 1).take((buffer - n).saturating_sub(2));
            sum += above.zip(self.accepted.probability.iter().skip(2)).map(|(c, p)| c * p).sum::<f64>();
            sum += at(&self.accepted.beyond, buffer - n - 1) * discarded;
            below = own;
            self.reached[place] = sum;
        }
        self.from_high.push(self.reached[high + 1 - low]);
    }
}
