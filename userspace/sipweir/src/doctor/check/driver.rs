//! What is publicly known of drivers: where XDP and AF_XDP are refused, slow or broken with them.
//!
//! Each entry has a source. What the kernel tells itself (`interface.native_xdp`) is not repeated here; what newer kernels
//! have mended is left out where sipweir's oldest kernel, 6.1, has it already. So it is with mlx5's queue numbers, which
//! started at the number of channels for AF_XDP and start at 0 since 6.1 (kernel commit 3db4c85cde7a).

use crate::config::XdpMode;
use crate::doctor::facts::{Interface, Wanted};
use crate::doctor::finding::{Finding, Level};
use crate::netdev::{Channels, XdpFeatures};

/// When an entry speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Native mode, and more channels in use than half of the most there can be.
    MoreThanHalfOfChannels,
    /// Native mode, and an MTU above this.
    MtuAbove(u32),
    /// Native mode, and this offload on.
    Offload(&'static str),
    /// Native mode, and so many channels unused that each CPU can have one.
    ChannelForEachCpu,
    /// Native mode, unless the driver says that it cannot.
    Native,
    /// Zero-copy.
    ZeroCopy,
    /// Zero-copy, and a receive ring of a size that is no power of two.
    ZeroCopyOddRing,
}

/// One thing that is known of a driver.
#[derive(Debug, Clone, Copy)]
pub struct Quirk {
    /// The driver as the kernel names it.
    pub driver: &'static str,
    /// When it shows.
    pub when: When,
    /// What happens then.
    pub effect: &'static str,
    /// How bad that is.
    pub level: Level,
    /// A command; `{interface}`, `{half}` and `{most}` are replaced.
    pub command: Option<&'static str>,
    /// Lines of the configuration.
    pub configuration: Option<&'static str>,
    /// Where it is described.
    pub source: &'static str,
}

const GENERIC: Option<&str> = Some("[xdp]\nmode = \"generic\"");
const COPY: Option<&str> = Some("[xdp]\nzero_copy = false");
const HALF: Option<&str> = Some("ethtool -L {interface} combined {half}");

/// An entry about native mode without a command, for the others to differ from.
const BASE: Quirk = Quirk {
    driver: "",
    when: When::Native,
    effect: "",
    level: Level::Warning,
    command: None,
    configuration: None,
    source: "",
};

