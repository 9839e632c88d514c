//! The clients: RFC 3261 client transactions and the calls made of them. Pure: the time is a parameter, datagrams
//! leave through an [`Outbox`].
//!
//! ```text
//!          first 1xx                2xx: ACK              hold over: BYE
//! Calling ───────────▶ Proceeding ──────────▶ Holding ────────────────────▶ Trying ──▶ Closed
//!    │ copies by A                                                         │ copies by E
//!    ├─▶ Closed   refusal: ACK; or timer B                                 └─▶ Closed  answer; or timer F
//! ```
//!
//! REGISTER and OPTIONS start in `Trying`. A closed call is remembered for 64·T1 in order to tell duplicates from
//! strays; when room runs short the oldest closed calls are forgotten first, and their late answers are still
//! acknowledged, from the answer alone.
//!
//! Each call has at most one timer: the next copy or the time-out, whichever is first. Copies follow the schedule
//! of the first send, so a late wake-up does not shift the later ones.

mod calls;
mod receive;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use self::calls::{Calls, Phase};
use crate::arrivals::Arrivals;
use crate::clock::Nanos;
use crate::config::CallerConfig;
use crate::identity::{Identities, Token};
use crate::report::Report;
use crate::run::Snapshot;
use crate::tally::Tally;
use crate::template::{Dialog, Fill, LocalText, Method, Templates};
use crate::wheel::Wheel;

/// Starts and timers that one turn handles at most, together, so that answers are read in between. Larger delays reading
/// (a send takes about 2 µs), smaller asks for the time and the sockets more often.
const TURN_MAX: u32 = 64;

/// What became of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The kernel took it.
    Yes,
    /// The socket's send buffer was full.
    NoRoom,
    /// The other end says that nobody listens (ICMP port unreachable).
    Refused,
    /// Anything else.
    Error,
}

/// Where the engine puts its datagrams.
pub trait Outbox {
    /// Sends `datagram` from the client address number `socket` to the target.
    fn send(&mut self, socket: usize, datagram: &[u8]) -> Sent;
}

/// All clients of a run.
#[derive(Debug)]
pub struct Engine {
    config: CallerConfig,
    start: Nanos,
    arrivals: Arrivals,
    /// Next intended start, absolute; `None` when all calls have started.
    next_arrival: Option<Nanos>,
    next_call_no: u64,
    identities: Identities,
    templates: Templates,
    locals: Vec<LocalText>,
    calls: Calls,
    wheel: Wheel,
    tally: Tally,
    /// The datagram being built.
    message: Vec<u8>,
    /// The dialog of an answer being acknowledged.
    dialog: Dialog,
}

static NO_DIALOG: Dialog = Dialog::EMPTY;

impl Engine {
    /// Clients at `locals` (at least one) that start calls from `start` on. The configuration must have passed its check.
    ///
    /// # Panics
    /// When `locals` is empty.
    #[must_use]
    pub fn new(config: &CallerConfig, locals: &[SocketAddr], start: Nanos) -> Self {
        assert!(!locals.is_empty(), "a caller needs a client address");
        let templates = Templates::new(config);
        let capacity = config.max_live_calls as usize;
        let mut arrivals = Arrivals::new(config);
        Self {
            start,
            next_arrival: arrivals.next().map(|offset| start + offset),
            arrivals,
            next_call_no: 0,
            identities: Identities::new(config),
            locals: locals.iter().map(|address| templates.local(*address)).collect(),
            templates,
            calls: Calls::new(capacity),
            wheel: Wheel::new(capacity, start),
            tally: Tally::new(config, start),
            message: Vec::with_capacity(2048),
            dialog: Dialog::EMPTY,
            config: config.clone(),
        }
    }

    /// Does what is due: forgets old calls, fires timers and starts calls. True when more is due at this very time.
    ///
    /// In the order of the times at which they were due: a caller that is late would else always send copies first, and only
    /// they would find the places that became free meanwhile.
    pub fn turn(&mut self, now: Nanos, outbox: &mut impl Outbox) -> bool {
        self.calls.forget_closed_before(now.saturating_sub(self.config.timeout_ns()));
        (0..TURN_MAX).take_while(|_| self.act(now, outbox)).count() == TURN_MAX as usize
    }

