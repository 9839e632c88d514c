//! One packet, one verdict: a table of packets that differ from the good one in one thing each. Needs root.

mod support;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sip::class::{Class, MarkerForm, Method, Reason, Verdict};
use support::{
    ANY_PORT, CALLER_V4, CALLER_V6, INVITE, Ip, Packet, SERVICE_V4, classifier, decide, decision, load,
    settings,
};
use xdp_prog::{Action, ServiceAddress, Settings};

/// An INVITE with another first line.
fn line(first: &str) -> Packet {
    Packet::with([first.as_bytes(), &INVITE[34..]].concat())
}

const UNREAD: support::Decision = (Class::Undecided, Reason::HeadersUnread, Verdict::RingNew);
const NOT_SIP: support::Decision = (Class::NotSip, Reason::BadStartLine, Verdict::RingRetransmission);
const CONTROL: Verdict = Verdict::RingControl;

fn foreign(reason: Reason) -> support::Decision {
    (Class::Foreign, reason, Verdict::Pass)
}

fn exotic(reason: Reason) -> support::Decision {
    (Class::Exotic, reason, Verdict::Pass)
}

#[test]
fn frames_for_the_ethernet_address_of_another_host_pass() {
    let own = [2, 0, 0, 0, 0, 1];
    let virtual_router = [0, 0, 0x5e, 0, 1, 7];
    let settings = Settings { link_addresses: Some(vec![own, virtual_router]), ..settings() };
    let classifier = load(&settings);
    let to = |destination_mac| Packet { destination_mac, ..Packet::default() };
    for mac in [own, virtual_router] {
        assert_eq!(decide(&classifier, &to(mac)), UNREAD, "{mac:x?}");
    }
    for byte in 0..6 {
        for bit in 0..8 {
            let mut mac = own;
            mac[byte] ^= 1 << bit;
            let reason = if mac[0] & 1 == 1 { Reason::LinkMulticast } else { Reason::LinkNotOurs };
            assert_eq!(decide(&classifier, &to(mac)), foreign(reason), "{mac:x?}");
        }
    }
    assert_eq!(decide(&classifier, &to([0; 6])), foreign(Reason::LinkNotOurs));
    // What is for no service is counted as that, whoever it is for.
    let other_port = Packet { destination_port: 9, ..to([0; 6]) };
    assert_eq!(decide(&classifier, &other_port), foreign(Reason::NoService));
}

#[test]
fn what_the_side_door_would_take_for_the_hosts_own_is_dropped_and_the_rest_passes() {
    let mut classifier = classifier();
    let hop_by_hop = Packet { protocol: 0, ..Packet::v6() };
    let fragment = Packet { protocol: 44, ..Packet::v6() };
    let oversize = Packet { datagram: vec![b'x'; 2048], ..Packet::v6() };
    let cases = [
        (hop_by_hop, Class::Exotic, Reason::Ipv6Extension),
        (fragment, Class::Fragment, Reason::IpFragment),
        (oversize, Class::Oversize, Reason::LargerThanFrame),
    ];
    for (packet, class, reason) in &cases {
        assert_eq!(decide(&classifier, packet), (*class, *reason, Verdict::Pass), "nobody's address");
    }
    let own = [IpAddr::V6(CALLER_V6), IpAddr::V4(CALLER_V4)];
    classifier.set_local_addresses(own.into()).expect("room");
    for (packet, class, reason) in &cases {
        assert_eq!(decide(&classifier, packet), (*class, Reason::SourceLocal, Verdict::Drop), "{reason:?}");
        for bit in 0..128 {
            let source_v6 = Ipv6Addr::from_bits(CALLER_V6.to_bits() ^ (1 << bit));
            let other = Packet { source_v6, ..packet.clone() };
            let expected = match decide(&classifier, &other).1 {
                // Of the oversize ones the source is read before the length.
                Reason::SourceMartian => continue,
                _ => (*class, *reason, Verdict::Pass),
            };
            assert_eq!(decide(&classifier, &other), expected, "bit {bit}");
        }
    }
    // The kernel's IPv4 drops it, and the worker what comes by the rings.
    let ipv4 = Packet { fragment: 0x2000, ..Packet::default() };
    assert_eq!(decide(&classifier, &ipv4), (Class::Fragment, Reason::IpFragment, Verdict::Pass));
    assert_eq!(decide(&classifier, &Packet::v6()), UNREAD);
    classifier.set_local_addresses([].into()).expect("room");
    for (packet, class, reason) in &cases {
        assert_eq!(decide(&classifier, packet), (*class, *reason, Verdict::Pass), "not any more");
    }
}

