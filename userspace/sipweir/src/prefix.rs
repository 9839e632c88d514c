//! Networks by prefix, and a table in which the longest one that holds an address wins.
//!
//! Built once from the configuration; a look-up allocates nothing. Not here: what the values mean.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer};
use serde::{Serialize, Serializer};

/// A network, as `"10.0.0.0/8"`, `"2001:db8::/32"`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    network: IpAddr,
    len: u8,
}

/// An address at the upper end of 128 bits, whatever its family, and the bits of the family.
const fn bits_of(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(v4) => ((v4.to_bits() as u128) << 96, 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    }
}

/// The upper `len` bits.
const fn mask_of(len: u8) -> u128 {
    if len == 0 { 0 } else { !0 << (128 - len as u32) }
}

impl Prefix {
    /// Its first address.
    #[must_use]
    pub const fn network(self) -> IpAddr {
        self.network
    }

    /// The network of its first `len` bits; itself if it has no more.
    #[must_use]
    pub const fn cut(self, len: u8) -> Self {
        if len >= self.len {
            return self;
        }
        let network = match self.network {
            // Of the upper 32 bits.
            IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & (mask_of(len) >> 96) as u32)),
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask_of(len))),
        };
        Self { network, len }
    }

    /// Its length.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.len
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is no network such as \"10.0.0.0/8\", \"2001:db8::/32\" or \"192.0.2.1\"");
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len.parse::<u8>().map_err(|_parse| wrong())?)),
            None => (text, None),
        };
        let network: IpAddr = address.parse().map_err(|_parse| wrong())?;
        if network.to_canonical() != network {
            return Err(format!("{text:?}: write it as the IPv4 network that it is"));
        }
        let (bits, len_max) = bits_of(network);
        let len = len.unwrap_or(len_max);
        if len > len_max {
            return Err(wrong());
        }
        if bits & !mask_of(len) != 0 {
            return Err(format!("{text:?} has bits set behind the first {len}; is the length right?"));
        }
        Ok(Self { network, len })
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.len)
    }
}

/// The prefixes of one length.
#[derive(Debug, Clone)]
struct Group<T> {
    mask: u128,
    /// Sorted by network.
    networks: Vec<(u128, T)>,
}

/// Values by prefix.
#[derive(Debug, Clone)]
pub struct PrefixTable<T> {
    /// For each family the groups, the longest prefix first.
    ipv4: Vec<Group<T>>,
    ipv6: Vec<Group<T>>,
}

impl<T: Copy> PrefixTable<T> {
    /// A table of these; of two values for one prefix the later counts.
    #[must_use]
    pub fn new(entries: impl IntoIterator<Item = (Prefix, T)>) -> Self {
        let mut table = Self { ipv4: Vec::new(), ipv6: Vec::new() };
        for (prefix, value) in entries {
            let groups = if prefix.network.is_ipv4() { &mut table.ipv4 } else { &mut table.ipv6 };
            let mask = mask_of(prefix.len);
            // Longer masks are larger numbers.
            let group = match groups.binary_search_by(|group| mask.cmp(&group.mask)) {
                Ok(found) => found,
                Err(place) => {
                    groups.insert(place, Group { mask, networks: Vec::new() });
                    place
                }
            };
            let networks = &mut groups[group].networks;
            let bits = bits_of(prefix.network).0;
            match networks.binary_search_by_key(&bits, |(network, _)| *network) {
                Ok(found) => networks[found].1 = value,
                Err(place) => networks.insert(place, (bits, value)),
            }
        }
        table
    }

    /// The value of the longest prefix that holds the address.
    #[must_use]
    pub fn find(&self, address: IpAddr) -> Option<T> {
        let address = address.to_canonical();
        let bits = bits_of(address).0;
        let groups = if address.is_ipv4() { &self.ipv4 } else { &self.ipv6 };
        groups.iter().find_map(|group| {
            let found = group.networks.binary_search_by_key(&(bits & group.mask), |(network, _)| *network);
            found.ok().map(|index| group.networks[index].1)
        })
    }

