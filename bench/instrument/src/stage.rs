//! Where it is measured: two namespaces, two wires between them, and who uses which core.
//!
//! `eth0` is guarded by sipweir and `eth1` belongs to the rivals, so that both are there at once and take turns. Sources of
//! the generator lie behind a gateway whose Ethernet address nobody has: what is answered to them crosses the wire and
//! ends in the near device, where it is counted. Namespaces and wires go with the value; what a killed run has left, the
//! next one removes.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{
    CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_getaffinity, sched_setaffinity,
};
use sipweir_tests::command::run;
use sipweir_tests::{Link, LinkPlan, NetNs};

use crate::frame::Flow;

const PREFIX: &str = "swb";
/// Where iproute2 keeps the names.
const NAMES_FOLDER: &str = "/run/netns";
const SIP_PORT: u16 = 5060;

/// One of the two wires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// `eth0`, where sipweir sits.
    Guarded,
    /// `eth1`, where the rivals sit.
    Rival,
}

impl Wire {
    pub(crate) const fn device(self) -> &'static str {
        match self {
            Self::Guarded => "eth0",
            Self::Rival => "eth1",
        }
    }

    /// Tells the addresses of the wires apart.
    const fn number(self) -> u8 {
        match self {
            Self::Guarded => 77,
            Self::Rival => 79,
        }
    }

    const fn ipv4(self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, self.number(), 0, host)
    }

    fn ipv6(self, host: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xfd00 | u16::from(self.number()), 0, 0, 0, 0, 0, 0, host)
    }

    /// The SIP port of the server behind this wire.
    pub(crate) fn service(self) -> SocketAddr {
        (self.ipv4(SERVER), SIP_PORT).into()
    }

    /// The same by IPv6.
    fn service_v6(self) -> SocketAddr {
        (self.ipv6(SERVER.into()), SIP_PORT).into()
    }

    /// An address of the callers' own.
    pub(crate) fn caller(self) -> IpAddr {
        self.ipv4(CALLER).into()
    }
}

const CALLER: u8 = 1;
const SERVER: u8 = 2;
/// The way to the generator's sources.
const GATEWAY: u8 = 250;
/// First bytes of the generator's sources: 10.177.0.0/16 behind 10.77.0.250.
const SOURCES_OFFSET: u8 = 100;
/// The generator's Ethernet address; nobody has it.
const SOURCE_MAC: [u8; 6] = [0x02, 0x5b, 0, 0, 0, 0];

/// Which core does what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cores {
    /// Generator, caller, and the receiving half of the wire.
    pub(crate) generator: usize,
    /// sipweir's worker, rivals, and servers.
    pub(crate) worker: usize,
}

/// The stage.
#[derive(Debug)]
pub(crate) struct Stage {
    home: File,
    pub(crate) callers: NetNs,
    pub(crate) server: NetNs,
    guarded: Link,
    rival: Link,
    pub(crate) cores: Cores,
}

impl Stage {
    /// Sets the stage; the guarded wire has so many queues, the other has one. The calling thread is among the callers from
    /// then on.
    pub(crate) fn set_up(queues: u32) -> anyhow::Result<Self> {
        let cores = cores()?;
        strike_leftovers()?;
        let (callers, server) = (NetNs::with_prefix(PREFIX, "callers"), NetNs::with_prefix(PREFIX, "server"));
        let lay = |wire: Wire| {
            let plan = LinkPlan {
                device: wire.device(),
                ipv4: [wire.ipv4(CALLER), wire.ipv4(SERVER)],
                ipv6: Some([wire.ipv6(CALLER.into()), wire.ipv6(SERVER.into())]),
                queues: if wire == Wire::Guarded { queues } else { 1 },
                ..LinkPlan::default()
            };
            let link = Link::between(&callers, &server, &plan);
            open_way_to_sources(&server, wire);
            link
        };
        let (guarded, rival) = (lay(Wire::Guarded), lay(Wire::Rival));
        let home = current_namespace()?;
        enter(&callers)?;
        Ok(Self { home, callers, server, guarded, rival, cores })
    }

    /// Calls a function with the calling thread in the server's namespace: devices and sockets that it names or makes
    /// are there.
    pub(crate) fn at_server<R>(&self, function: impl FnOnce() -> anyhow::Result<R>) -> anyhow::Result<R> {
        enter(&self.server)?;
        let result = function();
        enter(&self.callers)?;
        result
    }

    /// From the generator's sources to the server behind that wire.
    pub(crate) fn flow(&self, wire: Wire, v6: bool) -> anyhow::Result<Flow> {
        let link = if wire == Wire::Guarded { &self.guarded } else { &self.rival };
        let destination = if v6 { wire.service_v6() } else { wire.service() };
        Ok(Flow {
            source_mac: SOURCE_MAC,
            destination_mac: parse_mac(&link.far.mac)?,
            source: if v6 { sources_v6(wire).into() } else { sources_v4(wire).into() },
            destination,
        })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A namespace lives as long as a thread is in it. Failing changes nothing: the process ends.
        let _home = move_into_link_name_space(self.home.as_fd(), Some(LinkNameSpaceType::Network));
    }
}