#[test]
fn vlans_that_the_host_has_no_device_for_pass() {
    let tagged = |tags: &[u16], vlans: &[u16]| {
        let mut bytes = Packet { tags: tags.to_vec(), ..Packet::default() }.bytes();
        for (index, vlan) in vlans.iter().enumerate() {
            // Priority 5 beside the number.
            bytes[14 + 4 * index..16 + 4 * index].copy_from_slice(&(0xa000 | vlan).to_be_bytes());
        }
        bytes
    };
    let decide = |classifier: &xdp_prog::Classifier, bytes: &[u8]| {
        decision(&classifier.test_run(bytes).expect("a test run"))
    };
    let refused = foreign(Reason::VlanNotOurs);
    let some = load(&Settings { vlans: Some([1, 63, 64, 4094].into()), ..settings() });
    for vlan in 0..4096 {
        let expected = if [0, 1, 63, 64, 4094].contains(&vlan) { UNREAD } else { refused };
        assert_eq!(decide(&some, &tagged(&[0x8100], &[vlan])), expected, "{vlan}");
    }
    let two = [0x88a8, 0x8100];
    assert_eq!(decide(&some, &tagged(&two, &[1, 64])), UNREAD);
    assert_eq!(decide(&some, &tagged(&two, &[1, 2])), refused);
    assert_eq!(decide(&some, &tagged(&two, &[2, 1])), refused);
    let none = load(&Settings { vlans: Some([].into()), ..settings() });
    assert_eq!(decide(&none, &tagged(&[], &[])), UNREAD);
    assert_eq!(decide(&none, &tagged(&[0x8100], &[0])), UNREAD);
    assert_eq!(decide(&none, &tagged(&[0x8100], &[1])), refused);
}

