//! What follows from the configuration and the number of queues alone: sizes, settings of the XDP program, and the
//! parts of a lane. Nothing here touches an interface.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use afxdp::{CopyMode, FrameBudget, MappedWords, PortConfig, UmemConfig};
use anyhow::Context;
use overload::{
    AdmittedCalls, AnyGate, CallQueue, ConfigError, Credit, CreditConfig, GateConfig, GateTimes,
    HystereticConfig, Pace, QueueCapacity, RandomConfig, RateConfig, VirtualQueue,
};
use sip::{Class, TransactionKey};
use xdp_prog::LINK_ADDRESSES_MAX;

use crate::change::LaneChange;
use crate::config::{Config, Frames, GateKind, HandoffKind, Monitored, NotSip, Service, Taken};
use crate::counters::LaneCounters;
use crate::handoff::Handoff;
use crate::handoff::kernel::Watches;
use crate::lane::Lane;
use crate::limits::SourceLimits;
use crate::monitor::Monitor;
use crate::netdev::Stack;
use crate::picks::Picks;
use crate::reply_policy::{ReplyPolicy, ReplyRules};
use crate::{clock, sock_diag};

/// Retries of a bind that finds the queue busy: a socket that was just closed lets go asynchronously.
pub(super) const BUSY_RETRY_NS: u64 = 3_000_000_000;
/// Messages of control and copies that can wait per lane, besides the originals. Control holds what the
/// server lacks credit for at that moment; copies are served last and may be lost.
const CONTROL_PLACES: u32 = 1024;
const COPY_PLACES: u32 = 128;
/// Frames in the worker's hands within a turn, beside the one batch that the budget counts anyway: control
/// messages between ring and queue.
const IN_HAND: u32 = crate::worker::IN_HAND_MAX as u32;
/// Places for originals without which no gate has three levels to tell apart.
const NEW_PLACES_MIN: u32 = 16;
/// How often the server's sockets are searched for anew: new members of a SO_REUSEPORT group count after it.
const RESCAN_INTERVAL_NS: u64 = 1_000_000_000;

/// Says what makes a configuration unusable with any number of queues, beyond what its values say one by one.
///
/// # Errors
///
/// When there are too few frames, or thresholds that no waiting queue can have.
pub fn check(config: &Config) -> anyhow::Result<()> {
    let plan = Plan::new(config, 1)?;
    for (name, service) in &config.service {
        plan.any_gate(name, service)?;
    }
    Ok(())
}

/// Originals of a service that can wait at each RX queue.
///
/// # Errors
///
/// When there are too few frames.
pub fn places(config: &Config) -> anyhow::Result<u32> {
    Ok(Plan::new(config, 1)?.new_places)
}

/// What follows from the configuration and the number of queues alone.
pub(super) struct Plan {
    pub(super) port: PortConfig,
    pub(super) queues: u32,
    /// Originals that can wait per lane: what the frame budget leaves.
    new_places: u32,
    pub(super) kernel_handoff: bool,
    pub(super) lane_of_service: Vec<u8>,
}

impl Plan {
    pub(super) fn new(config: &Config, queues: u32) -> anyhow::Result<Self> {
        let frames = &config.frames;
        let port = port_config(frames, config.xdp.zero_copy);
        let kernel_handoff = config.needs_handoff_device();
        let lanes = config.service.len() as u32;
        let tx_egress = if kernel_handoff { frames.ring_tx } else { 0 };
        // What is left after rings and the least number of places is for originals, shared by the lanes.
        let fixed = FrameBudget::of(
            &port,
            lanes * (CONTROL_PLACES + NEW_PLACES_MIN + COPY_PLACES) + IN_HAND,
            tx_egress,
            nic_ring(config),
        );
        let spare = fixed.check().context("frames.count")?;
        let new_places = NEW_PLACES_MIN + spare / lanes.max(1);
        let lane_of_service = config
            .service
            .values()
            .enumerate()
            .flat_map(|(lane, service)| std::iter::repeat_n(lane as u8, service.listen.0.len()))
            .collect();
        Ok(Self { port, queues, new_places, kernel_handoff, lane_of_service })
    }

