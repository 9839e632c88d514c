//! The run: takes one event after the other and lets clients, nodes and responses act on it.
//!
//! ```text
//!   Arrival ──► a new transaction ──► send ──► hop ──► arrive ──► gate, line ──► Served ──► final node: 200
//!   Timer   ──► the same, as copy                        └─ 503                    ├─ stateless: the message goes on
//!                                                                                  └─ stateful: a transaction below
//!   200, 503, 408 ──► respond ──► hops back ──► deliver: the client, or the transaction above
//! ```
//!
//! A hop without delay is no event: what it brings about happens at once. References to transactions are counted: a
//! timer, a message and a response hold one each.
//!
//! Here: events, clients, ways and nodes. What responses do stands in `engine/responses.rs`.

mod responses;

use overload::Nanos;
use overload::distributed::Announcement;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

use super::agenda::Agenda;
use super::controller::{Controller, Request};
use super::lanes::Lanes;
use super::law::Amounts;
use super::network::{Node, Route, Scenario, ScenarioError, Source, State};
use super::outcome::{Outcome, Sample};
use super::rate::RateClock;
use super::station::{Message, Station, Taken, Work};
use super::stream::{Owner, Purpose, mix, number, stream, uniform};
use super::transaction::{Progress, Transaction, Transactions};

const TRYING: u16 = 100;
const OK: u16 = 200;
const TIMEOUT: u16 = 408;
const UNAVAILABLE: u16 = 503;

/// Runs a scenario.
///
/// # Errors
/// Everything that is wrong with it.
pub fn run(scenario: &Scenario) -> Result<Outcome, ScenarioError> {
    let problems = scenario.problems();
    if !problems.is_empty() {
        return Err(ScenarioError { problems });
    }
    let mut engine = Engine::new(scenario)?;
    while engine.step() {}
    Ok(engine.close())
}

#[derive(Debug, Clone, Copy)]
enum Event {
    /// A source's next original.
    Arrival(u32),
    /// A node's service ends.
    Served(u32),
    /// A transaction's timer, by number from 1.
    Timer(u32, u8),
    /// A message reaches a node.
    Reached(u32, Message),
    /// A response reaches the transaction's sender.
    Answered(u32, u16, Option<Announcement>),
    /// The controller of the first node may probe the second.
    Probe(u32, u32),
    /// Time to look at the lines.
    Look,
}

/// A source at work.
#[derive(Debug)]
struct Caller<'a> {
    source: &'a Source,
    amounts: Amounts,
    rate: RateClock,
    identities: Pcg64,
}

#[derive(Debug)]
struct Engine<'a> {
    scenario: &'a Scenario,
    agenda: Agenda<Event>,
    lanes: Lanes,
    callers: Vec<Caller<'a>>,
    stations: Vec<Station>,
    controllers: Vec<Option<Box<dyn Controller>>>,
    /// By node: identities of the probes that it sends.
    probes: Vec<Pcg64>,
    transactions: Transactions,
    now: Nanos,
    outcome: Outcome,
    /// Scratch space for what a line gives up while it is served.
    stale: Vec<Message>,
}

