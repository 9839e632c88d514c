//! Requests to the kernel's route family: links and addresses.

use std::net::{IpAddr, Ipv4Addr};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL};
use netlink_packet_route::address::{AddressAttribute, AddressMessage, AddressScope};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::tc::{TcHandle, TcMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::io::Errno;

use super::Error;
use super::interface::ETHERNET_MTU;
use super::netlink::{ANSWER_TIMEOUT, Socket};

/// The route family of the network namespace in which it was opened.
#[derive(Debug)]
pub(super) struct Links {
    socket: Socket,
}

impl Links {
    /// Opens the family in the calling thread's network namespace.
    pub(super) fn open() -> Result<Self, Error> {
        let socket = Socket::open(None, ANSWER_TIMEOUT)
            .map_err(|errno| Error::refused("open a netlink socket for devices", errno))?;
        Ok(Self { socket })
    }

    /// The device of that name, if there is one.
    pub(super) fn by_name(&mut self, name: &str) -> Result<Option<LinkMessage>, Error> {
        let mut request = LinkMessage::default();
        request.attributes.push(LinkAttribute::IfName(name.to_owned()));
        self.get(&format!("look up device {name:?}"), request)
    }

    /// The device of that index, if there is one.
    pub(super) fn by_index(&mut self, index: u32) -> Result<Option<LinkMessage>, Error> {
        self.get(&format!("look up the device with index {index}"), message_for(index))
    }

    fn get(&mut self, action: &str, request: LinkMessage) -> Result<Option<LinkMessage>, Error> {
        match self.socket.exchange(action, RouteNetlinkMessage::GetLink(request), 0) {
            // ERANGE and EINVAL: a name that no device can have (too long, or empty).
            Err(error) if matches!(error.errno(), Some(Errno::NODEV | Errno::RANGE | Errno::INVAL)) => {
                Ok(None)
            }
            answers => Ok(answers?.into_iter().find_map(link_of)),
        }
    }

    /// All devices.
    pub(super) fn all(&mut self) -> Result<Vec<LinkMessage>, Error> {
        let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let answers = self.socket.exchange("list the devices", request, NLM_F_DUMP)?;
        Ok(answers.into_iter().filter_map(link_of).collect())
    }

    /// The names of all devices, for a message to the operator.
    pub(super) fn names(&mut self) -> Result<Vec<String>, Error> {
        Ok(self.all()?.iter().map(|link| name_of(link).to_owned()).collect())
    }

    /// The addresses of the device with that index.
    pub(super) fn addresses(&mut self, index: u32) -> Result<Vec<IpAddr>, Error> {
        let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let answers = self.socket.exchange("list the addresses", request, NLM_F_DUMP)?;
        Ok(answers
            .into_iter()
            .filter_map(|answer| match answer {
                RouteNetlinkMessage::NewAddress(address) if address.header.index == index => Some(address),
                _ => None,
            })
            .filter_map(|address| {
                // IFA_LOCAL is the own address where the two differ (point-to-point links).
                let local = address.attributes.iter().find_map(|attribute| match attribute {
                    AddressAttribute::Local(ip) => Some(*ip),
                    _ => None,
                });
                local.or_else(|| {
                    address.attributes.iter().find_map(|attribute| match attribute {
                        AddressAttribute::Address(ip) => Some(*ip),
                        _ => None,
                    })
                })
            })
            .collect())
    }

    /// The addresses of all devices, and the broadcast addresses of their subnets: the one that was configured, and the
    /// highest, for which the kernel makes a route by itself (`fib_add_ifaddr` in net/ipv4/fib_frontend.c).
    pub(super) fn local_and_broadcast(&mut self) -> Result<Vec<IpAddr>, Error> {
        let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let answers = self.socket.exchange("list the addresses", request, NLM_F_DUMP)?;
        let mut found = Vec::new();
        for answer in answers {
            let RouteNetlinkMessage::NewAddress(message) = answer else { continue };
            let own = message.attributes.iter().find_map(|attribute| match attribute {
                AddressAttribute::Local(ip) => Some(*ip),
                _ => None,
            });
            for attribute in &message.attributes {
                match attribute {
                    AddressAttribute::Local(ip) => found.push(*ip),
                    AddressAttribute::Broadcast(ip) => found.push(IpAddr::V4(*ip)),
                    // With both, this is the prefix, or the peer of a point-to-point link.
                    AddressAttribute::Address(ip) => {
                        found.extend(own.is_none().then_some(*ip));
                        found.extend(highest_of(*ip, message.header.prefix_len));
                    }
                    _ => {}
                }
            }
        }
        Ok(found)
    }

    /// Whether filters of traffic control stand at the entrance of the device with that index.
    pub(super) fn has_ingress_filters(&mut self, index: u32) -> Result<bool, Error> {
        let mut message = TcMessage::with_index(index.cast_signed());
        // `TC_H_CLSACT` and `TC_H_MIN_INGRESS`, the entrance of both kinds of queueing discipline that stand there.
        message.header.parent = TcHandle { major: u16::MAX, minor: TcHandle::MIN_INGRESS };
        let request = RouteNetlinkMessage::GetTrafficFilter(message);
        match self.socket.exchange("list the filters of traffic control", request, NLM_F_DUMP) {
            // No such discipline, or a kernel without traffic control.
            Err(error) if matches!(error.errno(), Some(Errno::INVAL | Errno::NODEV | Errno::OPNOTSUPP)) => {
                Ok(false)
            }
            answers => Ok(!answers?.is_empty()),
        }
    }

    /// Whether the kernel can make veth devices, asked by a request that it must refuse: so many queues no device has. Like
    /// a real one it makes the kernel load the module.
    pub(super) fn can_make_veth(&mut self) -> Result<bool, Error> {
        match self.create_veth(["swprobe0", "swprobe1"], ETHERNET_MTU, u32::MAX) {
            Err(Error::NoVeth) => Ok(false),
            Err(Error::Refused { source: Errno::INVAL, .. }) => Ok(true),
            Err(error) => Err(error),
            Ok(()) => {
                self.delete_by_name("delete the device that was made by way of trial", "swprobe0")?;
                Ok(true)
            }
        }
    }

    /// Makes a veth pair, each end with `queues` queues in both directions.
    pub(super) fn create_veth(&mut self, ends: [&str; 2], mtu: u32, queues: u32) -> Result<(), Error> {
        let mut end = ends.map(|name| {
            let mut message = LinkMessage::default();
            message.attributes = vec![
                LinkAttribute::IfName(name.to_owned()),
                LinkAttribute::Mtu(mtu),
                LinkAttribute::NumTxQueues(queues),
                LinkAttribute::NumRxQueues(queues),
            ];
            message
        });
        let [first, peer] = &mut end;
        first.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(std::mem::take(peer)))),
        ]));
        let request = RouteNetlinkMessage::NewLink(std::mem::take(first));
        let action = format!("create the veth pair {} and {}", ends[0], ends[1]);
        match self.socket.exchange(&action, request, NLM_F_CREATE | NLM_F_EXCL) {
            Err(error) if error.errno() == Some(Errno::OPNOTSUPP) => Err(Error::NoVeth),
            answers => answers.map(|_| ()),
        }
    }

    /// Changes attributes of a device, and those of its flags that are named in `flags`, to set.
    pub(super) fn change(
        &mut self,
        action: &str,
        index: u32,
        attributes: Vec<LinkAttribute>,
        flags: LinkFlags,
    ) -> Result<(), Error> {
        let mut message = message_for(index);
        message.attributes = attributes;
        message.header.flags = flags;
        message.header.change_mask = flags;
        self.socket.exchange(action, RouteNetlinkMessage::SetLink(message), 0).map(|_| ())
    }

    /// Gives a device an IPv4 address that only this host knows.
    pub(super) fn add_host_address(
        &mut self,
        action: &str,
        index: u32,
        address: Ipv4Addr,
    ) -> Result<(), Error> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = 32;
        message.header.scope = AddressScope::Host;
        message.header.index = index;
        message.attributes =
            vec![AddressAttribute::Local(address.into()), AddressAttribute::Address(address.into())];
        let request = RouteNetlinkMessage::NewAddress(message);
        self.socket.exchange(action, request, NLM_F_CREATE | NLM_F_EXCL).map(|_| ())
    }

    /// Deletes a device; one that is gone already is no error.
    pub(super) fn delete(&mut self, action: &str, index: u32) -> Result<(), Error> {
        self.delete_link(action, message_for(index))
    }

    /// Deletes a device whose index is not known.
    pub(super) fn delete_by_name(&mut self, action: &str, name: &str) -> Result<(), Error> {
        let mut request = LinkMessage::default();
        request.attributes.push(LinkAttribute::IfName(name.to_owned()));
        self.delete_link(action, request)
    }

    fn delete_link(&mut self, action: &str, request: LinkMessage) -> Result<(), Error> {
        match self.socket.exchange(action, RouteNetlinkMessage::DelLink(request), 0) {
            Err(error) if error.errno() == Some(Errno::NODEV) => Ok(()),
            answers => answers.map(|_| ()),
        }
    }
}

