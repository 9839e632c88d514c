//! What a run found, to be stored as JSON and printed as a table.
//!
//! `total` is the whole run; `window` holds the calls whose intended start lies between warm-up and tail, and is what
//! a measurement should quote. Delays count from the intended start.

mod table;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::clock::{Nanos, SECOND_NS};
use crate::config::CallerConfig;
use crate::tally::{Delays, MethodTally, Pair, Tally};
use crate::template::Method;

/// First bucket of a reported distribution, in microseconds; each later one is wider by [`BUCKET_RATIO`].
const BUCKET_FIRST_US: u64 = 10;
/// 1.1: a plot of the buckets is smooth, 20 s take about 150 of them.
const BUCKET_RATIO: f64 = 1.1;

/// A distribution of delays.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it: quantiles in microseconds")]
pub struct Distribution {
    pub count: u64,
    pub min_us: u64,
    pub mean_us: f64,
    pub p50_us: u64,
    pub p90_us: u64,
    pub p99_us: u64,
    pub p999_us: u64,
    pub max_us: u64,
    /// The whole distribution in logarithmic buckets; empty ones are left out.
    pub buckets: Vec<Bucket>,
}

/// Delays up to a bound, above the bound of the bucket before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// Upper bound.
    pub up_to_us: u64,
    /// Delays in this bucket.
    pub count: u64,
}

impl Distribution {
    pub(crate) fn new(Delays(histogram): &Delays) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let quantile = |q| histogram.value_at_quantile(q);
        let buckets = histogram
            .iter_log(BUCKET_FIRST_US, BUCKET_RATIO)
            .map(|b| Bucket { up_to_us: b.value_iterated_to(), count: b.count_since_last_iteration() })
            .filter(|bucket| bucket.count > 0)
            .collect();
        Self {
            count: histogram.len(),
            min_us: histogram.min(),
            mean_us: histogram.mean(),
            p50_us: quantile(0.5),
            p90_us: quantile(0.9),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: histogram.max(),
            buckets,
        }
    }
}

/// Requests of one method. `offered` = `answered` + `rejected` + `failed` + `not_started` + `unresolved`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct MethodCounts {
    /// Requests meant to be sent.
    pub offered: u64,
    /// First final response 2xx.
    pub answered: u64,
    /// Those within T1 of the intended start: no copy was needed.
    pub answered_in_t1: u64,
    /// Those after T1.
    pub answered_late: u64,
    /// First final response 300 to 699.
    pub rejected: u64,
    /// Those within T1.
    pub rejected_in_t1: u64,
    /// By status code.
    pub rejected_by_code: BTreeMap<u16, u64>,
    /// No final response within 64·T1 (timer B or F).
    pub failed: u64,
    /// Not sent, because `max_live_calls` were alive.
    pub not_started: u64,
    /// Open when the run ended.
    pub unresolved: u64,
    /// Copies sent.
    pub copies: u64,
    /// Copies for each request offered.
    pub copies_per_request: f64,
    /// Intended start to 2xx.
    pub delay_to_answer: Distribution,
    /// Intended start to refusal.
    pub delay_to_refusal: Distribution,
    /// Intended start to first provisional response.
    pub delay_to_provisional: Distribution,
}

impl MethodCounts {
    fn new(tally: &MethodTally) -> Self {
        Self {
            offered: tally.offered,
            answered: tally.answered,
            answered_in_t1: tally.answered_in_t1,
            answered_late: tally.answered - tally.answered_in_t1,
            rejected: tally.rejected,
            rejected_in_t1: tally.rejected_in_t1,
            rejected_by_code: tally.codes().collect(),
            failed: tally.failed,
            not_started: tally.not_started,
            unresolved: tally.unresolved(),
            copies: tally.copies,
            copies_per_request: ratio(tally.copies, tally.offered),
            delay_to_answer: Distribution::new(&tally.to_answer),
            delay_to_refusal: Distribution::new(&tally.to_refusal),
            delay_to_provisional: Distribution::new(&tally.to_provisional),
        }
    }
}

