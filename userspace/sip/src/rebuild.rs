//! A packet around a datagram that came by a socket: headers as the hand-off wants them, and no link.
//!
//! ```text
//! 0              14            34..54    42..62
//! ├ 00 … 00  type ┤ IPv4 / IPv6 ├ UDP     ├ payload, in place already
//! ```
//!
//! The kernel has checked the datagram and has taken off whatever else its packets had: fragments, options, extension
//! headers. The UDP checksum is left to be completed by `prepare_handoff` ([`Checksum::Partial`](crate::Checksum)).
//! Both hardware addresses are zero, which no station has, and by which a reply to such a packet is known
//! ([`has_link`]): it cannot leave by the way its request came.

use std::net::{IpAddr, SocketAddr};

use crate::checksum::pseudo_header;
use crate::handoff::write_ipv4_checksum;
use crate::wire::{
    Datagram, ETHERNET_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV6_LEN, PROTOCOL_UDP, UDP_LEN,
};

/// The longest headers, in bytes: Ethernet, IPv6, UDP.
pub const REBUILT_HEADERS_MAX: usize = ETHERNET_LEN + IPV6_LEN + UDP_LEN;

/// Time to live and hop limit, in hops. The way to the server is one hop.
const HOPS: u8 = 64;

/// Bytes of the headers in front of a payload from this address.
#[must_use]
pub const fn rebuilt_headers_len(source: SocketAddr) -> usize {
    ETHERNET_LEN + UDP_LEN + if source.is_ipv4() { IPV4_LEN } else { IPV6_LEN }
}

/// Writes the headers in front of the payload, which is the rest of `packet`, and says where the datagram lies. `None`
/// if the addresses are of two families, or the packet is too short, or longer than IP can say.
#[must_use]
pub fn write_datagram_headers(
    packet: &mut [u8],
    source: SocketAddr,
    destination: SocketAddr,
) -> Option<Datagram> {
    let payload_offset = rebuilt_headers_len(source);
    let payload_len = packet.len().checked_sub(payload_offset)?;
    let udp_len = u16::try_from(UDP_LEN + payload_len).ok()?;
    let (ethernet, rest) = packet.split_first_chunk_mut::<ETHERNET_LEN>()?;
    ethernet[..12].fill(0);
    let (ethertype, addresses, ip_len) = match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let ip = rest.first_chunk_mut::<IPV4_LEN>()?;
            *ip = [0; IPV4_LEN];
            ip[0] = 0x45;
            ip[2..4].copy_from_slice(&udp_len.checked_add(IPV4_LEN as u16)?.to_be_bytes());
            ip[8] = HOPS;
            ip[9] = PROTOCOL_UDP;
            ip[12..16].copy_from_slice(&from.octets());
            ip[16..].copy_from_slice(&to.octets());
            write_ipv4_checksum(ip);
            (ETHERTYPE_IPV4, 12, IPV4_LEN)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let ip = rest.first_chunk_mut::<IPV6_LEN>()?;
            ip[..4].copy_from_slice(&[0x60, 0, 0, 0]);
            ip[4..6].copy_from_slice(&udp_len.to_be_bytes());
            ip[6] = PROTOCOL_UDP;
            ip[7] = HOPS;
            ip[8..24].copy_from_slice(&from.octets());
            ip[24..].copy_from_slice(&to.octets());
            (ETHERTYPE_IPV6, 8, IPV6_LEN)
        }
        _ => return None,
    };
    ethernet[12..].copy_from_slice(&ethertype.to_be_bytes());
    let (ip, udp) = rest.split_at_mut(ip_len);
    udp[..2].copy_from_slice(&source.port().to_be_bytes());
    udp[2..4].copy_from_slice(&destination.port().to_be_bytes());
    udp[4..6].copy_from_slice(&udp_len.to_be_bytes());
    udp[6..8].copy_from_slice(&pseudo_header(&ip[addresses..], udp_len).folded().to_be_bytes());
    Some(Datagram { l3_offset: ETHERNET_LEN, payload_offset, payload_len, source, destination })
}

/// False for a packet that was rebuilt here, and for a reply to one.
#[must_use]
pub fn has_link(packet: &[u8]) -> bool {
    packet.iter().take(12).any(|byte| *byte != 0)
}

