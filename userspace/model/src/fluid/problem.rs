//! What flows, and which scenarios of the event simulation can be seen as a flow.

use overload::{Discipline, GateConfig, NANOS_PER_S, Nanos, Threshold};

use super::{SLOT_NS, SLOT_S};
use crate::parameter::{self, ParameterError};
use crate::simulate::{Node, Rate, Scenario, State, Timers};

/// A server on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct Hop {
    /// μ over time, services a second.
    pub rate: Rate,
    /// FIFO with one buffer, or priority with one for originals and one for copies.
    pub discipline: Discipline,
    /// B, messages.
    pub buffer: f64,
    /// What a first server of two does with what it has served.
    pub state: State,
}

/// Clients and one or two servers.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// λ over time, calls a second.
    pub rate: Rate,
    /// When clients send again.
    pub timers: Timers,
    /// The servers in the order of the way.
    pub hops: Vec<Hop>,
    /// How long clients call.
    pub duration_ns: Nanos,
}

/// The longest flow: a slot keeps some 300 bytes for each server.
const SECONDS_MAX: u64 = 10_000;

/// Why a scenario is no flow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FluidError {
    /// More or less than one source.
    #[error("source: the fluid model has exactly one, here are {0}")]
    Sources(usize),
    /// The way is not a line of one or two servers.
    #[error("node: the fluid model has one server or two in a row, with a single way and without control")]
    Way,
    /// A rate depends on chance.
    #[error("{0}: a modulated rate depends on chance; the fluid model takes a number or steps")]
    Rate(String),
    /// A gate that the equations do not know, or a buffer in time.
    #[error("{0}: the fluid model knows the gates fifo and tail_drop with a buffer in messages")]
    Gate(String),
    /// More slots than there is memory for.
    #[error(
        "run.duration_s: {0} is too long for the fluid model, which keeps every 10 ms; give at most {SECONDS_MAX}"
    )]
    Length(u64),
    /// Nobody calls.
    #[error("{0}: nobody calls at this rate; the fluid model needs a rate above 0")]
    Nobody(String),
    /// 100 Trying is for INVITE only.
    #[error("{0}: behind a stateful server the fluid model knows INVITE clients only")]
    Timers(String),
}

impl Flow {
    /// The reference scenario S2: 200 calls a second; the server does 100 a second until second 30, then 1000.
    #[must_use]
    pub fn slowdown(discipline: Discipline, buffer: f64) -> Self {
        Self::reference(
            Rate::Constant(200.0),
            Rate::Steps(vec![(0.0, 100.0), (30.0, 1000.0)]),
            discipline,
            buffer,
        )
    }

    /// The reference scenario S1: a server of 1000 a second; 200 calls a second, but 2000 from second 30 to 40.
    #[must_use]
    pub fn burst(discipline: Discipline, buffer: f64) -> Self {
        let calls = Rate::Steps(vec![(0.0, 200.0), (30.0, 2000.0), (40.0, 200.0)]);
        Self::reference(calls, Rate::Constant(1000.0), discipline, buffer)
    }

    fn reference(calls: Rate, service: Rate, discipline: Discipline, buffer: f64) -> Self {
        let hop = Hop { rate: service, discipline, buffer, state: State::Stateless };
        Self { rate: calls, timers: Timers::Invite, hops: vec![hop], duration_ns: 300_000_000_000 }
    }

    /// The flow that a scenario is on average.
    ///
    /// # Errors
    /// The first thing that the fluid model does not know.
    pub fn of(scenario: &Scenario) -> Result<Self, FluidError> {
        Self::with_gates(scenario, hop)
    }

    /// The same, whatever the gates are: for [`Flow::behind`].
    ///
    /// # Errors
    /// The first thing that the fluid model does not know.
    pub fn of_network(scenario: &Scenario) -> Result<Self, FluidError> {
        Self::with_gates(scenario, |node| {
            let buffer = Threshold::Messages(1);
            hop(&Node { gate: GateConfig::Fifo { buffer }, ..node.clone() })
        })
    }

    /// The flow with this discipline and buffer at every server.
    ///
    /// # Errors
    /// When the buffer is outside its range.
    pub fn behind(mut self, discipline: Discipline, buffer: u32) -> Result<Self, ParameterError> {
        let buffer = f64::from(parameter::buffer(buffer, 1)?);
        self.hops.iter_mut().for_each(|hop| (hop.discipline, hop.buffer) = (discipline, buffer));
        Ok(self)
    }

