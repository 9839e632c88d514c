//! The interface itself: there, up, free for a program, and with packets that fit.

use afxdp::UmemConfig;

use super::unread;
use crate::config::XdpMode;
use crate::doctor::facts::{Absent, Interface, Program, Wanted};
use crate::doctor::finding::Finding;
use crate::netdev::XdpFeatures;

/// The name of sipweir's own XDP program, `sipweir` in `xdp-prog/classifier.bpf.c`.
pub(super) const OWN_PROGRAM: &str = "sipweir";

/// Ethernet header and two VLAN tags, bytes.
const LINK_HEADERS: u32 = 14 + 2 * 4;

/// An interface that is not there.
pub(super) fn absent(absent: &Absent) -> Finding {
    let why = "sipweir stands on one interface, by which the SIP packets come in.";
    Finding::failure("interface.state", format!("{}: {}.", absent.name, absent.reason), why)
        .command("ip -brief link show")
}

/// All findings about it.
pub(super) fn findings(interface: &Interface, wanted: &Wanted) -> Vec<Finding> {
    vec![
        state(interface),
        program(interface),
        native(interface, wanted),
        zero_copy(interface, wanted),
        mtu(interface, wanted),
    ]
}

fn state(interface: &Interface) -> Finding {
    const CHECK: &str = "interface.state";
    const WHY: &str = "A program on an interface that is down sees nothing.";
    let Interface { name, index, .. } = interface;
    let driver = interface.driver.as_deref().unwrap_or("of unknown driver");
    match (interface.up, interface.carrier) {
        (true, true) => Finding::fine(CHECK, format!("{name} ({driver}, number {index}) is up"), WHY),
        (true, false) => Finding::warning(CHECK, format!("{name} ({driver}) has no carrier."), WHY)
            .advice("plug in the cable, or set the other end up"),
        (false, _) => Finding::failure(CHECK, format!("{name} ({driver}) is down."), WHY)
            .command(format!("ip link set {name} up")),
    }
}

/// One line for a program that is in the way.
fn title(program: &Program) -> String {
    match &program.name {
        Some(name) => format!("{name:?} (id {})", program.id),
        None => format!("id {}", program.id),
    }
}

fn program(interface: &Interface) -> Finding {
    const CHECK: &str = "interface.xdp_program";
    const WHY: &str = "An interface carries one XDP program; the kernel answers the second with EBUSY, and taking the \
                       first one's place would be somebody else's outage.";
    let name = &interface.name;
    let programs = match &interface.programs {
        Ok(programs) => programs,
        Err(reason) => return unread(CHECK, "the XDP programs on the interface", reason, WHY),
    };
    if programs.is_empty() {
        return Finding::fine(CHECK, format!("no XDP program is on {name}"), WHY);
    }
    if programs.iter().all(|program| program.name.as_deref() == Some(OWN_PROGRAM)) {
        return Finding::fine(
            CHECK,
            format!("sipweir itself guards {name}; a second instance would be refused"),
            WHY,
        );
    }
    let titles: Vec<String> = programs.iter().map(title).collect();
    Finding::failure(CHECK, format!("Another XDP program is on {name}: {}.", titles.join(", ")), WHY)
        .command(format!("ip link set dev {name} xdp off"))
        .advice("if it stays, a process holds it by a BPF link: `bpftool link` and `bpftool net` show which; stop that process")
}

