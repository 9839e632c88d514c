//! What is counted of packets on their way out, by test run, and the branch hash of both sides. Needs root.

mod support;

use std::fmt::Write as _;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::time::Duration;

use afxdp::MappedWords;
use proptest::prelude::*;
use support::{ANY_PORT, CALLER_V4, CALLER_V6, INVITE, Ip, PORT, Packet, SERVICE_V4, SERVICE_V6, settings};
use xdp_prog::{AWAITED_PLACES, AnswerCounters, AnswerReader, Answers, answer_bounds_s, awaited};

const SEED: u64 = 0x1234_5678_9abc_def1;

/// The program, what it counts, and its table.
struct Watch {
    answers: Answers,
    reader: AnswerReader,
    table: MappedWords,
}

fn watch(watched: u64) -> Watch {
    let answers = Answers::load(&settings(), watched, SEED)
        .unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)));
    let reader = answers.counter_reader().expect("a descriptor");
    let table = MappedWords::map(answers.awaited_fd(), AWAITED_PLACES).expect("mapped");
    Watch { answers, reader, table }
}

impl Watch {
    /// What a packet that leaves adds to the counters of service 0 to 2.
    fn counted(&self, packet: &Packet) -> [AnswerCounters; 3] {
        let read = || [0, 1, 2].map(|service| self.reader.read(service).expect("counters"));
        let before = read();
        self.answers.test_run(&packet.bytes()).expect("it goes on");
        let after = read();
        [0, 1, 2].map(|service| after[service].since(&before[service]))
    }

    fn counts_nothing(&self, packet: &Packet, what: &str) {
        assert_eq!(self.counted(packet), [AnswerCounters::default(); 3], "{what}");
    }

    /// Notes a request as handed over so long ago.
    fn hand_over(&self, branch: &str, ago: Duration) {
        let hash =
            sip::branch_hash(format!("Via: x;branch={branch}\r\n").as_bytes(), SEED).expect("a branch");
        let (place, word) = awaited(hash, now_ns() - u64::try_from(ago.as_nanos()).expect("short"));
        self.table.store(place, word);
    }
}

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

