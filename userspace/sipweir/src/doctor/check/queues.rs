//! Queues, rings and cores: one worker on one core for each RX queue.

use std::collections::BTreeMap;

use super::unread;
use crate::cores;
use crate::doctor::facts::{Host, Interface, Process, Wanted};
use crate::doctor::finding::Finding;
use crate::netdev::Channels;

/// Entries of a receive ring below which a burst is lost while the kernel is elsewhere: 512 packets are half a millisecond at a
/// million packets a second.
const RING_LEAST: u32 = 512;

/// Frames that the frame budget counts for the NIC's ring in zero-copy mode (`run/plan.rs`).
const ZERO_COPY_RING_MOST: u32 = 1024;

/// All findings about them.
pub(super) fn findings(
    interface: &Interface,
    process: &Process,
    host: &Host,
    wanted: &Wanted,
) -> Vec<Finding> {
    vec![queues(interface, process, wanted), rings(interface, wanted), numa(interface, process, host, wanted)]
}

/// The command that leaves so many queues.
fn set_queues(interface: &Interface, queues: u32) -> String {
    let is_combined = !matches!(&interface.channels, Ok(Some(Channels { combined: 0, rx, .. })) if *rx > 0);
    let kind = if is_combined { "combined" } else { "rx" };
    format!("ethtool -L {} {kind} {queues}", interface.name)
}

fn queues(interface: &Interface, process: &Process, wanted: &Wanted) -> Finding {
    const CHECK: &str = "interface.queues";
    const WHY: &str = "Each RX queue has a worker of its own, pinned to a core. Workers that share a core wait for each other, \
                       and a queue without a worker would pass unguarded.";
    const MOST: u32 = xdp_prog::abi::QUEUES_MAX as u32;
    let (queues, available) = (interface.rx_queues, process.cores.len());
    if let Err(reason) = &interface.channels {
        return unread(CHECK, "the channels of the interface", reason, WHY);
    }
    if queues > MOST {
        return Finding::failure(CHECK, format!("{queues} RX queues; sipweir serves {MOST} at most."), WHY)
            .command(set_queues(interface, MOST.min(available.max(1) as u32)));
    }
    if let Err(error) = cores::choose(&interface.name, queues, wanted.cores.as_deref(), &process.cores) {
        return Finding::failure(CHECK, format!("{error}."), WHY);
    }
    if wanted.cores.is_none() && queues as usize > available {
        return Finding::warning(
            CHECK,
            format!("{queues} RX queues, and {available} cores that this process may use."),
            WHY,
        )
        .command(set_queues(interface, available.max(1) as u32));
    }
    Finding::fine(CHECK, format!("RX queues: {queues}, cores: {available}"), WHY)
}

fn rings(interface: &Interface, wanted: &Wanted) -> Finding {
    const CHECK: &str = "interface.rings";
    const WHY: &str = "Packets that find the NIC's receive ring full are lost before anything can tell originals from copies.";
    let name = &interface.name;
    let rings = match &interface.rings {
        Ok(Some(rings)) => rings,
        Ok(None) => return Finding::fine(CHECK, "the driver has no ring that could be set", WHY),
        Err(reason) => return unread(CHECK, "the receive rings", reason, WHY),
    };
    if wanted.zero_copy && rings.rx > ZERO_COPY_RING_MOST {
        return Finding::warning(
            CHECK,
            format!("The receive ring has {} entries; with zero-copy each holds one of sipweir's frames, and {ZERO_COPY_RING_MOST} are counted for it.", rings.rx),
            WHY,
        )
        .command(format!("ethtool -G {name} rx {ZERO_COPY_RING_MOST}"));
    }
    if rings.rx < RING_LEAST && rings.rx < rings.rx_max {
        let to = rings.rx_max.min(ZERO_COPY_RING_MOST);
        return Finding::warning(
            CHECK,
            format!("The receive ring has {} entries of {} that it could have.", rings.rx, rings.rx_max),
            WHY,
        )
        .command(format!("ethtool -G {name} rx {to}"));
    }
    Finding::fine(CHECK, format!("{} entries", rings.rx), WHY)
}

fn numa(interface: &Interface, process: &Process, host: &Host, wanted: &Wanted) -> Finding {
    const CHECK: &str = "interface.numa";
    const WHY: &str =
        "A worker on another NUMA node than the NIC fetches each packet across the link between them.";
    let nodes = match (&host.nodes, &interface.node) {
        (Err(reason), _) | (_, Err(reason)) => {
            return unread(CHECK, "NUMA nodes of interface and cores", reason, WHY);
        }
        (Ok(nodes), Ok(_)) => nodes,
    };
    let (Some(nodes), Ok(Some(node))) = (nodes, &interface.node) else {
        return Finding::fine(CHECK, "the interface is on no node in particular", WHY);
    };
    let Ok(chosen) =
        cores::choose(&interface.name, interface.rx_queues, wanted.cores.as_deref(), &process.cores)
    else {
        return Finding::unknown(CHECK, "Not known while the cores do not fit the queues.", WHY);
    };
    let near = nodes.get(node).cloned().unwrap_or_default();
    let far: Vec<usize> = chosen.iter().copied().filter(|core| !near.contains(core)).collect();
    if far.is_empty() {
        return Finding::fine(CHECK, format!("cores {chosen:?} are on the interface's node {node}"), WHY);
    }
    let what = format!("{} is on node {node}, and cores {far:?} of the workers are not.", interface.name);
    let usable: Vec<usize> = near.iter().rev().copied().filter(|core| process.cores.contains(core)).collect();
    let finding = Finding::warning(CHECK, what, WHY);
    if usable.len() >= chosen.len() {
        finding.configuration(format!("[workers]\ncores = {:?}", &usable[..chosen.len()]))
    } else if usable.is_empty() {
        finding.advice("let sipweir use cores of that node (CPUAffinity= or AllowedCPUs= in its unit)")
    } else {
        finding
            .command(set_queues(interface, usable.len() as u32))
            .configuration(format!("[workers]\ncores = {usable:?}"))
    }
}

/// A list of numbers as the kernel writes it, `0-3,8`.
pub(in crate::doctor) fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut found = BTreeMap::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        // No machine has as many; a list that says so is not one.
        if first > last || last > 65_536 {
            return None;
        }
        found.extend((first..=last).map(|core| (core, ())));
    }
    Some(found.into_keys().collect())
}
