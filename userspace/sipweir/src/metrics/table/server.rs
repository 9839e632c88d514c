//! The servers: whether they are there, how fast they are.

use super::{at_workers, by_service};
use crate::metrics::Kind::{Counter, Gauge};
use crate::metrics::Label::{self, Queue, Service};
use crate::metrics::Metric;

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
        read: |status, samples| {
            by_service(status, |name, service| samples.whole([name], service.server.drops))
        },
    },
];
