//! What a run has shown: of the calls that count, and of the nodes after the warm-up.

use hdrhistogram::Histogram;
use overload::Nanos;

use super::NANOS_PER_S;

/// Delays are kept to 1 % (two digits); finer costs memory and shows nothing that the spread over seeds would not hide.
const DELAY_DIGITS: u8 = 2;

/// What became of the calls that count: those sent between warm-up and cool-down.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls.
    pub offered: u64,
    /// Copies that their clients sent.
    pub copies: u64,
    /// Calls answered before the client gave up, which is the goodput.
    pub answered: u64,
    /// Calls answered within T1 of their first send.
    pub answered_within_t1: u64,
    /// Calls refused with 503.
    pub rejected: u64,
    /// Calls without a final response after 64·T1.
    pub failed: u64,
    /// Those of the failed that were answered later.
    pub late: u64,
    /// Σ (answer − first send) of answered calls.
    pub delay_ns: u128,
    /// The same of late ones.
    pub late_delay_ns: u128,
}

impl Calls {
    /// Adds the calls of another source.
    pub(super) const fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.copies += other.copies;
        self.answered += other.answered;
        self.answered_within_t1 += other.answered_within_t1;
        self.rejected += other.rejected;
        self.failed += other.failed;
        self.late += other.late;
        self.delay_ns += other.delay_ns;
        self.late_delay_ns += other.late_delay_ns;
    }

    /// Mean time from first send to answer of the calls that were answered in time; not a number without answers.
    #[must_use]
    pub fn mean_delay_s(&self) -> f64 {
        self.delay_ns as f64 / self.answered as f64 / NANOS_PER_S
    }

    /// The same over all answers, late ones too.
    #[must_use]
    pub fn mean_delay_with_late_s(&self) -> f64 {
        (self.delay_ns + self.late_delay_ns) as f64 / (self.answered + self.late) as f64 / NANOS_PER_S
    }
}

/// A sum of times, for mean and spread.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Σ t, seconds.
    pub sum_s: f64,
    /// Σ t².
    pub squares: f64,
}

impl Times {
    pub(super) fn note(&mut self, span_ns: Nanos) {
        let span_s = span_ns as f64 / NANOS_PER_S;
        self.count += 1;
        self.sum_s += span_s;
        self.squares += span_s * span_s;
    }

    /// The mean, in seconds.
    #[must_use]
    pub fn mean_s(&self) -> f64 {
        self.sum_s / self.count as f64
    }

    /// The standard deviation, in seconds.
    #[must_use]
    pub fn deviation_s(&self) -> f64 {
        let mean = self.mean_s();
        (self.squares / self.count as f64 - mean * mean).max(0.0).sqrt()
    }
}

/// What a node did, after the warm-up unless it says otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NodeOutcome {
    /// Messages that arrived.
    pub arrived: u64,
    /// Messages that found no room.
    pub dropped: u64,
    /// Requests refused with 503, by gate, controller or age.
    pub refused: u64,
    /// Messages served.
    pub served: u64,
    /// Of these, those whose call had its final response already, or that a stateful node knew as copies.
    pub useless: u64,
    /// Copies that a stateful node sent by its own timers.
    pub resent: u64,
    /// Time in service.
    pub busy_ns: Nanos,
    /// Time in normal, overload and discard.
    pub state_ns: [Nanos; 3],
    /// ∫ n dt in messages times nanoseconds, n as the gate counts it.
    pub in_system_ns: u128,
    /// Time measured.
    pub measured_ns: Nanos,
    /// From entering overload until normal again (R).
    pub returns: Times,
    /// From one entry into overload to the next (τ).
    pub cycles: Times,
    /// The most messages that waited at once, in the whole run.
    pub longest_line: usize,
    /// Messages that wait at the end.
    pub final_line: usize,
}

impl NodeOutcome {
    /// P0, P1, P2.
    #[must_use]
    pub fn state_shares(&self) -> [f64; 3] {
        self.state_ns.map(|time_ns| time_ns as f64 / self.measured_ns as f64)
    }

