//! One row of the results: what the caller saw in the measuring window of one run.
//!
//! All rates count events *by when they happened*, inside the window, per second of it:
//!
//! - `offered_per_s`: calls that were meant to start (the caller is open loop, so they are counted even if it was late);
//! - `answered_per_s`: calls that got their first final response, a 2xx: goodput;
//! - `answered_within_t1_per_s`: those of them whose response came within T1 = 500 ms of the intended first send, so
//!   that no copy was needed;
//! - `rejected_per_s`: calls whose first final response was another one (the gate's 503);
//! - `copies_per_call`: copies sent for each call that started.
//!
//! Two look at calls rather than at moments:
//!
//! - `failed_per_s`: calls that started inside the window and had no final response when the run ended. Timer B gives a
//!   call 32 s, a run is shorter; so this says "still without an answer", and how many are lost for good it cannot say;
//! - `delay_ms`: intended first send to first final 2xx, over the answers of the whole run. Answers that would have come
//!   after the end of the run are missing, so a collapse is in truth worse than it looks here.

use bench::{Distribution, Method, Report};
use serde::Serialize;

use super::plan::{Policy, Run};
use crate::status::Status;

/// A caller that sends later than this (99th percentile) measures itself. One T1 is 500 ms.
const LATE_MS_MAX: f64 = 25.0;

/// One run in numbers; see the module's header for their meaning.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) policy: Policy,
    pub(super) load: f64,
    pub(super) offered_per_s: f64,
    pub(super) answered_per_s: f64,
    pub(super) answered_within_t1_per_s: f64,
    pub(super) rejected_per_s: f64,
    pub(super) failed_per_s: f64,
    pub(super) copies_per_call: f64,
    pub(super) delay_ms: Delay,
    pub(super) health: Health,
}

/// Quantiles of the delay of answers; `null` without answers.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Delay {
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
}

/// Whether the measurement can be trusted, and where packets were lost.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Health {
    /// How much later than intended the caller sent, 99th percentile.
    pub(super) caller_late_ms_p99: f64,
    /// Calls that the caller could not start.
    pub(super) not_started: u64,
    /// Sends that the caller's own socket refused.
    pub(super) send_failed: u64,
    /// Packets lost at full RX rings of `control` and `new`; the others are meant to lose.
    pub(super) ring_full: u64,
    /// Packets lost since no frame was free.
    pub(super) fill_ring_empty: u64,
}

impl Health {
    /// What spoils the run, in words.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.caller_late_ms_p99 > LATE_MS_MAX {
            problems.push(format!("caller {:.0} ms late", self.caller_late_ms_p99));
        }
        for (count, what) in [
            (self.not_started, "calls not started"),
            (self.send_failed, "sends failed"),
            (self.ring_full, "packets lost at full rings"),
            (self.fill_ring_empty, "packets lost for want of frames"),
        ] {
            if count > 0 {
                problems.push(format!("{count} {what}"));
            }
        }
        problems
    }
}

impl Row {
    /// Counts what the caller reports; `None` if it offered no call.
    pub(super) fn new(run: Run, report: &Report, status: &Status) -> Option<Self> {
        let invite = report.of(Method::Invite)?;
        let interval_ns = report.series.interval_ns;
        let (from, until) = (report.window.from_ns / interval_ns, report.window.until_ns / interval_ns);
        let bins = &report.series.bins;
        let inside = bins.get(from as usize..bins.len().min(until as usize))?;
        let window_s = (until - from) as f64 * interval_ns as f64 / 1e9;
        let per_s = |count: u64| rounded(count as f64 / window_s, 1);
        let sum = |count: fn(&bench::Bin) -> u32| inside.iter().map(|bin| u64::from(count(bin))).sum::<u64>();

        let offered = sum(|bin| bin.offered);
        let delays = &invite.total.delay_to_answer;
        let quantile = |us: u64| (delays.count > 0).then(|| rounded(us as f64 / 1e3, 2));
        Some(Self {
            policy: run.policy,
            load: run.load,
            offered_per_s: per_s(offered),
            answered_per_s: per_s(sum(|bin| bin.answered)),
            answered_within_t1_per_s: per_s(sum(|bin| bin.answered_in_t1)),
            rejected_per_s: per_s(sum(|bin| bin.rejected)),
            failed_per_s: per_s(invite.window.failed + invite.window.unresolved),
            copies_per_call: rounded(sum(|bin| bin.copies) as f64 / offered.max(1) as f64, 3),
            delay_ms: Delay { p50: quantile(delays.p50_us), p99: quantile(delays.p99_us) },
            health: health(report, status),
        })
    }

