//! The closed form's weights as functions of the levels: tables once, then any ⟨L,H⟩ in constant time.

use overload::{GateState, Levels};

use crate::geometric::GeometricSums;
use crate::hysteresis::LogWeight;
use crate::numeric::log_sum_exp;

/// The closed form at one ρ and q, for all levels up to one buffer. Weights are those of the head of `hysteresis.rs`.
#[derive(Debug)]
pub(crate) struct ClosedForm {
    log_rho: f64,
    /// S(1/ρ, ·).
    normal: GeometricSums,
    /// S(a, ·).
    shed: GeometricSums,
    /// ln a and S(1/a, ·); none for a = 0, when nothing lies above H.
    above_high: Option<(f64, GeometricSums)>,
}

/// A stream that admits less never admits anybody: 1/a and its square stay in the range of a float.
const LOAD_MIN: f64 = 1e-150;

impl ClosedForm {
    /// Tables for ρ > 0, a ≥ 0 and B ≤ `buffer`.
    pub(crate) fn new(rho: f64, a: f64, buffer: u32) -> Self {
        let a = if a < LOAD_MIN { 0.0 } else { a };
        Self {
            log_rho: rho.ln(),
            normal: GeometricSums::new(1.0 / rho, buffer),
            shed: GeometricSums::new(a, buffer),
            above_high: (a > 0.0).then(|| (a.ln(), GeometricSums::new(1.0 / a, buffer))),
        }
    }

    /// ln π0(n), by n.
    pub(crate) fn normal_weights(&self, levels: Levels) -> Vec<LogWeight> {
        let (low, high, _) = levels.as_tuple();
        let from_low = |n: u32| self.normal.log_sum(high - n) - self.log_rho;
        let at_low = from_low(low - 1);
        let below_low = |n: u32| f64::from(low - 1 - n).mul_add(-self.log_rho, at_low);
        (0..high)
            .map(|n| (GateState::Normal, n, if n + 1 >= low { from_low(n) } else { below_low(n) }))
            .collect()
    }

    /// ln π1(n) and then ln π2(n), by n.
    pub(crate) fn shed_weights(&self, levels: Levels) -> Vec<LogWeight> {
        let (low, high, buffer) = levels.as_tuple();
        let mut weights = Vec::with_capacity(2 * (buffer - low) as usize + 1);
        weights.extend((low..=high).map(|n| (GateState::Overload, n, self.shed.log_sum(n - low + 1))));
        if let Some((log_a, sums)) = &self.above_high {
            let log_k = self.log_discards((low, high, buffer), *log_a, sums);
            let falling = |n: u32| log_k + sums.log_sum(buffer - n) - log_a;
            weights.extend((high + 1..buffer).map(|n| (GateState::Overload, n, falling(n))));
            weights.extend((high + 1..=buffer).map(|n| (GateState::Discard, n, log_k)));
        }
        weights
    }

    /// ln k: how often overload turns into discard before it ends.
    fn log_discards(&self, (low, high, buffer): (u32, u32, u32), log_a: f64, sums: &GeometricSums) -> f64 {
        self.shed.log_sum(high - low + 1) - (sums.log_sum(buffer - high) - log_a)
    }

    /// The logarithms of the weights of normal, overload and discard.
    pub(crate) fn log_totals(&self, (low, high, buffer): (u32, u32, u32)) -> [f64; 3] {
        // Σ over L−1 ≤ n < H, and ρ^−1 + … + ρ^−(L−1) times π0(L−1) for those below.
        let top = self.normal.log_double_sum(high - low + 1) - self.log_rho;
        let at_low = self.normal.log_sum(high - low + 1) - self.log_rho;
        let below = at_low + self.normal.log_sum(low - 1) - self.log_rho;
        let up_to_high = self.shed.log_double_sum(high - low + 1);
        let (above_high, discard) = match &self.above_high {
            None => (f64::NEG_INFINITY, f64::NEG_INFINITY),
            Some((log_a, sums)) => {
                let log_k = self.log_discards((low, high, buffer), *log_a, sums);
                (
                    log_k + sums.log_double_sum(buffer - high - 1) - log_a,
                    log_k + f64::from(buffer - high).ln(),
                )
            }
        };
        [log_sum_exp(&[top, below]), log_sum_exp(&[up_to_high, above_high]), discard]
    }
}
