//! The gates.

use overload::GateState;

use super::{at_workers, by_service, real_of_services, whole_of_services};
use crate::metrics::Kind::{Counter, Gauge};
use crate::metrics::Label::{self, Queue, Service};
use crate::metrics::Metric;
use crate::status;

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "gate_state",
        kind: Gauge,
        unit: None,
        labels: &[Service, Queue, Label::GateState],
        sentence: "1 for the state that the gate is in, 0 for the others.",
        read: |status, samples| {
            for (name, service) in &status.services {
                for worker in &service.workers {
                    for state in GateState::ALL.map(GateState::name) {
                        let is_in = u64::from(worker.gate_state == state);
                        samples.whole([name, &worker.queue.to_string(), state], is_in);
                    }
                }
            }
        },
    },
    Metric {
        name: "gate_admitted",
        kind: Gauge,
        unit: Some("ratio"),
        labels: &[Service, Queue],
        sentence: "The share of originals that the gate admits now, 0 to 1.",
        read: |status, samples| at_workers(status, samples, |worker| worker.admits),
    },
    Metric {
        name: "gate_time",
        kind: Counter,
        unit: Some("seconds"),
        labels: &[Service, Label::GateState],
        sentence: "Time that the gates have been in each state, summed over the workers.",
        read: |status, samples| {
            by_service(status, |name, service| {
                let status::StateSeconds { normal, overload, discard } = service.gate.state_s;
                for (state, time_s) in GateState::ALL.into_iter().zip([normal, overload, discard]) {
                    samples.real([name, state.name()], time_s);
                }
            });
        },
    },
    Metric {
        name: "gate_transitions",
        kind: Counter,
        unit: None,
        labels: &[Service],
        sentence: "Changes of the gates' states.",
        read: |status, samples| whole_of_services(status, samples, |service| service.gate.transitions),
    },
    Metric {
        name: "gate_returns",
        kind: Counter,
        unit: None,
        labels: &[Service],
        sentence: "Returns of the gates to normal; each ends a control cycle.",
        read: |status, samples| whole_of_services(status, samples, |service| service.gate.returns),
    },
    Metric {
        name: "gate_return",
        kind: Counter,
        unit: Some("seconds"),
        labels: &[Service],
        sentence: "Sum of the times that these returns took.",
        read: |status, samples| real_of_services(status, samples, |service| service.gate.return_s),
    },
    Metric {
        name: "in_system_message",
        kind: Counter,
        unit: Some("seconds"),
        labels: &[Service],
        sentence: "Integral over time of the number that the gates see (waiting and at the server): its rate is the mean number.",
        read: |status, samples| real_of_services(status, samples, |service| service.gate.in_system_s),
    },
];
