//! One run, from set-up to tear-down, in the order that keeps the server reachable at every moment.
//!
//! Set-up: control socket (the lock) → interface → XDP program loaded and attached, passing everything since
//! its socket map is empty → hand-off device → per queue: UMEM, rings, lanes, worker thread → sockets into
//! the map: from here on the workers serve. Tear-down is the reverse and starts with detaching, so that new
//! packets go to the kernel while the workers finish what they hold. If the process dies at any point, the
//! kernel closes link and sockets: packets pass.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use afxdp::{
    CopyMode, EgressConfig, EgressPort, FrameBudget, MappedWords, PortConfig, QueuePort, UmemConfig,
};
use anyhow::Context;
use overload::{
    AnyGate, CallQueue, Credit, CreditConfig, GateConfig, HystereticConfig, QueueCapacity, RateConfig,
    TokenBucket,
};
use sip::{Class, Reason, ReplyLine, Seed, Verdict};

use crate::config::{Config, Frames, GateKind, HandoffKind, Idle, NotSip, Service, XdpMode};
use crate::control::Control;
use crate::counters::{LaneCounters, WorkerCounters};
use crate::handoff::Handoff;
use crate::handoff::embedded::Exchange;
use crate::handoff::kernel::{Egress, Server, Watches};
use crate::lane::{Lane, ReplyPolicy};
use crate::netdev;
use crate::processor::{Answerer, Processor};
use crate::status;
use crate::wake::Wake;
use crate::worker::{Parts, Worker};
use crate::{clock, cores, sock_diag};

/// Retries of a bind that finds the queue busy: a socket that was just closed lets go asynchronously.
const BUSY_RETRY_NS: u64 = 3_000_000_000;
/// Messages of control and copies that can wait per lane, besides the originals. Control holds what the
/// server lacks credit for at that moment; copies are served last and may be lost.
const CONTROL_PLACES: u32 = 1024;
const COPY_PLACES: u32 = 128;
/// Frames in the worker's hands within a turn, beside the one batch that the budget counts anyway: control messages
/// between ring and queue.
const IN_HAND: u32 = crate::worker::IN_HAND_MAX as u32;
/// How often the server's sockets are searched for anew: new members of a SO_REUSEPORT group count after it.
const RESCAN_INTERVAL_NS: u64 = 1_000_000_000;
/// How often the main thread looks after workers and interface.
const SUPERVISION: Duration = Duration::from_millis(250);

/// Makes the processors of `embedded` services: (service name, share 1/n, number of the worker).
pub type ProcessorFactory = dyn Fn(&str, u32, u32) -> Box<dyn Processor>;

/// Runs an instance with the answering processor that ships with sipweir behind its `embedded` services.
///
/// # Errors
///
/// When set-up fails, or when the run ends for another reason than a signal.
pub fn run(config: &Config) -> anyhow::Result<()> {
    let services = config.service.clone();
    run_with(config, &move |name, share, worker| {
        Box::new(Answerer::new(&services[name].embedded, share, u64::from(worker)))
    })
}

/// Runs an instance with your own processors behind its `embedded` services, until SIGTERM or SIGINT.
///
/// # Errors
///
/// As [`run`].
pub fn run_with(config: &Config, processors: &ProcessorFactory) -> anyhow::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot catch signals")?;
    }
    let control = Control::bind(&config.control.socket)?;
    let instance = Instance::set_up(config, processors)?;
    let served = instance.view(config).and_then(|view| {
        let status = move || serde_json::to_string(&view.read()).unwrap_or_default();
        control.serve(status).context("cannot start the control thread")
    });
    let serving = match served {
        Ok(serving) => serving,
        Err(error) => {
            // The first error is the one that counts.
            let _ended = instance.tear_down();
            return Err(error);
        }
    };
    instance.log_ready(config);
    let reason = instance.supervise(&stop);
    let outcome = instance.tear_down();
    drop(serving);
    match reason {
        None => outcome,
        Some(reason) => Err(anyhow::anyhow!(reason)),
    }
}

struct Running {
    thread: std::thread::JoinHandle<u32>,
    wake: Arc<Wake>,
    queue: u32,
    core: usize,
    counters: Arc<WorkerCounters>,
}

