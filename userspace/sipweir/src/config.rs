//! What an operator may set: one typed tree, each key with unit, default and reason.
//!
//! `docs/example.toml` is the commented manual of these keys; a test parses it. Reading a file
//! ([`Config::read`]) reports *all* problems at once with their key paths: unknown keys, values of the
//! wrong type, and relations between values ([`check`]). Nothing here touches the machine: whether an
//! interface or a core exists is for set-up to find out.

mod capture;
mod check;
pub mod keys;
mod limits;
mod lists;
mod metrics;
mod monitor;
mod notation;
mod peer;
mod read;
mod server;
mod value;

pub use capture::{Capture, Collector};
pub use limits::{LimitKey, Limits, PeerLimits};
pub use lists::Lists;
pub use metrics::{Metrics, MetricsListen};
pub use monitor::{MonitorClasses, Monitored, ServiceMode};
pub use peer::Peer;
pub use read::{ConfigError, Problem};
pub use server::Server;
pub use value::{EmergencyNumber, Limit, LinkAddress, Listen, Mode, Network, Rate, Span, Taken};

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The whole configuration of one instance: one interface, one or more services on it.
#[derive(Debug, Clone, Deserialize, JsonSchema, Serialize)]
pub struct Config {
    /// Network interface that the SIP packets come in by.
    pub interface: String,
    /// How the XDP program is attached and what it does on its own.
    #[serde(default)]
    pub xdp: Xdp,
    /// Threads and cores.
    #[serde(default)]
    pub workers: Workers,
    /// UMEM frames and ring sizes, per NIC queue.
    #[serde(default)]
    pub frames: Frames,
    /// What is remembered of requests, to know their copies.
    #[serde(default)]
    pub transactions: Transactions,
    /// Requests that are never shed.
    #[serde(default)]
    pub privileges: Privileges,
    /// Whose packets are dropped, and whose are not all the same.
    #[serde(default)]
    pub lists: Lists,
    /// The Unix socket that `sipweir status` asks.
    #[serde(default)]
    pub control: Control,
    /// Metrics for Prometheus and its like; off by default.
    #[serde(default)]
    pub metrics: Option<Metrics>,
    /// Export of refused messages to a HEP collector; off by default.
    #[serde(default)]
    pub capture: Option<Capture>,
    /// Secret of the transaction hash, 64 hex digits; nodes that share traffic share it. Default: random at
    /// each start.
    // A secret never leaves by a document.
    #[serde(default, skip_serializing)]
    pub seed: Option<value::Seed>,
    /// The guarded services by name.
    #[serde(default)]
    pub service: BTreeMap<String, Service>,
    /// The file that it was read from, to be read again by a reload.
    #[serde(skip)]
    pub file: Option<PathBuf>,
}

impl Config {
    /// Whether messages are handed over through the kernel: not by embedded services, nor by those of which all is only
    /// watched.
    #[must_use]
    pub fn needs_handoff_device(&self) -> bool {
        let mut services = self.service.values();
        services.any(|service| service.handoff == HandoffKind::Kernel && !service.monitored().is_all())
    }
}

/// Attachment and kernel-side choices.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Xdp {
    /// `auto` (default): native if the driver can, else generic.
    pub mode: XdpMode,
    /// Zero-copy AF_XDP. Default false: copy mode works everywhere, and some drivers' zero-copy has
    /// corrupted memory in public reports.
    pub zero_copy: bool,
    /// What becomes of datagrams to a service that are not SIP: `pass` (default) to the kernel, or `drop`.
    pub not_sip: NotSip,
    /// Ethernet addresses of frames that are taken: `host` (default), those of the interface and of devices on it;
    /// `any`; or a list that counts beside those of the host. Other frames pass.
    pub link_addresses: Taken<LinkAddress>,
    /// VLANs of frames that are taken besides untagged ones: `host` (default), those that the host has a device for on
    /// the interface; `any`; or a list. Other frames pass.
    pub vlans: Taken<u16>,
}