fn sources_v4(wire: Wire) -> Ipv4Addr {
    Ipv4Addr::new(10, wire.number() + SOURCES_OFFSET, 0, 0)
}

fn sources_v6(wire: Wire) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00 | u16::from(wire.number() + SOURCES_OFFSET), 0, 0, 0, 0, 0, 0, 0)
}

fn open_way_to_sources(server: &NetNs, wire: Wire) {
    let mac = "02:5b:00:00:00:fa";
    let ways = [
        (wire.ipv4(GATEWAY).to_string(), format!("{}/16", sources_v4(wire))),
        (wire.ipv6(GATEWAY.into()).to_string(), format!("{}/112", sources_v6(wire))),
    ];
    for (gateway, sources) in ways {
        server.ip(&["neigh", "add", &gateway, "lladdr", mac, "dev", wire.device(), "nud", "permanent"]);
        server.ip(&["route", "add", &sources, "via", &gateway, "dev", wire.device()]);
    }
}

/// The first core for the generator and the last for the worker, where sipweir puts it by default.
fn cores() -> anyhow::Result<Cores> {
    let allowed = sched_getaffinity(None).context("cannot read the cores that this process may use")?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    let [generator, .., worker] = cores[..] else {
        anyhow::bail!(
            "this process may use the cores {cores:?}: two are needed, one for each side of the wire"
        );
    };
    Ok(Cores { generator, worker })
}

/// Puts the calling thread on a core.
pub(crate) fn pin(core: usize) -> anyhow::Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).with_context(|| format!("cannot pin a thread to core {core}"))
}

/// Calls a function on a core, and lets the calling thread run where it did before: what a thread starts inherits its
/// cores.
pub(crate) fn on_core<R>(core: usize, function: impl FnOnce() -> anyhow::Result<R>) -> anyhow::Result<R> {
    let before = sched_getaffinity(None).context("cannot read the cores of a thread")?;
    pin(core)?;
    let result = function();
    sched_setaffinity(None, &before).context("cannot free a thread of its core")?;
    result
}

/// The index of a device in the calling thread's namespace.
pub(crate) fn ifindex(device: &str) -> anyhow::Result<u32> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").context("cannot open a socket")?;
    rustix::net::netdevice::name_to_index(&socket, device).with_context(|| format!("no device {device}"))
}

fn enter(namespace: &NetNs) -> anyhow::Result<()> {
    let file = File::open(namespace.path()).with_context(|| format!("no namespace {}", namespace.name()))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .with_context(|| format!("cannot enter namespace {}", namespace.name()))
}

fn current_namespace() -> anyhow::Result<File> {
    File::open("/proc/thread-self/ns/net").context("cannot open the present network namespace")
}

/// Removes the namespaces of runs whose process is gone, and ends what still lives in them.
fn strike_leftovers() -> anyhow::Result<()> {
    // There is no such folder before the first namespace.
    let Ok(entries) = std::fs::read_dir(NAMES_FOLDER) else { return Ok(()) };
    for entry in entries {
        let name = entry.context("cannot read the names of namespaces")?.file_name();
        let Some(name) = name.to_str() else { continue };
        if let Some(pid) = owner(name)
            && !Path::new("/proc").join(pid).exists()
        {
            // Nobody but that run has started what lives in there.
            for process in run(&["ip", "netns", "pids", name]).lines() {
                let process = process.parse().ok().and_then(Pid::from_raw);
                // It may have ended in this moment.
                let _ended = process.map(|process| kill_process(process, Signal::KILL));
            }
            run(&["ip", "netns", "del", name]);
        }
    }
    Ok(())
}

/// The process id in `swb-LABEL-PID-N`.
fn owner(name: &str) -> Option<&str> {
    let mut parts = name.strip_prefix(PREFIX)?.strip_prefix('-')?.rsplit('-');
    let _number = parts.next()?;
    parts.next().filter(|pid| pid.parse::<u32>().is_ok())
}

fn parse_mac(text: &str) -> anyhow::Result<[u8; 6]> {
    let bytes: Vec<u8> = text.split(':').map_while(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    ensure!(bytes.len() == 6, "{text} is no Ethernet address");
    let mut mac = [0; 6];
    mac.copy_from_slice(&bytes);
    Ok(mac)
}

#[cfg(test)]
mod tests {
    use super::{owner, parse_mac};

    #[test]
    fn only_our_own_namespaces_have_an_owner() {
        assert_eq!(owner("swb-callers-123-0"), Some("123"));
        assert_eq!(owner("swt-callers-123-0"), None);
        assert_eq!(owner("swb-callers"), None);
        assert_eq!(owner("swb-x-y-0"), None);
    }

    #[test]
    fn ethernet_addresses_are_read_and_others_refused() {
        assert_eq!(parse_mac("02:00:5e:00:ff:01").expect("an address"), [2, 0, 0x5e, 0, 0xff, 1]);
        assert!(parse_mac("02:00:5e:00:ff").is_err());
        assert!(parse_mac("02:00:5e:00:ff:zz").is_err());
    }
}
