//! The packet around a refusal: the request's headers turned around, so that it leaves by the way it came.
//!
//! MACs, addresses and the request's destination port are swapped, VLAN tags kept, and the reply leaves from
//! the address and port that the request arrived on, as RFC 3581 section 4 demands; only the port it goes to
//! follows the top Via. IP options, identification and DSCP are not copied. No route is looked up: the
//! previous hop knows the way to where its packets come from.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::checksum::{Sum, pseudo_header};
use crate::handoff::{transmitted, write_ipv4_checksum};
use crate::refusal::{NoReply, Refusal, Reply};
use crate::reply::write_reply;
use crate::txn::Seed;
use crate::wire::{Datagram, IPV4_LEN, IPV6_LEN, PROTOCOL_UDP, UDP_LEN};

/// Time to live and hop limit of replies, in hops; the kernel's default (`net.ipv4.ip_default_ttl`). Too small
/// a value would not reach far peers.
const HOPS: u8 = 64;
/// IPv4's "don't fragment": the reply is no longer than the request, which arrived whole.
const DONT_FRAGMENT: u16 = 0x4000;

/// Writes the whole packet of the refusal to a request; `Reply::len` is the packet's length.
///
/// `request_packet` is the packet as it came and `datagram` what was parsed from it.
///
/// # Errors
///
/// The reason why the request gets no reply; `out` may have been written to.
pub fn write_reply_packet(
    request_packet: &[u8],
    datagram: &Datagram,
    seed: &Seed,
    refusal: impl Into<Refusal>,
    out: &mut [u8],
) -> Result<Reply, NoReply> {
    let (l3, ip_len) = datagram.ip_shape().ok_or(NoReply::NotARequest)?;
    let payload_offset = l3 + ip_len + UDP_LEN;
    let payload = out.get_mut(payload_offset..).ok_or(NoReply::NoRoom)?;
    check_ends(datagram)?;
    let reply = write_reply(datagram.payload(request_packet), datagram.source, seed, refusal, payload)?;
    let len = write_headers(request_packet, datagram, reply.destination.port(), reply.len, out)?;
    Ok(Reply { len, ..reply })
}

/// Writes a packet that carries `payload` to where a request came from, to the port of `destination`; for
/// responses that a processor made. Returns the packet's length.
///
/// # Errors
///
/// [`NoReply::BadSource`] if `destination` is not the request's source address: the link that the request came
/// by is known to lead there and nowhere else; also if that is our own. [`NoReply::GroupDestination`] if the request was
/// sent to a group. [`NoReply::NoRoom`] if `out` is too small.
pub fn write_answer_packet(
    request_packet: &[u8],
    datagram: &Datagram,
    destination: SocketAddr,
    payload: &[u8],
    out: &mut [u8],
) -> Result<usize, NoReply> {
    if destination.ip().to_canonical() != datagram.source.ip().to_canonical() {
        return Err(NoReply::BadSource);
    }
    check_ends(datagram)?;
    let (l3, ip_len) = datagram.ip_shape().ok_or(NoReply::NotARequest)?;
    let room = out.get_mut(l3 + ip_len + UDP_LEN..).and_then(|room| room.get_mut(..payload.len()));
    room.ok_or(NoReply::NoRoom)?.copy_from_slice(payload);
    write_headers(request_packet, datagram, destination.port(), payload.len(), out)
}

/// Says no if the reply would go to our own address, or come from one that no host has.
fn check_ends(datagram: &Datagram) -> Result<(), NoReply> {
    let (from, to) = (datagram.source.ip().to_canonical(), datagram.destination.ip().to_canonical());
    if from == to {
        return Err(NoReply::BadSource);
    }
    if to.is_multicast() || to.is_unspecified() || to == IpAddr::V4(Ipv4Addr::BROADCAST) {
        return Err(NoReply::GroupDestination);
    }
    Ok(())
}

