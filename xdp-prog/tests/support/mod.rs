//! What the tests of this crate share: a packet builder whose default is the good packet, a loaded classifier, and
//! the classes by name. Needs root (CAP_BPF, CAP_NET_ADMIN).

#![allow(dead_code, reason = "each test binary uses its part")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sip::class::{Class, Reason, Verdict};
use sip::{Seed, TransactionKey};
use xdp_prog::{Classifier, HashKey, ServiceAddress, Settings, TestRun};

/// The guarded address and port of the default settings.
pub(crate) const SERVICE_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
/// The same for IPv6.
pub(crate) const SERVICE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10);
/// Service 0 and 1 are the addresses above on this port.
pub(crate) const PORT: u16 = 5060;
/// Service 2 is any address on this port, and owes no replies.
pub(crate) const ANY_PORT: u16 = 5080;
/// Where packets come from.
pub(crate) const CALLER_V4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
/// The same for IPv6.
pub(crate) const CALLER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 7);

/// Seed of the tests.
const SEED: [u64; 4] =
    [0x0f1e_2d3c_4b5a_6978, 0x8796_a5b4_c3d2_e1f0, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];

/// The key of the transaction hash that belongs to it.
pub(crate) fn key() -> TransactionKey {
    TransactionKey::new(&Seed(SEED))
}

/// Settings of most tests.
pub(crate) fn settings() -> Settings {
    let service = |ip, port, reply_owed| ServiceAddress { ip, port, reply_owed };
    Settings::new(
        HashKey(Box::new(*key().words())),
        vec![
            service(Some(IpAddr::V4(SERVICE_V4)), PORT, true),
            service(Some(IpAddr::V6(SERVICE_V6)), PORT, true),
            service(None, ANY_PORT, false),
        ],
    )
}

/// A classifier with those settings.
pub(crate) fn classifier() -> Classifier {
    load(&settings())
}

/// A classifier with any settings; the tests of the program need root.
pub(crate) fn load(settings: &Settings) -> Classifier {
    Classifier::load(settings)
        .unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)))
}

/// The good INVITE.
pub(crate) const INVITE: &[u8] = b"INVITE sip:bob@example.com SIP/2.0\r\n\
Via: SIP/2.0/UDP 198.51.100.7:5060;branch=z9hG4bK776asdhds\r\n\
Max-Forwards: 70\r\n\
To: Bob <sip:bob@example.com>\r\n\
From: Alice <sip:alice@example.net>;tag=1928301774\r\n\
Call-ID: a84b4c76e66710@pc33.example.net\r\n\
CSeq: 314159 INVITE\r\n\
Contact: <sip:alice@198.51.100.7>\r\n\
Content-Type: application/sdp\r\n\
Content-Length: 0\r\n\
\r\n";

/// Network header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ip {
    V4,
    V6,
}

/// A packet to be. The default is a good one, and a test changes what it is about.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) destination_mac: [u8; 6],
    /// EtherTypes of tags in front, outermost first.
    pub(crate) tags: Vec<u16>,
    /// EtherType behind the tags; `None` follows `ip`.
    pub(crate) ethertype: Option<u16>,
    pub(crate) ip: Ip,
    pub(crate) source_v4: Ipv4Addr,
    pub(crate) destination_v4: Ipv4Addr,
    pub(crate) source_v6: Ipv6Addr,
    pub(crate) destination_v6: Ipv6Addr,
    /// First byte of the IPv4 or IPv6 header.
    pub(crate) version_byte: Option<u8>,
    /// IPv4 options, a multiple of four bytes.
    pub(crate) options: Vec<u8>,
    /// Flags and offset of IPv4.
    pub(crate) fragment: u16,
    pub(crate) protocol: u8,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    /// Length fields if they are not to be right.
    pub(crate) ip_len: Option<u16>,
    pub(crate) udp_len: Option<u16>,
    pub(crate) datagram: Vec<u8>,
    /// Ethernet padding behind the IP packet.
    pub(crate) padding: Vec<u8>,
}

impl Default for Packet {
    fn default() -> Self {
        Self {
            destination_mac: [2, 0, 0, 0, 0, 1],
            tags: vec![],
            ethertype: None,
            ip: Ip::V4,
            source_v4: CALLER_V4,
            destination_v4: SERVICE_V4,
            source_v6: CALLER_V6,
            destination_v6: SERVICE_V6,
            version_byte: None,
            options: vec![],
            fragment: 0x4000,
            protocol: 17,
            source_port: 5060,
            destination_port: PORT,
            ip_len: None,
            udp_len: None,
            datagram: INVITE.to_vec(),
            padding: vec![],
        }
    }
}

