//! Statuses for the tests beside.

use std::collections::BTreeMap;

use crate::status::{
    Answers, AtWorker, Gate, KernelRow, Server, Service, Source, Sources, StateSeconds, Status, Worker,
};

fn counts<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

fn row(class: &str, verdict: &str, reason: &str, packets: u64) -> KernelRow {
    KernelRow { class: class.into(), verdict: verdict.into(), reason: reason.into(), packets }
}

/// An instance with two workers after so many seconds of the same overload.
pub(super) fn status(second: u64) -> Status {
    let part = |share: u64| {
        let received = counts([("ack", 10 * second / share), ("original", 4000 * second / share)]);
        let of_originals = counts([
            ("handed_over", 1500 * second / share),
            ("rejected", 1990 * second / share),
            ("rejected_late", 10 * second / share),
            ("silent_over_budget", 400 * second / share),
        ]);
        let of_acks = counts([("ack_absorbed", 10 * second / share)]);
        let outcomes = BTreeMap::from([("ack".to_owned(), of_acks), ("original".to_owned(), of_originals)]);
        (received, outcomes)
    };
    let (received, outcomes) = part(1);
    let half = |queue| {
        let (received, outcomes) = part(2);
        let (admits, gate_state) = (0.4, "overload".to_owned());
        AtWorker {
            queue,
            gate_state,
            admits,
            waiting: 44,
            at_server: 6,
            received,
            outcomes,
            ..AtWorker::default()
        }
    };
    let main = Service {
        listen: vec!["192.0.2.1:5060".into()],
        mode: "enforce".into(),
        gate: Gate {
            kind: "hysteretic".into(),
            state: "overload".into(),
            admits: 0.4,
            state_s: StateSeconds { normal: second as f64, overload: 0.0, discard: second as f64 },
            ..Gate::default()
        },
        waiting: 88,
        at_server: 12,
        service_rate_per_s: 1990.4,
        server: Server { state: "up".into(), drops: 3 * second, ..Server::default() },
        answers: Some(Answers {
            by_class: counts([("1xx", 1500 * second), ("2xx", 1000 * second), ("5xx", 400 * second)]),
            unavailable: 350 * second,
            ..Answers::default()
        }),
        received,
        outcomes,
        workers: vec![half(0), half(1)],
        ..Service::default()
    };
    let quiet = Service {
        mode: "monitor".into(),
        gate: Gate { state: "normal".into(), admits: 1.0, ..Gate::default() },
        would_wait: 2,
        server: Server { state: "up".into(), ..Server::default() },
        ..Service::default()
    };
    let worker = |queue: u32| Worker {
        queue,
        core: 2 + queue as usize,
        cpu_s: 0.25 * second as f64,
        ring_full: counts([("control", 0), ("new", 5 * second)]),
        ..Worker::default()
    };
    let source = |address: &str, messages_per_s: f64, refused_per_s: f64| Source {
        address: address.into(),
        messages_per_s,
        refused_per_s,
        error_per_s: 2.0,
    };
    Status {
        version: "0.1.0".into(),
        uptime_s: second as f64,
        interface: "eth0".into(),
        services: BTreeMap::from([("main".to_owned(), main), ("quiet".to_owned(), quiet)]),
        workers: vec![worker(0), worker(1)],
        kernel: vec![
            row("original", "ring_new", "start_line", 4000 * second),
            row("copy", "drop", "original_waits", 600 * second),
            row("copy", "drop", "copy_excess", 100 * second),
            row("foreign", "pass", "no_service", 50 * second),
        ],
        sources: Sources {
            window_s: 5.0,
            messages_per_s: 4010.0,
            busiest: vec![
                source("198.51.100.7", 3000.0, 2300.0),
                source("2001:db8:12:3400::/64", 1000.4, 90.0),
            ],
        },
        ..Status::default()
    }
}