/// Everything that lives while an instance runs. Fields are dropped in this order.
struct Instance {
    attached: xdp_prog::Attached,
    workers: Vec<Running>,
    stop: Arc<AtomicBool>,
    lanes: Vec<(String, Vec<Arc<LaneCounters>>)>,
    classifier: xdp_prog::Classifier,
    device: Option<netdev::Handoff>,
    interface: netdev::Interface,
    mode: status::Mode,
}

impl Instance {
    fn set_up(config: &Config, processors: &ProcessorFactory) -> anyhow::Result<Self> {
        let interface = netdev::Interface::find(&config.interface)?;
        interface.require_up()?;
        let queues = interface.rx_queues;
        let cores =
            cores::choose(&config.interface, queues, config.workers.cores.as_deref(), &cores::available())?;
        let plan = Plan::new(config, queues)?;
        let seed = config.seed.as_ref().map_or_else(rand::random, |seed| seed.0);

        let classifier = xdp_prog::Classifier::load(&plan.settings(config, seed))?;
        let attach_mode = match config.xdp.mode {
            XdpMode::Auto => xdp_prog::AttachMode::Auto,
            XdpMode::Native => xdp_prog::AttachMode::Native,
            XdpMode::Generic => xdp_prog::AttachMode::Generic,
        };
        let attached = classifier
            .attach(interface.index.cast_signed(), attach_mode)
            .with_context(|| config.interface.clone())?;
        let words = xdp_prog::abi::SERVICES_MAX * xdp_prog::abi::QUEUES_MAX;
        let gates =
            Arc::new(MappedWords::map(classifier.gates_fd(), words).context("cannot map the gate words")?);
        let device = if plan.kernel_handoff {
            let device = netdev::Handoff::create(&interface, queues)?;
            if device.taken_over() {
                tracing::warn!(
                    device = device.transmit().name,
                    "took over the hand-off device of an earlier run"
                );
            }
            Some(device)
        } else {
            None
        };

        let mut instance = Self {
            mode: status::Mode { xdp: attached.mode().name().into(), ..Default::default() },
            attached,
            workers: Vec::new(),
            stop: Arc::new(AtomicBool::new(false)),
            lanes: config.service.keys().map(|name| (name.clone(), Vec::new())).collect(),
            classifier,
            device,
            interface,
        };
        for (queue, core) in (0..queues).zip(cores) {
            let started = instance.start_worker(config, &plan, Seed(seed), &gates, processors, queue, core);
            if let Err(error) = started {
                // What was started so far is ended in order; the first error is the one that counts.
                let _ended = instance.tear_down();
                return Err(error);
            }
        }
        Ok(instance)
    }

