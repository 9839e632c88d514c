//! How large a run would be: what it keeps in memory and how many events it takes, before it is run.
//!
//! A slip in a plan (a rate of 10^9, a buffer of 2^32, a phase of a nanosecond) must be an answer at once and not a
//! machine without memory. The estimates are rough and from above.

use super::NANOS_PER_S;
use super::network::{Node, Problem, Scenario, Source};
use super::rate::Rate;
use super::timers::{GIVE_UP_NS, Timers};
use crate::parameter::BUFFER_MAX;

/// Room of all lines together: some 500 MB.
const ROOM_ALL_MAX: usize = 4_000_000;
/// Calls that are remembered at once: some 2 GB.
const CALLS_MAX: f64 = 1e7;
/// Samples of a run.
const SAMPLES_MAX: f64 = 1e5;
/// Events of a plan with all its replications: days of a core.
pub(crate) const EVENTS_MAX: f64 = 1e12;

impl Rate {
    /// The highest it ever is, per second.
    fn highest_per_s(&self) -> f64 {
        match self {
            Self::Constant(rate) => *rate,
            Self::Steps(steps) => steps.iter().map(|step| step.1).fold(0.0, f64::max),
            Self::Modulated(phases) => phases.iter().map(|phase| phase.rate_per_s).fold(0.0, f64::max),
        }
    }

    /// How much it comes to in a span from the start, on average.
    fn expected(&self, span_s: f64) -> f64 {
        match self {
            Self::Constant(_) | Self::Modulated(_) => self.guess_per_s() * span_s,
            Self::Steps(steps) => {
                let ends = steps.iter().skip(1).map(|step| step.0).chain([f64::INFINITY]);
                let spans = steps.iter().zip(ends);
                spans.map(|(step, end)| step.1 * (end.min(span_s) - step.0).max(0.0)).sum()
            }
        }
    }

    /// How often its phase changes in a span.
    fn changes(&self, span_s: f64) -> f64 {
        match self {
            Self::Constant(_) | Self::Steps(_) => 0.0,
            Self::Modulated(phases) => {
                let circle_s: f64 = phases.iter().map(|phase| phase.sojourn_s).sum();
                phases.len() as f64 * span_s / circle_s
            }
        }
    }
}

impl Source {
    /// Messages that its calls may come to, with the timer and the service of each.
    fn events(&self, span_s: f64) -> f64 {
        self.rate.expected(span_s) * (2 * self.timers.sends_ns().len()) as f64 + self.rate.changes(span_s)
    }
}

impl Node {
    /// Events of the probes that its controller sends.
    fn probes(&self, span_s: f64) -> f64 {
        let period_ns = self.controller.as_ref().and_then(|controller| controller.probe_period_ns());
        period_ns.map_or(0.0, |period_ns| {
            let sends = Timers::Other.sends_ns().len() * self.routes.len();
            span_s * NANOS_PER_S / period_ns as f64 * (2 * sends) as f64
        })
    }
}

impl Scenario {
    /// Events from above, roughly; what is not a number counts as endless.
    pub(crate) fn events(&self) -> f64 {
        let span_s = self.duration_ns as f64 / NANOS_PER_S;
        let sources: f64 = self.sources.iter().map(|source| source.events(span_s)).sum();
        let nodes: f64 = self.nodes.iter().map(|node| node.rate.changes(span_s) + node.probes(span_s)).sum();
        // Each node on the way serves every message once more.
        sources * self.nodes.len().max(1) as f64 + nodes
    }

