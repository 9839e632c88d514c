//! The packet around a datagram: IPv4 or IPv6, VLAN tags, padding, and now and then something wrong with it.
//!
//! A [`Shape`] is kept apart from the datagram, so that a finding can be tried again with a shorter one. Checksums are
//! zero: the XDP program does not look at them.

use crate::random::Random;

/// Guarded addresses: services 0 (IPv4) and 1 (IPv6) on [`PORT`], service 2 on any address and [`ANY_PORT`].
pub const SERVICE_V4: [u8; 4] = [192, 0, 2, 10];
/// As [`SERVICE_V4`].
pub const SERVICE_V6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10];
/// Port of the services that owe replies.
pub const PORT: u16 = 5060;
/// Port of the service that owes none.
pub const ANY_PORT: u16 = 5080;

const ETHERNET_LEN: usize = 14;

/// What is wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Cut to this many parts of 256, but never within the Ethernet header, which the kernel refuses to run.
    Cut(u8),
    /// A byte of the headers is another.
    Byte(u8, u8),
    /// The length in the UDP header is off by this.
    UdpLen(i8),
    /// The length in the IP header is off by this.
    IpLen(i8),
}

/// Everything about a packet but its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// VLAN tags, at most three.
    pub tags: u8,
    /// To the service that owes no replies.
    pub to_any: bool,
    /// Last byte of the source address.
    pub source: u8,
    /// Bytes behind the IP packet.
    pub padding: u8,
    /// What is wrong.
    pub damage: Option<Damage>,
}

impl Shape {
    /// The plain one: IPv4 to service 0.
    pub const PLAIN: Self = Self { ipv6: false, tags: 0, to_any: false, source: 7, padding: 0, damage: None };

    /// A shape; seven of eight have nothing wrong.
    #[must_use]
    pub fn random(random: &mut Random) -> Self {
        let off = |random: &mut Random| (random.below(9) as i8) - 4;
        let damage = if random.once_in(8) {
            Some(match random.below(4) {
                0 => Damage::Cut(random.byte()),
                1 => Damage::Byte(random.byte(), random.byte()),
                2 => Damage::UdpLen(off(random)),
                _ => Damage::IpLen(off(random)),
            })
        } else {
            None
        };
        Self {
            ipv6: random.once_in(2),
            tags: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 3][random.below(16)],
            to_any: random.once_in(6),
            source: random.byte(),
            padding: [0, 0, 0, 1, 6, 18][random.below(6)],
            damage,
        }
    }

    /// Writes the packet into `out`, which is emptied first.
    pub fn write(&self, datagram: &[u8], out: &mut Vec<u8>) {
        out.clear();
        out.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
        for tag in 0..self.tags {
            out.extend(if tag == 0 { [0x81, 0] } else { [0x88, 0xa8] });
            out.extend([0, 7]);
        }
        let off_by =
            |len: u16, wanted: bool, by: i8| if wanted { len.wrapping_add_signed(by.into()) } else { len };
        let udp_len = u16::try_from(datagram.len() + 8).unwrap_or(u16::MAX);
        let (ip_off, udp_off) = match self.damage {
            Some(Damage::IpLen(by)) => (by, 0),
            Some(Damage::UdpLen(by)) => (0, by),
            _ => (0, 0),
        };
        if self.ipv6 {
            out.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            out.extend(off_by(udp_len, ip_off != 0, ip_off).to_be_bytes());
            out.extend([17, 64, 0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, self.source]);
            out.extend(SERVICE_V6);
        } else {
            out.extend([8, 0, 0x45, 0]);
            out.extend(off_by(udp_len.saturating_add(20), ip_off != 0, ip_off).to_be_bytes());
            out.extend([0, 1, 0x40, 0, 64, 17, 0, 0, 198, 51, 100, self.source]);
            out.extend(SERVICE_V4);
        }
        out.extend(5060_u16.to_be_bytes());
        out.extend(if self.to_any { ANY_PORT } else { PORT }.to_be_bytes());
        out.extend(off_by(udp_len, udp_off != 0, udp_off).to_be_bytes());
        out.extend([0, 0]);
        let headers_len = out.len();
        out.extend_from_slice(datagram);
        // Bytes that a scan which goes too far would take for the end of a line.
        out.extend(std::iter::repeat_n(b'\n', self.padding.into()));
        match self.damage {
            Some(Damage::Cut(parts)) => {
                let len = out.len() * usize::from(parts) / 256;
                out.truncate(len.max(ETHERNET_LEN));
            }
            Some(Damage::Byte(at, byte)) => out[usize::from(at) % headers_len] = byte,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use sip::{Services, parse_packet};

    use super::*;

    #[test]
    fn a_packet_without_damage_holds_its_datagram_for_its_service() {
        let services = Services::new([
            (Some(SERVICE_V4.into()), PORT),
            (Some(SERVICE_V6.into()), PORT),
            (None, ANY_PORT),
        ]);
        let mut out = Vec::new();
        for index in 0..2000 {
            let shape = Shape { damage: None, ..Shape::random(&mut Random::of(1, index)) };
            shape.write(b"OPTIONS sip:x SIP/2.0\r\n\r\n", &mut out);
            match parse_packet(&out, &services, 2048) {
                Ok((datagram, service)) => {
                    assert!(shape.tags <= 2);
                    assert_eq!(datagram.payload(&out), b"OPTIONS sip:x SIP/2.0\r\n\r\n");
                    let exact = if shape.ipv6 { 1 } else { 0 };
                    assert_eq!(service, if shape.to_any { 2 } else { exact });
                }
                Err(_) => assert_eq!(shape.tags, 3),
            }
        }
    }
}
