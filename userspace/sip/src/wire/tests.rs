use etherparse::{PacketBuilder, VlanId};
use proptest::prelude::*;

use super::*;

const FRAME_LEN_MAX: usize = 2048;

fn services() -> Services {
    let exact: IpAddr = [192, 0, 2, 1].into();
    let exact6: IpAddr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into();
    Services::new([(None, 5060), (Some(exact), 5060), (Some(exact), 5070), (Some(exact6), 5080)])
}

fn parse(packet: &[u8]) -> Result<(Datagram, u8), (Class, Reason)> {
    parse_packet(packet, &services(), FRAME_LEN_MAX)
}

fn ipv4(destination: [u8; 4], port: u16, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4([192, 0, 2, 9], destination, 64)
        .udp(6000, port);
    let mut packet = Vec::new();
    builder.write(&mut packet, payload).unwrap();
    packet
}

fn ipv6(payload: &[u8]) -> Vec<u8> {
    let destination = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).octets();
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv6([3; 16], destination, 64)
        .udp(6000, 5080);
    let mut packet = Vec::new();
    builder.write(&mut packet, payload).unwrap();
    packet
}

/// `packet` with `tags` VLAN tags of this EtherType.
fn tagged(packet: &[u8], ethertype: [u8; 2], tags: usize) -> Vec<u8> {
    let tag = [ethertype[0], ethertype[1], 0, 7];
    [&packet[..12], &tag.repeat(tags), &packet[12..]].concat()
}

#[test]
fn an_ipv4_datagram_is_found_and_padding_is_not_part_of_it() {
    let mut packet = ipv4([192, 0, 2, 1], 5060, b"hello");
    packet.resize(60, 0);
    let (datagram, service) = parse(&packet).unwrap();
    assert_eq!(service, 1, "the exact address counts more than every address");
    assert_eq!((datagram.l3_offset, datagram.payload_offset, datagram.payload_len), (14, 42, 5));
    assert_eq!(datagram.source, "192.0.2.9:6000".parse().unwrap());
    assert_eq!(datagram.destination, "192.0.2.1:5060".parse().unwrap());
    assert_eq!(datagram.payload(&packet), b"hello");
    assert_eq!(Datagram::at(&packet, 42, 5), Some(datagram));
}

#[test]
fn an_ipv6_datagram_is_found() {
    let packet = ipv6(b"hello");
    let (datagram, service) = parse(&packet).unwrap();
    assert_eq!((service, datagram.l3_offset, datagram.payload_offset), (3, 14, 62));
    assert_eq!(datagram.payload(&packet), b"hello");
    assert_eq!(Datagram::at(&packet, 62, 5), Some(datagram));
}

#[test]
fn two_vlan_tags_of_any_kind_are_skipped_and_a_third_is_not() {
    for ethertype in [[0x81, 0x00], [0x88, 0xa8], [0x91, 0x00]] {
        for tags in 1..=2 {
            let packet = tagged(&ipv4([192, 0, 2, 1], 5070, b"x"), ethertype, tags);
            let (datagram, service) = parse(&packet).unwrap();
            assert_eq!((service, datagram.l3_offset), (2, 14 + 4 * tags));
            assert_eq!(Datagram::at(&packet, datagram.payload_offset, 1), Some(datagram));
        }
        let deep = tagged(&ipv4([192, 0, 2, 1], 5070, b"x"), ethertype, 3);
        assert_eq!(parse(&deep), Err((Class::Exotic, Reason::VlanDepth)));
    }
}

#[test]
fn etherparse_and_this_room_agree_on_double_tags() {
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6])
        .double_vlan(VlanId::try_new(5).unwrap(), VlanId::try_new(6).unwrap())
        .ipv4([1; 4], [192, 0, 2, 1], 3)
        .udp(1, 5060);
    let mut packet = Vec::new();
    builder.write(&mut packet, b"y").unwrap();
    assert_eq!(parse(&packet).unwrap().0.payload(&packet), b"y");
}