#[test]
fn headers_of_the_wire_decide_in_their_order() {
    let good = Packet::default;
    let table = [
        ("good packet", good(), UNREAD),
        ("good packet over IPv6", Packet::v6(), UNREAD),
        ("one VLAN tag", Packet { tags: vec![0x8100], ..good() }, UNREAD),
        ("two VLAN tags", Packet { tags: vec![0x88a8, 0x8100], ..good() }, UNREAD),
        ("two VLAN tags, IPv6", Packet { tags: vec![0x9100, 0x8100], ..Packet::v6() }, UNREAD),
        ("three VLAN tags", Packet { tags: vec![0x8100; 3], ..good() }, exotic(Reason::VlanDepth)),
        (
            "group address",
            Packet { destination_mac: [1, 0, 94, 0, 0, 1], ..good() },
            foreign(Reason::LinkMulticast),
        ),
        ("broadcast", Packet { destination_mac: [255; 6], ..good() }, foreign(Reason::LinkMulticast)),
        ("ARP", Packet { ethertype: Some(0x0806), ..good() }, foreign(Reason::NotIp)),
        (
            "ARP in a VLAN",
            Packet { ethertype: Some(0x0806), tags: vec![0x8100], ..good() },
            foreign(Reason::NotIp),
        ),
        ("IPv4 says version 6", Packet { version_byte: Some(0x65), ..good() }, exotic(Reason::Truncated)),
        ("IPv4 header of 16 bytes", Packet { version_byte: Some(0x44), ..good() }, exotic(Reason::Truncated)),
        ("IPv4 shorter than its header", Packet { ip_len: Some(19), ..good() }, exotic(Reason::Truncated)),
        ("IPv4 longer than the packet", Packet { ip_len: Some(1500), ..good() }, exotic(Reason::Truncated)),
        ("first fragment", Packet { fragment: 0x2000, ..good() }, fragment()),
        ("later fragment", Packet { fragment: 0x00b9, ..good() }, fragment()),
        ("fragment of TCP", Packet { fragment: 0x2000, protocol: 6, ..good() }, fragment()),
        ("fragment with options", Packet { fragment: 0x2000, options: vec![1; 4], ..good() }, fragment()),
        ("options", Packet { options: vec![1; 4], ..good() }, exotic(Reason::IpOptions)),
        ("options of TCP", Packet { options: vec![1; 40], protocol: 6, ..good() }, exotic(Reason::IpOptions)),
        ("TCP", Packet { protocol: 6, ..good() }, foreign(Reason::NotUdp)),
        (
            "IPv6 says version 4",
            Packet { version_byte: Some(0x45), ..Packet::v6() },
            exotic(Reason::Truncated),
        ),
        ("IPv6 fragment", Packet { protocol: 44, ..Packet::v6() }, fragment()),
        ("IPv6 hop-by-hop", Packet { protocol: 0, ..Packet::v6() }, exotic(Reason::Ipv6Extension)),
        (
            "IPv6 longer than the packet",
            Packet { ip_len: Some(1400), ..Packet::v6() },
            exotic(Reason::Truncated),
        ),
        ("IP ends in the UDP header", Packet { ip_len: Some(27), ..good() }, exotic(Reason::Truncated)),
        ("UDP of 7 bytes", Packet { udp_len: Some(7), ..good() }, exotic(Reason::Truncated)),
        ("UDP longer than IP", Packet { udp_len: Some(900), ..good() }, exotic(Reason::Truncated)),
        (
            "no service, whatever UDP says",
            Packet { udp_len: Some(900), destination_port: 5061, ..good() },
            foreign(Reason::NoService),
        ),
        ("padding", Packet { padding: vec![b'\n'; 40], ..good() }, UNREAD),
        ("datagram shorter than IP", Packet { udp_len: Some(8), ..good() }, keepalive()),
    ];
    let classifier = classifier();
    for (name, packet, expected) in table {
        assert_eq!(decide(&classifier, &packet), expected, "{name}");
    }
}

fn fragment() -> support::Decision {
    (Class::Fragment, Reason::IpFragment, Verdict::Pass)
}

fn keepalive() -> support::Decision {
    (Class::Keepalive, Reason::LinePing, Verdict::RingRetransmission)
}

#[test]
fn an_exact_address_wins_over_any_address() {
    let other = Ipv4Addr::new(203, 0, 113, 9);
    let mut settings = settings();
    let exact = ServiceAddress { ip: Some(IpAddr::V4(other)), port: ANY_PORT, reply_owed: true };
    settings.services.push(exact);
    let classifier = load(&settings);
    let service_at =
        |packet: Packet| classifier.test_run(&packet.bytes()).expect("a run").meta.expect("a ring").service;
    assert_eq!(service_at(Packet::default()), 0);
    assert_eq!(service_at(Packet::v6()), 1);
    assert_eq!(service_at(Packet { destination_port: ANY_PORT, ..Packet::default() }), 2);
    assert_eq!(service_at(Packet { destination_port: ANY_PORT, ..Packet::v6() }), 2);
    assert_eq!(
        service_at(Packet { destination_port: ANY_PORT, destination_v4: other, ..Packet::default() }),
        3
    );
    let elsewhere = Packet { destination_v4: other, ..Packet::default() };
    assert_eq!(decide(&classifier, &elsewhere), foreign(Reason::NoService));
}

