//! The parts of a service's picture that a reader may take apart: how long messages waited, and the figures of each worker.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sip::Class;

use super::Service;
use crate::counters::{LaneCounters, WAIT_BUCKETS, WaitHistogram};

/// How long messages of one class waited in sipweir before the server got them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Wait {
    /// Messages.
    pub count: u64,
    /// Sum of their waits, seconds.
    pub sum_s: f64,
    /// Messages by length of wait: as long as the bound with the same index in `wait_bounds_s` or shorter, but longer than
    /// the one before; the last are those longer than all bounds.
    pub buckets: Vec<u64>,
}

impl Wait {
    /// Adds up histograms of the same class.
    fn sum<'a>(histograms: impl Iterator<Item = &'a WaitHistogram>) -> Self {
        let mut sum = Self { buckets: vec![0; WAIT_BUCKETS], ..Self::default() };
        for histogram in histograms {
            for (bucket, count) in sum.buckets.iter_mut().zip(histogram.buckets()) {
                *bucket += count;
            }
            sum.sum_s += histogram.sum_ns() as f64 / 1e9;
        }
        sum.count = sum.buckets.iter().sum();
        sum
    }

    /// By class, those that have counted anything.
    pub(super) fn by_class(lanes: &[Arc<LaneCounters>]) -> BTreeMap<String, Self> {
        let of = |class| Self::sum(lanes.iter().map(|lane| lane.waits_of(class)));
        let counted = Class::ALL.into_iter().map(|class| (class.name().to_owned(), of(class)));
        counted.filter(|(_, wait)| wait.count > 0).collect()
    }
}

/// A service at one worker.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AtWorker {
    /// The worker's NIC queue.
    pub queue: u32,
    /// State of its gate: `normal`, `overload` or `discard`.
    pub gate_state: String,
    /// The share of originals that the gate admits, 0 to 1.
    pub admits: f64,
    /// Messages waiting.
    pub waiting: u64,
    /// Messages taken to be at the server, this worker's even part.
    pub at_server: u64,
    /// This worker's part of the measured service rate, originals per second.
    pub service_rate_per_s: f64,
    /// Messages taken in, by class.
    pub received: BTreeMap<String, u64>,
    /// What became of them, by class and outcome.
    pub outcomes: BTreeMap<String, BTreeMap<String, u64>>,
}

impl AtWorker {
    /// The figures of one lane.
    pub(super) fn read(queue: u32, lane: &Arc<LaneCounters>) -> Self {
        let alone = Service::sum(std::slice::from_ref(lane));
        Self {
            queue,
            gate_state: alone.gate.state,
            admits: alone.gate.admits,
            waiting: alone.waiting,
            at_server: alone.at_server,
            service_rate_per_s: alone.service_rate_per_s,
            received: alone.received,
            outcomes: alone.outcomes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Arc, LaneCounters, Wait};
    use crate::counters::{Outcome, wait_bounds_s};
    use crate::status::Service;
    use sip::Class;

    fn lanes() -> Vec<Arc<LaneCounters>> {
        let lanes = [Arc::new(LaneCounters::default()), Arc::new(LaneCounters::default())];
        for (lane, waited_ns) in lanes.iter().zip([2_000_000, 700_000_000]) {
            lane.received(Class::Original);
            lane.outcome(Class::Original, Outcome::HandedOver);
            lane.waited(Class::Original, waited_ns);
        }
        lanes[1].received(Class::Ack);
        lanes[1].waiting.set(1);
        lanes.into()
    }

    #[test]
    fn waits_of_all_workers_are_added_bucket_by_bucket() {
        let waits = Wait::by_class(&lanes());
        assert_eq!(waits.len(), 1, "classes that waited nowhere are left out");
        let wait = &waits["original"];
        assert_eq!((wait.count, wait.sum_s), (2, 0.702));
        let filled: Vec<usize> = (0..wait.buckets.len()).filter(|at| wait.buckets[*at] > 0).collect();
        assert_eq!(filled.len(), 2);
        assert_eq!(wait_bounds_s()[filled[0]], 0.0025);
        assert_eq!(wait_bounds_s()[filled[1]], 1.0);
    }

    #[test]
    fn a_service_is_the_sum_of_what_it_is_at_each_worker() {
        let service = Service::read(Vec::new(), "enforce", "kernel", "hysteretic", &lanes());
        assert_eq!(service.workers.iter().map(|worker| worker.queue).collect::<Vec<_>>(), [0, 1]);
        let sum = |class| service.workers.iter().filter_map(|worker| worker.received.get(class)).sum::<u64>();
        assert_eq!((sum("original"), sum("ack")), (service.received["original"], service.received["ack"]));
        assert_eq!(service.workers[1].waiting, service.waiting);
        assert_eq!(service.workers[0].outcomes["original"]["handed_over"], 1);
    }
}