/// Writes the headers in front of a payload of `payload_len` bytes that is already in place; returns the
/// packet's length.
fn write_headers(
    request_packet: &[u8],
    datagram: &Datagram,
    destination_port: u16,
    payload_len: usize,
    out: &mut [u8],
) -> Result<usize, NoReply> {
    let (l3, ip_len) = datagram.ip_shape().ok_or(NoReply::NotARequest)?;
    let payload_offset = l3 + ip_len + UDP_LEN;
    let headers = request_packet.get(..payload_offset).ok_or(NoReply::NotARequest)?;
    // The request's sender must be one station, or every station would take the reply.
    if headers[6] & 1 != 0 {
        return Err(NoReply::BadSource);
    }
    let (out_headers, payload) = out.split_at_mut_checked(payload_offset).ok_or(NoReply::NoRoom)?;
    let payload = payload.get(..payload_len).ok_or(NoReply::NoRoom)?;
    let udp_len = u16::try_from(UDP_LEN + payload_len).map_err(|_longer| NoReply::NoRoom)?;

    let (ethernet, rest) = out_headers.split_at_mut(l3);
    let (ip, udp) = rest.split_at_mut(ip_len);
    ethernet[..6].copy_from_slice(&headers[6..12]);
    ethernet[6..12].copy_from_slice(&headers[..6]);
    ethernet[12..].copy_from_slice(&headers[12..l3]);
    let request_ip = &headers[l3..l3 + ip_len];
    let addresses = if ip_len == IPV4_LEN {
        write_ipv4(ip, request_ip, udp_len);
        &ip[12..]
    } else {
        write_ipv6(ip, request_ip, udp_len);
        &ip[8..]
    };
    write_udp(udp, addresses, datagram.destination.port(), destination_port, udp_len, payload);
    Ok(payload_offset + payload_len)
}

fn write_ipv4(ip: &mut [u8], request: &[u8], udp_len: u16) {
    ip[0] = 0x45;
    ip[1] = 0;
    ip[2..4].copy_from_slice(&udp_len.saturating_add(IPV4_LEN as u16).to_be_bytes());
    ip[4..6].fill(0);
    ip[6..8].copy_from_slice(&DONT_FRAGMENT.to_be_bytes());
    ip[8] = HOPS;
    ip[9] = PROTOCOL_UDP;
    ip[12..16].copy_from_slice(&request[16..20]);
    ip[16..20].copy_from_slice(&request[12..16]);
    write_ipv4_checksum(ip);
}

fn write_ipv6(ip: &mut [u8], request: &[u8], udp_len: u16) {
    ip[..4].copy_from_slice(&[0x60, 0, 0, 0]);
    ip[4..6].copy_from_slice(&udp_len.to_be_bytes());
    ip[6] = PROTOCOL_UDP;
    ip[7] = HOPS;
    ip[8..24].copy_from_slice(&request[24..IPV6_LEN]);
    ip[24..].copy_from_slice(&request[8..24]);
}