    #[allow(clippy::too_many_arguments, reason = "one caller; a struct would only rename the list")]
    fn start_worker(
        &mut self,
        config: &Config,
        plan: &Plan,
        seed: Seed,
        gates: &Arc<MappedWords>,
        processors: &ProcessorFactory,
        queue: u32,
        core: usize,
    ) -> anyhow::Result<()> {
        let wake = Arc::new(Wake::new().context("cannot make an eventfd")?);
        let (mut port, mode) = QueuePort::open(self.interface.index, queue, &plan.port)?;
        let egress = match &self.device {
            Some(device) => {
                let tx = EgressConfig { tx_ring_size: config.frames.ring_tx, busy_retry_ns: BUSY_RETRY_NS };
                let egress = EgressPort::open(&mut port, device.transmit().index, queue, &tx)?;
                Some(Egress::new(egress, tx.tx_ring_size, device.receive().mac, device.transmit().mac))
            }
            None => None,
        };
        let mut lanes = Vec::new();
        for (index, (name, service)) in config.service.iter().enumerate() {
            let handoff = match service.handoff {
                HandoffKind::Kernel => {
                    let device = self.device.as_ref().map_or(0, |device| device.receive().index);
                    Handoff::Kernel(Server::new(Box::new(Plan::watches(service, device)?)))
                }
                HandoffKind::Embedded => {
                    let processor = processors(name, plan.queues, queue);
                    let bytes = config.frames.size as usize;
                    let places = service.embedded.queue;
                    let title = format!("{name}-{queue}");
                    let exchange = Exchange::start(&title, processor, places, bytes, Arc::clone(&wake))
                        .context("cannot start a processor thread")?;
                    Handoff::Embedded(exchange)
                }
            };
            let lane = plan.lane(name, service, handoff)?;
            self.lanes[index].1.push(Arc::clone(&lane.counters));
            lanes.push(lane);
        }
        self.mode.af_xdp = if mode.copy_mode == CopyMode::ZeroCopy { "zero_copy" } else { "copy" }.into();
        self.mode.need_wakeup = mode.need_wakeup;
        self.mode.busy_poll = format!("{:?}", port.busy_poll()).to_lowercase();

        port.refill();
        for ring in 0..afxdp::RINGS {
            self.classifier.set_socket(queue as usize, ring, port.rx_fd(ring))?;
        }
        let counters = Arc::new(WorkerCounters::default());
        let parts = Parts {
            port,
            egress,
            lanes,
            lane_of_service: plan.lane_of_service.clone(),
            gates: Arc::clone(gates),
            queue,
            seed,
            wake: Arc::clone(&wake),
            stop: Arc::clone(&self.stop),
            spin: config.workers.idle == Idle::Spin,
            drop_not_sip: config.xdp.not_sip == NotSip::Drop,
            counters: Arc::clone(&counters),
        };
        let thread = std::thread::Builder::new()
            .name(format!("worker-q{queue}"))
            .spawn(move || {
                if !cores::pin(core) {
                    tracing::warn!(
                        queue,
                        core,
                        "cannot pin the worker to its core; it runs where the system puts it"
                    );
                }
                Worker::new(parts).run()
            })
            .context("cannot start a worker thread")?;
        self.workers.push(Running { thread, wake, queue, core, counters });
        Ok(())
    }

    fn log_ready(&self, config: &Config) {
        tracing::info!(
            interface = config.interface,
            queues = self.workers.len(),
            xdp = self.mode.xdp,
            af_xdp = self.mode.af_xdp,
            busy_poll = self.mode.busy_poll,
            control = %config.control.socket.display(),
            "guarding"
        );
    }

    /// Waits for a signal, a worker that ended, or an interface that went away. `None` after a signal.
    fn supervise(&self, stop: &AtomicBool) -> Option<String> {
        let mut transitions = vec![0; self.lanes.len()];
        let mut metadata = Metadata::Unchecked(Instant::now());
        while !stop.load(Ordering::Acquire) {
            std::thread::sleep(SUPERVISION);
            metadata.check(&self.classifier);
            if let Some(reason) = self.hand_off_lost() {
                return Some(reason);
            }
            if let Some(ended) = self.workers.iter().find(|worker| worker.thread.is_finished()) {
                let name = &self.interface.name;
                return Some(match netdev::Interface::find(name) {
                    Ok(found) if found.index == self.interface.index => {
                        format!("worker-q{} ended; the kernel takes over all packets", ended.queue)
                    }
                    _ => format!("interface {name} is gone; start again when it is back"),
                });
            }
            for ((name, lanes), seen) in self.lanes.iter().zip(&mut transitions) {
                let now: u64 = lanes.iter().map(|lane| lane.gate_transitions.get()).sum();
                if now != *seen {
                    let state = status::Service::read(Vec::new(), "", "", lanes);
                    tracing::info!(
                        service = name,
                        gate = state.gate.state,
                        changes = now - *seen,
                        waiting = state.waiting,
                        rate_per_s = state.service_rate_per_s,
                        "gate"
                    );
                    *seen = now;
                }
            }
        }
        None
    }

    /// Why messages cannot reach a server any more although it may be there.
    fn hand_off_lost(&self) -> Option<String> {
        for (name, lanes) in &self.lanes {
            if lanes.iter().any(|lane| lane.processor_gone.get() > 0) {
                return Some(format!(
                    "the processor of service {name} ended; the kernel takes over all packets"
                ));
            }
        }
        let device = self.device.as_ref()?;
        [device.transmit(), device.receive()].into_iter().find_map(|end| {
            match netdev::Interface::find(&end.name) {
                Ok(found) if found.index == end.index && found.up => None,
                Ok(found) if found.index == end.index => Some(format!(
                    "the hand-off device {} was set down; start again, and leave it up",
                    end.name
                )),
                _ => Some(format!(
                    "the hand-off device {} was deleted; start again, and leave it there",
                    end.name
                )),
            }
        })
    }

