//! A service at one worker: its waiting queue, its gate, its server and its counters.
//!
//! A lane decides nothing by itself: gates, queues and credit are the pure ones of `overload`. It holds
//! them together and says how often the server is looked at.

use std::sync::Arc;

use overload::{
    AdmittedCalls, AnyGate, CallQueue, Credit, Gate, GateState, GateTimes, GateWord, Inquiry, Lane as Queue,
    Mix, Pace, ServerState,
};
use sip::{Class, Datagram, Marker, Seed};

use crate::body::Body;
use crate::change::LaneChange;
use crate::config::Monitored;
use crate::counters::{LaneCounters, Outcome};
use crate::handoff::Handoff;
use crate::limits::{self, SourceLimits};
use crate::monitor::Monitor;
use crate::orders::Orders;
use crate::picks::Picks;
use crate::reply_policy::ReplyPolicy;
use crate::transactions::Entry;

/// A look at the server costs about a microsecond (one netlink exchange), so it is taken at most this often.
/// Longer: a fast server idles between looks. Shorter: looks eat the core.
const LOOK_INTERVAL_NS: u64 = 50_000;
/// With nothing waiting here the server is only watched so that n falls as it works off what it has.
const DRAIN_LOOK_INTERVAL_NS: u64 = 1_000_000;
/// With nothing anywhere, so that a server that went away is known before the next request comes.
const IDLE_LOOK_INTERVAL_NS: u64 = 900_000_000;
/// While the server is away, the first request after its return waits for up to this long; looking more often
/// would only burn CPU beside a dead server.
const AWAY_LOOK_INTERVAL_NS: u64 = 10_000_000;
/// Looks at a server that gets its messages past sipweir, while its queue is empty. Longer: bursts are not seen, and the
/// gate would have reacted later than it would. Shorter: more wake-ups for nothing.
const MONITOR_LOOK_INTERVAL_NS: u64 = 5_000_000;

/// A message that waits, with what the worker must know to hand it over or to answer it.
#[derive(Debug)]
pub struct Waiting {
    /// The packet.
    pub body: Body,
    /// Where its datagram lies.
    pub datagram: Datagram,
    /// Its class, for the counters.
    pub class: Class,
    /// The marker, which is removed before hand-off.
    pub marker: Option<Marker>,
    /// The request whose table entry follows this message.
    pub txn: Entry,
    /// More messages of its call are to be expected when the server has it.
    pub begins_call: bool,
}

/// One service at one worker.
#[derive(Debug)]
pub struct Lane {
    /// The service's name in the configuration.
    pub name: String,
    /// Who waits.
    pub queue: CallQueue<Waiting>,
    /// Who is admitted.
    pub gate: AnyGate,
    /// How long it was in each state.
    pub gate_times: GateTimes,
    /// How many more the server may get.
    pub credit: Credit,
    /// The way to it.
    pub handoff: Handoff,
    /// Which part of what it gets are originals.
    pub mix: Mix,
    /// What the shed ones are told, and how many of them.
    pub reply: ReplyPolicy,
    /// Who asks the transaction table.
    pub inquiry: Inquiry,
    /// How much control traffic a source may send with privilege.
    pub limits: SourceLimits,
    /// Whose control traffic keeps it above that.
    pub calls: AdmittedCalls,
    /// Longest wait of an original.
    pub max_wait_ns: u64,
    /// Longest wait of a copy.
    pub copy_wait_ns: u64,
    /// Read by the control thread.
    pub counters: Arc<LaneCounters>,
    /// Whose packets are only watched.
    pub monitored: Monitored,
    /// The line that would wait, while originals are only watched.
    pub monitor: Option<Monitor>,
    /// Requests whose answer is timed, if answers are seen.
    pub picks: Option<Picks>,
    /// What the main thread says of the server's health.
    pub orders: Arc<Orders>,
    /// How fast originals are handed over, by these orders.
    pub pace: Pace,
    /// Whether the server has a socket and answers no probes, by these orders.
    pub is_silent: bool,
    /// When the server was looked at last.
    pub looked_ns: u64,
}

