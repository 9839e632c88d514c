//! Control at the edge: the place where a client-side overload algorithm plugs into the simulation.
//!
//! A stateful node may have a controller. It stands at the node's ingress, before gate and line, and is asked once about
//! each new request, with the time and the node that the request would go on to. What it holds back gets a 503 from this
//! node and costs it no service. It is told of every response to what it let through: the code, the time since the node sent
//! the request on, and what the next node announced with it (RFC 7339, RFC 7415), if that node does. Copies are not asked
//! about: a stateful node knows them, and what it let in once it does not refuse later.
//!
//! | an algorithm that | uses |
//! |---|---|
//! | learns from refusals only (DEOC) | `code` 503 against 200 |
//! | estimates load from probes (PEOC) | `next_probe`, `probe`; `is_probe`, `delay_ns` |
//! | is told what to hold back (RFC 7339 loss) | `announcement` |
//! | is told a rate (RFC 7415) | `announcement`, `now`, and a bucket of its own |
//!
//! A controller may also probe a node: it says when the next probe is due, the engine sends it, and the node serves it as
//! any other request. Its answer comes back with `is_probe`.
//!
//! Periods need no timer: a controller compares `now` with the end of its period whenever it is called. Time never runs
//! backwards. One controller serves all nodes that its node sends to, and is told which one is meant (`next`).
//!
//! Algorithms live in `overload`, where the product can use them, and `edge` adapts them; what stands here is how a
//! simulation asks them.

use std::fmt::Debug;

use overload::distributed::Announcement;
use overload::{Nanos, TokenBucket};

/// A new request that is about to enter a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The time.
    pub now: Nanos,
    /// Index of the node that it would go on to.
    pub next: usize,
    /// A number that spreads evenly over calls: below a threshold means inside a share.
    pub share_hash: u32,
}

/// A response to a request that the node has sent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// The time.
    pub now: Nanos,
    /// Index of the node that the request went to.
    pub next: usize,
    /// 200, 503, or 408 when the node's own timers have given up. 100 is not told.
    pub code: u16,
    /// Time since the node first sent the request on.
    pub delay_ns: Nanos,
    /// It answers a probe of this controller.
    pub is_probe: bool,
    /// What the answering node says about overload.
    pub announcement: Option<Announcement>,
}

/// Decides which new requests a node takes in.
pub trait Controller: Debug {
    /// Whether a new request may enter.
    fn admit(&mut self, request: &Request) -> bool;

    /// Notes a response.
    fn respond(&mut self, response: &Response);

    /// When the next probe of a node is due; `None` for never.
    fn next_probe(&mut self, _next: usize) -> Option<Nanos> {
        None
    }

    /// Whether the node shall be probed now.
    fn probe(&mut self, _now: Nanos, _next: usize) -> bool {
        false
    }
}

/// Makes the controller of a node at the start of a run; the same for all replications.
pub trait MakeController: Debug + Send + Sync {
    /// A fresh controller. The seed is the node's own for this purpose and run.
    fn make(&self, seed: u64) -> Box<dyn Controller>;

    /// Time between two probes of a node, if it probes: what a run with it costs.
    fn probe_period_ns(&self) -> Option<Nanos> {
        None
    }
}

/// A fixed cap on what a node takes in: the static throttle that adaptive control is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedCap {
    /// New requests a second.
    pub rate_per_s: u32,
    /// New requests at once.
    pub burst: u32,
}

impl MakeController for FixedCap {
    fn make(&self, _seed: u64) -> Box<dyn Controller> {
        Box::new(Cap(TokenBucket::new(self.rate_per_s, self.burst, 0)))
    }
}

#[derive(Debug)]
struct Cap(TokenBucket);

impl Controller for Cap {
    fn admit(&mut self, request: &Request) -> bool {
        self.0.take(request.now)
    }

    fn respond(&mut self, _response: &Response) {}
}
