//! How many messages may be handed to the server now, so that its own queue stays short.
//!
//! Priority is worth nothing if a longer queue without priority follows. So the server gets only what keeps its
//! queue at a small target, and everything else waits where it can still be ordered, shed, or grow stale.
//!
//! Two kinds of server, one account. A local server is known by its UDP receive queue (`sock_diag`: bytes by
//! truesize, drops, number of sockets), an embedded processor by the free places in its bounded queue. What counts
//! the departures is common to both:
//!
//! ```text
//!   departures so far = highest value yet of (handed over − dropped − waiting at the server)
//! ```
//!
//! Differences telescope, so neither a wrong size per message nor messages that are still on their way at a look add
//! up to a drift: they are counted a look early or late. Traffic that reaches the server's socket past sipweir
//! lengthens the queue, which lowers the grant, and is never counted as departed.
//!
//! # Several workers, one server
//!
//! Each worker keeps an account, and all of them look at the same socket. Nothing is shared between them: each takes
//! its even part of the room that it sees, and of what waits and of what was dropped. The next look corrects whoever
//! took more or less, and rounding up costs at most one message a worker. An embedded processor's queue is one
//! worker's own and is not divided.
//!
//! # The target
//!
//! For a local server it is a time, [`TARGET_NS`] at the measured rate, between [`TARGET_MIN`] and the configured
//! number: a slow server shall not have a long queue, and a fast one shall not idle until the next look. One that
//! empties all it was given before the next look gets twice as much each time, because nothing but looks limits it
//! then. Half of the socket's memory is never exceeded.
//!
//! What cannot be seen from here: messages that the server has read and is still working on, and messages lost
//! between hand-off and socket, which look like departures.

use crate::config::{ConfigError, Problem};
use crate::rate::{RateConfig, ServiceRate};
use crate::truesize::Truesize;
use crate::{NANOS_PER_S, Nanos};

/// How long a local server's queue may be, as time. Smaller than some looks (200 µs): it idles between them; larger:
/// what waits there adds to the answer time of what should overtake it.
const TARGET_NS: Nanos = 30_000_000;

/// The least target of a local server. Fewer: a server that reads in batches idles; more: a server at 100 messages
/// per second has a queue beyond [`TARGET_NS`].
const TARGET_MIN: u64 = 4;

/// How short to keep the server's queue and when to believe that it is gone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CreditConfig {
    /// The most messages that may wait at the server, whichever worker they come from. Smaller than what it serves
    /// between two looks: it idles while messages wait here; larger: what waits there can no longer be overtaken by
    /// what matters more.
    pub target_messages: u32,
    /// Workers that hand messages to this server, each with an account like this one.
    pub workers: u32,
    /// What waits at the server counts whoever has sent it there: nothing is handed over, and the server's queue is only
    /// watched.
    pub only_monitors: bool,
    /// How long no socket may be seen before originals are refused, in nanoseconds. Shorter than a quick restart of
    /// the server: calls are refused that could have waited; longer than `max_wait`: they go stale first.
    pub down_after_ns: Nanos,
    /// The estimator of the rate at which the server serves this worker.
    pub rate: RateConfig,
}

impl Default for CreditConfig {
    fn default() -> Self {
        Self {
            target_messages: 16,
            workers: 1,
            only_monitors: false,
            down_after_ns: 200_000_000,
            rate: RateConfig::default(),
        }
    }
}

impl CreditConfig {
    /// How many messages may wait at a local server that serves so many a second.
    #[must_use]
    pub fn target_at(&self, rate_per_s: f64) -> u32 {
        // At most a target, which is a u32.
        self.target_from(rate_per_s, TARGET_MIN) as u32
    }

    /// The same, with another least than [`TARGET_MIN`].
    fn target_from(&self, rate_per_s: f64, least: u64) -> u64 {
        // A float-to-integer cast saturates.
        let served = (rate_per_s * TARGET_NS as f64 / NANOS_PER_S as f64) as u64;
        served.max(least).min(u64::from(self.target_messages))
    }

    /// All problems.
    #[must_use]
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = self.rate.check();
        for (field, value) in [("target_messages", self.target_messages), ("workers", self.workers)] {
            if value == 0 {
                problems.push(Problem::Zero { field });
            }
        }
        problems
    }
}

