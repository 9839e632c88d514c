//! Making a packet ready for the server: checksum completed, marker removed, new Ethernet header.
//!
//! All of it happens where the packet lies. The marker is near the front of the datagram, so the short part
//! in front of it moves towards the end and no room behind the packet is needed:
//!
//! ```text
//! before  ├ MAC MAC tags type ┤├ IP UDP INVITE … SIP/2.0 ┤ rtx=1 ├ \r\nVia: … ┤ padding
//! after            ├ MAC MAC type ┤├ IP UDP INVITE … SIP/2.0 ┤├ \r\nVia: … ┤
//!                  └────────────────────── the range returned ──────────────┘
//! ```
//!
//! A datagram whose checksum is plainly wrong is refused, never repaired: the server would take damaged bytes
//! for good ones. Not here: whether a packet goes to the server at all.

use std::ops::Range;

use crate::checksum::{Sum, pseudo_header};
use crate::start_line::Marker;
use crate::wire::{Datagram, ETHERNET_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, UDP_LEN};

/// What the UDP checksum field of a packet holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// The checksum of the datagram.
    Right,
    /// Zero, which IPv4 allows (RFC 768) and IPv6 does not.
    Absent,
    /// The sum of the pseudo-header only. Packets of local sockets cross a veth pair like this, because the
    /// kernel leaves the rest to a device that is not there (`CHECKSUM_PARTIAL` in `include/linux/skbuff.h`).
    Partial,
    /// Anything else: the datagram is damaged.
    Wrong,
}

/// Why a packet cannot be handed off. One byte, to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HandoffError {
    /// The IPv4 header's checksum is wrong.
    HeaderChecksum,
    /// The UDP checksum is wrong.
    DatagramChecksum,
    /// The datagram or the marker does not lie within the packet.
    Malformed,
}

impl HandoffError {
    /// The name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HeaderChecksum => "header_checksum",
            Self::DatagramChecksum => "datagram_checksum",
            Self::Malformed => "malformed",
        }
    }
}

impl std::fmt::Display for HandoffError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::HeaderChecksum => "the checksum of the IPv4 header is wrong",
            Self::DatagramChecksum => "the checksum of the UDP datagram is wrong",
            Self::Malformed => "datagram or marker do not lie within the packet",
        })
    }
}

impl std::error::Error for HandoffError {}

/// The sums of a UDP datagram's pieces, each as if it stood alone. With them the checksum with and without
/// the marker follows from one pass over the bytes.
struct Pieces {
    addresses_and_ports: Sum,
    /// Of the two addresses, the protocol and the length as they came.
    pseudo_header: u16,
    front: Sum,
    front_len: usize,
    marker: Sum,
    marker_len: usize,
    back: Sum,
    /// What the checksum field holds.
    field: u16,
    udp_len: u16,
}

impl Pieces {
    /// `part` is an IP header of `ip_len` bytes, the UDP header and the payload; `cut` is the marker's place in
    /// the payload.
    fn of(part: &[u8], ip_len: usize, cut: Range<usize>) -> Option<Self> {
        let (ip, udp) = part.split_at_checked(ip_len)?;
        let (header, payload) = udp.split_first_chunk::<UDP_LEN>()?;
        let [ports @ .., _, _, _, _] = header;
        let udp_len = u16::try_from(udp.len()).ok()?;
        let addresses = addresses_of(ip);
        Some(Self {
            addresses_and_ports: Sum::of(addresses).and(Sum::of(ports)),
            pseudo_header: pseudo_header(addresses, udp_len).folded(),
            front: Sum::of(payload.get(..cut.start)?),
            front_len: cut.start,
            marker: Sum::of(payload.get(cut.clone())?),
            marker_len: cut.len(),
            back: Sum::of(payload.get(cut.end..)?),
            field: u16::from_be_bytes([header[6], header[7]]),
            udp_len,
        })
    }

    /// Addresses, protocol, ports, the length twice (pseudo-header and header), and the front.
    fn head(&self, udp_len: u16) -> Sum {
        pseudo_header(&[], udp_len).and_number(udp_len).and(self.addresses_and_ports).and(self.front)
    }

    fn judge(&self, is_ipv4: bool) -> Checksum {
        let whole = self
            .head(self.udp_len)
            .and_at(self.front_len, self.marker)
            .and_at(self.front_len + self.marker_len, self.back);
        match self.field {
            0 if is_ipv4 => Checksum::Absent,
            0 => Checksum::Wrong,
            field if whole.and_number(field).folded() == 0xffff => Checksum::Right,
            field if field == self.pseudo_header => Checksum::Partial,
            _ => Checksum::Wrong,
        }
    }