    /// `stack` is what the host takes from the interface.
    pub(super) fn settings(&self, config: &Config, stack: Stack, key: &TransactionKey) -> xdp_prog::Settings {
        let mut link_addresses = stack.link_addresses;
        if let Taken::Listed(listed) = &config.xdp.link_addresses {
            link_addresses.splice(1..1, listed.iter().map(|address| address.0));
        }
        if link_addresses.len() > LINK_ADDRESSES_MAX {
            tracing::warn!(
                left_out = link_addresses.len() - LINK_ADDRESSES_MAX,
                "more Ethernet addresses on the interface than can be told apart; frames to those left out pass \
                 unguarded. Set xdp.link_addresses = \"any\" to take all"
            );
            link_addresses.truncate(LINK_ADDRESSES_MAX);
        }
        let single_ring = config.service.values().all(|service| service.gate.kind == GateKind::Fifo);
        xdp_prog::Settings {
            hash_key: xdp_prog::HashKey(Box::new(*key.words())),
            services: addresses(config),
            monitored: monitored(config),
            monitored_partly: monitored_partly(config),
            list_room: config.lists.room,
            max_frame_len: self.port.umem.packet_len_max(),
            link_addresses: (config.xdp.link_addresses != Taken::Any).then_some(link_addresses),
            vlans: match &config.xdp.vlans {
                Taken::Host => Some(stack.vlans),
                Taken::Any => None,
                Taken::Listed(listed) => Some(listed.iter().copied().collect()),
            },
            not_sip_drop: config.xdp.not_sip == NotSip::Drop,
            single_ring,
            emergency_numbers: config.privileges.number_keys(),
            probers: config.privileges.networks(),
            transaction_buckets: if single_ring { 0 } else { config.transactions.buckets() },
        }
    }

    /// The settings of a changed configuration: what the running program can be told is new, the rest as it was.
    pub(super) fn change_settings(before: &xdp_prog::Settings, config: &Config) -> xdp_prog::Settings {
        xdp_prog::Settings {
            services: addresses(config),
            monitored: monitored(config),
            monitored_partly: monitored_partly(config),
            not_sip_drop: config.xdp.not_sip == NotSip::Drop,
            emergency_numbers: config.privileges.number_keys(),
            probers: config.privileges.networks(),
            ..before.clone()
        }
    }

    fn gate(&self, service: &Service) -> GateConfig {
        let gate = &service.gate;
        match gate.kind {
            GateKind::Hysteretic => GateConfig::Hysteretic(HystereticConfig {
                admit_below: self.per_worker(gate.low.0),
                shed_at: self.per_worker(gate.high.0),
                discard_at: self.per_worker(gate.buffer.0),
                share: gate.admit,
            }),
            GateKind::Random => GateConfig::Random(RandomConfig {
                low: self.per_worker(gate.low.0),
                high: self.per_worker(gate.high.0),
                buffer: self.per_worker(gate.buffer.0),
                weight: gate.weight,
                initial_probability: gate.initial_probability,
            }),
            GateKind::TailDrop => GateConfig::TailDrop { buffer: self.per_worker(gate.buffer.0) },
            GateKind::Fifo => GateConfig::Fifo { buffer: self.per_worker(gate.buffer.0) },
        }
    }

    fn any_gate(&self, name: &str, service: &Service) -> anyhow::Result<AnyGate> {
        AnyGate::new(&self.gate(service), self.new_places, service.initial_rate / f64::from(self.queues))
            .with_context(|| format!("service.{name}.gate"))
    }

    /// A count of messages is divided among the workers; a time is not, since each measures its own rate.
    fn per_worker(&self, threshold: overload::Threshold) -> overload::Threshold {
        match threshold {
            overload::Threshold::Messages(n) => overload::Threshold::Messages(n.div_ceil(self.queues).max(1)),
            time @ overload::Threshold::Time(_) => time,
        }
    }

