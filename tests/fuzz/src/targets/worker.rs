//! The worker's turn over paired rings: packets, metadata, times and a server that the bytes choose.
//!
//! The furniture is that of the worker's own tests. Time is the fuzzer's, so a case of minutes takes microseconds.

use afxdp::{PortConfig, UmemConfig};
use overload::{GateConfig, HystereticConfig, RandomConfig, Threshold};
use sip::{Checksum, Class, Method, Services, classify, parse_packet, verdict_of, verify_udp};
use sipweir::config::Reply;
use sipweir::counters::Outcome;

use super::bytes::Bytes;

#[path = "../../../../userspace/sipweir/tests/support/mod.rs"]
mod support;

use support::{Bench, MS, Setup, meta, packet, request};

/// Steps of a case at most; a longer one would only be slow.
const STEPS_MAX: usize = 400;
const METHODS: [&str; 8] = ["INVITE", "ACK", "CANCEL", "BYE", "REGISTER", "OPTIONS", "PRACK", "INFO"];
const URIS: [&str; 4] =
    ["sip:b@example.com", "sip:b@example.com;rtx=0", "sip:b@example.com;rtx=2", "urn:service:sos"];

/// Runs a worker through what the bytes say.
///
/// # Panics
///
/// If a frame leaks, a packet is not counted exactly once, or something leaves that should not.
pub fn worker(data: &[u8]) {
    let mut bytes = Bytes(data);
    let mut case = Case { bench: Bench::new(&setup(&mut bytes)), tally: Tally::default() };
    for _ in 0..STEPS_MAX {
        if bytes.is_empty() {
            break;
        }
        case.step(&mut bytes);
    }
    case.finish(bytes.0.len() % 2 == 0);
}

fn setup(bytes: &mut Bytes<'_>) -> Setup {
    let kind = bytes.byte();
    let gate = match kind % 4 {
        0 => GateConfig::TailDrop { buffer: Threshold::Messages(12) },
        1 => GateConfig::Fifo { buffer: Threshold::Messages(12) },
        2 => GateConfig::Random(RandomConfig {
            low: Threshold::Messages(3),
            high: Threshold::Messages(9),
            buffer: Threshold::Messages(12),
            weight: 0.5,
            initial_probability: 0.16,
        }),
        _ => GateConfig::Hysteretic(HystereticConfig {
            admit_below: Threshold::Messages(3),
            shed_at: Threshold::Messages(6),
            discard_at: Threshold::Messages(12),
            share: 0.5,
        }),
    };
    let port = PortConfig {
        rx_ring_sizes: [64, 64, 16, 16],
        fill_ring_size: 256,
        tx_ring_size: if kind & 4 == 0 { 64 } else { 128 },
        // Few, since each case makes its own; now and then they run out, which is a case of its own.
        umem: UmemConfig {
            frames: 1024,
            frame_size: if kind & 64 == 0 { 2048 } else { 4096 },
            ..UmemConfig::default()
        },
        ..PortConfig::default()
    };
    Setup {
        gate,
        queue_target: 1 + u32::from(kind >> 5),
        max_wait_ns: 40 * MS,
        rate_per_s: 200.0,
        reply: Reply { code: if kind & 8 == 0 { 503 } else { 0 }, ..Reply::default() },
        // Few, so that transactions are evicted too.
        buckets: if kind & 16 == 0 { 2 } else { 64 },
        port,
        ..Setup::default()
    }
}

/// What the test saw from outside.
#[derive(Debug, Default)]
struct Tally {
    delivered: u64,
    at_server: u64,
    replies: u64,
    /// A packet's bytes were changed under its metadata, which the kernel never does: what answers it may be as odd.
    damaged: bool,
}

/// Until everything has come out of the rings.
const DRAIN_TURNS_MIN: usize = 40;
/// More turns than a case has messages.
const DRAIN_TURNS_MAX: usize = 1024;

struct Case {
    bench: Bench,
    tally: Tally,
}

impl Case {
    fn step(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.below(16) {
            0..=6 => {
                let method = METHODS[bytes.below(METHODS.len())];
                let message = request(method, URIS[bytes.below(URIS.len())], &format!("c{}", bytes.below(6)));
                self.deliver(message.as_bytes(), bytes);
            }
            7 => {
                let method = METHODS[bytes.below(METHODS.len())];
                let message = request(method, URIS[0], "c1")
                    .replace("b@example.com>\r\nC", "b@example.com>;tag=t\r\nC");
                self.deliver(message.as_bytes(), bytes);
            }
            8 => {
                let len = bytes.below(256);
                let message = bytes.take(len);
                self.deliver(message, bytes);
            }
            9 => {
                let (byte, eights, ones) = (bytes.byte(), bytes.below(256), bytes.below(9));
                self.deliver(&vec![byte; eights * 8 + ones], bytes);
            }
            10 => self.bench.server.set_waiting(bytes.below(32) as u64),
            11 => self.bench.server.set_gone(bytes.below(4) == 0),
            12 => self.look(bytes.below(4)),
            _ => {
                let later_ns = bytes.below(256) as u64 * [1000, MS / 4, MS, 30 * MS][bytes.below(4)];
                self.turn(later_ns);
            }
        }
    }

