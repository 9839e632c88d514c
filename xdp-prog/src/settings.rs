//! What the program is told before the verifier sees it: services, keys, limits.
//!
//! [`Settings::check`] refuses what could only be a mistake; the rest of the file turns settings into the bytes of
//! the program's read-only data and of its service table. Nothing here talks to the kernel.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::Error;
use crate::abi::SERVICES_MAX;

/// Bytes; a shorter limit would pass ordinary INVITEs of one Ethernet frame without a look.
pub const FRAME_LEN_MIN: u32 = 256;
/// Bytes; the largest UMEM frame is a page, and the program's hash and scans are bounded by it.
pub const FRAME_LEN_MAX: u32 = 4096;

/// The bits of the transaction hash below a slot's fingerprint choose the bucket (256 MiB).
const TRANSACTION_BUCKETS_MAX: u32 = 1 << 22;

/// A page: less is not mapped.
const SERVED_LINES_MIN: u32 = 128;

/// Ports are a bitmap in the program.
pub(crate) const PORT_WORDS: usize = 65_536 / 64;

/// VLANs are a bitmap, too.
pub(crate) const VLAN_WORDS: usize = 4096 / 64;
/// Ethernet addresses that a host may have on one interface: its own, and those of devices on top of it.
pub const LINK_ADDRESSES_MAX: usize = 8;

/// Words of the transaction hash's key, as in `maps.h`.
pub const HASH_KEY_WORDS: usize = 2 * (FRAME_LEN_MAX as usize / 8 + 10);

/// As in `maps.h`.
pub const EMERGENCY_NUMBERS_MAX: usize = 16;
/// As in `maps.h`.
pub const PROBERS_MAX: usize = 1024;
/// Networks of a family in a list of sources. They take up to 192 bytes each in the kernel.
pub const LIST_ROOM_MAX: u32 = 1 << 22;

const FAMILY_ANY: u16 = 0;
const FAMILY_IPV4: u16 = 4;
const FAMILY_IPV6: u16 = 6;

/// A local address and port that sipweir guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServiceAddress {
    /// The destination address of its packets. `None` is any address that reaches this interface, also one that the
    /// host would only forward: on a router, name the address.
    pub ip: Option<IpAddr>,
    /// The destination port.
    pub port: u16,
    /// Whether an original that the gate sheds is owed a reply: it goes to the ring `reject` instead of nowhere.
    pub reply_owed: bool,
}

/// The secret key of the transaction hash, expanded (`sip::TransactionKey::words`).
#[derive(Clone, PartialEq, Eq)]
pub struct HashKey(pub Box<[u32; HASH_KEY_WORDS]>);

impl std::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashKey(secret)")
    }
}

/// Everything that the program is told before it decides. Some of it can be changed later ([`crate::Classifier::change`]).
#[derive(Clone, Debug)]
pub struct Settings {
    /// Of the transaction hash; equal at nodes that share traffic.
    pub hash_key: HashKey,
    /// The services; their order is their index in gate words and metadata. An exact address wins over any address.
    pub services: Vec<ServiceAddress>,
    /// Bit n: service n is only watched, so the side door leaves its datagrams alone.
    pub monitored: u64,
    /// Bit n: some classes of service n are only watched, so the side door denies nobody: it does not know the class.
    pub monitored_partly: u64,
    /// Bytes of the longest packet that fits into a UMEM frame behind its headroom; longer ones pass to the kernel.
    pub max_frame_len: u32,
    /// Drop what is no SIP instead of passing it.
    pub not_sip_drop: bool,
    /// Ethernet addresses of packets for this host; others pass to the kernel. `None` is any.
    pub link_addresses: Option<Vec<[u8; 6]>>,
    /// VLANs of packets for this host, besides untagged ones; each tag of a packet must be of one. `None` is any.
    pub vlans: Option<BTreeSet<u16>>,
    /// User parts of Request-URIs that make an emergency call: 1 to 7 characters each, from the lowest byte on, and their
    /// count in the highest byte.
    pub emergency_numbers: Vec<u64>,
    /// Networks whose OPTIONS are probes: address and bits.
    pub probers: Vec<(IpAddr, u8)>,
    /// Most networks of each family in each list of sources, denied and allowed.
    pub list_room: u32,
    /// No classes and no gate in the kernel: everything for a service goes to ring `new` (the `fifo` policy).
    pub single_ring: bool,
    /// Buckets of the transaction table, a power of two; one takes 64 bytes and remembers 8 requests. 0: no table, and
    /// copies are known by their marker only.
    pub transaction_buckets: u32,
}

