//! The side door at the worker's turn: real sockets on loopback, paired rings for everything else. Needs CAP_NET_RAW.

mod support;

use overload::{GateConfig, HystereticConfig, Threshold};
use sip::Class;
use sipweir::clock;
use sipweir::counters::Outcome;
use support::{Bench, MS, Outside, Setup, names, request};

/// A request that fits into a frame of the bench, or does not.
fn padded(method: &str, call: &str, len: usize) -> String {
    let short = request(method, &format!("sip:{call}@example.com"), call);
    let body = "x".repeat(len.saturating_sub(short.len()));
    short + &body
}

const LARGE: usize = 2800;

/// What becomes of the shed ones here: no reply goes to a loopback address. That answers arrive is shown end to end.
const SHED: Outcome = Outcome::SilentNoDestination;

/// A turn at the time that arrival times are in.
fn turn(bench: &mut Bench) {
    // Past the look that found nothing.
    let start_ns = clock::now();
    while clock::now() < start_ns + MS / 5 {
        std::thread::yield_now();
    }
    bench.now_ns = clock::now();
    bench.turn_after(0);
}

fn bench(setup: &Setup, large: usize) -> (Bench, Outside) {
    Bench::with_side_door(setup, large)
}

#[test]
fn a_datagram_of_any_size_reaches_the_server_once_and_without_its_marker() {
    let (mut bench, outside) = bench(&Setup::default(), 4);
    let peer = outside.peer();
    for (len, call) in [(0, "c1"), (LARGE, "c2"), (60_000, "c3")] {
        let plain = padded("INVITE", call, len);
        let marked = plain.replacen(" SIP/2.0\r\n", " SIP/2.0 rtx=0\r\n", 1);
        peer.send_to(marked.as_bytes(), outside.service).expect("send");
        turn(&mut bench);
        let mut arrived = bench.at_server();
        arrived.extend(outside.large_at_server());
        assert_eq!(arrived, [plain]);
    }
    turn(&mut bench);
    assert_eq!(bench.lane.outcome_of(Class::Original, Outcome::HandedOver), 3);
    assert_eq!(bench.counters.side_received.get(), 3);
    bench.assert_conserved();
}

#[test]
fn what_waits_is_served_in_the_order_of_classes_wherever_it_came_by() {
    let (mut bench, outside) = bench(&Setup { queue_target: 1, ..Setup::default() }, 8);
    let peer = outside.peer();
    bench.server.set_waiting(1);
    turn(&mut bench);
    for (method, call) in [("INVITE", "c1"), ("INVITE", "c2")] {
        peer.send_to(padded(method, call, 0).as_bytes(), outside.service).expect("send");
    }
    turn(&mut bench);
    bench.deliver(&padded("CANCEL", "c2", 0)).expect("delivered");
    peer.send_to(padded("BYE", "c3", 0).as_bytes(), outside.service).expect("send");
    turn(&mut bench);
    assert!(bench.at_server().is_empty());
    assert_eq!(bench.lane.waiting.get(), 4);
    bench.server.set_waiting(0);
    let mut order = Vec::new();
    for _ in 0..10 {
        turn(&mut bench);
        order.extend(names(&bench.at_server()));
    }
    let expected = ["BYE sip:c3", "INVITE sip:c1", "INVITE sip:c2", "CANCEL sip:c2"];
    assert_eq!(order, expected.map(|name| format!("{name}@example.com")));
    bench.assert_conserved();
}

#[test]
fn in_overload_it_is_shed_whatever_its_size() {
    let gate = GateConfig::Hysteretic(HystereticConfig {
        admit_below: Threshold::Messages(1),
        shed_at: Threshold::Messages(2),
        discard_at: Threshold::Messages(3),
        share: 0.0,
    });
    let setup = Setup { gate, queue_target: 1, max_wait_ns: 3600 * 1000 * MS, ..Setup::default() };
    let (mut bench, outside) = bench(&setup, 8);
    bench.server.set_waiting(1);
    turn(&mut bench);
    for call in 0..6 {
        bench.deliver(&padded("INVITE", &format!("n{call}"), 0)).expect("delivered");
    }
    turn(&mut bench);
    bench.at_server();
    let peer = outside.peer();
    for len in [0, LARGE, 60_000] {
        peer.send_to(padded("INVITE", "c1", len).as_bytes(), outside.service).expect("send");
        turn(&mut bench);
    }
    assert!(bench.at_server().is_empty() && outside.large_at_server().is_empty());
    assert_eq!(bench.lane.outcome_of(Class::Original, SHED), 3);
    bench.assert_conserved();
}

#[test]
fn without_a_large_buffer_an_original_is_shed_and_the_next_is_still_looked_at() {
    let setup = Setup { queue_target: 1, max_wait_ns: 3600 * 1000 * MS, ..Setup::default() };
    let (mut bench, outside) = bench(&setup, 2);
    bench.server.set_waiting(1);
    turn(&mut bench);
    let peer = outside.peer();
    for call in ["c1", "c2", "c3"] {
        peer.send_to(padded("INVITE", call, LARGE).as_bytes(), outside.service).expect("send");
    }
    peer.send_to(padded("BYE", "c4", LARGE).as_bytes(), outside.service).expect("send");
    peer.send_to(padded("INVITE", "c5", 0).as_bytes(), outside.service).expect("send");
    turn(&mut bench);
    assert_eq!(bench.lane.outcome_of(Class::Original, SHED), 1);
    assert_eq!(bench.lane.outcome_of(Class::InDialog, Outcome::NoRoom), 1);
    assert_eq!((bench.lane.waiting.get(), bench.counters.large_free.get()), (3, 1));
    bench.assert_conserved();
    bench.server.set_waiting(0);
    for _ in 0..5 {
        turn(&mut bench);
    }
    assert_eq!(outside.large_at_server().len(), 2);
    assert_eq!((bench.lane.waiting.get(), bench.counters.large_free.get()), (0, 3));
    bench.assert_conserved();
}

#[test]
fn keep_alives_and_what_is_no_sip_wait_behind_requests() {
    let (mut bench, outside) = bench(&Setup { queue_target: 1, ..Setup::default() }, 4);
    bench.server.set_waiting(1);
    turn(&mut bench);
    let peer = outside.peer();
    let invite = padded("INVITE", "c1", 0);
    for datagram in [b"\r\n\r\n", &b"hello"[..], invite.as_bytes()] {
        peer.send_to(datagram, outside.service).expect("send");
    }
    turn(&mut bench);
    assert!(bench.at_server().is_empty());
    bench.server.set_waiting(0);
    let mut order = Vec::new();
    for _ in 0..10 {
        turn(&mut bench);
        order.extend(bench.at_server());
    }
    assert_eq!(order, [invite.as_str(), "\r\n\r\n", "hello"]);
    bench.assert_conserved();
}

#[test]
fn strangers_at_the_socket_are_counted_and_dropped() {
    let (mut bench, outside) = bench(&Setup::default(), 4);
    let peer = std::net::UdpSocket::bind("[::1]:0").expect("bind");
    peer.send_to(b"OPTIONS sip:x SIP/2.0\r\n\r\n", outside.no_service).expect("send");
    turn(&mut bench);
    assert_eq!((bench.counters.side_foreign.get(), bench.counters.side_received.get()), (1, 0));
    assert!(bench.at_server().is_empty() && outside.large_at_server().is_empty());
    bench.assert_conserved();
}
