//! Offloads that hide something of a packet, or make one packet of several, before sipweir sees it.

use super::unread;
use crate::config::XdpMode;
use crate::doctor::facts::{Interface, Wanted};
use crate::doctor::finding::Finding;
use crate::netdev::{Offloads, XdpFeatures};

/// An offload that joins packets.
struct Merging {
    check: &'static str,
    /// The kernel's name; `ethtool -K` takes it, too.
    offload: &'static str,
    /// What joins them.
    what: &'static str,
    why: &'static str,
    /// Joins behind the driver, so that a native program is not concerned.
    is_behind_driver: bool,
}

const MERGING: [Merging; 4] = [
    Merging {
        check: "offload.lro",
        offload: "rx-lro",
        what: "the driver joins received packets (LRO)",
        why: "What is joined is no packet of the wire any more; most drivers refuse an XDP program meanwhile.",
        is_behind_driver: false,
    },
    Merging {
        check: "offload.gro_hw",
        offload: "rx-gro-hw",
        what: "the NIC joins received packets (hardware GRO)",
        why: "An XDP program gets what the NIC has joined, larger than a frame; such packets take the side door, or the driver \
              refuses the program.",
        is_behind_driver: false,
    },
    Merging {
        check: "offload.udp_gro_forwarding",
        offload: "rx-udp-gro-forwarding",
        what: "the kernel joins UDP datagrams of a flow, also for sockets that did not ask for it (UDP GRO forwarding)",
        why: "A generic XDP program runs behind it, and takes several SIP messages for the first one with a long body.",
        is_behind_driver: true,
    },
    Merging {
        check: "offload.gro_list",
        offload: "rx-gro-list",
        what: "the kernel chains UDP datagrams of a flow (GRO by fragment list)",
        why: "A generic XDP program runs behind it, and takes several SIP messages for one.",
        is_behind_driver: true,
    },
];

/// All findings about offloads.
pub(super) fn findings(interface: &Interface, wanted: &Wanted) -> Vec<Finding> {
    let offloads = match &interface.offloads {
        Ok(offloads) => offloads,
        Err(reason) => {
            let why = "Offloads can hide VLAN tags and join packets before sipweir sees them.";
            return vec![unread("offload.all", "the offloads of the interface", reason, why)];
        }
    };
    let mut findings: Vec<Finding> =
        MERGING.iter().map(|merging| merging_finding(merging, interface, offloads, wanted)).collect();
    findings.push(rxvlan(interface, offloads));
    findings
}

/// `None`: the driver's features are not known.
fn will_be_native(interface: &Interface, wanted: &Wanted) -> Option<bool> {
    match (wanted.mode, &interface.xdp_features) {
        (XdpMode::Generic, _) => Some(false),
        (XdpMode::Native, _) => Some(true),
        (XdpMode::Auto, Ok(Some(features))) => Some(features.has(XdpFeatures::BASIC | XdpFeatures::REDIRECT)),
        (XdpMode::Auto, _) => None,
    }
}

fn merging_finding(
    merging: &Merging,
    interface: &Interface,
    offloads: &Offloads,
    wanted: &Wanted,
) -> Finding {
    let Merging { check, offload, what, why, is_behind_driver } = *merging;
    let name = &interface.name;
    let Some(&can_change) = offloads.get(offload) else {
        return Finding::fine(check, format!("{offload} is off"), why);
    };
    if is_behind_driver && will_be_native(interface, wanted) == Some(true) {
        return Finding::fine(check, format!("{offload} is on, behind the program in native mode"), why);
    }
    let finding = Finding::warning(check, format!("On {name} {what}."), why);
    if can_change {
        finding.command(format!("ethtool -K {name} {offload} off"))
    } else if is_behind_driver {
        finding.configuration("[xdp]\nmode = \"native\"")
    } else {
        finding.advice("the driver does not let it be switched off (\"fixed\"); in a virtual machine switch it off at the host's device")
    }
}

fn rxvlan(interface: &Interface, offloads: &Offloads) -> Finding {
    const CHECK: &str = "offload.rxvlan";
    const WHY: &str = "With it the NIC takes the VLAN tag out of a frame and puts it where an XDP program cannot see it: frames of \
                       every VLAN look untagged, `xdp.vlans` tells nothing apart, and answers leave without their tag.";
    let name = &interface.name;
    let Some(offload) = ["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"]
        .into_iter()
        .find(|offload| offloads.contains_key(*offload))
    else {
        return Finding::fine(CHECK, "VLAN tags are left in the frames", WHY);
    };
    let vlans = match &interface.vlans {
        Ok(vlans) => vlans,
        Err(reason) => return unread(CHECK, "the VLANs on the interface", reason, WHY),
    };
    if vlans.is_empty() {
        return Finding::fine(CHECK, format!("{offload} is on, and the host has no VLAN on {name}"), WHY);
    }
    let finding =
        Finding::warning(CHECK, format!("{offload} is on, and the host has VLANs {vlans:?} on {name}."), WHY);
    if offloads[offload] {
        finding.command(format!("ethtool -K {name} {offload} off"))
    } else {
        finding.advice("the driver does not let it be switched off; guard an interface without VLANs")
    }
}
