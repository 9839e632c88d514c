//! The lists of sources: who is dropped, who is not, and that they can be written without any capability. Needs root.

mod support;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overload::{GateState, GateWord};
use sip::class::{Class, Reason, Verdict};
use support::{CALLER_V4, CALLER_V6, Packet, decide, set_gates};
use xdp_prog::{Classifier, List, Settings, SourceLists};

const DENIED: support::Decision = (Class::Undecided, Reason::SourceDenied, Verdict::Drop);
const UNREAD: support::Decision = (Class::Undecided, Reason::HeadersUnread, Verdict::RingNew);

fn with_room(room: u32) -> (Classifier, SourceLists) {
    let mut classifier = support::load(&Settings { list_room: room, ..support::settings() });
    let lists = classifier.take_source_lists().expect("not taken yet");
    (classifier, lists)
}

fn from_v4(source: Ipv4Addr) -> Packet {
    Packet { source_v4: source, ..Packet::default() }
}

fn from_v6(source: Ipv6Addr) -> Packet {
    Packet { source_v6: source, ..Packet::v6() }
}

/// `"192.0.2.0/24"` as the tables take it.
fn network(text: &str) -> (IpAddr, u8) {
    let (address, bits) = text.split_once('/').expect("a network");
    (address.parse().expect("an address"), bits.parse().expect("a length"))
}

#[track_caller]
fn enter(lists: &mut SourceLists, list: List, text: &str) {
    let (address, bits) = network(text);
    lists.enter(list, address, bits).expect("entered");
}

#[track_caller]
fn remove(lists: &mut SourceLists, list: List, text: &str) {
    let (address, bits) = network(text);
    lists.remove(list, address, bits).expect("removed");
}

#[test]
fn packets_of_denied_networks_to_a_service_are_dropped_and_all_others_are_not() {
    let (classifier, mut lists) = with_room(16);
    assert_eq!(decide(&classifier, &Packet::default()), UNREAD);
    enter(&mut lists, List::Deny, "198.51.100.0/29");
    enter(&mut lists, List::Deny, "2001:db8:1::/64");
    assert_eq!(lists.len(List::Deny), 2);
    for (last, expected) in [(0, DENIED), (7, DENIED), (8, UNREAD), (255, UNREAD)] {
        assert_eq!(decide(&classifier, &from_v4(Ipv4Addr::new(198, 51, 100, last))), expected, "{last}");
    }
    assert_eq!(decide(&classifier, &Packet::v6()), DENIED);
    assert_eq!(decide(&classifier, &from_v6("2001:db8:1:1::7".parse().expect("address"))), UNREAD);
    // Whatever it is that they send.
    for datagram in [&b"SIP/2.0 200 OK\r\n\r\n"[..], b"\r\n\r\n", b"no SIP at all", b""] {
        assert_eq!(decide(&classifier, &Packet::with(datagram)), DENIED);
    }
    let large = Packet::with(vec![b'x'; 2500]);
    assert_eq!(decide(&classifier, &large), DENIED, "larger than a frame");
    remove(&mut lists, List::Deny, "198.51.100.0/29");
    assert_eq!(decide(&classifier, &Packet::default()), UNREAD);
    assert_eq!(decide(&classifier, &Packet::v6()), DENIED);
    remove(&mut lists, List::Deny, "2001:db8:1::/64");
    assert_eq!(decide(&classifier, &Packet::v6()), UNREAD);
    assert!(lists.is_empty());
}

#[test]
fn what_is_not_for_a_service_or_not_to_be_decided_here_passes_as_ever() {
    let (classifier, mut lists) = with_room(16);
    enter(&mut lists, List::Deny, "0.0.0.0/0");
    enter(&mut lists, List::Deny, "::/0");
    let other_port = Packet { destination_port: 53, ..Packet::default() };
    assert_eq!(decide(&classifier, &other_port), (Class::Foreign, Reason::NoService, Verdict::Pass));
    let tcp = Packet { protocol: 6, ..Packet::default() };
    assert_eq!(decide(&classifier, &tcp), (Class::Foreign, Reason::NotUdp, Verdict::Pass));
    let fragment = Packet { fragment: 0x2000, ..Packet::default() };
    assert_eq!(decide(&classifier, &fragment), (Class::Fragment, Reason::IpFragment, Verdict::Pass));
    assert_eq!(decide(&classifier, &Packet::default()), DENIED);
}