    /// The length and the checksum without the marker; an odd one moves the back to the other parity.
    fn without_marker(&self) -> Option<(u16, u16)> {
        let udp_len = self.udp_len.checked_sub(u16::try_from(self.marker_len).ok()?)?;
        let whole = self.head(udp_len).and_at(self.front_len, self.back);
        Some((udp_len, transmitted(whole)))
    }
}

/// The checksum as it is sent: 0 would mean that there is none (RFC 768).
pub(crate) fn transmitted(sum: Sum) -> u16 {
    match sum.checksum() {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// The two addresses of an IP header, side by side.
fn addresses_of(ip: &[u8]) -> &[u8] {
    if ip.len() == IPV4_LEN { &ip[12..] } else { ip.get(8..).unwrap_or(&[]) }
}

/// What the UDP checksum field of a packet holds.
#[must_use]
pub fn verify_udp(packet: &[u8], datagram: &Datagram) -> Checksum {
    let Some((l3, ip_len)) = datagram.ip_shape() else { return Checksum::Wrong };
    packet
        .get(l3..datagram.end())
        .and_then(|part| Pieces::of(part, ip_len, 0..0))
        .map_or(Checksum::Wrong, |pieces| pieces.judge(ip_len == IPV4_LEN))
}

/// Makes a packet ready to be sent to the server and returns where in the buffer it lies now.
///
/// `marker` is that of the datagram, offset counted in it, and is cut out. VLAN tags and whatever followed the
/// datagram are left behind. Addresses, ports and the rest of the IP header stay, so the server sees the
/// peer.
///
/// # Errors
///
/// The packet is then as it was.
pub fn prepare_handoff(
    packet: &mut [u8],
    datagram: &Datagram,
    marker: Option<Marker>,
    destination_mac: [u8; 6],
    source_mac: [u8; 6],
) -> Result<Range<usize>, HandoffError> {
    let (l3, ip_len) = datagram.ip_shape().ok_or(HandoffError::Malformed)?;
    let end = datagram.end();
    let part = packet.get_mut(l3..end).ok_or(HandoffError::Malformed)?;
    let is_ipv4 = ip_len == IPV4_LEN;
    if is_ipv4 && Sum::of(&part[..IPV4_LEN]).folded() != 0xffff {
        return Err(HandoffError::HeaderChecksum);
    }
    let cut = marker.map_or(0..0, |marker| {
        usize::from(marker.offset)..usize::from(marker.offset) + usize::from(marker.len)
    });
    let pieces = Pieces::of(part, ip_len, cut.clone()).ok_or(HandoffError::Malformed)?;
    let judgement = pieces.judge(is_ipv4);
    if judgement == Checksum::Wrong {
        return Err(HandoffError::DatagramChecksum);
    }
    let mut udp_len = pieces.udp_len;
    if !cut.is_empty() || judgement == Checksum::Partial {
        let checksum;
        (udp_len, checksum) = pieces.without_marker().ok_or(HandoffError::Malformed)?;
        part.copy_within(..ip_len + UDP_LEN + cut.start, cut.len());
        let udp = &mut part[cut.len() + ip_len..];
        udp[4..6].copy_from_slice(&udp_len.to_be_bytes());
        if judgement != Checksum::Absent {
            udp[6..8].copy_from_slice(&checksum.to_be_bytes());
        }
    }
    write_ip_len(&mut part[cut.len()..][..ip_len], udp_len);

    let ethernet_offset = l3 + cut.len() - ETHERNET_LEN;
    let ethertype = if is_ipv4 { ETHERTYPE_IPV4 } else { ETHERTYPE_IPV6 };
    let ethernet = &mut packet[ethernet_offset..][..ETHERNET_LEN];
    ethernet[..6].copy_from_slice(&destination_mac);
    ethernet[6..12].copy_from_slice(&source_mac);
    ethernet[12..].copy_from_slice(&ethertype.to_be_bytes());
    Ok(ethernet_offset..end)
}

/// Writes the length into an IP header, if it is another, and for IPv4 the header's checksum. Bytes between
/// the datagram's end and the IP payload's end fall away here too.
fn write_ip_len(ip: &mut [u8], udp_len: u16) {
    if ip.len() == IPV4_LEN {
        let total_len = udp_len.saturating_add(IPV4_LEN as u16).to_be_bytes();
        if ip[2..4] != total_len {
            ip[2..4].copy_from_slice(&total_len);
            write_ipv4_checksum(ip);
        }
    } else {
        ip[4..6].copy_from_slice(&udp_len.to_be_bytes());
    }
}

/// Computes the checksum of an IPv4 header.
pub(crate) fn write_ipv4_checksum(ip: &mut [u8]) {
    ip[10..12].fill(0);
    let checksum = Sum::of(ip).checksum();
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests;