impl Lane {
    /// n of the gate, in originals: those that wait here, and their part of what is at the server. With one queue for
    /// all it is everything.
    #[must_use]
    pub fn in_system(&self) -> usize {
        if let Some(monitor) = &self.monitor {
            return monitor.queue.in_system();
        }
        let at_server = self.credit.at_server();
        match self.gate.discipline() {
            overload::Discipline::Priority => {
                // A share of a u32 is a u32.
                self.queue.len_of(Queue::New) + (f64::from(at_server) * self.mix.share()).round() as usize
            }
            overload::Discipline::Fifo => self.queue.len() + at_server as usize,
        }
    }

    /// Goes on by another configuration, and leaves there what was replaced.
    pub fn change(&mut self, change: &mut LaneChange, now_ns: u64) {
        self.credit.reconfigure(change.credit);
        match (&mut self.monitor, &change.monitor) {
            (Some(monitor), Some(_)) => monitor.queue.guess(change.credit.rate.initial_per_s),
            _ => std::mem::swap(&mut self.monitor, &mut change.monitor),
        }
        // By the new line, if there is one now.
        let in_system = self.in_system();
        change.gate.succeed(&self.gate, in_system);
        change.gate.set_service_rate(self.service_rate_per_s());
        std::mem::swap(&mut self.gate, &mut change.gate);
        self.reply.change(&mut change.reply, now_ns);
        self.limits.change(&mut change.caps);
        (self.max_wait_ns, self.copy_wait_ns) = (change.max_wait_ns, change.copy_wait_ns);
        self.monitored = change.monitored;
        // The next look grants by the new target.
        self.looked_ns = 0;
    }

    /// Looks at the server if it is time to. `in_flight` is what the hand-off device has not delivered yet.
    pub fn look_if_due(&mut self, in_flight: u32, now_ns: u64) {
        let was_silent = std::mem::replace(&mut self.is_silent, self.orders.is_silent());
        let interval_ns = match self.server() {
            _ if self.is_silent != was_silent => 0,
            ServerState::Missing | ServerState::Down => AWAY_LOOK_INTERVAL_NS,
            ServerState::Up if !self.queue.is_empty() => LOOK_INTERVAL_NS,
            ServerState::Up if self.credit.at_server() > 0 => DRAIN_LOOK_INTERVAL_NS,
            ServerState::Up if self.monitor.is_some() => MONITOR_LOOK_INTERVAL_NS,
            ServerState::Up => IDLE_LOOK_INTERVAL_NS,
        };
        if now_ns.saturating_sub(self.looked_ns) < interval_ns {
            return;
        }
        self.looked_ns = now_ns;
        self.mix.forget_if_old(now_ns);
        let look = self.handoff.look(&mut self.credit, in_flight, now_ns);
        let limit_per_s = self.orders.limit_per_s();
        if self.pace.limit_per_s() != limit_per_s {
            self.pace.set(limit_per_s);
            self.gate.set_service_rate(self.service_rate_per_s());
        }
        self.counters.server_drops.add(look.dropped);
        if let Some(monitor) = &mut self.monitor {
            monitor.look(now_ns, self.credit.at_server().into(), look.dropped);
            self.gate.set_service_rate(monitor.queue.rate_per_s());
            // No original comes by to move the gate.
            let in_system = monitor.queue.in_system();
            let _nobody = self.gate.arrive(now_ns, u32::MAX, in_system);
        }
        if look.departed > 0 {
            self.gate.set_service_rate(self.service_rate_per_s());
        }
        if look.changed || self.is_silent != was_silent {
            // The state first: who sees the change shall find it.
            self.publish_server();
            self.counters.server_changes.add(1);
        }
    }

