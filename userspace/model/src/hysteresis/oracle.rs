//! The gate's chain written out state by state and solved densely: slow, obvious, and without a formula of the models.
//!
//! Arrivals are an MMPP, service times of phase type (a chain of exponential phases). All numbers of tests.

use std::collections::HashMap;

use nalgebra::{DMatrix, DVector};
use overload::GateState;

use crate::mmpp::Mmpp;

/// A service time: where it begins, how its phases follow each other, and how they end it, per second.
pub(super) struct PhaseType {
    pub(super) starts: Vec<f64>,
    pub(super) next: Vec<(usize, usize, f64)>,
    pub(super) ends: Vec<f64>,
}

impl PhaseType {
    /// k phases in a row, each of mean 1/(k μ).
    pub(super) fn erlang(phases: usize, mu: f64) -> Self {
        let rate = mu * phases as f64;
        let (mut starts, mut ends) = (vec![0.0; phases], vec![0.0; phases]);
        starts[0] = 1.0;
        ends[phases - 1] = rate;
        Self { starts, next: (1..phases).map(|j| (j - 1, j, rate)).collect(), ends }
    }

    /// One of two phases with balanced means: the mean of both together is 1/μ.
    pub(super) fn hyperexponential(cv2: f64, mu: f64) -> Self {
        let p = f64::midpoint(1.0, ((cv2 - 1.0) / (cv2 + 1.0)).sqrt());
        Self { starts: vec![p, 1.0 - p], next: Vec::new(), ends: vec![2.0 * p * mu, 2.0 * (1.0 - p) * mu] }
    }
}

/// s, n, phase of the arrivals, phase of the service.
type State = (GateState, u32, usize, usize);

pub(super) struct Oracle {
    pub(super) levels: (u32, u32, u32),
    pub(super) arrivals: Mmpp,
    pub(super) service: PhaseType,
    pub(super) share: f64,
}

/// What the dense solve says.
pub(super) struct Found {
    pub(super) states: [f64; 3],
    pub(super) rejected: f64,
    pub(super) return_time_s: f64,
    pub(super) cycle_s: f64,
    pub(super) mean_in_system: f64,
    pub(super) mean_wait_s: f64,
    /// π_s(n).
    pub(super) place: HashMap<(GateState, u32), f64>,
    /// Where R begins, by state with s ≥ 1, and its generator.
    begin: DVector<f64>,
    shed: DMatrix<f64>,
}

impl Oracle {
    fn states(&self) -> Vec<State> {
        let (low, high, buffer) = self.levels;
        let places = (0..high)
            .map(|n| (GateState::Normal, n))
            .chain((low..buffer).map(|n| (GateState::Overload, n)))
            .chain((high + 1..=buffer).map(|n| (GateState::Discard, n)));
        let mut states = Vec::new();
        for (gate, n) in places {
            for k in 0..self.arrivals.phases().len() {
                let phases = if n == 0 { 1 } else { self.service.starts.len() };
                states.extend((0..phases).map(|j| (gate, n, k, j)));
            }
        }
        states
    }

    /// Where a state goes, and how often per second.
    fn moves(&self, (gate, n, k, j): State) -> Vec<(State, f64)> {
        use GateState::{Discard, Normal, Overload};
        let (low, high, buffer) = self.levels;
        let mut moves = Vec::new();
        let rate = self.arrivals.phases()[k].rate_per_s;
        let arrival = match gate {
            Normal if n + 1 == high => Some((Overload, rate)),
            Normal => Some((Normal, rate)),
            Overload if n + 1 == buffer => Some((Discard, rate * self.share)),
            Overload => Some((Overload, rate * self.share)),
            Discard => None,
        };
        if let Some((to, rate)) = arrival {
            if n > 0 {
                moves.push(((to, n + 1, k, j), rate));
            } else {
                let starts = self.service.starts.iter().enumerate();
                moves.extend(starts.map(|(j, start)| ((to, 1, k, j), rate * start)));
            }
        }
        if n > 0 {
            let to = match gate {
                Overload if n == low => Normal,
                Discard if n == high + 1 => Overload,
                _ => gate,
            };
            let end = self.service.ends[j];
            if n == 1 {
                moves.push(((to, 0, k, 0), end));
            } else {
                let starts = self.service.starts.iter().enumerate();
                moves.extend(starts.map(|(j, start)| ((to, n - 1, k, j), end * start)));
            }
            let next = self.service.next.iter().filter(|next| next.0 == j);
            moves.extend(next.map(|&(_, to, rate)| ((gate, n, k, to), rate)));
        }
        let changes = self.arrivals.changes().filter(|change| change.0 == k);
        moves.extend(changes.map(|(_, to, rate)| ((gate, n, to, j), rate)));
        moves
    }