/// The IP packet in an Ethernet packet without tags, and the address that it goes to; for sending it by the host's
/// routes.
#[must_use]
pub fn ip_packet(packet: &[u8]) -> Option<(&[u8], IpAddr)> {
    let (ethernet, ip) = packet.split_first_chunk::<ETHERNET_LEN>()?;
    let destination = match u16::from_be_bytes([ethernet[12], ethernet[13]]) {
        ETHERTYPE_IPV4 => IpAddr::from(*ip.get(16..)?.first_chunk::<4>()?),
        ETHERTYPE_IPV6 => IpAddr::from(*ip.get(24..)?.first_chunk::<16>()?),
        _ => return None,
    };
    Some((ip, destination))
}

#[cfg(test)]
mod tests {
    use etherparse::{NetHeaders, PacketHeaders, TransportHeader};

    use super::*;
    use crate::{Checksum, Services, parse_packet, prepare_handoff, verify_udp};

    const V4: [&str; 2] = ["198.51.100.7:5062", "192.0.2.1:5060"];
    const V6: [&str; 2] = ["[2001:db8:1::7]:5062", "[2001:db8::1]:5060"];

    fn rebuilt(ends: [&str; 2], payload: &[u8]) -> (Vec<u8>, Option<Datagram>) {
        let [source, destination] = ends.map(|end| end.parse::<SocketAddr>().unwrap());
        let mut packet = vec![0xee; rebuilt_headers_len(source)];
        packet.extend(payload);
        let datagram = write_datagram_headers(&mut packet, source, destination);
        (packet, datagram)
    }

    #[test]
    fn a_rebuilt_packet_is_read_back_as_what_it_was_made_from() {
        for ends in [V4, V6] {
            for len in [0, 1, 1472, 2800, 65_487] {
                let payload = vec![b'x'; len];
                let (packet, datagram) = rebuilt(ends, &payload);
                let datagram = datagram.unwrap();
                let services = Services::new([(None, 5060)]);
                assert_eq!(parse_packet(&packet, &services, usize::MAX), Ok((datagram, 0)), "{ends:?} {len}");
                assert_eq!(datagram.payload(&packet), payload);
                assert_eq!(verify_udp(&packet, &datagram), Checksum::Partial);
                assert!(!has_link(&packet));
            }
        }
    }

    #[test]
    fn the_hand_off_completes_its_checksum() {
        for ends in [V4, V6] {
            let (mut packet, datagram) = rebuilt(ends, b"OPTIONS sip:x SIP/2.0\r\n\r\n");
            let range = prepare_handoff(&mut packet, &datagram.unwrap(), None, [2; 6], [4; 6]).unwrap();
            assert!(has_link(&packet[range.clone()]));
            let parsed = PacketHeaders::from_ethernet_slice(&packet[range]).unwrap();
            let Some(TransportHeader::Udp(udp)) = &parsed.transport else { panic!("no UDP") };
            let sum = match &parsed.net {
                Some(NetHeaders::Ipv4(ip, _)) => {
                    assert_eq!(ip.header_checksum, ip.calc_header_checksum());
                    udp.calc_checksum_ipv4(ip, parsed.payload.slice()).unwrap()
                }
                Some(NetHeaders::Ipv6(ip, _)) => udp.calc_checksum_ipv6(ip, parsed.payload.slice()).unwrap(),
                other => panic!("{other:?}"),
            };
            assert_eq!(udp.checksum, sum);
        }
    }

    #[test]
    fn lengths_that_ip_cannot_say_and_mixed_families_are_refused() {
        assert!(rebuilt(V4, &vec![0; 65_507]).1.is_some());
        assert!(rebuilt(V4, &vec![0; 65_508]).1.is_none());
        assert!(rebuilt(V6, &vec![0; 65_527]).1.is_some());
        assert!(rebuilt(V6, &vec![0; 65_528]).1.is_none());
        assert!(rebuilt([V4[0], V6[1]], b"x").1.is_none());
        assert!(rebuilt([V6[0], V4[1]], b"x").1.is_none());
        for ends in [V4, V6] {
            let [source, destination] = ends.map(|end| end.parse::<SocketAddr>().unwrap());
            for len in 0..rebuilt_headers_len(source) {
                assert!(write_datagram_headers(&mut vec![0; len], source, destination).is_none(), "{len}");
            }
        }
    }

    #[test]
    fn the_ip_packet_and_where_it_goes_are_found() {
        for ends in [V4, V6] {
            let (packet, _) = rebuilt(ends, b"x");
            let (ip, to) = ip_packet(&packet).unwrap();
            assert_eq!(ip, &packet[14..]);
            assert_eq!(to, ends[1].parse::<SocketAddr>().unwrap().ip());
            for len in 0..30 {
                assert!(ip_packet(&packet[..len]).is_none(), "{len}");
            }
        }
        assert!(ip_packet(&[0; 64]).is_none());
    }
}
