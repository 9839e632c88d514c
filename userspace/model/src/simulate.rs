//! Clients, one server, and between them the gate and the waiting line that run live.
//!
//! ```text
//!   originals (Poisson) ─┐                    ┌─ response: the client stops
//!                        ├─► gate ─► line ─► server (exponential)
//!   copies (client timers)┘    └─ shed: 503, the client stops; full: dropped, the client goes on
//! ```
//!
//! Time is in integer nanoseconds, events are taken in the order of their times, and arrivals, service and share have
//! a random stream each, so variants of a scenario see the same callers. Timers need no heap: the j-th copies of all
//! calls fall due in the order of their originals, so each j is a cursor over the calls.
//!
//! # Assumptions
//!
//! The network takes no time and loses nothing. A copy is known as one (it carries the marker). A copy that is served
//! after its call was answered costs a full service. A call is answered by the first service of any of its messages.
//! The number in the system that the gate sees is what `overload` documents: waiting originals plus the message in
//! service under priority, everything under FIFO.

use overload::{
    AnyGate, CallQueue, ConfigError, Decision, Discipline, Gate, GateConfig, Lane, Nanos, QueueCapacity,
    ShedReason,
};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

const MS: Nanos = 1_000_000;

/// When an INVITE client over UDP sends, after its first send (RFC 3261 section 17.1.1.2: timer A doubles from
/// T1 = 500 ms until timer B ends it at 64·T1).
pub const INVITE_SENDS_NS: &[Nanos] =
    &[0, 500 * MS, 1_500 * MS, 3_500 * MS, 7_500 * MS, 15_500 * MS, 31_500 * MS];

/// A client that never sends again, as queueing theory has it.
pub const ONCE_SENDS_NS: &[Nanos] = &[0];

/// T1 of RFC 3261: an answer later than this has cost a copy.
const T1_NS: Nanos = 500 * MS;

/// 64·T1 (timers B and F): the client has given up, and an answer after this is of no use.
const GIVE_UP_NS: Nanos = 64 * T1_NS;

/// One run.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// λ, originals a second.
    pub arrival_rate_per_s: f64,
    /// μ, services a second.
    pub service_rate_per_s: f64,
    /// The gate under test.
    pub gate: GateConfig,
    /// The waiting line's room. Under FIFO the total counts.
    pub capacity: QueueCapacity,
    /// When a client sends, after its first send; ascending, the first is 0.
    pub sends_ns: &'static [Nanos],
    /// How long callers call.
    pub duration_ns: Nanos,
    /// Time before this is simulated but not measured, and calls sent before it do not count.
    pub warm_up_ns: Nanos,
    /// Calls sent in this last span are simulated but do not count, because their fate may be open at the end.
    pub cool_down_ns: Nanos,
    /// The same seed gives the same run.
    pub seed: u64,
}

/// What became of the calls that count, and what was seen of the system after the warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Outcome {
    /// Calls that count: originals sent between warm-up and cool-down.
    pub offered: u64,
    /// Copies that these sent.
    pub copies: u64,
    /// Calls answered before the client gave up, which is the goodput.
    pub answered: u64,
    /// Calls answered when the client had given up.
    pub late: u64,
    /// Calls answered within T1 of their first send.
    pub answered_within_t1: u64,
    /// Calls refused with 503.
    pub rejected: u64,
    /// Messages of these calls that found no room.
    pub dropped: u64,
    /// Services of these calls' messages, also those of no use any more.
    pub served: u64,
    /// Σ (answer − first send) of answered calls.
    pub delay_ns: u128,
    /// Time in normal, overload and discard.
    pub state_ns: [Nanos; 3],
    /// ∫ n dt in messages times nanoseconds, n as the gate counts it.
    pub in_system_ns: u128,
    /// Time measured.
    pub measured_ns: Nanos,
}

impl Outcome {
    /// P0, P1, P2.
    #[must_use]
    pub fn state_shares(&self) -> [f64; 3] {
        self.state_ns.map(|time_ns| time_ns as f64 / self.measured_ns as f64)
    }

