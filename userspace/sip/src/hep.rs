//! HEP version 3, in which capture agents give packets to collectors (HOMER, sngrep): one datagram for each captured
//! message.
//!
//! By the specification of HEP/EEP (<https://github.com/sipcapture/HEP>), "HEP3": the magic `HEP3`, the length of
//! everything, then chunks of vendor (0: those of the specification), type, length with these six bytes, and value; all
//! numbers in network byte order. The chunks written here are those that the specification wants in every packet of a
//! datagram over IP. Not here: compression, authentication keys, correlation; and whoever sends it
//! (`sipweir::capture`).

use std::net::{IpAddr, SocketAddr};

use crate::wire::PROTOCOL_UDP;

/// Magic and length.
const HEADER_LEN: usize = 6;
/// Vendor, type and length of a chunk.
const CHUNK_LEN: usize = 6;

/// Bytes in front of the payload, at most: those of IPv6.
pub const HEP_OVERHEAD_MAX: usize = 123;

/// Chunk types.
const FAMILY: u16 = 1;
const PROTOCOL: u16 = 2;
const IPV4_SOURCE: u16 = 3;
const IPV4_DESTINATION: u16 = 4;
const IPV6_SOURCE: u16 = 5;
const IPV6_DESTINATION: u16 = 6;
const SOURCE_PORT: u16 = 7;
const DESTINATION_PORT: u16 = 8;
const SECONDS: u16 = 9;
const MICROSECONDS: u16 = 10;
const PROTOCOL_TYPE: u16 = 11;
const AGENT_ID: u16 = 12;
const PAYLOAD: u16 = 15;

/// Address families by the specification, which are Linux's numbers.
const FAMILY_IPV4: u8 = 2;
const FAMILY_IPV6: u8 = 10;
/// The protocol type of SIP.
const SIP: u8 = 1;

/// A message that was seen on its way.
#[derive(Debug, Clone, Copy)]
pub struct Captured<'a> {
    /// Where it came from.
    pub source: SocketAddr,
    /// Where it was going to, of the same family.
    pub destination: SocketAddr,
    /// When, in nanoseconds since 1970.
    pub at_ns: u64,
    /// The number by which the collector knows this agent.
    pub agent_id: u32,
    /// The SIP message, or its beginning.
    pub payload: &'a [u8],
}

/// Writes the datagram for a collector; its length. `None` if `out` or the length field is too short for it, or the
/// addresses are of two families.
#[must_use]
pub fn write_hep(captured: &Captured<'_>, out: &mut [u8]) -> Option<usize> {
    let mut writer = Writer { out, len: HEADER_LEN };
    match (captured.source.ip(), captured.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            writer.ip_header(FAMILY_IPV4)?;
            writer.chunk(IPV4_SOURCE, &source.octets())?;
            writer.chunk(IPV4_DESTINATION, &destination.octets())?;
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            writer.ip_header(FAMILY_IPV6)?;
            writer.chunk(IPV6_SOURCE, &source.octets())?;
            writer.chunk(IPV6_DESTINATION, &destination.octets())?;
        }
        _ => return None,
    }
    writer.chunk(SOURCE_PORT, &captured.source.port().to_be_bytes())?;
    writer.chunk(DESTINATION_PORT, &captured.destination.port().to_be_bytes())?;
    // The format's clock ends in 2106; the second number is below a million.
    let (seconds, microseconds) = (captured.at_ns / 1_000_000_000, captured.at_ns / 1000 % 1_000_000);
    writer.chunk(SECONDS, &(seconds as u32).to_be_bytes())?;
    writer.chunk(MICROSECONDS, &(microseconds as u32).to_be_bytes())?;
    writer.chunk(PROTOCOL_TYPE, &[SIP])?;
    writer.chunk(AGENT_ID, &captured.agent_id.to_be_bytes())?;
    writer.chunk(PAYLOAD, captured.payload)?;
    writer.finish()
}

