//! The hysteretic gate with any service law: M|G|1|⟨L,H⟩|B by the chain embedded at departures.
//!
//! Symbols as in `hysteresis.rs`; A is the number of arrivals in one service, A' that of arrivals inside the admitted
//! share (`service.rs`), and time is in mean services.
//!
//! # Assumptions
//!
//! As `hysteresis.rs`, but service times of any law of `service.rs`.
//!
//! # Solution
//!
//! A normal phase begins with a departure, at (0, L−1), so cycles are alike and independent, and a service begun at
//! (s, n) needs no history. Let u_s(n) be the number of services begun there in a cycle.
//!
//! - **Normal.** Below L−1 the flow across each cut is in balance: u(n+1) P(A=0) = Σ u(m) P(A > n+1−m), m ≤ n, where an
//!   idle server counts as a service begun at 1. From L on the chain is censored from the top (`Band`), since a
//!   balance there would be a difference.
//! - **The service in which n reaches H** goes on in overload. Given the number of Poisson events in it, those after the
//!   one that reached H are thinned by q. So with y_j services begun at H−j, i events after the change have weight
//!   Σ_j y_j P(A=j+i), the time during which there are just i is Σ_j y_j P(A>j+i)/ρ, and n moves with probability q
//!   each. No density and no residual time is needed.
//! - **Overload.** The same two ways: cuts from L to H, where whatever came in above must fall through; censoring from H
//!   to B. Services that reach B end in discard, from where H is reached by full services.
//! - **Time** at n during a service begun at m is P(A > n−m)/ρ, or P(A' > n−m)/a; at B all that is left of it. These give
//!   time averages; those at departures would differ.
//!
//! All terms are positive: nothing cancels. Cost: B times the number of arrivals that a service may see in time, B−L times
//! that in memory.
//!
//! # Source
//!
//! Abaev, Gaidamaka, Samouylov, Pechinkin, Razumchik, Shorgin, as in `hysteresis.rs`, for the model; the censoring is that
//! of Grassmann, Taksar and Heyman (Operations Research 33(5), 1985) on a chain that is skip-free downwards.

use overload::GateState;

use crate::hysteresis::{Equilibrium, Hysteresis, LogWeight};
use crate::numeric::{LogSequence, log_sum_exp};
use crate::parameter::ParameterError;
use crate::service::{ArrivalCounts, ServiceLaw, at};

mod fixed;
mod passage;
mod residual;
mod return_time;

/// Probabilities kept for censoring at most: 160 MB.
const KEPT_MAX: usize = 20_000_000;
/// Steps at most, places times arrivals in one service that are told apart: about a second.
const STEPS_MAX: usize = 300_000_000;
/// The least likely number of arrivals that is told apart must not be likelier than this.
const TRUNCATED_MAX: f64 = 1e-30;
/// With more arrivals per service than this nobody arriving is less likely than a float can say.
const LOAD_MAX: f64 = 500.0;

impl Hysteresis {
    /// Solves the model for a service law with mean 1/μ.
    ///
    /// # Errors
    /// When λ/μ is above 500, or when one service may see more arrivals than there is memory for.
    pub fn solve_with_service(&self, law: ServiceLaw) -> Result<Equilibrium, ParameterError> {
        let counts = self.arrivals_in_service(law)?;
        Ok(self.equilibrium_of(&Normal::solve(self, &counts[0]), &counts))
    }

    fn equilibrium_of(&self, normal: &Normal, [all, accepted]: &[ArrivalCounts; 2]) -> Equilibrium {
        let change = Change::solve(self, all, normal);
        let mut weights = normal.weights(change.log_flow);
        weights.extend(overload(self, accepted, &change));
        self.equilibrium(weights)
    }

    /// The laws of A and A'.
    fn arrivals_in_service(&self, law: ServiceLaw) -> Result<[ArrivalCounts; 2], ParameterError> {
        if self.load() > LOAD_MAX {
            let range = format!("at most {LOAD_MAX} times service-rate for this service law");
            return Err(ParameterError::new("arrival-rate", self.arrival_rate_per_s, range));
        }
        let (low, _, buffer) = self.levels.as_tuple();
        let terms_max = terms_max(low as usize, buffer as usize);
        let all = law.check()?.arrivals(self.load(), terms_max);
        let accepted = law.arrivals(self.accepted_load(), terms_max);
        if all.last().max(accepted.last()) > TRUNCATED_MAX {
            let range = format!(
                "of less variation at this load and buffer - low: one service may see more than {terms_max} arrivals"
            );
            return Err(ParameterError::new("service", law, range));
        }
        Ok([all, accepted])
    }
}