    /// Detaches, lets the workers finish, removes the device.
    fn tear_down(self) -> anyhow::Result<()> {
        drop(self.attached);
        self.stop.store(true, Ordering::Release);
        let mut leaked = 0;
        let mut panicked = None;
        for worker in self.workers {
            worker.wake.notify();
            match worker.thread.join() {
                Ok(outstanding) => leaked += outstanding,
                Err(_) => panicked = Some(worker.queue),
            }
        }
        drop(self.device);
        if let Some(queue) = panicked {
            anyhow::bail!("worker-q{queue} panicked; its message stands above. Please report it");
        }
        anyhow::ensure!(leaked == 0, "{leaked} frames leaked; please report it");
        tracing::info!("stopped; everything is undone");
        Ok(())
    }

    fn view(&self, config: &Config) -> anyhow::Result<View> {
        let counters = self.classifier.counter_reader()?;
        Ok(View {
            started: Instant::now(),
            interface: config.interface.clone(),
            mode: status::Mode {
                handoff_device: self.device.as_ref().map(|device| device.receive().name.clone()),
                ..self.mode.clone()
            },
            services: config
                .service
                .iter()
                .zip(&self.lanes)
                .map(|((name, service), (_, lanes))| (name.clone(), service.clone(), lanes.clone()))
                .collect(),
            workers: self.workers.iter().map(|w| (w.queue, w.core, Arc::clone(&w.counters))).collect(),
            counters,
        })
    }
}

/// Watches for a driver that refuses metadata, under which every guarded packet passes to the kernel.
enum Metadata {
    Unchecked(Instant),
    Refused,
}

impl Metadata {
    /// Packets of a driver either all have metadata or none, so looking now and then is enough.
    const INTERVAL: Duration = Duration::from_secs(2);

    fn check(&mut self, classifier: &xdp_prog::Classifier) {
        let Self::Unchecked(since) = self else { return };
        if since.elapsed() < Self::INTERVAL {
            return;
        }
        *since = Instant::now();
        if let Ok(counters) = classifier.counters()
            && counters.without_metadata() > 0
        {
            tracing::error!(
                packets = counters.without_metadata(),
                "the driver refuses metadata in front of packets, so they pass unguarded; set xdp.mode = \"generic\""
            );
            *self = Self::Refused;
        }
    }
}

/// What the control thread reads.
struct View {
    started: Instant,
    interface: String,
    mode: status::Mode,
    services: Vec<(String, Service, Vec<Arc<LaneCounters>>)>,
    workers: Vec<(u32, usize, Arc<WorkerCounters>)>,
    counters: xdp_prog::CounterReader,
}

impl View {
    fn read(&self) -> status::Status {
        status::Status {
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            interface: self.interface.clone(),
            mode: self.mode.clone(),
            services: self
                .services
                .iter()
                .map(|(name, service, lanes)| {
                    let listen = service.listen.to_strings();
                    (
                        name.clone(),
                        status::Service::read(
                            listen,
                            service.handoff.name(),
                            service.gate.kind.name(),
                            lanes,
                        ),
                    )
                })
                .collect(),
            workers: self
                .workers
                .iter()
                .map(|(queue, core, counters)| status::Worker::read(*queue, *core, counters))
                .collect(),
            kernel: self.counters.read().map(|counters| kernel_rows(&counters)).unwrap_or_default(),
        }
    }
}

fn kernel_rows(counters: &xdp_prog::Counters) -> Vec<status::KernelRow> {
    counters
        .iter()
        .filter(|(.., packets)| *packets > 0)
        .map(|(class, verdict, reason, packets)| status::KernelRow {
            class: Class::from_u8(class).map_or("unknown", Class::name).into(),
            verdict: Verdict::from_u8(verdict).map_or("unknown", Verdict::name).into(),
            reason: Reason::from_u8(reason).map_or("unknown", Reason::name).into(),
            packets,
        })
        .collect()
}

/// What follows from the configuration and the number of queues alone.
struct Plan {
    port: PortConfig,
    queues: u32,
    /// Originals that can wait per lane: what the frame budget leaves.
    new_places: u32,
    kernel_handoff: bool,
    lane_of_service: Vec<u8>,
}

