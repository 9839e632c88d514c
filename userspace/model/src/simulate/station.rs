//! A node at work: gate, waiting line and server, and what was seen of them.
//!
//! Every decision is that of `overload`: this file only asks gate and line in the order in which the worker does, and
//! serves one message at a time.

use overload::distributed::{Announcement, RateShare};
use overload::{
    AnyGate, CallQueue, ConfigError, Decision, Discipline, Feedback, Gate, GateConfig, GateState, Lane,
    Nanos, RateConfig, ServiceRate, ShedReason, Threshold,
};

use super::law::Amounts;
use super::network::{Announces, Node, Scenario};
use super::outcome::NodeOutcome;
use super::rate::RateClock;
use super::stream::{Owner, Purpose, stream};

/// A message of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) transaction: u32,
    /// It carries the marker, so every node knows it.
    pub(super) copy: bool,
    /// Hop delays since its transaction's sender, which the response will need too.
    pub(super) travelled_ns: Nanos,
}

/// What waits: a message, or the refusal of one that the server has to pay for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) message: Message,
    pub(super) refusal: bool,
}

/// What becomes of a message that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It waits or is served.
    In,
    /// No room: nobody is told.
    Dropped,
    /// Refused, and its sender is told now.
    Refused,
    /// Refused, and its sender will be told when the server has written the refusal.
    WillBeRefused,
}

/// What a node's responses say about overload, at work.
#[derive(Debug)]
enum Announcer {
    Loss(Feedback),
    Rate(RateShare),
}

impl Announcer {
    fn new(announces: &Announces) -> Result<Self, ConfigError> {
        match announces {
            Announces::Loss { validity_ms } => Ok(Self::Loss(Feedback::new(*validity_ms, 0))),
            Announces::Rate(config) => RateShare::new(config).map(Self::Rate),
        }
    }
}

/// A node at work.
#[derive(Debug)]
pub(super) struct Station {
    gate: AnyGate,
    line: CallQueue<Work>,
    in_service: Option<Work>,
    amounts: Amounts,
    speed: RateClock,
    refusal_ns: Nanos,
    max_wait_ns: Option<Nanos>,
    announcer: Option<Announcer>,
    /// Only where a threshold is a time, or rates are given away: both follow the measured rate, as in the product.
    measured: Option<ServiceRate>,
    warm_up_ns: Nanos,
    /// Nothing has changed since then.
    accounted: Nanos,
    entered_overload: Option<Nanos>,
    pub(super) outcome: NodeOutcome,
}

impl Station {
    pub(super) fn new(
        node: &Node,
        index: usize,
        scenario: &Scenario,
        seed: u64,
    ) -> Result<Self, ConfigError> {
        let guess_per_s = node.rate.guess_per_s();
        let mut capacity = node.capacity;
        if node.refusal_ns > 0 && capacity.control == 0 {
            // Refusals that have to be written wait, too; they get as much room as what they refuse.
            capacity.control = capacity.new;
        }
        let gives_rates = matches!(node.announces, Some(Announces::Rate(_)));
        Ok(Self {
            gate: AnyGate::new(&node.gate, node.room(), guess_per_s)?,
            line: CallQueue::new(node.gate.discipline(), capacity),
            in_service: None,
            amounts: Amounts::new(node.law, stream(seed, Owner::Node(index), Purpose::Work)),
            speed: RateClock::new(
                &node.rate,
                stream(seed, Owner::Node(index), Purpose::Phases),
                scenario.duration_ns,
            ),
            refusal_ns: node.refusal_ns,
            max_wait_ns: node.max_wait_ns,
            announcer: node.announces.as_ref().map(Announcer::new).transpose()?,
            measured: (guess_per_s > 0.0 && (!is_in_messages(&node.gate) || gives_rates)).then(|| {
                let config = RateConfig { initial_per_s: guess_per_s, ..RateConfig::default() };
                ServiceRate::new(config, 0)
            }),
            warm_up_ns: scenario.warm_up_ns,
            accounted: 0,
            entered_overload: None,
            outcome: NodeOutcome::default(),
        })
    }

    /// The number in the system as the gate counts it.
    fn in_system(&self) -> usize {
        let waiting = match self.line.discipline() {
            Discipline::Fifo => self.line.len(),
            Discipline::Priority => self.line.len_of(Lane::New),
        };
        waiting + usize::from(self.in_service.is_some())
    }

    /// Messages that wait.
    pub(super) fn waiting(&self) -> usize {
        self.line.len()
    }

    /// A message of this sender has come.
    pub(super) fn hear(&mut self, now: Nanos, sender: u32) {
        if let Some(Announcer::Rate(share)) = &mut self.announcer {
            share.hear(now, u64::from(sender));
        }
    }

    /// What clients that take part in overload control are told.
    pub(super) fn announce(&mut self, now: Nanos) -> Option<Announcement> {
        let (word, in_system) = (self.gate.word(), self.in_system());
        Some(match self.announcer.as_mut()? {
            Announcer::Loss(feedback) => feedback.advise(word, now).into(),
            Announcer::Rate(share) => {
                let rate_per_s = self.measured.as_ref().map_or(0.0, ServiceRate::rate_per_s);
                share.announce(now, in_system, rate_per_s)
            }
        })
    }

    /// Adds the time up to now, in which nothing has changed.
    pub(super) fn account(&mut self, now: Nanos) {
        let span_ns = now.saturating_sub(self.accounted.max(self.warm_up_ns));
        self.accounted = now;
        if span_ns > 0 {
            self.outcome.measured_ns += span_ns;
            self.outcome.state_ns[self.gate.state() as usize] += span_ns;
            self.outcome.in_system_ns += u128::from(span_ns) * self.in_system() as u128;
            self.outcome.busy_ns += if self.in_service.is_some() { span_ns } else { 0 };
        }
    }

