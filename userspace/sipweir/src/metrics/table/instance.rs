//! What runs.

use super::by_service;
use crate::metrics::Kind::{Gauge, Info};
use crate::metrics::Label::{self, Service};
use crate::metrics::Metric;

pub(super) const METRICS: &[Metric] = &[
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
];
