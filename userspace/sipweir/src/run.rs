//! One run, from set-up to tear-down, in the order that keeps the server reachable at every moment.
//!
//! Set-up: control socket (the lock) → interface → XDP program loaded and attached, passing everything since
//! its socket map is empty → hand-off device → per queue: UMEM, rings, lanes, worker thread → sockets into
//! the map: from here on the workers serve → the side door is opened. Tear-down is the reverse and starts with
//! detaching, so that new packets go to the kernel while the workers finish what they hold. If the process dies at any
//! point, the kernel closes link and sockets: packets pass.

mod answers;
mod capturing;
mod current;
mod door;
mod health;
pub(crate) mod janitor;
mod limit;
mod owner;
mod plan;
mod probe;
mod programs;
mod reload;
mod requests;
mod service_manager;
mod telling;
mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use afxdp::{CopyMode, EgressConfig, EgressPort, MappedWords, QueuePort};
use anyhow::Context;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use sip::{Seed, TransactionKey};

use crate::body::LARGE_LEN;
use crate::capabilities;
use crate::capture::{self, Exporter, Tap};
use crate::change::ChangeBox;
use crate::clock;
use crate::config::{Config, HandoffKind, Idle, NotSip, XdpMode};
use crate::control::Control;
use crate::cores;
use crate::counters::{LaneCounters, WorkerCounters};
use crate::handoff::Handoff;
use crate::handoff::embedded::{Exchange, PacketBytes};
use crate::handoff::kernel::{Egress, Server, packet_socket};
use crate::lists::keeper::Keeping;
use crate::local::{LetterBox, LocalAddresses};
use crate::metrics::{self, Endpoint};
use crate::netdev;
use crate::privileged::Privileged;
use crate::processor::{Answerer, Processor};
use crate::sip_helper::{self, SipHelper};
use crate::status;
use crate::transactions::{self, Occupancy, Sweeper, Transactions};
use crate::wake::Wake;
use crate::worker::{Parts, Worker};
use answers::Answers;
use current::Current;
use door::Door;
use health::{Judged, Judges};
use janitor::Janitor;
use owner::Job;
use plan::{BUSY_RETRY_NS, Plan};
pub use plan::{check, places};
use probe::Probes;
use programs::Program;
use requests::Requests;
use service_manager::Watchdog;
use telling::Telling;
use view::View;

/// How often the main thread looks after workers and interface.
const SUPERVISION: Duration = Duration::from_millis(250);

/// How often the host's addresses are read. Longer: what the host sends itself from a new address is lost for so long.
const LOCAL_ADDRESSES: Duration = Duration::from_secs(1);

/// Makes the processors of `embedded` services: (service name, share 1/n, number of the worker).
pub type ProcessorFactory = dyn Fn(&str, u32, u32) -> Box<dyn Processor>;

/// Runs an instance with the answering processor that ships with sipweir behind its `embedded` services. The calling thread
/// gives up its capabilities, for ever, and is the last that has any.
///
/// # Errors
///
/// When set-up fails, or when the run ends for another reason than a signal.
pub fn run(config: &Config) -> anyhow::Result<()> {
    let services = config.service.clone();
    run_as(config, Privileges::Renounced, &move |name, share, worker| {
        Box::new(Answerer::new(&services[name].embedded, share, u64::from(worker)))
    })
}

/// Runs an instance with your own processors behind its `embedded` services, until SIGTERM or SIGINT. Its own threads, those
/// of the processors too, have no capabilities; the calling thread keeps what it has, to remove the hand-off device.
///
/// # Errors
///
/// As [`run`].
pub fn run_with(config: &Config, processors: &ProcessorFactory) -> anyhow::Result<()> {
    run_as(config, Privileges::Kept, processors)
}

/// What becomes of the privileges of the thread that sets up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Privileges {
    Renounced,
    Kept,
}