/// Arrivals in one service that are told apart at most.
const fn terms_max(low: usize, buffer: usize) -> usize {
    let (columns, steps) = (buffer - low, STEPS_MAX / buffer);
    // No column of a band is longer than the buffer.
    let kept = if columns * buffer > KEPT_MAX { KEPT_MAX / columns } else { steps };
    if kept < steps { kept } else { steps }
}

/// The normal phase, at a scale of its own.
struct Normal {
    /// ln u(n), n < H; at 1 with those begun by an arrival to the idle server.
    log_begun: Vec<f64>,
    /// The logarithms of the mean times.
    log_times: Vec<f64>,
}

impl Normal {
    fn solve(model: &Hysteresis, all: &ArrivalCounts) -> Self {
        let (low, high, _) = model.levels.as_tuple();
        let (low, high) = (low as usize, high as usize);
        // Services begun at n ≤ H−2 by a departure; H−1 only as the beginning of the phase.
        let band = Band::censored(all, low, high);
        // u(0) stands for the visits to the idle server, each followed by a service begun at 1.
        let mut begun = LogSequence::new(all.len() + 1, high);
        let mut log_times = Vec::with_capacity(high);
        begun.push(1.0);
        log_times.push(-model.load().ln());
        for n in 1..high {
            let rows = n.saturating_sub(all.len()).max(1)..n;
            let past = begun.relative();
            // The idle server's arrival begins a service at 1: its row is that of 1.
            let idle = if rows.start <= 1 { past[0] } else { 0.0 };
            let of_row = |m: usize| past[m] + if m == 1 { idle } else { 0.0 };
            let next = if n < low {
                // The cut between n−1 and n, whose lower side an idle server belongs to as well.
                let above: f64 = rows.clone().map(|m| past[m] * at(&all.beyond, n - m)).sum();
                (above + idle * at(&all.beyond, n - 1)) / all.probability[0]
            } else if n + 1 < high {
                let row_of_one = if n == 1 { idle * band.step(1, 1) } else { 0.0 };
                (rows.clone().map(|m| of_row(m) * band.step(m, n)).sum::<f64>() + row_of_one)
                    / band.leaving(n)
            } else {
                0.0
            };
            let own = next + if n == 1 { past[0] } else { 0.0 };
            let spent: f64 = rows.map(|m| of_row(m) * at(&all.time, n - m)).sum();
            let spent = own.mul_add(all.time[0], spent);
            log_times.push(spent.ln() + begun.log_scale());
            begun.push(next);
        }
        let mut log_begun = begun.into_logs();
        if high > 1 {
            log_begun[1] = log_sum_exp(&log_begun[..2]);
        }
        Self { log_begun, log_times }
    }

    /// With the flow into overload as unit.
    fn weights(&self, log_flow: f64) -> Vec<LogWeight> {
        (0..).zip(&self.log_times).map(|(n, log)| (GateState::Normal, n, log - log_flow)).collect()
    }
}

/// y_j: the services begun at H−j that may reach H, relative to the largest.
struct Begun {
    /// The first j.
    first: usize,
    begun: Vec<f64>,
    /// The logarithm of the largest, at the scale of the normal phase.
    log_scale: f64,
}

impl Begun {
    fn new(high: usize, all: &ArrivalCounts, normal: &Normal) -> Self {
        // With H = 1 the idle server's arrival itself is the change.
        let logs: Vec<f64> = if high == 1 {
            vec![normal.log_begun[0]]
        } else {
            (1..high.min(all.len())).map(|j| normal.log_begun[high - j]).collect()
        };
        let log_scale = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let begun = logs.iter().map(|log| (log - log_scale).exp()).collect();
        Self { first: usize::from(high > 1), begun, log_scale }
    }
}

