//! The worker's turn over paired rings: no kernel, no privileges, the code that runs live.

mod gate_word;
mod order;
#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;

use overload::{GateConfig, GateState, GateWord, HystereticConfig, RandomConfig, Threshold};
use proptest::prelude::*;
use sip::{Class, Method};
use sipweir::config::{MonitorClasses, Monitored, Reply};
use sipweir::counters::Outcome;
use sipweir::limits::{Cap, Caps};
use support::{
    BRANCH_SEED, Bench, CONTROL, MS, NEW, REJECT, RETRANSMISSION, Setup, names, packet, request, words,
};
use xdp_prog::AWAITED_PLACES;
use xdp_prog::abi::{ARRIVAL_WORDS, QUEUES_MAX};

const URI: &str = "sip:b@example.com";

/// What the worker has told the XDP program.
fn word(bench: &Bench) -> GateWord {
    GateWord::from_bits(bench.gates.load(0)).expect("a word")
}

#[test]
fn an_original_reaches_the_server_without_its_marker() {
    let mut bench = Bench::new(&Setup::default());
    let (field, uri) = (request("INVITE", URI, "c1"), request("INVITE", URI, "c2"));
    for (marked, plain) in [
        (field.replace("SIP/2.0\r\nVia", "SIP/2.0 rtx=0\r\nVia"), &field),
        (uri.replacen(URI, "sip:b@example.com;rtx=0", 1), &uri),
    ] {
        bench.deliver(&marked).expect("delivered");
        bench.turn_after(MS);
        assert_eq!(bench.at_server(), [plain.as_str()]);
    }
    assert_eq!(bench.lane.outcome_of(Class::Original, Outcome::HandedOver), 2);
    bench.turn_after(MS);
    bench.assert_conserved();
}

#[test]
fn an_original_is_written_down_for_timing_when_it_is_handed_over_and_nothing_else_is() {
    let awaited = words(AWAITED_PLACES);
    let mut bench = Bench::new(&Setup { awaited: Some(Arc::clone(&awaited)), ..Setup::default() });
    let written = || (0..AWAITED_PLACES).filter(|place| awaited.load(*place) != 0).collect::<Vec<_>>();
    for (method, uri, call) in [
        ("INVITE", "sip:b@example.com;rtx=1", "c1"),
        ("BYE", URI, "c2"),
        ("ACK", URI, "c3"),
        ("MESSAGE", URI, "c4"),
    ] {
        bench.deliver(&request(method, uri, call)).expect("delivered");
    }
    bench.turn_after(MS);
    assert_eq!((bench.at_server().len(), written().len()), (4, 0));
    // It waits: nothing is written before its turn.
    bench.server.set_waiting(100);
    bench.turn_after(MS);
    let invite = request("INVITE", URI, "c5");
    bench.deliver(&invite).expect("delivered");
    bench.turn_after(MS);
    assert!(written().is_empty());
    bench.server.set_waiting(0);
    bench.turn_after(MS);
    assert_eq!(bench.at_server(), [invite.as_str()]);
    let hash = sip::branch_hash(invite.as_bytes(), BRANCH_SEED).expect("a branch");
    assert_eq!(written(), [xdp_prog::awaited(hash, 0).0]);
}