impl<'a> Engine<'a> {
    fn new(scenario: &'a Scenario) -> Result<Self, ScenarioError> {
        let seed = scenario.seed;
        let lanes = Lanes::new(scenario);
        let station = |(index, node): (usize, &Node)| {
            // The check has built the same gate before.
            Station::new(node, index, scenario, seed).map_err(|error| ScenarioError {
                problems: vec![super::network::Problem {
                    key: format!("node.{}.gate", node.name),
                    message: format!("cannot be: {error}"),
                }],
            })
        };
        let caller = |(index, source): (usize, &'a Source)| Caller {
            source,
            amounts: Amounts::new(source.law, stream(seed, Owner::Source(index), Purpose::Work)),
            rate: RateClock::new(
                &source.rate,
                stream(seed, Owner::Source(index), Purpose::Phases),
                scenario.duration_ns,
            ),
            identities: stream(seed, Owner::Source(index), Purpose::Identity),
        };
        let controller = |(index, node): (usize, &Node)| {
            let seed = number(seed, Owner::Node(index), Purpose::Control);
            node.controller.as_ref().map(|controller| controller.make(seed))
        };
        let mut engine = Self {
            scenario,
            agenda: Agenda::new(lanes.count),
            callers: scenario.sources.iter().enumerate().map(caller).collect(),
            stations: scenario.nodes.iter().enumerate().map(station).collect::<Result<_, _>>()?,
            controllers: scenario.nodes.iter().enumerate().map(controller).collect(),
            probes: (0..scenario.nodes.len())
                .map(|node| stream(seed, Owner::Node(node), Purpose::Identity))
                .collect(),
            lanes,
            transactions: Transactions::default(),
            now: 0,
            outcome: Outcome::new(scenario.sources.len(), scenario.nodes.len(), scenario.counted_ns()),
            stale: Vec::new(),
        };
        (0..engine.callers.len()).for_each(|source| engine.plan_arrival(source));
        for (index, node) in scenario.nodes.iter().enumerate() {
            node.routes.iter().for_each(|route| engine.plan_probe(index, route.to));
        }
        if scenario.sample_ns.is_some() {
            engine.agenda.push_anywhere(0, Event::Look);
        }
        Ok(engine)
    }

    /// Takes the next event; false when the scenario's time is over.
    fn step(&mut self) -> bool {
        let Some((now, event)) = self.agenda.pop_before(self.scenario.duration_ns) else { return false };
        self.now = now;
        self.outcome.events += 1;
        match event {
            Event::Arrival(source) => self.originate(source as usize),
            Event::Served(node) => self.served(node as usize),
            Event::Timer(transaction, number) => self.timer(transaction, number),
            Event::Reached(node, message) => self.arrive(node as usize, message),
            Event::Answered(transaction, code, announcement) => {
                self.deliver(transaction, code, announcement);
                self.transactions.release(transaction);
            }
            Event::Probe(node, next) => self.probe(node as usize, next as usize),
            Event::Look => self.look(),
        }
        true
    }

    fn close(mut self) -> Outcome {
        let end = self.scenario.duration_ns;
        self.outcome.nodes = self.stations.into_iter().map(|station| station.close(end)).collect();
        self.outcome.transactions_most = self.transactions.most();
        self.outcome
    }

    fn look(&mut self) {
        let answered = self.outcome.sources.iter().map(|calls| calls.answered).sum();
        let lines = self.stations.iter().map(Station::waiting).collect();
        self.outcome.samples.push(Sample { at: self.now, lines, answered });
        if let Some(sample_ns) = self.scenario.sample_ns {
            self.agenda.push_anywhere(self.now + sample_ns, Event::Look);
        }
    }

    // Clients.

    fn plan_arrival(&mut self, source: usize) {
        let caller = &mut self.callers[source];
        let at = caller.rate.done(self.now, caller.amounts.draw());
        self.agenda.push(self.lanes.arrival(source), at, Event::Arrival(source as u32));
    }

    /// A caller makes a call.
    fn originate(&mut self, source: usize) {
        self.plan_arrival(source);
        let caller = &mut self.callers[source];
        let (timers, identity) = (caller.source.timers, caller.identities.next_u64());
        let counts = self.scenario.counts(self.now);
        self.outcome.sources[source].offered += u64::from(counts);
        let call = Transaction::of_client(source, timers, identity, self.now, counts);
        self.begin(call);
    }

    /// Sends the first message of a transaction and starts its timers.
    fn begin(&mut self, transaction: Transaction) {
        let index = self.transactions.insert(transaction);
        if transaction.timers.count() > 0 {
            self.transactions.hold(index);
            self.set_timer(index, 1);
        }
        let original = Message { transaction: index, copy: false, travelled_ns: 0 };
        self.send(transaction.sender as usize, original);
        self.transactions.release(index);
    }