fn write_udp(udp: &mut [u8], addresses: &[u8], from_port: u16, to_port: u16, udp_len: u16, payload: &[u8]) {
    udp[..2].copy_from_slice(&from_port.to_be_bytes());
    udp[2..4].copy_from_slice(&to_port.to_be_bytes());
    udp[4..6].copy_from_slice(&udp_len.to_be_bytes());
    udp[6..].fill(0);
    let sum = pseudo_header(addresses, udp_len).and(Sum::of(udp)).and(Sum::of(payload));
    udp[6..].copy_from_slice(&transmitted(sum).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use etherparse::{NetHeaders, PacketHeaders, TransportHeader};

    use super::*;
    use crate::refusal::ReplyLine;
    use crate::wire::{Services, parse_packet};

    const SEED: Seed = Seed([1, 2, 3, 4]);
    const REQUEST: &[u8] = b"OPTIONS sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP h:5070;branch=z9hG4bK1\r\nFrom: <sip:c@d>;tag=1\r\n\
        To: <sip:a@b>\r\nCall-ID: 1@d\r\nCSeq: 1 OPTIONS\r\nMax-Forwards: 70\r\nContact: <sip:c@192.0.2.9:5070>\r\n\
        User-Agent: some phone of some maker\r\nAccept: application/sdp\r\n\r\n";

    fn request_packet(ipv6: bool, tags: usize) -> (Vec<u8>, Datagram) {
        let ethernet = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 1]);
        let mut packet = Vec::new();
        if ipv6 {
            ethernet.ipv6([0x20; 16], [0x21; 16], 9).udp(6000, 5060).write(&mut packet, REQUEST).unwrap();
        } else {
            let builder = ethernet.ipv4([192, 0, 2, 9], [192, 0, 2, 1], 9).udp(6000, 5060);
            builder.write(&mut packet, REQUEST).unwrap();
        }
        packet.splice(12..12, [0x88, 0xa8, 0x60, 5].repeat(tags));
        let datagram = parse_packet(&packet, &Services::new([(None, 5060)]), 4096).unwrap().0;
        (packet, datagram)
    }

    #[test]
    fn the_reply_packet_is_the_request_turned_around() {
        for (ipv6, tags) in [(false, 0), (false, 2), (true, 0), (true, 1)] {
            let (packet, datagram) = request_packet(ipv6, tags);
            let mut out = [0xee; 2048];
            let reply =
                write_reply_packet(&packet, &datagram, &SEED, ReplyLine::default(), &mut out).unwrap();
            let sent = &out[..reply.len];
            assert!(sent.len() <= packet.len());
            assert_eq!(sent[..12], [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1]);
            assert_eq!(sent[12..datagram.l3_offset], packet[12..datagram.l3_offset]);

            let parsed = PacketHeaders::from_ethernet_slice(sent).unwrap();
            let Some(TransportHeader::Udp(udp)) = &parsed.transport else { panic!("no UDP") };
            assert_eq!((udp.source_port, udp.destination_port), (5060, 5070));
            let payload = parsed.payload.slice();
            let checksum = match &parsed.net {
                Some(NetHeaders::Ipv4(ip, _)) => {
                    assert_eq!((ip.source, ip.destination), ([192, 0, 2, 1], [192, 0, 2, 9]));
                    assert_eq!((ip.time_to_live, ip.dont_fragment), (64, true));
                    assert_eq!(ip.header_checksum, ip.calc_header_checksum());
                    udp.calc_checksum_ipv4(ip, payload).unwrap()
                }
                Some(NetHeaders::Ipv6(ip, _)) => {
                    assert_eq!((ip.source, ip.destination, ip.hop_limit), ([0x21; 16], [0x20; 16], 64));
                    udp.calc_checksum_ipv6(ip, payload).unwrap()
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(udp.checksum, checksum);

            let mut alone = [0; 2048];
            let text =
                write_reply(REQUEST, datagram.source, &SEED, ReplyLine::default(), &mut alone).unwrap();
            assert_eq!(payload, &alone[..text.len]);
            assert_eq!(reply.destination, text.destination);
        }
    }

    #[test]
    fn a_short_buffer_a_group_our_own_address_and_a_foreign_datagram_get_no_reply() {
        let (mut packet, datagram) = request_packet(false, 0);
        let line = ReplyLine::default();
        let whole = write_reply_packet(&packet, &datagram, &SEED, line, &mut [0; 2048]).unwrap();
        for len in 0..whole.len {
            let short = write_reply_packet(&packet, &datagram, &SEED, line, &mut vec![0; len]);
            assert_eq!(short, Err(NoReply::NoRoom), "{len}");
        }
        let mut exact = vec![0; whole.len];
        assert_eq!(write_reply_packet(&packet, &datagram, &SEED, line, &mut exact), Ok(whole));
        for len in 0..packet.len() {
            let cut = write_reply_packet(&packet[..len], &datagram, &SEED, line, &mut [0; 2048]);
            assert_eq!(cut, Err(NoReply::NotARequest), "{len}");
        }
        for (to, reason) in [
            ([192, 0, 2, 9], NoReply::BadSource),
            ([224, 0, 1, 75], NoReply::GroupDestination),
            ([255; 4], NoReply::GroupDestination),
            ([0; 4], NoReply::GroupDestination),
        ] {
            let sent_to = Datagram { destination: (to, 5060).into(), ..datagram };
            let refused = write_reply_packet(&packet, &sent_to, &SEED, line, &mut [0; 2048]);
            assert_eq!(refused, Err(reason), "{to:?}");
            let answered = write_answer_packet(&packet, &sent_to, datagram.source, b"x", &mut [0; 2048]);
            assert_eq!(answered, Err(reason), "{to:?}");
        }
        packet[6] |= 1;
        let group = write_reply_packet(&packet, &datagram, &SEED, line, &mut [0; 2048]);
        assert_eq!(group, Err(NoReply::BadSource));
    }
}
