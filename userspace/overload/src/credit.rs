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
//! What cannot be seen from here: messages that the server has read and is still working on, and messages lost
//! between hand-off and socket, which look like departures.

use crate::Nanos;
use crate::config::{ConfigError, Problem};
use crate::rate::{RateConfig, ServiceRate};
use crate::truesize::Truesize;

/// How short to keep the server's queue and when to believe that it is gone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CreditConfig {
    /// Messages that may wait at the server. Smaller than what it serves between two looks: it idles while messages
    /// wait here; larger: what waits there can no longer be overtaken by what matters more.
    pub target_messages: u32,
    /// How long no socket may be seen before originals are refused, in nanoseconds. Shorter than a quick restart of
    /// the server: calls are refused that could have waited; longer than `max_wait`: they go stale first.
    pub down_after_ns: Nanos,
    /// The service rate's estimator.
    pub rate: RateConfig,
}

impl Default for CreditConfig {
    fn default() -> Self {
        Self { target_messages: 16, down_after_ns: 200_000_000, rate: RateConfig::default() }
    }
}

impl CreditConfig {
    /// All problems.
    #[must_use]
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = self.rate.check();
        if self.target_messages == 0 {
            problems.push(Problem::Zero { field: "target_messages" });
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
    /// Messages that the server has taken from its queue.
    pub departed: u64,
    /// Messages that the kernel dropped because the socket was full.
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
    /// Waiting at the server by the last look.
    waiting: u64,
    /// On the way to the server at the last look.
    in_flight: u64,
    /// The most that may wait: the target, or the embedded queue's size if that is less.
    limit: u64,
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
            limit: u64::from(config.target_messages),
            handed: 0,
            open: 0,
            last_drops: 0,
            last_sockets: 0,
        })
    }

    /// Takes in the state of a local server's sockets. `in_flight` is how many of the messages handed over have not
    /// reached the server's IP stack yet, as far as is known; those of other accounts in it only delay departures.
    pub fn look_kernel(&mut self, now: Nanos, queue: ReceiveQueue, in_flight: u32) -> Look {
        if queue.sockets == 0 {
            return self.gone(now);
        }
        // A server that restarted begins a new count, as does a set of sockets that lost a member.
        let replaced = queue.sockets != self.last_sockets || queue.drops < self.last_drops;
        let dropped = if replaced { 0 } else { queue.drops - self.last_drops };
        (self.last_sockets, self.last_drops) = (queue.sockets, queue.drops);

        let servable = now.saturating_sub(self.last_look) as f64 * self.rate.rate_per_s() / 1e9;
        let settled = self.handed == 0 && in_flight == 0;
        self.truesize.observe(queue.bytes, self.handed, settled, servable, replaced || dropped > 0);
        self.in_flight = u64::from(in_flight);
        self.present(now, self.truesize.messages(queue.bytes), dropped)
    }

    /// Takes in the state of an embedded processor's queue; `None` when the processor is gone.
    pub fn look_embedded(&mut self, now: Nanos, places: Option<Places>) -> Look {
        let Some(Places { free, total }) = places else {
            return self.gone(now);
        };
        self.limit = u64::from(self.config.target_messages.min(total));
        self.present(now, u64::from(total.saturating_sub(free)), 0)
    }

    fn present(&mut self, now: Nanos, waiting: u64, dropped: u64) -> Look {
        let changed = self.server != ServerState::Up;
        self.server = ServerState::Up;

        // Drops of messages that are not ours may exceed what is open.
        let handed = std::mem::take(&mut self.handed);
        let open = (self.open + handed).saturating_sub(dropped);
        let departed = open.saturating_sub(waiting + self.in_flight);
        self.open = open - departed;

        let busy = !changed && self.waiting > 0 && waiting > 0;
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
            // At most the limit, which comes from a u32.
            ServerState::Up => self.limit.saturating_sub(u64::from(self.at_server())) as u32,
            ServerState::Missing | ServerState::Down => 0,
        }
    }

    /// Notes that `count` messages were handed over.
    pub const fn handed(&mut self, count: u32) {
        self.handed += count as u64;
    }

    /// Messages at the server, as far as is known: those that waited at the last look, those that were on their way
    /// to it then, and those handed over since.
    #[must_use]
    pub fn at_server(&self) -> u32 {
        u32::try_from(self.waiting + self.in_flight + self.handed).unwrap_or(u32::MAX)
    }

    /// The measured service rate.
    #[must_use]
    pub fn rate_per_s(&self) -> f64 {
        self.rate.rate_per_s()
    }

    /// Whether there is a server.
    #[must_use]
    pub const fn server(&self) -> ServerState {
        self.server
    }

    /// What one message takes of a receive queue, as learned.
    #[must_use]
    pub const fn bytes_per_message(&self) -> u32 {
        self.truesize.bytes_per_message()
    }
}

#[cfg(test)]
mod tests;
