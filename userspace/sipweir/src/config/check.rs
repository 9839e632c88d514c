//! Relations between values that a type cannot express.

use std::collections::{BTreeMap, BTreeSet};

use overload::Threshold;
use xdp_prog::LINK_ADDRESSES_MAX;
use xdp_prog::abi::SERVICES_MAX;
use xdp_prog::{EMERGENCY_NUMBERS_MAX, LIST_ROOM_MAX, List, PROBERS_MAX};

use super::{
    Config, Frames, GateKind, HandoffKind, Limit, Limits, Lists, Peer, PeerLimits, Problem, Reply, Service,
    ServiceMode, Taken,
};
use crate::prefix::Prefix;

/// T1 of RFC 3261 section 17.1.1.1: the first copy leaves the client after it.
const T1_NS: u64 = 500_000_000;
/// Longest path of a Unix socket (`sun_path` less its NUL).
pub(super) const SOCKET_PATH_MAX: usize = 107;
/// Longest interface name (IFNAMSIZ less its NUL).
const INTERFACE_NAME_MAX: usize = 15;

/// A reply costs about a microsecond, so more than this means nothing.
const PER_DESTINATION_MAX: u32 = 1_000_000;
/// Longer, and a phone that was refused once is unreachable for as long as registrations last.
const RETRY_AFTER_MAX_S: u32 = 3600;
/// Longer, and clients hold back for a minute after the overload is over.
const OC_VALIDITY_NS_MAX: u64 = 60_000_000_000;

/// 264 MiB of buffers for each worker.
const CAPTURE_MESSAGES_MAX: u32 = 65_536;

/// Adds a problem for every relation that does not hold. `whole` says that nothing was left out of `config`.
pub(super) fn relations(config: &Config, whole: bool, problems: &mut BTreeSet<Problem>) {
    let mut report = |key: String, message: String| {
        problems.insert(Problem { key, message });
    };
    let socket_len = config.control.socket.as_os_str().len();
    if socket_len == 0 || socket_len > SOCKET_PATH_MAX {
        report(
            "control.socket".into(),
            format!("the path of a Unix socket has 1 to {SOCKET_PATH_MAX} bytes"),
        );
    }
    if config.interface.is_empty() || config.interface.len() > INTERFACE_NAME_MAX {
        report("interface".into(), format!("an interface name has 1 to {INTERFACE_NAME_MAX} bytes"));
    }
    if whole && config.service.is_empty() {
        report("service".into(), "no service to guard; add a table such as [service.main]".into());
    }
    let endpoints: usize = config.service.values().map(|service| service.listen.0.len()).sum();
    if endpoints > SERVICES_MAX {
        report(
            "service".into(),
            format!("{endpoints} listen addresses; at most {SERVICES_MAX} can be guarded"),
        );
    }
    if let Some(cores) = &config.workers.cores {
        let distinct: BTreeSet<_> = cores.iter().collect();
        if cores.is_empty() || distinct.len() != cores.len() {
            report("workers.cores".into(), "name each core once, at least one".into());
        }
    }
    let memory_mib = config.transactions.memory_mib;
    if memory_mib != 0 && (!memory_mib.is_power_of_two() || memory_mib > 256) {
        report(
            "transactions.memory_mib".into(),
            format!("{memory_mib} is neither 0 nor a power of two up to 256"),
        );
    }
    for (key, count, most) in [
        ("emergency_numbers", config.privileges.emergency_numbers.len(), EMERGENCY_NUMBERS_MAX),
        ("probers", config.privileges.probers.len(), PROBERS_MAX),
    ] {
        if count > most {
            report(format!("privileges.{key}"), format!("{count} of them; up to {most} are possible"));
        }
    }
    if let Some(capture) = &config.capture
        && !(1..=CAPTURE_MESSAGES_MAX).contains(&capture.messages)
    {
        let message = format!("{} is not between 1 and {CAPTURE_MESSAGES_MAX}", capture.messages);
        report("capture.messages".into(), message);
    }
    lists(&config.lists, &mut report);
    frames(&config.frames, &mut report);
    if let Taken::Listed(vlans) = &config.xdp.vlans
        && let Some(vlan) = vlans.iter().find(|vlan| !(1..=4094).contains(*vlan))
    {
        report("xdp.vlans".into(), format!("{vlan} is no VLAN; they have the numbers 1 to 4094"));
    }
    if let Taken::Listed(addresses) = &config.xdp.link_addresses
        && addresses.len() >= LINK_ADDRESSES_MAX
    {
        let most = LINK_ADDRESSES_MAX - 1;
        report(
            "xdp.link_addresses".into(),
            format!("{} addresses; at most {most}, or \"any\"", addresses.len()),
        );
    }

    let mut taken = BTreeMap::new();
    for (name, service) in &config.service {
        for endpoint in &service.listen.0 {
            if let Some(other) = taken.insert(*endpoint, name) {
                let message = format!("the same address and port as service {other}");
                report(format!("service.{name}.listen"), message);
            }
        }
        one_service(&format!("service.{name}"), service, whole, &mut report);
    }
}

