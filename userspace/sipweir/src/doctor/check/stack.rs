//! What the host's network stack does with packets beside sipweir's way: it sees on the hand-off device what it used to see
//! on the interface, and does not see at all what sipweir refuses.

use std::collections::{BTreeMap, BTreeSet};

use super::unread;
use crate::doctor::facts::{Host, Interface, Wanted};
use crate::doctor::finding::Finding;
use crate::netdev::{ChainName, Question};
use crate::sip_helper;

/// All findings about the host alone.
pub(super) fn findings(host: &Host, wanted: &Wanted) -> Vec<Finding> {
    vec![sip_helper(host), backlog(host, wanted)]
}

/// All findings about what is between host and interface.
pub(super) fn findings_of_interface(interface: &Interface, host: &Host, wanted: &Wanted) -> Vec<Finding> {
    let mut findings = vec![
        rp_filter(interface),
        handoff_rp_filter(interface),
        deferred(interface),
        ingress(interface, host),
    ];
    findings.extend(firewall(interface, host, wanted));
    findings.push(legacy_firewall(interface, host));
    findings
}

/// The receive end of the hand-off pair.
fn handoff_device(interface: &Interface) -> String {
    format!("swr{}", interface.index)
}

fn rp_filter(interface: &Interface) -> Finding {
    const CHECK: &str = "stack.rp_filter";
    const WHY: &str = "The strict filter drops what comes from a source whose route leads out elsewhere. It sees only what \
                       the stack gets on the interface, such as fragments; what sipweir hands over comes by a device with the \
                       loose filter. So whole and fragmented messages of one peer are treated differently, and forged sources \
                       that it kept away from the server now reach it.";
    let name = &interface.name;
    match &interface.rp_filter {
        Err(reason) => unread(CHECK, "the reverse path filter", reason, WHY),
        // The larger of the two counts (Documentation/networking/ip-sysctl.rst).
        Ok(values) => match values[0].max(values[1]) {
            1 => Finding::warning(CHECK, format!("The reverse path filter of {name} is strict (net.ipv4.conf.{{all,{name}}}.rp_filter are {} and {}).", values[0], values[1]), WHY)
                .command(format!("sysctl -w net.ipv4.conf.{name}.rp_filter=2"))
                .advice("keep forged sources away by a filter in front of the host"),
            value => Finding::fine(CHECK, if value == 0 { "off" } else { "loose" }, WHY),
        },
    }
}

fn handoff_rp_filter(interface: &Interface) -> Finding {
    const CHECK: &str = "stack.handoff_rp_filter";
    const WHY: &str = "Packets of any source reach the server by the hand-off device; with the strict filter the kernel drops them \
                       all. sipweir sets it to loose, and a rule of sysctl or udev for new devices can undo that.";
    let device = handoff_device(interface);
    match &interface.handoff_rp_filter {
        Err(reason) => unread(CHECK, "the reverse path filter of the hand-off device", reason, WHY),
        Ok(None) => Finding::fine(CHECK, format!("{device} is not there, as before a start"), WHY),
        Ok(Some(1)) => {
            Finding::failure(CHECK, format!("The reverse path filter of {device} is strict."), WHY)
                .command(format!("sysctl -w net.ipv4.conf.{device}.rp_filter=2"))
                .command("grep -r rp_filter /etc/sysctl.conf /etc/sysctl.d /usr/lib/sysctl.d /run/sysctl.d")
        }
        Ok(Some(_)) => Finding::fine(CHECK, format!("{device} lets sources of every route in"), WHY),
    }
}

fn deferred(interface: &Interface) -> Finding {
    const CHECK: &str = "interface.deferred_interrupts";
    const WHY: &str = "Deferred interrupts are for programs that poll the NIC themselves. sipweir sleeps until the kernel wakes it, so \
                       packets wait for the timer.";
    let name = &interface.name;
    match &interface.deferred {
        Err(reason) => unread(CHECK, "napi_defer_hard_irqs and gro_flush_timeout", reason, WHY),
        Ok((irqs, timeout)) if *irqs > 0 && *timeout > 0 => Finding::warning(
            CHECK,
            format!("Interrupts of {name} are deferred {irqs} times for {} µs.", timeout / 1000),
            WHY,
        )
        .command(format!("echo 0 > /sys/class/net/{name}/napi_defer_hard_irqs"))
        .command(format!("echo 0 > /sys/class/net/{name}/gro_flush_timeout")),
        Ok(_) => Finding::fine(CHECK, "interrupts come at once", WHY),
    }
}