impl Packet {
    /// The good packet with another datagram.
    pub(crate) fn with(datagram: impl Into<Vec<u8>>) -> Self {
        Self { datagram: datagram.into(), ..Self::default() }
    }

    /// The same over IPv6.
    pub(crate) fn v6() -> Self {
        Self { ip: Ip::V6, ..Self::default() }
    }

    /// Its source address.
    pub(crate) fn source(&self) -> IpAddr {
        match self.ip {
            Ip::V4 => IpAddr::V4(self.source_v4),
            Ip::V6 => IpAddr::V6(self.source_v6),
        }
    }

    /// Bytes in front of the datagram.
    pub(crate) fn headers_len(&self) -> usize {
        let ip_len = match self.ip {
            Ip::V4 => 20 + self.options.len(),
            Ip::V6 => 40,
        };
        14 + 4 * self.tags.len() + ip_len + 8
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.destination_mac.to_vec();
        bytes.extend([2, 0, 0, 0, 0, 2]);
        for &tag in &self.tags {
            bytes.extend(tag.to_be_bytes());
            bytes.extend([0, 7]);
        }
        let by_ip = if self.ip == Ip::V4 { 0x0800 } else { 0x86dd };
        bytes.extend(self.ethertype.unwrap_or(by_ip).to_be_bytes());
        let udp_len = 8 + len_u16(&self.datagram);
        let options_len = len_u16(&self.options);
        match self.ip {
            Ip::V4 => {
                let ihl = u8::try_from(5 + options_len / 4).expect("at most ten words of options");
                bytes.extend([self.version_byte.unwrap_or(0x40 | ihl), 0]);
                bytes.extend(self.ip_len.unwrap_or(20 + options_len + udp_len).to_be_bytes());
                bytes.extend([0x12, 0x34]);
                bytes.extend(self.fragment.to_be_bytes());
                bytes.extend([64, self.protocol, 0, 0]);
                bytes.extend(self.source_v4.octets());
                bytes.extend(self.destination_v4.octets());
                bytes.extend(&self.options);
            }
            Ip::V6 => {
                bytes.extend([self.version_byte.unwrap_or(0x60), 0, 0, 0]);
                bytes.extend(self.ip_len.unwrap_or(udp_len).to_be_bytes());
                bytes.extend([self.protocol, 64]);
                bytes.extend(self.source_v6.octets());
                bytes.extend(self.destination_v6.octets());
            }
        }
        bytes.extend(self.source_port.to_be_bytes());
        bytes.extend(self.destination_port.to_be_bytes());
        bytes.extend(self.udp_len.unwrap_or(udp_len).to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(&self.datagram);
        bytes.extend(&self.padding);
        bytes
    }
}

fn len_u16(bytes: &[u8]) -> u16 {
    u16::try_from(bytes.len()).expect("fits a packet")
}

/// Class, reason and verdict by name.
pub(crate) type Decision = (Class, Reason, Verdict);

/// The decision of a run by name.
pub(crate) fn decision(run: &TestRun) -> Decision {
    (
        Class::from_u8(run.class).expect("a known class"),
        Reason::from_u8(run.reason).expect("a known reason"),
        Verdict::from_u8(run.verdict).expect("a known verdict"),
    )
}

/// The decision on a packet.
pub(crate) fn decide(classifier: &Classifier, packet: &Packet) -> Decision {
    decision(&classifier.test_run(&packet.bytes()).expect("a test run"))
}

/// A gate word.
pub(crate) fn gate(state: u64, share: u32) -> u64 {
    state << 32 | u64::from(share)
}

/// States of a gate.
pub(crate) const OVERLOAD: u64 = 1;
/// Nothing new is admitted.
pub(crate) const DISCARD: u64 = 2;

/// Sets the gate of every service at queue 0.
pub(crate) fn set_gates(classifier: &mut Classifier, word: u64) {
    for service in 0..3 {
        classifier.publish_gate(service, 0, word).expect("inside of the table");
    }
}

/// A small generator of reproducible numbers (splitmix64).
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit.max(1)).expect("64 bits")).expect("below a usize")
    }

    /// One of several.
    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}