    /// All values, in no order that means anything.
    pub fn values(&self) -> impl Iterator<Item = T> {
        self.ipv4.iter().chain(&self.ipv6).flat_map(|group| group.networks.iter().map(|(_, value)| *value))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{Prefix, PrefixTable, bits_of, mask_of};

    fn table(entries: &[(&str, u16)]) -> PrefixTable<u16> {
        PrefixTable::new(entries.iter().map(|(text, value)| (text.parse().expect(text), *value)))
    }

    #[test]
    fn the_longest_prefix_wins_whatever_the_order() {
        let mut entries = [("10.0.0.0/8", 1), ("10.1.0.0/16", 2), ("10.1.2.3", 3), ("0.0.0.0/0", 4)];
        for _ in 0..entries.len() {
            entries.rotate_left(1);
            let table = table(&entries);
            let find = |text: &str| table.find(text.parse().expect(text));
            assert_eq!(find("10.1.2.3"), Some(3));
            assert_eq!(find("10.1.2.4"), Some(2));
            assert_eq!(find("10.2.2.3"), Some(1));
            assert_eq!(find("11.2.2.3"), Some(4));
            assert_eq!(find("::ffff:10.2.2.3"), Some(1), "the same address");
            assert_eq!(find("::a00:1"), None, "another family");
            assert_eq!(table.values().count(), 4);
        }
    }

    #[test]
    fn ipv6_prefixes_hold_ipv6_addresses_only() {
        let table = table(&[("::/0", 1), ("2001:db8::/32", 2), ("2001:db8::7", 3)]);
        let find = |text: &str| table.find(text.parse().expect(text));
        assert_eq!(find("2001:db8::7"), Some(3));
        assert_eq!(find("2001:db8::8"), Some(2));
        assert_eq!(find("fe80::1"), Some(1));
        assert_eq!(find("192.0.2.1"), None);
    }

    #[test]
    fn what_is_no_network_is_refused_with_a_reason() {
        for text in
            ["", "10.0.0.0/33", "10.0.0.0/-1", "ten/8", "10.0.0.0/8/8", "::/129", "10.0.0.0/", "[::1]"]
        {
            let error = text.parse::<Prefix>().expect_err(text);
            assert!(error.contains("no network"), "{error}");
        }
        assert!("10.1.0.0/8".parse::<Prefix>().expect_err("bits").contains("behind the first 8"));
        assert!("::ffff:10.0.0.0/104".parse::<Prefix>().expect_err("mapped").contains("IPv4"));
        assert_eq!("2001:db8::/32".parse::<Prefix>().expect("prefix").to_string(), "2001:db8::/32");
        assert_eq!("192.0.2.1".parse::<Prefix>().expect("prefix").to_string(), "192.0.2.1/32");
    }

    proptest! {
        /// Against a walk over all prefixes. Few bits vary, so that prefixes hold each other and the addresses.
        #[test]
        fn a_look_up_finds_what_a_walk_over_all_finds(
            prefixes in proptest::collection::vec((any::<bool>(), 0_u8..=16, any::<u16>()), 0..30),
            addresses in proptest::collection::vec((any::<bool>(), any::<u16>()), 1..30),
        ) {
            let address = |v6: bool, high: u16| if v6 {
                IpAddr::V6(Ipv6Addr::from_bits(u128::from(high) << 112 | 1 << 50))
            } else {
                IpAddr::V4(Ipv4Addr::from_bits(u32::from(high) << 16 | 1))
            };
            let entries: Vec<(Prefix, usize)> = prefixes.iter().enumerate().map(|(value, (v6, len, high))| {
                let network = u128::from(*high) << 112 & mask_of(*len);
                let network = if *v6 {
                    IpAddr::V6(Ipv6Addr::from_bits(network))
                } else {
                    // The upper 32 bits, so it fits.
                    IpAddr::V4(Ipv4Addr::from_bits((network >> 96) as u32))
                };
                (Prefix { network, len: *len }, value)
            }).collect();
            let table = PrefixTable::new(entries.iter().copied());
            for (v6, high) in addresses {
                let address = address(v6, high);
                let holds = |prefix: &Prefix| {
                    prefix.network.is_ipv4() == address.is_ipv4()
                        && bits_of(address).0 & mask_of(prefix.len) == bits_of(prefix.network).0
                };
                let walked = entries.iter().filter(|(prefix, _)| holds(prefix))
                    .max_by_key(|(prefix, value)| (prefix.len, *value)).map(|(_, value)| *value);
                prop_assert_eq!(table.find(address), walked);
            }
        }
    }
}