#[test]
fn an_allowed_network_wins_whether_it_is_the_longer_or_the_shorter_one() {
    for (denied, allowed) in [
        ("198.51.100.0/24", "198.51.100.7/32"),
        ("198.51.100.7/32", "198.51.0.0/16"),
        ("198.51.100.7/32", "198.51.100.7/32"),
    ] {
        let (classifier, mut lists) = with_room(16);
        enter(&mut lists, List::Deny, denied);
        assert_eq!(decide(&classifier, &from_v4(CALLER_V4)), DENIED);
        enter(&mut lists, List::Allow, allowed);
        assert_eq!(decide(&classifier, &from_v4(CALLER_V4)), UNREAD, "{denied}, {allowed}");
        remove(&mut lists, List::Allow, allowed);
        assert_eq!(decide(&classifier, &from_v4(CALLER_V4)), DENIED);
    }
    let (classifier, mut lists) = with_room(16);
    enter(&mut lists, List::Deny, "::/0");
    enter(&mut lists, List::Allow, "2001:db8:1::7/128");
    assert_eq!(decide(&classifier, &from_v6(CALLER_V6)), UNREAD);
    assert_eq!(decide(&classifier, &from_v6("2001:db8:1::8".parse().expect("address"))), DENIED);
    assert_eq!(decide(&classifier, &Packet::default()), UNREAD, "all of IPv6 is nothing of IPv4");
}

#[test]
fn in_monitor_mode_a_denied_source_passes_and_is_counted_as_if() {
    let (mut classifier, mut lists) = with_room(16);
    enter(&mut lists, List::Deny, "198.51.100.7/32");
    let as_if = |classifier: &Classifier| {
        let counters = classifier.monitored_reader().expect("a reader").read().expect("read");
        counters.packets(Class::Original as u8, Verdict::Drop as u8, Reason::SourceDenied as u8)
    };
    set_gates(&mut classifier, GateWord::OPEN.with_monitored(u16::MAX).bits());
    let passes = (Class::Original, Reason::Monitored, Verdict::Pass);
    assert_eq!(decide(&classifier, &Packet::default()), passes);
    assert_eq!(as_if(&classifier), 1);
    // Of a service of which only originals are watched, everything else is dropped.
    let originals = 1 << Class::Original as u16 | 1 << Class::Undecided as u16;
    set_gates(&mut classifier, GateWord::new(GateState::Discard, 0).with_monitored(originals).bits());
    assert_eq!(decide(&classifier, &Packet::default()), passes);
    assert_eq!(as_if(&classifier), 2);
    let response = Packet::with("SIP/2.0 200 OK\r\n\r\n");
    assert_eq!(decide(&classifier, &response), (Class::Response, Reason::SourceDenied, Verdict::Drop));
}

#[test]
fn a_thread_without_any_capability_can_write_them() {
    let (classifier, mut lists) = with_room(16);
    let keeper = std::thread::spawn(move || {
        for set in [caps::CapSet::Effective, caps::CapSet::Permitted] {
            caps::clear(None, set).expect("cleared");
        }
        assert!(Classifier::load(&support::settings()).is_err(), "it has no right to load");
        enter(&mut lists, List::Deny, "198.51.100.7/32");
        enter(&mut lists, List::Deny, "203.0.113.0/24");
        enter(&mut lists, List::Allow, "203.0.113.9/32");
        remove(&mut lists, List::Allow, "203.0.113.9/32");
        remove(&mut lists, List::Deny, "203.0.113.0/24");
        lists
    });
    let _lists = keeper.join().expect("the keeper");
    assert_eq!(decide(&classifier, &Packet::default()), DENIED);
    assert_eq!(decide(&classifier, &from_v4(Ipv4Addr::new(203, 0, 113, 9))), UNREAD);
}

#[test]
fn a_full_list_refuses_more_and_keeps_what_it_has() {
    let (classifier, mut lists) = with_room(2);
    enter(&mut lists, List::Deny, "198.51.100.7/32");
    enter(&mut lists, List::Deny, "203.0.113.0/24");
    lists.enter(List::Deny, Ipv4Addr::new(192, 0, 2, 1).into(), 32).expect_err("no room");
    assert_eq!(lists.len(List::Deny), 2);
    assert_eq!(decide(&classifier, &Packet::default()), DENIED);
    assert_eq!(decide(&classifier, &from_v4(Ipv4Addr::new(192, 0, 2, 1))), UNREAD);
    let none = Settings { list_room: 0, ..support::settings() };
    let error = none.check().expect_err("no room at all").to_string();
    assert!(error.contains("1 to"), "{error}");
}

#[test]
fn among_a_hundred_thousand_each_denied_source_is_found_and_no_neighbour() {
    let (classifier, mut lists) = with_room(1 << 17);
    let address = |number: u32| Ipv4Addr::from_bits(0x1000_0000 | number << 1);
    for number in 0..100_000 {
        lists.enter(List::Deny, address(number).into(), 32).expect("entered");
    }
    for number in (0..100_000).step_by(997) {
        assert_eq!(decide(&classifier, &from_v4(address(number))), DENIED, "{number}");
        let neighbour = Ipv4Addr::from_bits(address(number).to_bits() + 1);
        assert_eq!(decide(&classifier, &from_v4(neighbour)), UNREAD, "{number}");
    }
}
