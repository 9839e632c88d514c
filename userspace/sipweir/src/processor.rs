//! The `embedded` hand-off's interface: a SIP processor inside this process.
//!
//! A [`Processor`] gets one request at a time, on its own thread, and sends replies through [`Replies`].
//! Between it and the worker stands a bounded queue of preallocated packet buffers (`handoff::embedded`);
//! the free places of that queue are the server's credit.
//!
//! [`Answerer`] is the processor that ships with sipweir: a server of known capacity for demos and trials.

use std::net::SocketAddr;

use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;
use sip::{Class, Datagram, Method, ReplyLine, Seed};

use crate::clock;
use crate::config::{Embedded, ServiceTime};

/// A SIP processor that lives in this process.
pub trait Processor: Send {
    /// Processes one message. Called on the processor's own thread, in hand-over order; while it runs the
    /// message counts as being at the server.
    fn process(&mut self, request: &Request<'_>, replies: &mut Replies<'_>);
}

/// A message handed to a processor.
#[derive(Debug)]
pub struct Request<'a> {
    pub(crate) packet: &'a [u8],
    pub(crate) datagram: &'a Datagram,
    pub(crate) handed_over_ns: u64,
}

impl<'a> Request<'a> {
    /// The SIP message; the marker is already removed.
    #[must_use]
    pub fn message(&self) -> &'a [u8] {
        self.datagram.payload(self.packet)
    }

    /// Where it came from.
    #[must_use]
    pub fn source(&self) -> SocketAddr {
        self.datagram.source
    }

    /// The service address that it was sent to.
    #[must_use]
    pub fn destination(&self) -> SocketAddr {
        self.datagram.destination
    }

    /// When it was handed over, nanoseconds of CLOCK_MONOTONIC.
    #[must_use]
    pub fn handed_over_ns(&self) -> u64 {
        self.handed_over_ns
    }
}

/// Where a processor's replies go.
pub struct Replies<'a> {
    pub(crate) send: &'a mut dyn FnMut(&Request<'_>, SocketAddr, &[u8]) -> bool,
}

impl std::fmt::Debug for Replies<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Replies")
    }
}

impl Replies<'_> {
    /// Sends `message` as a UDP datagram to `destination`, from the address that `request` was sent to, by
    /// the link that it came from. False if there is no room (the network may lose it as well).
    pub fn send(&mut self, request: &Request<'_>, destination: SocketAddr, message: &[u8]) -> bool {
        (self.send)(request, destination, message)
    }
}

/// A server of known capacity: each request that starts something takes a service time, then gets 200.
///
/// It keeps its own virtual clock: service starts when the previous one ended or when the request was handed
/// over, whichever is later, and the thread sleeps until service ends. It therefore has exactly its capacity
/// and uses next to no CPU, even though sleeps end some tens of microseconds late. ACK, CANCEL and BYE take
/// no service time; a copy takes as much as an original, as with a server that must process it to find out. It can be
/// slow at first, as a server that starts or whose database is ill.
#[derive(Debug)]
pub struct Answerer {
    mean_ns: f64,
    /// Mean service time at first, and how long after the first request.
    slow: Option<(f64, u64)>,
    started_ns: Option<u64>,
    service_time: ServiceTime,
    random: Pcg64Mcg,
    free_at_ns: u64,
    reply: Vec<u8>,
    /// Makes the To tags.
    seed: Seed,
    contact: (SocketAddr, Vec<u8>),
}

const OK: ReplyLine = ReplyLine { code: 200, phrase: "OK" };

/// Room for one reply: no request is longer than a frame, and an answer adds a Contact and a tag.
const REPLY_BYTES_MAX: usize = 4096;

impl Answerer {
    /// A processor with `1/share` of the configured capacity, its random stream seeded by `stream`.
    #[must_use]
    pub fn new(config: &Embedded, share: u32, stream: u64) -> Self {
        let mean_ns = |capacity: f64| 1e9 / capacity * f64::from(share);
        Self {
            mean_ns: mean_ns(config.capacity),
            slow: config.slow_capacity.map(|capacity| (mean_ns(capacity), config.slow_for.nanos())),
            started_ns: None,
            service_time: config.service_time,
            random: Pcg64Mcg::seed_from_u64(0x51B3_E12D ^ stream),
            free_at_ns: 0,
            reply: vec![0; REPLY_BYTES_MAX],
            seed: Seed(rand::random()),
            contact: (SocketAddr::from(([0, 0, 0, 0], 0)), Vec::new()),
        }
    }

    /// The Contact line for a dialog at this address; made once, since the address hardly ever changes.
    fn update_contact(&mut self, address: SocketAddr) {
        if self.contact.0 != address {
            self.contact = (address, format!("Contact: <sip:{address}>\r\n").into_bytes());
        }
    }

    /// The time of a service that starts at `start_ns`.
    fn service_ns(&mut self, start_ns: u64) -> u64 {
        let started_ns = *self.started_ns.get_or_insert(start_ns);
        let mean_ns = match self.slow {
            Some((slow_ns, slow_for_ns)) if start_ns - started_ns < slow_for_ns => slow_ns,
            _ => self.mean_ns,
        };
        let factor: f64 = match self.service_time {
            ServiceTime::Constant => 1.0,
            ServiceTime::Exponential => Exp1.sample(&mut self.random),
        };
        // Non-negative and far below 2^63: a saturating float-to-int conversion is exact enough.
        (mean_ns * factor) as u64
    }
}

impl Processor for Answerer {
    fn process(&mut self, request: &Request<'_>, replies: &mut Replies<'_>) {
        let message = request.message();
        let sip::Message { class, method, .. } = sip::classify(message);
        if matches!(class, Class::Response | Class::Ack | Class::Keepalive | Class::Stun | Class::NotSip) {
            return;
        }
        if !matches!(method, Method::Bye | Method::Cancel | Method::Prack) {
            let start_ns = self.free_at_ns.max(request.handed_over_ns());
            self.free_at_ns = start_ns + self.service_ns(start_ns);
            clock::sleep_until(self.free_at_ns);
        }
        self.update_contact(request.destination());
        let contact = &self.contact.1;
        let written =
            sip::write_response(message, request.source(), &self.seed, OK, contact, &mut self.reply);
        if let Ok(reply) = written {
            // Without room the reply is lost, as on a network: the client asks again.
            let _sent = replies.send(request, reply.destination, &self.reply[..reply.len]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Answerer;
    use crate::config::{Embedded, ServiceTime};

    #[test]
    fn a_slow_start_ends_after_its_time_and_counts_from_the_first_request() {
        let config = Embedded {
            capacity: 1000.0,
            service_time: ServiceTime::Constant,
            slow_capacity: Some(100.0),
            ..Embedded::default()
        };
        let slow_for_ns = config.slow_for.nanos();
        let mut answerer = Answerer::new(&config, 2, 0);
        let first_ns = 7_000_000_000;
        let times = [0, slow_for_ns - 1, slow_for_ns].map(|after| answerer.service_ns(first_ns + after));
        assert_eq!(times, [20_000_000, 20_000_000, 2_000_000]);
        let steady = Embedded { slow_capacity: None, ..config };
        assert_eq!(Answerer::new(&steady, 1, 0).service_ns(first_ns), 1_000_000);
    }
}