/// One method's counts. A BYE belongs to the window when its call does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MethodReport {
    /// Which.
    pub method: Method,
    /// The whole run.
    pub total: MethodCounts,
    /// Calls of the window.
    pub window: MethodCounts,
}

/// The measurement window and what came through in it; BYE is not counted, it follows from the calls.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Window {
    /// Offset of its start.
    pub from_ns: u64,
    /// Offset of its end.
    pub until_ns: u64,
    /// First requests offered, per second.
    pub offered_per_s: f64,
    /// First requests answered 2xx, ever, per second: goodput.
    pub goodput_per_s: f64,
    /// Those answered within T1, per second.
    pub goodput_in_t1_per_s: f64,
    /// 2xx that were *received* inside the window, whenever their calls started, per second.
    pub answers_received_per_s: f64,
}

/// What became of answered calls, over the whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CallCounts {
    /// INVITEs answered 2xx.
    pub answered: u64,
    /// BYEs answered 2xx.
    pub bye_answered: u64,
    /// BYEs refused (481: the server has lost the call).
    pub bye_rejected: u64,
    /// BYEs that nobody answered.
    pub bye_failed: u64,
    /// 2xx repeated more than T1 after our ACK: the server has probably not heard it.
    pub ack_unheard: u64,
    /// Calls with an answered INVITE whose BYE failed or was refused, or whose answer did not fit a dialog.
    pub answered_then_lost: u64,
    /// Answered calls whose BYE was not yet due at the end.
    pub holding_at_end: u64,
    /// Answers with more tag, Contact and routes than the caller keeps.
    pub oversize_dialogs: u64,
}

/// Responses that did not finish a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ResponseCounts {
    /// Final responses to a request that already had one.
    pub duplicates: u64,
    /// Those of another kind than the first: 2xx after a refusal, or a refusal after a 2xx.
    pub contradictions: u64,
    /// Final responses to a request that had failed.
    pub after_failure: u64,
    /// Responses to calls ended more than 64·T1 ago (or forgotten early for want of room).
    pub forgotten: u64,
    /// Responses to nothing that this run has sent.
    pub strays: u64,
    /// Datagrams that are no responses, requests included.
    pub not_understood: u64,
}

/// What went over the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct TransportCounts {
    /// Datagrams that the kernel took.
    pub sent: u64,
    /// Their payload bytes.
    pub sent_bytes: u64,
    /// Datagrams received.
    pub received: u64,
    /// ACKs among the sent.
    pub acks: u64,
    /// Sends refused because the socket's buffer was full: the caller's own loss.
    pub send_no_room: u64,
    /// Sends answered by ICMP port unreachable.
    pub send_refused: u64,
    /// Other failed sends.
    pub send_errors: u64,
    /// Sent per second of the thread's processor time: what one core can do in this mix.
    pub sent_per_cpu_s: f64,
}

/// One bin of the time series: events by the time at which they happened. First requests only, but for `copies`,
/// `sent` and `received`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "as in MethodCounts and TransportCounts")]
pub struct Bin {
    pub offered: u32,
    pub answered: u32,
    pub answered_in_t1: u32,
    pub rejected: u32,
    pub failed: u32,
    pub copies: u32,
    pub sent: u32,
    pub received: u32,
}

/// The run over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Series {
    /// Width of a bin.
    pub interval_ns: u64,
    /// From the start of the run to its end.
    pub bins: Vec<Bin>,
}

/// Everything that a run found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// What was asked for.
    pub config: CallerConfig,
    /// From the start to the end of draining.
    pub elapsed_ns: u64,
    /// Processor time of the caller's thread.
    pub cpu_ns: u64,
    /// The measurement window.
    pub window: Window,
    /// Methods that were offered.
    pub methods: Vec<MethodReport>,
    /// Answered calls.
    pub calls: CallCounts,
    /// Responses beside the first finals.
    pub responses: ResponseCounts,
    /// The wire.
    pub transport: TransportCounts,
    /// How much later than intended requests were first sent: the caller's own health.
    pub send_lateness: Distribution,
    /// How much later than due copies were sent: the timers' health. Up to 0.3 ms plus the longest sleep is by design.
    pub copy_lateness: Distribution,
    /// The run over time.
    pub series: Series,
}