/// The highest address of an IPv4 subnet that is large enough to have a broadcast address.
fn highest_of(address: IpAddr, prefix_len: u8) -> Option<IpAddr> {
    let IpAddr::V4(v4) = address else { return None };
    let hosts = (prefix_len < 31).then(|| u32::MAX.checked_shr(prefix_len.into()))??;
    Some(IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() | hosts)))
}

fn message_for(index: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
}

fn link_of(message: RouteNetlinkMessage) -> Option<LinkMessage> {
    match message {
        RouteNetlinkMessage::NewLink(link) => Some(link),
        _ => None,
    }
}

/// The name of a device.
pub(super) fn name_of(link: &LinkMessage) -> &str {
    attribute(link, |attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.as_str()),
        _ => None,
    })
    .unwrap_or_default()
}

/// The alias of a device; empty if it has none.
pub(super) fn alias_of(link: &LinkMessage) -> &str {
    attribute(link, |attribute| match attribute {
        LinkAttribute::IfAlias(alias) => Some(alias.as_str()),
        _ => None,
    })
    .unwrap_or_default()
}

/// The Ethernet address of a device, if it has one.
pub(super) fn mac_of(link: &LinkMessage) -> Option<[u8; 6]> {
    attribute(link, |attribute| match attribute {
        LinkAttribute::Address(bytes) => bytes.as_slice().try_into().ok(),
        _ => None,
    })
}

/// The first attribute of a device for which `pick` has a value.
pub(super) fn attribute<'m, T>(
    link: &'m LinkMessage,
    pick: impl FnMut(&'m LinkAttribute) -> Option<T>,
) -> Option<T> {
    link.attributes.iter().find_map(pick)
}