/// The table.
pub const QUIRKS: &[Quirk] = &[
    Quirk {
        driver: "ena",
        when: When::MoreThanHalfOfChannels,
        effect: "ena needs a TX queue more for each channel under XDP, and refuses the program (EINVAL) while more than half of \
                 the channels are in use",
        command: HALF,
        source: "https://github.com/amzn/amzn-drivers/issues/240",
        ..BASE
    },
    Quirk {
        driver: "ena",
        when: When::MtuAbove(3498),
        effect: "ena refuses the program above an MTU of 3,498",
        command: Some("ip link set {interface} mtu 1500"),
        source: "https://github.com/cilium/cilium/pull/19593",
        ..BASE
    },
    Quirk {
        driver: "ena",
        when: When::ZeroCopy,
        effect: "ena's zero-copy has corrupted memory under load",
        configuration: COPY,
        source: "https://github.com/amzn/amzn-drivers/issues/330",
        ..BASE
    },
    Quirk {
        driver: "ice",
        when: When::ZeroCopy,
        effect: "ice's zero-copy has corrupted kernel memory by what came in, and has panicked under load",
        configuration: COPY,
        source: "https://github.com/firedancer-io/firedancer/pull/11245, https://github.com/intel/ethernet-linux-ice/issues/59",
        ..BASE
    },
    Quirk {
        driver: "ice",
        when: When::ZeroCopyOddRing,
        effect: "ice refuses zero-copy with rings of other sizes than powers of two",
        command: Some("ethtool -G {interface} rx 1024 tx 1024"),
        source: "kernel: drivers/net/ethernet/intel/ice/ice_xsk.c, ice_xsk_pool_setup",
        level: Level::Failure,
        ..BASE
    },
    Quirk {
        driver: "ixgbe",
        when: When::MtuAbove(3050),
        effect: "ixgbe refuses the program where a packet does not fit one buffer",
        command: Some("ip link set {interface} mtu 1500"),
        source: "kernel commit fabf1bce103a (ixgbe: Prevent unsupported configurations with XDP)",
        ..BASE
    },
    Quirk {
        driver: "ixgbevf",
        when: When::MtuAbove(2026),
        effect: "ixgbevf refuses the program with a large MTU (EINVAL)",
        command: Some("ip link set {interface} mtu 1500"),
        source: "https://github.com/xdp-project/xdp-tools/issues/327",
        ..BASE
    },
    Quirk {
        driver: "bnxt_en",
        when: When::MtuAbove(3502),
        effect: "bnxt_en refuses the program above an MTU of 3,502, since it knows nothing of fragments",
        command: Some("ip link set {interface} mtu 1500"),
        source: "https://github.com/cilium/cilium/issues/35426",
        ..BASE
    },
    Quirk {
        driver: "bnxt_en",
        when: When::MoreThanHalfOfChannels,
        effect: "bnxt_en needs a TX ring more for each channel under XDP, and answers ENOMEM where there are none left",
        command: HALF,
        source: "https://github.com/xdp-project/xdp-tools/issues/333",
        ..BASE
    },
    Quirk {
        driver: "virtio_net",
        when: When::Offload("rx-gro-hw"),
        effect: "virtio_net refuses the program (EOPNOTSUPP) while the host merges packets for it and lets nobody switch that off",
        command: Some("ethtool -K {interface} rx-gro-hw off"),
        source: "https://github.com/facebookincubator/katran/issues/18",
        ..BASE
    },
    Quirk {
        driver: "virtio_net",
        when: When::Offload("rx-lro"),
        effect: "virtio_net refuses the program (EOPNOTSUPP) while the host merges packets for it and lets nobody switch that off",
        command: Some("ethtool -K {interface} lro off"),
        source: "https://github.com/facebookincubator/katran/issues/18",
        ..BASE
    },
    Quirk {
        driver: "virtio_net",
        when: When::ChannelForEachCpu,
        effect: "virtio_net switches a queue pair more on for each CPU when the program is attached, receiving included; what \
                 arrives there no worker serves, and it passes unguarded",
        command: Some("ethtool -L {interface} combined {most}"),
        source: "https://github.com/xdp-project/xdp-tutorial/issues/163",
        ..BASE
    },
    Quirk {
        driver: "virtio_net",
        when: When::MtuAbove(3506),
        effect: "virtio_net refuses the program where a packet does not fit one page",
        command: Some("ip link set {interface} mtu 1500"),
        source: "kernel: drivers/net/virtio_net.c, virtnet_xdp_set",
        ..BASE
    },
    Quirk {
        driver: "hv_netvsc",
        when: When::Offload("rx-lro"),
        effect: "hv_netvsc cannot run the program while LRO (RSC) is on",
        command: Some("ethtool -K {interface} lro off"),
        source: "kernel: Documentation/networking/device_drivers/ethernet/microsoft/netvsc.rst",
        ..BASE
    },
    Quirk {
        driver: "veth",
        when: When::MtuAbove(3506),
        effect: "veth refuses the program (ERANGE) where a packet of its other end does not fit one page; the other end's MTU is \
                 what counts",
        command: Some("ip link set {interface} mtu 1500"),
        source: "https://github.com/bpfman/bpfman/pull/1675",
        ..BASE
    },
    Quirk {
        driver: "atlantic",
        when: When::MtuAbove(3000),
        effect: "atlantic refuses programs that know nothing of fragments (EOPNOTSUPP) with a large MTU",
        command: Some("ip link set {interface} mtu 1500"),
        source: "https://github.com/xdp-project/xdp-tools/issues/235",
        ..BASE
    },
    Quirk {
        driver: "nicvf",
        when: When::MtuAbove(1508),
        effect: "nicvf refuses the program above an MTU of 1,508",
        command: Some("ip link set {interface} mtu 1500"),
        source: "kernel commit 5ee15c101f29 (net: thunderx: raise XDP MTU to 1508)",
        ..BASE
    },
    Quirk {
        driver: "bond",
        when: When::Native,
        effect: "a bond runs the program at its members, whose packets an AF_XDP socket of the bond does not take",
        configuration: GENERIC,
        source: "https://github.com/xdp-project/xdp-tutorial/issues/362",
        level: Level::Failure,
        ..BASE
    },
];

