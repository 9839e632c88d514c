//! H. Below UDP.

use sip::{Checksum, Class, Reason, Verdict, prepare_handoff, verdict_of, verify_udp};

use super::{SERVICE_V6, ethernet, ipv4, plain_invite};
use crate::judge::parse;

/// EtherType and IPv6 header, then `next` as it is.
fn ipv6(next_header: u8, next: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x86, 0xdd, 0x60, 0, 0, 0];
    bytes.extend(u16::try_from(next.len()).unwrap().to_be_bytes());
    bytes.extend([next_header, 64]);
    bytes.extend([0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4]);
    bytes.extend(SERVICE_V6);
    bytes.extend_from_slice(next);
    bytes
}

#[test]
fn case_61_every_fragment_passes_to_the_kernel_whatever_it_holds() {
    let request = plain_invite();
    let fragment = Err((Class::Fragment, Reason::IpFragment));
    // The first, one in the middle, the last; the later ones begin with bytes that look like ports.
    for field in [0x2000, 0x2000 | 90, 90] {
        assert_eq!(parse(&ethernet(&[], &ipv4(5060, field, request.as_bytes()))), fragment, "{field:#x}");
    }
    let udp = &ipv4(5060, 0, request.as_bytes())[22..];
    for offset_and_more in [[0, 1], [4, 1], [4, 0]] {
        let header = [&[17, 0][..], &offset_and_more, &[0, 0, 0, 9], udp].concat();
        assert_eq!(parse(&ethernet(&[], &ipv6(44, &header))), fragment, "{offset_and_more:?}");
    }
    assert_eq!(verdict_of(Class::Fragment), Verdict::Pass);
}

#[test]
fn case_62_two_vlan_tags_are_read_and_tunnels_pass_to_the_kernel() {
    let request = plain_invite();
    let inner = ipv4(5060, 0x4000, request.as_bytes());
    for tags in [&[][..], &[0x81, 0, 0, 9], &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 5]] {
        let packet = ethernet(tags, &inner);
        assert_eq!(parse(&packet).unwrap().payload(&packet), request.as_bytes(), "{tags:x?}");
    }
    let three = [0x81, 0, 0, 9].repeat(3);
    assert_eq!(parse(&ethernet(&three, &inner)), Err((Class::Exotic, Reason::VlanDepth)));

    let mut gre = inner.clone();
    gre[11] = 47;
    assert_eq!(parse(&ethernet(&[], &gre)), Err((Class::Foreign, Reason::NotUdp)));
    let mut vxlan = ipv4(40_000, 0x4000, &[&[8, 0, 0, 0, 0, 0, 5, 0][..], &ethernet(&[], &inner)].concat());
    vxlan[24..26].copy_from_slice(&4789_u16.to_be_bytes());
    assert_eq!(parse(&ethernet(&[], &vxlan)), Err((Class::Foreign, Reason::NoService)));
    assert_eq!(parse(&ethernet(&[], &[0x89, 0x26, 0, 0])), Err((Class::Foreign, Reason::NotIp)), "VN-Tag");
    assert_eq!((verdict_of(Class::Exotic), verdict_of(Class::Foreign)), (Verdict::Pass, Verdict::Pass));
}

#[test]
fn case_64_the_server_gets_the_datagram_byte_for_byte() {
    let body = "b".repeat(900);
    let request = format!("\r\n{}{body}\0", plain_invite().replace("desk@", "j\u{fc}rgen@"));
    let mut packet = ethernet(&[0x81, 0, 0, 9], &ipv4(5060, 0x4000, request.as_bytes()));
    // The checksum of the IPv4 header, which `ipv4` leaves out.
    let sum: u32 =
        packet[18..38].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let checksum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    packet[28..30].copy_from_slice(&checksum.to_be_bytes());
    packet.extend([0xee; 6]);
    let datagram = parse(&packet).unwrap();
    let range =
        prepare_handoff(&mut packet, &datagram, None, [2, 0, 0, 0, 0, 7], [2, 0, 0, 0, 0, 8]).unwrap();
    let handed = &packet[range];
    let there = parse(handed).unwrap();
    assert_eq!(there.payload(handed), request.as_bytes());
    assert_eq!((there.source, there.destination), (datagram.source, datagram.destination));
    assert_eq!(verify_udp(handed, &there), Checksum::Absent);
}
