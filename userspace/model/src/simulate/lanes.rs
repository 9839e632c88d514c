//! Which lane of the agenda holds which events: one for each node's service and each source's next original, and one for
//! each timer of each sender, since the same timer of successive requests fires in their order.

use super::network::{Scenario, State};
use super::timers::Timers;

/// The numbering of the lanes.
#[derive(Debug)]
pub(super) struct Lanes {
    nodes: usize,
    sources: usize,
    /// First lane of each sender's timers, by kind of timers.
    timers: Vec<[usize; Timers::ALL.len()]>,
    /// All lanes.
    pub(super) count: usize,
}

impl Lanes {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let (nodes, sources) = (scenario.nodes.len(), scenario.sources.len());
        let mut count = nodes + sources;
        let stateful = scenario.nodes.iter().map(|node| node.state == State::Stateful);
        let senders = scenario.sources.iter().map(|source| Some(source.timers)).chain(stateful.map(|_| None));
        let timers = senders.map(|only| {
            Timers::ALL.map(|kind| {
                let first = count;
                count += if only.is_none_or(|only| only == kind) { kind.count() } else { 0 };
                first
            })
        });
        let timers = timers.collect();
        Self { nodes, sources, timers, count }
    }

    /// The end of a node's service.
    pub(super) const fn served(&self, node: usize) -> usize {
        debug_assert!(node < self.nodes);
        node
    }

    /// A source's next original.
    pub(super) const fn arrival(&self, source: usize) -> usize {
        debug_assert!(source < self.sources);
        self.nodes + source
    }

    /// A timer, by its number from 1.
    pub(super) fn timer(&self, sender: usize, timers: Timers, number: usize) -> usize {
        self.timers[sender][timers as usize] + number - 1
    }
}