#[test]
fn each_oddity_has_its_class_and_reason() {
    let good = ipv4([192, 0, 2, 1], 5060, b"hello");
    let v6 = ipv6(b"hello");
    let with = |packet: &[u8], edits: &[(usize, u8)]| {
        let mut packet = packet.to_vec();
        for (offset, byte) in edits {
            packet[*offset] = *byte;
        }
        parse(&packet).map(|(_, service)| service)
    };
    let fragment = Err((Class::Fragment, Reason::IpFragment));
    let cases = [
        ("group address", with(&good, &[(0, 3)]), Err((Class::Foreign, Reason::LinkMulticast))),
        ("ARP", with(&good, &[(13, 6)]), Err((Class::Foreign, Reason::NotIp))),
        ("version 5", with(&good, &[(14, 0x55)]), Err(TRUNCATED)),
        ("header of 16 bytes", with(&good, &[(14, 0x44)]), Err(TRUNCATED)),
        ("options", with(&good, &[(14, 0x46)]), Err((Class::Exotic, Reason::IpOptions))),
        ("options beyond the total length", with(&good, &[(14, 0x4f)]), Err(TRUNCATED)),
        ("total length beyond the packet", with(&good, &[(17, 200)]), Err(TRUNCATED)),
        ("more fragments", with(&good, &[(20, 0x20)]), fragment),
        ("an offset, with options and TCP", with(&good, &[(21, 1), (14, 0x46), (23, 6)]), fragment),
        ("don't fragment", with(&good, &[(20, 0x40)]), Ok(1)),
        ("TCP", with(&good, &[(23, 6)]), Err((Class::Foreign, Reason::NotUdp))),
        ("total length without UDP header", with(&good, &[(17, 27)]), Err(TRUNCATED)),
        ("another port", with(&good, &[(36, 1)]), Err((Class::Foreign, Reason::NoService))),
        (
            "another port, absurd length",
            with(&good, &[(36, 1), (39, 7)]),
            Err((Class::Foreign, Reason::NoService)),
        ),
        ("UDP length 7", with(&good, &[(39, 7)]), Err(TRUNCATED)),
        ("UDP length beyond IP", with(&good, &[(39, 14)]), Err(TRUNCATED)),
        ("UDP length below IP", with(&good, &[(39, 12)]), Ok(1)),
        ("IPv6 version 4", with(&v6, &[(14, 0x45)]), Err(TRUNCATED)),
        ("IPv6 fragment", with(&v6, &[(20, 44)]), fragment),
        ("IPv6 hop-by-hop", with(&v6, &[(20, 0)]), Err((Class::Exotic, Reason::Ipv6Extension))),
        ("IPv6 shim", with(&v6, &[(20, 140)]), Err((Class::Exotic, Reason::Ipv6Extension))),
        ("IPv6 TCP", with(&v6, &[(20, 6)]), Err((Class::Foreign, Reason::NotUdp))),
        ("IPv6 payload beyond the packet", with(&v6, &[(19, 14)]), Err(TRUNCATED)),
        ("IPv6 without length", with(&v6, &[(19, 0)]), Err(TRUNCATED)),
    ];
    for (name, found, expected) in cases {
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_datagram_that_ends_in_the_padding_is_truncated() {
    let mut packet = ipv4([192, 0, 2, 1], 5060, b"hello");
    packet.resize(60, 0);
    packet[39] += 1;
    assert_eq!(parse(&packet), Err(TRUNCATED));
}

#[test]
fn only_a_packet_for_a_service_can_be_too_large() {
    let payload = [b'x'; FRAME_LEN_MAX - 42];
    assert!(parse(&ipv4([192, 0, 2, 1], 5060, &payload)).is_ok());
    let larger = [b'x'; FRAME_LEN_MAX - 41];
    let oversize = Err((Class::Oversize, Reason::LargerThanFrame));
    assert_eq!(parse(&ipv4([192, 0, 2, 1], 5060, &larger)), oversize);
    let foreign = Err((Class::Foreign, Reason::NoService));
    assert_eq!(parse(&ipv4([192, 0, 2, 1], 5061, &larger)), foreign);
}

#[test]
fn any_address_serves_both_families_on_its_port() {
    assert_eq!(parse(&ipv4([10, 9, 8, 7], 5060, b"x")).unwrap().1, 0);
    let services = Services::new([(None, 5080)]);
    assert_eq!(parse_packet(&ipv6(b"x"), &services, FRAME_LEN_MAX).unwrap().1, 0);
}

#[test]
fn more_services_than_the_tables_hold_are_not_taken_up() {
    let services = Services::new((0..100).map(|i| (None, 5000 + i)));
    assert_eq!(services.find("1.2.3.4:5063".parse().unwrap()), Some(63));
    assert_eq!(services.find("1.2.3.4:5064".parse().unwrap()), None);
}

#[test]
fn every_truncation_is_truncated_or_shorter() {
    for packet in [ipv4([192, 0, 2, 1], 5060, b"hello"), ipv6(b"hello"), tagged(&ipv6(b"x"), [0x81, 0], 2)] {
        for len in 0..packet.len() {
            assert_eq!(parse(&packet[..len]), Err(TRUNCATED), "{len}");
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(
        mut packet in prop::collection::vec(any::<u8>(), 0..120),
        head in 0usize..4,
        offsets in (any::<u16>(), any::<u16>()),
    ) {
        let heads = [&b""[..], &ipv4([192, 0, 2, 1], 5060, b"")[..23], &ipv6(b"")[..20], b"\x02\0\0\0\0\0\0\0\0\0\0\0\x81\0"];
        packet.splice(..0, heads[head].iter().copied());
        let _ = parse(&packet);
        let _ = Datagram::at(&packet, usize::from(offsets.0) % 150, usize::from(offsets.1) % 150);
    }

    #[test]
    fn what_is_parsed_is_what_was_built(payload in prop::collection::vec(any::<u8>(), 0..300), padding in 0usize..20, tags in 0usize..3) {
        let mut packet = tagged(&ipv4([192, 0, 2, 1], 5070, &payload), [0x88, 0xa8], tags);
        packet.resize(packet.len() + padding, 0xee);
        let (datagram, service) = parse(&packet).unwrap();
        prop_assert_eq!(service, 2);
        prop_assert_eq!(datagram.payload(&packet), &payload[..]);
        prop_assert_eq!(Datagram::at(&packet, datagram.payload_offset, datagram.payload_len), Some(datagram));
    }
}