    /// Originals per second that the server has been measured to serve.
    #[must_use]
    pub fn service_rate_per_s(&self) -> f64 {
        match &self.monitor {
            Some(monitor) => monitor.queue.rate_per_s(),
            None => {
                let measured = self.credit.rate_per_s() * self.mix.share();
                self.pace.limit_per_s().map_or(measured, |limit| limit.min(measured))
            }
        }
    }

    /// Whether there is a server, and it answers.
    #[must_use]
    pub fn server(&self) -> ServerState {
        match self.credit.server() {
            ServerState::Up if self.is_silent => ServerState::Down,
            state => state,
        }
    }

    /// How many may be handed over now: of control messages as many as there is credit for, of others no more than the pace
    /// allows. Control is served first.
    pub fn grant(&mut self, now_ns: u64) -> u32 {
        if self.server() != ServerState::Up {
            return 0;
        }
        // Places of a queue are a u32.
        let control = self.queue.len_of(Queue::Control) as u32;
        self.credit.grant().min(self.pace.room(now_ns).saturating_add(control))
    }

    /// Whether a control message keeps its privilege. It counts for itself and for what it would take along.
    pub fn is_within_cap(&mut self, seed: &Seed, message: &Waiting, call_key: u64, now_ns: u64) -> bool {
        if self.gate.discipline() == overload::Discipline::Fifo {
            return true;
        }
        let tokens = 1 + self.queue.surplus_of(call_key);
        let rate_per_s = self.credit.rate_per_s();
        self.limits.take(seed, message.class, message.datagram.source.ip(), tokens, rate_per_s, now_ns)
    }

    /// Whether an original is within the cap of its source. One queue for all knows no caps.
    pub fn is_original_within_cap(&mut self, seed: &Seed, message: &Waiting, now_ns: u64) -> bool {
        if self.gate.discipline() == overload::Discipline::Fifo {
            return true;
        }
        let rate_per_s = self.service_rate_per_s();
        self.limits.take_original(seed, message.datagram.source.ip(), rate_per_s, now_ns)
    }

    /// Whether the call of a message that is above the cap of its source was admitted, and may bring one more.
    pub fn is_of_admitted_call(&mut self, call_key: u64, now_ns: u64) -> bool {
        let messages = 1 + self.queue.surplus_of(call_key);
        self.calls.take(call_key, messages, now_ns)
    }

    /// Notes a message that was handed over. If it begins a call, that earns privilege for what follows.
    pub fn handed_over(
        &mut self,
        class: Class,
        begins_call: Option<u64>,
        packet_len: usize,
        waited_ns: u64,
        now_ns: u64,
    ) {
        if let Some(call_key) = begins_call {
            self.calls.admit(call_key, now_ns);
        }
        // No packet is longer than a datagram of UDP and its headers.
        self.credit.handed(packet_len as u32);
        if !limits::has_cap(class) {
            self.pace.took();
        }
        // The mix is what the server gets while originals wait: an idle night of keep-alives says nothing about it.
        if self.queue.len_of(Queue::New) > 0 {
            self.mix.handed(class == Class::Original, now_ns);
        }
        self.counters.outcome(class, Outcome::HandedOver);
        self.counters.waited(class, waited_ns);
    }

    /// True while originals cannot be served at all.
    #[must_use]
    pub fn server_down(&self) -> bool {
        self.server() == ServerState::Down
    }

    /// What the XDP program shall do with originals: the gate's word, or nothing in while the server is down.
    #[must_use]
    pub fn word(&self) -> GateWord {
        if self.server_down() { GateWord::new(GateState::Discard, 0) } else { self.gate.word() }
    }

    /// The same with what else the XDP program must know.
    pub fn word_to_publish(&mut self, now_ns: u64) -> GateWord {
        let word = self.word();
        let is_normal = word.state() == GateState::Normal;
        // About what passes nobody else asks the table, and nobody is answered.
        let monitored = self.monitored;
        let is_guarded = !monitored.has(Class::Original) && !monitored.has(Class::Copy);
        let is_workers =
            is_normal && is_guarded && self.inquiry.is_workers(self.queue.len_of(Queue::New), now_ns);
        // A silence ends also while nobody is refused.
        let is_silent = self.reply.keeps_silent(now_ns) && !is_normal && !monitored.has(Class::Original);
        word.with_table_unasked(is_workers).with_silence(is_silent).with_monitored(monitored.bits())
    }

