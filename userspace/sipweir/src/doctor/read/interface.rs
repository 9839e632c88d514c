//! Facts of one interface.

use std::path::{Path, PathBuf};

use super::{number, of_netdev, optional_number};
use crate::doctor::facts::{Interface, Program, Reading, Unread};
use crate::netdev::{self, Ethtool, Stack, XdpFeatures};

/// What the kernel says of it.
pub(super) fn interface(found: &netdev::Interface) -> Interface {
    let index = found.index;
    let offloads = ask(|ethtool| ethtool.offloads(index));
    Interface {
        name: found.name.clone(),
        index,
        driver: found.driver.clone(),
        mtu: found.mtu,
        up: found.up,
        carrier: found.carrier,
        rx_queues: found.rx_queues,
        channels: ask(|ethtool| ethtool.channels(index)),
        rings: ask(|ethtool| ethtool.rings(index)),
        offloads: offloads.and_then(|offloads| {
            offloads.ok_or_else(|| {
                Unread("this kernel has no ethtool family (CONFIG_ETHTOOL_NETLINK)".to_owned())
            })
        }),
        xdp_features: of_netdev(XdpFeatures::of(index)),
        programs: of_netdev(netdev::xdp_programs(index))
            .map(|ids| ids.into_iter().map(|id| Program { id, name: xdp_prog::program_name(id) }).collect()),
        vlans: of_netdev(Stack::on(index)).map(|stack| stack.vlans),
        has_ingress_filters: of_netdev(netdev::has_ingress_filters(index)),
        node: node(found),
        rp_filter: rp_filter(&found.name),
        handoff_rp_filter: handoff_rp_filter(index),
        deferred: deferred(found),
    }
}

fn ask<T>(question: impl FnOnce(&mut Ethtool) -> Result<T, netdev::Error>) -> Reading<T> {
    of_netdev(Ethtool::open().and_then(|mut ethtool| question(&mut ethtool)))
}

fn node(found: &netdev::Interface) -> Reading<Option<u32>> {
    let Some(device) = &found.bus_device else { return Ok(None) };
    // A virtio device has no file of its own; the PCI device above it has. -1: on no node in particular.
    let mut places = vec![device.clone()];
    places.extend(std::fs::canonicalize(device).ok().and_then(|path| path.parent().map(Path::to_owned)));
    for place in places {
        if let Some(node) = optional_number::<i32>(place.join("numa_node"))? {
            return Ok(u32::try_from(node).ok());
        }
    }
    Ok(None)
}

/// `/proc/sys/net` follows the thread's network namespace; a dot in a device's name is no separator in a path.
fn conf(device: &str) -> PathBuf {
    Path::new("/proc/sys/net/ipv4/conf").join(device).join("rp_filter")
}

fn rp_filter(name: &str) -> Reading<[u32; 2]> {
    Ok([number(conf("all"))?, number(conf(name))?])
}

fn handoff_rp_filter(index: u32) -> Reading<Option<u32>> {
    let Some(own) = optional_number::<u32>(conf(&format!("swr{index}")))? else { return Ok(None) };
    Ok(Some(own.max(number(conf("all"))?)))
}

/// `/sys/class/net` shows the namespace of whoever mounted it, so the number is compared first.
fn deferred(found: &netdev::Interface) -> Reading<(u32, u64)> {
    let folder = Path::new("/sys/class/net").join(&found.name);
    match optional_number::<u32>(folder.join("ifindex"))? {
        Some(index) if index == found.index => {
            Ok((number(folder.join("napi_defer_hard_irqs"))?, number(folder.join("gro_flush_timeout"))?))
        }
        _ => Err(Unread(format!("{} is of another network namespace", folder.display()))),
    }
}