    fn set_timer(&mut self, transaction: u32, number: usize) {
        let Transaction { first_sent, sender, timers, .. } = *self.transactions.get(transaction);
        let lane = self.lanes.timer(sender as usize, timers, number);
        self.agenda.push(lane, first_sent + timers.fires_ns(number), Event::Timer(transaction, number as u8));
    }

    /// A timer fires; its reference goes over to the next one.
    fn timer(&mut self, index: u32, number: u8) {
        let Transaction { progress, timers, sender, source, counts, .. } = *self.transactions.get(index);
        let number = usize::from(number);
        if progress == Progress::Finished {
            self.transactions.release(index);
            return;
        }
        if number == timers.count() {
            self.give_up(index);
            self.transactions.release(index);
            return;
        }
        // Also without a copy to send the timers go on, since the last one gives up; each lane stays in order so.
        self.set_timer(index, number + 1);
        if progress == Progress::Open {
            match self.node_of(sender) {
                None => self.outcome.sources[source as usize].copies += u64::from(counts),
                Some(node) => self.stations[node].outcome.resent += self.stations[node].one(self.now),
            }
            self.send(sender as usize, Message { transaction: index, copy: true, travelled_ns: 0 });
        }
    }

    fn give_up(&mut self, index: u32) {
        let Transaction { sender, source, counts, .. } = *self.transactions.get(index);
        if self.node_of(sender).is_none() {
            self.transactions.get_mut(index).progress = Progress::GivenUp;
            self.outcome.sources[source as usize].failed += u64::from(counts);
        } else {
            self.deliver(index, TIMEOUT, None);
        }
    }

    // Probes.

    fn plan_probe(&mut self, node: usize, next: usize) {
        let due = self.controllers[node].as_mut().and_then(|controller| controller.next_probe(next));
        if let Some(at) = due {
            self.agenda.push_anywhere(at.max(self.now), Event::Probe(node as u32, next as u32));
        }
    }

    fn probe(&mut self, node: usize, next: usize) {
        let now = self.now;
        if self.controllers[node].as_mut().is_some_and(|controller| controller.probe(now, next)) {
            let place = self.callers.len() + node;
            let identity = self.probes[node].next_u64();
            self.begin(Transaction::probe(place, next, identity, now));
            self.plan_probe(node, next);
        }
    }

    /// The node that has sent a transaction; none for a client.
    fn node_of(&self, sender: u32) -> Option<usize> {
        (sender as usize).checked_sub(self.callers.len())
    }

    // Ways.

    /// The way of a transaction from a place: that to the node which it probes, or the one of its call, always the same.
    fn route(&self, place: usize, transaction: &Transaction) -> Route {
        let routes = match place.checked_sub(self.callers.len()) {
            None => &self.callers[place].source.routes,
            Some(node) => &self.scenario.nodes[node].routes,
        };
        let Transaction { identity, probes, sender, .. } = *transaction;
        let probed = routes.iter().find(|route| sender as usize == place && probes as usize == route.to);
        if let Some(route) = probed {
            return *route;
        }
        let last = routes.len() - 1;
        if last == 0 {
            return routes[0];
        }
        let mut left = uniform(mix(identity ^ mix(place as u64)));
        let taken = routes.iter().take(last).find(|route| {
            left -= route.probability;
            left < 0.0
        });
        *taken.unwrap_or(&routes[last])
    }

    /// Sends a message on from a place (sources first, then nodes). It takes a reference of its own.
    fn send(&mut self, place: usize, message: Message) {
        self.transactions.hold(message.transaction);
        let route = self.route(place, self.transactions.get(message.transaction));
        let message = Message { travelled_ns: message.travelled_ns + route.delay_ns, ..message };
        if route.delay_ns == 0 {
            self.arrive(route.to, message);
        } else {
            let at = self.now + route.delay_ns;
            self.agenda.push_anywhere(at, Event::Reached(route.to as u32, message));
        }
    }

