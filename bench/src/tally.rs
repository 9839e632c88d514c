//! What is counted while a run goes on. Fixed memory, no allocation after [`Tally::new`].
//!
//! INVARIANT, per method: offered = answered + rejected + failed + not started + unresolved, where unresolved is
//! what is still open; the report checks it.

use hdrhistogram::Histogram;

use crate::clock::Nanos;
use crate::config::CallerConfig;
use crate::template::Method;

/// Longest delay that a histogram tells apart, in microseconds: longer than 64·T1 and a long lateness together.
const DELAY_US_MAX: u64 = 200_000_000;
/// Significant digits of histograms: a value is known to 0.1 %, a histogram takes 150 KB.
const DELAY_DIGITS: u8 = 3;
/// Status codes are counted in a table that starts at 100.
const CODE_FIRST: u16 = 100;
const CODES: usize = 600;

/// A distribution of delays, in microseconds.
#[derive(Debug, Clone)]
pub(crate) struct Delays(pub(crate) Histogram<u64>);

impl Delays {
    pub(crate) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, DELAY_US_MAX, DELAY_DIGITS).expect("constant bounds are valid"))
    }

    pub(crate) fn record(&mut self, delay_ns: u64) {
        self.0.saturating_record((delay_ns / 1000).max(1));
    }
}

/// Counts of one method, over the whole run or the window.
#[derive(Debug, Clone)]
pub(crate) struct MethodTally {
    pub(crate) offered: u64,
    pub(crate) answered: u64,
    pub(crate) answered_in_t1: u64,
    pub(crate) rejected: u64,
    pub(crate) rejected_in_t1: u64,
    pub(crate) failed: u64,
    pub(crate) not_started: u64,
    pub(crate) copies: u64,
    pub(crate) to_answer: Delays,
    pub(crate) to_refusal: Delays,
    pub(crate) to_provisional: Delays,
    codes: Box<[u64]>,
}

impl MethodTally {
    fn new() -> Self {
        Self {
            offered: 0,
            answered: 0,
            answered_in_t1: 0,
            rejected: 0,
            rejected_in_t1: 0,
            failed: 0,
            not_started: 0,
            copies: 0,
            to_answer: Delays::new(),
            to_refusal: Delays::new(),
            to_provisional: Delays::new(),
            codes: vec![0; CODES].into(),
        }
    }

    /// A first final response, `delay_ns` after the intended start.
    pub(crate) fn finish(&mut self, code: u16, delay_ns: u64, in_t1: bool) {
        if (200..300).contains(&code) {
            self.answered += 1;
            self.answered_in_t1 += u64::from(in_t1);
            self.to_answer.record(delay_ns);
        } else {
            self.rejected += 1;
            self.rejected_in_t1 += u64::from(in_t1);
            self.to_refusal.record(delay_ns);
            self.codes[usize::from(code - CODE_FIRST)] += 1;
        }
    }

    pub(crate) fn unresolved(&self) -> u64 {
        self.offered - self.answered - self.rejected - self.failed - self.not_started
    }

    /// Refusals by status code, those that occurred.
    pub(crate) fn codes(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        (CODE_FIRST..).zip(self.codes.iter().copied()).filter(|(_, count)| *count > 0)
    }
}

/// Both views of one method.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub(crate) total: MethodTally,
    pub(crate) window: MethodTally,
}

/// One bin of the time series; events by the time at which they happened, first requests only but for copies.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BinTally {
    pub(crate) offered: u32,
    pub(crate) answered: u32,
    pub(crate) answered_in_t1: u32,
    pub(crate) rejected: u32,
    pub(crate) failed: u32,
    pub(crate) copies: u32,
    pub(crate) sent: u32,
    pub(crate) received: u32,
}

/// What went over the wire.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wire {
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received: u64,
    pub(crate) acks: u64,
    pub(crate) no_room: u64,
    pub(crate) refused: u64,
    pub(crate) other_errors: u64,
}

