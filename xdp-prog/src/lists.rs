//! The lists of sources (`lists.h`): entering networks and taking them out, while the programs run, from any thread.
//!
//! No capability is needed: what is written is reached by open descriptors. Since Linux 5.19 `unprivileged_bpf_disabled` is
//! about making maps and loading programs alone (`__sys_bpf`, kernel/bpf/syscall.c); `tests/lists.rs` tries it.

use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::Error;

/// Which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum List {
    /// Packets of these sources to a service are dropped.
    Deny,
    /// Packets of these are not, whatever the other list says.
    Allow,
}

impl List {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Deny, Self::Allow];

    /// As in commands, metrics and the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Allow => "allow",
        }
    }
}

/// A list's table of one family, and how many networks are in it.
#[derive(Debug)]
struct Table {
    map: MapHandle,
    len: usize,
}

/// Writes the tables of both programs, which share them. The caller knows what is in them.
#[derive(Debug)]
pub struct SourceLists {
    /// [list][family], as `List` and [`family_of`] number them.
    tables: [[Table; 2]; 2],
    /// `denied_families` of `maps.h`.
    families: MapHandle,
    /// What stands there.
    said: u64,
}

/// Bits of `denied_families`.
const FAMILY_BITS: [u64; 2] = [1, 2];

impl SourceLists {
    /// `denied` and `allowed` are the empty tables of IPv4 and IPv6.
    pub(crate) fn new(denied: [MapHandle; 2], allowed: [MapHandle; 2], families: MapHandle) -> Self {
        let table = |map| Table { map, len: 0 };
        Self { tables: [denied.map(table), allowed.map(table)], families, said: 0 }
    }

    /// Enters a network that is not in the list.
    ///
    /// # Errors
    ///
    /// The kernel's: no room ([`crate::Settings::list_room`]), or no memory. Nothing has changed then.
    pub fn enter(&mut self, list: List, network: IpAddr, bits: u8) -> Result<(), Error> {
        let (key, family) = (Key::new(network, bits), family_of(network));
        let table = &mut self.tables[list as usize][family];
        let entered = table.map.update(key.bytes(), &1_u32.to_ne_bytes(), MapFlags::ANY);
        entered.map_err(|error| Error::from_libbpf(format!("entering {network}/{bits}"), &error))?;
        table.len += 1;
        self.say_families()
    }

    /// Takes a network out that is in the list.
    ///
    /// # Errors
    ///
    /// The kernel's; there is no reason for one.
    pub fn remove(&mut self, list: List, network: IpAddr, bits: u8) -> Result<(), Error> {
        let (key, family) = (Key::new(network, bits), family_of(network));
        let table = &mut self.tables[list as usize][family];
        let removed = table.map.delete(key.bytes());
        removed.map_err(|error| Error::from_libbpf(format!("removing {network}/{bits}"), &error))?;
        table.len = table.len.saturating_sub(1);
        self.say_families()
    }

    /// Networks in a list.
    #[must_use]
    pub fn len(&self, list: List) -> usize {
        self.tables[list as usize].iter().map(|table| table.len).sum()
    }

    /// Whether nobody is listed at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        List::ALL.iter().all(|list| self.len(*list) == 0)
    }

    /// Tells the XDP program where it need not look, when that has changed.
    fn say_families(&mut self) -> Result<(), Error> {
        let [denied, _] = &self.tables;
        let bits = FAMILY_BITS.iter().zip(denied).filter(|(_, table)| table.len > 0).map(|(bit, _)| bit);
        let word: u64 = bits.sum();
        if word == self.said {
            return Ok(());
        }
        let said = self.families.update(&0_u32.to_ne_bytes(), &word.to_ne_bytes(), MapFlags::ANY);
        said.map_err(|error| Error::from_libbpf("saying which lists are in use", &error))?;
        self.said = word;
        Ok(())
    }

    /// The tables of the other program, which is to use these.
    pub(crate) fn descriptors(&self) -> [[BorrowedFd<'_>; 2]; 2] {
        self.tables.each_ref().map(|of_list| of_list.each_ref().map(|table| table.map.as_fd()))
    }
}

/// 0 for IPv4, 1 for IPv6.
const fn family_of(network: IpAddr) -> usize {
    match network.to_canonical() {
        IpAddr::V4(_) => 0,
        IpAddr::V6(_) => 1,
    }
}

/// A `struct ipv4_prefix` or `struct ipv6_prefix`.
struct Key {
    buffer: [u8; 20],
    len: usize,
}

impl Key {
    fn new(network: IpAddr, bits: u8) -> Self {
        let mut buffer = [0; 20];
        buffer[..4].copy_from_slice(&u32::from(bits).to_ne_bytes());
        let len = match network.to_canonical() {
            IpAddr::V4(network) => {
                buffer[4..8].copy_from_slice(&network.octets());
                8
            }
            IpAddr::V6(network) => {
                buffer[4..].copy_from_slice(&network.octets());
                20
            }
        };
        Self { buffer, len }
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}