    /// The share of the answers that came within T1; `None` without answers.
    pub(super) fn in_time_share(&self) -> Option<f64> {
        (self.answered_per_s > 0.0).then(|| self.answered_within_t1_per_s / self.answered_per_s)
    }
}

fn health(report: &Report, status: &Status) -> Health {
    let ring_full =
        |name: &str| status.workers.iter().filter_map(|worker| worker.ring_full.get(name)).sum::<u64>();
    let transport = &report.transport;
    Health {
        caller_late_ms_p99: rounded(report.send_lateness.p99_us as f64 / 1e3, 2),
        not_started: report.methods.iter().map(|method| method.total.not_started).sum(),
        send_failed: transport.send_no_room + transport.send_refused + transport.send_errors,
        ring_full: ring_full("control") + ring_full("new"),
        fill_ring_empty: status.workers.iter().map(|worker| worker.fill_ring_empty).sum(),
    }
}

/// A cumulative distribution: the share of answers that came within a delay.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Curve {
    pub(super) policy: Policy,
    pub(super) load: f64,
    pub(super) points: Vec<CurvePoint>,
}

/// One point of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct CurvePoint {
    pub(super) delay_ms: f64,
    pub(super) share: f64,
}

impl Curve {
    pub(super) fn new(run: Run, report: &Report) -> Self {
        let points = report.of(Method::Invite).map(|invite| cumulative(&invite.total.delay_to_answer));
        Self { policy: run.policy, load: run.load, points: points.unwrap_or_default() }
    }
}

fn cumulative(delays: &Distribution) -> Vec<CurvePoint> {
    let mut so_far = 0;
    let point = |delay_us: u64, so_far: u64| CurvePoint {
        delay_ms: rounded(delay_us as f64 / 1e3, 3),
        share: rounded(so_far as f64 / delays.count as f64, 5),
    };
    let upper = delays.buckets.iter().map(|bucket| {
        so_far += bucket.count;
        // The last bucket reaches further than any delay in it.
        point(bucket.up_to_us.min(delays.max_us), so_far)
    });
    let upper: Vec<CurvePoint> = upper.collect();
    let first = (delays.count > 0).then(|| point(delays.min_us, 0));
    first.into_iter().chain(upper).collect()
}