struct Writer<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl Writer<'_> {
    fn ip_header(&mut self, family: u8) -> Option<()> {
        self.chunk(FAMILY, &[family])?;
        self.chunk(PROTOCOL, &[PROTOCOL_UDP])
    }

    fn chunk(&mut self, kind: u16, value: &[u8]) -> Option<()> {
        let len = u16::try_from(CHUNK_LEN + value.len()).ok()?;
        let end = self.len + usize::from(len);
        let room = self.out.get_mut(self.len..end)?;
        // The vendor.
        room[..2].fill(0);
        room[2..4].copy_from_slice(&kind.to_be_bytes());
        room[4..CHUNK_LEN].copy_from_slice(&len.to_be_bytes());
        room[CHUNK_LEN..].copy_from_slice(value);
        self.len = end;
        Some(())
    }

    fn finish(self) -> Option<usize> {
        let header = self.out.get_mut(..HEADER_LEN)?;
        header[..4].copy_from_slice(b"HEP3");
        header[4..].copy_from_slice(&u16::try_from(self.len).ok()?.to_be_bytes());
        Some(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::{Captured, HEP_OVERHEAD_MAX, write_hep};

    fn captured<'a>(source: &str, destination: &str, payload: &'a [u8]) -> Captured<'a> {
        Captured {
            source: source.parse().expect("address"),
            destination: destination.parse().expect("address"),
            at_ns: 0x6502_0304_u64 * 1_000_000_000 + 0x000a_bcde * 1000 + 999,
            agent_id: 0x0a0b_0c0d,
            payload,
        }
    }

    fn written(captured: &Captured<'_>) -> Vec<u8> {
        let mut out = [0xff; 512];
        let len = write_hep(captured, &mut out).expect("room");
        out[..len].to_vec()
    }

    /// Bytes as a specification shows them.
    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let digit = |digit: u8| char::from(digit).to_digit(16).expect("a digit") as u8;
        digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
    }

    #[test]
    fn an_ipv4_message_is_byte_for_byte_what_the_specification_says() {
        let expected = bytes(
            "48455033 0069
             0000 0001 0007 02
             0000 0002 0007 11
             0000 0003 000a c6336407
             0000 0004 000a c0000201
             0000 0007 0008 13c6
             0000 0008 0008 13c4
             0000 0009 000a 65020304
             0000 000a 000a 000abcde
             0000 000b 0007 01
             0000 000c 000a 0a0b0c0d
             0000 000f 000c 4f4b0d0a0d00",
        );
        assert_eq!(written(&captured("198.51.100.7:5062", "192.0.2.1:5060", b"OK\r\n\r\0")), expected);
    }

    #[test]
    fn an_ipv6_message_is_byte_for_byte_what_the_specification_says() {
        let expected = bytes(
            "48455033 007c
             0000 0001 0007 0a
             0000 0002 0007 11
             0000 0005 0016 20010db8000000000000000000000007
             0000 0006 0016 20010db8000000000000000000000001
             0000 0007 0008 ffff
             0000 0008 0008 13c4
             0000 0009 000a 65020304
             0000 000a 000a 000abcde
             0000 000b 0007 01
             0000 000c 000a 0a0b0c0d
             0000 000f 0007 58",
        );
        let written = written(&captured("[2001:db8::7]:65535", "[2001:db8::1]:5060", b"X"));
        assert_eq!(written, expected);
        assert_eq!(written.len() - 1, HEP_OVERHEAD_MAX);
    }

    #[test]
    fn what_does_not_fit_is_not_written() {
        let payload = vec![b'x'; 65_535];
        let mut out = vec![0; 70_000];
        let of = |len: usize| captured("198.51.100.7:5062", "192.0.2.1:5060", &payload[..len]);
        let most = 65_535 - 99;
        assert_eq!(write_hep(&of(most), &mut out), Some(65_535));
        assert_eq!(write_hep(&of(most + 1), &mut out), None);
        assert_eq!(write_hep(&of(65_535), &mut out), None);
        for room in 0..99 + 10 {
            assert_eq!(write_hep(&of(10), &mut out[..room]), None, "{room}");
        }
        assert_eq!(write_hep(&of(10), &mut out[..109]), Some(109));
        assert_eq!(write_hep(&captured("198.51.100.7:5062", "[::1]:5060", b""), &mut out), None);
    }
}
