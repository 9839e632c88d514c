//! Ethernet, VLAN tags, IPv4, IPv6 and UDP: from a packet to the datagram in it, and to the service it is for.
//!
//! ```text
//! 0            12  14 (18, 22)    34..62        42..70
//! ├ MAC   MAC ┤ tags ├ EtherType ├ IPv4 / IPv6 ├ UDP ├ payload ┤ padding
//!                                ↑ l3_offset          ↑ payload_offset
//! ```
//!
//! The same steps in the same order as in `xdp-prog/parsing.h`; the first that applies decides, and all of
//! them let the packet pass to the kernel, which knows options, fragments and tunnels better. Checksums are
//! not looked at here but in `handoff`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::class::{Class, Reason, SERVICES_MAX};

/// Bytes of an Ethernet header without VLAN tags.
pub(crate) const ETHERNET_LEN: usize = 14;
/// Bytes of one VLAN tag.
pub(crate) const VLAN_TAG_LEN: usize = 4;
/// VLAN tags that are skipped; a packet with more passes to the kernel.
const VLAN_TAGS_MAX: usize = 2;
pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(crate) const ETHERTYPE_IPV6: u16 = 0x86dd;
/// Bytes of an IPv4 header without options.
pub(crate) const IPV4_LEN: usize = 20;
/// Bytes of an IPv6 header.
pub(crate) const IPV6_LEN: usize = 40;
/// Bytes of a UDP header.
pub(crate) const UDP_LEN: usize = 8;
/// UDP's number in IPv4's protocol and IPv6's next header.
pub(crate) const PROTOCOL_UDP: u8 = 17;
/// IPv6's fragment header (RFC 8200 section 4.5).
const NEXT_HEADER_FRAGMENT: u8 = 44;

/// A UDP datagram in a packet. Offsets count from the first byte of the Ethernet header.
///
/// INVARIANT: `payload_offset` is `l3_offset` plus an IP header without options plus the UDP header, and the
/// payload ends within the packet that it was parsed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Of the IP header.
    pub l3_offset: usize,
    /// Of the UDP payload.
    pub payload_offset: usize,
    /// By the UDP header.
    pub payload_len: usize,
    /// Where it comes from.
    pub source: SocketAddr,
    /// Where it goes.
    pub destination: SocketAddr,
}

impl Datagram {
    /// The datagram of a packet which the kernel has parsed already, from what its metadata say; `None` if the
    /// packet is not of that shape.
    #[must_use]
    pub fn at(packet: &[u8], payload_offset: usize, payload_len: usize) -> Option<Self> {
        let l4_offset = payload_offset.checked_sub(UDP_LEN)?;
        let of_len = |len: usize, version: u8| {
            let l3 = l4_offset.checked_sub(len)?;
            (l3 >= ETHERNET_LEN && packet.get(l3)? >> 4 == version).then_some(l3)
        };
        // Without options and extension headers the offset alone tells the families apart (42, 46, 50 from
        // 62, 66, 70); the version nibble is the second opinion.
        let (l3_offset, addresses) = match (of_len(IPV6_LEN, 6), of_len(IPV4_LEN, 4)) {
            (Some(l3), _) if payload_offset >= ETHERNET_LEN + IPV6_LEN + UDP_LEN => {
                (l3, ipv6_addresses(packet, l3)?)
            }
            (_, Some(l3)) => (l3, ipv4_addresses(packet, l3)?),
            _ => return None,
        };
        packet.get(payload_offset..payload_offset.checked_add(payload_len)?)?;
        let source_port = read_u16(packet, l4_offset)?;
        let destination_port = read_u16(packet, l4_offset + 2)?;
        Some(Self {
            l3_offset,
            payload_offset,
            payload_len,
            source: SocketAddr::new(addresses.0, source_port),
            destination: SocketAddr::new(addresses.1, destination_port),
        })
    }

