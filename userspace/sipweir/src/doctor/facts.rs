//! What was read from the system, and what the configuration wants of it. Plain values: tests make them up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::config::{Config, XdpMode};
use crate::netdev::{Channels, Firewall, Offloads, Rings, XdpFeatures};
use crate::sip_helper::SipHelper;

/// Why something could not be read, as a part of a sentence: "/proc/x: permission denied".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread(pub String);

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What was read, or why not.
pub type Reading<T> = Result<T, Unread>;

/// Everything that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The kernel.
    pub kernel: Kernel,
    /// This process, which is taken for the one that will guard.
    pub process: Process,
    /// The rest of the host.
    pub host: Host,
    /// The interface; `None` if none was named.
    pub interface: Option<Result<Interface, Absent>>,
}

/// An interface that is not there or cannot be used, in the words of `netdev::Error`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// Its name.
    pub name: String,
    /// What is wrong with it.
    pub reason: String,
}

/// The kernel's abilities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// As `uname -r` says.
    pub release: Reading<String>,
    /// Whether it has AF_XDP sockets.
    pub af_xdp: Reading<bool>,
    /// Types of programs and maps that the kernel lacks, of those that sipweir uses.
    pub missing_bpf: Reading<Vec<String>>,
    /// What loading sipweir's own programs gave: nothing, or the error. They are not attached.
    pub load: Reading<Result<(), String>>,
    /// `net.core.bpf_jit_enable`.
    pub jit: Reading<u32>,
    /// `net.core.bpf_jit_harden`.
    pub jit_harden: Reading<u32>,
    /// Whether it has veth devices, or a module for them.
    pub veth: Reading<bool>,
}

/// Names of the capabilities that sipweir needs.
pub const CAPABILITIES: [&str; 5] =
    ["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_IPC_LOCK"];

/// The process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Which of [`CAPABILITIES`] it lacks.
    pub missing_capabilities: Reading<BTreeSet<&'static str>>,
    /// Whether it is in the initial user namespace.
    pub is_initial_user_namespace: Reading<bool>,
    /// The limit of locked memory, bytes; `None`: no limit.
    pub memlock: Reading<Option<u64>>,
    /// The cores it may run on.
    pub cores: Vec<usize>,
}

/// The network device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// Its driver, or the kind of a virtual device; `None`: not known.
    pub driver: Option<String>,
    /// The longest IP packet, bytes.
    pub mtu: u32,
    /// Whether it is up.
    pub up: bool,
    /// Whether it has carrier.
    pub carrier: bool,
    /// Receive queues in use.
    pub rx_queues: u32,
    /// Channels; `None`: the driver has no notion of them.
    pub channels: Reading<Option<Channels>>,
    /// Receive rings; `None`: the driver has no notion of them.
    pub rings: Reading<Option<Rings>>,
    /// Offloads that are on.
    pub offloads: Reading<Offloads>,
    /// What the driver says it can; `None`: the kernel is too old to say.
    pub xdp_features: Reading<Option<XdpFeatures>>,
    /// XDP programs that are on it.
    pub programs: Reading<Vec<Program>>,
    /// VLANs that the host has devices for.
    pub vlans: Reading<BTreeSet<u16>>,
    /// Whether filters of traffic control stand at its entrance.
    pub has_ingress_filters: Reading<bool>,
    /// The NUMA node it is on; `None`: the machine has one, or the device none.
    pub node: Reading<Option<u32>>,
    /// `rp_filter`: of all devices and its own; the larger counts.
    pub rp_filter: Reading<[u32; 2]>,
    /// The same of the hand-off device; `None`: there is none, as before the first start.
    pub handoff_rp_filter: Reading<Option<u32>>,
    /// `napi_defer_hard_irqs` and `gro_flush_timeout` in ns.
    pub deferred: Reading<(u32, u64)>,
}

/// An XDP program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its number.
    pub id: u32,
    /// Its name, if the kernel tells.
    pub name: Option<String>,
}

/// What belongs to neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The kernel's SIP helper, if it is at work.
    pub sip_helper: Reading<Option<SipHelper>>,
    /// The firewall as far as it asks about devices.
    pub firewall: Reading<Firewall>,
    /// Tables of legacy iptables.
    pub legacy_tables: Reading<Vec<String>>,
    /// The clock source, and those there are.
    pub clock: Reading<(String, Vec<String>)>,
    /// `net.core.busy_poll`, µs.
    pub busy_poll: Reading<u32>,
    /// `net.core.netdev_max_backlog`, packets.
    pub backlog: Reading<u32>,
    /// CPUs of the machine, whoever may use them.
    pub cpus: usize,
    /// Cores of each NUMA node; `None`: the kernel has no such notion.
    pub nodes: Reading<Option<BTreeMap<u32, Vec<usize>>>>,
}

/// What the configuration asks of the host; without one, what the defaults do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// How the program is to be attached.
    pub mode: XdpMode,
    /// Zero-copy AF_XDP.
    pub zero_copy: bool,
    /// Cores, if named.
    pub cores: Option<Vec<usize>>,
    /// Bytes of frames that a queue locks.
    pub locked_per_queue: u64,
    /// Bytes of a frame.
    pub frame_size: u32,
    /// Entries of the hand-off's TX ring.
    pub ring_tx: u32,
    /// Whether a service is handed over through the kernel.
    pub kernel_handoff: bool,
    /// Guarded UDP ports.
    pub ports: BTreeSet<u16>,
}

impl Wanted {
    /// What this configuration asks for.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self {
            mode: config.xdp.mode,
            zero_copy: config.xdp.zero_copy,
            cores: config.workers.cores.clone(),
            locked_per_queue: u64::from(config.frames.count) * u64::from(config.frames.size),
            frame_size: config.frames.size,
            ring_tx: config.frames.ring_tx,
            kernel_handoff: config.needs_handoff_device(),
            ports: config
                .service
                .values()
                .flat_map(|service| service.listen.0.iter().map(|(_, port)| *port))
                .collect(),
        }
    }
}

impl Default for Wanted {
    /// The defaults, with a server on port 5060 of this host.
    fn default() -> Self {
        let frames = crate::config::Frames::default();
        Self {
            mode: XdpMode::Auto,
            zero_copy: false,
            cores: None,
            locked_per_queue: u64::from(frames.count) * u64::from(frames.size),
            frame_size: frames.size,
            ring_tx: frames.ring_tx,
            kernel_handoff: true,
            ports: [5060].into(),
        }
    }
}