    /// One packet, as the program would have delivered it, or with something about it changed.
    fn deliver(&mut self, message: &[u8], bytes: &mut Bytes<'_>) {
        let found = classify(message);
        let mut packet = packet(message);
        let mut class = found.class;
        let mut marker = found.marker;
        let mut ring = verdict_of(class).ring().unwrap_or(1);
        let mut method = found.method;
        let lies = bytes.byte();
        if lies & 1 != 0 {
            // Left to user space.
            (class, ring) = (Class::Undecided, 1);
        }
        if lies & 2 != 0 {
            (class, ring) = (Class::Original, 3);
        }
        if lies & 0x30 == 0x30 {
            ring = bytes.below(4);
            class = Class::from_u8(bytes.byte() % 16).unwrap_or(Class::Undecided);
        }
        if lies & 0x50 == 0x50 {
            method = Method::from_u8(bytes.byte() % 15).unwrap_or(Method::Other);
            marker = None;
        }
        let arrival_ns = (self.bench.now_ns + 50 * MS).saturating_sub(bytes.below(256) as u64 * MS / 4);
        let mut meta = meta(arrival_ns, message, class, method, marker);
        if lies & 0x90 == 0x90 {
            for _ in 0..=bytes.below(3) {
                meta[bytes.below(32)] = bytes.byte();
            }
        }
        if lies & 0x84 == 0x84 {
            let at = bytes.below(256) % packet.len();
            packet[at] ^= bytes.byte();
            self.tally.damaged = true;
        }
        self.tally.delivered += u64::from(self.bench.wire.deliver(ring, &packet, &meta).is_ok());
    }

    fn turn(&mut self, later_ns: u64) {
        self.bench.turn_after(later_ns);
        let lane = &self.bench.lane;
        assert_eq!(lane.received_total(), lane.outcomes_total() + lane.waiting.get(), "{:?}", self.tally);
        assert!(self.bench.counters.frames_outstanding.get() >= lane.waiting.get());
    }

    /// Lets one wire, both or none take what is on it, and looks at it.
    fn look(&mut self, which: usize) {
        if which & 1 != 0 {
            for packet in self.bench.egress.sent() {
                self.tally.at_server += 1;
                check_handed_over(&packet);
            }
        }
        if which & 2 != 0 {
            for packet in self.bench.wire.sent() {
                self.tally.replies += 1;
                check_answer(&packet, self.tally.damaged);
            }
        }
    }

    /// Ends the worker, at once or after everything has found its way out, and settles the accounts.
    fn finish(mut self, drain: bool) {
        if drain {
            self.bench.server.set_gone(false);
            self.bench.server.set_waiting(0);
            // A message a turn, if the server's queue is that short; what was handed over last is looked at, too.
            for turn in 0..DRAIN_TURNS_MAX {
                self.look(3);
                self.turn(20 * MS);
                if turn >= DRAIN_TURNS_MIN && self.bench.lane.waiting.get() == 0 {
                    break;
                }
            }
            self.look(3);
            let (lane, counters) = (&self.bench.lane, &self.bench.counters);
            assert_eq!(lane.waiting.get(), 0, "everything is served or let go");
            assert_eq!(self.tally.delivered, lane.received_total() + counters.bad_metadata.get());
            assert_eq!(counters.frames_outstanding.get(), 0);
        }
        let Self { bench, mut tally } = self;
        let Bench { worker, mut wire, mut egress, lane, counters, now_ns, .. } = bench;
        assert_eq!(worker.finish(now_ns + MS), 0, "a frame leaked");
        tally.at_server += egress.sent().iter().map(|packet| check_handed_over(packet)).count() as u64;
        tally.replies += wire.sent().iter().map(|packet| check_answer(packet, tally.damaged)).count() as u64;

        assert_eq!(lane.received_total(), lane.outcomes_total(), "each packet has one outcome");
        assert_eq!(lane.waiting.get(), 0);
        assert!(lane.received_total() + counters.bad_metadata.get() <= tally.delivered);
        assert_eq!(counters.bad_descriptors.get(), 0);
        let of = |outcome| Class::ALL.iter().map(|class| lane.outcome_of(*class, outcome)).sum::<u64>();
        let answers = [
            Outcome::Rejected,
            Outcome::RejectedLate,
            Outcome::RejectedServerDown,
            Outcome::RejectedAboveCap,
        ];
        let answered: u64 = answers.into_iter().map(of).sum();
        assert_eq!(counters.replies_sent.get(), answered, "each answer belongs to one outcome");
        assert!(tally.at_server <= of(Outcome::HandedOver) && tally.replies <= answered, "{tally:?}");
        if drain {
            assert_eq!((tally.at_server, tally.replies), (of(Outcome::HandedOver), answered));
        }
    }
}

/// What the server gets is a sound packet, and never damaged on the way.
fn check_handed_over(packet: &[u8]) {
    assert_eq!(
        packet[..12],
        [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8],
        "from our end of the link to the server's"
    );
    let all = Services::new((0..=u16::MAX).step_by(5060).skip(1).map(|port| (None, port)));
    // Ports may be a fuzzer's; the address and the checksum are then still right, or the packet was refused.
    if let Ok((datagram, _)) = parse_packet(packet, &all, usize::MAX) {
        assert_ne!(verify_udp(packet, &datagram), Checksum::Wrong);
        assert_ne!(verify_udp(packet, &datagram), Checksum::Partial);
    }
}

/// What is sent back is a response in a sound packet.
fn check_answer(packet: &[u8], damaged: bool) {
    let Some(&[high, low]) = packet.get(36..38) else { panic!("a short answer: {packet:02x?}") };
    let back = Services::new([(None, u16::from_be_bytes([high, low]))]);
    match parse_packet(packet, &back, usize::MAX) {
        Ok((datagram, _)) => {
            assert_eq!(verify_udp(packet, &datagram), Checksum::Right);
            assert_eq!(classify(datagram.payload(packet)).class, Class::Response);
        }
        Err(passed) => assert!(damaged, "{passed:?}"),
    }
}