#[test]
fn a_limit_paces_originals_and_leaves_control_messages_alone() {
    let setup = Setup { queue_target: 100, rate_per_s: 1e6, max_wait_ns: u64::MAX, ..Setup::default() };
    let mut bench = Bench::new(&setup);
    bench.turn_after(MS);
    bench.orders.limit(Some(100.0));
    bench.turn_after(MS);
    for call in 0..30 {
        bench.deliver(&request("INVITE", URI, &format!("c{call}"))).expect("delivered");
        bench.deliver(&request("BYE", URI, &format!("b{call}"))).expect("delivered");
    }
    let count = |bench: &mut Bench, method: &str| {
        bench.at_server().iter().filter(|message| message.starts_with(method)).count()
    };
    bench.turn_after(MS);
    let first = names(&bench.at_server());
    let byes = first.iter().filter(|name| name.starts_with("BYE")).count();
    assert_eq!((byes, first.len() - byes), (30, 1), "nothing was saved up while there was no limit");
    // A tenth of a second is ten more.
    let mut paced = 0;
    for _ in 0..20 {
        bench.turn_after(5 * MS);
        paced += count(&mut bench, "INVITE");
    }
    assert!((9..=11).contains(&paced), "{paced}");
    bench.orders.limit(None);
    bench.turn_after(MS);
    bench.turn_after(MS);
    assert_eq!(paced + 1 + count(&mut bench, "INVITE"), 30);
    bench.assert_conserved();
}

#[test]
fn originals_of_a_silent_server_are_refused_until_it_answers() {
    let mut bench = Bench::new(&Setup::default());
    bench.turn_after(MS);
    bench.orders.silence(true);
    bench.turn_after(MS);
    assert_eq!((bench.lane.server_state.get(), bench.lane.server_silent.get()), (2, 1));
    bench.deliver(&request("INVITE", URI, "c1")).expect("delivered");
    bench.deliver(&request("BYE", URI, "b1")).expect("delivered");
    bench.turn_after(MS);
    assert!(bench.at_server().is_empty(), "nothing is handed over");
    assert_eq!(bench.lane.outcome_of(Class::Original, Outcome::RejectedServerDown), 1);
    bench.orders.silence(false);
    bench.turn_after(MS);
    bench.deliver(&request("INVITE", URI, "c2")).expect("delivered");
    bench.turn_after(MS);
    assert_eq!(names(&bench.at_server()).len(), 2, "the BYE has waited");
    assert_eq!((bench.lane.server_state.get(), bench.lane.server_silent.get()), (0, 0));
    bench.turn_after(MS);
    bench.assert_conserved();
}

#[test]
fn more_refusals_than_the_ring_can_send_wait_instead_of_being_thrown_away() {
    let port = afxdp::PortConfig { tx_ring_size: 128, ..afxdp::PortConfig::default() };
    let mut bench = Bench::new(&Setup { port, ..Setup::default() });
    let mut answered = 0;
    for call in 0..100 {
        let message = request("INVITE", URI, &format!("c{call}"));
        bench
            .deliver_as(REJECT, message.as_bytes(), Class::Original, Method::Invite, None)
            .expect("delivered");
    }
    // The NIC sends nothing for a while.
    for _ in 0..5 {
        bench.turn_after(MS);
    }
    assert_eq!(bench.lane.outcome_of(Class::Original, Outcome::SilentNoTxRoom), 0);
    for _ in 0..10 {
        answered += bench.replies().len();
        bench.turn_after(MS);
    }
    assert_eq!(answered, 100);
    bench.assert_conserved();
}

#[test]
fn the_server_gets_no_more_than_its_target() {
    let mut bench = Bench::new(&Setup { queue_target: 8, ..Setup::default() });
    for call in 0..50 {
        bench.deliver(&request("INVITE", URI, &format!("c{call}"))).expect("delivered");
    }
    // The server reads nothing: what it was given stays in its queue.
    let mut given = 0;
    for _ in 0..20 {
        bench.turn_after(MS);
        given += bench.at_server().len();
        bench.server.set_waiting(given as u64);
    }
    assert_eq!(given, 8);
}

#[test]
fn an_original_that_waited_too_long_is_answered_instead_of_served() {
    let mut bench = Bench::new(&Setup { queue_target: 1, ..Setup::default() });
    bench.server.set_waiting(1);
    bench.turn_after(MS);
    bench.deliver(&request("INVITE", URI, "c1")).expect("delivered");
    bench.turn_after(MS);
    assert!(bench.replies().is_empty());
    bench.turn_after(401 * MS);
    let replies = bench.replies();
    assert_eq!(replies.len(), 1);
    assert!(replies[0].starts_with("SIP/2.0 503 Service Unavailable\r\n"), "{}", replies[0]);
    assert!(!replies[0].contains("Retry-After"));
    assert_eq!(bench.lane.outcome_of(Class::Original, Outcome::RejectedLate), 1);
    bench.assert_conserved();
}