/// Where in the receive path the program runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum XdpMode {
    /// Native if the driver has it, generic otherwise; what was obtained is reported.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// In the network stack, for drivers without XDP.
    Generic,
}

/// Fate of what is not SIP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NotSip {
    /// The server may answer it as it likes.
    #[default]
    Pass,
    /// Dropped in the XDP program.
    Drop,
}

/// Threads: one worker per RX queue of the interface.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Workers {
    /// CPU cores, one per RX queue, in queue order. Default: the cores of the machine from the last one
    /// downwards, so that core 0, which takes most interrupts, comes last.
    pub cores: Option<Vec<usize>>,
    /// What a worker does when nothing is left to do: `sleep` (default) in poll, or `spin`.
    pub idle: Idle,
}

/// Behaviour of a worker without work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Idle {
    /// Sleep in poll(2), but not between packets that come within some 50 us: no CPU when idle, a whole core from 20,000
    /// packets a second on, some microseconds more delay below.
    #[default]
    Sleep,
    /// Busy loop: the lowest delay, a whole core always.
    Spin,
}

/// UMEM and rings of one NIC queue. All counts are frames; ring sizes are powers of two.
#[derive(Debug, Clone, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Frames {
    /// Frames per queue. Memory per queue is `count * size`. Too few: start is refused with the sum.
    pub count: u32,
    /// Bytes per frame, 2048 or 4096. Packets longer than `size - 512` take the side door.
    pub size: u32,
    /// RX ring for responses, ACK, CANCEL, in-dialog, emergency.
    pub ring_control: u32,
    /// RX ring for originals.
    pub ring_new: u32,
    /// RX ring for copies. Small on purpose: a full ring costs nothing, a large one takes frames away.
    pub ring_retransmission: u32,
    /// RX ring for originals that the gate shed and that get a reply. Small and lossy.
    pub ring_reject: u32,
    /// TX ring of the NIC queue (replies) and of the hand-off device.
    pub ring_tx: u32,
    /// Fill ring; the frames that wait for packets.
    pub ring_fill: u32,
    /// Messages larger than a frame that can wait, in buffers of 64 KiB. Not per queue: one worker has the side door.
    pub large: u32,
}

impl Default for Frames {
    fn default() -> Self {
        Self {
            count: 16_384,
            size: 2048,
            ring_control: 512,
            ring_new: 1024,
            ring_retransmission: 64,
            ring_reject: 512,
            ring_tx: 512,
            ring_fill: 2048,
            large: 256,
        }
    }
}

/// The transaction table.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Transactions {
    /// MiB, a power of two up to 256; 0: no table, and copies are known by their marker only. One MiB remembers
    /// 131,072 requests for 32 s, and none is lost while at most half of that is in use: 2048 requests a second.
    pub memory_mib: u32,
}

impl Default for Transactions {
    fn default() -> Self {
        Self { memory_mib: 16 }
    }
}

impl Transactions {
    /// Buckets of the table.
    #[must_use]
    pub const fn buckets(self) -> u32 {
        self.memory_mib * (1024 * 1024 / 64)
    }
}

/// Requests that are never shed, beside those that say so themselves (`urn:service:sos`, Resource-Priority).
#[derive(Debug, Clone, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Privileges {
    /// User parts of Request-URIs that make an emergency call, such as "112"; none by default.
    pub emergency_numbers: Vec<EmergencyNumber>,
    /// Networks whose OPTIONS ask whether the server is there, such as "192.0.2.0/28"; none by default.
    pub probers: Vec<Network>,
}

impl Privileges {
    /// The numbers as the XDP program compares them.
    #[must_use]
    pub fn number_keys(&self) -> Vec<u64> {
        self.emergency_numbers.iter().map(|number| number.0.key()).collect()
    }

    /// The networks as the XDP program's table takes them: address and bits.
    #[must_use]
    pub fn networks(&self) -> Vec<(std::net::IpAddr, u8)> {
        self.probers.iter().map(|network| (network.0.network(), network.0.bits())).collect()
    }
}

