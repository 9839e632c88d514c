//! Ways beside the rings: the side door, the lists of sources, and the export of refused messages.

use crate::metrics::Kind::{Counter, Gauge};
use crate::metrics::Label;
use crate::metrics::{Metric, Samples};
use crate::status::{self, Status};

pub(super) const METRICS: &[Metric] = &[
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

/// A number of each list of sources.
fn by_list(status: &Status, samples: &mut Samples, count: fn(&status::List) -> u64) {
    for (list, of) in xdp_prog::List::ALL.into_iter().zip([&status.lists.deny, &status.lists.allow]) {
        samples.whole([list.name()], count(of));
    }
}