/// Lists by the number of events as lists by how many of them are inside the share, the last entry for `places` or more.
fn thinned<const N: usize>(lists: [&[f64]; N], share: f64, places: usize) -> [Vec<f64>; N] {
    let mut found = lists.map(|_| vec![0.0; places + 1]);
    let mut reached = vec![0.0; places + 1];
    reached[0] = 1.0;
    for event in 0..lists.iter().map(|list| list.len()).max().unwrap_or(0) {
        for (list, found) in lists.iter().zip(&mut found) {
            let amount = at(list, event);
            // After i events n has moved by i at most.
            found
                .iter_mut()
                .zip(&reached)
                .take(event + 1)
                .for_each(|(sum, reached)| *sum += amount * reached);
        }
        for k in (0..=(event + 1).min(places)).rev() {
            let stays = if k == places { 1.0 } else { 1.0 - share };
            let comes = if k == 0 { 0.0 } else { share * reached[k - 1] };
            reached[k] = stays.mul_add(reached[k], comes);
        }
    }
    found
}

/// The service in which normal turns into overload; the change itself is the unit.
struct Change {
    /// ln of the number of changes, at the scale of the normal phase.
    log_flow: f64,
    /// Mean time with H + k in the system, k < B−H, and last at B.
    times: Vec<f64>,
    /// The probability that it ends with H + k in the system before its departure, and last with B.
    ends: Vec<f64>,
}

impl Change {
    fn solve(model: &Hysteresis, all: &ArrivalCounts, normal: &Normal) -> Self {
        let (_, high, buffer) = model.levels.as_tuple();
        let (high, places) = (high as usize, (buffer - high) as usize);
        let Begun { first, begun, log_scale } = Begun::new(high, all, normal);
        let after = |list: &[f64], i: usize| -> f64 {
            (first..).zip(&begun).map(|(j, begun)| begun * at(list, j + i)).sum()
        };
        let flow: f64 = (0..all.len()).map(|i| after(&all.probability, i)).sum();
        let ends: Vec<f64> = (0..all.len()).map(|i| after(&all.probability, i) / flow).collect();
        let times: Vec<f64> = (0..all.len()).map(|i| after(&all.time, i) / flow).collect();
        let [times, ends] = thinned([&times, &ends], model.share, places);
        Self { log_flow: flow.ln() + log_scale, times, ends }
    }
}

/// Overload and discard, with the change into them as unit.
fn overload(model: &Hysteresis, accepted: &ArrivalCounts, change: &Change) -> Vec<LogWeight> {
    let (low, high, buffer) = model.levels.as_tuple();
    let (low, high, buffer) = (low as usize, high as usize, buffer as usize);
    let places = buffer - high;
    // A change that ends at H + k leaves H + k − 1.
    let enters = |n: usize| if n + 1 < high { 0.0 } else { at(&change.ends[..places], n + 1 - high) };
    let discards_at_once = change.ends[places];
    let band = Band::censored(accepted, high + 1, buffer);
    // What comes from outside to n first, of that which enters there or above.
    let mut sources = vec![0.0; buffer];
    for n in (high + 1..buffer).rev() {
        let from_above = if n + 1 < buffer { sources[n + 1] * band.falls(n + 1) } else { 0.0 };
        sources[n] = enters(n) + from_above;
    }
    // Everything that enters at n or above falls through n at the end; the lowest place to enter is H−1.
    let enter_from_high = (high..buffer).map(enters).sum::<f64>() + discards_at_once;
    let mut begun = LogSequence::new(accepted.len() + 1, buffer);
    let mut log_times = Vec::with_capacity(buffer);
    let mut log_discards = vec![discards_at_once.ln()];
    let mut log_at_buffer = vec![change.times[places].ln()];
    for (n, &source) in sources.iter().enumerate() {
        if n < low {
            begun.push(0.0);
            log_times.push(f64::NEG_INFINITY);
            continue;
        }
        let rows = n.saturating_sub(accepted.len()).max(low)..n;
        let past = begun.relative();
        let next = if n <= high {
            let above: f64 = rows.clone().map(|m| past[m] * at(&accepted.beyond, n - m)).sum();
            let enter_from = enter_from_high + if n < high { enters(high - 1) } else { 0.0 };
            (begun.to_relative(enter_from) + above) / accepted.probability[0]
        } else {
            let above: f64 = rows.clone().map(|m| past[m] * band.step(m, n)).sum();
            (begun.to_relative(source) + above) / band.leaving(n)
        };
        let spent: f64 = rows.map(|m| past[m] * at(&accepted.time, n - m)).sum();
        let log_spent = next.mul_add(accepted.time[0], spent).ln() + begun.log_scale();
        let changing = if n < high { f64::NEG_INFINITY } else { change.times[n - high].ln() };
        log_times.push(log_sum_exp(&[log_spent, changing]));
        let log_next = next.ln() + begun.log_scale();
        log_discards.push(log_next + at(&accepted.beyond, buffer - n - 1).ln());
        log_at_buffer.push(log_next + at(&accepted.time_from, buffer - n).ln());
        begun.push(next);
    }
    let log_discards = log_sum_exp(&log_discards);
    let mut weights: Vec<LogWeight> =
        (low..buffer).map(|n| (GateState::Overload, n as u32, log_times[n])).collect();
    // From B the service in which it was reached goes on; each place below is one full service of a discard.
    weights.extend((high + 1..buffer).map(|n| (GateState::Discard, n as u32, log_discards)));
    weights.push((GateState::Discard, buffer as u32, log_sum_exp(&log_at_buffer)));
    weights
}