    /// Does one thing that is due; false if nothing is.
    fn act(&mut self, now: Nanos, outbox: &mut impl Outbox) -> bool {
        let start = self.next_arrival.unwrap_or(Nanos::MAX).min(now + 1);
        match self.wheel.next_due(start) {
            // What waits there may be a timer for later.
            Some(_) => self.fire_timer(now, outbox) || self.start_call(now, outbox),
            None => self.start_call(now, outbox),
        }
    }

    /// When [`Self::turn`] has something to do, at the latest at `limit`.
    #[must_use]
    pub fn next_wake(&self, limit: Nanos) -> Nanos {
        let limit = self.next_arrival.map_or(limit, |at| at.min(limit));
        self.wheel.next_due(limit).unwrap_or(limit)
    }

    /// True when all calls have started and ended, or the time to wait for them is over.
    #[must_use]
    pub fn finished(&self, now: Nanos) -> bool {
        let last = self.start + self.config.duration_ns;
        self.next_arrival.is_none() && self.calls.live() == 0 && now >= last
            || now >= last.saturating_add(self.config.drain_ns)
    }

    /// The counts that observers of a running caller see.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.tally, self.calls.live())
    }

    /// Ends the run and tells what happened; what is still open is unresolved.
    #[must_use]
    pub fn into_report(self, now: Nanos, cpu_ns: Nanos) -> Report {
        Report::new(self.config, &self.tally, now.saturating_sub(self.start), cpu_ns)
    }

    fn fire_timer(&mut self, now: Nanos, outbox: &mut impl Outbox) -> bool {
        let Some(slot) = self.wheel.pop_due(now) else { return false };
        let call = self.calls.get(slot);
        match call.phase {
            Phase::Holding => {
                let intended = call.intended;
                self.start_transaction(slot, Method::Bye, intended, now, outbox);
            }
            Phase::Calling | Phase::Trying | Phase::TryingSlowly if now >= call.timeout_at => {
                self.fail(slot, now)
            }
            Phase::Calling | Phase::Trying | Phase::TryingSlowly => self.send_copy(slot, now, outbox),
            // Neither has a timer.
            Phase::Proceeding | Phase::Closed => debug_assert!(false, "a timer in {:?}", call.phase),
        }
        true
    }

    fn start_call(&mut self, now: Nanos, outbox: &mut impl Outbox) -> bool {
        let Some(intended) = self.next_arrival.filter(|at| *at <= now) else { return false };
        self.next_arrival = self.arrivals.next().map(|offset| self.start + offset);
        let call_no = self.next_call_no;
        self.next_call_no += 1;
        let token = self.identities.token(call_no);
        let method = self.identities.method(token);
        let in_window = self.window().contains(&intended);
        self.tally.bin(intended).offered += 1;
        if let Some(slot) = self.calls.open(token, call_no, in_window) {
            self.start_transaction(slot, method, intended, now, outbox);
        } else {
            self.tally.each(method, in_window, |t| {
                t.offered += 1;
                t.not_started += 1;
            });
        }
        true
    }

    /// Sends a request for the first time. Its delays count from `intended`, its timers from now (RFC 3261 17.1).
    fn start_transaction(
        &mut self,
        slot: u32,
        method: Method,
        intended: Nanos,
        now: Nanos,
        outbox: &mut impl Outbox,
    ) {
        let timeout_ns = self.config.timeout_ns();
        let call = self.calls.get_mut(slot);
        call.method = method;
        call.phase = if method == Method::Invite { Phase::Calling } else { Phase::Trying };
        call.intended = intended;
        call.interval_ns = self.config.t1_ns;
        call.next_copy = now + self.config.t1_ns;
        call.timeout_at = now + timeout_ns;
        call.copies = 0;
        call.provisional = false;
        let next = call.next_copy.min(call.timeout_at);
        let in_window = call.in_window;
        self.wheel.set(slot, next);
        self.tally.each(method, in_window, |t| t.offered += 1);
        self.tally.send_lateness.record(now.saturating_sub(intended));
        self.send_request(slot, now, outbox);
    }

    /// Timer A doubles; timer E doubles up to T2, and is T2 after a provisional response (17.1.1.2, 17.1.2.2).
    fn send_copy(&mut self, slot: u32, now: Nanos, outbox: &mut impl Outbox) {
        let t2_ns = self.config.t2_ns;
        let call = self.calls.get_mut(slot);
        self.tally.copy_lateness.record(now.saturating_sub(call.next_copy));
        call.copies += 1;
        call.interval_ns = match call.phase {
            Phase::Calling => 2 * call.interval_ns,
            Phase::TryingSlowly => t2_ns,
            _ => (2 * call.interval_ns).min(t2_ns),
        };
        call.next_copy += call.interval_ns;
        let next = call.next_copy.min(call.timeout_at);
        let (method, in_window) = (call.method, call.in_window);
        self.wheel.set(slot, next);
        self.tally.each(method, in_window, |t| t.copies += 1);
        self.tally.bin(now).copies += 1;
        self.send_request(slot, now, outbox);
    }

    fn send_request(&mut self, slot: u32, now: Nanos, outbox: &mut impl Outbox) {
        let call = self.calls.get(slot);
        let socket = self.socket_of(call.call_no);
        let dialog = if call.method == Method::Bye { self.calls.dialog(slot) } else { &NO_DIALOG };
        let text = self.identities.text(call.token);
        let fill = Fill { call: &text, local: &self.locals[socket], copy: call.copies, dialog };
        self.templates.request(call.method, &fill, &mut self.message);
        self.post(socket, now, outbox);
    }

    /// Hands the message just built to the outbox and counts what becomes of it.
    fn post(&mut self, socket: usize, now: Nanos, outbox: &mut impl Outbox) {
        let wire = &mut self.tally.wire;
        match outbox.send(socket, &self.message) {
            Sent::Yes => {
                wire.sent += 1;
                wire.sent_bytes += self.message.len() as u64;
                self.tally.bin(now).sent += 1;
            }
            Sent::NoRoom => wire.no_room += 1,
            Sent::Refused => wire.refused += 1,
            Sent::Error => wire.other_errors += 1,
        }
    }

    /// Timer B or F: nobody answered for 64·T1.
    fn fail(&mut self, slot: u32, now: Nanos) {
        let call = self.calls.get(slot);
        let (method, in_window) = (call.method, call.in_window);
        self.tally.each(method, in_window, |t| t.failed += 1);
        if method == Method::Bye {
            self.tally.aftermath.bye_lost += 1;
            self.count_lost(slot);
        } else {
            self.tally.bin(now).failed += 1;
        }
        self.close(slot, now);
    }

    /// The call had been answered, and the server does not know it any more; counted once a call.
    fn count_lost(&mut self, slot: u32) {
        let call = self.calls.get_mut(slot);
        if !call.lost {
            call.lost = true;
            self.tally.aftermath.answered_then_lost += 1;
        }
    }

    fn close(&mut self, slot: u32, now: Nanos) {
        self.wheel.cancel(slot);
        self.calls.close(slot, now);
    }

    fn window(&self) -> std::ops::Range<Nanos> {
        self.start + self.config.warm_up_ns..self.start + self.config.duration_ns - self.config.tail_ns
    }

    fn socket_of(&self, call_no: u64) -> usize {
        (call_no % self.locals.len() as u64) as usize
    }

    fn hold_ns(&self, token: Token) -> u64 {
        let mean_ns = self.config.hold.mean_ns;
        if self.config.hold.exponential {
            (-self.identities.hold_share(token).ln() * mean_ns as f64) as u64
        } else {
            mean_ns
        }
    }
}