const FIREWALL_WHY: &str = "Messages that sipweir hands over enter the stack by the hand-off device, not by the interface, and \
                            what it refuses or answers enters nowhere. A rule that asks for the interface does not see them: \
                            what it accepts may be dropped, what it drops or counts gets by.";

fn ingress(interface: &Interface, host: &Host) -> Finding {
    const CHECK: &str = "firewall.ingress";
    const WHY: &str = "The XDP program stands in front of it: what sipweir takes, these filters do not see.";
    let name = &interface.name;
    let chains = match &host.firewall {
        Ok(firewall) => {
            firewall.ingress.iter().filter(|(_, devices)| devices.contains(name)).map(|(chain, _)| chain)
        }
        Err(reason) => return unread(CHECK, "firewall chains at the entrance of the interface", reason, WHY),
    };
    let chains: Vec<&ChainName> = chains.collect();
    let has_filters = match &interface.has_ingress_filters {
        Ok(has_filters) => *has_filters,
        Err(reason) => {
            return unread(CHECK, "filters of traffic control at the entrance of the interface", reason, WHY);
        }
    };
    if chains.is_empty() && !has_filters {
        return Finding::fine(CHECK, format!("nothing filters at the entrance of {name}"), WHY);
    }
    let what = format!(
        "At the entrance of {name} stand chains of the firewall ({}) or filters of traffic control ({}).",
        chains.len(),
        if has_filters { "some" } else { "none" }
    );
    let mut finding = Finding::warning(CHECK, what, WHY);
    for ChainName { family, table, chain } in chains {
        finding = finding.command(format!("nft list chain {family} {table} {chain}"));
    }
    if has_filters {
        finding = finding.command(format!("tc filter show dev {name} ingress"));
    }
    finding.advice("what they do for guarded ports, let sipweir do, or a filter in front of the host")
}

fn firewall(interface: &Interface, host: &Host, wanted: &Wanted) -> Vec<Finding> {
    const CHECK: &str = "firewall.interface_rules";
    const REVERSE: &str = "firewall.reverse_path";
    const REVERSE_WHY: &str = "No route to a caller leads out by the hand-off device, so such a rule drops what sipweir hands over, as \
                               firewalld's IPv6_rpfilter does for IPv6.";
    let rules = match &host.firewall {
        Ok(firewall) => &firewall.rules,
        Err(reason) => return vec![unread(CHECK, "the firewall's rules", reason, FIREWALL_WHY)],
    };
    let device = handoff_device(interface);
    // By chain: handles of the rules that tell the two devices apart, and of those that ask for the way back.
    let (mut by_device, mut reverse) =
        (BTreeMap::<&ChainName, Vec<u64>>::new(), BTreeMap::<&ChainName, Vec<u64>>::new());
    for rule in rules {
        let on = |name: &str, index| rule.question.matches(name, index);
        match rule.question {
            Question::ReversePath => reverse.entry(&rule.chain).or_default().push(rule.handle),
            // The number of a device that is made at the start is in no rule.
            Question::Device { .. } if on(&interface.name, interface.index) != on(&device, 0) => {
                by_device.entry(&rule.chain).or_default().push(rule.handle);
            }
            Question::Device { .. } => {}
        }
    }
    let listed = |chains: &BTreeMap<&ChainName, Vec<u64>>| -> String {
        let chains = chains.iter().map(|(ChainName { family, table, chain }, handles)| {
            let handles: Vec<String> = handles.iter().map(u64::to_string).collect();
            format!("{family} {table} {chain} (handle {})", handles.join(", "))
        });
        chains.collect::<Vec<_>>().join("; ")
    };
    let mut findings = Vec::new();
    if by_device.is_empty() {
        findings.push(Finding::fine(
            CHECK,
            format!("no nftables rule tells {} from {device}", interface.name),
            FIREWALL_WHY,
        ));
    } else {
        let what = format!("Rules tell {} from {device}: {}.", interface.name, listed(&by_device));
        let mut finding = Finding::warning(CHECK, what, FIREWALL_WHY);
        for ChainName { family, table, chain } in by_device.keys() {
            finding =
                finding.command(format!("nft -a list chain {family} {table} {chain}")).command(format!(
                    "nft insert rule {family} {table} {chain} iifname {device} udp dport {} accept",
                    ports(&wanted.ports)
                ));
        }
        findings.push(finding.advice(
            "what those rules drop or limit, say of the hand-off device as well, in front of the accept",
        ));
    }
    if reverse.is_empty() {
        findings.push(Finding::fine(
            REVERSE,
            "no nftables rule asks for the way back to the source",
            REVERSE_WHY,
        ));
    } else {
        let what =
            format!("Rules ask whether the way back leads out where a packet came in: {}.", listed(&reverse));
        let mut finding = Finding::warning(REVERSE, what, REVERSE_WHY);
        for ChainName { family, table, chain } in reverse.keys() {
            finding =
                finding.command(format!("nft insert rule {family} {table} {chain} iifname {device} accept"));
        }
        findings.push(finding);
    }
    findings
}

