use etherparse::PacketBuilder;
use proptest::prelude::*;

use super::*;
use crate::class::MarkerForm;
use crate::message::classify;
use crate::wire::{Services, parse_packet};

const TO: [u8; 6] = [6, 1, 1, 1, 1, 1];
const FROM: [u8; 6] = [6, 2, 2, 2, 2, 2];

/// Builds the packet of a datagram, by an independent hand; `macs` are destination and source.
fn build(ipv6: bool, tags: usize, macs: ([u8; 6], [u8; 6]), payload: &[u8]) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2(macs.1, macs.0);
    let mut packet = Vec::new();
    if ipv6 {
        let builder = ethernet.ipv6([0x20; 16], [0x21; 16], 17).udp(6000, 5060);
        builder.write(&mut packet, payload).unwrap();
    } else {
        let builder = ethernet.ipv4([192, 0, 2, 9], [192, 0, 2, 1], 17).udp(6000, 5060);
        builder.write(&mut packet, payload).unwrap();
    }
    packet.splice(12..12, [0x81, 0, 0, 5].repeat(tags));
    packet
}

fn parse(packet: &[u8]) -> Datagram {
    parse_packet(packet, &Services::new([(None, 5060)]), 4096).unwrap().0
}

fn marker_at(offset: usize, len: usize) -> Option<Marker> {
    (len > 0).then(|| Marker {
        form: MarkerForm::Uri,
        copy: 1,
        offset: u16::try_from(offset).unwrap(),
        len: u8::try_from(len).unwrap(),
    })
}

/// Offset of the UDP checksum.
fn field_of(datagram: &Datagram) -> usize {
    datagram.payload_offset - 2
}

/// Replaces the checksum by what `CHECKSUM_PARTIAL` leaves there, computed word by word.
fn make_partial(packet: &mut [u8], datagram: &Datagram) {
    let udp_len = datagram.payload_len + UDP_LEN;
    let addresses = addresses_of(&packet[datagram.l3_offset..datagram.payload_offset - UDP_LEN]);
    let words = addresses.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let mut sum = words.sum::<u32>() + 17 + u32::try_from(udp_len).unwrap();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    packet[field_of(datagram)..][..2].copy_from_slice(&u16::try_from(sum).unwrap().to_be_bytes());
}

#[test]
fn the_four_states_of_a_checksum_are_told_apart() {
    for ipv6 in [false, true] {
        let mut packet = build(ipv6, 0, (TO, FROM), b"odd");
        let datagram = parse(&packet);
        assert_eq!(verify_udp(&packet, &datagram), Checksum::Right);
        make_partial(&mut packet, &datagram);
        assert_eq!(verify_udp(&packet, &datagram), Checksum::Partial);
        packet[field_of(&datagram)] ^= 1;
        assert_eq!(verify_udp(&packet, &datagram), Checksum::Wrong);
        packet[field_of(&datagram)..][..2].fill(0);
        let zero = if ipv6 { Checksum::Wrong } else { Checksum::Absent };
        assert_eq!(verify_udp(&packet, &datagram), zero);
    }
}

#[test]
fn a_marked_invite_leaves_as_the_unmarked_one() {
    let marked = b"INVITE sip:b@h;rtx=1 SIP/2.0\r\nTo: x\r\n\r\n";
    let plain = b"INVITE sip:b@h SIP/2.0\r\nTo: x\r\n\r\n";
    let mut packet = build(false, 1, ([2; 6], [4; 6]), marked);
    let datagram = parse(&packet);
    let marker = classify(marked).marker;
    let range = prepare_handoff(&mut packet, &datagram, marker, TO, FROM).unwrap();
    assert_eq!(packet[range], build(false, 0, (TO, FROM), plain));
}

#[test]
fn an_absent_checksum_stays_absent_on_ipv4_and_is_refused_on_ipv6() {
    let mut packet = build(false, 0, (TO, FROM), b"a;rtx=1b");
    let datagram = parse(&packet);
    packet[field_of(&datagram)..][..2].fill(0);
    let range = prepare_handoff(&mut packet, &datagram, marker_at(1, 6), TO, FROM).unwrap();
    let sent = &packet[range];
    assert_eq!(&sent[40..], b"\0\0ab");

    let mut packet = build(true, 0, (TO, FROM), b"a;rtx=1b");
    let datagram = parse(&packet);
    packet[field_of(&datagram)..][..2].fill(0);
    let refused = prepare_handoff(&mut packet, &datagram, None, TO, FROM);
    assert_eq!(refused, Err(HandoffError::DatagramChecksum));
}

