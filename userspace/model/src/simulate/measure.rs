//! What a report says about runs: each measure by name, unit and sentence, and how it is taken from an outcome.
//!
//! The names are keys of JSON and CSV: measures are added, not renamed.

use super::outcome::{Calls, NodeOutcome, Outcome};

/// A number that every run has.
#[derive(Debug, Clone, Copy)]
pub struct Measure<T> {
    /// The key; ends in its unit unless it is a share or a count.
    pub name: &'static str,
    /// What it is.
    pub sentence: &'static str,
    /// Takes it; not a number where there is nothing to measure.
    pub of: fn(&T) -> f64,
}

/// Calls and the time in which they were sent.
#[derive(Debug, Clone, Copy)]
pub struct Counted {
    /// The calls.
    pub calls: Calls,
    /// The time, in seconds.
    pub time_s: f64,
}

const fn measure<T>(name: &'static str, sentence: &'static str, of: fn(&T) -> f64) -> Measure<T> {
    Measure { name, sentence, of }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// Of calls, of all sources or of one.
pub const OF_CALLS: [Measure<Counted>; 9] = [
    measure("offered_per_s", "calls", |c: &Counted| c.calls.offered as f64 / c.time_s),
    measure("goodput_per_s", "calls answered before the client gave up", |c: &Counted| {
        c.calls.answered as f64 / c.time_s
    }),
    measure("goodput_within_t1_per_s", "calls answered within T1 = 500 ms", |c: &Counted| {
        c.calls.answered_within_t1 as f64 / c.time_s
    }),
    measure("rejected_share", "calls refused with 503", |c: &Counted| {
        share(c.calls.rejected, c.calls.offered)
    }),
    measure("failed_share", "calls without a final response after 32 s", |c: &Counted| {
        share(c.calls.failed, c.calls.offered)
    }),
    measure("copies_per_call", "copies that clients sent", |c: &Counted| {
        share(c.calls.copies, c.calls.offered)
    }),
    measure("mean_delay_s", "first send to answer, of calls answered in time", |c: &Counted| {
        c.calls.mean_delay_s()
    }),
    measure("mean_delay_with_late_s", "first send to answer, of all answers", |c: &Counted| {
        c.calls.mean_delay_with_late_s()
    }),
    measure("late_share", "calls answered after the client gave up", |c: &Counted| {
        share(c.calls.late, c.calls.offered)
    }),
];

/// Of whole runs, beside those of their calls.
pub const OF_RUNS: [Measure<Outcome>; 5] = [
    measure("delay_p50_s", "median delay of calls answered in time", |o: &Outcome| o.delay_quantile_s(0.5)),
    measure("delay_p99_s", "99th percentile of it", |o: &Outcome| o.delay_quantile_s(0.99)),
    measure("fairness", "Jain's index over the answered shares of the sources", Outcome::fairness),
    measure("goodput_fairness", "Jain's index over the goodputs of the sources", Outcome::goodput_fairness),
    measure("events", "events simulated", |o: &Outcome| o.events as f64),
];

/// Of a node.
pub const OF_NODES: [Measure<NodeOutcome>; 14] = [
    measure("utilisation", "share of time in service", |n: &NodeOutcome| share(n.busy_ns, n.measured_ns)),
    measure("useless_share", "services for calls that had their final response, or of known copies", |n| {
        share(n.useless, n.served)
    }),
    measure("dropped_share", "messages that found no room", |n: &NodeOutcome| share(n.dropped, n.arrived)),
    measure("refused_share", "messages refused with 503", |n: &NodeOutcome| share(n.refused, n.arrived)),
    measure("resent_per_message", "copies sent on by own timers", |n: &NodeOutcome| {
        share(n.resent, n.arrived)
    }),
    measure("p_normal", "share of time in normal", |n: &NodeOutcome| n.state_shares()[0]),
    measure("p_overload", "share of time in overload", |n: &NodeOutcome| n.state_shares()[1]),
    measure("p_discard", "share of time in discard", |n: &NodeOutcome| n.state_shares()[2]),
    measure("return_time_s", "from entering overload until normal again", |n: &NodeOutcome| {
        n.returns.mean_s()
    }),
    measure("return_time_sd_s", "its standard deviation", |n: &NodeOutcome| n.returns.deviation_s()),
    measure("cycle_time_s", "from one entry into overload to the next", |n: &NodeOutcome| n.cycles.mean_s()),
    measure("mean_in_system", "number in the system as the gate counts it", NodeOutcome::mean_in_system),
    measure("longest_line", "the most messages that waited at once", |n: &NodeOutcome| n.longest_line as f64),
    measure("final_line", "messages that waited at the end", |n: &NodeOutcome| n.final_line as f64),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{OF_CALLS, OF_NODES, OF_RUNS};

    #[test]
    fn every_measure_has_a_name_of_its_own() {
        let names = OF_CALLS.iter().map(|m| m.name).chain(OF_RUNS.iter().map(|m| m.name));
        let names: Vec<_> = names.chain(OF_NODES.iter().map(|m| m.name)).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }
}