    /// The payload, in the packet that this was parsed from.
    #[must_use]
    pub fn payload<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        packet.get(self.payload_offset..self.end()).unwrap_or(&[])
    }

    /// Offset behind the payload.
    pub(crate) const fn end(&self) -> usize {
        self.payload_offset.saturating_add(self.payload_len)
    }

    /// Offset and length of the IP header; `None` if the invariant does not hold, which is possible because
    /// the fields are public. Who writes into a packet asks here first.
    pub(crate) const fn ip_shape(&self) -> Option<(usize, usize)> {
        if self.l3_offset < ETHERNET_LEN {
            return None;
        }
        match self.payload_offset.checked_sub(self.l3_offset) {
            Some(28) => Some((self.l3_offset, IPV4_LEN)),
            Some(48) => Some((self.l3_offset, IPV6_LEN)),
            _ => None,
        }
    }
}

// `ip_shape` has these sums written out, because patterns cannot add.
const _: () = assert!(IPV4_LEN + UDP_LEN == 28 && IPV6_LEN + UDP_LEN == 48);

/// The local addresses and ports that are guarded, each with its index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Services {
    entries: Vec<(Option<IpAddr>, u16, u8)>,
}

impl Services {
    /// Services in the order of their index; no address means every local address. More than `SERVICES_MAX`
    /// are not taken up.
    #[must_use]
    pub fn new(services: impl IntoIterator<Item = (Option<IpAddr>, u16)>) -> Self {
        let mut entries: Vec<_> = (0u8..)
            .zip(services)
            .take(SERVICES_MAX)
            .map(|(index, (address, port))| (address.map(|address| address.to_canonical()), port, index))
            .collect();
        // An exact address counts more than every address, whatever the order in the configuration.
        entries.sort_by_key(|(address, _, index)| (address.is_none(), *index));
        Self { entries }
    }

    /// The index of the service at a destination.
    #[must_use]
    pub fn find(&self, destination: SocketAddr) -> Option<u8> {
        let matches = |address: &Option<IpAddr>| address.is_none_or(|address| address == destination.ip());
        self.entries
            .iter()
            .find(|(address, port, _)| *port == destination.port() && matches(address))
            .map(|(_, _, index)| *index)
    }
}

/// Finds the datagram of a packet and the index of its service.
///
/// # Errors
///
/// The class and reason of a packet that is none of ours.
pub fn parse_packet(
    packet: &[u8],
    services: &Services,
    max_frame_len: usize,
) -> Result<(Datagram, u8), (Class, Reason)> {
    let (ethertype, l3) = parse_ethernet(packet)?;
    let ip = match ethertype {
        ETHERTYPE_IPV4 => parse_ipv4(packet, l3)?,
        ETHERTYPE_IPV6 => parse_ipv6(packet, l3)?,
        _ => return Err((Class::Foreign, Reason::NotIp)),
    };
    let l4 = ip.l4_offset;
    if l4 + UDP_LEN > ip.end {
        return Err(TRUNCATED);
    }
    let source = SocketAddr::new(ip.source, read_u16(packet, l4).ok_or(TRUNCATED)?);
    let destination = SocketAddr::new(ip.destination, read_u16(packet, l4 + 2).ok_or(TRUNCATED)?);
    let service = services.find(destination).ok_or((Class::Foreign, Reason::NoService))?;
    if is_martian(source.ip()) {
        return Err((Class::Exotic, Reason::SourceMartian));
    }
    let udp_len = usize::from(read_u16(packet, l4 + 4).ok_or(TRUNCATED)?);
    if udp_len < UDP_LEN || l4 + udp_len > ip.end {
        return Err(TRUNCATED);
    }
    if packet.len() > max_frame_len {
        return Err((Class::Oversize, Reason::LargerThanFrame));
    }
    let payload_offset = l4 + UDP_LEN;
    let payload_len = udp_len - UDP_LEN;
    Ok((Datagram { l3_offset: l3, payload_offset, payload_len, source, destination }, service))
}

const TRUNCATED: (Class, Reason) = (Class::Exotic, Reason::Truncated);

/// Source addresses that no other host can have; the stack drops such packets wherever they come from.
///
/// IPv4 (`ip_route_input_slow` in net/ipv4/route.c): 0/8, loopback, multicast, limited broadcast. IPv6 (`ip6_rcv_core` in
/// net/ipv6/ip6_input.c): loopback, multicast, IPv4 in IPv6 clothes; not `::`, which the stack delivers.
fn is_martian(source: IpAddr) -> bool {
    match source {
        IpAddr::V4(v4) => v4.octets()[0] == 0 || v4.is_loopback() || v4.is_multicast() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_multicast() || v6.to_ipv4_mapped().is_some(),
    }
}

