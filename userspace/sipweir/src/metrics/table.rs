//! The table of metrics, in the order of a message's way.
//!
//! Counters of closed sets with few members are there from the start, so that a rate sees their first count. Those of several
//! labels (`messages_finished`, `xdp_packets`) would be thousands of rows that stay 0 for ever; their rows appear with the first
//! count.

use sip::Class;

use super::Kind::{Counter, Gauge, Histogram, Info};
use super::Label::{self, Queue, Service};
use super::labels::GATE_STATES;
use super::{Metric, Samples, Value};
use crate::status::{self, Status};

/// Classes of messages that a worker takes in; the others never leave the kernel, or are decided by the worker.
const WORKER_CLASSES: [Class; 11] = [
    Class::Response,
    Class::Ack,
    Class::Cancel,
    Class::InDialog,
    Class::Emergency,
    Class::Prober,
    Class::Original,
    Class::Copy,
    Class::Keepalive,
    Class::Stun,
    Class::NotSip,
];

/// Every metric of sipweir.
pub static METRICS: &[Metric] = &[
    Metric {
        name: "instance",
        kind: Info,
        unit: None,
        labels: &[Label::Version, Label::Interface, Label::XdpMode, Label::AfXdpMode],
        sentence: "What runs, on which interface, and what was obtained from the kernel.",
        read: |status, samples| {
            let mode = &status.mode;
            samples.whole([&status.version, &status.interface, &mode.xdp, &mode.af_xdp], 1);
        },
    },
    Metric {
        name: "service",
        kind: Info,
        unit: None,
        labels: &[Service, Label::Mode, Label::Handoff, Label::GateKind],
        sentence: "A guarded service, whether it is only watched, how its server gets messages, and the kind of its gate.",
        read: |status, samples| {
            by_service(status, |name, service| {
                samples.whole([name, &service.mode, &service.handoff, &service.gate.kind], 1);
            });
        },
    },
    Metric {
        name: "uptime",
        kind: Gauge,
        unit: Some("seconds"),
        labels: &[],
        sentence: "Time since the instance began to guard; all counters count from there.",
        read: |status, samples| samples.real([], status.uptime_s),
    },
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
        read: |status, samples| by_service(status, |name, service| samples.whole([name], service.would_wait)),
    },
    Metric {
        name: "wait",
        kind: Histogram,
        unit: Some("seconds"),
        labels: &[Service, Label::Class],
        sentence: "How long messages that the server was given had waited in sipweir, from their arrival on.",
        read: |status, samples| {
            for (name, service) in &status.services {
                for class in WORKER_CLASSES.map(Class::name) {
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
        read: |status, samples| {
            by_service(status, |name, service| samples.real([name], service.wait_ms_max / 1e3));
        },
    },
    Metric {
        name: "gate_state",
        kind: Gauge,
        unit: None,
        labels: &[Service, Queue, Label::GateState],
        sentence: "1 for the state that the gate is in, 0 for the others.",
        read: |status, samples| {
            for (name, service) in &status.services {
                for worker in &service.workers {
                    for state in GATE_STATES.map(overload::GateState::name) {
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
                for (state, time_s) in GATE_STATES.into_iter().zip([normal, overload, discard]) {
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
        read: |status, samples| {
            by_service(status, |name, service| samples.whole([name], service.gate.transitions));
        },
    },
    Metric {
        name: "gate_returns",
        kind: Counter,
        unit: None,
        labels: &[Service],
        sentence: "Returns of the gates to normal; each ends a control cycle.",
        read: |status, samples| {
            by_service(status, |name, service| samples.whole([name], service.gate.returns))
        },
    },
    Metric {
        name: "gate_return",
        kind: Counter,
        unit: Some("seconds"),
        labels: &[Service],
        sentence: "Sum of the times that these returns took.",
        read: |status, samples| {
            by_service(status, |name, service| samples.real([name], service.gate.return_s))
        },
    },
    Metric {
        name: "in_system_message",
        kind: Counter,
        unit: Some("seconds"),
        labels: &[Service],
        sentence: "Integral over time of the number that the gates see (waiting and at the server): its rate is the mean number.",
        read: |status, samples| {
            by_service(status, |name, service| samples.real([name], service.gate.in_system_s));
        },
    },
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
    Metric {
        name: "replies_without_overload_control",
        kind: Counter,
        unit: None,
        labels: &[Service],
        sentence: "Replies without the overload control that the client offers, which would have made them longer than the request.",
        read: |status, samples| {
            by_service(status, |name, service| samples.whole([name], service.control_left_out));
        },
    },
    Metric {
        name: "transactions_slots",
        kind: Gauge,
        unit: None,
        labels: &[],
        sentence: "Requests that the transaction table can remember.",
        read: |status, samples| samples.whole([], status.transactions.slots),
    },
    Metric {
        name: "transactions_remembered",
        kind: Gauge,
        unit: None,
        labels: &[],
        sentence: "Requests that it remembered at the last full sweep, one a minute.",
        read: |status, samples| samples.whole([], status.transactions.live),
    },
    Metric {
        name: "transactions_evicted",
        kind: Counter,
        unit: None,
        labels: &[],
        sentence: "Requests forgotten before their time to make room; above 0, copies may pass for originals.",
        read: |status, samples| samples.whole([], status.transactions.evicted),
    },
    Metric {
        name: "transactions_lost",
        kind: Counter,
        unit: None,
        labels: &[],
        sentence: "Requests not entered in the table because other writers were faster.",
        read: |status, samples| samples.whole([], status.transactions.lost),
    },
    Metric {
        name: "worker_turns",
        kind: Counter,
        unit: None,
        labels: &[Queue],
        sentence: "Turns of the worker's loop; one that stands still is stuck.",
        read: |status, samples| of_workers(status, samples, |worker| worker.turns),
    },
    Metric {
        name: "worker_sleeps",
        kind: Counter,
        unit: None,
        labels: &[Queue],
        sentence: "Times the worker went to sleep.",
        read: |status, samples| of_workers(status, samples, |worker| worker.sleeps),
    },
    Metric {
        name: "worker_cpu",
        kind: Counter,
        unit: Some("seconds"),
        labels: &[Queue],
        sentence: "Time that the worker's thread has run on its core, brought up to date about once a second.",
        read: |status, samples| {
            for worker in &status.workers {
                samples.real([&worker.queue.to_string()], worker.cpu_s);
            }
        },
    },
    Metric {
        name: "worker_frames",
        kind: Gauge,
        unit: None,
        labels: &[Queue, Label::Frames],
        sentence: "Frames and large buffers that the worker holds, and frames that are free.",
        read: |status, samples| {
            for worker in &status.workers {
                let queue = worker.queue.to_string();
                samples.whole([&queue, "held"], worker.frames_outstanding);
                samples.whole([&queue, "free"], worker.frames_free);
            }
        },
    },
    Metric {
        name: "worker_replies",
        kind: Counter,
        unit: None,
        labels: &[Queue],
        sentence: "Replies handed to the NIC.",
        read: |status, samples| of_workers(status, samples, |worker| worker.replies_sent),
    },
    Metric {
        name: "worker_replies_refused",
        kind: Counter,
        unit: None,
        labels: &[Queue],
        sentence: "Replies of embedded processors that the NIC's full TX ring refused.",
        read: |status, samples| of_workers(status, samples, |worker| worker.transmit_full),
    },
    Metric {
        name: "worker_bad_descriptors",
        kind: Counter,
        unit: None,
        labels: &[Queue],
        sentence: "Descriptors from the kernel that make no sense; above 0 is a bug.",
        read: |status, samples| of_workers(status, samples, |worker| worker.bad_descriptors),
    },
    Metric {
        name: "worker_bad_metadata",
        kind: Counter,
        unit: None,
        labels: &[Queue],
        sentence: "Packets whose metadata make no sense; above 0 is a bug.",
        read: |status, samples| of_workers(status, samples, |worker| worker.bad_metadata),
    },
    Metric {
        name: "af_xdp_rx_ring_full",
        kind: Counter,
        unit: None,
        labels: &[Queue, Label::Socket],
        sentence: "Kernel: packets dropped at a full RX ring; those of `retransmission` and `reject` are small on purpose.",
        read: |status, samples| {
            for worker in &status.workers {
                for (ring, count) in &worker.ring_full {
                    samples.whole([&worker.queue.to_string(), ring], *count);
                }
            }
        },
    },
    Metric {
        name: "af_xdp_rx_fill_ring_empty",
        kind: Counter,
        unit: None,
        labels: &[Queue],
        sentence: "Kernel: packets that found no frame; above 0, priority isolation broke.",
        read: |status, samples| of_workers(status, samples, |worker| worker.fill_ring_empty),
    },
    Metric {
        name: "af_xdp_rx_dropped",
        kind: Counter,
        unit: None,
        labels: &[Queue, Label::Socket],
        sentence: "Kernel: packets dropped for want of a frame, or since they were longer than one.",
        read: |status, samples| of_sockets(status, samples, |socket| socket.rx_dropped),
    },
    Metric {
        name: "af_xdp_rx_invalid_descriptors",
        kind: Counter,
        unit: None,
        labels: &[Queue, Label::Socket],
        sentence: "Kernel: invalid addresses in the fill ring; above 0 is a bug.",
        read: |status, samples| of_sockets(status, samples, |socket| socket.rx_invalid_descs),
    },
    Metric {
        name: "af_xdp_tx_invalid_descriptors",
        kind: Counter,
        unit: None,
        labels: &[Queue, Label::Socket],
        sentence: "Kernel: invalid descriptors in the TX ring; above 0 is a bug.",
        read: |status, samples| of_sockets(status, samples, |socket| socket.tx_invalid_descs),
    },
    Metric {
        name: "af_xdp_tx_ring_empty",
        kind: Counter,
        unit: None,
        labels: &[Queue, Label::Socket],
        sentence: "Kernel: how often it found the TX ring empty; no loss.",
        read: |status, samples| of_sockets(status, samples, |socket| socket.tx_ring_empty_descs),
    },
    Metric {
        name: "program_runs",
        kind: Counter,
        unit: None,
        labels: &[Label::Program],
        sentence: "Kernel: runs of a BPF program that it has timed, which it does while `kernel.bpf_stats_enabled` is 1; absent until then.",
        read: |status, samples| {
            for (program, cost) in &status.programs {
                samples.whole([program], cost.runs);
            }
        },
    },
    Metric {
        name: "program_run",
        kind: Counter,
        unit: Some("seconds"),
        labels: &[Label::Program],
        sentence: "Kernel: time of these runs, with the two clock readings that timing costs each.",
        read: |status, samples| {
            for (program, cost) in &status.programs {
                samples.real([program], cost.run_s);
            }
        },
    },
    Metric {
        name: "interface_packets",
        kind: Counter,
        unit: None,
        labels: &[Label::Direction],
        sentence: "Kernel: packets of the guarded interface since it was made; what an XDP program takes, some drivers leave out.",
        read: |status, samples| {
            let interface = &status.interface_counters;
            both_ways(samples, interface.rx_packets, interface.tx_packets);
        },
    },
    Metric {
        name: "interface",
        kind: Counter,
        unit: Some("bytes"),
        labels: &[Label::Direction],
        sentence: "Kernel: bytes of these packets.",
        read: |status, samples| {
            let interface = &status.interface_counters;
            both_ways(samples, interface.rx_bytes, interface.tx_bytes);
        },
    },
    Metric {
        name: "interface_errors",
        kind: Counter,
        unit: None,
        labels: &[Label::Direction],
        sentence: "Kernel: packets that arrived damaged or could not be sent.",
        read: |status, samples| {
            let interface = &status.interface_counters;
            both_ways(samples, interface.rx_errors, interface.tx_errors);
        },
    },
    Metric {
        name: "interface_dropped",
        kind: Counter,
        unit: None,
        labels: &[Label::Direction],
        sentence: "Kernel: packets dropped on their way in or out.",
        read: |status, samples| {
            let interface = &status.interface_counters;
            both_ways(samples, interface.rx_dropped, interface.tx_dropped);
        },
    },
    Metric {
        name: "interface_missed",
        kind: Counter,
        unit: None,
        labels: &[],
        sentence: "Kernel: packets that the device dropped for want of buffers, before anybody saw them.",
        read: |status, samples| samples.whole([], status.interface_counters.rx_missed),
    },
    Metric {
        name: "side_door_lookups",
        kind: Counter,
        unit: None,
        labels: &[Label::LookUp],
        sentence: "Look-ups of the kernel for a service: ended at sipweir's socket, found none of it, or were refused it; those two reach the server; or had a denied source, and reach nobody.",
        read: |status, samples| {
            let door = &status.side_door;
            for (result, count) in [
                ("assigned", door.assigned),
                ("no_socket", door.no_socket),
                ("refused", door.refused),
                ("denied", door.denied),
            ] {
                samples.whole([result], count);
            }
        },
    },
    Metric {
        name: "side_door_datagrams",
        kind: Counter,
        unit: None,
        labels: &[Label::SideDoor],
        sentence: "Datagrams that came by the side door: taken in, for no service (dropped), or lost at full receive buffers.",
        read: |status, samples| {
            let door = &status.side_door;
            for (result, count) in
                [("received", door.received), ("foreign", door.foreign), ("lost", door.lost)]
            {
                samples.whole([result], count);
            }
        },
    },
    Metric {
        name: "side_door_buffers_free",
        kind: Gauge,
        unit: None,
        labels: &[],
        sentence: "Large buffers that are free; at 0, large originals are refused.",
        read: |status, samples| samples.whole([], status.side_door.large_free),
    },
    Metric {
        name: "list_networks",
        kind: Gauge,
        unit: None,
        labels: &[Label::List],
        sentence: "Networks on the lists of sources: denied, whose packets `xdp_packets` counts by the reason `source_denied`, and allowed.",
        read: |status, samples| by_list(status, samples, |list| list.networks),
    },
    Metric {
        name: "list_expired",
        kind: Counter,
        unit: None,
        labels: &[Label::List],
        sentence: "Networks that have left a list since their time was over.",
        read: |status, samples| by_list(status, samples, |list| list.expired),
    },
    Metric {
        name: "list_reloads",
        kind: Counter,
        unit: None,
        labels: &[Label::Reload],
        sentence: "Reloads of the lists' files: done, or refused, which changed nothing.",
        read: |status, samples| {
            samples.whole(["done"], status.lists.reloads);
            samples.whole(["refused"], status.lists.reloads_refused);
        },
    },
    Metric {
        name: "capture_messages",
        kind: Counter,
        unit: None,
        labels: &[Label::Capture],
        sentence: "Refused messages on their way to the collector: left for it, of these cut short; lost for want of a buffer; taken by the kernel or not. Absent without `[capture]`.",
        read: |status, samples| {
            let Some(capture) = &status.capture else { return };
            for (result, count) in [
                ("captured", capture.captured),
                ("cut", capture.cut),
                ("lost", capture.lost),
                ("sent", capture.sent),
                ("unsent", capture.unsent),
            ] {
                samples.whole([result], count);
            }
        },
    },
];

fn by_service(status: &Status, mut each: impl FnMut(&str, &status::Service)) {
    status.services.iter().for_each(|(name, service)| each(name, service));
}

/// A counter of each class that a worker can meet, from 0 on.
fn by_class(status: &Status, samples: &mut Samples, count: fn(&status::Service, &str) -> Option<u64>) {
    by_service(status, |name, service| {
        for class in WORKER_CLASSES.map(Class::name) {
            samples.whole([name, class], count(service, class).unwrap_or(0));
        }
    });
}

/// A gauge of each service at each worker.
fn at_workers(status: &Status, samples: &mut Samples, gauge: fn(&status::AtWorker) -> f64) {
    by_service(status, |name, service| {
        for worker in &service.workers {
            samples.real([name, &worker.queue.to_string()], gauge(worker));
        }
    });
}

/// A number of each list of sources.
fn by_list(status: &Status, samples: &mut Samples, count: fn(&status::List) -> u64) {
    for (list, of) in xdp_prog::List::ALL.into_iter().zip([&status.lists.deny, &status.lists.allow]) {
        samples.whole([list.name()], count(of));
    }
}

/// A counter of each worker.
fn of_workers(status: &Status, samples: &mut Samples, count: fn(&status::Worker) -> u64) {
    for worker in &status.workers {
        samples.whole([&worker.queue.to_string()], count(worker));
    }
}

/// A counter of each AF_XDP socket.
fn of_sockets(status: &Status, samples: &mut Samples, count: fn(&status::Socket) -> u64) {
    for worker in &status.workers {
        for (name, socket) in &worker.sockets {
            samples.whole([&worker.queue.to_string(), name], count(socket));
        }
    }
}

fn both_ways(samples: &mut Samples, receive: u64, transmit: u64) {
    samples.whole(["receive"], receive);
    samples.whole(["transmit"], transmit);
}
