//! One SIP request in Ethernet, and where the generator writes what differs from packet to packet.
//!
//! A template has zeroes at its number (Via branch, From tag, Call-ID), in the last two bytes of its source address and
//! in its checksums, and carries the sums of everything else, so that the generator adds what it writes (RFC 1071).
//! Places of the number are at even offsets: there a number adds its 16-bit words as they are.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::ensure;

/// As in `generator.h`.
pub(crate) const FRAME_MAX: usize = 1024;
/// As in `generator.h`.
pub(crate) const NUMBER_PLACES: usize = 3;
/// As in `generator.h`.
const NUMBER_LEN: usize = 8;

/// Stands for the number while the text is made.
const PLACEHOLDER: &str = "@@@@@@@@";
const ETHERNET_LEN: usize = 14;
const UDP_LEN: usize = 8;
const UDP: u8 = 17;

/// From where to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    /// The last byte is the generator's.
    pub(crate) source_mac: [u8; 6],
    pub(crate) destination_mac: [u8; 6],
    /// Sources count from here; the last two bytes are 0.
    pub(crate) source: IpAddr,
    pub(crate) destination: SocketAddr,
}

/// The source port of all requests.
const SOURCE_PORT: u16 = 5060;

/// A kind of request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Behind the version: ` rtx=1`, or nothing.
    pub(crate) marker: String,
    /// Bytes of the frame; the body fills it up.
    pub(crate) frame_len: usize,
}

/// A frame to be, see `struct template` in `generator.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ip_sum: u32,
    pub(crate) udp_sum: u32,
    pub(crate) number_at: [u16; NUMBER_PLACES],
    pub(crate) source_at: u16,
    /// 0 for IPv6.
    pub(crate) ip_checksum_at: u16,
    pub(crate) udp_checksum_at: u16,
}

impl Template {
    /// The template with this index in its stream.
    pub(crate) fn new(index: u8, flow: &Flow, request: &Request) -> anyhow::Result<Self> {
        let ip_len = if flow.source.is_ipv4() { 20 } else { 40 };
        let payload_at = ETHERNET_LEN + ip_len + UDP_LEN;
        let text = text(flow, request, payload_at)?;

        let mut bytes = flow.destination_mac.to_vec();
        bytes.extend(&flow.source_mac[..5]);
        bytes.push(index + 1);
        let udp_len = u16::try_from(UDP_LEN + text.len())?;
        match (flow.source, flow.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                bytes.extend(ipv4_header(source, destination, udp_len));
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                bytes.extend(ipv6_header(source, destination, udp_len));
            }
            (source, destination) => anyhow::bail!("{source} and {destination} are of two families"),
        }
        for word in [SOURCE_PORT, flow.destination.port(), udp_len, 0] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(text.as_bytes());

        let mut number_at = [0; NUMBER_PLACES];
        let mut found = text.match_indices(PLACEHOLDER);
        for place in &mut number_at {
            let at = payload_at + found.next().map_or(0, |(at, _)| at);
            ensure!(at.is_multiple_of(2), "the number at {at} is at an odd offset");
            bytes[at..at + NUMBER_LEN].fill(0);
            *place = u16::try_from(at)?;
        }
        let ip = &bytes[ETHERNET_LEN..payload_at - UDP_LEN];
        let addresses = if flow.source.is_ipv4() { &ip[12..] } else { &ip[8..] };
        let udp = &bytes[payload_at - UDP_LEN..];
        let (ip_sum, source_at, ip_checksum_at) = match flow.source {
            IpAddr::V4(_) => (sum(ip), ETHERNET_LEN + 14, ETHERNET_LEN + 10),
            IpAddr::V6(_) => (0, ETHERNET_LEN + 22, 0),
        };
        Ok(Self {
            ip_sum,
            udp_sum: sum(addresses) + sum(&[0, UDP]) + sum(&udp_len.to_be_bytes()) + sum(udp),
            number_at,
            source_at: u16::try_from(source_at)?,
            ip_checksum_at: u16::try_from(ip_checksum_at)?,
            udp_checksum_at: u16::try_from(payload_at - 2)?,
            bytes,
        })
    }
}

/// The request with placeholders, exactly as long as the frame has room for.
fn text(flow: &Flow, request: &Request, payload_at: usize) -> anyhow::Result<String> {
    let Request { method, marker, frame_len } = request;
    ensure!(*frame_len < FRAME_MAX, "frame_len {frame_len}: at most {} are possible", FRAME_MAX - 1);
    let host = SocketAddr::new(flow.source, SOURCE_PORT);
    let mut head = format!(
        "{method} sip:bob@example.com SIP/2.0{marker}\r\nVia: SIP/2.0/UDP {host};rport;branch=z9hG4bK"
    );
    let with_number = |head: &mut String| {
        // The payload starts at an even offset.
        if !head.len().is_multiple_of(2) {
            head.push('x');
        }
        head.push_str(PLACEHOLDER);
    };
    with_number(&mut head);
    head.push_str("\r\nMax-Forwards: 70\r\nFrom: <sip:alice@example.net>;tag=");
    with_number(&mut head);
    head.push_str("\r\nTo: <sip:bob@example.com>\r\nCall-ID: ");
    with_number(&mut head);
    head.push_str(&format!(
        "@example.net\r\nCSeq: 1 {method}\r\nContact: <sip:alice@{host}>\r\nContent-Type: text/plain\r\nContent-Length: "
    ));
    // Three digits, and the empty line.
    let body = frame_len.checked_sub(payload_at + head.len() + 3 + 4);
    let least = payload_at + head.len() + 3 + 4;
    let Some(body) = body else {
        anyhow::bail!("frame_len {frame_len}: this request needs at least {least}")
    };
    Ok(format!("{head}{body:03}\r\n\r\n{}", "v".repeat(body)))
}

fn ipv4_header(source: Ipv4Addr, destination: Ipv4Addr, udp_len: u16) -> Vec<u8> {
    let total_len = (20 + udp_len).to_be_bytes();
    let mut header = vec![0x08, 0x00, 0x45, 0, total_len[0], total_len[1], 0, 0, 0x40, 0, 64, UDP, 0, 0];
    header.extend(source.octets());
    header.extend(destination.octets());
    header
}

fn ipv6_header(source: Ipv6Addr, destination: Ipv6Addr, udp_len: u16) -> Vec<u8> {
    let len = udp_len.to_be_bytes();
    let mut header = vec![0x86, 0xdd, 0x60, 0, 0, 0, len[0], len[1], UDP, 64];
    header.extend(source.octets());
    header.extend(destination.octets());
    header
}

/// The sum of the 16-bit words as they lie in memory; an odd byte at the end is followed by a zero.
fn sum(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<2>();
    let rest = rest.first().map_or(0, |byte| u16::from_ne_bytes([*byte, 0]));
    words.iter().map(|word| u32::from(u16::from_ne_bytes(*word))).sum::<u32>() + u32::from(rest)
}