/// EtherType and offset of what it names, behind at most two tags.
fn parse_ethernet(packet: &[u8]) -> Result<(u16, usize), (Class, Reason)> {
    if packet.len() < ETHERNET_LEN {
        return Err(TRUNCATED);
    }
    if packet[0] & 1 != 0 {
        return Err((Class::Foreign, Reason::LinkMulticast));
    }
    let mut l3 = ETHERNET_LEN;
    for tags in 0.. {
        let ethertype = read_u16(packet, l3 - 2).ok_or(TRUNCATED)?;
        if !is_vlan_tag(ethertype) {
            return Ok((ethertype, l3));
        }
        if tags == VLAN_TAGS_MAX {
            break;
        }
        l3 += VLAN_TAG_LEN;
    }
    Err((Class::Exotic, Reason::VlanDepth))
}

/// 802.1Q, 802.1ad, and the number that QinQ used before there was a standard.
const fn is_vlan_tag(ethertype: u16) -> bool {
    matches!(ethertype, 0x8100 | 0x88a8 | 0x9100)
}

struct Ip {
    l4_offset: usize,
    /// Offset behind the IP payload; Ethernet padding may follow.
    end: usize,
    source: IpAddr,
    destination: IpAddr,
}

fn parse_ipv4(packet: &[u8], l3: usize) -> Result<Ip, (Class, Reason)> {
    let header = packet.get(l3..l3 + IPV4_LEN).ok_or(TRUNCATED)?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header[0] >> 4 != 4 || header_len < IPV4_LEN || total_len < header_len || l3 + total_len > packet.len()
    {
        return Err(TRUNCATED);
    }
    // More fragments, or an offset; "don't fragment" (0x4000) is neither.
    if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
        return Err((Class::Fragment, Reason::IpFragment));
    }
    if header_len > IPV4_LEN {
        return Err((Class::Exotic, Reason::IpOptions));
    }
    if header[9] != PROTOCOL_UDP {
        return Err((Class::Foreign, Reason::NotUdp));
    }
    let (source, destination) = ipv4_addresses(packet, l3).ok_or(TRUNCATED)?;
    Ok(Ip { l4_offset: l3 + IPV4_LEN, end: l3 + total_len, source, destination })
}

fn parse_ipv6(packet: &[u8], l3: usize) -> Result<Ip, (Class, Reason)> {
    let header = packet.get(l3..l3 + IPV6_LEN).ok_or(TRUNCATED)?;
    if header[0] >> 4 != 6 {
        return Err(TRUNCATED);
    }
    match header[6] {
        PROTOCOL_UDP => {}
        NEXT_HEADER_FRAGMENT => return Err((Class::Fragment, Reason::IpFragment)),
        // Hop-by-hop, routing, destination options, authentication, encapsulation, mobility, HIP, shim6.
        0 | 43 | 60 | 51 | 50 | 135 | 139 | 140 => return Err((Class::Exotic, Reason::Ipv6Extension)),
        _ => return Err((Class::Foreign, Reason::NotUdp)),
    }
    let l4_offset = l3 + IPV6_LEN;
    let end = l4_offset + usize::from(u16::from_be_bytes([header[4], header[5]]));
    if end > packet.len() {
        return Err(TRUNCATED);
    }
    let (source, destination) = ipv6_addresses(packet, l3).ok_or(TRUNCATED)?;
    Ok(Ip { l4_offset, end, source, destination })
}

fn ipv4_addresses(packet: &[u8], l3: usize) -> Option<(IpAddr, IpAddr)> {
    let at = |offset| packet.get(offset..)?.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets).into());
    Some((at(l3 + 12)?, at(l3 + 16)?))
}

fn ipv6_addresses(packet: &[u8], l3: usize) -> Option<(IpAddr, IpAddr)> {
    let at = |offset| packet.get(offset..)?.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets).into());
    Some((at(l3 + 8)?, at(l3 + 24)?))
}

pub(crate) fn read_u16(packet: &[u8], offset: usize) -> Option<u16> {
    packet.get(offset..)?.first_chunk::<2>().map(|bytes| u16::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests;