/// Answers that did not finish a request, and what became of calls after their answer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Aftermath {
    pub(crate) duplicates: u64,
    pub(crate) contradictions: u64,
    pub(crate) after_failure: u64,
    pub(crate) forgotten: u64,
    pub(crate) strays: u64,
    pub(crate) not_understood: u64,
    pub(crate) ack_unheard: u64,
    pub(crate) oversize_dialogs: u64,
    pub(crate) bye_lost: u64,
    pub(crate) answered_then_lost: u64,
}

/// Everything counted.
#[derive(Debug)]
pub(crate) struct Tally {
    methods: [Pair; 4],
    pub(crate) wire: Wire,
    pub(crate) aftermath: Aftermath,
    pub(crate) send_lateness: Delays,
    pub(crate) copy_lateness: Delays,
    /// Answers to first requests that were received inside the window, whenever their calls started.
    pub(crate) answers_in_window: u64,
    pub(crate) bins: Vec<BinTally>,
    pub(crate) interval_ns: u64,
    start: Nanos,
}

impl Tally {
    pub(crate) fn new(config: &CallerConfig, start: Nanos) -> Self {
        let pair = Pair { total: MethodTally::new(), window: MethodTally::new() };
        let bins =
            (config.duration_ns.saturating_add(config.drain_ns) / config.series_interval_ns + 1).min(1 << 20);
        Self {
            methods: std::array::from_fn(|_| pair.clone()),
            wire: Wire::default(),
            aftermath: Aftermath::default(),
            send_lateness: Delays::new(),
            copy_lateness: Delays::new(),
            answers_in_window: 0,
            bins: vec![BinTally::default(); bins as usize],
            interval_ns: config.series_interval_ns,
            start,
        }
    }

    /// Applies `count` to the whole run and, for calls of the window, to the window.
    pub(crate) fn each(&mut self, method: Method, in_window: bool, count: impl Fn(&mut MethodTally)) {
        let pair = &mut self.methods[method as usize];
        count(&mut pair.total);
        if in_window {
            count(&mut pair.window);
        }
    }

    pub(crate) fn of(&self, method: Method) -> &Pair {
        &self.methods[method as usize]
    }

    /// The bin of an event; what comes after the last bin goes into it.
    pub(crate) fn bin(&mut self, at: Nanos) -> &mut BinTally {
        let last = self.bins.len() - 1;
        let index = (at.saturating_sub(self.start) / self.interval_ns) as usize;
        &mut self.bins[index.min(last)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_keep_a_tenth_of_a_percent() {
        let mut delays = Delays::new();
        for ms in 1..=10_000_u64 {
            delays.record(ms * 1_000_000);
        }
        for (quantile, expected_us) in [(0.5, 5e6), (0.99, 9.9e6), (1.0, 10e6)] {
            let found = delays.0.value_at_quantile(quantile) as f64;
            assert!((found / expected_us - 1.0).abs() < 0.0015, "{quantile}: {found}");
        }
    }

    #[test]
    fn absurd_delays_are_kept_as_the_longest() {
        let mut delays = Delays::new();
        delays.record(0);
        delays.record(u64::MAX);
        assert_eq!(delays.0.len(), 2);
        assert!(delays.0.max() >= DELAY_US_MAX);
    }

    #[test]
    fn the_window_counts_only_its_own() {
        let mut tally = Tally::new(&CallerConfig::default(), 0);
        for in_window in [false, true, false] {
            tally.each(Method::Invite, in_window, |t| t.offered += 1);
        }
        tally.each(Method::Invite, true, |t| t.finish(503, 5_000_000, true));
        let Pair { total, window } = tally.of(Method::Invite);
        assert_eq!((total.offered, window.offered), (3, 1));
        assert_eq!((total.unresolved(), window.unresolved()), (2, 0));
        assert_eq!(window.codes().collect::<Vec<_>>(), [(503, 1)]);
    }

    #[test]
    fn events_after_the_last_bin_are_not_lost() {
        let mut tally = Tally::new(&CallerConfig::default(), 100);
        tally.bin(0).sent += 1;
        tally.bin(u64::MAX).sent += 1;
        assert_eq!((tally.bins[0].sent, tally.bins.last().unwrap().sent), (1, 1));
    }
}