/// A local server's receive queue, summed over the sockets on its port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiveQueue {
    /// Sockets found; 0 when the server is gone.
    pub sockets: u32,
    /// `idiag_rqueue`.
    pub bytes: u64,
    /// Bytes at which the sockets drop (`sk_rcvbuf`); 0 when not known.
    pub limit_bytes: u64,
    /// Datagrams dropped since the sockets exist (`SK_MEMINFO_DROPS`).
    pub drops: u64,
}

/// An embedded processor's bounded queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// Places free.
    pub free: u32,
    /// Places in all.
    pub total: u32,
}

/// Whether there is a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServerState {
    /// It takes messages.
    Up,
    /// It was not seen at the last look, but was not long ago: messages wait.
    Missing,
    /// It has been gone for `down_after_ns`: originals are refused until it is seen again.
    Down,
}

impl ServerState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Up, Self::Missing, Self::Down];

    /// The name in metrics and documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Missing => "missing",
            Self::Down => "down",
        }
    }
}

/// What a look has shown since the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Messages of this worker that the server has taken from its queue.
    pub departed: u64,
    /// This worker's part of the messages that the kernel dropped because the socket was full.
    pub dropped: u64,
    /// Messages that vanished with the server.
    pub lost: u64,
    /// The server now.
    pub server: ServerState,
    /// True when `server` has changed.
    pub changed: bool,
}

/// The account of one server at one worker.
#[derive(Debug, Clone)]
pub struct Credit {
    config: CreditConfig,
    rate: ServiceRate,
    truesize: Truesize,
    server: ServerState,
    missing_since: Nanos,
    last_look: Nanos,
    /// Waiting at the server by the last look, as far as it concerns this worker.
    waiting: u64,
    /// On the way to the server at the last look.
    in_flight: u64,
    /// What the last look allowed this worker.
    allowed: u64,
    /// The target is at least this; see the module's text.
    target_min: u64,
    /// Handed over since the last look.
    handed: u64,
    /// Handed over and neither dropped, lost nor departed, by the last look.
    /// INVARIANT after a look: at most `waiting + in_flight`; less when messages reach the server past sipweir, or late.
    open: u64,
    last_drops: u64,
    last_sockets: u32,
}

impl Credit {
    /// An account of a server that is not known to be there: nothing is granted before the first look.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration.
    pub fn new(config: CreditConfig, now: Nanos) -> Result<Self, ConfigError> {
        ConfigError::check(config.check())?;
        Ok(Self {
            config,
            rate: ServiceRate::new(config.rate, now),
            truesize: Truesize::new(),
            server: ServerState::Missing,
            missing_since: now,
            last_look: now,
            waiting: 0,
            in_flight: 0,
            allowed: 0,
            target_min: TARGET_MIN,
            handed: 0,
            open: 0,
            last_drops: 0,
            last_sockets: 0,
        })
    }

    /// Goes on by another configuration, which is taken as checked: what is known of the server stays, and the next look
    /// grants by the new target. A new first guess counts if nothing has been measured yet.
    pub fn reconfigure(&mut self, config: CreditConfig) {
        self.config = config;
        self.rate.guess(config.rate.initial_per_s);
    }

    /// Takes in the state of a local server's sockets. `in_flight` is how many of the messages handed over have not
    /// reached the server's IP stack yet, as far as is known; those of other accounts in it only delay departures.
    pub fn look_kernel(&mut self, now: Nanos, queue: ReceiveQueue, in_flight: u32) -> Look {
        if queue.sockets == 0 {
            return self.gone(now);
        }
        let workers = u64::from(self.config.workers);
        // A server that restarted begins a new count, as does a set of sockets that lost a member.
        let replaced = queue.sockets != self.last_sockets || queue.drops < self.last_drops;
        // Parts of the count and not of the difference, so that no remainder is lost.
        let dropped = if replaced { 0 } else { queue.drops / workers - self.last_drops / workers };
        (self.last_sockets, self.last_drops) = (queue.sockets, queue.drops);

        let waiting = self.truesize.messages(queue.bytes);
        if waiting > 0 {
            self.target_min = TARGET_MIN;
        } else if in_flight == 0 && self.handed > 0 && self.handed >= self.allowed {
            // Never more than twice a target, which comes from a u32.
            self.target_min = 2 * self.target(queue.limit_bytes);
        }
        self.in_flight = u64::from(in_flight);
        let look = self.present(now, waiting, workers, dropped);

        let free = self.target(queue.limit_bytes).saturating_sub(waiting + self.in_flight);
        self.allowed = free.div_ceil(workers);
        look
    }

