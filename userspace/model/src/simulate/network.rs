//! What is simulated: sources of calls, nodes that serve their messages, and the ways between them.
//!
//! ```text
//!   source ──► node ──► node ──► …            a node without a way on is a server: it answers
//!     ▲          │  gate · line · service
//!     └──────────┴── responses go back the way they came, after the same hop delays
//! ```
//!
//! The plain description, and everything that can be wrong with it; `engine` runs it. Names are those of plans
//! (`crate::plan`), so a message names a key that its reader has written.

use std::fmt;
use std::sync::Arc;

use overload::distributed::{RateShare, RateShareConfig};
use overload::{AnyGate, Discipline, GateConfig, Nanos, QueueCapacity};

use super::controller::MakeController;
use super::law::Law;
use super::rate::Rate;
use super::timers::Timers;

/// A way from a source or a node to a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Route {
    /// Index of the node.
    pub to: usize,
    /// The share of calls that take it; those of all routes of one place add up to 1. All messages of a call take the same.
    pub probability: f64,
    /// How long a message is on its way, in each direction.
    pub delay_ns: Nanos,
}

impl Route {
    /// The only way, without delay.
    #[must_use]
    pub const fn to(node: usize) -> Self {
        Self { to: node, probability: 1.0, delay_ns: 0 }
    }
}

/// Where calls come from.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its name in plans and reports.
    pub name: String,
    /// λ over time, originals a second.
    pub rate: Rate,
    /// How the times between originals spread: exponential for Poisson and MMPP.
    pub law: Law,
    /// When its clients send again.
    pub timers: Timers,
    /// Where its requests go.
    pub routes: Vec<Route>,
}

/// What a node with a way on does with a request that it has served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum State {
    /// Forwards every message, copies too.
    #[default]
    Stateless,
    /// Forwards each call once, sends again by its own timers, says 100 Trying to an INVITE, absorbs copies.
    Stateful,
}

/// What a node's responses say about overload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Announces {
    /// Which share of the requests its gate wants to be spared (RFC 7339).
    Loss {
        /// How long that holds.
        validity_ms: u32,
    },
    /// How many requests a second the sender may send (RFC 7415).
    Rate(RateShareConfig),
}

/// A place that serves messages.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its name in plans and reports.
    pub name: String,
    /// μ over time, services a second.
    pub rate: Rate,
    /// How service times spread.
    pub law: Law,
    /// The gate, which also sets the order of service.
    pub gate: GateConfig,
    /// The waiting line's room. Under FIFO the total counts.
    pub capacity: QueueCapacity,
    /// Originals that have waited longer are refused instead of served, as the worker does it; `None` for never.
    pub max_wait_ns: Option<Nanos>,
    /// What saying no costs the server; 0 is a refusal in front of it. Paid refusals wait in the control lane.
    pub refusal_ns: Nanos,
    /// What its responses say about overload, if anything.
    pub announces: Option<Announces>,
    /// What is done with a served request, if there is a way on.
    pub state: State,
    /// Decides at the ingress of a stateful node which new requests may go on.
    pub controller: Option<Arc<dyn MakeController>>,
    /// Where served requests go; none for a server, which answers.
    pub routes: Vec<Route>,
}

impl Node {
    /// A server with this gate whose line holds `room` originals and as many copies, or `room` messages under FIFO.
    #[must_use]
    pub fn server(name: &str, rate: Rate, law: Law, gate: GateConfig, room: u32) -> Self {
        let copy = if gate.discipline() == Discipline::Fifo { 0 } else { room };
        Self {
            name: name.to_owned(),
            rate,
            law,
            gate,
            capacity: QueueCapacity { control: 0, new: room, copy },
            max_wait_ns: None,
            refusal_ns: 0,
            announces: None,
            state: State::Stateless,
            controller: None,
            routes: Vec::new(),
        }
    }

    /// The most messages that the gate may count.
    pub(super) fn room(&self) -> u32 {
        match self.gate.discipline() {
            Discipline::Fifo => u32::try_from(self.capacity.total()).unwrap_or(u32::MAX),
            Discipline::Priority => self.capacity.new,
        }
    }
}

