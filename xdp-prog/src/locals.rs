//! The table of the host's own addresses that each program has a copy of (`locals.h`): what is in it, and the steps to
//! what shall be.

use std::collections::BTreeSet;
use std::net::IpAddr;

use libbpf_rs::{MapCore, MapFlags};

use crate::Error;
use crate::abi::LOCALS_MAX;

/// What was entered into the table of one program.
#[derive(Debug, Default)]
pub(crate) struct Locals(BTreeSet<IpAddr>);

impl Locals {
    /// Makes `table` hold these addresses and no others. After an error the next call tries again.
    pub(crate) fn set(&mut self, table: &impl MapCore, addresses: BTreeSet<IpAddr>) -> Result<(), Error> {
        if addresses.len() > LOCALS_MAX {
            let (index, limit) = (addresses.len(), LOCALS_MAX);
            return Err(Error::OutOfTable { what: "local address number", index, limit });
        }
        let failed = |error: libbpf_rs::Error| Error::from_libbpf("entering the host's addresses", &error);
        for gone in self.0.difference(&addresses) {
            table.delete(&bytes_of(*gone)).map_err(failed)?;
        }
        for new in addresses.difference(&self.0) {
            table.update(&bytes_of(*new), &[0; 4], MapFlags::ANY).map_err(failed)?;
        }
        self.0 = addresses;
        Ok(())
    }
}

/// IPv4 in IPv6 clothes, as in the service table.
fn bytes_of(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}