    /// Nanoseconds after which the lane wants a turn even if no packet comes; `None` if it has nothing to do.
    #[must_use]
    pub fn due_in_ns(&self) -> Option<u64> {
        /// A sleep shorter than this costs more than it gains: a timer's wake-up takes some 50 us anyway.
        const WAITING_NS: u64 = 200_000;
        /// A silence must end although no packet comes by, and lasts some 25 ms.
        const SILENCE_NS: u64 = 10_000_000;
        match self.server() {
            ServerState::Missing | ServerState::Down => Some(AWAY_LOOK_INTERVAL_NS),
            ServerState::Up if !self.queue.is_empty() => Some(WAITING_NS),
            ServerState::Up if self.credit.at_server() > 0 => Some(DRAIN_LOOK_INTERVAL_NS),
            // While the gate is normal nobody is refused, and nobody waits for its end.
            ServerState::Up if self.reply.is_silent() && self.gate.state() != GateState::Normal => {
                Some(SILENCE_NS)
            }
            ServerState::Up if self.monitor.is_some() => Some(MONITOR_LOOK_INTERVAL_NS),
            ServerState::Up => None,
        }
    }

    /// Notes the gate's state from now on.
    pub fn note_gate(&mut self, now_ns: u64) {
        self.gate_times.note(now_ns, self.gate.state(), self.in_system());
    }

    fn publish_server(&self) {
        let counters = &self.counters;
        let has_socket = self.credit.server() == ServerState::Up;
        counters.server_has_socket.set(has_socket.into());
        counters.server_silent.set((has_socket && self.is_silent).into());
        // Finite, and above 0.
        counters
            .server_limit_milli
            .set(self.pace.limit_per_s().map_or(0, |limit| (limit * 1e3).ceil() as u64));
        counters.server_state.set(self.server() as u64);
    }

    /// Brings the gauges up to date.
    pub fn publish(&self) {
        let counters = &self.counters;
        let sums = self.gate_times.sums();
        for (count, ns) in counters.gate_state_ns.iter().zip(sums.state_ns) {
            count.set(ns);
        }
        counters.gate_returns.set(sums.returns);
        counters.gate_return_ns.set(sums.return_ns);
        // Half a million years for a message.
        counters.in_system_us.set((sums.in_system_ns / 1000) as u64);
        let would_wait = self.monitor.as_ref().map_or(0, |monitor| monitor.queue.in_system());
        counters.would_wait.set(would_wait as u64);
        counters.waiting.set(self.queue.len() as u64);
        counters.at_server.set(u64::from(self.credit.at_server()));
        counters.gate_state.set(self.gate.state() as u64);
        counters.gate_admits_ppm.set((self.gate.word().admitted_share() * 1e6).round() as u64);
        counters.gate_transitions.set(self.gate.transitions());
        self.publish_server();
        // A rate is finite and non-negative; thousandths keep slow servers visible.
        if let Handoff::Embedded(exchange) = &self.handoff {
            counters.processor_gone.set(u64::from(!exchange.is_alive()));
        }
        counters.service_rate_milli.set((self.service_rate_per_s() * 1e3) as u64);
    }
}

#[cfg(test)]
mod tests {
    use overload::CallQueue;

    use super::Waiting;

    #[test]
    fn a_place_takes_what_the_memory_formula_says() {
        let row = format!("| Place for a waiting message | {} | P |", CallQueue::<Waiting>::BYTES_PER_PLACE);
        let operations = include_str!("../../../docs/operations.md");
        assert!(operations.contains(&row), "docs/operations.md does not have: {row}");
    }
}