fn lists(lists: &Lists, report: &mut impl FnMut(String, String)) {
    for list in List::ALL {
        // The working directory of a service is nobody's business.
        for file in lists.files(list).iter().filter(|file| !file.is_absolute()) {
            let message = format!("{} is no absolute path", file.display());
            report(format!("lists.{}", list.name()), message);
        }
    }
    if !(1..=LIST_ROOM_MAX).contains(&lists.room) {
        report("lists.room".into(), format!("{} is not between 1 and {LIST_ROOM_MAX}", lists.room));
    }
}

fn frames(frames: &Frames, report: &mut impl FnMut(String, String)) {
    for (key, size) in [
        ("ring_control", frames.ring_control),
        ("ring_new", frames.ring_new),
        ("ring_retransmission", frames.ring_retransmission),
        ("ring_reject", frames.ring_reject),
        ("ring_tx", frames.ring_tx),
        ("ring_fill", frames.ring_fill),
    ] {
        if !size.is_power_of_two() || size > 1 << 20 {
            report(format!("frames.{key}"), format!("{size} is no power of two up to 1048576"));
        }
    }
    if !matches!(frames.size, 2048 | 4096) {
        report("frames.size".into(), format!("{} is neither 2048 nor 4096", frames.size));
    }
    if frames.large == 0 || frames.large > 1 << 16 {
        report("frames.large".into(), format!("{} is not between 1 and 65536", frames.large));
    }
    if frames.count == 0 || frames.count > 1 << 22 {
        report("frames.count".into(), format!("{} is not between 1 and 4194304", frames.count));
    }
}

fn one_service(path: &str, service: &Service, whole: bool, report: &mut impl FnMut(String, String)) {
    if service.max_wait.nanos() == 0 || (service.gate.kind.is_control() && service.max_wait.nanos() >= T1_NS)
    {
        let message = format!(
            "{} is not between 0 and T1 = 500ms; later, the client's copy is already on its way",
            service.max_wait
        );
        report(format!("{path}.max_wait"), message);
    }
    if !(service.initial_rate.is_finite() && service.initial_rate >= 1.0) {
        report(format!("{path}.initial_rate"), "a rate per second, at least 1".into());
    }
    if service.mode == ServiceMode::Monitor && service.handoff == HandoffKind::Embedded {
        let message =
            "what is only watched passes to the kernel, and no server is there; set handoff = \"kernel\"";
        report(format!("{path}.mode"), message.into());
    }
    if let Some(classes) = &service.monitor_classes {
        let problem = match service.mode {
            ServiceMode::Enforce => Some("only of use with mode = \"monitor\""),
            ServiceMode::Monitor if classes.0.is_empty() => {
                Some("name a class, or leave the key out to watch all of them")
            }
            ServiceMode::Monitor if service.gate.kind == GateKind::Fifo => {
                Some("fifo knows no classes; leave the key out to watch all of them")
            }
            ServiceMode::Monitor => None,
        };
        if let Some(message) = problem.filter(|_| whole) {
            report(format!("{path}.monitor_classes"), message.into());
        }
    }
    limits(&format!("{path}.limits"), &service.limits, whole, report);
    reply(&format!("{path}.reply"), &service.reply, whole, report);
    gate(path, service, report);
    match service.handoff {
        HandoffKind::Kernel => service.server.check(&format!("{path}.server"), report),
        HandoffKind::Embedded => {
            let is_rate = |rate: f64| rate.is_finite() && rate > 0.0;
            let rates = [
                ("capacity", Some(service.embedded.capacity)),
                ("slow_capacity", service.embedded.slow_capacity),
            ];
            for (key, _) in rates.into_iter().filter(|(_, rate)| rate.is_some_and(|rate| !is_rate(rate))) {
                report(format!("{path}.embedded.{key}"), "a rate per second above 0".into());
            }
            if service.embedded.queue == 0 || service.embedded.queue > 65_536 {
                report(format!("{path}.embedded.queue"), "between 1 and 65536 places".into());
            }
        }
    }
}