    /// What makes a run too large; for scenarios that are right otherwise.
    pub(super) fn size_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut add = |key: String, message: String| problems.push(Problem { key, message });
        let span_s = self.duration_ns as f64 / NANOS_PER_S;
        for node in &self.nodes {
            let room = node.capacity.new.max(node.capacity.copy);
            if room > BUFFER_MAX {
                let message = format!("has room for {room} messages; give at most {BUFFER_MAX}");
                add(format!("node.{}.gate", node.name), message);
            }
        }
        let room: usize = self.nodes.iter().map(|node| node.capacity.total()).sum();
        if problems.is_empty() && room > ROOM_ALL_MAX {
            problems.push(Problem {
                key: "node".to_owned(),
                message: format!("have room for {room} messages together; give at most {ROOM_ALL_MAX}"),
            });
        }
        let mut add = |key: String, message: String| problems.push(Problem { key, message });
        if let Some(sample_ns) = self.sample_ns.filter(|sample_ns| *sample_ns > 0) {
            let samples = self.duration_ns as f64 / sample_ns as f64 * self.nodes.len().max(1) as f64;
            if samples > SAMPLES_MAX {
                let least_s = span_s * self.nodes.len().max(1) as f64 / SAMPLES_MAX;
                let message = format!(
                    "is {}; in {span_s} s it must be at least {least_s}, or the samples fill the memory",
                    sample_ns as f64 / NANOS_PER_S
                );
                add("sample_s".to_owned(), message);
            }
        }
        // A message is on its way for no longer than by all hops one after the other.
        let hops = self.nodes.iter().flat_map(|node| &node.routes).map(|route| route.delay_ns as f64);
        let hops_ns: f64 = hops.sum();
        for source in &self.sources {
            let first_ns = source.routes.iter().map(|route| route.delay_ns as f64).fold(0.0, f64::max);
            let timers_ns = if source.timers == Timers::Once { 0.0 } else { GIVE_UP_NS as f64 };
            let lives_s = (2.0 * (first_ns + hops_ns) + timers_ns) / NANOS_PER_S;
            let calls = (source.rate.highest_per_s() * lives_s.min(span_s)).min(source.rate.expected(span_s));
            if calls > CALLS_MAX {
                let message = format!(
                    "keeps about {calls:.1e} calls in memory, for {lives_s} s each; there may be {CALLS_MAX:.0e} at a time"
                );
                add(format!("source.{}.rate_per_s", source.name), message);
            }
        }
        let events = self.events();
        // "Not at most" also takes what is not a number.
        let few = events <= EVENTS_MAX;
        if problems.is_empty() && !few {
            problems.push(Problem {
                key: "duration_s".to_owned(),
                message: format!(
                    "is {span_s}, in which rates and phases of the plan come to about {events:.0e} events; give a shorter one, or \
                     lower rates, for at most {EVENTS_MAX:.0e}"
                ),
            });
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use overload::{GateConfig, QueueCapacity, Threshold};

    use super::super::{Law, Node, Rate, Scenario, Timers};

    fn scenario() -> Scenario {
        let gate = GateConfig::Fifo { buffer: Threshold::Messages(10) };
        let node = Node::server("server", Rate::Constant(1.0), Law::Exponential, gate, 10);
        Scenario::single(Rate::Constant(1.0), Timers::Invite, node, 1_000_000_000_000)
    }

    #[test]
    fn what_would_fill_the_memory_or_take_days_is_refused_by_key() {
        let problem = |change: fn(&mut Scenario)| {
            let mut scenario = scenario();
            change(&mut scenario);
            let problems = scenario.problems();
            assert_eq!(problems.len(), 1, "{problems:?}");
            problems[0].to_string()
        };
        for (said, expected) in [
            (
                problem(|s| s.nodes[0].capacity = QueueCapacity { control: 0, new: u32::MAX, copy: 0 }),
                "node.server.gate has room for 4294967295 messages; give at most 1000000",
            ),
            (
                problem(|s| s.sample_ns = Some(1)),
                "sample_s is 0.000000001; in 1000 s it must be at least 0.01",
            ),
            (
                problem(|s| s.sources[0].rate = Rate::Constant(1e9)),
                "source.callers.rate_per_s keeps about 3.2e10 calls",
            ),
            (
                problem(|s| {
                    s.sources[0].timers = Timers::Once;
                    s.sources[0].rate = Rate::Constant(1e9);
                }),
                "duration_s is 1000, in which rates and phases of the plan come to about 2e12 events",
            ),
            (problem(|s| s.nodes[0].rate = "mmpp 1:1e-9, 2:1e-9".parse().unwrap()), "duration_s is 1000"),
        ] {
            assert!(said.starts_with(expected), "{said}");
        }
        let mut many = scenario();
        many.nodes[0].capacity = QueueCapacity { control: 0, new: 1_000_000, copy: 1_000_000 };
        many.nodes = vec![many.nodes[0].clone(), many.nodes[0].clone(), many.nodes[0].clone()];
        assert!(many.problems().iter().any(|problem| problem.key == "node"));
    }

    #[test]
    fn a_rate_in_steps_counts_with_the_time_of_each() {
        let rate: Rate = "steps 0:100, 30:1000, 50:0".parse().unwrap();
        assert!((rate.expected(40.0) - 13_000.0).abs() < 1e-9);
        assert!((rate.expected(1e6) - 23_000.0).abs() < 1e-9);
        assert!((rate.expected(10.0) - 1_000.0).abs() < 1e-9 && rate.highest_per_s() == 1000.0);
    }
}