/// Rounds to decimal digits, for people and for small files.
pub(super) fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Curve, CurvePoint, Row, cumulative, rounded};
    use crate::demo::plan::{Marker, Plan, Policy, Run, ServiceTime};
    use crate::status::{Status, Worker};
    use bench::{Bin, Bucket, Distribution, Method, MethodCounts, MethodReport, Report};
    use std::collections::BTreeMap;

    /// A caller's report in which each bin of the window (10 s of 100 ms) has the same counts, and those outside
    /// have absurd ones.
    pub(in crate::demo) fn report(inside: Bin, window: MethodCounts, total: MethodCounts) -> Report {
        let config = Plan::new(false, 2000, ServiceTime::Constant, Marker::Off, 1).caller(2.0);
        let absurd =
            Bin { offered: 9, answered: 9, answered_in_t1: 9, rejected: 9, copies: 9, ..Bin::default() };
        let bins = [vec![absurd; 30], vec![inside; 100], vec![absurd; 11]].concat();
        Report {
            elapsed_ns: 14_000_000_000,
            cpu_ns: 1,
            window: bench::Window {
                from_ns: config.warm_up_ns,
                until_ns: config.duration_ns - config.tail_ns,
                offered_per_s: 0.0,
                goodput_per_s: 0.0,
                goodput_in_t1_per_s: 0.0,
                answers_received_per_s: 0.0,
            },
            methods: vec![MethodReport { method: Method::Invite, total, window }],
            calls: bench::CallCounts::default(),
            responses: bench::ResponseCounts::default(),
            transport: bench::TransportCounts::default(),
            send_lateness: Distribution { p99_us: 1234, ..Distribution::default() },
            copy_lateness: Distribution::default(),
            series: bench::Series { interval_ns: config.series_interval_ns, bins },
            config,
        }
    }

    const RUN: Run = Run { policy: Policy::Fifo, load: 2.0 };

    fn delays() -> Distribution {
        Distribution {
            count: 10,
            min_us: 900,
            p50_us: 1500,
            p99_us: 2_000_300,
            max_us: 2_000_300,
            buckets: vec![Bucket { up_to_us: 2000, count: 6 }, Bucket { up_to_us: 2_100_000, count: 4 }],
            ..Distribution::default()
        }
    }

    #[test]
    fn a_row_counts_what_happened_in_the_window_only() {
        let inside = Bin {
            offered: 400,
            answered: 150,
            answered_in_t1: 15,
            rejected: 30,
            copies: 100,
            ..Bin::default()
        };
        let window = MethodCounts { failed: 3, unresolved: 1997, ..MethodCounts::default() };
        let total = MethodCounts { delay_to_answer: delays(), ..MethodCounts::default() };
        let row = Row::new(RUN, &report(inside, window, total), &Status::default()).expect("a row");
        assert_eq!(
            (row.offered_per_s, row.answered_per_s, row.answered_within_t1_per_s, row.rejected_per_s),
            (4000.0, 1500.0, 150.0, 300.0)
        );
        assert_eq!((row.failed_per_s, row.copies_per_call), (200.0, 0.25));
        assert_eq!((row.delay_ms.p50, row.delay_ms.p99), (Some(1.5), Some(2000.3)));
        assert_eq!(row.in_time_share(), Some(0.1));
        assert_eq!(row.health.caller_late_ms_p99, 1.23);
        assert_eq!(row.health.problems(), [""; 0]);
    }

    #[test]
    fn a_run_without_answers_has_no_quantiles() {
        let none = MethodCounts::default;
        let report = report(Bin { offered: 1, ..Bin::default() }, none(), none());
        let row = Row::new(RUN, &report, &Status::default()).expect("a row");
        assert_eq!((row.delay_ms.p50, row.delay_ms.p99, row.in_time_share()), (None, None, None));
        assert_eq!(Curve::new(RUN, &report).points, []);
    }

    #[test]
    fn a_run_that_ended_early_counts_the_bins_that_there_are() {
        let none = MethodCounts::default;
        let mut report = report(Bin { offered: 10, ..Bin::default() }, none(), none());
        report.series.bins.truncate(80);
        assert_eq!(Row::new(RUN, &report, &Status::default()).expect("a row").offered_per_s, 50.0);
        report.series.bins.truncate(10);
        assert!(Row::new(RUN, &report, &Status::default()).is_none());
    }

    #[test]
    fn what_spoils_a_run_is_named() {
        let none = MethodCounts::default;
        let mut report = report(Bin::default(), none(), MethodCounts { not_started: 7, ..none() });
        report.send_lateness.p99_us = 80_000;
        report.transport.send_no_room = 2;
        let ring_full = BTreeMap::from([("new".to_owned(), 5), ("retransmission".to_owned(), 99)]);
        let worker = Worker { ring_full, ..Worker::default() };
        let status = Status { workers: vec![worker], ..Status::default() };
        assert_eq!(
            Row::new(RUN, &report, &status).expect("a row").health.problems(),
            ["caller 80 ms late", "7 calls not started", "2 sends failed", "5 packets lost at full rings"]
        );
    }

    #[test]
    fn the_distribution_rises_from_the_first_delay_to_the_last() {
        assert_eq!(
            cumulative(&delays()),
            [(0.9, 0.0), (2.0, 0.6), (2000.3, 1.0)].map(|(delay_ms, share)| CurvePoint { delay_ms, share })
        );
    }

    #[test]
    fn rounding_keeps_the_digits_asked_for() {
        assert_eq!((rounded(1234.567, 1), rounded(0.0005, 3), rounded(-1.25, 1)), (1234.6, 0.001, -1.3));
    }
}
