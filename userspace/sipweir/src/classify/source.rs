//! Where the packets come from: one datagram a file, or captures.

use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};
use thiserror::Error;

/// Room for one block of a capture; a packet has at most 64 KiB.
const BLOCK_BYTES_MAX: usize = 1 << 18;
/// Largest UDP payload.
const DATAGRAM_BYTES_MAX: u64 = 65_507;

/// Why a file cannot be classified.
#[derive(Debug, Error)]
pub(super) enum SourceError {
    #[error("cannot read it: {0}")]
    Read(#[from] std::io::Error),
    #[error("it is no capture (pcap or pcapng) and does not end in .sip, .dat or .txt")]
    NoCapture,
    #[error("it is longer than a datagram can be ({DATAGRAM_BYTES_MAX} bytes)")]
    TooLong,
    #[error("the capture is damaged after packet {0}")]
    Damaged(usize),
    #[error(
        "the capture has link type {0}; only Ethernet (1) is understood: capture on the interface, not on \"any\""
    )]
    LinkType(i32),
}

/// A packet of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recorded<'a> {
    /// Counted within the file.
    pub(super) index: usize,
    /// When it was captured, nanoseconds since 1970; a file with one datagram does not say.
    pub(super) at_ns: Option<u64>,
    /// From the Ethernet header on.
    pub(super) packet: &'a [u8],
}

/// Calls `each` for everything in the file.
pub(super) fn packets(
    file: &Path,
    endpoints: &[(Option<IpAddr>, u16)],
    each: &mut dyn FnMut(Recorded<'_>),
) -> Result<(), SourceError> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("sip" | "dat" | "txt") => {
            let mut datagram = Vec::new();
            File::open(file)?.take(DATAGRAM_BYTES_MAX + 1).read_to_end(&mut datagram)?;
            if datagram.len() as u64 > DATAGRAM_BYTES_MAX {
                return Err(SourceError::TooLong);
            }
            let packet = wrap(&datagram, endpoints.first().copied());
            each(Recorded { index: 0, at_ns: None, packet: &packet });
            Ok(())
        }
        _ => capture(file, each),
    }
}

/// Puts a datagram into an Ethernet/IPv4/UDP packet from a documentation address to the first service.
fn wrap(datagram: &[u8], endpoint: Option<(Option<IpAddr>, u16)>) -> Vec<u8> {
    const SOURCE: (Ipv4Addr, u16) = (Ipv4Addr::new(198, 51, 100, 1), 5060);
    let (address, port) = endpoint.unwrap_or((None, 5060));
    let destination = address.unwrap_or(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)));
    build_packet((IpAddr::V4(SOURCE.0), SOURCE.1), (destination, port), datagram)
}

/// Ethernet, IPv4 or IPv6, UDP; both addresses are of one family after mapping.
fn build_packet(source: (IpAddr, u16), destination: (IpAddr, u16), datagram: &[u8]) -> Vec<u8> {
    let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    // Neither classifier looks at checksums, so none are made. Lengths fit: a datagram is bounded.
    let udp_len = (8 + datagram.len()) as u16;
    match (source.0, destination.0) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            packet.extend([0x08, 0x00, 0x45, 0]);
            packet.extend((20 + udp_len).to_be_bytes());
            packet.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
            packet.extend(from.octets());
            packet.extend(to.octets());
        }
        (from, to) => {
            let v6 = |address: IpAddr| match address {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            packet.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            packet.extend(udp_len.to_be_bytes());
            packet.extend([17, 64]);
            packet.extend(v6(from).octets());
            packet.extend(v6(to).octets());
        }
    }
    packet.extend(source.1.to_be_bytes());
    packet.extend(destination.1.to_be_bytes());
    packet.extend(udp_len.to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(datagram);
    packet
}

/// An interface of a capture: its link type, and ticks of its clock in a second.
struct Interface {
    link_type: Linktype,
    ticks_per_s: u64,
}

impl Interface {
    fn time_ns(&self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_s.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

fn capture(file: &Path, each: &mut dyn FnMut(Recorded<'_>)) -> Result<(), SourceError> {
    let mut reader = match create_reader(BLOCK_BYTES_MAX, File::open(file)?) {
        Ok(reader) => reader,
        Err(_) => return Err(SourceError::NoCapture),
    };
    let mut interfaces = Vec::new();
    let mut index = 0;
    loop {
        match reader.next() {
            Ok((consumed, block)) => {
                let packet = match &block {
                    PcapBlockOwned::LegacyHeader(header) => {
                        let ticks_per_s =
                            if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
                        interfaces = vec![Interface { link_type: header.network, ticks_per_s }];
                        None
                    }
                    PcapBlockOwned::Legacy(packet) => {
                        let ticks_per_s = interfaces.first().map_or(1, |interface| interface.ticks_per_s);
                        let ticks = u64::from(packet.ts_sec) * ticks_per_s + u64::from(packet.ts_usec);
                        Some((0, packet.data, packet.caplen, Some(ticks)))
                    }
                    PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                        interfaces.clear();
                        None
                    }
                    PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                        interfaces.push(Interface {
                            link_type: interface.linktype,
                            ticks_per_s: interface.ts_resolution().unwrap_or(1_000_000),
                        });
                        None
                    }
                    PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                        let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                        Some((packet.if_id as usize, packet.data, packet.caplen, Some(ticks)))
                    }
                    PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                        Some((0, packet.data, packet.origlen.min(packet.data.len() as u32), None))
                    }
                    PcapBlockOwned::NG(_) => None,
                };
                if let Some((interface, data, captured, ticks)) = packet {
                    let interface = interfaces.get(interface).ok_or(SourceError::Damaged(index))?;
                    if interface.link_type != Linktype::ETHERNET {
                        return Err(SourceError::LinkType(interface.link_type.0));
                    }
                    let packet = data.get(..captured as usize).ok_or(SourceError::Damaged(index))?;
                    each(Recorded { index, at_ns: ticks.map(|ticks| interface.time_ns(ticks)), packet });
                    index += 1;
                }
                reader.consume(consumed);
            }
            Err(PcapError::Eof) => return Ok(()),
            Err(PcapError::Incomplete(_)) => {
                if reader.reader_exhausted() || reader.refill().is_err() {
                    return Err(SourceError::Damaged(index));
                }
            }
            Err(_) => return Err(SourceError::Damaged(index)),
        }
    }
}
