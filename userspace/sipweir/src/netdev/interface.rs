//! What the set-up must know of a network device.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkInfo, LinkMessage};

use super::link::{Links, attribute, mac_of, name_of};
use super::{Error, ethtool};

/// A network device at the moment it was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The kernel's name of the device, also if it was looked up by an alternative name.
    pub name: String,
    /// The index by which the kernel knows it.
    pub index: u32,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// The longest IP packet it carries, in bytes.
    pub mtu: u32,
    /// Whether it is administratively up.
    pub up: bool,
    /// Whether it has carrier: a cable, or a peer that is up.
    pub carrier: bool,
    /// The receive queues in use; an AF_XDP socket is needed on each.
    pub rx_queues: u32,
    /// The driver, or for a virtual device its kind ("veth").
    pub driver: Option<String>,
    /// Its device on a bus, such as `/sys/bus/pci/devices/0000:00:03.0`; `None` for a virtual one. The bus is the same
    /// in every network namespace, unlike `/sys/class/net`.
    pub bus_device: Option<PathBuf>,
    /// Its addresses, IPv4 first.
    pub addresses: Vec<IpAddr>,
}

impl Interface {
    /// Looks a device up by name in the calling thread's network namespace.
    pub fn find(name: &str) -> Result<Self, Error> {
        let mut links = Links::open()?;
        let Some(link) = links.by_name(name)? else {
            let known = links.names()?.join(", ");
            return Err(Error::NoSuchInterface { name: name.to_owned(), known });
        };
        let name = name_of(&link).to_owned();
        let Some(mac) = mac_of(&link) else { return Err(Error::NotEthernet { name }) };
        let index = link.header.index;
        let rx_queues = match ethtool::rx_queues_in_use(index)? {
            Some(queues) => queues,
            None => attribute(&link, |attribute| match attribute {
                LinkAttribute::NumRxQueues(queues) => Some(*queues),
                _ => None,
            })
            .unwrap_or(1),
        };
        let mtu = attribute(&link, |attribute| match attribute {
            LinkAttribute::Mtu(mtu) => Some(*mtu),
            _ => None,
        });
        Ok(Self {
            name,
            index,
            mac,
            mtu: mtu.unwrap_or(ETHERNET_MTU),
            up: link.header.flags.contains(LinkFlags::Up),
            carrier: link.header.flags.contains(LinkFlags::LowerUp),
            rx_queues,
            driver: driver_of(&link),
            bus_device: bus_device_of(&link),
            addresses: links.addresses(index)?,
        })
    }

    /// Refuses a device that is down: a program attached there would see nothing, and nobody would know why.
    pub fn require_up(&self) -> Result<(), Error> {
        if self.up { Ok(()) } else { Err(Error::InterfaceDown { name: self.name.clone() }) }
    }
}

/// The addresses that no other host can send from: all of this host, whichever device has them, and the broadcast
/// addresses of its subnets.
///
/// # Errors
///
/// When the kernel does not answer.
pub fn addresses_of_host() -> Result<Vec<IpAddr>, Error> {
    Links::open()?.local_and_broadcast()
}

/// Whether filters of traffic control stand at the entrance of a device.
///
/// # Errors
///
/// When the kernel does not answer.
pub fn has_ingress_filters(index: u32) -> Result<bool, Error> {
    Links::open()?.has_ingress_filters(index)
}

/// Whether the kernel can make veth devices. Nothing is made.
///
/// # Errors
///
/// [`Error::Permission`] without CAP_NET_ADMIN; when the kernel does not answer.
pub fn can_make_veth() -> Result<bool, Error> {
    Links::open()?.can_make_veth()
}

/// What Ethernet carries unless told otherwise (IEEE 802.3), in bytes.
pub(super) const ETHERNET_MTU: u32 = 1500;

/// The kind of a virtual device, or the driver bound to the device's parent on its bus.
fn driver_of(link: &LinkMessage) -> Option<String> {
    let kind = attribute(link, |attribute| match attribute {
        LinkAttribute::LinkInfo(infos) => infos.iter().find_map(|info| match info {
            LinkInfo::Kind(kind) => Some(kind.to_string()),
            _ => None,
        }),
        _ => None,
    });
    kind.or_else(|| {
        let driver = fs::read_link(bus_device_of(link)?.join("driver")).ok()?;
        Some(driver.file_name()?.to_string_lossy().into_owned())
    })
}

/// The parent of the device on its bus.
fn bus_device_of(link: &LinkMessage) -> Option<PathBuf> {
    let bus = attribute(link, |attribute| match attribute {
        LinkAttribute::ParentDevBusName(bus) => Some(bus),
        _ => None,
    })?;
    let device = attribute(link, |attribute| match attribute {
        LinkAttribute::ParentDevName(device) => Some(device),
        _ => None,
    })?;
    Some(Path::new("/sys/bus").join(bus).join("devices").join(device))
}