    // Nodes.

    /// A message reaches a node. Its reference goes with it into the line, or ends here.
    fn arrive(&mut self, node: usize, message: Message) {
        if !self.let_in(node, message.transaction) {
            self.stations[node].hold_back(self.now);
            self.respond(message, UNAVAILABLE, None);
            return;
        }
        let share_hash = self.share_hash(node, message.transaction);
        self.stations[node].hear(self.now, self.transactions.get(message.transaction).sender);
        match self.stations[node].arrive(self.now, message, share_hash) {
            Taken::In | Taken::WillBeRefused => {}
            Taken::Dropped => self.transactions.release(message.transaction),
            Taken::Refused => self.refuse(node, message),
        }
        self.serve(node);
    }

    /// Nodes see independent shares of the calls, as nodes with seeds of their own do.
    fn share_hash(&self, node: usize, transaction: u32) -> u32 {
        (mix(self.transactions.get(transaction).identity.wrapping_add(node as u64)) >> 32) as u32
    }

    /// Asks the node's controller, if it has one, about what is new to it.
    fn let_in(&mut self, node: usize, transaction: u32) -> bool {
        if self.controllers[node].is_none() || self.transactions.get(transaction).let_in {
            return true;
        }
        let next = self.route(self.callers.len() + node, self.transactions.get(transaction)).to;
        // Controllers and gates of one node must not throw the same dice.
        let share_hash = self.share_hash(self.stations.len() + node, transaction);
        let request = Request { now: self.now, next, share_hash };
        let admitted = self.controllers[node].as_mut().is_none_or(|controller| controller.admit(&request));
        self.transactions.get_mut(transaction).let_in = admitted;
        admitted
    }

    fn refuse(&mut self, node: usize, message: Message) {
        let announcement = self.stations[node].announce(self.now);
        self.respond(message, UNAVAILABLE, announcement);
    }

    fn serve(&mut self, node: usize) {
        let mut stale = std::mem::take(&mut self.stale);
        if let Some(at) = self.stations[node].serve(self.now, &mut stale) {
            self.agenda.push(self.lanes.served(node), at, Event::Served(node as u32));
        }
        for message in stale.drain(..) {
            self.refuse(node, message);
        }
        self.stale = stale;
    }

    fn served(&mut self, node: usize) {
        if let Some(Work { message, refusal }) = self.stations[node].finish(self.now) {
            if refusal {
                self.refuse(node, message);
            } else {
                self.finished(node, message);
            }
        }
        self.serve(node);
    }

    /// What becomes of a message that a node has served.
    fn finished(&mut self, node: usize, message: Message) {
        let Transaction { progress, sent_on, .. } = *self.transactions.get(message.transaction);
        let described = &self.scenario.nodes[node];
        let place = self.callers.len() + node;
        let absorbed = described.state == State::Stateful && sent_on;
        if progress == Progress::Finished || absorbed {
            let station = &mut self.stations[node];
            station.outcome.useless += station.one(self.now);
        }
        if described.routes.is_empty() {
            let announcement = self.stations[node].announce(self.now);
            self.respond(message, OK, announcement);
        } else if described.state == State::Stateless {
            self.send(place, message);
            self.transactions.release(message.transaction);
        } else if absorbed {
            self.transactions.release(message.transaction);
        } else {
            self.send_on(place, message);
        }
    }

    /// A stateful node begins a transaction of its own for a request. The message's reference becomes that of the new one.
    fn send_on(&mut self, place: usize, message: Message) {
        let above = *self.transactions.get(message.transaction);
        self.transactions.get_mut(message.transaction).sent_on = true;
        let below = above.sent_on_by(place, message.transaction, message.travelled_ns, self.now);
        if above.timers.gets_trying() {
            self.transactions.hold(message.transaction);
            self.respond(message, TRYING, None);
        }
        self.begin(below);
    }
}