/// Services begun at `from`..=`barrier`−2 as seen by those who look away while more are in the system.
///
/// A service begun at m reaches the barrier with P(A ≥ barrier−m) and is then out of sight for good; otherwise the next
/// one begins at m−1+A. States are taken out from the top. Each falls to one other state only, so taking it out changes
/// one column: `step(m, n)` is the probability of n as the next begun at n or below, for m ≤ n.
struct Band<'a> {
    counts: &'a ArrivalCounts,
    from: usize,
    /// By n − from: `step(m, n)` by n − m.
    columns: Vec<Vec<f64>>,
    /// By n − from: the probability to leave n other than by a return to it without having been below.
    leaving: Vec<f64>,
}

impl<'a> Band<'a> {
    /// `from` ≥ 1.
    fn censored(counts: &'a ArrivalCounts, from: usize, barrier: usize) -> Self {
        let mut columns = Vec::new();
        let mut leaving = Vec::new();
        let span = counts.len();
        // Reaching the barrier from m before anything at n or below, by barrier − m.
        let mut exits = vec![1.0];
        let mut last: Option<(Vec<f64>, f64)> = None;
        for n in (from..barrier.saturating_sub(1)).rev() {
            // In one step, m = n − back, and over the state above, which was just taken out.
            let mut column: Vec<f64> =
                (0..span.saturating_sub(1).min(n)).map(|back| counts.probability[back + 1]).collect();
            if let Some((above, falls)) = &last {
                for (back, step) in column.iter_mut().enumerate() {
                    let over = at(above, back + 1);
                    *step += over * falls;
                }
            }
            let reach = barrier - n;
            while exits.len() <= reach + column.len() {
                exits.push(at(&counts.beyond, exits.len() - 1));
            }
            if let Some((above, falls)) = &last {
                for (back, over) in above.iter().enumerate() {
                    exits[reach - 1 + back] += over * (1.0 - falls);
                }
            }
            let out = counts.probability[0] + exits[reach];
            let falls = counts.probability[0] / out;
            last = Some((column.clone(), falls));
            columns.push(column);
            leaving.push(out);
        }
        columns.reverse();
        leaving.reverse();
        Self { counts, from, columns, leaving }
    }

    fn step(&self, m: usize, n: usize) -> f64 {
        self.columns.get(n - self.from).map_or(0.0, |column| at(column, n - m))
    }

    fn leaving(&self, n: usize) -> f64 {
        self.leaving.get(n - self.from).copied().unwrap_or(1.0)
    }

    /// The probability to fall from n and not to reach the barrier first.
    fn falls(&self, n: usize) -> f64 {
        self.leaving.get(n - self.from).map_or(1.0, |leaving| self.counts.probability[0] / leaving)
    }
}

#[cfg(test)]
mod tests;
