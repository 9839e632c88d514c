//! Field case 65: what is refused goes to a HEP collector, and no collector changes what the worker does. The worker's
//! turn over paired rings, the sending thread, and a collector of the test's own on loopback, each test at an address
//! of its own, so that a port that one leaves free is not taken by another.

mod support;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use overload::{GateConfig, HystereticConfig, Threshold};
use sip::{Class, Method};
use sipweir::capture::{Exporter, MESSAGE_BYTES_MAX, Sent};
use sipweir::config::{Capture, Collector};
use sipweir::counters::Outcome;
use support::{Bench, MS, NEW, REJECT, Setup, request};

const AGENT: u32 = 2047;

fn config(collector: SocketAddr) -> Capture {
    Capture { collector: Collector(collector), agent_id: AGENT, messages: 64 }
}

fn bench(capture: u32) -> Bench {
    let gate = GateConfig::Hysteretic(HystereticConfig {
        admit_below: Threshold::Messages(1),
        shed_at: Threshold::Messages(2),
        discard_at: Threshold::Messages(8),
        share: 0.5,
    });
    Bench::new(&Setup { gate, queue_target: 4, capture, ..Setup::default() })
}

fn export(bench: &mut Bench, collector: SocketAddr) -> Exporter {
    let outlet = bench.outlet.take().expect("the other end");
    Exporter::start(&config(collector), vec![outlet]).expect("thread")
}

/// Any port of an address that only this test has.
const fn own(test: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 65, 0, test)), 0)
}

/// A collector that reads.
fn collector(address: SocketAddr) -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind(address).expect("bind");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("time-out");
    let address = socket.local_addr().expect("address");
    (socket, address)
}

/// A HEP datagram taken apart: chunks by type, each at most once.
struct Hep(std::collections::BTreeMap<u16, Vec<u8>>);

impl Hep {
    fn receive(socket: &UdpSocket) -> Self {
        let mut datagram = vec![0; 65_535];
        let len = socket.recv(&mut datagram).expect("a captured message");
        let datagram = &datagram[..len];
        assert_eq!(&datagram[..4], b"HEP3");
        assert_eq!(number(&datagram[4..6]), len as u64);
        let mut chunks = std::collections::BTreeMap::new();
        let mut rest = &datagram[6..];
        while !rest.is_empty() {
            assert_eq!(number(&rest[..2]), 0, "a chunk of the specification");
            let (kind, len) = (number(&rest[2..4]) as u16, number(&rest[4..6]) as usize);
            assert!(chunks.insert(kind, rest[6..len].to_vec()).is_none(), "chunk {kind} comes twice");
            rest = &rest[len..];
        }
        Self(chunks)
    }

    fn number(&self, kind: u16) -> u64 {
        number(&self.0[&kind])
    }

