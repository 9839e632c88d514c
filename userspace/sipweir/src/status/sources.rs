//! The busiest sources of all workers.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::counters::WorkerCounters;
use crate::sources::Source as Address;

/// Sources that are shown. More: a document that is asked for every second gets longer for a tail that nobody reads.
const SHOWN: usize = 32;

/// The sources of most messages in the last seconds, estimated from a sample of what the workers have taken in. What the XDP
/// program drops by itself is not in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Sources {
    /// Length of the span that this is of; it ended a few seconds ago at most. 0 in the first seconds.
    pub window_s: f64,
    /// Messages of all sources, estimated.
    pub messages_per_s: f64,
    /// The busiest first, 32 at most.
    pub busiest: Vec<Source>,
}

/// One source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Source {
    /// Its IPv4 address, or the /64 network of its IPv6 address.
    pub address: String,
    /// Its messages, estimated.
    pub messages_per_s: f64,
    /// By so much `messages_per_s` can be too high, since sources without a place in memory share those of others. The error of
    /// the sample comes on top: with k messages looked at, about 1/√k of it.
    pub error_per_s: f64,
    /// Its requests that were refused, answered or not, estimated.
    pub refused_per_s: f64,
}

impl Sources {
    /// Adds up the last windows of the workers.
    #[must_use]
    pub fn read<'a>(workers: impl Iterator<Item = &'a Arc<WorkerCounters>>) -> Self {
        let mut sources = Self::default();
        let mut sums: BTreeMap<Address, Source> = BTreeMap::new();
        for window in workers.map(|counters| counters.sources.read()).filter(|window| window.len_ns > 0) {
            let window_s = window.len_ns as f64 / 1e9;
            sources.window_s = sources.window_s.max(window_s);
            sources.messages_per_s += window.messages as f64 / window_s;
            for hitter in &window.busiest {
                let sum = sums.entry(hitter.key).or_default();
                sum.messages_per_s += hitter.count as f64 / window_s;
                sum.error_per_s += hitter.error as f64 / window_s;
                sum.refused_per_s += hitter.marked as f64 / window_s;
            }
        }
        let named = |(address, source): (Address, Source)| Source { address: address.to_string(), ..source };
        sources.busiest = sums.into_iter().map(named).collect();
        sources.busiest.sort_by(|a, b| b.messages_per_s.total_cmp(&a.messages_per_s));
        sources.busiest.truncate(SHOWN);
        sources
    }
}

#[cfg(test)]
mod tests {
    use super::{Arc, SHOWN, Sources, WorkerCounters};
    use crate::sources::{Sampler, WINDOW_NS};

    #[test]
    fn the_workers_are_added_up_and_the_busiest_come_first() {
        let workers = [Arc::new(WorkerCounters::default()), Arc::new(WorkerCounters::default())];
        for (worker, others) in workers.iter().zip([0u8, 100]) {
            let mut sampler = Sampler::default();
            sampler.publish(&worker.sources, WINDOW_NS);
            for number in 0..40u8 {
                let from = [10, 0, others, number].into();
                // So slowly that each is looked at.
                sampler.note(from, true, WINDOW_NS + u64::from(number) * 100_000_000);
                sampler.note([10, 9, 9, 9].into(), false, WINDOW_NS + u64::from(number) * 100_000_000);
            }
            sampler.publish(&worker.sources, 2 * WINDOW_NS);
        }
        let sources = Sources::read(workers.iter());
        assert_eq!((sources.window_s, sources.messages_per_s, sources.busiest.len()), (5.0, 32.0, SHOWN));
        let first = &sources.busiest[0];
        assert_eq!(
            (first.address.as_str(), first.messages_per_s, first.refused_per_s),
            ("10.9.9.9", 16.0, 0.0)
        );
        assert_eq!((sources.busiest[1].messages_per_s, sources.busiest[1].refused_per_s), (0.2, 0.2));
        assert_eq!(Sources::read(std::iter::empty()), Sources::default());
    }
}
