//! Which frames of an interface this host takes: the Ethernet addresses and VLANs of the devices that stand on it.
//!
//! A bridge or bond that the interface is part of, VLAN devices, and macvlan devices (such as the virtual router of
//! VRRP) receive through the interface under addresses of their own. All of them belong to the host.

use std::collections::BTreeSet;

use netlink_packet_route::link::{InfoData, InfoKind, InfoVlan, LinkAttribute, LinkInfo, LinkMessage};

use super::Error;
use super::link::{Links, attribute, mac_of};

/// What the devices on an interface take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// Ethernet addresses, the interface's own first.
    pub link_addresses: Vec<[u8; 6]>,
    /// The indexes of the devices, the interface's own first.
    pub indexes: Vec<u32>,
    /// Numbers of the VLAN devices, on top of each other ones, too.
    pub vlans: BTreeSet<u16>,
}

impl Stack {
    /// Reads the devices on the interface with that index.
    ///
    /// # Errors
    ///
    /// When the kernel does not answer.
    pub fn on(index: u32) -> Result<Self, Error> {
        Ok(Self::of(index, &Links::open()?.all()?))
    }

    fn of(index: u32, links: &[LinkMessage]) -> Self {
        let mut members = vec![index];
        // Each round looks for what stands on what was found; there are no more rounds than devices.
        let mut next = 0;
        while let Some(&below) = members.get(next) {
            next += 1;
            let above = links.iter().filter(|link| stands_on(link, below)).map(|link| link.header.index);
            let controller = links.iter().filter(|link| link.header.index == below).find_map(controller_of);
            let found: Vec<u32> = above.chain(controller).filter(|index| !members.contains(index)).collect();
            members.extend(found);
        }
        let mut stack = Self { indexes: members.clone(), ..Self::default() };
        for member in members {
            let Some(link) = links.iter().find(|link| link.header.index == member) else { continue };
            stack.vlans.extend(vlan_of(link));
            if let Some(mac) = mac_of(link)
                && !stack.link_addresses.contains(&mac)
            {
                stack.link_addresses.push(mac);
            }
        }
        stack
    }
}

/// Whether a device receives what the other one does, because it was made on top of it.
fn stands_on(link: &LinkMessage, below: u32) -> bool {
    // The other end of a veth pair is a link, too, and one of another namespace has a number from there.
    let is_stacked = kind_of(link).is_some_and(|kind| {
        matches!(kind, InfoKind::Vlan | InfoKind::MacVlan | InfoKind::MacVtap | InfoKind::IpVlan)
    });
    let is_ours = attribute(link, |attribute| match attribute {
        LinkAttribute::LinkNetNsId(id) => Some(*id),
        _ => None,
    })
    .is_none();
    let lower = attribute(link, |attribute| match attribute {
        LinkAttribute::Link(index) => Some(*index),
        _ => None,
    });
    is_stacked && is_ours && lower == Some(below)
}

fn controller_of(link: &LinkMessage) -> Option<u32> {
    attribute(link, |attribute| match attribute {
        LinkAttribute::Controller(index) if *index > 0 => Some(*index),
        _ => None,
    })
}

fn kind_of(link: &LinkMessage) -> Option<&InfoKind> {
    attribute(link, |attribute| match attribute {
        LinkAttribute::LinkInfo(infos) => infos.iter().find_map(|info| match info {
            LinkInfo::Kind(kind) => Some(kind),
            _ => None,
        }),
        _ => None,
    })
}

fn vlan_of(link: &LinkMessage) -> Option<u16> {
    let data = attribute(link, |attribute| match attribute {
        LinkAttribute::LinkInfo(infos) => infos.iter().find_map(|info| match info {
            LinkInfo::Data(InfoData::Vlan(data)) => Some(data),
            _ => None,
        }),
        _ => None,
    })?;
    data.iter().find_map(|info| match info {
        InfoVlan::Id(id) => Some(*id),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device of that kind under which `lower` lies.
    fn link(index: u32, kind: InfoKind, lower: u32) -> LinkMessage {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.attributes.push(LinkAttribute::Address(vec![2, 0, 0, 0, 0, index as u8]));
        link.attributes.push(LinkAttribute::Link(lower));
        let mut infos = vec![LinkInfo::Kind(kind.clone())];
        if kind == InfoKind::Vlan {
            // The VLAN has ten times the number of the device.
            let data = vec![InfoVlan::Id(10 * index as u16)];
            infos.push(LinkInfo::Data(InfoData::Vlan(data)));
        }
        link.attributes.push(LinkAttribute::LinkInfo(infos));
        link
    }

    fn macs(last: &[u8]) -> Vec<[u8; 6]> {
        last.iter().map(|last| [2, 0, 0, 0, 0, *last]).collect()
    }

    #[test]
    fn vlan_and_macvlan_devices_count_also_on_top_of_each_other() {
        let links = [
            link(7, InfoKind::Veth, 8),
            // The other end of the interface's veth pair names it as its link, too.
            link(8, InfoKind::Veth, 7),
            link(1, InfoKind::Vlan, 2),
            link(2, InfoKind::Vlan, 7),
            link(3, InfoKind::MacVlan, 1),
            link(4, InfoKind::Vlan, 8),
        ];
        let stack = Stack::of(7, &links);
        assert_eq!(stack.vlans, [10, 20].into());
        assert_eq!(stack.link_addresses, macs(&[7, 2, 1, 3]));
    }

    #[test]
    fn a_bridge_that_the_interface_is_part_of_counts_with_what_stands_on_it() {
        let mut links =
            [link(7, InfoKind::Veth, 8), link(5, InfoKind::Bridge, 0), link(6, InfoKind::Vlan, 5)];
        assert_eq!(Stack::of(7, &links).link_addresses, macs(&[7]));
        links[0].attributes.push(LinkAttribute::Controller(5));
        let stack = Stack::of(7, &links);
        assert_eq!((stack.link_addresses, stack.vlans), (macs(&[7, 5, 6]), [60].into()));
    }

    #[test]
    fn a_device_whose_link_is_in_another_namespace_is_not_taken_for_one_on_the_interface() {
        let mut links = [link(7, InfoKind::Veth, 8), link(3, InfoKind::MacVlan, 7)];
        assert_eq!(Stack::of(7, &links).link_addresses, macs(&[7, 3]));
        links[1].attributes.push(LinkAttribute::LinkNetNsId(0));
        assert_eq!(Stack::of(7, &links).link_addresses, macs(&[7]));
    }

    #[test]
    fn devices_that_name_each_other_do_not_go_round_for_ever_and_equal_addresses_count_once() {
        let mut links = [link(7, InfoKind::Vlan, 6), link(6, InfoKind::Vlan, 7)];
        links[1].attributes[0] = LinkAttribute::Address(vec![2, 0, 0, 0, 0, 7]);
        let stack = Stack::of(7, &links);
        assert_eq!((stack.link_addresses, stack.vlans), (macs(&[7]), [60, 70].into()));
    }
}