    /// Takes in the state of an embedded processor's queue; `None` when the processor is gone.
    pub fn look_embedded(&mut self, now: Nanos, places: Option<Places>) -> Look {
        let Some(Places { free, total }) = places else {
            return self.gone(now);
        };
        let waiting = u64::from(total.saturating_sub(free));
        let look = self.present(now, waiting, 1, 0);
        self.allowed = u64::from(self.config.target_messages.min(total)).saturating_sub(waiting);
        look
    }

    /// How many messages may wait at a local server whose sockets drop at `limit_bytes`: never more than half of that
    /// holds, so that nothing is granted while it is half full.
    fn target(&self, limit_bytes: u64) -> u64 {
        let per_s = self.rate.rate_per_s() * f64::from(self.config.workers);
        let target = self.config.target_from(per_s, self.target_min);
        match limit_bytes {
            0 => target,
            _ => target.min(limit_bytes / 2 / self.truesize.bytes_per_message()).max(1),
        }
    }

    /// Settles the account with what waits at the server, for `workers` together.
    fn present(&mut self, now: Nanos, waiting: u64, workers: u64, dropped: u64) -> Look {
        let changed = self.server != ServerState::Up;
        self.server = ServerState::Up;

        // Drops of messages that are not ours may exceed what is open.
        let handed = std::mem::take(&mut self.handed);
        let open = (self.open + handed).saturating_sub(dropped);
        let waiting = match workers {
            1 => waiting,
            _ if self.config.only_monitors => waiting.div_ceil(workers),
            // What an idle worker sees is other workers' business.
            _ => waiting.div_ceil(workers).min(open),
        };
        let departed = open.saturating_sub(waiting + self.in_flight);

        // Strangers' messages alone say nothing of the rate at which ours are served. A queue found empty may have
        // been empty for a while: what left it then is the least that the server can do.
        let least_per_s = departed as f64 * NANOS_PER_S as f64 / now.saturating_sub(self.last_look) as f64;
        let worked = waiting.min(open) > 0 || least_per_s > self.rate.rate_per_s();
        let busy = !changed && self.waiting > 0 && worked;
        self.open = open - departed;
        self.rate.observe(now, departed, busy);
        self.waiting = waiting;
        self.last_look = now;
        Look { departed, dropped, lost: 0, server: self.server, changed }
    }

    fn gone(&mut self, now: Nanos) -> Look {
        let before = self.server;
        if before == ServerState::Up {
            self.missing_since = now;
            self.server = ServerState::Missing;
        }
        if self.server == ServerState::Missing
            && now.saturating_sub(self.missing_since) > self.config.down_after_ns
        {
            self.server = ServerState::Down;
        }
        let lost = std::mem::take(&mut self.open) + std::mem::take(&mut self.handed);
        (self.waiting, self.in_flight, self.last_drops, self.last_sockets) = (0, 0, 0, 0);
        self.rate.observe(now, 0, false);
        self.last_look = now;
        Look { departed: 0, dropped: 0, lost, server: self.server, changed: self.server != before }
    }

    /// How many messages may be handed over now.
    #[must_use]
    pub fn grant(&self) -> u32 {
        match self.server {
            // At most a target, which comes from a u32.
            ServerState::Up => self.allowed.saturating_sub(self.handed) as u32,
            ServerState::Missing | ServerState::Down => 0,
        }
    }

    /// Notes that one message was handed over, in a packet of so many bytes (which do not matter to an embedded
    /// processor).
    pub fn handed(&mut self, packet_len: u32) {
        self.handed += 1;
        self.truesize.handed(packet_len);
    }

    /// Messages of this worker at the server, as far as is known: its part of those that waited at the last look,
    /// those that were on their way then, and those handed over since.
    #[must_use]
    pub fn at_server(&self) -> u32 {
        u32::try_from(self.waiting + self.in_flight + self.handed).unwrap_or(u32::MAX)
    }

    /// The rate at which the server serves this worker, as measured.
    #[must_use]
    pub fn rate_per_s(&self) -> f64 {
        self.rate.rate_per_s()
    }

    /// Whether there is a server.
    #[must_use]
    pub const fn server(&self) -> ServerState {
        self.server
    }

    /// What one message takes of a receive queue in the mean.
    #[must_use]
    pub const fn bytes_per_message(&self) -> u64 {
        self.truesize.bytes_per_message()
    }
}

#[cfg(test)]
mod tests;