    /// E\[N\].
    #[must_use]
    pub fn mean_in_system(&self) -> f64 {
        self.in_system_ns as f64 / self.measured_ns as f64
    }
}

/// A look at the nodes' lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The time.
    pub at: Nanos,
    /// Messages that wait, by node.
    pub lines: Vec<usize>,
    /// Calls that count, answered so far before their client gave up.
    pub answered: u64,
}

/// A whole run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// By source.
    pub sources: Vec<Calls>,
    /// By node.
    pub nodes: Vec<NodeOutcome>,
    /// Time in which calls that count were sent.
    pub counted_ns: Nanos,
    /// Delays of answered calls, in microseconds.
    pub delays: Histogram<u64>,
    /// Over time, if it was asked for.
    pub samples: Vec<Sample>,
    /// Events: arrivals, services, timers, hops.
    pub events: u64,
    /// The most transactions that were remembered at once.
    pub transactions_most: usize,
}

impl Outcome {
    pub(super) fn new(sources: usize, nodes: usize, counted_ns: Nanos) -> Self {
        Self {
            sources: vec![Calls::default(); sources],
            nodes: vec![NodeOutcome::default(); nodes],
            counted_ns,
            delays: empty_histogram(),
            samples: Vec::new(),
            events: 0,
            transactions_most: 0,
        }
    }

    /// The calls of all sources.
    #[must_use]
    pub fn calls(&self) -> Calls {
        let mut all = Calls::default();
        self.sources.iter().for_each(|source| all.add(source));
        all
    }

    /// The delay below which this share of the answers in time came, seconds; not a number without answers.
    #[must_use]
    pub fn delay_quantile_s(&self, share: f64) -> f64 {
        if self.delays.is_empty() { f64::NAN } else { self.delays.value_at_quantile(share) as f64 / 1e6 }
    }

    /// Jain's index over the sources' shares of answered calls: 1 when all fare alike, 1/k when one of k gets all.
    #[must_use]
    pub fn fairness(&self) -> f64 {
        jain(self.sources.iter().map(|source| source.answered as f64 / source.offered.max(1) as f64))
    }

    /// Jain's index over the sources' numbers of answered calls: 1 when the goodput is shared equally, whoever asks for more.
    #[must_use]
    pub fn goodput_fairness(&self) -> f64 {
        jain(self.sources.iter().map(|source| source.answered as f64))
    }
}

/// The least that a histogram needs; it grows with what is recorded.
fn empty_histogram() -> Histogram<u64> {
    // The only error is a number of digits above 5.
    Histogram::new(DELAY_DIGITS).unwrap_or_else(|_| unreachable!("{DELAY_DIGITS} digits"))
}

/// (Σx)² / (k Σx²) (Jain, Chiu, Hawe, DEC-TR-301, 1984); 1 when all are 0.
fn jain(shares: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for share in shares {
        count += 1.0;
        sum += share;
        squares += share * share;
    }
    if squares > 0.0 { sum * sum / (count * squares) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::{Times, jain};

    #[test]
    fn fairness_is_1_among_equals_and_one_over_k_for_a_monopoly() {
        assert!((jain([0.3, 0.3, 0.3].into_iter()) - 1.0).abs() < 1e-12);
        assert!((jain([0.0, 1.0, 0.0, 0.0].into_iter()) - 0.25).abs() < 1e-12);
        assert!((jain([0.0, 0.0].into_iter()) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn times_have_their_mean_and_spread() {
        let mut times = Times::default();
        for second in [1, 2, 3, 4] {
            times.note(second * 1_000_000_000);
        }
        assert!((times.mean_s() - 2.5).abs() < 1e-12);
        assert!((times.deviation_s() - 1.25_f64.sqrt()).abs() < 1e-12);
        assert!(Times::default().mean_s().is_nan());
    }
}