impl Report {
    pub(crate) fn new(config: CallerConfig, tally: &Tally, elapsed_ns: Nanos, cpu_ns: Nanos) -> Self {
        let methods = Method::ALL.into_iter().filter(|method| tally.of(*method).total.offered > 0);
        let invite = &tally.of(Method::Invite).total;
        let bye = &tally.of(Method::Bye).total;
        let (after, wire) = (tally.aftermath, tally.wire);
        Self {
            elapsed_ns,
            cpu_ns,
            window: window(&config, tally),
            methods: methods
                .map(|method| {
                    let Pair { total, window } = tally.of(method);
                    MethodReport {
                        method,
                        total: MethodCounts::new(total),
                        window: MethodCounts::new(window),
                    }
                })
                .collect(),
            calls: CallCounts {
                answered: invite.answered,
                bye_answered: bye.answered,
                bye_rejected: bye.rejected,
                bye_failed: bye.failed,
                ack_unheard: after.ack_unheard,
                answered_then_lost: after.answered_then_lost,
                holding_at_end: invite.answered - bye.offered - after.oversize_dialogs,
                oversize_dialogs: after.oversize_dialogs,
            },
            responses: ResponseCounts {
                duplicates: after.duplicates,
                contradictions: after.contradictions,
                after_failure: after.after_failure,
                forgotten: after.forgotten,
                strays: after.strays,
                not_understood: after.not_understood,
            },
            transport: TransportCounts {
                sent: wire.sent,
                sent_bytes: wire.sent_bytes,
                received: wire.received,
                acks: wire.acks,
                send_no_room: wire.no_room,
                send_refused: wire.refused,
                send_errors: wire.other_errors,
                sent_per_cpu_s: per_s(wire.sent, cpu_ns),
            },
            send_lateness: Distribution::new(&tally.send_lateness),
            copy_lateness: Distribution::new(&tally.copy_lateness),
            series: series(tally, elapsed_ns),
            config,
        }
    }

    /// The counts of one method, if it was offered.
    #[must_use]
    pub fn of(&self, method: Method) -> Option<&MethodReport> {
        self.methods.iter().find(|report| report.method == method)
    }
}

fn window(config: &CallerConfig, tally: &Tally) -> Window {
    let (from_ns, until_ns) = (config.warm_up_ns, config.duration_ns - config.tail_ns);
    let firsts = [Method::Invite, Method::Register, Method::Options].map(|method| &tally.of(method).window);
    let sum_per_s = |count: fn(&MethodTally) -> u64| {
        per_s(firsts.iter().map(|tally| count(tally)).sum(), until_ns - from_ns)
    };
    Window {
        from_ns,
        until_ns,
        offered_per_s: sum_per_s(|t| t.offered),
        goodput_per_s: sum_per_s(|t| t.answered),
        goodput_in_t1_per_s: sum_per_s(|t| t.answered_in_t1),
        answers_received_per_s: per_s(tally.answers_in_window, until_ns - from_ns),
    }
}

fn series(tally: &Tally, elapsed_ns: Nanos) -> Series {
    let bins = (elapsed_ns / tally.interval_ns + 1) as usize;
    let bin = |b: &crate::tally::BinTally| Bin {
        offered: b.offered,
        answered: b.answered,
        answered_in_t1: b.answered_in_t1,
        rejected: b.rejected,
        failed: b.failed,
        copies: b.copies,
        sent: b.sent,
        received: b.received,
    };
    Series { interval_ns: tally.interval_ns, bins: tally.bins.iter().take(bins).map(bin).collect() }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn per_s(count: u64, duration_ns: u64) -> f64 {
    ratio(count, duration_ns) * SECOND_NS as f64
}