#[test]
fn what_the_kernel_shed_is_answered_to_where_it_came_from() {
    let mut bench = Bench::new(&Setup::default());
    let message = request("INVITE", URI, "c1");
    bench.deliver_as(REJECT, message.as_bytes(), Class::Original, Method::Invite, None).expect("delivered");
    bench.turn_after(MS);
    let packets = bench.wire.sent();
    assert_eq!(packets.len(), 1);
    assert_eq!(packets[0][..12], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    let parsed = etherparse::SlicedPacket::from_ethernet(&packets[0]).expect("packet");
    let Some(etherparse::TransportSlice::Udp(udp)) = parsed.transport else { panic!("no UDP") };
    assert_eq!((udp.source_port(), udp.destination_port()), (5060, 5062));
    assert_eq!(bench.lane.outcome_of(Class::Original, Outcome::Rejected), 1);
    bench.assert_conserved();
}

#[test]
fn originals_are_answered_while_the_server_is_down_and_served_when_it_is_back() {
    let mut bench = Bench::new(&Setup::default());
    bench.deliver(&request("INVITE", URI, "c0")).expect("delivered");
    bench.turn_after(MS);
    assert_eq!(bench.at_server().len(), 1);
    bench.server.set_gone(true);
    for call in 0..300 {
        bench.deliver(&request("INVITE", URI, &format!("d{call}"))).expect("delivered");
        bench.turn_after(2 * MS);
    }
    assert!(bench.lane.outcome_of(Class::Original, Outcome::RejectedServerDown) > 100);
    assert_eq!(word(&bench).state(), GateState::Discard, "the kernel sheds too");
    assert!(bench.at_server().is_empty());
    bench.server.set_gone(false);
    for _ in 0..5 {
        bench.turn_after(2 * MS);
    }
    assert_eq!(word(&bench).state(), GateState::Normal);
    bench.deliver(&request("INVITE", URI, "back")).expect("delivered");
    bench.turn_after(2 * MS);
    assert!(bench.at_server().iter().any(|message| message.contains("Call-ID: back")));
}

#[test]
fn a_flood_of_copies_costs_no_original() {
    let mut bench = Bench::new(&Setup::default());
    let copy = request("INVITE", "sip:copy@example.com;rtx=3", "copies");
    let mut originals = 0;
    for call in 0..2000 {
        for _ in 0..10 {
            // Full rings drop copies: that is what they are there for.
            let _lost = bench.deliver(&copy);
        }
        bench
            .deliver(&request("INVITE", "sip:new@example.com", &format!("c{call}")))
            .expect("an original was lost");
        if call % 4 == 3 {
            bench.turn_after(MS);
            originals += bench.at_server().iter().filter(|message| message.contains("sip:new@")).count();
        }
    }
    for _ in 0..1000 {
        bench.turn_after(MS);
        originals += bench.at_server().iter().filter(|message| message.contains("sip:new@")).count();
    }
    assert_eq!(originals, 2000);
    assert_eq!(bench.lane.outcome_of(Class::Original, Outcome::HandedOver), 2000);
    bench.assert_conserved();
}

#[test]
fn a_damaged_datagram_is_dropped_and_counted() {
    let mut bench = Bench::new(&Setup::default());
    let message = request("INVITE", URI, "c1");
    let mut damaged = packet(message.as_bytes());
    damaged[100] ^= 0x20;
    let meta = support::meta(bench.now_ns, message.as_bytes(), Class::Original, Method::Invite, None);
    bench.wire.deliver(NEW, &damaged, &meta).expect("delivered");
    bench.turn_after(MS);
    assert!(bench.at_server().is_empty());
    assert_eq!(bench.lane.outcome_of(Class::Original, Outcome::ChecksumWrong), 1);
    bench.assert_conserved();
}

#[test]
fn an_undecided_reinvite_is_raised_to_control() {
    let mut bench = Bench::new(&Setup::default());
    let message =
        request("INVITE", URI, "c1").replace("To: <sip:b@example.com>", "To: <sip:b@example.com>;tag=x");
    bench.deliver_as(NEW, message.as_bytes(), Class::Undecided, Method::Invite, None).expect("delivered");
    bench.turn_after(MS);
    assert_eq!(bench.lane.outcome_of(Class::InDialog, Outcome::HandedOver), 1);
}

#[test]
fn nonsense_in_front_of_a_packet_is_survived_and_counted() {
    let mut bench = Bench::new(&Setup::default());
    let message = packet(request("INVITE", URI, "c1").as_bytes());
    for byte in [0x00, 0x7f, 0xff] {
        for ring in [CONTROL, NEW, RETRANSMISSION, REJECT] {
            bench.wire.deliver(ring, &message, &[byte; 32]).expect("delivered");
        }
    }
    bench.turn_after(MS);
    bench.turn_after(MS);
    assert_eq!(bench.counters.bad_metadata.get(), 12);
    bench.assert_conserved();
}

#[test]
fn datagrams_of_every_length_and_of_random_bytes_leave_no_frame_behind() {
    let mut bench = Bench::new(&Setup::default());
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for len in 0..1700 {
        let datagram: Vec<u8> = (0..len)
            .map(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 56) as u8
            })
            .collect();
        let ring = (random >> 40) as usize % 4;
        let class = Class::from_u8((random >> 32) as u8 % 16).expect("class");
        // What finds its ring full is lost, as in the kernel.
        let _full = bench.deliver_as(ring, &datagram, class, Method::Other, None);
        bench.turn_after(MS);
        bench.at_server();
        bench.replies();
    }
    for _ in 0..500 {
        bench.turn_after(10 * MS);
        bench.at_server();
        bench.replies();
    }
    assert_eq!(bench.lane.received_total(), 1700);
    assert_eq!(bench.lane.waiting.get(), 0);
    bench.assert_conserved();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Random classes, rings, calls, credits and times: frames and counts are always conserved.
    #[test]
    fn whatever_comes_is_conserved(capped in any::<bool>(), steps in proptest::collection::vec((0usize..4, 0u8..16, 0u8..6, any::<bool>(), 0u64..50, 0u64..20), 1..400)) {
        let cap = if capped { Cap::PerSecond(20.0) } else { Cap::Off };
        let caps = Caps::of_each_kind(cap);
        let mut bench = Bench::new(&Setup { queue_target: 4, max_wait_ns: 40 * MS, caps, ..Setup::default() });
        for (ring, class, call, marked, later_ms, waiting) in steps {
            let uri = if marked { "sip:b@example.com;rtx=2" } else { URI };
            let message = request("INVITE", uri, &format!("c{call}"));
            let found = sip::classify(message.as_bytes());
            let class = Class::from_u8(class).expect("class");
            // A full ring drops it, as the kernel would.
            let _maybe = bench.deliver_as(ring, message.as_bytes(), class, Method::Invite, found.marker);
            bench.server.set_waiting(waiting);
            bench.turn_after(later_ms * MS);
            bench.at_server();
            bench.replies();
        }
        bench.server.set_waiting(0);
        for _ in 0..200 {
            bench.turn_after(5 * MS);
            bench.at_server();
            bench.replies();
        }
        bench.turn_after(MS);
        prop_assert_eq!(bench.lane.waiting.get(), 0);
        prop_assert_eq!(bench.lane.received_total(), bench.lane.outcomes_total());
        prop_assert_eq!(bench.counters.frames_outstanding.get(), 0);
        prop_assert_eq!(bench.counters.bad_descriptors.get(), 0);
    }
}
