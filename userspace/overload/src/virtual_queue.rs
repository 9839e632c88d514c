//! The line that would wait here if sipweir guarded what it only watches.
//!
//! Nothing waits here in monitor mode: everything goes to the server's socket, which drops what it has no room for. So the
//! number that the gate would see is computed. Originals that the gate would have admitted join the line; the server would
//! have worked it off at the rate at which it serves originals, and while it has anything to do, that is:
//!
//! ```text
//!   departures = arrivals at the server − its drops − growth of its receive queue      all messages
//!   originals served a second = departures a busy second · originals / (originals + control)
//! ```
//!
//! Copies are left out of the mix: behind sipweir hardly any reaches the server. What this cannot know is how much faster
//! the server would be without the copies that it throws away half-read, so the line is rather too long than too short.

use crate::mix::Mix;
use crate::rate::{RateConfig, ServiceRate};
use crate::{NANOS_PER_S, Nanos};

/// Messages that came for a server since the start, and would be handed over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Originals that the gate admitted.
    pub originals: u64,
    /// Control messages.
    pub control: u64,
    /// All messages, those that would be shed and copies too.
    pub all: u64,
}

/// The line of one service at one worker.
#[derive(Debug, Clone)]
pub struct VirtualQueue {
    rate: ServiceRate,
    last: Nanos,
    seen: Arrivals,
    /// In the server's receive queue at the last look.
    at_server: u64,
    mix: Mix,
    /// Originals in line; a fraction of one is half served.
    waiting: f64,
}

impl VirtualQueue {
    /// An empty line. The configuration is taken as checked.
    #[must_use]
    pub fn new(rate: RateConfig, now: Nanos) -> Self {
        Self {
            rate: ServiceRate::new(rate, now),
            last: now,
            seen: Arrivals::default(),
            at_server: 0,
            mix: Mix::default(),
            waiting: 0.0,
        }
    }

    /// Replaces the first guess of the server's rate, if nothing has been measured yet.
    pub fn guess(&mut self, per_s: f64) {
        self.rate.guess(per_s);
    }

    /// Takes in what came since the start, what waits at the server now, and what its socket has dropped since the last
    /// look.
    pub fn look(&mut self, now: Nanos, arrivals: Arrivals, at_server: u64, dropped: u64) {
        let elapsed_ns = now.saturating_sub(self.last) as f64;
        let originals = arrivals.originals.saturating_sub(self.seen.originals);
        let control = arrivals.control.saturating_sub(self.seen.control);
        let all = arrivals.all.saturating_sub(self.seen.all);
        let departed = (self.at_server + all).saturating_sub(dropped + at_server);
        self.rate.observe(now, departed, self.at_server > 0 && at_server > 0);
        self.mix.forget_if_old(now);
        self.mix.note(originals, originals + control, now);

        // The first look has no beginning, and says nothing of what came before.
        if self.seen != Arrivals::default() {
            let served = self.rate_per_s() * elapsed_ns / NANOS_PER_S as f64;
            // A server that has kept up, however little is known of its rate, would have kept up.
            let kept_up = if at_server == 0 && dropped == 0 { originals } else { 0 };
            self.waiting = (self.waiting + originals as f64 - served.max(kept_up as f64)).max(0.0);
        }
        (self.last, self.seen, self.at_server) = (now, arrivals, at_server);
    }

    /// Originals that would wait or be at the server. What is in its receive queue counts by the share of originals.
    #[must_use]
    pub fn in_system(&self) -> usize {
        // Finite and not negative; a cast saturates.
        self.waiting.max(self.at_server as f64 * self.mix.share()).round() as usize
    }

    /// Originals that the server serves in a second.
    #[must_use]
    pub fn rate_per_s(&self) -> f64 {
        self.rate.rate_per_s() * self.mix.share()
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrivals, VirtualQueue};
    use crate::rate::RateConfig;

    const MS: u64 = 1_000_000;

    /// A server that reads `capacity_per_ms` messages, behind a socket that holds so many, and two control messages for
    /// each original; for so many milliseconds.
    struct Server {
        queue: VirtualQueue,
        now: u64,
        arrivals: Arrivals,
        at_server: u64,
        holds: u64,
        capacity_per_ms: u64,
    }

    impl Server {
        /// `guess_per_s` is the first guess of all messages.
        fn new(guess_per_s: f64, capacity_per_ms: u64) -> Self {
            let config = RateConfig { initial_per_s: guess_per_s, ..RateConfig::default() };
            let (queue, holds) = (VirtualQueue::new(config, 0), 90);
            Self { queue, now: 0, arrivals: Arrivals::default(), at_server: 0, holds, capacity_per_ms }
        }

        fn run(&mut self, ms: u64, originals_per_ms: u64, copies_per_ms: u64) {
            for _ in 0..ms {
                self.now += MS;
                let (originals, control) = (originals_per_ms, 2 * originals_per_ms);
                let all = originals + control + copies_per_ms;
                self.arrivals.originals += originals;
                self.arrivals.control += control;
                self.arrivals.all += all;
                let wanted = self.at_server + all;
                let dropped = wanted.saturating_sub(self.capacity_per_ms).saturating_sub(self.holds);
                self.at_server = wanted.saturating_sub(self.capacity_per_ms).min(self.holds);
                self.queue.look(self.now, self.arrivals, self.at_server, dropped);
            }
        }
    }

    #[test]
    fn the_line_grows_by_what_the_server_does_not_serve_although_its_socket_is_small() {
        // 30 messages a millisecond, a third of them originals: 10,000 originals a second.
        let mut server = Server::new(29_000.0, 30);
        server.run(3000, 10, 0);
        assert!(server.queue.in_system() < 100, "{} at capacity", server.queue.in_system());
        server.run(3000, 12, 0);
        let rate = server.queue.rate_per_s();
        assert!((rate - 10_000.0).abs() < 600.0, "{rate}");
        let expected = 3000.0 * 2.0;
        let waiting = server.queue.in_system() as f64;
        assert!((waiting - expected).abs() < 0.2 * expected, "{waiting}");
        // Nobody is admitted any more: worked off, and then empty.
        server.run(1500, 0, 0);
        assert_eq!(server.queue.in_system(), 0);
    }

    #[test]
    fn copies_do_not_join_the_line() {
        let mut server = Server::new(1000.0, 30);
        server.run(5000, 5, 200);
        // Half of the server's capacity, which the copies take from it here and would not there.
        let waiting = server.queue.in_system();
        assert!(waiting <= 90, "{waiting}");
    }

    #[test]
    fn a_server_that_does_nothing_is_behind_at_once() {
        let mut server = Server::new(1000.0, 0);
        server.run(1000, 5, 0);
        // By the first guess of 1000 messages a second, which fades.
        let waiting = server.queue.in_system();
        assert!((4300..=5000).contains(&waiting), "{waiting}");
    }
}