    fn payload(&self) -> String {
        String::from_utf8(self.0[&15].clone()).expect("text")
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn refused_invites_arrive_at_the_collector_as_they_came_and_nothing_else_does() {
    let (socket, address) = collector(own(1));
    let mut bench = bench(64);
    bench.now_ns = sipweir::clock::now();
    let exporter = export(&mut bench, address);
    // One that is handed over, one by the reject ring, and from it the ACK to sipweir's own answer.
    bench.deliver(&request("INVITE", "sip:served", "served")).expect("delivered");
    bench.turn_after(MS);
    let refused = request("INVITE", "sip:refused;rtx=0", "refused");
    bench.deliver_as(REJECT, refused.as_bytes(), Class::Original, Method::Invite, None).expect("delivered");
    bench.turn_after(MS);
    let refusal = bench.replies().remove(0);
    let to = refusal.lines().find(|line| line.starts_with("To:")).expect("To");
    let ack = refused.replacen("INVITE", "ACK", 1).replace("1 INVITE", "1 ACK");
    bench.deliver(&ack.replace("To: <sip:b@example.com>", to)).expect("delivered");
    bench.turn_after(MS);
    assert_eq!(bench.lane.outcome_of(Class::Ack, Outcome::AckAbsorbed), 1);
    // And one that waits too long.
    bench.server.set_waiting(4);
    bench.turn_after(MS);
    let late = request("INVITE", "sip:late", "late");
    bench.deliver(&late).expect("delivered");
    bench.turn_after(MS);
    bench.turn_after(401 * MS);

    let first = Hep::receive(&socket);
    assert_eq!(first.payload(), refused, "with its marker");
    assert_eq!(Hep::receive(&socket).payload(), late);
    assert_eq!(first.0.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 15]);
    assert_eq!([first.number(1), first.number(2), first.number(11)], [2, 17, 1], "IPv4, UDP, SIP");
    assert_eq!((&first.0[&3][..], &first.0[&4][..]), (&[198, 51, 100, 7][..], &[192, 0, 2, 1][..]));
    assert_eq!([first.number(7), first.number(8), first.number(12)], [5062, 5060, u64::from(AGENT)]);
    let now_us = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros() as u64;
    let at_us = first.number(9) * 1_000_000 + first.number(10);
    assert!(now_us.abs_diff(at_us) < 60_000_000, "{at_us} is not now, {now_us}");

    let sent = exporter.counters();
    drop(exporter);
    assert_eq!((sent.sent.get(), sent.unsent.get()), (2, 0));
    assert_eq!((bench.counters.captured.get(), bench.counters.capture_lost.get()), (2, 0));
    bench.assert_conserved();
}

#[test]
fn an_ipv6_message_keeps_its_addresses_and_a_long_one_its_beginning() {
    let (socket, address) = collector(own(2));
    let port = afxdp::PortConfig {
        umem: afxdp::UmemConfig { frame_size: 4096, ..afxdp::PortConfig::default().umem },
        ..afxdp::PortConfig::default()
    };
    let mut bench = Bench::new(&Setup { capture: 4, port, ..Setup::default() });
    let _exporter = export(&mut bench, address);
    let message = request("INVITE", "sip:b@example.com", "six");
    let mut packet = Vec::new();
    etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv6([0x20; 16], [0x30; 16], 64)
        .udp(5070, 5060)
        .write(&mut packet, message.as_bytes())
        .expect("packet");
    let mut meta = support::meta(bench.now_ns, message.as_bytes(), Class::Original, Method::Invite, None);
    meta[16..18].copy_from_slice(&62u16.to_ne_bytes());
    bench.wire.deliver(REJECT, &packet, &meta).expect("delivered");
    bench.turn_after(MS);
    let hep = Hep::receive(&socket);
    assert_eq!(hep.0.keys().copied().collect::<Vec<_>>(), [1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 15]);
    assert_eq!((hep.number(1), hep.number(7)), (10, 5070));
    assert_eq!((&hep.0[&5][..], &hep.0[&6][..]), (&[0x20; 16][..], &[0x30; 16][..]));
    assert_eq!(hep.payload(), message);
    assert_eq!(bench.counters.capture_cut.get(), 0);
    const { assert!(MESSAGE_BYTES_MAX >= 4096, "no frame is cut") };
}

/// What a worker has done under a load three times too large for its server.
#[derive(Debug, PartialEq)]
struct Verdicts {
    /// By class and outcome.
    outcomes: Vec<u64>,
    replies: Vec<String>,
    at_server: Vec<String>,
}

/// The load, with the longest turn's waits: how often the worker's thread gave its core away by itself, and how long
/// the turns took its core.
fn verdicts(bench: &mut Bench) -> (Verdicts, u64, Duration) {
    let (mut replies, mut at_server) = (Vec::new(), Vec::new());
    let (mut waits, mut busy) = (0, Duration::ZERO);
    for n in 0..600 {
        let invite = request("INVITE", "sip:b@example.com", &format!("c{n}"));
        bench.deliver_as(NEW, invite.as_bytes(), Class::Undecided, Method::Invite, None).expect("delivered");
        if n % 3 == 0 {
            bench.deliver(&request("BYE", "sip:b@example.com", &format!("b{n}"))).expect("delivered");
        }
        bench.server.set_waiting(4 * u64::from(n % 3 != 0));
        let (waits_before, busy_before) = (voluntary_waits(), cpu_time());
        bench.turn_after(MS / 10);
        waits += voluntary_waits() - waits_before;
        busy += cpu_time().saturating_sub(busy_before);
        replies.extend(bench.replies());
        at_server.extend(bench.at_server());
    }
    let outcome = |class, outcome| bench.lane.outcome_of(class, outcome);
    let outcomes = Class::ALL
        .iter()
        .flat_map(|class| Outcome::ALL.iter().map(|of| outcome(*class, *of)).collect::<Vec<_>>())
        .collect();
    bench.assert_conserved();
    (Verdicts { outcomes, replies, at_server }, waits, busy)
}

/// Voluntary context switches of this thread: each time that it waited for something.
fn voluntary_waits() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("/proc");
    let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches:")).expect("a count");
    line.split_whitespace().nth(1).and_then(|count| count.parse().ok()).expect("a number")
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

#[test]
fn a_collector_that_reads_never_or_is_nowhere_changes_no_verdict_and_the_worker_waits_for_none() {
    let (expected, waits, busy) = verdicts(&mut bench(0));
    let refused = expected.replies.len() as u64;
    assert!(refused > 200 && expected.at_server.len() > 200, "{refused} refused, it is no overload");
    // A page that the kernel has to find is a wait as well; nothing of it comes with each message.
    let few = refused / 10;
    assert!(waits < few, "{waits} waits without any export");

    let never_reads = UdpSocket::bind(own(3)).expect("bind");
    let full = never_reads.local_addr().expect("address");
    let closed = UdpSocket::bind(own(3)).expect("bind").local_addr().expect("address");
    // The kernel connects no socket to everybody that was not allowed to send there; nothing leaves the host.
    for collector in [full, closed, SocketAddr::from((Ipv4Addr::BROADCAST, 9060))] {
        let mut bench = bench(64);
        let exporter = export(&mut bench, collector);
        let (found, waits, busy_now) = verdicts(&mut bench);
        assert!(found == expected, "{collector} changes verdicts");
        assert!(waits < few, "the worker waits for {collector}: {waits} times");
        // Ten times as much is far more than the copies cost, and far less than a wait for anything outside.
        assert!(busy_now < 10 * busy + Duration::from_millis(20), "{busy_now:?} instead of {busy:?}");
        let sent = exporter.counters();
        drop(exporter);
        account_for(&bench, &sent, refused);
        if collector != full {
            assert!(sent.unsent.get() > 0, "{collector} cannot be reached, and nobody counts it");
        }
    }

    // Nobody reads the rings at all.
    let mut bench = bench(64);
    let (found, waits, _busy) = verdicts(&mut bench);
    assert!(found == expected && waits < few);
    assert_eq!((bench.counters.captured.get(), bench.counters.capture_lost.get()), (64, refused - 64));
}

/// Each refusal was captured or lost, and each one that was captured was sent or not.
#[track_caller]
fn account_for(bench: &Bench, sent: &Sent, refused: u64) {
    let (captured, lost) = (bench.counters.captured.get(), bench.counters.capture_lost.get());
    assert_eq!(captured + lost, refused);
    assert_eq!(sent.sent.get() + sent.unsent.get(), captured);
}

/// Has the worker refuse a call.
fn refuse(bench: &mut Bench, call: &str) {
    let invite = request("INVITE", "sip:b@example.com", call);
    bench.deliver_as(REJECT, invite.as_bytes(), Class::Original, Method::Invite, None).expect("delivered");
    bench.turn_after(MS);
}

#[test]
fn what_two_workers_refuse_goes_to_one_collector_by_one_thread() {
    let (socket, address) = collector(own(5));
    let mut workers = [bench(64), bench(64)];
    let outlets = workers.each_mut().map(|bench| bench.outlet.take().expect("the other end"));
    let exporter = Exporter::start(&config(address), outlets.into()).expect("thread");
    let mut expected = Vec::new();
    for n in 0..20 {
        for (number, bench) in workers.iter_mut().enumerate() {
            let call = format!("worker{number}call{n}");
            refuse(bench, &call);
            expected.push(request("INVITE", "sip:b@example.com", &call));
        }
    }
    let sent = exporter.counters();
    drop(exporter);
    assert_eq!((sent.sent.get(), sent.unsent.get()), (40, 0));
    let found: Vec<_> = (0..40).map(|_| Hep::receive(&socket).payload()).collect();
    for (number, bench) in workers.iter().enumerate() {
        let of = |messages: &[String]| {
            let call = format!("worker{number}call");
            messages.iter().filter(|message| message.contains(&call)).cloned().collect::<Vec<_>>()
        };
        assert_eq!(of(&found), of(&expected), "those of a worker come in order");
        assert_eq!(bench.counters.captured.get(), 20);
    }
}

#[test]
fn a_collector_that_comes_later_gets_what_is_captured_from_then_on() {
    let address = UdpSocket::bind(own(4)).expect("bind").local_addr().expect("address");
    let mut bench = bench(64);
    let exporter = export(&mut bench, address);
    let sent = exporter.counters();
    // The first is on its way before the kernel knows that nobody is there.
    for n in 0..4 {
        refuse(&mut bench, &format!("early{n}"));
    }
    wait_until("all were tried", || sent.sent.get() + sent.unsent.get() == 4);
    assert!(sent.unsent.get() > 0);
    let socket = UdpSocket::bind(address).expect("bind");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("time-out");
    let mut calls = 0;
    socket.set_nonblocking(true).expect("flag");
    wait_until("one arrives", || {
        calls += 1;
        refuse(&mut bench, &format!("later{calls}"));
        socket.peek(&mut [0]).is_ok()
    });
    socket.set_nonblocking(false).expect("flag");
    assert!(Hep::receive(&socket).payload().contains("Call-ID: later"));
}