/// One run.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Where calls come from; at least one.
    pub sources: Vec<Source>,
    /// Who serves them.
    pub nodes: Vec<Node>,
    /// How long callers call.
    pub duration_ns: Nanos,
    /// Time before this is simulated but not measured, and calls sent before it do not count.
    pub warm_up_ns: Nanos,
    /// Calls sent in this last span are simulated but do not count, because their fate may be open at the end.
    pub cool_down_ns: Nanos,
    /// How often the lines' lengths are noted; `None` for never.
    pub sample_ns: Option<Nanos>,
    /// The same seed gives the same run.
    pub seed: u64,
}

impl Scenario {
    /// Poisson callers of one rate before one node.
    #[must_use]
    pub fn single(rate: Rate, timers: Timers, node: Node, duration_ns: Nanos) -> Self {
        let routes = vec![Route::to(0)];
        Self {
            sources: vec![Source { name: "callers".to_owned(), rate, law: Law::Exponential, timers, routes }],
            nodes: vec![node],
            duration_ns,
            warm_up_ns: 0,
            cool_down_ns: 0,
            sample_ns: None,
            seed: 1,
        }
    }

    /// Whether a call sent at this time counts.
    pub(super) const fn counts(&self, sent: Nanos) -> bool {
        sent >= self.warm_up_ns && sent < self.duration_ns.saturating_sub(self.cool_down_ns)
    }

    /// Time in which calls that count are sent.
    #[must_use]
    pub const fn counted_ns(&self) -> Nanos {
        self.duration_ns.saturating_sub(self.cool_down_ns).saturating_sub(self.warm_up_ns)
    }

    /// Everything that is wrong.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Problems::default();
        let seconds = |ns: Nanos| ns as f64 / 1e9;
        if self.counted_ns() == 0 {
            problems.add(
                "duration_s",
                format!(
                    "is {}; it must be above warm_up_s = {} and cool_down_s = {} together",
                    seconds(self.duration_ns),
                    seconds(self.warm_up_ns),
                    seconds(self.cool_down_ns)
                ),
            );
        }
        if self.sample_ns == Some(0) {
            problems.add("sample_s", "is 0; it must be above 0".to_owned());
        }
        if self.sources.is_empty() {
            problems.add("source", "is missing; there must be at least one".to_owned());
        }
        for source in &self.sources {
            let key = |name: &str| format!("source.{}.{name}", source.name);
            problems.extend(&key("rate_per_s"), source.rate.problem());
            problems.extend(&key("cv2"), source.law.problem());
            self.check_routes(&key("to"), &source.routes, &mut problems);
            if source.routes.is_empty() {
                problems.add(&key("to"), "is missing; name the node that its requests go to".to_owned());
            }
        }
        for node in &self.nodes {
            self.check_node(node, &mut problems);
        }
        if let Some(node) = self.without_end() {
            problems.add(
                &format!("node.{}.to", self.nodes[node].name),
                "leads into a circle; calls must not go in circles".to_owned(),
            );
        }
        if problems.0.is_empty() {
            problems.0 = self.size_problems();
        }
        problems.0
    }

    fn check_node(&self, node: &Node, problems: &mut Problems) {
        let key = |name: &str| format!("node.{}.{name}", node.name);
        problems.extend(&key("rate_per_s"), node.rate.problem());
        problems.extend(&key("cv2"), node.law.problem());
        self.check_routes(&key("to"), &node.routes, problems);
        if node.controller.is_some() && (node.state == State::Stateless || node.routes.is_empty()) {
            problems.add(
                &key("control"),
                "needs state = \"stateful\" and a way on (to), since it learns from the responses".to_owned(),
            );
        }
        if let Some(Announces::Rate(config)) = &node.announces
            && let Err(error) = RateShare::new(config)
        {
            for problem in error.problems {
                problems.add(&key("announces"), format!("cannot be: {problem}"));
            }
        }
        if let Err(error) = AnyGate::new(&node.gate, node.room(), node.rate.guess_per_s()) {
            for problem in error.problems {
                problems.add(&key("gate"), format!("cannot be: {}", in_plan_words(&problem.to_string())));
            }
        }
    }

    fn check_routes(&self, key: &str, routes: &[Route], problems: &mut Problems) {
        let sum: f64 = routes.iter().map(|route| route.probability).sum();
        let wrong = |route: &&Route| !(0.0..=1.0).contains(&route.probability);
        if let Some(route) = routes.iter().find(wrong) {
            let probability = route.probability;
            problems.add(key, format!("has a share of {probability}; a share is between 0 and 1"));
        } else if !routes.is_empty() && (sum - 1.0).abs() > 1e-9 {
            problems.add(key, format!("has shares that add up to {sum}; they must add up to 1"));
        }
        if let Some(route) = routes.iter().find(|route| route.to >= self.nodes.len()) {
            problems.add(key, format!("leads to node {}; there are {}", route.to, self.nodes.len()));
        }
    }

    /// A node from which calls never come to an end: on a circle, or before one.
    fn without_end(&self) -> Option<usize> {
        let mut ends = vec![false; self.nodes.len()];
        for _ in &self.nodes {
            for (index, node) in self.nodes.iter().enumerate() {
                ends[index] = node.routes.iter().all(|route| ends.get(route.to).copied().unwrap_or(true));
            }
        }
        ends.iter().position(|ends| !ends)
    }
}

