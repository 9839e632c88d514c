//! The addresses that no other host can send from: the host's own, and the broadcast addresses of its subnets.
//!
//! The stack drops packets from them ("martian source"), so handing one over would look like work that the server has
//! done, and a refusal to one would go to this host, or to everybody in the subnet. The control thread reads the
//! addresses once a second; a worker holds a list of its own and takes a newer one from its letter box, so that the
//! packet path neither locks nor asks the kernel.
//!
//! Not here: how the addresses are read (`netdev`), and sources that are martian at every host (the XDP program).

use std::net::IpAddr;
use std::sync::Arc;

use crossbeam_queue::ArrayQueue;

/// A list of such addresses; copies share it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalAddresses(Arc<[IpAddr]>);

impl LocalAddresses {
    /// The list of these.
    #[must_use]
    pub fn new(mut addresses: Vec<IpAddr>) -> Self {
        addresses.sort_unstable();
        addresses.dedup();
        Self(addresses.into())
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> {
        self.0.iter().copied()
    }

    /// Whether the address is on the list.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.binary_search(&address).is_ok()
    }
}

/// Holds the newest list until the worker takes it.
#[derive(Debug)]
pub struct LetterBox(ArrayQueue<LocalAddresses>);

impl Default for LetterBox {
    fn default() -> Self {
        Self(ArrayQueue::new(1))
    }
}

impl LetterBox {
    /// Leaves a list; one that was not taken yet is replaced.
    pub fn put(&self, addresses: LocalAddresses) {
        self.0.force_push(addresses);
    }

    /// The list that was left last, once.
    #[must_use]
    pub fn take(&self) -> Option<LocalAddresses> {
        self.0.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::{LetterBox, LocalAddresses};

    #[test]
    fn a_list_knows_its_addresses_and_no_others() {
        let list =
            ["192.0.2.255", "2001:db8::1", "192.0.2.1", "192.0.2.1"].map(|a| a.parse().expect("address"));
        let list = LocalAddresses::new(list.to_vec());
        for (address, known) in
            [("192.0.2.1", true), ("192.0.2.255", true), ("2001:db8::1", true), ("192.0.2.2", false)]
        {
            assert_eq!(list.contains(address.parse().expect("address")), known, "{address}");
        }
        assert!(!LocalAddresses::default().contains("192.0.2.1".parse().expect("address")));
    }

    #[test]
    fn only_the_newest_list_is_taken() {
        let letters = LetterBox::default();
        let list = |address: &str| LocalAddresses::new(vec![address.parse().expect("address")]);
        letters.put(list("192.0.2.1"));
        letters.put(list("192.0.2.2"));
        assert_eq!((letters.take(), letters.take()), (Some(list("192.0.2.2")), None));
    }
}
