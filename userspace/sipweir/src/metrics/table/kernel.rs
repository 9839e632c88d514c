//! What the kernel counts: for AF_XDP sockets, BPF programs and the interface.

use super::of_workers;
use crate::metrics::Kind::Counter;
use crate::metrics::Label::{self, Queue};
use crate::metrics::{Metric, Samples};
use crate::status::{self, Status};

pub(super) const METRICS: &[Metric] = &[
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
];

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
