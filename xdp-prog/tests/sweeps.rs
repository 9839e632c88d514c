//! Everything of a kind: all EtherTypes, ports, protocols, lengths and cuts. After each sweep the counters must say
//! that every packet was counted once. Needs root.

mod support;

use sip::class::{Class, Reason, Verdict};
use support::{ANY_PORT, INVITE, Ip, PORT, Packet, Random, classifier, decide};

const UNREAD: support::Decision = (Class::Undecided, Reason::HeadersUnread, Verdict::RingNew);

#[test]
fn only_ipv4_and_ipv6_are_looked_into() {
    let classifier = classifier();
    for ethertype in 0..=u16::MAX {
        let expected = match ethertype {
            0x0800 => UNREAD,
            0x86dd => (Class::Exotic, Reason::Truncated, Verdict::Pass),
            // What stands behind the tag is the IP header: 0x4500 and its length field are no EtherType.
            _ => (Class::Foreign, Reason::NotIp, Verdict::Pass),
        };
        let packet = Packet { ethertype: Some(ethertype), ..Packet::default() };
        assert_eq!(decide(&classifier, &packet), expected, "{ethertype:#06x}");
    }
    assert_eq!(classifier.counters().expect("counters").total(), 65_536);
}

#[test]
fn only_service_ports_are_touched() {
    let classifier = classifier();
    for ip in [Ip::V4, Ip::V6] {
        for port in 0..=u16::MAX {
            let packet = Packet { ip, destination_port: port, ..Packet::default() };
            let run = classifier.test_run(&packet.bytes()).expect("a run");
            let expected = match port {
                PORT => Some(if ip == Ip::V4 { 0 } else { 1 }),
                ANY_PORT => Some(2),
                _ => None,
            };
            assert_eq!(run.meta.map(|meta| meta.service), expected, "port {port}");
            let by_name =
                if expected.is_some() { UNREAD } else { (Class::Foreign, Reason::NoService, Verdict::Pass) };
            assert_eq!(support::decision(&run), by_name, "port {port}");
        }
        assert_eq!(decide(&classifier, &Packet { ip, ..Packet::default() }), UNREAD);
    }
    assert_eq!(classifier.counters().expect("counters").total(), 2 * 65_537);
}

#[test]
fn only_udp_is_udp() {
    let classifier = classifier();
    for protocol in 0..=u8::MAX {
        let v4 = if protocol == 17 { UNREAD } else { (Class::Foreign, Reason::NotUdp, Verdict::Pass) };
        assert_eq!(decide(&classifier, &Packet { protocol, ..Packet::default() }), v4, "{protocol}");
        let v6 = match protocol {
            44 => (Class::Fragment, Reason::IpFragment, Verdict::Pass),
            0 | 43 | 50 | 51 | 60 | 135 | 139 | 140 => (Class::Exotic, Reason::Ipv6Extension, Verdict::Pass),
            _ => v4,
        };
        assert_eq!(decide(&classifier, &Packet { protocol, ..Packet::v6() }), v6, "{protocol}");
    }
}

#[test]
fn a_packet_cut_anywhere_is_truncated() {
    let classifier = classifier();
    for ip in [Ip::V4, Ip::V6] {
        for tags in [vec![], vec![0x8100], vec![0x88a8, 0x8100]] {
            let packet = Packet { ip, tags, ..Packet::default() };
            let bytes = packet.bytes();
            // The kernel hands over no packet without a whole Ethernet header.
            for len in 14..bytes.len() {
                let run = classifier.test_run(&bytes[..len]).expect("a run");
                let truncated = (Class::Exotic, Reason::Truncated, Verdict::Pass);
                assert_eq!(support::decision(&run), truncated, "{ip:?}, {:?} cut to {len}", packet.tags);
            }
            assert_eq!(decide(&classifier, &packet), UNREAD);
        }
    }
}

#[test]
fn a_datagram_of_any_length_is_counted_once() {
    let classifier = classifier();
    let mut random = Random(1);
    let longest = 2048 - Packet::with("").headers_len();
    for len in 0..=longest {
        let run = |datagram: Vec<u8>| decide(&classifier, &Packet::with(datagram));
        let expected = match len {
            0 => (Class::Keepalive, Reason::LinePing, Verdict::RingRetransmission),
            1..512 => (Class::NotSip, Reason::BadStartLine, Verdict::RingRetransmission),
            // Exactly the bound is still searched to its end.
            512 => (Class::NotSip, Reason::BadStartLine, Verdict::RingRetransmission),
            _ => (Class::Undecided, Reason::ScanBound, Verdict::RingNew),
        };
        assert_eq!(run(vec![b'A'; len]), expected, "{len} times A");
        let noise = run((0..len).map(|_| random.byte()).collect());
        assert!(matches!(noise.0, Class::NotSip | Class::Undecided | Class::Keepalive), "{noise:?}");
    }
    for len in [longest + 1, longest + 500] {
        let packet = Packet::with(vec![b'A'; len]);
        assert_eq!(decide(&classifier, &packet), (Class::Oversize, Reason::LargerThanFrame, Verdict::Pass));
    }
    let total = classifier.counters().expect("counters").total();
    assert_eq!(total, 2 * (u64::try_from(longest).expect("small") + 1) + 2);
}

#[test]
fn every_packet_that_goes_to_a_ring_says_where_its_message_is() {
    let classifier = classifier();
    for cut in 0..INVITE.len() {
        let packet = Packet::with(&INVITE[..cut]);
        let run = classifier.test_run(&packet.bytes()).expect("a run");
        assert_eq!(run.meta.is_some(), run.verdict < 4, "cut to {cut}");
        if let Some(meta) = run.meta {
            assert_eq!(usize::from(meta.payload_offset), packet.headers_len());
            assert_eq!(usize::from(meta.payload_len), cut);
        }
    }
    assert_eq!(classifier.counters().expect("counters").without_metadata(), 0);
}