/// A problem of a gate's configuration with the names that plans and the product's configuration have for its fields.
fn in_plan_words(problem: &str) -> String {
    [("admit_below", "low"), ("shed_at", "high"), ("discard_at", "buffer"), ("share =", "admit =")]
        .into_iter()
        .fold(problem.to_owned(), |text, (field, key)| text.replace(field, key))
}

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key to change.
    pub key: String,
    /// What is wrong with it and what would be right.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key, self.message)
    }
}

/// A scenario that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct ScenarioError {
    /// Never empty.
    pub problems: Vec<Problem>,
}

#[derive(Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn add(&mut self, key: &str, message: String) {
        self.0.push(Problem { key: key.to_owned(), message });
    }

    fn extend(&mut self, key: &str, message: Option<String>) {
        self.0.extend(message.map(|message| Problem { key: key.to_owned(), message }));
    }
}

#[cfg(test)]
mod tests {
    use overload::{GateConfig, Threshold};

    use super::{Node, Route, Scenario, State};
    use crate::simulate::{Law, Rate, Timers};

    fn scenario() -> Scenario {
        let gate = GateConfig::Fifo { buffer: Threshold::Messages(10) };
        let node = Node::server("server", Rate::Constant(1.0), Law::Exponential, gate, 10);
        Scenario::single(Rate::Constant(1.0), Timers::Invite, node, 1_000_000_000)
    }

    #[track_caller]
    fn assert_problem(change: impl Fn(&mut Scenario), key: &str, part: &str) {
        let mut wrong = scenario();
        change(&mut wrong);
        let problems = wrong.problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].key, key);
        assert!(problems[0].message.contains(part), "{}", problems[0]);
    }

    #[test]
    fn what_is_right_has_no_problem() {
        assert_eq!(scenario().problems(), []);
    }

    #[test]
    fn every_wrong_number_is_named_with_its_range() {
        assert_problem(|s| s.duration_ns = 0, "duration_s", "above warm_up_s = 0");
        assert_problem(|s| s.cool_down_ns = s.duration_ns, "duration_s", "cool_down_s = 1");
        assert_problem(|s| s.sample_ns = Some(0), "sample_s", "above 0");
        assert_problem(|s| s.sources.clear(), "source", "at least one");
        assert_problem(
            |s| s.sources[0].rate = Rate::Constant(-1.0),
            "source.callers.rate_per_s",
            "between 1e-9 and 1e9",
        );
        assert_problem(|s| s.sources[0].law = Law::Gamma { cv2: 0.0 }, "source.callers.cv2", "above 0");
        assert_problem(|s| s.sources[0].routes.clear(), "source.callers.to", "name the node");
        assert_problem(|s| s.sources[0].routes[0].to = 1, "source.callers.to", "there are 1");
        assert_problem(|s| s.sources[0].routes[0].probability = 0.5, "source.callers.to", "add up to 1");
        assert_problem(|s| s.sources[0].routes[0].probability = 1.5, "source.callers.to", "between 0 and 1");
        assert_problem(
            |s| s.nodes[0].rate = Rate::Constant(f64::NAN),
            "node.server.rate_per_s",
            "between 1e-9 and 1e9",
        );
        assert_problem(|s| s.nodes[0].capacity.new = 9, "node.server.gate", "buffer = 10 is more than the 9");
    }

    #[test]
    fn ways_in_circles_are_refused() {
        let circle = |s: &mut Scenario| {
            let mut second = s.nodes[0].clone();
            second.name = "second".to_owned();
            second.routes = vec![Route::to(0)];
            s.nodes[0].routes = vec![Route::to(1)];
            s.nodes[0].state = State::Stateful;
            s.nodes.push(second);
        };
        assert_problem(circle, "node.server.to", "circles");
    }
}