fn run_as(config: &Config, privileges: Privileges, processors: &ProcessorFactory) -> anyhow::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot catch signals")?;
    }
    // Before anything else: who does not catch it ends by it.
    let reload = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(&reload))
        .context("cannot catch SIGHUP")?;
    let control = Control::bind(&config.control)?;
    if let Some(helper) = SipHelper::find(&sip_helper::Paths::default()) {
        tracing::warn!("{helper}");
    }
    let endpoint = config.metrics.as_ref().map(|metrics| Endpoint::bind(&metrics.listen)).transpose()?;
    let mut instance = Instance::set_up(config, processors)?;
    if privileges == Privileges::Renounced
        && let Err(error) = instance.renounce()
    {
        let _ended = instance.tear_down();
        return Err(error);
    }
    let (owner, jobs) = owner::owner();
    let parts = instance.view(config).and_then(|view| Ok((view, instance.capturing()?)));
    let served = parts.and_then(|(view, capturing)| {
        let view = Arc::new(view);
        let scraped = Arc::clone(&view);
        let text = move || metrics::text(&scraped.read());
        let metrics = endpoint.map(|endpoint| endpoint.serve(text)).transpose()?;
        let lists = instance.lists.handle().clone();
        let requests = Requests::new(view, Arc::clone(&instance.current), owner, lists, capturing);
        let answer = move |request, client| requests.answer(request, client);
        Ok((control.serve(answer).context("cannot start the control threads")?, metrics))
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
    service_manager::ready(&config.interface);
    let reason = instance.supervise(&stop, &reload, &jobs);
    service_manager::stopping();
    // Who waits for a change hears that it does not come.
    drop(jobs);
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
    letters: Arc<LetterBox>,
    changes: Arc<ChangeBox>,
    queue: u32,
    core: usize,
    counters: Arc<WorkerCounters>,
}

/// Everything that lives while an instance runs. Fields are dropped in this order.
struct Instance {
    door: Door,
    attached: xdp_prog::Attached,
    workers: Vec<Running>,
    key: Arc<TransactionKey>,
    transactions: Option<transactions::Memory>,
    occupancy: Arc<Occupancy>,
    stop: Arc<AtomicBool>,
    lanes: Vec<(String, Vec<Arc<LaneCounters>>)>,
    lists: Keeping,
    /// For each service index of the XDP program the lane that it belongs to.
    lane_of_service: Vec<u8>,
    /// Of the same services.
    judged: Vec<Vec<Judged>>,
    judges: Judges,
    probes: Probes,
    classifier: xdp_prog::Classifier,
    device: Option<netdev::Handoff>,
    /// What sees the servers' answers, if anything does.
    answers: Option<Answers>,
    /// Removes the device, and what else outlives the process, if that is left to it.
    janitor: Option<Janitor>,
    /// After the workers, so that what they leave on their way out is sent.
    exporter: Option<Exporter>,
    interface: netdev::Interface,
    local: LocalAddresses,
    mode: status::Mode,
    /// What holds, and what was made of it.
    current: Arc<Current>,
    plan: Plan,
    settings: xdp_prog::Settings,
    arrivals: Arc<MappedWords>,
}

impl Instance {
    fn set_up(config: &Config, processors: &ProcessorFactory) -> anyhow::Result<Self> {
        let interface = netdev::Interface::find(&config.interface)?;
        interface.require_up()?;
        let queues = interface.rx_queues;
        let cores =
            cores::choose(&config.interface, queues, config.workers.cores.as_deref(), &cores::available())?;
        let plan = Plan::new(config, queues)?;
        let seed = Seed(config.seed.as_ref().map_or_else(rand::random, |seed| seed.0));
        let key = Arc::new(TransactionKey::new(&seed));

        let stack = netdev::Stack::on(interface.index)?;
        let devices = stack.indexes.clone();
        let settings = plan.settings(config, stack, &key);
        let mut classifier = xdp_prog::Classifier::load(&settings)?;
        let lists = classifier.take_source_lists().context("somebody else keeps the lists of sources")?;
        let door = Door::load(&settings, &devices, &lists)?;
        // Before the first packet is judged.
        let lists = Keeping::start(&config.lists, lists)?;
        let attach_mode = match config.xdp.mode {
            XdpMode::Auto => xdp_prog::AttachMode::Auto,
            XdpMode::Native => xdp_prog::AttachMode::Native,
            XdpMode::Generic => xdp_prog::AttachMode::Generic,
        };
        let attached = classifier
            .attach(interface.index.cast_signed(), attach_mode)
            .with_context(|| config.interface.clone())?;
        if let Some(refusal) = attached.native_refusal() {
            tracing::warn!(
                %refusal,
                "the driver refuses the XDP program in native mode, so it runs in generic mode, which costs more; \
                 `sipweir doctor --interface {}` says what may be the reason",
                config.interface
            );
        }
        let answers = Answers::start(config, &plan, &settings, &interface);
        let words = xdp_prog::abi::SERVICES_MAX * xdp_prog::abi::QUEUES_MAX;
        let gates =
            Arc::new(MappedWords::map(classifier.gates_fd(), words).context("cannot map the gate words")?);
        let arrivals = MappedWords::map(classifier.arrivals_fd(), words * xdp_prog::abi::ARRIVAL_WORDS);
        let arrivals = Arc::new(arrivals.context("cannot map the counts of arrivals")?);
        let transactions = match settings.transaction_buckets as usize {
            0 => None,
            buckets => {
                let table = MappedWords::map(classifier.transactions_fd(), buckets * overload::SLOTS);
                let lines = settings.served_lines() as usize;
                let served = MappedWords::map(classifier.served_fd(), lines * overload::GENERATIONS);
                Some(transactions::Memory {
                    table: Arc::new(table.context("cannot map the transaction table")?),
                    served: Arc::new(served.context("cannot map the filter of served requests")?),
                })
            }
        };
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

        // After the hand-off device, which has an address, too.
        let local = LocalAddresses::new(netdev::addresses_of_host()?);

        let capturing = capture::start(config.capture.as_ref(), queues);
        let (taps, exporter) = capturing.context("cannot start the capture thread")?;
        let mut instance = Self {
            exporter,
            mode: status::Mode {
                xdp: attached.mode().name().into(),
                answers: answers.as_ref().map_or("off", Answers::way).into(),
                ..Default::default()
            },
            door,
            attached,
            workers: Vec::new(),
            key,
            transactions,
            occupancy: Arc::new(Occupancy::default()),
            stop: Arc::new(AtomicBool::new(false)),
            lanes: config.service.keys().map(|name| (name.clone(), Vec::new())).collect(),
            lists,
            lane_of_service: plan.lane_of_service.clone(),
            judged: vec![Vec::new(); config.service.len()],
            judges: Judges::default(),
            probes: Probes::default(),
            classifier,
            device,
            answers,
            janitor: None,
            interface,
            local,
            current: Arc::new(Current::new(config)),
            plan,
            settings,
            arrivals,
        };
        for ((queue, core), tap) in (0..queues).zip(cores).zip(taps) {
            let started = instance.start_worker(config, &gates, processors, queue, core, tap);
            if let Err(error) = started {
                // What was started so far is ended in order; the first error is the one that counts.
                let _ended = instance.tear_down();
                return Err(error);
            }
        }
        let own = instance.local.iter().collect();
        let opened = instance.classifier.set_local_addresses(own).map_err(Into::into);
        let opened = opened.and_then(|()| instance.door.set_local_addresses(&instance.local));
        let opened = opened.and_then(|()| instance.door.open());
        let opened = opened.and_then(|()| instance.watch_health(config));
        if let Err(error) = opened {
            let _ended = instance.tear_down();
            return Err(error);
        }
        Ok(instance)
    }

    fn start_worker(
        &mut self,
        config: &Config,
        gates: &Arc<MappedWords>,
        processors: &ProcessorFactory,
        queue: u32,
        core: usize,
        capture: Option<Tap>,
    ) -> anyhow::Result<()> {
        let plan = &self.plan;
        let wake = Arc::new(Wake::new().context("cannot make an eventfd")?);
        let (mut port, mode) = QueuePort::open(self.interface.index, queue, &plan.port)?;
        let has_door = queue == door::WORKER;
        let side_door =
            if has_door { Some(self.door.sockets(config, &self.settings, &self.interface)?) } else { None };
        if let (Some(answers), Some(door)) = (&mut self.answers, &side_door) {
            answers.leave_out(door)?;
        }
        let egress = match &self.device {
            Some(device) => {
                let tx = EgressConfig { tx_ring_size: config.frames.ring_tx, busy_retry_ns: BUSY_RETRY_NS };
                let egress = EgressPort::open(&mut port, device.transmit().index, queue, &tx)?;
                let egress =
                    Egress::new(egress, tx.tx_ring_size, device.receive().mac, device.transmit().mac);
                if has_door {
                    let name = &device.transmit().name;
                    let socket = packet_socket(name)
                        .with_context(|| format!("cannot open a packet socket on {name} (CAP_NET_RAW)"))?;
                    Some(egress.with_packet_socket(socket))
                } else {
                    Some(egress)
                }
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
                    let frame = config.frames.size as usize;
                    let bytes =
                        PacketBytes { request: if has_door { LARGE_LEN } else { frame }, reply: frame };
                    let places = service.embedded.queue;
                    let title = format!("{name}-{queue}");
                    let exchange = Exchange::start(&title, processor, places, bytes, Arc::clone(&wake))
                        .context("cannot start a processor thread")?;
                    Handoff::Embedded(exchange)
                }
            };
            let answers = self.answers.as_ref().filter(|_| answers::is_watched(service));
            let picks = answers.map(|answers| answers.picks(plan.queues));
            let begin = plan.change(index, name, service, &self.arrivals, queue)?;
            let lane = plan.lane(name, handoff, picks, begin)?;
            self.lanes[index].1.push(Arc::clone(&lane.counters));
            let (counters, orders) = (Arc::clone(&lane.counters), Arc::clone(&lane.orders));
            self.judged[index].push(Judged { counters, orders });
            lanes.push(lane);
        }
        self.mode.af_xdp = if mode.copy_mode == CopyMode::ZeroCopy { "zero_copy" } else { "copy" }.into();
        self.mode.need_wakeup = mode.need_wakeup;
        self.mode.busy_poll = format!("{:?}", port.busy_poll()).to_lowercase();

        // Before packets come: what shall pass must not land in a ring.
        for (service, lane) in plan.lane_of_service.iter().enumerate() {
            let word = lanes[usize::from(*lane)].word_to_publish(clock::now());
            gates.store(service * xdp_prog::abi::QUEUES_MAX + queue as usize, word.bits());
        }
        port.refill();
        for ring in 0..afxdp::RINGS {
            self.classifier.set_socket(queue as usize, ring, port.rx_fd(ring))?;
        }
        let letters = Arc::new(LetterBox::default());
        let changes = Arc::new(ChangeBox::default());
        let counters = Arc::new(WorkerCounters::default());
        let parts = Parts {
            port,
            egress,
            side_door,
            lanes,
            lane_of_service: plan.lane_of_service.clone(),
            gates: Arc::clone(gates),
            queue,
            seed: *self.key.seed(),
            key: Arc::clone(&self.key),
            transactions: Transactions::new(self.transactions.clone()),
            privileged: Privileged::new(&config.privileges),
            local: self.local.clone(),
            letters: Arc::clone(&letters),
            changes: Arc::clone(&changes),
            wake: Arc::clone(&wake),
            stop: Arc::clone(&self.stop),
            spin: config.workers.idle == Idle::Spin,
            capture,
            drop_not_sip: config.xdp.not_sip == NotSip::Drop,
            counters: Arc::clone(&counters),
        };
        let thread = std::thread::Builder::new()
            .name(format!("worker-q{queue}"))
            .spawn(move || {
                capabilities::renounce_all_of_thread();
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
        self.workers.push(Running { thread, wake, letters, changes, queue, core, counters });
        Ok(())
    }

    fn watch_health(&mut self, config: &Config) -> anyhow::Result<()> {
        let now_ns = clock::now();
        self.judges = Judges::new(config, self.answers.as_ref(), &self.judged, now_ns)?;
        self.probes = Probes::new(config, &self.judged, now_ns)?;
        Ok(())
    }

    /// Gives up what only the set-up needed: what outlives the process is left to a janitor, and this thread has no
    /// capabilities any more.
    fn renounce(&mut self) -> anyhow::Result<()> {
        self.janitor =
            Janitor::start(self.device.as_mut(), self.answers.as_mut().map(Answers::attached_mut))?;
        Ok(capabilities::renounce_all()?)
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

    /// Waits for a signal, a worker that ended, or an interface that went away, and carries out changes meanwhile. `None`
    /// after a signal.
    fn supervise(&mut self, stop: &AtomicBool, reload: &AtomicBool, jobs: &Receiver<Job>) -> Option<String> {
        let mut telling = Telling::new(self.lanes.len(), clock::now());
        let mut watchdog = Watchdog::new();
        let mut metadata = Metadata::Unchecked(Instant::now());
        let (mut local, mut local_read) = (self.local.clone(), Instant::now());
        let mut queues = self.interface.rx_queues;
        let mut sweeper = self
            .transactions
            .as_ref()
            .map(|memory| Sweeper::new(memory.clone(), Arc::clone(&self.occupancy), clock::now()));
        while !stop.load(Ordering::Acquire) {
            match jobs.recv_timeout(SUPERVISION) {
                Ok(job) => job(self),
                Err(RecvTimeoutError::Timeout) => {}
                // The control socket has the other end for as long as this runs.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(SUPERVISION),
            }
            if reload.swap(false, Ordering::AcqRel) {
                self.reload_from_file();
            }
            watchdog.look(self.workers.iter().map(|worker| &*worker.counters));
            metadata.check(&self.classifier);
            self.judges.look(clock::now());
            self.probes.look(clock::now());
            if let Some(sweeper) = &mut sweeper {
                sweeper.sweep(clock::now());
                self.occupancy.evicted_in_kernel.store(self.classifier.evicted(), Ordering::Relaxed);
            }
            if local_read.elapsed() >= LOCAL_ADDRESSES {
                local_read = Instant::now();
                self.tell_addresses(&mut local);
                self.watch_queues(&mut queues);
            }
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
            telling.tell(&self.lanes, clock::now());
        }
        None
    }

    /// Says when the interface has got queues that nobody guards, or lost them again. The kernel does not let it lose one
    /// that has a socket of ours.
    fn watch_queues(&self, known: &mut u32) {
        // A device that is gone is somebody else's business.
        let Ok(found) = netdev::Interface::find(&self.interface.name) else { return };
        if found.rx_queues == *known {
            return;
        }
        *known = found.rx_queues;
        let (queues, workers) = (found.rx_queues, self.workers.len());
        if queues as usize > workers {
            tracing::warn!(
                queues,
                workers,
                "the interface has more receive queues now: what comes by the new ones goes to the servers unguarded; \
                 start again, or take them away (ethtool -L)"
            );
        } else {
            tracing::info!(queues, workers, "every receive queue of the interface is guarded again");
        }
    }

    /// Leaves the host's addresses with the workers and the side door's program if they have changed.
    fn tell_addresses(&mut self, known: &mut LocalAddresses) {
        // Without an answer the old ones hold.
        let Ok(addresses) = netdev::addresses_of_host() else { return };
        let now = LocalAddresses::new(addresses);
        if now != *known {
            *known = now;
            if let Err(error) = self.door.set_local_addresses(known) {
                tracing::warn!(%error, "cannot bring the host's addresses up to date at the side door");
            }
            if let Err(error) = self.classifier.set_local_addresses(known.iter().collect()) {
                tracing::warn!(%error, "cannot bring the host's addresses up to date in the XDP program");
            }
            self.workers.iter().for_each(|worker| worker.letters.put(known.clone()));
        }
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

    /// Closes the side door, detaches, lets the workers finish, removes the device.
    fn tear_down(mut self) -> anyhow::Result<()> {
        self.door.close();
        drop(self.attached);
        self.stop.store(true, Ordering::Release);
        let finished = finish(self.workers);
        drop(self.exporter);
        drop(self.answers);
        drop(self.janitor);
        drop(self.device);
        if finished.is_ok() {
            tracing::info!("stopped; everything is undone");
        }
        finished
    }

    fn view(&self, config: &Config) -> anyhow::Result<View> {
        let (counters, monitored) = (self.classifier.counter_reader()?, self.classifier.monitored_reader()?);
        let programs = [
            Program::new("xdp", self.classifier.program_fd()),
            Program::new("side_door", self.door.program_fd()),
        ];
        let answers = self.answers.as_ref().map(|answers| Program::new("answers", answers.program_fd()));
        let programs = programs
            .into_iter()
            .chain(answers)
            .collect::<Result<_, _>>()
            .context("cannot hold on to the programs")?;
        Ok(View {
            started: Instant::now(),
            interface: config.interface.clone(),
            ifindex: self.interface.index,
            mode: status::Mode {
                handoff_device: self.device.as_ref().map(|device| device.receive().name.clone()),
                ..self.mode.clone()
            },
            current: Arc::clone(&self.current),
            services: self.lanes.clone(),
            workers: self.workers.iter().map(|w| (w.queue, w.core, Arc::clone(&w.counters))).collect(),
            counters,
            monitored,
            transactions: self.transactions.as_ref().map_or(0, |memory| memory.table.words().len() as u64),
            occupancy: Arc::clone(&self.occupancy),
            side_door: self.door.counter_reader()?,
            lists: self.lists.handle().clone(),
            answers: view::Answers::new(config, self.answers.as_ref())?,
            programs,
            capture: config
                .capture
                .as_ref()
                .zip(self.exporter.as_ref())
                .map(|(capture, exporter)| (capture.collector.0, exporter.counters())),
        })
    }
}

/// Waits for all workers, whatever became of each.
fn finish(workers: Vec<Running>) -> anyhow::Result<()> {
    let mut leaked = 0;
    let mut panicked = None;
    for worker in workers {
        worker.wake.notify();
        match worker.thread.join() {
            Ok(outstanding) => leaked += outstanding,
            Err(_) => panicked = Some(worker.queue),
        }
    }
    if let Some(queue) = panicked {
        anyhow::bail!("worker-q{queue} panicked; its message stands above. Please report it");
    }
    anyhow::ensure!(leaked == 0, "{leaked} frames leaked; please report it");
    Ok(())
}

/// Watches for a driver that refuses metadata, under which every guarded packet takes the side door.
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
                "the driver refuses metadata in front of packets, so they take the slow side door; set xdp.mode = \"generic\""
            );
            *self = Self::Refused;
        }
    }
}

#[cfg(test)]
mod tests;