impl Settings {
    /// Settings that leave everything out that can be left out: frames of 2048 bytes, any link, no table, nobody
    /// privileged.
    #[must_use]
    pub const fn new(hash_key: HashKey, services: Vec<ServiceAddress>) -> Self {
        Self {
            hash_key,
            services,
            monitored: 0,
            monitored_partly: 0,
            max_frame_len: 2048,
            not_sip_drop: false,
            link_addresses: None,
            vlans: None,
            emergency_numbers: Vec::new(),
            probers: Vec::new(),
            list_room: 1,
            single_ring: false,
            transaction_buckets: 0,
        }
    }

    /// Lines of the filter of served requests: 32 bytes each, a 32nd of the transaction table, a page at least.
    #[must_use]
    pub const fn served_lines(&self) -> u32 {
        let lines = self.transaction_buckets / 16;
        if lines < SERVED_LINES_MIN { SERVED_LINES_MIN } else { lines }
    }

    /// Whether every service is only watched.
    #[must_use]
    pub fn is_all_monitored(&self) -> bool {
        (0..self.services.len()).all(|number| self.is_monitored(number))
    }

    /// Whether the service with this number is only watched.
    pub(crate) const fn is_monitored(&self, number: usize) -> bool {
        self.monitored >> number & 1 == 1
    }

    /// Refuses what cannot be meant.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`] names the value and its limits.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |what: String| Err(Error::Settings(what));
        if self.services.is_empty() || self.services.len() > SERVICES_MAX {
            return refuse(format!("{} services: 1 to {SERVICES_MAX} are possible", self.services.len()));
        }
        if !(FRAME_LEN_MIN..=FRAME_LEN_MAX).contains(&self.max_frame_len) {
            let len = self.max_frame_len;
            return refuse(format!("max_frame_len {len}: {FRAME_LEN_MIN} to {FRAME_LEN_MAX} are possible"));
        }
        let buckets = self.transaction_buckets;
        if buckets != 0 && (!buckets.is_power_of_two() || buckets > TRANSACTION_BUCKETS_MAX) {
            return refuse(format!(
                "{buckets} buckets of transactions: a power of two up to {TRANSACTION_BUCKETS_MAX}, or 0"
            ));
        }
        if let Some(addresses) = &self.link_addresses
            && !(1..=LINK_ADDRESSES_MAX).contains(&addresses.len())
        {
            let count = addresses.len();
            return refuse(format!(
                "{count} Ethernet addresses: 1 to {LINK_ADDRESSES_MAX} are possible, or any"
            ));
        }
        if let Some(vlan) = self.vlans.iter().flatten().find(|vlan| !(1..=4094).contains(*vlan)) {
            return refuse(format!("VLAN {vlan}: 1 to 4094 are possible"));
        }
        if self.emergency_numbers.len() > EMERGENCY_NUMBERS_MAX {
            let count = self.emergency_numbers.len();
            return refuse(format!("{count} emergency numbers: up to {EMERGENCY_NUMBERS_MAX} are possible"));
        }
        if self.probers.len() > PROBERS_MAX {
            return refuse(format!(
                "{} networks of probers: up to {PROBERS_MAX} are possible",
                self.probers.len()
            ));
        }
        if !(1..=LIST_ROOM_MAX).contains(&self.list_room) {
            return refuse(format!(
                "room for {} networks: 1 to {LIST_ROOM_MAX} are possible",
                self.list_room
            ));
        }
        for (index, service) in self.services.iter().enumerate() {
            if service.port == 0 {
                return refuse(format!("service {index}: port 0 receives nothing"));
            }
            if service.ip.is_some_and(|ip| ip.is_unspecified()) {
                return refuse(format!("service {index}: for any address leave the address out"));
            }
            if self.services[..index].iter().any(|other| service_key(other) == service_key(service)) {
                let at = service.ip.map_or_else(|| "any address".to_owned(), |ip| ip.to_string());
                return refuse(format!("service {index}: {at}, port {} is named twice", service.port));
            }
        }
        Ok(())
    }

    /// One bit a port.
    pub(crate) fn port_bitmap(&self) -> [u64; PORT_WORDS] {
        let mut words = [0; PORT_WORDS];
        for service in &self.services {
            words[usize::from(service.port) / 64] |= 1 << (service.port % 64);
        }
        words
    }

    /// One bit a service.
    pub(crate) fn reply_owed_bits(&self) -> u64 {
        (0..).zip(&self.services).map(|(index, service)| u64::from(service.reply_owed) << index).sum()
    }

    /// The table of addresses, and how many there are; none means any.
    pub(crate) fn link_address_words(&self) -> ([u64; LINK_ADDRESSES_MAX], u8) {
        let mut words = [0; LINK_ADDRESSES_MAX];
        let mut count = 0;
        for (word, address) in words.iter_mut().zip(self.link_addresses.iter().flatten()) {
            let mut bytes = [0; 8];
            bytes[..6].copy_from_slice(address);
            *word = u64::from_ne_bytes(bytes);
            count += 1;
        }
        (words, count)
    }

    /// One bit a VLAN.
    pub(crate) fn vlan_bitmap(&self) -> [u64; VLAN_WORDS] {
        let mut words = [0; VLAN_WORDS];
        for vlan in self.vlans.iter().flatten() {
            words[usize::from(vlan % 4096) / 64] |= 1 << (vlan % 64);
        }
        words
    }

    pub(crate) fn has_exact_v4(&self) -> bool {
        self.services.iter().any(|service| service_key(service).family == FAMILY_IPV4)
    }

    pub(crate) fn has_exact_v6(&self) -> bool {
        self.services.iter().any(|service| service_key(service).family == FAMILY_IPV6)
    }

    pub(crate) fn has_any_address(&self) -> bool {
        self.services.iter().any(|service| service.ip.is_none())
    }
}

