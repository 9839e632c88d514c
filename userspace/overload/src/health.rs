//! A limit to what a server gets, from what it answers: for servers whose own queue nobody sees.
//!
//! Credit keeps the queue in the server's socket short. A server that reads its socket at once and queues inside (Asterisk,
//! FreeSWITCH, a proxy that waits for a data base) has none there however slow it is; what shows it is the time to its first
//! answer, or its own 503. While one of the two is above its bound, the rate of hand-over is cut, so that the line
//! builds in sipweir, where the gate sees it and originals are shed in order. Additive increase, multiplicative decrease, which
//! is stable and fair where all that is known is "too much" (Chiu and Jain, "Analysis of the increase and decrease algorithms for
//! congestion avoidance in computer networks", Computer Networks and ISDN Systems 17, 1989), on latency as in SEDA's adaptive
//! admission control (Welsh and Culler, "Adaptive overload control for busy Internet servers", USITS 2003), and with a cut
//! that depends on how far the bound was exceeded, as in Breakwater (Cho et al., "Overload control for µs-scale RPCs", OSDI 2020).
//!
//! ```text
//!   answers of a window ──▶ sick?  ── yes ──▶ limit = min(limit, what was handed over) · cut
//!                                └─── no ───▶ limit += step, and off when it no longer limits
//! ```
//!
//! Only what is answered is judged. A server that answers nothing at all keeps its socket full, which is credit's business, or is
//! silent ([`crate::Silence`]).

use crate::{NANOS_PER_S, Nanos};

/// A window closes when it has so many of what is judged. Fewer: the median of a window is chance; more: reaction is late.
const ENOUGH: u64 = 16;
/// The shortest window: shorter, and one slow answer in a quiet moment is a window.
const WINDOW_NS_MIN: Nanos = 250_000_000;
/// A window closes after this long whatever it has.
const WINDOW_NS_MAX: Nanos = 2_000_000_000;
/// With fewer than this a closed window says nothing.
const EVIDENCE_MIN: u64 = 4;
/// A cut leaves so much at least and at most.
const CUT: (f64, f64) = (0.5, 0.9);
/// Part of the rate at the last cut that a healthy second gives back, and of the limit itself when that is above. Larger: the
/// server is back above its bound soon; smaller: capacity is left unused after a short slowness.
const GIVEN_BACK_PER_S: f64 = 0.1;
/// The limit is never less, per second: what is healthy again must be able to show it.
const LIMIT_MIN_PER_S: f64 = 2.0;
/// Above what was too much at the first cut by this factor the limit is taken away.
const OFF_AT: f64 = 1.5;
/// The longest time after a cut in which what the answers say is not yet believed.
const SETTLING_NS_MAX: Nanos = 4_000_000_000;

/// What a server is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HealthConfig {
    /// Bound on the median time to the first answer, seconds; none by default.
    pub answer_time_max_s: Option<f64>,
    /// Bound on the share of 503 among final answers, 0 to 1; none by default.
    pub unavailable_max: Option<f64>,
}

impl HealthConfig {
    /// Whether anything is judged.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.answer_time_max_s.is_some() || self.unavailable_max.is_some()
    }
}

/// What was seen since the window opened.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Seen {
    /// Originals handed over.
    pub handed_over: u64,
    /// Times to the first answer.
    pub timed: u64,
    /// Their median, seconds.
    pub median_s: Option<f64>,
    /// Final answers.
    pub finals: u64,
    /// Those of them that are 503.
    pub unavailable: u64,
}

/// The judge of one server.
#[derive(Debug, Clone)]
pub struct Health {
    config: HealthConfig,
    opened: Nanos,
    settled: Nanos,
    limit: Option<Limit>,
    cuts: u64,
}

#[derive(Debug, Clone, Copy)]
struct Limit {
    per_s: f64,
    /// What was too much at the first cut.
    first_per_s: f64,
    /// What was too much at the last one.
    last_per_s: f64,
}

impl Health {
    /// A server that is taken to be well.
    #[must_use]
    pub const fn new(config: HealthConfig, now: Nanos) -> Self {
        Self { config, opened: now, settled: 0, limit: None, cuts: 0 }
    }

    /// Originals per second that may be handed over; `None` is without limit.
    #[must_use]
    pub fn limit_per_s(&self) -> Option<f64> {
        self.limit.map(|limit| limit.per_s)
    }

    /// Cuts since start.
    #[must_use]
    pub const fn cuts(&self) -> u64 {
        self.cuts
    }

    /// Takes in what was seen since the window opened. True: the window is closed, and another one opens now.
    pub fn observe(&mut self, now: Nanos, seen: &Seen) -> bool {
        let elapsed = now.saturating_sub(self.opened);
        let has_enough =
            seen.timed >= ENOUGH || (self.config.answer_time_max_s.is_none() && seen.finals >= ENOUGH);
        if elapsed < WINDOW_NS_MIN || (!has_enough && elapsed < WINDOW_NS_MAX) {
            return false;
        }
        self.opened = now;
        // What is answered now was handed over before the cut.
        if now < self.settled {
            return true;
        }
        let elapsed_s = elapsed as f64 / NANOS_PER_S as f64;
        match self.cut_for(seen) {
            // It is sick by what others give it, as in monitor mode: less from here would not help.
            Some(_) if seen.handed_over == 0 => {}
            Some(cut) => self.decrease(cut, seen.handed_over as f64 / elapsed_s, now, elapsed, seen),
            None => self.increase(elapsed_s),
        }
        true
    }

    /// By how much too much is done: `None` if it is not, or nothing speaks for it.
    fn cut_for(&self, seen: &Seen) -> Option<f64> {
        let exceeded = |bound: Option<f64>, value: Option<f64>| {
            let (bound, value) = (bound?, value?);
            (value > bound).then_some(bound / value)
        };
        let median_s = seen.median_s.filter(|_| seen.timed >= EVIDENCE_MIN);
        let share = (seen.finals >= EVIDENCE_MIN).then(|| seen.unavailable as f64 / seen.finals as f64);
        let slow = exceeded(self.config.answer_time_max_s, median_s);
        let refusing = exceeded(self.config.unavailable_max, share);
        let cut = [slow, refusing].into_iter().flatten().reduce(f64::min)?;
        Some(cut.clamp(CUT.0, CUT.1))
    }

    fn decrease(&mut self, cut: f64, handed_over_per_s: f64, now: Nanos, window: Nanos, seen: &Seen) {
        let per_s = handed_over_per_s.max(LIMIT_MIN_PER_S);
        let first_per_s = self.limit.map_or(per_s, |limit| limit.first_per_s);
        let last_per_s = self.limit.map_or(per_s, |limit| limit.per_s.min(per_s));
        self.limit = Some(Limit { per_s: (last_per_s * cut).max(LIMIT_MIN_PER_S), first_per_s, last_per_s });
        self.cuts += 1;
        // A cast saturates.
        let median = (seen.median_s.unwrap_or(0.0) * NANOS_PER_S as f64) as Nanos;
        self.settled = now.saturating_add(window.max(median).min(SETTLING_NS_MAX));
    }

    fn increase(&mut self, elapsed_s: f64) {
        let Some(limit) = &mut self.limit else { return };
        limit.per_s += (GIVEN_BACK_PER_S * limit.last_per_s.max(limit.per_s)).max(1.0) * elapsed_s;
        if limit.per_s > OFF_AT * limit.first_per_s {
            self.limit = None;
        }
    }
}

#[cfg(test)]
mod tests;