/// The control socket.
#[derive(Debug, Clone, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Control {
    /// Path of the Unix socket. Its directory is made if missing.
    pub socket: PathBuf,
    /// Who may connect, as the permissions of a file: owner, group, others. Default `0660`.
    pub mode: Mode,
    /// Group that the socket is given to, by name or number, such as that of those who watch. sipweir's user must be in it, or
    /// have CAP_CHOWN. Default: that of the process.
    pub group: Option<String>,
}

impl Default for Control {
    fn default() -> Self {
        Self { socket: PathBuf::from("/run/sipweir/control.sock"), mode: Mode(0o660), group: None }
    }
}

/// One guarded service and the server behind it.
#[derive(Debug, Clone, Deserialize, JsonSchema, Serialize)]
pub struct Service {
    /// Local addresses and UDP ports, `"192.0.2.1:5060"`, `"[2001:db8::1]:5060"` or `"*:5060"` for any.
    pub listen: Listen,
    /// Who processes the requests.
    pub handoff: HandoffKind,
    /// `enforce` (default), or `monitor`: classify and count, and let everything pass.
    #[serde(default)]
    pub mode: ServiceMode,
    /// In monitor mode: the classes that are only watched. Default: all.
    #[serde(default)]
    pub monitor_classes: Option<MonitorClasses>,
    /// Longest wait of an original before it is answered instead of served late. Below T1 (500 ms), or
    /// serving doubles the work. Default 400 ms.
    #[serde(default = "default_max_wait")]
    pub max_wait: Span,
    /// Requests per second that the server is taken to serve until it has been measured. Thresholds in time
    /// rest on it during the first second under load. Default 1000.
    #[serde(default = "default_initial_rate")]
    pub initial_rate: f64,
    /// When to shed.
    #[serde(default)]
    pub gate: Gate,
    /// How much a source may send with privilege.
    #[serde(default)]
    pub limits: Limits,
    /// What those that are shed are told.
    #[serde(default)]
    pub reply: Reply,
    /// Local server behind the `kernel` hand-off.
    #[serde(default)]
    pub server: Server,
    /// Processor of the `embedded` hand-off.
    #[serde(default)]
    pub embedded: Embedded,
}

impl Service {
    /// The classes that are only watched.
    #[must_use]
    pub fn monitored(&self) -> Monitored {
        match (self.mode, &self.monitor_classes) {
            (ServiceMode::Enforce, _) => Monitored::NONE,
            (ServiceMode::Monitor, None) => Monitored::ALL,
            (ServiceMode::Monitor, Some(classes)) => classes.monitored(),
        }
    }
}

fn default_max_wait() -> Span {
    Span::from_millis(400)
}

fn default_initial_rate() -> f64 {
    1000.0
}

/// Kinds of hand-off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HandoffKind {
    /// An unmodified server on this host, reached through the kernel's IP stack.
    Kernel,
    /// A processor inside this process.
    Embedded,
}

impl HandoffKind {
    /// As written in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Embedded => "embedded",
        }
    }
}

/// The overload gate of a service. Thresholds are messages (`700`) or time at the measured service rate
/// (`"350ms"`), split evenly among the workers.
#[derive(Debug, Clone, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Gate {
    /// Which gate. Default `hysteretic`.
    pub kind: GateKind,
    /// L: back to `normal` when fewer wait. `random`, Tmin: all are admitted while fewer wait on the average.
    pub low: Limit,
    /// H: `overload` when this many wait. `random`, Tmax: none is admitted while more wait on the average.
    pub high: Limit,
    /// B: `discard` when this many wait. The only threshold of `fifo` and `tail_drop`.
    pub buffer: Limit,
    /// q: share of originals admitted in `overload`, 0 to 1. `hysteretic` only.
    pub admit: f64,
    /// w: part of the average that each request renews, above 0 and up to 1. `random` only. Default 0.5, in the middle
    /// of what has been published as stable.
    pub weight: f64,
    /// P0: probability of a refusal when the average reaches `low`, 0 to 1. `random` only. Default 0.16.
    pub initial_probability: f64,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            kind: GateKind::Hysteretic,
            low: Limit::time_ms(200),
            high: Limit::time_ms(250),
            buffer: Limit::time_ms(350),
            admit: 0.5,
            weight: 0.5,
            initial_probability: 0.16,
        }
    }
}

