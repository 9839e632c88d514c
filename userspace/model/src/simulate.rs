//! Event simulation: clients with the timers of RFC 3261, nodes that serve them, and in every node the gate and the
//! waiting line that run live.
//!
//! ```text
//!   originals ─┐                     ┌─ response: the client stops
//!              ├─► gate ─► line ─► server ─► answer, or the next node
//!   copies ────┘    └─ shed: 503, the client stops; full: dropped, the client goes on
//! ```
//!
//! Time is in integer nanoseconds, events at one time come in the order of their insertion, and each source and node has
//! a random stream for each purpose, so variants of a scenario see the same callers.
//!
//! In the order in which a reader meets them: `network` what is simulated, `rate`, `law` and `timers` its parts,
//! `controller` where control at the edge plugs in; `engine` the run, `station` one node at work, `transaction` who waits
//! for a response, `agenda` and `lanes` what happens next, `stream` the dice; `outcome` what was seen, `measure` by which names,
//! `replicate` how sure that is; `size` what would be too large to run.
//!
//! # Assumptions
//!
//! - Hops take a fixed time and lose nothing. Responses cost no service and do not queue.
//! - A copy is known as one (it carries the marker). Copies are served like originals and cost as much, also when their
//!   call was answered long ago.
//! - A call is answered by the first service of any of its messages at the last node of its way; it has failed if that takes
//!   its client more than 64·T1, also where 100 Trying has ended the client's timer B (RFC 3261 section 17.1.1.2).
//! - A node serves one message at a time. The number in the system that its gate sees is what `overload` documents:
//!   waiting originals plus the message in service under priority, everything under FIFO.
//! - Nobody cancels: a client that gives up leaves its messages in the lines.

mod agenda;
mod controller;
mod edge;
mod engine;
mod lanes;
mod law;
mod measure;
mod network;
mod outcome;
mod rate;
mod replicate;
mod size;
mod station;
mod stream;
mod timers;
mod transaction;

pub use controller::{Controller, FixedCap, MakeController, Request, Response};
pub use edge::EdgeControl;
pub use engine::run;
pub use law::Law;
pub use measure::{Counted, Measure, OF_CALLS, OF_NODES, OF_RUNS};
pub use network::{Announces, Node, Problem, Route, Scenario, ScenarioError, Source, State};
pub use outcome::{Calls, NodeOutcome, Outcome, Sample, Times};
pub use rate::{ParseRateError, Phase, Rate};
pub use replicate::{Estimate, replicate};
pub(crate) use size::EVENTS_MAX;
pub use timers::{GIVE_UP_NS, T1_NS, Timers};

/// Nanoseconds in a second, for times that are no whole nanoseconds yet.
pub(crate) const NANOS_PER_S: f64 = overload::NANOS_PER_S as f64;

#[cfg(test)]
mod tests;
