//! The servers: whether they are there, how fast they are, what they answer.

use super::{at_workers, by_service, whole_of_services};
use crate::metrics::Kind::{Counter, Gauge, Histogram};
use crate::metrics::Label::{self, Queue, Service};
use crate::metrics::{Metric, Value};
use crate::status::{self, STATUS_CLASSES, Status};

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "server_state",
        kind: Gauge,
        unit: None,
        labels: &[Service, Label::ServerState],
        sentence: "1 for the state that the server is in, 0 for the others.",
        read: |status, samples| {
            by_service(status, |name, service| {
                for state in overload::ServerState::ALL.map(overload::ServerState::name) {
                    samples.whole([name, state], u64::from(service.server.state == state));
                }
            });
        },
    },
    Metric {
        name: "server_messages",
        kind: Gauge,
        unit: None,
        labels: &[Service, Queue],
        sentence: "Messages taken to be at the server: in its sockets, and on their way there.",
        read: |status, samples| at_workers(status, samples, |worker| worker.at_server as f64),
    },
    Metric {
        name: "server_rate",
        kind: Gauge,
        unit: Some("messages_per_second"),
        labels: &[Service, Queue],
        sentence: "Originals per second that the server has been measured to serve; each worker has its part.",
        read: |status, samples| at_workers(status, samples, |worker| worker.service_rate_per_s),
    },
    Metric {
        name: "server_drops",
        kind: Counter,
        unit: None,
        labels: &[Service],
        sentence: "Datagrams that the server's own sockets dropped.",
        read: |status, samples| whole_of_services(status, samples, |service| service.server.drops),
    },
    Metric {
        name: "server_silent",
        kind: Gauge,
        unit: None,
        labels: &[Service],
        sentence: "1 while the server has a socket and answers no probes (`server.probe_interval`); it is `down` then.",
        read: |status, samples| {
            whole_of_services(status, samples, |service| u64::from(service.server.silent))
        },
    },
    Metric {
        name: "server_limit",
        kind: Gauge,
        unit: Some("messages_per_second"),
        labels: &[Service],
        sentence: "Originals a second that the server is given at most while it is above `server.answer_time_max` or `server.unavailable_max`; absent while it is not.",
        read: |status, samples| {
            by_service(status, |name, service| {
                service.server.limit_per_s.iter().for_each(|limit| samples.real([name], *limit));
            });
        },
    },
    Metric {
        name: "server_answers",
        kind: Counter,
        unit: None,
        labels: &[Service, Label::Status],
        sentence: "Responses of the server that left by the guarded interface, by status class. Absent where they are not seen.",
        read: |status, samples| {
            by_answers(status, |name, answers| {
                for class in STATUS_CLASSES {
                    samples.whole([name, class], answers.by_class.get(class).copied().unwrap_or(0));
                }
            });
        },
    },
    Metric {
        name: "server_answers_unavailable",
        kind: Counter,
        unit: None,
        labels: &[Service],
        sentence: "Of these, responses of 503: the server's own refusals.",
        read: |status, samples| {
            by_answers(status, |name, answers| samples.whole([name], answers.unavailable));
        },
    },
    Metric {
        name: "server_answer_time",
        kind: Histogram,
        unit: Some("seconds"),
        labels: &[Service],
        sentence: "Time from hand-over to the first answer of any kind, of INVITE, REGISTER and OPTIONS that were picked: all of a slow server, some 500 a second of a fast one.",
        read: |status, samples| {
            by_answers(status, |name, answers| {
                let counts = answers.time.buckets.iter().copied();
                let bounds = status.answer_bounds_s.iter().copied().chain([f64::INFINITY]);
                let buckets = bounds.zip(counts).collect();
                samples.add([name], Value::Waits { buckets, sum_s: answers.time.sum_s });
            });
        },
    },
];

fn by_answers(status: &Status, mut each: impl FnMut(&str, &status::Answers)) {
    by_service(status, |name, service| service.answers.iter().for_each(|answers| each(name, answers)));
}