fn response(status: &str, branch: &str) -> Vec<u8> {
    format!(
        "SIP/2.0 {status}\r\nVia: SIP/2.0/UDP 198.51.100.7:5060;branch={branch};received=198.51.100.7\r\n\
         To: <sip:bob@example.com>;tag=1\r\nFrom: <sip:alice@example.net>;tag=2\r\nCall-ID: a\r\n\
         CSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

/// A packet from service 0.
fn leaving(datagram: impl Into<Vec<u8>>) -> Packet {
    Packet {
        source_v4: SERVICE_V4,
        source_v6: SERVICE_V6,
        destination_v4: CALLER_V4,
        destination_v6: CALLER_V6,
        source_port: PORT,
        destination_port: 40_000,
        ..Packet::with(datagram)
    }
}

#[test]
fn each_status_class_is_counted_and_503_apart() {
    let watch = watch(u64::MAX);
    for (status, class, unavailable) in [
        ("100 Trying", 1, 0),
        ("200 OK", 2, 0),
        ("302 Moved", 3, 0),
        ("486 Busy", 4, 0),
        ("500 Error", 5, 0),
        ("503 Service Unavailable", 5, 1),
        ("603 Decline", 6, 0),
        ("799 What", 0, 0),
        ("099 What", 0, 0),
    ] {
        let [first, ..] = watch.counted(&leaving(response(status, "z9hG4bK1")));
        let mut expected = AnswerCounters { unavailable, ..AnswerCounters::default() };
        expected.classes[class] = 1;
        assert_eq!(first, expected, "{status}");
    }
}

#[test]
fn what_is_no_response_of_a_service_is_not_counted() {
    let watch = watch(u64::MAX);
    let ok = || response("200 OK", "z9hG4bK1");
    watch.counts_nothing(&leaving(INVITE), "a request");
    for text in ["SIP/2.0 2x0 OK\r\n\r\n", "SIP/2.0 20", "SIP/2.0", "HTTP/1.1 200 OK\r\n\r\n", ""] {
        watch.counts_nothing(&leaving(text), text);
    }
    watch.counts_nothing(&Packet { source_port: PORT + 1, ..leaving(ok()) }, "another port");
    watch.counts_nothing(&Packet { source_v4: CALLER_V4, ..leaving(ok()) }, "another address");
    watch.counts_nothing(&Packet { protocol: 6, ..leaving(ok()) }, "TCP");
    watch.counts_nothing(&Packet { fragment: 0x2001, ..leaving(ok()) }, "a later fragment");
    watch.counts_nothing(&Packet { ethertype: Some(0x0806), ..leaving(ok()) }, "ARP");
}

#[test]
fn a_response_is_known_behind_tags_options_and_in_a_first_fragment() {
    let watch = watch(u64::MAX);
    let ok = || leaving(response("200 OK", "z9hG4bK1"));
    let two = |service: usize, packet: &Packet, what: &str| {
        let counted = watch.counted(packet);
        assert_eq!(counted[service].classes[2], 1, "{what}: {counted:?}");
    };
    two(0, &Packet { tags: vec![0x8100], ..ok() }, "a VLAN tag");
    two(0, &Packet { options: vec![1; 4], ..ok() }, "an option");
    two(0, &Packet { fragment: 0x2000, ..ok() }, "a first fragment");
    two(1, &Packet { ip: Ip::V6, ..ok() }, "IPv6");
    two(2, &Packet { source_port: ANY_PORT, source_v4: CALLER_V4, ..ok() }, "any address");
    // An IPv6 header that says fragment, and the fragment header in front of UDP.
    let mut bytes = Packet { ip: Ip::V6, ..ok() }.bytes();
    bytes[20] = 44;
    bytes.splice(54..54, [17, 0, 0, 1, 0, 0, 0, 9]);
    let before = watch.reader.read(1).expect("counters");
    watch.answers.test_run(&bytes).expect("it goes on");
    bytes[57] = 9;
    watch.answers.test_run(&bytes).expect("it goes on");
    assert_eq!(
        watch.reader.read(1).expect("counters").since(&before).classes[2],
        1,
        "the first and no other"
    );
}

#[test]
fn services_that_are_not_watched_are_left_alone() {
    let watch = watch(0b010);
    let ok = || leaving(response("200 OK", "z9hG4bK1"));
    watch.counts_nothing(&ok(), "not watched");
    assert_eq!(watch.counted(&Packet { ip: Ip::V6, ..ok() })[1].classes[2], 1);
}

/// The bucket of a time, by the bounds.
fn bucket_of(us: u64) -> usize {
    answer_bounds_s().into_iter().filter(|bound| us > (bound * 1e6).round() as u64).count()
}

#[test]
fn the_time_to_the_first_answer_is_in_its_bucket_once() {
    let watch = watch(u64::MAX);
    let near_bounds = answer_bounds_s().into_iter().filter(|bound| *bound > 0.01).flat_map(|bound| {
        let us = (bound * 1e6).round() as u64;
        [us - 2000, us + 1]
    });
    for ago_us in near_bounds.chain([50_000_000]) {
        watch.hand_over("z9hG4bKpicked", Duration::from_micros(ago_us));
        watch.counts_time(0, "z9hG4bKother", "200 OK");
        let [first, ..] = watch.counted(&leaving(response("100 Trying", "z9hG4bKpicked")));
        // The test itself takes time, on an emulated machine a lot.
        assert!((ago_us..ago_us + 2_000_000).contains(&first.time_us), "{} for {ago_us}", first.time_us);
        let mut expected = [0; xdp_prog::ANSWER_TIMES];
        expected[bucket_of(first.time_us)] = 1;
        assert_eq!(first.times, expected, "{} us", first.time_us);
        watch.counts_time(0, "z9hG4bKpicked", "200 OK");
    }
    watch.hand_over("z9hG4bKold", Duration::from_secs(70));
    watch.counts_time(0, "z9hG4bKold", "200 OK");
}

impl Watch {
    fn counts_time(&self, times: u64, branch: &str, status: &str) {
        let [first, ..] = self.counted(&leaving(response(status, branch)));
        assert_eq!(first.times.iter().sum::<u64>(), times, "{branch} {status}");
    }
}

#[test]
fn sipweir_s_own_sockets_do_not_count() {
    // A test run has no socket; the kernel says cookie 0, which is nobody's.
    let mut watch = watch(u64::MAX);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bind");
    let cookie = rustix::net::sockopt::socket_cookie(socket.as_fd()).expect("every socket has one");
    watch.answers.set_own_sockets([cookie, 0]).expect("mapped");
    assert_eq!(watch.counted(&leaving(response("200 OK", "z9hG4bK1")))[0].classes[2], 1);
}

/// Headers as clients write them, and as nobody does.
fn headers() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(b";branch=".to_vec()),
        1 => Just(b";BrAnCh=".to_vec()),
        1 => Just(b";branc\x48\x1d".to_vec()),
        2 => Just(b"Via: SIP/2.0/UDP 192.0.2.1".to_vec()),
        2 => Just(b"\r\n".to_vec()),
        4 => proptest::collection::vec(any::<u8>(), 0..24),
        4 => "[a-zA-Z0-9.]{1,60}".prop_map(String::into_bytes),
        1 => "[a-z]{120,136}".prop_map(String::into_bytes),
        1 => Just(vec![b'x'; 370]),
    ];
    proptest::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

#[test]
fn both_sides_hash_every_branch_alike() {
    let watch = watch(u64::MAX);
    let config = ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() };
    let known = std::cell::Cell::new(0);
    proptest!(config, |(headers in headers())| {
        let mut datagram = b"SIP/2.0 200".to_vec();
        datagram.extend(&headers);
        let hash = sip::branch_hash(&headers, SEED);
        // The word is taken out if, and only if, the kernel has the same hash.
        let (place, word) = awaited(hash.unwrap_or(0), now_ns());
        watch.table.store(place, word);
        watch.answers.test_run(&leaving(datagram).bytes()).expect("it goes on");
        let taken = watch.table.load(place) != word;
        watch.table.store(place, 0);
        prop_assert_eq!(taken, hash.is_some());
        known.set(known.get() + u32::from(taken));
    });
    assert!(known.get() > 300, "{known:?} of 3000 had a branch");
}

#[test]
fn the_cost_of_what_leaves_is_printed_and_bounded() {
    let watch = watch(u64::MAX);
    let mut foreign = leaving(response("200 OK", "z9hG4bK1"));
    foreign.source_port = PORT + 1;
    let mut long = response("200 OK", "z9hG4bK776asdhds-0123456789abcdef");
    long.resize(600, b'v');
    let mut text = String::new();
    for (what, packet, most_ns) in [
        ("of another port", foreign, 500),
        ("a response", leaving(long), 5000),
        ("a request", leaving(INVITE), 500),
    ] {
        let bytes = packet.bytes();
        let best = (0..20).map(|_| watch.answers.cost(&bytes, 5000).expect("timed")).min().expect("some");
        writeln!(text, "{what}: {} ns", best.as_nanos()).expect("a string");
        assert!(best < Duration::from_nanos(most_ns), "{text}");
    }
    println!("{text}");
}