fn reply(path: &str, reply: &Reply, whole: bool, report: &mut impl FnMut(String, String)) {
    let code_problem = |code: u16| {
        (!matches!(code, 0 | 480 | 500 | 503))
            .then(|| format!("{code} is none of 503, 500, 480, 0 (silence)"))
    };
    let cap_problem = |per_s: u32| {
        (!(1..=PER_DESTINATION_MAX).contains(&per_s))
            .then(|| format!("{per_s} is not between 1 and {PER_DESTINATION_MAX} replies per second"))
    };
    let mut all = vec![
        (format!("{path}.code"), code_problem(reply.code)),
        (format!("{path}.per_destination"), cap_problem(reply.per_destination)),
    ];
    if let Some([from, to]) = reply.retry_after_register {
        let fits = 1 <= from && from <= to && to <= RETRY_AFTER_MAX_S;
        let message = format!("[{from}, {to}] are no seconds from and to, between 1 and {RETRY_AFTER_MAX_S}");
        all.push((format!("{path}.retry_after_register"), (!fits).then_some(message)));
    }
    if !(1_000_000..=OC_VALIDITY_NS_MAX).contains(&reply.oc_validity.nanos()) {
        let message = format!("{} is not between 1ms and 60s", reply.oc_validity);
        all.push((format!("{path}.oc_validity"), Some(message)));
    }
    networks(path, reply.peers.keys(), report);
    for (text, peer) in &reply.peers {
        let key = peer_key(path, text);
        all.push((key.clone(), peer.code.and_then(code_problem)));
        all.push((key.clone(), peer.per_destination.and_then(cap_problem)));
        if whole && *peer == Peer::default() {
            all.push((key, Some("neither code nor per_destination: nothing differs".into())));
        }
    }
    for (key, problem) in all {
        if let Some(message) = problem {
            report(key, message);
        }
    }
}

fn limits(path: &str, limits: &Limits, whole: bool, report: &mut impl FnMut(String, String)) {
    networks(path, limits.peers.keys(), report);
    for (key, bits, most) in
        [("ipv4_source_bits", limits.ipv4_source_bits, 32), ("ipv6_source_bits", limits.ipv6_source_bits, 64)]
    {
        if bits > most {
            report(format!("{path}.{key}"), format!("{bits} is not between 0 and {most}"));
        }
    }
    for (text, _) in limits.peers.iter().filter(|(_, peer)| whole && **peer == PeerLimits::default()) {
        report(peer_key(path, text), "none of the caps: nothing differs".into());
    }
}

fn peer_key(path: &str, text: &str) -> String {
    format!("{path}.peers.\"{text}\"")
}

/// The keys of a table by network: each is one, and no two are the same.
fn networks<'a>(
    path: &str,
    texts: impl Iterator<Item = &'a String>,
    report: &mut impl FnMut(String, String),
) {
    let mut taken = BTreeMap::new();
    for text in texts {
        match text.parse::<Prefix>() {
            Err(message) => report(peer_key(path, text), message),
            Ok(prefix) => {
                if let Some(other) = taken.insert(prefix, text) {
                    report(peer_key(path, text), format!("the same network as \"{other}\""));
                }
            }
        }
    }
}

fn gate(path: &str, service: &Service, report: &mut impl FnMut(String, String)) {
    let gate = &service.gate;
    if !(0.0..=1.0).contains(&gate.admit) {
        report(format!("{path}.gate.admit"), format!("{} is no share between 0 and 1", gate.admit));
    }
    if !(gate.weight > 0.0 && gate.weight <= 1.0) {
        let message = format!("{} is no weight; it must be above 0 and at most 1", gate.weight);
        report(format!("{path}.gate.weight"), message);
    }
    if !(0.0..=1.0).contains(&gate.initial_probability) {
        let message = format!(
            "{} is no probability; it must be between 0 and 1 (a published start of 1.6 is none either)",
            gate.initial_probability
        );
        report(format!("{path}.gate.initial_probability"), message);
    }
    let zero = |limit: Limit| matches!(limit.0, Threshold::Messages(0) | Threshold::Time(0));
    if !gate.kind.is_control() {
        if zero(gate.buffer) {
            report(format!("{path}.gate.buffer"), "must be above 0".into());
        }
        return;
    }
    for (key, limit) in [("low", gate.low), ("high", gate.high), ("buffer", gate.buffer)] {
        if zero(limit) {
            report(format!("{path}.gate.{key}"), "must be above 0".into());
        }
    }
    // low <= high < buffer, for random control low < high <= buffer, as far as both are of one kind; across kinds it
    // depends on the measured rate, and the gate keeps the order itself when it resolves them.
    let ordered = |a: Limit, b: Limit, strict: bool| match (a.0, b.0) {
        (Threshold::Messages(a), Threshold::Messages(b)) => a < b || (!strict && a == b),
        (Threshold::Time(a), Threshold::Time(b)) => a < b || (!strict && a == b),
        _ => true,
    };
    let is_random = gate.kind == GateKind::Random;
    let relation = |strict| if strict { "must be below" } else { "must not be above" };
    if !ordered(gate.low, gate.high, is_random) {
        report(format!("{path}.gate.low"), format!("low {} high", relation(is_random)));
    }
    if !ordered(gate.high, gate.buffer, !is_random) {
        report(format!("{path}.gate.high"), format!("high {} buffer", relation(!is_random)));
    }
}
