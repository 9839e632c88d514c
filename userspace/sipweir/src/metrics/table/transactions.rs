//! The transaction table.

use crate::metrics::Kind::{Counter, Gauge};
use crate::metrics::Metric;

pub(super) const METRICS: &[Metric] = &[
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
];