#[test]
fn what_is_no_message_comes_last() {
    let stun = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], &[7; 12]].concat();
    let is_stun = (Class::Stun, Reason::StunMessage, Verdict::RingRetransmission);
    let table: [(&[u8], support::Decision); 14] = [
        (b"", keepalive()),
        (b"\r\n", keepalive()),
        (b"\r\n\r\n", keepalive()),
        (&[0; 4], keepalive()),
        (&[0; 5], NOT_SIP),
        (b"\r\n\r\n\r\n", NOT_SIP),
        (b"abcd", NOT_SIP),
        (&stun, is_stun),
        (&stun[..19], NOT_SIP),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", NOT_SIP),
        (b"SIP/2.0", NOT_SIP),
        (b" SIP/2.0\r\n", NOT_SIP),
        (b"OPTIONS sip:x SIP/2.0", NOT_SIP),
        (b"OPTIONS sip:x\r\n\r\n", NOT_SIP),
    ];
    let classifier = classifier();
    for (datagram, expected) in table {
        assert_eq!(decide(&classifier, &Packet::with(datagram)), expected, "{}", datagram.escape_ascii());
    }
    let strict = load(&Settings { not_sip_drop: true, ..settings() });
    let run = strict.test_run(&Packet::with("nonsense\r\n").bytes()).expect("a run");
    assert_eq!(
        (decision(&run), run.action),
        ((Class::NotSip, Reason::BadStartLine, Verdict::Drop), Action::Drop)
    );
}

#[test]
fn the_start_line_decides_what_it_can() {
    let copy = (Class::Copy, Reason::Marker, Verdict::RingRetransmission);
    let emergency = (Class::Emergency, Reason::EmergencyCall, CONTROL);
    let unclear = (Class::Undecided, Reason::HeaderUnclear, Verdict::RingNew);
    let bound = (Class::Undecided, Reason::ScanBound, Verdict::RingNew);
    let long = format!("INVITE sip:{}@example.com SIP/2.0", "u".repeat(600));
    let table = [
        ("SIP/2.0 200 OK", (Class::Response, Reason::StatusLine, CONTROL)),
        ("sip/2.0 100", (Class::Response, Reason::StatusLine, CONTROL)),
        ("SIP/2.0  200 OK", unclear),
        ("SIP/2.0 20 OK", unclear),
        ("ACK sip:b@x SIP/2.0", (Class::Ack, Reason::Method, CONTROL)),
        ("cancel sip:b@x SIP/2.0", (Class::Cancel, Reason::Method, CONTROL)),
        ("BYE sip:b@x SIP/2.0", (Class::InDialog, Reason::Method, CONTROL)),
        ("Prack sip:b@x SIP/2.0", (Class::InDialog, Reason::Method, CONTROL)),
        ("ACK sip:b@x SIP/2.0 rtx=3", (Class::Ack, Reason::Method, CONTROL)),
        ("INVITE urn:service:sos SIP/2.0", emergency),
        ("INVITE URN:Service:SOS.fire SIP/2.0", emergency),
        ("INVITE urn:service:sos;x SIP/2.0 rtx=1", emergency),
        ("INVITE urn:service:sosx SIP/2.0", UNREAD),
        ("INVITE sip:b@x SIP/2.0 rtx=1", copy),
        ("INVITE sip:b@x SIP/2.0 rtx=0", UNREAD),
        ("INVITE sip:b@x SIP/2.0 rtx=99 ", copy),
        ("INVITE sip:b@x SIP/2.0 rtx=100", NOT_SIP),
        ("INVITE sip:b@x SIP/2.0  rtx=1", NOT_SIP),
        ("INVITE sip:b@x SIP/2.0 RTX=1", NOT_SIP),
        ("INVITE sip:b@x;rtx=1 SIP/2.0", copy),
        ("INVITE sip:b@x;lr;rtx=12;x=y SIP/2.0", copy),
        ("INVITE sip:b@x;rtx=1?subject=a SIP/2.0", copy),
        ("INVITE sip:b@x?subject=a;rtx=1 SIP/2.0", UNREAD),
        ("INVITE sip:b;rtx=1@x SIP/2.0", UNREAD),
        ("INVITE sip:b;rtx=1@x;rtx=2 SIP/2.0", copy),
        ("INVITE sip:b@x;rtx=1a SIP/2.0", UNREAD),
        ("FOO sip:b@x SIP/2.0", UNREAD),
        ("INVITE sip:b@x SIP/7.0", UNREAD),
        ("INVITE sip:b@x SIP/12.0", unclear),
        ("INVITE sip:b@x", NOT_SIP),
        (&*long, bound),
    ];
    let classifier = classifier();
    for (first, expected) in table {
        assert_eq!(decide(&classifier, &line(first)), expected, "{first}");
    }
}