#[test]
fn damage_is_refused_and_the_packet_stays_as_it_was() {
    let packet = build(false, 0, (TO, FROM), b"a;rtx=12b");
    let datagram = parse(&packet);
    let header_len = datagram.payload_offset - UDP_LEN - datagram.l3_offset;
    for offset in datagram.l3_offset..packet.len() {
        // Flipping a bit of what the datagram was parsed by would make it another datagram.
        let length_fields = [datagram.l3_offset + header_len + 4, datagram.l3_offset + header_len + 5];
        if length_fields.contains(&offset) {
            continue;
        }
        let mut damaged = packet.clone();
        damaged[offset] ^= 0x10;
        let before = damaged.clone();
        let expected = if offset < datagram.l3_offset + header_len {
            HandoffError::HeaderChecksum
        } else {
            HandoffError::DatagramChecksum
        };
        let refused = prepare_handoff(&mut damaged, &datagram, marker_at(1, 7), TO, FROM);
        assert_eq!((refused, &damaged), (Err(expected), &before), "byte {offset}");
    }
}

#[test]
fn bytes_between_the_datagram_and_the_ip_payloads_end_fall_away() {
    let mut packet = build(false, 0, (TO, FROM), b"abcd");
    let datagram = parse(&packet);
    packet.extend_from_slice(b"junk");
    packet[17] += 4;
    write_ipv4_checksum(&mut packet[14..34]);
    assert_eq!(parse(&packet), datagram);
    let range = prepare_handoff(&mut packet, &datagram, None, TO, FROM).unwrap();
    assert_eq!(packet[range], build(false, 0, (TO, FROM), b"abcd"));
}

#[test]
fn a_marker_or_a_datagram_outside_the_packet_is_refused() {
    let mut packet = build(false, 0, (TO, FROM), b"abcd");
    let datagram = parse(&packet);
    for (offset, len) in [(0, 5), (4, 1), (65_000, 200)] {
        let refused = prepare_handoff(&mut packet, &datagram, marker_at(offset, len), TO, FROM);
        assert_eq!(refused, Err(HandoffError::Malformed));
    }
    for (l3_offset, payload_offset, payload_len) in
        [(0, 28, 4), (14, 43, 3), (14, 42, 5), (14, 42, usize::MAX), (50, 2, 0)]
    {
        let bogus = Datagram { l3_offset, payload_offset, payload_len, ..datagram };
        let refused = prepare_handoff(&mut packet, &bogus, None, TO, FROM);
        assert_eq!(refused, Err(HandoffError::Malformed), "{bogus:?}");
        assert_eq!(verify_udp(&packet, &bogus), Checksum::Wrong);
        assert!(bogus.payload(&packet).len() <= packet.len());
    }
}

#[test]
fn a_checksum_that_comes_out_zero_is_sent_as_all_ones() {
    // The two payload bytes are what the checksum of the datagram without them is.
    let mut packet = build(false, 0, (TO, FROM), &[0, 0]);
    let datagram = parse(&packet);
    let field = field_of(&datagram);
    let rest: [u8; 2] = packet[field..field + 2].try_into().unwrap();
    packet[datagram.payload_offset..].copy_from_slice(&rest);
    make_partial(&mut packet, &datagram);
    let range = prepare_handoff(&mut packet, &datagram, None, TO, FROM).unwrap();
    let sent = packet[range].to_vec();
    assert_eq!(sent[40..42], [0xff, 0xff]);
    assert_eq!(verify_udp(&sent, &parse(&sent)), Checksum::Right);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_packet_handed_off_is_the_packet_built_anew(
        front in prop::collection::vec(any::<u8>(), 0..80),
        back in prop::collection::vec(any::<u8>(), 0..120),
        marker_len in 0usize..9,
        ipv6: bool,
        partial: bool,
        tags in 0usize..3,
        padding in 0usize..20,
    ) {
        let payload = [&front[..], &b" rtx=123"[..marker_len], &back].concat();
        let mut packet = build(ipv6, tags, ([2; 6], [4; 6]), &payload);
        packet.resize(packet.len() + padding, 0xee);
        let datagram = parse(&packet);
        if partial {
            make_partial(&mut packet, &datagram);
        }
        let range = prepare_handoff(&mut packet, &datagram, marker_at(front.len(), marker_len), TO, FROM).unwrap();
        let expected = build(ipv6, 0, (TO, FROM), &[front, back].concat());
        prop_assert_eq!(&packet[range], &expected[..]);
    }

    #[test]
    fn random_bytes_never_panic(
        mut packet in prop::collection::vec(any::<u8>(), 0..200),
        place in (0usize..100, 0usize..100, 0usize..250),
        marker in (0usize..200, 0usize..200),
    ) {
        let peer = "192.0.2.9:5060".parse().unwrap();
        let datagram = Datagram { l3_offset: place.0, payload_offset: place.1, payload_len: place.2, source: peer, destination: peer };
        let _ = verify_udp(&packet, &datagram);
        let _ = prepare_handoff(&mut packet, &datagram, marker_at(marker.0, marker.1), TO, FROM);
    }
}