    /// A watch for each port of the service. With several addresses on one port any socket there counts, since
    /// one wildcard socket may serve them all.
    pub(super) fn watches(service: &Service, device: u32) -> anyhow::Result<Watches> {
        let mut ports: BTreeMap<u16, Vec<Option<IpAddr>>> = BTreeMap::new();
        for (address, port) in &service.listen.0 {
            ports.entry(*port).or_default().push(*address);
        }
        let watch = |(port, addresses): (u16, Vec<Option<IpAddr>>)| {
            let address = if addresses.len() == 1 { addresses[0] } else { None };
            sock_diag::Watch::open(sock_diag::Service { address, port, device }, RESCAN_INTERVAL_NS)
        };
        let watches =
            ports.into_iter().map(watch).collect::<Result<_, _>>().context("cannot watch the server")?;
        Ok(Watches::new(watches))
    }

    /// The first guess of a worker's part of the rate.
    fn first_rate(&self, service: &Service) -> RateConfig {
        let initial_per_s = service.initial_rate / f64::from(self.queues);
        RateConfig { initial_per_s, ..RateConfig::default() }
    }

    /// The line that would wait, if originals of a service are only watched. `lane` is its number.
    fn monitor(
        &self,
        lane: usize,
        service: &Service,
        words: &Arc<MappedWords>,
        rx_queue: u32,
    ) -> Option<Monitor> {
        let numbers =
            (0..self.lane_of_service.len()).filter(|n| usize::from(self.lane_of_service[*n]) == lane);
        let queue = VirtualQueue::new(self.first_rate(service), clock::now());
        let is_watched = service.monitored().has(Class::Original);
        is_watched.then(|| Monitor::new(Arc::clone(words), numbers, rx_queue, queue))
    }

    /// What of a lane can change while it runs, as the configuration wants it. `lane` is its number.
    pub(super) fn change(
        &self,
        lane: usize,
        name: &str,
        service: &Service,
        arrivals: &Arc<MappedWords>,
        rx_queue: u32,
    ) -> anyhow::Result<LaneChange> {
        let credit = CreditConfig {
            target_messages: match service.handoff {
                HandoffKind::Kernel => service.server.queue_target,
                HandoffKind::Embedded => service.embedded.queue,
            },
            down_after_ns: service.server.down_after.nanos(),
            // An embedded processor is its worker's own.
            workers: if service.handoff == HandoffKind::Kernel { self.queues } else { 1 },
            only_monitors: service.monitored().has(Class::Original),
            rate: self.first_rate(service),
        };
        ConfigError::check(credit.check()).with_context(|| format!("service.{name}.server"))?;
        Ok(LaneChange {
            gate: self.any_gate(name, service)?,
            credit,
            reply: ReplyRules::of_service(service),
            caps: service.limits.table(),
            max_wait_ns: if service.gate.kind.is_control() { service.max_wait.nanos() } else { u64::MAX },
            copy_wait_ns: service.max_wait.nanos(),
            monitored: service.monitored(),
            monitor: self.monitor(lane, service, arrivals, rx_queue),
        })
    }

    /// A lane that begins by this configuration.
    pub(super) fn lane(
        &self,
        name: &str,
        handoff: Handoff,
        picks: Option<Picks>,
        begin: LaneChange,
    ) -> anyhow::Result<Lane> {
        let now_ns = clock::now();
        let LaneChange { gate, credit, reply, caps, max_wait_ns, copy_wait_ns, monitored, monitor } = begin;
        let discipline = overload::Gate::discipline(&gate);
        let capacity = QueueCapacity { control: CONTROL_PLACES, new: self.new_places, copy: COPY_PLACES };
        Ok(Lane {
            name: name.into(),
            queue: CallQueue::new(discipline, capacity),
            gate,
            gate_times: GateTimes::new(now_ns),
            credit: Credit::new(credit, now_ns).with_context(|| format!("service.{name}.server"))?,
            handoff,
            mix: overload::Mix::default(),
            reply: ReplyPolicy::new(reply, clock::epoch(), now_ns),
            inquiry: overload::Inquiry::default(),
            limits: SourceLimits::new(caps),
            calls: AdmittedCalls::default(),
            max_wait_ns,
            copy_wait_ns,
            counters: Arc::new(LaneCounters::default()),
            monitored,
            monitor,
            picks,
            orders: Arc::default(),
            pace: Pace::new(now_ns),
            is_silent: false,
            looked_ns: 0,
        })
    }
}