impl Plan {
    fn new(config: &Config, queues: u32) -> anyhow::Result<Self> {
        let frames = &config.frames;
        let port = port_config(frames, config.xdp.zero_copy);
        let kernel_handoff = config.service.values().any(|service| service.handoff == HandoffKind::Kernel);
        let lanes = config.service.len() as u32;
        let tx_egress = if kernel_handoff { frames.ring_tx } else { 0 };
        // What is left for originals after rings and the other places, shared by the lanes.
        let fixed = FrameBudget::of(
            &port,
            lanes * (CONTROL_PLACES + COPY_PLACES) + IN_HAND,
            tx_egress,
            nic_ring(config),
        );
        let spare = fixed.check().context("frames.count is too small")?;
        let new_places = spare / lanes.max(1);
        anyhow::ensure!(
            new_places >= 16,
            "frames.count = {} leaves {new_places} places for originals per service; raise it by at least {}",
            frames.count,
            16 * lanes
        );
        let lane_of_service = config
            .service
            .values()
            .enumerate()
            .flat_map(|(lane, service)| std::iter::repeat_n(lane as u8, service.listen.0.len()))
            .collect();
        Ok(Self { port, queues, new_places, kernel_handoff, lane_of_service })
    }

    fn settings(&self, config: &Config, seed: [u64; 4]) -> xdp_prog::Settings {
        let services = config.service.values().flat_map(|service| {
            service.listen.0.iter().map(|(ip, port)| xdp_prog::ServiceAddress {
                ip: *ip,
                port: *port,
                reply_owed: service.reply.code != 0 && service.gate.kind == GateKind::Hysteretic,
            })
        });
        xdp_prog::Settings {
            seed,
            services: services.collect(),
            max_frame_len: self.port.umem.packet_len_max(),
            not_sip_drop: config.xdp.not_sip == NotSip::Drop,
            single_ring: config.service.values().all(|service| service.gate.kind == GateKind::Fifo),
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
            GateKind::TailDrop => GateConfig::TailDrop { buffer: self.per_worker(gate.buffer.0) },
            GateKind::Fifo => GateConfig::Fifo { buffer: self.per_worker(gate.buffer.0) },
        }
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
    fn watches(service: &Service, device: u32) -> anyhow::Result<Watches> {
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

    fn lane(&self, name: &str, service: &Service, handoff: Handoff) -> anyhow::Result<Lane> {
        let now_ns = clock::now();
        let queues = f64::from(self.queues);
        let rate = RateConfig { initial_per_s: service.initial_rate / queues, ..RateConfig::default() };
        let credit = CreditConfig {
            target_messages: match service.handoff {
                HandoffKind::Kernel => service.server.queue_target,
                HandoffKind::Embedded => service.embedded.queue,
            },
            down_after_ns: service.server.down_after.nanos(),
            // An embedded processor is its worker's own.
            workers: if service.handoff == HandoffKind::Kernel { self.queues } else { 1 },
            rate,
        };
        let gate = AnyGate::new(&self.gate(service), self.new_places, service.initial_rate / queues)
            .with_context(|| format!("service.{name}.gate"))?;
        let discipline = overload::Gate::discipline(&gate);
        let capacity = QueueCapacity { control: CONTROL_PLACES, new: self.new_places, copy: COPY_PLACES };
        let line =
            ReplyLine::of_code(service.reply.code).filter(|_| service.gate.kind == GateKind::Hysteretic);
        Ok(Lane {
            name: name.into(),
            queue: CallQueue::new(discipline, capacity),
            gate,
            credit: Credit::new(credit, now_ns).with_context(|| format!("service.{name}.server"))?,
            handoff,
            mix: overload::Mix::default(),
            reply: ReplyPolicy { line },
            reply_budget: TokenBucket::new(service.reply.rate, service.reply.rate.max(20) / 20, now_ns),
            max_wait_ns: if service.gate.kind == GateKind::Hysteretic {
                service.max_wait.nanos()
            } else {
                u64::MAX
            },
            copy_wait_ns: service.max_wait.nanos(),
            counters: Arc::new(LaneCounters::default()),
            looked_ns: 0,
        })
    }
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