    fn with_gates(
        scenario: &Scenario,
        hop: impl Fn(&Node) -> Result<Hop, FluidError>,
    ) -> Result<Self, FluidError> {
        let [source] = scenario.sources.as_slice() else {
            return Err(FluidError::Sources(scenario.sources.len()));
        };
        if source.rate.at(0.0).is_none() {
            return Err(FluidError::Rate(format!("source.{}.rate_per_s", source.name)));
        }
        let seconds = scenario.duration_ns / NANOS_PER_S;
        if seconds > SECONDS_MAX {
            return Err(FluidError::Length(seconds));
        }
        let way = way(scenario).ok_or(FluidError::Way)?;
        let stateful = way.iter().rev().skip(1).any(|node| node.state == State::Stateful);
        if stateful && source.timers != Timers::Invite {
            return Err(FluidError::Timers(format!("source.{}.timers", source.name)));
        }
        let hops = way.into_iter().map(&hop).collect::<Result<_, _>>()?;
        let flow = Self {
            rate: source.rate.clone(),
            timers: source.timers,
            hops,
            duration_ns: scenario.duration_ns,
        };
        if (0..flow.slots()).all(|slot| flow.calls_in(slot) <= 0.0) {
            return Err(FluidError::Nobody(format!("source.{}.rate_per_s", source.name)));
        }
        Ok(flow)
    }

    /// B_safe: the longest FIFO buffer from which a single server recovers after any disturbance, at the rates of the end, in
    /// messages; infinite where no buffer is fatal, none for two servers.
    ///
    /// A line of B takes B/μ, and calls that wait for longer than T_j send j copies. With j the most copies for which
    /// λ(1+j) < μ the line falls while it is shorter than μ T_(j+1).
    #[must_use]
    pub fn safe_buffer(&self) -> Option<f64> {
        let [hop] = self.hops.as_slice() else { return None };
        let end_s = self.duration_ns as f64 / NANOS_PER_S as f64;
        let (calls, services) = (self.rate.at(end_s)?, hop.rate.at(end_s)?);
        let sends_ns = self.timers.sends_ns();
        let bearable =
            (1..=sends_ns.len()).take_while(|messages| calls * (*messages as f64) < services).count();
        Some(match sends_ns.get(bearable) {
            None => f64::INFINITY,
            Some(next_ns) => services * (*next_ns as f64 / NANOS_PER_S as f64),
        })
    }

    /// How many slots it takes.
    pub(super) const fn slots(&self) -> usize {
        (self.duration_ns / SLOT_NS) as usize
    }

    /// Calls that are made in a slot.
    pub(super) fn calls_in(&self, slot: usize) -> f64 {
        self.rate.at(slot as f64 * SLOT_S).unwrap_or(0.0) * SLOT_S
    }

    /// T_j.
    pub(super) fn sends(&self) -> Vec<usize> {
        self.timers.sends_ns().iter().map(|send_ns| (send_ns / SLOT_NS) as usize).collect()
    }
}

/// The nodes that all calls go through, if these are one or two in a row.
fn way(scenario: &Scenario) -> Option<Vec<&Node>> {
    let mut routes = &scenario.sources.first()?.routes;
    let mut way = Vec::new();
    while let [route] = routes.as_slice() {
        let node = scenario.nodes.get(route.to)?;
        if route.delay_ns > 0 || node.controller.is_some() || node.max_wait_ns.is_some() || way.len() == 2 {
            return None;
        }
        way.push(node);
        routes = &node.routes;
    }
    (routes.is_empty() && way.len() == scenario.nodes.len()).then_some(way)
}

fn hop(node: &Node) -> Result<Hop, FluidError> {
    if node.rate.at(0.0).is_none() {
        return Err(FluidError::Rate(format!("node.{}.rate_per_s", node.name)));
    }
    let buffer = match node.gate {
        GateConfig::Fifo { buffer: Threshold::Messages(buffer) }
        | GateConfig::TailDrop { buffer: Threshold::Messages(buffer) } => f64::from(buffer),
        _ => return Err(FluidError::Gate(format!("node.{}.gate", node.name))),
    };
    Ok(Hop { rate: node.rate.clone(), discipline: node.gate.discipline(), buffer, state: node.state })
}
