//! Messages: what came, what became of them, how long they waited.

use sip::Class;

use super::{at_workers, by_service, real_of_services, whole_of_services};
use crate::metrics::Kind::{Counter, Gauge, Histogram};
use crate::metrics::Label::{self, Queue, Service};
use crate::metrics::{Metric, Samples, Value};
use crate::status::{self, Status};

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "xdp_packets",
        kind: Counter,
        unit: None,
        labels: &[Label::Class, Label::Verdict, Label::Reason],
        sentence: "Packets that the XDP program saw; each is counted in exactly one row.",
        read: |status, samples| {
            for row in &status.kernel {
                samples.whole([&row.class, &row.verdict, &row.reason], row.packets);
            }
        },
    },
    Metric {
        name: "xdp_monitored_packets",
        kind: Counter,
        unit: None,
        labels: &[Label::Class, Label::Verdict, Label::Reason],
        sentence: "What would have been done with packets that are only watched; `xdp_packets` has them with the reason `monitored`.",
        read: |status, samples| {
            for row in &status.monitored {
                samples.whole([&row.class, &row.verdict, &row.reason], row.packets);
            }
        },
    },
    Metric {
        name: "messages_received",
        kind: Counter,
        unit: None,
        labels: &[Service, Label::Class],
        sentence: "Messages that the workers took from their rings and from the side door.",
        read: |status, samples| {
            by_class(status, samples, |service, class| service.received.get(class).copied());
        },
    },
    Metric {
        name: "messages_above_cap",
        kind: Counter,
        unit: None,
        labels: &[Service, Label::Class],
        sentence: "Of these, messages that lost their privilege since they were above the cap of their source.",
        read: |status, samples| {
            by_class(status, samples, |service, class| service.above_cap.get(class).copied());
        },
    },
    Metric {
        name: "messages_finished",
        kind: Counter,
        unit: None,
        labels: &[Service, Label::Class, Label::Outcome],
        sentence: "What became of messages; each gets exactly one outcome, so received = finished + waiting.",
        read: |status, samples| {
            for (name, service) in &status.services {
                for (class, outcomes) in &service.outcomes {
                    for (outcome, count) in outcomes {
                        samples.whole([name, class, outcome], *count);
                    }
                }
            }
        },
    },
    Metric {
        name: "messages_waiting",
        kind: Gauge,
        unit: None,
        labels: &[Service, Queue],
        sentence: "Messages that wait in sipweir.",
        read: |status, samples| at_workers(status, samples, |worker| worker.waiting as f64),
    },
    Metric {
        name: "messages_would_wait",
        kind: Gauge,
        unit: None,
        labels: &[Service],
        sentence: "Originals that would wait in sipweir or be at the server, while they are only watched.",
        read: |status, samples| whole_of_services(status, samples, |service| service.would_wait),
    },
    Metric {
        name: "wait",
        kind: Histogram,
        unit: Some("seconds"),
        labels: &[Service, Label::Class],
        sentence: "How long messages that the server was given had waited in sipweir, from their arrival on.",
        read: |status, samples| {
            for (name, service) in &status.services {
                for class in Class::OF_SERVICES.map(Class::name) {
                    let wait = service.wait.get(class);
                    let count = |bucket| wait.and_then(|wait| wait.buckets.get(bucket)).copied().unwrap_or(0);
                    let bounds = status.wait_bounds_s.iter().copied().chain([f64::INFINITY]);
                    let buckets = bounds.enumerate().map(|(bucket, bound)| (bound, count(bucket))).collect();
                    let sum_s = wait.map_or(0.0, |wait| wait.sum_s);
                    samples.add([name.as_str(), class], Value::Waits { buckets, sum_s });
                }
            }
        },
    },
    Metric {
        name: "wait_max",
        kind: Gauge,
        unit: Some("seconds"),
        labels: &[Service],
        sentence: "The longest of these waits since start.",
        read: |status, samples| real_of_services(status, samples, |service| service.wait_ms_max / 1e3),
    },
    Metric {
        name: "replies_without_overload_control",
        kind: Counter,
        unit: None,
        labels: &[Service],
        sentence: "Replies without the overload control that the client offers, which would have made them longer than the request.",
        read: |status, samples| whole_of_services(status, samples, |service| service.control_left_out),
    },
];

/// A counter of each class that a worker can meet, from 0 on.
fn by_class(status: &Status, samples: &mut Samples, count: fn(&status::Service, &str) -> Option<u64>) {
    by_service(status, |name, service| {
        for class in Class::OF_SERVICES.map(Class::name) {
            samples.whole([name, class], count(service, class).unwrap_or(0));
        }
    });
}