#[test]
fn metadata_says_what_was_found() {
    let classifier = classifier();
    let packet =
        Packet { tags: vec![0x8100], ip: Ip::V6, ..line("\r\n\r\nINVITE sip:b@x;lr;rtx=12;x SIP/2.0") };
    let bytes = packet.bytes();
    let run = classifier.test_run(&bytes).expect("a run");
    let meta = run.meta.expect("a ring");
    assert_eq!(run.packet_out, bytes, "the packet itself is not changed");
    assert_eq!(usize::from(meta.payload_offset), packet.headers_len());
    assert_eq!(usize::from(meta.payload_len), packet.datagram.len());
    assert_eq!(usize::from(meta.start_line_len), "INVITE sip:b@x;lr;rtx=12;x SIP/2.0".len());
    assert_eq!(usize::from(meta.marker_offset), packet.headers_len() + 4 + "INVITE sip:b@x;lr".len());
    assert_eq!((meta.marker_form, meta.marker_copy, meta.marker_len), (MarkerForm::Uri as u8, 12, 7));
    assert_eq!((meta.class, meta.reason), (run.class, run.reason));
    assert_eq!((meta.method, meta.service, meta.txn_hash), (Method::Invite as u8, 1, 0));
    assert!(meta.arrival_ns > 0);
    assert_eq!(run.action, Action::Pass, "no socket is in the slot");
}

#[test]
fn a_packet_one_byte_too_long_for_a_frame_passes() {
    let classifier = classifier();
    let of_len =
        |len: usize| Packet { padding: vec![0; len - Packet::default().bytes().len()], ..Packet::default() };
    assert_eq!(decide(&classifier, &of_len(2048)), UNREAD);
    let oversize = (Class::Oversize, Reason::LargerThanFrame, Verdict::Pass);
    assert_eq!(decide(&classifier, &of_len(2049)), oversize);
    let elsewhere = Packet { destination_v4: Ipv4Addr::new(192, 0, 2, 11), ..of_len(2049) };
    assert_ne!(elsewhere.destination_v4, SERVICE_V4);
    assert_eq!(decide(&classifier, &elsewhere), foreign(Reason::NoService));
}

#[test]
fn a_single_ring_takes_everything_for_a_service() {
    let mut classifier = load(&Settings { single_ring: true, ..settings() });
    support::set_gates(&mut classifier, support::gate(support::DISCARD, 0));
    let ring_new = |packet: &Packet| decide(&classifier, packet).2 == Verdict::RingNew;
    for first in
        ["INVITE sip:b@x SIP/2.0", "ACK sip:b@x SIP/2.0", "SIP/2.0 200 OK", "INVITE sip:b@x SIP/2.0 rtx=1"]
    {
        assert!(ring_new(&line(first)), "{first}");
    }
    assert!(ring_new(&Packet::with("\r\n")) && ring_new(&Packet::with("nonsense\n")));
}