/// The addresses of all services, in the order of their numbers.
fn addresses(config: &Config) -> Vec<xdp_prog::ServiceAddress> {
    let of_service = |service: &Service| {
        let reply_owed = ReplyRules::of_service(service).answers_anybody();
        let addresses = service.listen.0.iter();
        let addresses =
            addresses.map(|(ip, port)| xdp_prog::ServiceAddress { ip: *ip, port: *port, reply_owed });
        addresses.collect::<Vec<_>>()
    };
    config.service.values().flat_map(of_service).collect()
}

/// One bit for each address of the services that are only watched.
fn monitored(config: &Config) -> u64 {
    bits_of(config, Monitored::is_all)
}

/// One bit for each address of the services of which some classes are only watched.
fn monitored_partly(config: &Config) -> u64 {
    bits_of(config, |monitored| monitored != Monitored::NONE && !monitored.is_all())
}

fn bits_of(config: &Config, is: impl Fn(Monitored) -> bool) -> u64 {
    let of_service = |service: &Service| {
        let (is, addresses) = (is(service.monitored()), service.listen.0.len());
        std::iter::repeat_n(is, addresses)
    };
    (0..).zip(config.service.values().flat_map(of_service)).fold(0, |bits, (n, is)| bits | u64::from(is) << n)
}

fn port_config(frames: &Frames, zero_copy: bool) -> PortConfig {
    PortConfig {
        umem: UmemConfig { frames: frames.count, frame_size: frames.size, headroom: 0, huge_pages: false },
        rx_ring_sizes: [frames.ring_control, frames.ring_new, frames.ring_retransmission, frames.ring_reject],
        fill_ring_size: frames.ring_fill,
        tx_ring_size: frames.ring_tx,
        copy_mode: if zero_copy { CopyMode::ZeroCopy } else { CopyMode::Copy },
        need_wakeup: true,
        busy_poll: None,
        busy_retry_ns: BUSY_RETRY_NS,
    }
}

/// In zero-copy mode the NIC's own ring holds frames too; the usual upper bound of drivers.
fn nic_ring(config: &Config) -> u32 {
    if config.xdp.zero_copy { 1024 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::{NEW_PLACES_MIN, Plan, check};
    use crate::config::Config;

    #[test]
    fn the_advice_for_too_few_frames_is_right_at_once_for_any_number_of_services() {
        for services in [1, 2, 64] {
            let mut text = "interface = \"eth0\"\n".to_owned();
            for service in 0..services {
                let port = 5060 + service;
                text += &format!("[service.s{service}]\nlisten = \"*:{port}\"\nhandoff = \"kernel\"\n");
            }
            let mut config = Config::parse("test.toml", &text).expect("valid");
            config.frames.count = 1024;
            let said = format!("{:#}", check(&config).expect_err("too few"));
            assert!(said.starts_with("frames.count: 1024 frames"), "{said}");
            let (_, advice) = said.split_once("to at least ").expect("a number to raise it to");
            let enough: u32 = advice.split(',').next().and_then(|n| n.parse().ok()).expect("a number");
            config.frames.count = enough - 1;
            check(&config).expect_err("one less is not enough");
            config.frames.count = enough;
            check(&config).expect("what was said to be enough");
            assert_eq!(Plan::new(&config, 1).expect("fits").new_places, NEW_PLACES_MIN);
        }
    }
}