const CHECK: &str = "interface.driver";

/// What is known of this driver and shows here.
pub fn findings(interface: &Interface, wanted: &Wanted, machine_cores: usize) -> Vec<Finding> {
    let Some(driver) = interface.driver.as_deref() else {
        let why = "Some drivers refuse XDP or AF_XDP under conditions of their own.";
        return vec![Finding::unknown(CHECK, "Not known: the driver (the kernel names none).", why)];
    };
    let found: Vec<Finding> = QUIRKS
        .iter()
        .filter(|quirk| quirk.driver == driver && shows(quirk, interface, wanted, machine_cores))
        .map(|quirk| finding(quirk, interface))
        .collect();
    if found.is_empty() {
        let why = "Some drivers refuse XDP or AF_XDP under conditions of their own.";
        return vec![Finding::fine(CHECK, format!("{driver}: nothing that is known of it shows here"), why)];
    }
    found
}

fn shows(quirk: &Quirk, interface: &Interface, wanted: &Wanted, machine_cores: usize) -> bool {
    let is_native = wanted.mode != XdpMode::Generic;
    match quirk.when {
        When::MoreThanHalfOfChannels => is_native && half_of_channels(interface).is_some(),
        When::MtuAbove(mtu) => is_native && interface.mtu > mtu,
        When::Offload(name) => {
            is_native && interface.offloads.as_ref().is_ok_and(|offloads| offloads.contains_key(name))
        }
        When::ChannelForEachCpu => {
            let fits = |channels: &Channels| {
                channels.combined as usize + machine_cores <= channels.combined_max as usize
            };
            is_native && matches!(&interface.channels, Ok(Some(channels)) if fits(channels))
        }
        When::Native => {
            let cannot =
                matches!(&interface.xdp_features, Ok(Some(features)) if !features.has(XdpFeatures::BASIC));
            is_native && !cannot
        }
        When::ZeroCopy => wanted.zero_copy,
        When::ZeroCopyOddRing => {
            wanted.zero_copy && matches!(&interface.rings, Ok(Some(rings)) if !rings.rx.is_power_of_two())
        }
    }
}

/// Half of the channels that there can be, if more are in use.
fn half_of_channels(interface: &Interface) -> Option<u32> {
    match &interface.channels {
        Ok(Some(channels)) if channels.combined > channels.combined_max / 2 => {
            Some((channels.combined_max / 2).max(1))
        }
        _ => None,
    }
}

fn finding(quirk: &Quirk, interface: &Interface) -> Finding {
    let what = format!("{}.", quirk.effect);
    let why = format!("Known of the driver: {}", quirk.source);
    let mut finding = match quirk.level {
        Level::Failure => Finding::failure(CHECK, what, why),
        _ => Finding::warning(CHECK, what, why),
    };
    if let Some(command) = quirk.command {
        let half = half_of_channels(interface).unwrap_or(1).to_string();
        let most = match &interface.channels {
            Ok(Some(channels)) => channels.combined_max,
            _ => interface.rx_queues,
        };
        let command = command.replace("{interface}", &interface.name).replace("{half}", &half);
        finding = finding.command(command.replace("{most}", &most.to_string()));
    }
    if let Some(configuration) = quirk.configuration {
        finding = finding.configuration(configuration);
    }
    finding
}