impl Gate {
    /// The share of originals that is admitted when `overload` begins.
    #[must_use]
    pub const fn share_in_overload(&self) -> f64 {
        match self.kind {
            GateKind::Random => 1.0 - self.initial_probability,
            GateKind::Hysteretic | GateKind::TailDrop | GateKind::Fifo => self.admit,
        }
    }
}

/// Kinds of gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GateKind {
    /// Two thresholds and a discard level: M|G|1|<L,H>|B.
    #[default]
    Hysteretic,
    /// Two thresholds on a weighted average, refusals by chance in between.
    Random,
    /// Strict priority and a buffer, no control: originals beyond the buffer are dropped.
    TailDrop,
    /// One queue without classes; the baseline that collapses.
    Fifo,
}

impl GateKind {
    /// As written in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hysteretic => "hysteretic",
            Self::Random => "random",
            Self::TailDrop => "tail_drop",
            Self::Fifo => "fifo",
        }
    }

    /// Whether it controls the load, by answers to those that it refuses. The baselines only let a buffer overflow.
    #[must_use]
    pub const fn is_control(self) -> bool {
        matches!(self, Self::Hysteretic | Self::Random)
    }
}

/// Stateless replies for originals that are shed.
#[derive(Debug, Clone, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Reply {
    /// Status code: 503 (default), 500 or 480, or 0 for silence.
    pub code: u16,
    /// Most replies per second and worker; beyond it the shed ones are dropped silently. Default 50000.
    pub rate: u32,
    /// Most replies per second and worker to one address (IPv6: to one /64), and as many at once: senders may be
    /// forged, and nobody shall be flooded in our name. Default 5000: a trunk far above capacity is still answered.
    pub per_destination: u32,
    /// Retry-After in replies to REGISTER: seconds from and to, by chance within. Default none.
    pub retry_after_register: Option<[u32; 2]>,
    /// How long what clients with overload control (RFC 7339) are told holds. Default 500 ms.
    pub oc_validity: Span,
    /// Peers by network that are treated differently; the longest prefix wins.
    pub peers: BTreeMap<String, Peer>,
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            code: 503,
            rate: 50_000,
            per_destination: 5000,
            retry_after_register: None,
            oc_validity: Span::from_millis(500),
            peers: BTreeMap::new(),
        }
    }
}

/// The answering processor that ships with sipweir: answers every request after a service time. For demos,
/// trials and measurements; programs bring their own through `sipweir::processor::Processor`.
#[derive(Debug, Clone, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Embedded {
    /// Requests per second that it serves. Default 2000.
    pub capacity: f64,
    /// Law of the service time. Default exponential.
    pub service_time: ServiceTime,
    /// Places in the bounded queue between worker and processor. Default 32.
    pub queue: u32,
    /// Its capacity from the first request on for `slow_for`, to try a slowdown. Default as always.
    pub slow_capacity: Option<f64>,
    /// How long it is slow. Default 30 s.
    pub slow_for: Span,
}

impl Default for Embedded {
    fn default() -> Self {
        Self {
            capacity: 2000.0,
            service_time: ServiceTime::Exponential,
            queue: 32,
            slow_capacity: None,
            slow_for: Span::from_millis(30_000),
        }
    }
}

/// Laws of the embedded processor's service time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceTime {
    /// Every request takes the mean.
    Constant,
    /// Exponentially distributed.
    #[default]
    Exponential,
}

impl Config {
    /// Reads and checks a configuration file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or is no TOML, or with every problem in it at once.
    pub fn read(path: &std::path::Path) -> Result<Self, ConfigError> {
        read::read(path)
    }

    /// Reads and checks a configuration from text; `name` stands for the file in messages.
    ///
    /// # Errors
    ///
    /// As [`Config::read`].
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        read::parse(name, text)
    }
}

#[cfg(test)]
mod tests;