    /// E\[N\].
    #[must_use]
    pub fn mean_in_system(&self) -> f64 {
        self.in_system_ns as f64 / self.measured_ns as f64
    }

    /// Mean time from first send to answer, in seconds.
    #[must_use]
    pub fn mean_delay_s(&self) -> f64 {
        self.delay_ns as f64 / self.answered as f64 / 1e9
    }
}

impl Scenario {
    /// Whether a call sent at this time counts.
    fn counts(&self, sent: Nanos) -> bool {
        sent >= self.warm_up_ns && sent < self.duration_ns.saturating_sub(self.cool_down_ns)
    }
}

/// Runs a scenario.
///
/// # Errors
/// Everything that is wrong with the gate's configuration.
pub fn run(scenario: &Scenario) -> Result<Outcome, ConfigError> {
    let mut station = Station::new(scenario)?;
    while station.step() {}
    Ok(station.outcome)
}

#[derive(Debug, Clone, Copy)]
struct Call {
    sent: Nanos,
    share_hash: u32,
    /// Answered or refused: the client is silent from now on.
    done: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Departure,
    Arrival,
    /// The j-th copy of the call at cursor j.
    Copy(usize),
}

struct Station<'a> {
    scenario: &'a Scenario,
    gate: AnyGate,
    line: CallQueue<u32>,
    calls: Vec<Call>,
    /// For each send after the first: the next call whose copy is due. Entry 0 is not used.
    cursors: Vec<usize>,
    in_service: Option<u32>,
    next_departure: Nanos,
    next_arrival: Nanos,
    now: Nanos,
    arrivals: Exponential,
    services: Exponential,
    shares: Pcg64,
    outcome: Outcome,
}

impl<'a> Station<'a> {
    fn new(scenario: &'a Scenario) -> Result<Self, ConfigError> {
        let room = match scenario.gate.discipline() {
            Discipline::Fifo => scenario.capacity.total() as u32,
            Discipline::Priority => scenario.capacity.new,
        };
        let stream = |purpose: u64| Pcg64::seed_from_u64(scenario.seed.wrapping_mul(3).wrapping_add(purpose));
        let mut arrivals = Exponential { random: stream(0), mean_ns: 1e9 / scenario.arrival_rate_per_s };
        Ok(Self {
            scenario,
            gate: AnyGate::new(&scenario.gate, room, scenario.service_rate_per_s)?,
            line: CallQueue::new(scenario.gate.discipline(), scenario.capacity),
            calls: Vec::new(),
            cursors: vec![0; scenario.sends_ns.len()],
            in_service: None,
            next_departure: Nanos::MAX,
            next_arrival: arrivals.draw(),
            now: 0,
            arrivals,
            services: Exponential { random: stream(1), mean_ns: 1e9 / scenario.service_rate_per_s },
            shares: stream(2),
            outcome: Outcome::default(),
        })
    }

    /// Takes the next event; false when the scenario's time is over.
    fn step(&mut self) -> bool {
        let (at, event) = self.next_event();
        let end = at.min(self.scenario.duration_ns);
        self.account(end);
        if at >= self.scenario.duration_ns {
            return false;
        }
        self.now = at;
        match event {
            Event::Departure => self.depart(),
            Event::Arrival => {
                let call = self.calls.len() as u32;
                self.calls.push(Call { sent: at, share_hash: self.shares.next_u32(), done: false });
                self.next_arrival = at.saturating_add(self.arrivals.draw());
                self.outcome.offered += self.one_of(call);
                self.offer(call, Lane::New);
            }
            Event::Copy(index) => {
                let call = self.cursors[index] as u32;
                self.cursors[index] += 1;
                self.outcome.copies += self.one_of(call);
                self.offer(call, Lane::Copy);
            }
        }
        true
    }

