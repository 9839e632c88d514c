//! What the detour adds to a request's way, at a tenth of what it carries.
//!
//! One thread on the generator's core does both ends: it sends at the times of a Poisson process and otherwise looks at the
//! server's socket without pause, so no sleep of a receiver is in the figures. Times count from the call that sends.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};

use anyhow::{Context as _, ensure};
use bench::{Arrivals, CallerConfig, monotonic_ns};
use hdrhistogram::Histogram;
use sipweir_tests::message;

use super::{Found, Guarded, Room};
use crate::report::{Details, Row};
use crate::rival::socket;
use crate::scenario::Scenario;
use crate::stage::{Wire, on_core};
use crate::statistics::{Rounds, median};
use crate::subject::Subject;

/// How long the last requests may be on their way.
const LAST_NS: u64 = 500_000_000;
/// Bytes of a body, so that a request has about 600.
const BODY_LEN: usize = 220;
const CALLER_PORT: u16 = 5060;

pub(super) fn measure(room: &Room<'_>, scenario: &Scenario) -> anyhow::Result<Found> {
    let rate_per_s = scenario.rate_per_s.context("the scenario has no rate_per_s")?;
    let packets = room.packets(scenario);
    let guarded = Path::open(room, Wire::Guarded)?;
    let direct = Path::open(room, Wire::Rival)?;
    let mut subject = Subject::start(&room.stage.server, &scenario.sipweir)?;
    let mut seed = 0;
    let mut measure = |path: &Path| {
        room.go_on()?;
        seed += 1;
        on_core(room.stage.cores.generator, || path.delays(rate_per_s, packets, seed))
    };

    // A warm-up, in which sipweir learns how fast the server is.
    measure(&guarded)?;
    subject.was_offered(packets);
    let quantiles = [("p50", 0.50), ("p99", 0.99), ("p999", 0.999)];
    let mut rounds = [Rounds::default(), Rounds::default(), Rounds::default()];
    for _ in 0..room.rounds(scenario) {
        let ours = measure(&guarded)?;
        subject.was_offered(packets);
        let theirs = measure(&direct)?;
        for (rounds, (_, quantile)) in rounds.iter_mut().zip(quantiles) {
            let us = |delays: &Histogram<u64>| delays.value_at_quantile(quantile) as f64 / 1e3;
            rounds.push(us(&ours), us(&theirs));
        }
    }

    let mut details = Details::default();
    details.note("rate_per_s", rate_per_s);
    Guarded::end_subject(subject, &mut details, guarded)?;
    let mut rows = Vec::new();
    for (rounds, (quantile, _)) in rounds.iter().zip(quantiles) {
        let name = format!("latency_{quantile}_us");
        details.rounds(&name, rounds);
        let added: Vec<f64> =
            rounds.values.iter().zip(&rounds.rival_values).map(|(ours, direct)| ours - direct).collect();
        rows.push(Row { value: median(&added), ..Row::of_rounds(&name, "µs added", "direct path", rounds) });
    }
    Ok(Found { rows, details })
}

/// Both ends of a way.
struct Path {
    caller: UdpSocket,
    server: UdpSocket,
    from: SocketAddr,
    to: SocketAddr,
}

impl Path {
    fn open(room: &Room<'_>, wire: Wire) -> anyhow::Result<Self> {
        let (from, to) = (SocketAddr::new(wire.caller(), CALLER_PORT), wire.service());
        let caller = UdpSocket::bind(from).with_context(|| format!("cannot bind {from}"))?;
        caller.connect(to).with_context(|| format!("cannot connect to {to}"))?;
        let server = room.stage.at_server(|| socket::bind(to))?;
        server.set_nonblocking(true).context("cannot make a socket non-blocking")?;
        Ok(Self { caller, server, from, to })
    }

    /// Delays of so many requests, nanoseconds.
    fn delays(&self, rate_per_s: f64, packets: u64, seed: u64) -> anyhow::Result<Histogram<u64>> {
        let mut config = CallerConfig::new(self.to);
        (config.rate_per_s, config.seed) = (rate_per_s, seed);
        // Twice the time that they take on average.
        config.duration_ns = (2e9 * packets as f64 / rate_per_s) as u64;
        let mut delays = Histogram::new(3).context("three digits are possible")?;
        let mut sent_ns: Vec<u64> = Vec::with_capacity(usize::try_from(packets)?);
        let begin_ns = monotonic_ns();
        for (at_ns, number) in Arrivals::new(&config).zip(0..packets) {
            let request = message::request("INVITE", self.from, self.to, number + (seed << 32), "", BODY_LEN);
            while monotonic_ns() < begin_ns + at_ns {
                self.receive(&sent_ns, seed, &mut delays)?;
            }
            sent_ns.push(monotonic_ns());
            self.caller.send(&request).context("cannot send")?;
        }
        let last_ns = monotonic_ns() + LAST_NS;
        while delays.len() < packets && monotonic_ns() < last_ns {
            self.receive(&sent_ns, seed, &mut delays)?;
        }
        ensure!(delays.len() == packets, "{packets} requests were sent and {} came", delays.len());
        Ok(delays)
    }

    /// Takes in what has arrived.
    fn receive(&self, sent_ns: &[u64], seed: u64, delays: &mut Histogram<u64>) -> anyhow::Result<()> {
        let mut buffer = [0; 2048];
        loop {
            match self.server.recv(&mut buffer) {
                Ok(len) => {
                    let now_ns = monotonic_ns();
                    let number = number_of(&buffer[..len]).context("a datagram that was not sent")?;
                    let index = usize::try_from(number.wrapping_sub(seed << 32))?;
                    let sent_ns = sent_ns.get(index).context("a request of another run")?;
                    delays.record(now_ns.saturating_sub(*sent_ns)).context("a delay beyond any clock")?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("cannot receive"),
            }
        }
    }
}

/// The number in `Call-ID: NUMBER@…`.
fn number_of(request: &[u8]) -> Option<u64> {
    const NAME: &[u8] = b"\r\nCall-ID: ";
    let at = request.windows(NAME.len()).position(|window| window == NAME)? + NAME.len();
    let digits = request[at..].split(|byte| *byte == b'@').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use sipweir_tests::message;

    use super::number_of;

    #[test]
    fn the_number_comes_back_from_the_request() {
        let address = ([192, 0, 2, 1], 5060).into();
        let number = (7 << 32) + 12;
        assert_eq!(number_of(&message::request("INVITE", address, address, number, "", 9)), Some(number));
        assert_eq!(number_of(b"INVITE sip:x SIP/2.0\r\n\r\n"), None);
    }
}