/// A set of ports as `nft` takes it within a shell's line.
fn ports(ports: &BTreeSet<u16>) -> String {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    if ports.len() == 1 { ports[0].clone() } else { format!("'{{ {} }}'", ports.join(", ")) }
}

fn legacy_firewall(interface: &Interface, host: &Host) -> Finding {
    const CHECK: &str = "firewall.legacy";
    let (name, device) = (&interface.name, handoff_device(interface));
    match &host.legacy_tables {
        Ok(tables) if tables.is_empty() => {
            Finding::fine(CHECK, "legacy iptables has no tables", FIREWALL_WHY)
        }
        Ok(tables) => Finding::unknown(
            CHECK,
            format!("Legacy iptables has tables ({}), whose rules are not read here.", tables.join(", ")),
            FIREWALL_WHY,
        )
        .command(format!("iptables-legacy-save | grep -e '-i {name}' -e rpfilter"))
        .command(format!("ip6tables-legacy-save | grep -e '-i {name}' -e rpfilter"))
        .advice(format!(
            "what they say of {name}, say of {device} as well, and let no rpfilter rule drop what comes by it"
        )),
        Err(reason) => unread(CHECK, "the tables of legacy iptables", reason, FIREWALL_WHY),
    }
}

fn sip_helper(host: &Host) -> Finding {
    const CHECK: &str = "stack.sip_helper";
    let helper = match &host.sip_helper {
        Ok(None) => return Finding::fine(CHECK, "the kernel's SIP helper is not at work", sip_helper::WHY),
        Ok(Some(helper)) => helper,
        Err(reason) => {
            return unread(CHECK, "whether the kernel's SIP helper is at work", reason, sip_helper::WHY);
        }
    };
    let state = helper.state();
    let mut finding = Finding::warning(CHECK, state[..1].to_uppercase() + &state[1..], sip_helper::WHY);
    if helper.is_automatic {
        finding = finding.command(sip_helper::STOP_AUTOMATIC);
    } else {
        finding = finding.advice(sip_helper::RULES);
    }
    match helper.unload() {
        Some(command) => finding.command(command),
        None => finding,
    }
}

fn backlog(host: &Host, wanted: &Wanted) -> Finding {
    const CHECK: &str = "stack.backlog";
    const WHY: &str = "What is handed over waits in a core's backlog until the stack takes it; what finds it full is dropped and \
                       counts as handed over. A turn of the worker sends up to `frames.ring_tx` at once.";
    if !wanted.kernel_handoff {
        return Finding::fine(CHECK, "not needed: no service has handoff = \"kernel\"", WHY);
    }
    match &host.backlog {
        Ok(backlog) if *backlog < wanted.ring_tx => Finding::warning(
            CHECK,
            format!(
                "net.core.netdev_max_backlog is {backlog}, less than frames.ring_tx = {}.",
                wanted.ring_tx
            ),
            WHY,
        )
        .command("sysctl -w net.core.netdev_max_backlog=1000"),
        Ok(backlog) => Finding::fine(CHECK, format!("{backlog} packets"), WHY),
        Err(reason) => unread(CHECK, "net.core.netdev_max_backlog", reason, WHY),
    }
}