    /// 1 after the warm-up, otherwise 0.
    pub(super) fn one(&self, now: Nanos) -> u64 {
        u64::from(now >= self.warm_up_ns)
    }

    /// A message arrives. Under priority the gate is asked for originals only.
    pub(super) fn arrive(&mut self, now: Nanos, message: Message, share_hash: u32) -> Taken {
        self.account(now);
        self.outcome.arrived += self.one(now);
        let in_system = self.in_system();
        if !message.copy || self.gate.discipline() == Discipline::Fifo {
            let before = self.gate.state();
            let decision = self.gate.arrive(now, share_hash, in_system);
            self.note_change(now, before);
            match decision {
                Decision::Admit => {}
                Decision::Shed(ShedReason::BufferFull) => return self.dropped(now),
                Decision::Shed(_) => return self.refuse(now, message),
            }
        }
        let lane = if message.copy { Lane::Copy } else { Lane::New };
        let work = Work { message, refusal: false };
        if self.line.push(lane, u64::from(message.transaction) + 1, now, work).is_err() {
            let before = self.gate.state();
            self.gate.depart(now, in_system);
            self.note_change(now, before);
            return self.dropped(now);
        }
        Taken::In
    }

    /// A controller has refused a message on its way in.
    pub(super) fn hold_back(&mut self, now: Nanos) {
        self.outcome.arrived += self.one(now);
        self.outcome.refused += self.one(now);
    }

    fn dropped(&mut self, now: Nanos) -> Taken {
        self.outcome.dropped += self.one(now);
        Taken::Dropped
    }

    /// Refuses a message that is not in the line (any more).
    fn refuse(&mut self, now: Nanos, message: Message) -> Taken {
        if self.refusal_ns == 0 {
            self.outcome.refused += self.one(now);
            return Taken::Refused;
        }
        match self.line.push_control(0, now, Work { message, refusal: true }) {
            Ok(()) => Taken::WillBeRefused,
            Err(_) => self.dropped(now),
        }
    }

    /// Begins the next service if the server is free; returns when it ends. Originals that have waited too long are
    /// refused on the way; those whose refusal costs nothing come back by `refused`.
    pub(super) fn serve(&mut self, now: Nanos, refused: &mut Vec<Message>) -> Option<Nanos> {
        self.outcome.longest_line = self.outcome.longest_line.max(self.line.len());
        if self.in_service.is_some() {
            return None;
        }
        self.expire(now, refused);
        let next = self.line.pop(now)?;
        self.in_service = Some(next.item);
        if let Some(measured) = &mut self.measured {
            measured.observe(now, 0, false);
        }
        Some(if next.item.refusal {
            now.saturating_add(self.refusal_ns)
        } else {
            self.speed.done(now, self.amounts.draw())
        })
    }

    fn expire(&mut self, now: Nanos, refused: &mut Vec<Message>) {
        let Some(max_wait_ns) = self.max_wait_ns else { return };
        while let Some(stale) = self.line.expire(now, max_wait_ns) {
            let before = self.gate.state();
            self.gate.depart(now, self.in_system());
            self.note_change(now, before);
            if self.refuse(now, stale.item.message) == Taken::Refused {
                refused.push(stale.item.message);
            }
        }
    }

    /// The service ends; what was served.
    pub(super) fn finish(&mut self, now: Nanos) -> Option<Work> {
        self.account(now);
        let work = self.in_service.take()?;
        if work.refusal {
            self.outcome.refused += self.one(now);
        } else {
            self.outcome.served += self.one(now);
        }
        if let Some(measured) = &mut self.measured {
            measured.observe(now, 1, true);
            self.gate.set_service_rate(measured.rate_per_s());
        }
        // The gate counts before the next message is pulled: the server's place is free, the line is not shorter yet.
        let before = self.gate.state();
        self.gate.depart(now, self.in_system());
        self.note_change(now, before);
        Some(work)
    }

    /// Notes return times and cycles if the gate has left or entered normal.
    fn note_change(&mut self, now: Nanos, before: GateState) {
        let after = self.gate.state();
        if (before == GateState::Normal) == (after == GateState::Normal) {
            return;
        }
        let begun = self.entered_overload.filter(|begun| *begun >= self.warm_up_ns);
        if after == GateState::Normal {
            if let Some(begun) = begun {
                self.outcome.returns.note(now - begun);
            }
        } else {
            if let Some(begun) = begun {
                self.outcome.cycles.note(now - begun);
            }
            self.entered_overload = Some(now);
        }
    }

    /// What was seen up to the end.
    pub(super) fn close(mut self, end: Nanos) -> NodeOutcome {
        self.account(end);
        self.outcome.final_line = self.line.len();
        self.outcome
    }
}

/// Whether all thresholds are numbers of messages, so that the service rate does not matter.
fn is_in_messages(gate: &GateConfig) -> bool {
    let messages = |threshold: Threshold| matches!(threshold, Threshold::Messages(_));
    match gate {
        GateConfig::Hysteretic(config) => {
            messages(config.admit_below) && messages(config.shed_at) && messages(config.discard_at)
        }
        GateConfig::Random(config) => {
            messages(config.low) && messages(config.high) && messages(config.buffer)
        }
        GateConfig::TailDrop { buffer: Threshold::Messages(_) }
        | GateConfig::Fifo { buffer: Threshold::Messages(_) } => true,
        _ => false,
    }
}