/// A key of the table of probers (`struct prober_key` in `maps.h`).
pub(crate) fn prober_key(network: IpAddr, bits: u8) -> [u8; 20] {
    let (octets, bits) = match network.to_canonical() {
        IpAddr::V4(ip) => (ip.to_ipv6_mapped().octets(), 96 + u32::from(bits)),
        IpAddr::V6(ip) => (ip.octets(), u32::from(bits)),
    };
    let mut key = [0; 20];
    key[..4].copy_from_slice(&bits.to_ne_bytes());
    key[4..].copy_from_slice(&octets);
    key
}

/// A key of the service table (`struct service_key` in `maps.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServiceKey {
    address: [u8; 16],
    port: u16,
    family: u16,
}

impl ServiceKey {
    pub(crate) fn bytes(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&self.address);
        bytes[16..18].copy_from_slice(&self.port.to_ne_bytes());
        bytes[18..20].copy_from_slice(&self.family.to_ne_bytes());
        bytes
    }

    /// Its fields `address`, `port` and `family`.
    pub(crate) fn fields(&self) -> ([u64; 2], u16, u16) {
        let words = self.address.as_chunks::<8>().0;
        ([0, 1].map(|at| words.get(at).map_or(0, |word| u64::from_ne_bytes(*word))), self.port, self.family)
    }
}

/// IPv4 addresses in IPv6 clothes are the IPv4 address: that is what arrives on the wire.
pub(crate) fn service_key(service: &ServiceAddress) -> ServiceKey {
    let (address, family) = match service.ip.map(|ip| ip.to_canonical()) {
        None => ([0; 16], FAMILY_ANY),
        Some(IpAddr::V4(ip)) => (ip.to_ipv6_mapped().octets(), FAMILY_IPV4),
        Some(IpAddr::V6(ip)) => (ip.octets(), FAMILY_IPV6),
    };
    ServiceKey { address, port: service.port, family }
}

#[cfg(test)]
mod tests;
