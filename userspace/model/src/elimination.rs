//! Markov chains in continuous time whose states reach only near neighbours in their numbering: states are taken out one
//! by one from the last, each handing its ways on to those that lead to it.
//!
//! This is the elimination of Grassmann, Taksar and Heyman (Operations Research 33(5), 1985) on a band. The rate of
//! leaving a state is always summed from where it leads, never taken as a difference, so with real rates nothing
//! cancels; with complex rates of killing it gives Laplace transforms. Cost: states times band squared.

use std::ops::{AddAssign, Div, Mul};

use crate::numeric::LogSequence;

/// A number that rates may be: real, or complex for transforms.
pub(crate) trait Rate: Copy + Default + AddAssign + Mul<Output = Self> + Div<Output = Self> {}

impl<T: Copy + Default + AddAssign + Mul<Output = Self> + Div<Output = Self>> Rate for T {}

/// The rates between states of which numbers differ by `band` at most.
#[derive(Debug, Clone)]
pub(crate) struct BandedChain<T> {
    states: usize,
    band: usize,
    /// From i to j at i (2 band + 1) + band + j − i.
    rates: Vec<T>,
}

impl<T: Rate> BandedChain<T> {
    pub(crate) fn new(states: usize, band: usize) -> Self {
        Self { states, band, rates: vec![T::default(); states * (2 * band + 1)] }
    }

    /// Numbers kept for a chain of this size.
    pub(crate) const fn size(states: usize, band: usize) -> usize {
        states * (2 * band + 1)
    }

    fn place(&self, from: usize, to: usize) -> usize {
        debug_assert!(from.abs_diff(to) <= self.band && from.max(to) < self.states);
        from * (2 * self.band + 1) + self.band + to - from
    }

    /// Adds to the rate from one state to another.
    pub(crate) fn add(&mut self, from: usize, to: usize, rate: T) {
        let place = self.place(from, to);
        self.rates[place] += rate;
    }

    fn rate(&self, from: usize, to: usize) -> T {
        self.rates[self.place(from, to)]
    }

    /// The states below `state` that it may lead to or be reached from.
    fn below(&self, state: usize) -> std::ops::Range<usize> {
        state.saturating_sub(self.band)..state
    }

    /// Takes out all states, from the last. `out` is the rate of leaving the chain, `reward` what is collected per time;
    /// both are handed on too. Returns the rates of leaving each state, downwards or out.
    fn eliminate(&mut self, out: &mut [T], reward: &mut [T]) -> Vec<T> {
        let mut leaving = vec![T::default(); self.states];
        for state in (0..self.states).rev() {
            let mut sum = out[state];
            for to in self.below(state) {
                sum += self.rate(state, to);
            }
            leaving[state] = sum;
            for from in self.below(state) {
                let part = self.rate(from, state) / sum;
                for to in self.below(state) {
                    // A way back to where it began is no way.
                    if to != from {
                        let rate = part * self.rate(state, to);
                        self.add(from, to, rate);
                    }
                }
                let (own_out, own_reward) = (out[state], reward[state]);
                out[from] += part * own_out;
                reward[from] += part * own_reward;
            }
        }
        leaving
    }

    /// What is collected until the chain is left, by the state of beginning: x with Σ_j rate(i,j)(x_i − x_j) + out_i x_i =
    /// reward_i.
    pub(crate) fn collected(mut self, mut out: Vec<T>, mut reward: Vec<T>) -> Vec<T> {
        let leaving = self.eliminate(&mut out, &mut reward);
        let mut collected: Vec<T> = Vec::with_capacity(self.states);
        for state in 0..self.states {
            let mut sum = reward[state];
            for to in self.below(state) {
                sum += self.rate(state, to) * collected[to];
            }
            collected.push(sum / leaving[state]);
        }
        collected
    }
}

impl BandedChain<f64> {
    /// Logarithms of the equilibrium's probabilities, of which the first is taken as 1. State 0 must be reachable from
    /// all others.
    pub(crate) fn equilibrium(mut self) -> Vec<f64> {
        let mut nothing = vec![0.0; self.states];
        let leaving = self.eliminate(&mut nothing.clone(), &mut nothing);
        let mut weights = LogSequence::new(self.band + 1, self.states);
        weights.push(1.0);
        for (state, leaving) in leaving.into_iter().enumerate().skip(1) {
            let flow: f64 =
                self.below(state).map(|from| weights.relative()[from] * self.rate(from, state)).sum();
            weights.push(flow / leaving);
        }
        weights.into_logs()
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::{DMatrix, DVector};
    use proptest::prelude::{any, prop_assert, proptest};

    use super::BandedChain;

    /// A band of rates from random bytes, a few of them 0, with every state leading one down. They differ little and the
    /// states are few: the dense solve loses digits where the elimination does not.
    fn rates(bytes: &[u8], states: usize, band: usize) -> DMatrix<f64> {
        DMatrix::from_fn(states, states, |from, to| {
            let byte = bytes[(from * 7 + to * 13) % bytes.len()];
            let present = from != to && from.abs_diff(to) <= band && (byte > 60 || to + 1 == from);
            if present { f64::from(byte % 4) + 1.0 } else { 0.0 }
        })
    }

    fn chain(rates: &DMatrix<f64>, band: usize) -> BandedChain<f64> {
        let mut chain = BandedChain::new(rates.nrows(), band);
        for from in 0..rates.nrows() {
            for to in from.saturating_sub(band)..(from + band + 1).min(rates.nrows()) {
                chain.add(from, to, rates[(from, to)]);
            }
        }
        chain
    }

    proptest! {
        #[test]
        fn both_solutions_agree_with_a_dense_solve(
            bytes in proptest::collection::vec(any::<u8>(), 50..90), states in 3_usize..12, band in 1_usize..4,
        ) {
            let rates = rates(&bytes, states, band);
            let mut generator = rates.clone();
            for state in 0..states {
                generator[(state, state)] = -rates.row(state).sum();
            }

            let mut balance = generator.transpose();
            balance.row_mut(0).fill(1.0);
            let mut one = DVector::zeros(states);
            one[0] = 1.0;
            let dense = balance.lu().solve(&one).unwrap();
            let logs = chain(&rates, band).equilibrium();
            let total: f64 = logs.iter().map(|log| log.exp()).sum();
            for (log, dense) in logs.iter().zip(dense.iter()) {
                prop_assert!((log.exp() / total - dense).abs() < 1e-10);
            }

            // Leaving from state 0 only, one per time collected.
            let mut out = vec![0.0; states];
            out[0] = 5.0;
            generator[(0, 0)] -= 5.0;
            let dense = (-generator).lu().solve(&DVector::from_element(states, 1.0)).unwrap();
            let collected = chain(&rates, band).collected(out, vec![1.0; states]);
            for (time, dense) in collected.iter().zip(dense.iter()) {
                prop_assert!((time / dense - 1.0).abs() < 1e-7);
            }
        }
    }
}
