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
mod supervise;
mod telling;
mod view;
mod workers;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use afxdp::MappedWords;
use anyhow::Context;
use sip::{Seed, TransactionKey};

use crate::capabilities;
use crate::capture::{self, Exporter};
use crate::clock;
use crate::config::{Config, XdpMode};
use crate::control::Control;
use crate::cores;
use crate::counters::LaneCounters;
use crate::lists::keeper::Keeping;
use crate::local::LocalAddresses;
use crate::metrics::{self, Endpoint};
use crate::netdev;
use crate::processor::{Answerer, Processor};
use crate::sip_helper::{self, SipHelper};
use crate::status;
use crate::transactions::{self, Occupancy};
use answers::Answers;
use current::Current;
use door::Door;
use health::{Judged, Judges};
use janitor::Janitor;
use plan::Plan;
pub use plan::{check, places};
use probe::Probes;
use requests::Requests;
use service_manager::Watchdog;
use workers::{Running, finish};

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
    let parts = instance.capturing().and_then(|capturing| {
        let view = instance.view(config, Arc::clone(&capturing))?;
        Ok((view, capturing))
    });
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
    watchdog: Watchdog,
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
            watchdog: Watchdog::new(),
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

    fn watch_health(&mut self, config: &Config) -> anyhow::Result<()> {
        let now_ns = clock::now();
        self.judges = Judges::new(config, self.answers.as_ref(), &self.judged, now_ns)?;
        self.probes = Probes::new(config, &self.judged, now_ns);
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
}