fn native(interface: &Interface, wanted: &Wanted) -> Finding {
    const CHECK: &str = "interface.native_xdp";
    const WHY: &str = "Native programs run before the kernel makes a socket buffer of the packet; generic mode works with \
                       every driver and costs that buffer.";
    const NEEDED: u64 = XdpFeatures::BASIC | XdpFeatures::REDIRECT;
    let name = &interface.name;
    let can = match &interface.xdp_features {
        _ if wanted.mode == XdpMode::Generic => {
            return Finding::fine(CHECK, "not wanted: xdp.mode is \"generic\"", WHY);
        }
        Ok(Some(features)) => features.has(NEEDED),
        Ok(None) => {
            return Finding::unknown(
                CHECK,
                "Not known: kernels before 6.3 do not tell what a driver can.",
                WHY,
            )
            .advice("`sipweir run` says in its log and its status which mode it got");
        }
        Err(reason) => return unread(CHECK, "what the driver can", reason, WHY),
    };
    if can {
        return Finding::fine(
            CHECK,
            format!("{name} can run XDP programs natively and redirect from them"),
            WHY,
        );
    }
    let what = format!("{name} cannot run XDP programs natively as it is set up now.");
    let finding = if wanted.mode == XdpMode::Native {
        Finding::failure(CHECK, what, WHY).configuration("[xdp]\nmode = \"auto\"")
    } else {
        Finding::warning(CHECK, what, WHY)
    };
    match interface.driver.as_deref() {
        // veth_set_xdp_features, drivers/net/veth.c.
        Some("veth") => finding
            .advice("a veth can if it has as many RX queues as its other end has TX queues")
            .command(format!("ethtool -l {name}")),
        _ => finding.advice(
            "with `xdp.mode = \"generic\"` this is settled; else another driver, or fewer channels, helps",
        ),
    }
}

fn zero_copy(interface: &Interface, wanted: &Wanted) -> Finding {
    const CHECK: &str = "interface.zero_copy";
    const WHY: &str = "xdp.zero_copy asks the driver to write packets into sipweir's frames itself; a driver that cannot \
                       answers with EOPNOTSUPP, and so does the hand-off's veth, which shares the frames.";
    const SWITCH_OFF: &str = "[xdp]\nzero_copy = false";
    if !wanted.zero_copy {
        return Finding::fine(CHECK, "not wanted: packets are copied, which works with every driver", WHY);
    }
    if wanted.kernel_handoff {
        return Finding::failure(CHECK, "xdp.zero_copy and handoff = \"kernel\" exclude each other.", WHY)
            .configuration(SWITCH_OFF);
    }
    match &interface.xdp_features {
        Ok(Some(features)) if features.has(XdpFeatures::ZERO_COPY) => {
            Finding::fine(CHECK, "the driver says that it can", WHY)
        }
        Ok(Some(_)) => Finding::failure(CHECK, "The driver cannot, or not as it is set up now.", WHY)
            .configuration(SWITCH_OFF),
        Ok(None) => {
            Finding::unknown(CHECK, "Not known: kernels before 6.3 do not tell what a driver can.", WHY)
        }
        Err(reason) => unread(CHECK, "what the driver can", reason, WHY),
    }
}

fn mtu(interface: &Interface, wanted: &Wanted) -> Finding {
    const CHECK: &str = "interface.mtu";
    const WHY: &str = "Larger packets than a frame holds take the side door, which is slower and has one worker; and with \
                       the MTU the share of SIP messages in fragments changes.";
    let Interface { name, mtu, .. } = interface;
    let packet = UmemConfig { frame_size: wanted.frame_size, ..UmemConfig::default() }.packet_len_max();
    // IPv6 needs 1280 (RFC 8200, section 5).
    if *mtu < 1280 {
        return Finding::warning(CHECK, format!("The MTU of {name} is {mtu}: SIP messages, of 500 to 1,500 bytes, come in fragments, and IPv6 needs 1,280."), WHY)
            .command(format!("ip link set {name} mtu 1500"));
    }
    if mtu.saturating_add(LINK_HEADERS) <= packet {
        return Finding::fine(CHECK, format!("{mtu}; a frame holds {packet} bytes"), WHY);
    }
    let finding = Finding::warning(
        CHECK,
        format!(
            "The MTU of {name} is {mtu}; with Ethernet and VLAN headers that is more than the {packet} bytes that a frame holds."
        ),
        WHY,
    );
    let larger = UmemConfig { frame_size: 4096, ..UmemConfig::default() }.packet_len_max();
    if wanted.frame_size < 4096 && mtu.saturating_add(LINK_HEADERS) <= larger {
        finding.configuration("[frames]\nsize = 4096")
    } else {
        finding.command(format!("ip link set {name} mtu 1500"))
    }
}