    /// The earliest event. Calls that are done are skipped for good, so this costs a step a call and copy in all.
    fn next_event(&mut self) -> (Nanos, Event) {
        let mut first = (self.next_departure, Event::Departure);
        if self.next_arrival < first.0 {
            first = (self.next_arrival, Event::Arrival);
        }
        for index in 1..self.cursors.len() {
            let cursor = &mut self.cursors[index];
            while self.calls.get(*cursor).is_some_and(|call| call.done) {
                *cursor += 1;
            }
            if let Some(call) = self.calls.get(*cursor) {
                let due = call.sent + self.scenario.sends_ns[index];
                if due < first.0 {
                    first = (due, Event::Copy(index));
                }
            }
        }
        first
    }

    /// The number in the system as the gate counts it.
    fn in_system(&self) -> usize {
        let waiting = match self.line.discipline() {
            Discipline::Fifo => self.line.len(),
            Discipline::Priority => self.line.len_of(Lane::New),
        };
        waiting + usize::from(self.in_service.is_some())
    }

    /// 1 for a call that counts, otherwise 0.
    fn one_of(&self, call: u32) -> u64 {
        u64::from(self.scenario.counts(self.calls[call as usize].sent))
    }

    /// Adds the time up to `end`, in which nothing has changed.
    fn account(&mut self, end: Nanos) {
        let span_ns = end.saturating_sub(self.now.max(self.scenario.warm_up_ns));
        self.outcome.measured_ns += span_ns;
        self.outcome.state_ns[self.gate.state() as usize] += span_ns;
        self.outcome.in_system_ns += u128::from(span_ns) * self.in_system() as u128;
    }

    /// A message reaches the front-end. Under priority the gate is asked for originals only.
    fn offer(&mut self, call: u32, lane: Lane) {
        let in_system = self.in_system();
        if lane == Lane::New || self.gate.discipline() == Discipline::Fifo {
            match self.gate.arrive(self.now, self.calls[call as usize].share_hash, in_system) {
                Decision::Admit => {}
                Decision::Shed(ShedReason::BufferFull) => {
                    self.outcome.dropped += self.one_of(call);
                    return;
                }
                Decision::Shed(ShedReason::ShareOutside | ShedReason::GateDiscard) => {
                    self.calls[call as usize].done = true;
                    self.outcome.rejected += self.one_of(call);
                    return;
                }
            }
        }
        if self.line.push(lane, u64::from(call) + 1, self.now, call).is_err() {
            self.outcome.dropped += self.one_of(call);
            self.gate.depart(self.now, in_system);
        }
        self.serve();
    }

    fn serve(&mut self) {
        if self.in_service.is_none()
            && let Some(next) = self.line.pop(self.now)
        {
            self.in_service = Some(next.item);
            self.next_departure = self.now.saturating_add(self.services.draw());
        }
    }

    fn depart(&mut self) {
        self.next_departure = Nanos::MAX;
        if let Some(call) = self.in_service.take() {
            let one = self.one_of(call);
            self.outcome.served += one;
            let call = &mut self.calls[call as usize];
            if !call.done {
                call.done = true;
                let delay_ns = self.now - call.sent;
                if delay_ns > GIVE_UP_NS {
                    self.outcome.late += one;
                } else {
                    self.outcome.answered += one;
                    self.outcome.answered_within_t1 += one * u64::from(delay_ns <= T1_NS);
                    self.outcome.delay_ns += u128::from(one) * u128::from(delay_ns);
                }
            }
        }
        // The gate counts before the next message is pulled: the server's place is free, the line is not shorter yet.
        self.gate.depart(self.now, self.in_system());
        self.serve();
    }
}

/// Exponential times from a stream of their own.
struct Exponential {
    random: Pcg64,
    mean_ns: f64,
}

impl Exponential {
    fn draw(&mut self) -> Nanos {
        // 53 random bits in (0, 1]: the logarithm is finite. The cast rounds down and saturates.
        let uniform = ((self.random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        (-uniform.ln() * self.mean_ns).round() as Nanos
    }
}

#[cfg(test)]
mod tests;
