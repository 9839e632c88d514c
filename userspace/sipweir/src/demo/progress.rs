//! What is shown while the demo runs: one line per run, rewritten in place on a terminal.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use bench::Progress;

use super::plan::{Policy, Run};
use super::row::Row;
use super::take::GatePoint;

/// Rates are shown over this time: shorter flickers, longer lags behind.
const RATE_OVER: Duration = Duration::from_millis(500);

/// Counts of the caller at one moment of the run.
#[derive(Debug, Clone, Copy)]
struct Moment {
    at: Duration,
    offered: u64,
    answered: u64,
    in_t1: u64,
    rejected: u64,
}

/// The progress display.
#[derive(Debug)]
pub(super) struct Display {
    live: bool,
    runs: usize,
    started: usize,
    moments: VecDeque<Moment>,
}

impl Display {
    /// On standard error, so that standard output holds results only.
    pub(super) fn on_stderr(runs: usize) -> Self {
        Self { live: std::io::stderr().is_terminal(), runs, started: 0, moments: VecDeque::new() }
    }

    /// A line of its own.
    pub(super) fn line(&mut self, text: &str) {
        self.show(text, true);
    }

    /// A run begins.
    pub(super) fn starts(&mut self, run: Run) {
        self.started += 1;
        self.moments.clear();
        if self.live {
            self.show(&format!("{} starting", self.label(run)), false);
        }
    }

    /// A run goes on.
    pub(super) fn tick(&mut self, run: Run, at: Duration, progress: &Progress, look: Option<&GatePoint>) {
        if !self.live {
            return;
        }
        let moment = Moment {
            at,
            offered: progress.offered.load(Ordering::Relaxed),
            answered: progress.answered.load(Ordering::Relaxed),
            in_t1: progress.answered_in_t1.load(Ordering::Relaxed),
            rejected: progress.rejected.load(Ordering::Relaxed),
        };
        self.moments.push_back(moment);
        while self.moments.len() > 2 && moment.at - self.moments[1].at >= RATE_OVER {
            self.moments.pop_front();
        }
        let mut text = format!("{} {}", self.label(run), now(self.moments[0], moment));
        if let Some(look) = look {
            text.push_str(&format!(", {} wait", look.waiting));
            if run.policy == Policy::PriorityHysteresis {
                text.push_str(&format!(", gate {}", look.state));
            }
        }
        self.show(&text, false);
    }

    /// A run is over.
    pub(super) fn result(&mut self, row: &Row) {
        let label = self.label(Run { policy: row.policy, load: row.load });
        self.show(&format!("{label} {}", outcome(row)), true);
    }

    fn label(&self, run: Run) -> String {
        format!("[{:>2}/{}] {:<19} {:>4} ×", self.started, self.runs, run.policy.name(), run.load)
    }

    fn show(&self, text: &str, whole: bool) {
        let mut stderr = std::io::stderr().lock();
        // A terminal that is gone is noticed by the signal that comes with it.
        let _shown = match (self.live, whole) {
            (false, _) => writeln!(stderr, "{text}"),
            (true, true) => writeln!(stderr, "\r\x1b[2K{text}"),
            // Without wrapping: a line that is cut can be rewritten, one that is broken cannot.
            (true, false) => write!(stderr, "\r\x1b[2K\x1b[?7l{text}\x1b[?7h").and_then(|()| stderr.flush()),
        };
    }
}

fn now(from: Moment, to: Moment) -> String {
    let span_s = (to.at - from.at).as_secs_f64().max(1e-3);
    let rate = |count: fn(&Moment) -> u64| count(&to).saturating_sub(count(&from)) as f64 / span_s;
    format!(
        "{:>4.1} s: offered {:.0}/s, answered {:.0}/s ({:.0} in time), refused {:.0}/s",
        to.at.as_secs_f64(),
        rate(|m| m.offered),
        rate(|m| m.answered),
        rate(|m| m.in_t1),
        rate(|m| m.rejected),
    )
}

fn outcome(row: &Row) -> String {
    let p50 = row.delay_ms.p50.map_or("-".to_owned(), |ms| format!("{ms:.0} ms"));
    let mut text = format!(
        "offered {:>6.0}/s  answered {:>5.0}/s  within T1 {:>5.0}/s  refused {:>6.0}/s  median delay {p50}",
        row.offered_per_s, row.answered_per_s, row.answered_within_t1_per_s, row.rejected_per_s
    );
    for problem in row.health.problems() {
        text.push_str(&format!("  [{problem}]"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Moment, now};
    use std::time::Duration;

    #[test]
    fn rates_are_those_between_two_moments() {
        let at = |s, offered, answered| Moment {
            at: Duration::from_secs(s),
            offered,
            answered,
            in_t1: answered / 2,
            rejected: 0,
        };
        let text = now(at(1, 1000, 100), at(3, 9000, 4100));
        assert_eq!(text, " 3.0 s: offered 4000/s, answered 2000/s (1000 in time), refused 0/s");
        let first = now(at(0, 0, 0), at(0, 0, 0));
        assert!(first.contains("offered 0/s"), "{first}");
    }
}
