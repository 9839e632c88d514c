//! The fluid model: calls as amounts that flow, with the averages of the event simulation and none of its noise.
//!
//! In the manner of Hong, Huang, Yan (NOMS 2010, TOMACS 2011) on SIP retransmission; the equations are those of this
//! project.
//!
//! # Assumptions
//!
//! Time goes in slots of dt = 10 ms, of which all timers of RFC 3261 are multiples. Amounts are real numbers and arrive,
//! are accepted and served in proportion: nothing is random. Lines are first in, first out; under priority copies are
//! served with the capacity that originals leave over. Clients send by [`Timers`] until the first service of any of
//! their messages (at the last server). Hops take no time.
//!
//! # Symbols
//!
//! | symbol | meaning |
//! |---|---|
//! | cohort i | the originals of slot i |
//! | T_j | when copy j is sent, in slots after the original; T_0 = 0 |
//! | n_{i,j} | the amount of cohort i whose copies 0 to j−1 were all dropped |
//! | w_{i,j} | the amount of cohort i whose first accepted copy is j |
//! | group τ | what a line accepts in slot τ; it leaves as a whole before the next group |
//! | u_τ | the share of group τ that has not left yet |
//! | Q, B, A | length of a line, its buffer, what arrives in a slot |
//! | p | the share of A that is accepted |
//!
//! # One server
//!
//! Copy j of cohort i falls due in slot t = i + T_j, for the amount that has no answer: n_{i,j} of which nothing was
//! accepted, and Σ_{j'<j} w_{i,j'} u_{i+T_j'} which wait. Of all that arrives the share p = min(1, (B − Q + served)/A) is
//! accepted, served = min(μ dt, Q + A). Then w_{i,j} = p n_{i,j} and n_{i,j+1} = (1 − p) n_{i,j}.
//!
//! # Two servers
//!
//! A *stateful* first server forwards each INVITE once, when it has served it, and its 100 Trying ends the client's
//! timers; it then is the client of the second server, with timers of its own: two single servers in a row (`server`). A
//! cohort of the second server is as old as its calls are on average. A *stateless* one forwards every message, and the client goes on until the second server has answered (`stateless`).

mod line;
mod problem;
mod server;
mod stateless;

use overload::Nanos;

pub use self::problem::{Flow, FluidError, Hop};
use self::server::Server;
use crate::simulate::{GIVE_UP_NS, State};

/// Nanoseconds of a slot.
pub const SLOT_NS: Nanos = 10_000_000;

/// Seconds of a slot.
const SLOT_S: f64 = 0.01;

/// Slots until a client gives up.
const GIVE_UP: usize = (GIVE_UP_NS / SLOT_NS) as usize;

/// A point of the lines' course.
#[derive(Debug, Clone, PartialEq)]
pub struct FluidPoint {
    /// The time, seconds.
    pub at_s: f64,
    /// Messages that wait, by server.
    pub lines: Vec<f64>,
}

/// What a flow comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct FluidOutcome {
    /// Copies that clients sent, for each call.
    pub copies_per_call: f64,
    /// First send to first service at the last server, over all that was served.
    pub mean_delay_s: f64,
    /// The most that waited at once, by server.
    pub peak_lines: Vec<f64>,
    /// What waits at the end, by server.
    pub final_lines: Vec<f64>,
    /// Of the calls sent 32 s before the end or earlier: the share without an answer after 32 s.
    pub failed_share: f64,
    /// The lines at the end of each slot.
    pub series: Vec<FluidPoint>,
}

/// Calls that enter a server for the first time in a slot, and the mean time since their clients sent them, in slots.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Entering {
    amount: f64,
    age: f64,
}

impl Entering {
    const NOTHING: Self = Self { amount: 0.0, age: 0.0 };

    /// Both together.
    fn and(self, other: Self) -> Self {
        let amount = self.amount + other.amount;
        if amount > 0.0 {
            Self { amount, age: (self.amount * self.age + other.amount * other.age) / amount }
        } else {
            Self::NOTHING
        }
    }
}

/// Sums over all slots.
#[derive(Debug, Clone, Default)]
struct Totals {
    calls: f64,
    copies: f64,
    answered: f64,
    /// Σ amount · slots.
    delay_slots: f64,
    /// Of the calls that are old enough: how many there are, how many have failed.
    judged: f64,
    failed: f64,
}

impl Totals {
    fn outcome(&self, series: Vec<FluidPoint>) -> FluidOutcome {
        let servers = series.first().map_or(0, |point| point.lines.len());
        let course = |server: usize| series.iter().map(move |point| point.lines[server]);
        FluidOutcome {
            copies_per_call: self.copies / self.calls,
            mean_delay_s: self.delay_slots * SLOT_S / self.answered,
            peak_lines: (0..servers).map(|server| course(server).fold(0.0, f64::max)).collect(),
            final_lines: (0..servers).filter_map(|server| course(server).next_back()).collect(),
            failed_share: self.failed / self.judged,
            series,
        }
    }
}

/// Follows a flow to its end.
#[must_use]
pub fn solve(flow: &Flow) -> FluidOutcome {
    match flow.hops.as_slice() {
        [first, second] if first.state == State::Stateless => stateless::solve(flow, first, second),
        hops => in_a_row(flow, hops),
    }
}

/// One server, or several of which each is the client of the next.
fn in_a_row(flow: &Flow, hops: &[Hop]) -> FluidOutcome {
    let mut servers: Vec<Server> = hops.iter().map(|hop| Server::new(flow, hop)).collect();
    let mut series = Vec::with_capacity(flow.slots());
    for slot in 0..flow.slots() {
        let mut entering = Entering { amount: flow.calls_in(slot), age: 0.0 };
        for server in &mut servers {
            entering = server.step(slot, entering);
        }
        let lines = servers.iter().map(Server::waiting).collect();
        series.push(FluidPoint { at_s: (slot + 1) as f64 * SLOT_S, lines });
    }
    let (Some(first), Some(last)) = (servers.first(), servers.last()) else {
        return Totals::default().outcome(series);
    };
    let totals = Totals {
        calls: first.entered,
        copies: first.copies,
        answered: last.left,
        delay_slots: last.delay_slots,
        judged: first.judged,
        failed: servers.iter().map(|server| server.failed).sum(),
    };
    totals.outcome(series)
}

#[cfg(test)]
mod tests;
