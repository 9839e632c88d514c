//! The bytes of socket diagnosis (`linux/sock_diag.h`, `linux/inet_diag.h`), written and read in place.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::UdpSocket;
use crate::netdev::netlink::NLMSG_HEADER_LEN;

pub(super) const AF_INET: u8 = 2;
pub(super) const AF_INET6: u8 = 10;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP: u16 = 0x300;

const IPPROTO_UDP: u8 = 17;

/// The state of a UDP socket that is not connected, `TCP_CLOSE`, as a mask.
const UNCONNECTED: u32 = 1 << 7;

/// Attribute with the socket's memory figures; asked for by its bit.
const INET_DIAG_SKMEMINFO: u16 = 7;
const INET_DIAG_SKV6ONLY: u16 = 11;

// Places in `SKMEMINFO` (`linux/sock_diag.h`), in 32-bit words.
const SK_MEMINFO_RCVBUF: usize = 1;
const SK_MEMINFO_DROPS: usize = 8;

/// Length of `nlmsghdr` and `inet_diag_req_v2`.
const REQUEST_LEN: usize = NLMSG_HEADER_LEN + 56;

/// Length of `inet_diag_msg`, behind which the attributes begin.
const ANSWER_LEN: usize = 72;

/// The question after all sockets of one family on a local port.
pub(super) fn dump_request(sequence: u32, family: u8, port: u16) -> [u8; REQUEST_LEN] {
    let mut request = request(sequence, NLM_F_REQUEST | NLM_F_DUMP, family);
    request[24..26].copy_from_slice(&port.to_be_bytes()); // idiag_sport: in a dump, the local port
    request
}

/// The question after the receiver of a datagram. The local end stands in the *destination* fields here (and only
/// here), as in the datagram; the kernel says "for historical reasons".
pub(super) fn look_up_request(
    sequence: u32,
    local: IpAddr,
    port: u16,
    device: u32,
    source_port: u16,
) -> [u8; REQUEST_LEN] {
    let family = if local.is_ipv4() { AF_INET } else { AF_INET6 };
    let mut request = request(sequence, NLM_F_REQUEST, family);
    request[24..26].copy_from_slice(&source_port.to_be_bytes());
    request[26..28].copy_from_slice(&port.to_be_bytes());
    match local {
        IpAddr::V4(local) => request[44..48].copy_from_slice(&local.octets()),
        IpAddr::V6(local) => request[44..60].copy_from_slice(&local.octets()),
    }
    request[60..64].copy_from_slice(&device.to_ne_bytes());
    request
}

fn request(sequence: u32, flags: u16, family: u8) -> [u8; REQUEST_LEN] {
    let mut request = [0; REQUEST_LEN];
    request[0..4].copy_from_slice(&(REQUEST_LEN as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&flags.to_ne_bytes());
    request[8..12].copy_from_slice(&sequence.to_ne_bytes());
    request[16] = family;
    request[17] = IPPROTO_UDP;
    request[18] = 1 << (INET_DIAG_SKMEMINFO - 1);
    request[20..24].copy_from_slice(&UNCONNECTED.to_ne_bytes());
    request[64..72].fill(0xff); // INET_DIAG_NOCOOKIE: whichever socket it is
    request
}

/// One message of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A socket.
    Socket(UdpSocket),
    /// The end, with the kernel's error number or 0.
    End(i32),
}

/// The messages in what one read returned, each with its sequence number; `None` where the bytes make no sense, and
/// nothing after that.
pub(super) fn messages(bytes: &[u8]) -> impl Iterator<Item = Option<(u32, Message)>> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let bytes = rest.take().filter(|bytes| !bytes.is_empty())?;
        let parsed = first_message(bytes);
        rest = parsed.as_ref().map(|&(len, ..)| bytes.get(len.next_multiple_of(4)..).unwrap_or_default());
        Some(parsed.map(|(_, sequence, message)| (sequence, message)))
    })
}

fn first_message(bytes: &[u8]) -> Option<(usize, u32, Message)> {
    let len = u32_at(bytes, 0)? as usize;
    let sequence = u32_at(bytes, 8)?;
    let body = bytes.get(NLMSG_HEADER_LEN..len)?;
    let message = match u16_at(bytes, 4)? {
        SOCK_DIAG_BY_FAMILY => Message::Socket(socket(body)?),
        NLMSG_ERROR | NLMSG_DONE => Message::End(u32_at(body, 0)?.cast_signed().checked_neg()?),
        _ => return None,
    };
    Some((len, sequence, message))
}

fn socket(body: &[u8]) -> Option<UdpSocket> {
    let ip = match *body.first()? {
        AF_INET => Ipv4Addr::from(*body.get(8..)?.first_chunk()?).into(),
        AF_INET6 => Ipv6Addr::from(*body.get(8..)?.first_chunk()?).into(),
        _ => return None,
    };
    let mut socket = UdpSocket {
        local: SocketAddr::new(ip, u16::from_be_bytes(*body.get(4..)?.first_chunk()?)),
        device: u32_at(body, 40)?,
        v6_only: false,
        queue_bytes: u32_at(body, 56)?,
        queue_limit_bytes: 0,
        drops: 0,
        inode: u32_at(body, 68)?,
        cookie: u64::from(u32_at(body, 44)?) | u64::from(u32_at(body, 48)?) << 32,
    };
    let mut rest = body.get(ANSWER_LEN..)?;
    while !rest.is_empty() {
        let len = u16_at(rest, 0)? as usize;
        let value = rest.get(4..len)?;
        match u16_at(rest, 2)? {
            INET_DIAG_SKMEMINFO => {
                socket.queue_limit_bytes = u32_at(value, 4 * SK_MEMINFO_RCVBUF)?;
                socket.drops = u32_at(value, 4 * SK_MEMINFO_DROPS)?;
            }
            INET_DIAG_SKV6ONLY => socket.v6_only = *value.first()? != 0,
            _ => {}
        }
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(socket)
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}
