//! The workers.

use super::of_workers;
use crate::metrics::Kind::{Counter, Gauge};
use crate::metrics::Label::{self, Queue};
use crate::metrics::Metric;

pub(super) const METRICS: &[Metric] = &[
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
];