    pub(super) fn solve(&self) -> Found {
        let states = self.states();
        let number: HashMap<State, usize> = states.iter().copied().zip(0..).collect();
        let size = states.len();
        let mut generator = DMatrix::zeros(size, size);
        for (from, &state) in states.iter().enumerate() {
            for (to, rate) in self.moves(state) {
                generator[(from, number[&to])] += rate;
                generator[(from, from)] -= rate;
            }
        }
        let mut balance = generator.transpose();
        balance.row_mut(0).fill(1.0);
        let mut one = DVector::zeros(size);
        one[0] = 1.0;
        let pi = balance.lu().solve(&one).expect("an irreducible chain");

        let mut found_states = [0.0; 3];
        let mut place: HashMap<(GateState, u32), f64> = HashMap::new();
        let (mut offered, mut refused, mut mean, mut waiting) = (0.0, 0.0, 0.0, 0.0);
        let shed: Vec<usize> = (0..size).filter(|&i| states[i].0 != GateState::Normal).collect();
        let mut begin: DVector<f64> = DVector::zeros(shed.len());
        for (from, &(gate, n, k, j)) in states.iter().enumerate() {
            let rate = self.arrivals.phases()[k].rate_per_s;
            found_states[gate as usize] += pi[from];
            *place.entry((gate, n)).or_default() += pi[from];
            offered += pi[from] * rate;
            refused += pi[from] * rate * [0.0, 1.0 - self.share, 1.0][gate as usize];
            mean += pi[from] * f64::from(n);
            waiting += pi[from] * f64::from(n.saturating_sub(1));
            for (to, rate) in self.moves((gate, n, k, j)) {
                if gate == GateState::Normal && to.0 == GateState::Overload {
                    let position = shed.iter().position(|&i| i == number[&to]).expect("a state with s ≥ 1");
                    begin[position] += pi[from] * rate;
                }
            }
        }
        let changes_per_s = begin.sum();
        Found {
            states: found_states,
            rejected: refused / offered,
            return_time_s: (found_states[1] + found_states[2]) / changes_per_s,
            cycle_s: 1.0 / changes_per_s,
            mean_in_system: mean,
            mean_wait_s: waiting / (offered - refused),
            place,
            begin: begin / changes_per_s,
            shed: DMatrix::from_fn(shed.len(), shed.len(), |i, j| generator[(shed[i], shed[j])]),
        }
    }
}

impl Found {
    /// E\[R\] and the standard deviation of R, by first passage.
    pub(super) fn return_moments_s(&self) -> (f64, f64) {
        let lu = (-&self.shed).lu();
        let means = lu.solve(&DVector::from_element(self.begin.len(), 1.0)).expect("a way to normal");
        let squares = lu.solve(&(2.0 * &means)).expect("a way to normal");
        let mean = self.begin.dot(&means);
        (mean, (self.begin.dot(&squares) - mean * mean).sqrt())
    }

    /// P(R ≤ t), by uniformisation.
    pub(super) fn returned_by(&self, t_s: f64) -> f64 {
        let rate = (0..self.shed.nrows()).map(|i| -self.shed[(i, i)]).fold(0.0, f64::max);
        let step = (&self.shed / rate + DMatrix::identity(self.shed.nrows(), self.shed.nrows())).transpose();
        let (mut chance, mut remaining) = (self.begin.clone(), 0.0);
        let mean = rate * t_s;
        let mut log_poisson = -mean;
        for event in 0..(mean + 12.0 * mean.sqrt() + 60.0) as u32 {
            remaining += log_poisson.exp() * chance.sum();
            chance = &step * chance;
            log_poisson += (mean / f64::from(event + 1)).ln();
        }
        1.0 - remaining
    }
}
