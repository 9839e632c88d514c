//! What more workers do to each other: CPU for a packet with a queue and a worker for each generator, against all of it
//! by one queue and one worker.
//!
//! Both are `sipweir run`, on the two wires, and take turns. On a veth the receiving queue is the number of the sending core
//! (modulo the queues; `veth_select_rxq` in the kernel's drivers/net/veth.c), and its NAPI runs on that core; so there is
//! a generator on each core, and sipweir's choice of cores puts the worker of each queue onto the other one. The one
//! worker has its generator on the other core as well. Not here: how much faster it gets. The generators need the cores
//! that a NIC would leave to the workers.

use std::net::UdpSocket;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::{Found, Guarded, PRIMING_BURST, Room, XDP_PROGRAM};
use crate::bpf_stats::{Counting, run_time_of};
use crate::device::refused;
use crate::generator::{Generator, Offered, Stream};
use crate::report::{Details, Row};
use crate::scenario::{Scenario, check};
use crate::stage::Wire;
use crate::statistics::{alternate, median};
use crate::subject::Subject;

/// Requests of one generator, which are no other's.
const RANGE: u32 = 1 << 31;

/// How many packets may be lost at full rings before the rate is not one that is taken. A core that the host takes away
/// for 10 ms costs that much of a second.
const LOST_SHARE_MAX: f64 = 0.05;

/// To be taken before anything is measured, by each generator.
const PRIMING_RATE_PER_S: f64 = 20_000.0;

pub(super) fn measure(room: &Room<'_>, scenario: &Scenario) -> anyhow::Result<Found> {
    let cores = room.stage.cores;
    let mut two = Side::start(room, scenario, Wire::Guarded, &[cores.generator, cores.worker])?;
    let mut one = Side::start(room, scenario, Wire::Rival, &[cores.generator])?;
    let (mut costs, mut rival_costs) = (Vec::new(), Vec::new());
    let rounds = alternate(
        room.rounds(scenario),
        || two.cost(room, scenario, &mut costs),
        || one.cost(room, scenario, &mut rival_costs),
    )?;
    let mut details = Details::default();
    for (prefix, costs) in [("", &costs), ("rival_", &rival_costs)] {
        let median_of = |part: fn(&Cost) -> f64| median(&costs.iter().map(part).collect::<Vec<_>>());
        details.note(&format!("{prefix}task_clock_ns_per_packet"), median_of(|cost| cost.worker_ns));
        details.note(&format!("{prefix}xdp_ns_per_packet"), median_of(|cost| cost.xdp_ns));
        details.note(&format!("{prefix}lost_share"), median_of(|cost| cost.lost_share));
    }
    one.end(&mut Details::default())?;
    two.end(&mut details)?;
    details.rounds(&scenario.name, &rounds);
    let row = Row::of_rounds(&scenario.name, "M/CPU second", "one queue, one worker", &rounds);
    Ok(Found { rows: vec![row], details })
}

/// What a packet costs.
#[derive(Clone, Copy, Debug)]
struct Cost {
    xdp_ns: f64,
    /// All workers, for each packet that they took.
    worker_ns: f64,
    lost_share: f64,
}

/// sipweir on one of the wires, and those who offer it something.
#[derive(Debug)]
struct Side {
    // Before the stage: a namespace lives as long as a thread is in it.
    senders: Senders,
    subject: Subject,
    server: UdpSocket,
}

impl Side {
    fn start(room: &Room<'_>, scenario: &Scenario, wire: Wire, cores: &[usize]) -> anyhow::Result<Self> {
        let server = room.stuck_server(wire)?;
        let configuration = configuration_for(&scenario.sipweir, wire)?;
        let plan = scenario.stream.as_ref().context("the scenario has no [stream]")?;
        let senders = Senders::start(&plan.stream(|v6| room.stage.flow(wire, v6))?, wire.device(), cores)?;
        let subject = Subject::start(&room.stage.server, &configuration)?;
        let mut side = Self { senders, subject, server };
        let prime = scenario.prime.as_ref().map_or(0, |prime| prime.packets);
        for _ in 0..prime.div_ceil(PRIMING_BURST) {
            let offered = side.senders.offer(PRIMING_RATE_PER_S, PRIMING_BURST)?;
            side.subject.was_offered(offered.packets);
            side.subject.wait_until_taken().context("while priming")?;
        }
        Ok(side)
    }

    /// One round; gives millions of packets for a second of CPU.
    fn cost(&mut self, room: &Room<'_>, scenario: &Scenario, costs: &mut Vec<Cost>) -> anyhow::Result<f64> {
        room.go_on()?;
        let rate_per_s = scenario.rate_per_s.context("the scenario has no rate_per_s")?;
        let counting = Counting::start()?;
        let (ran, before) = (run_time_of(XDP_PROGRAM), self.subject.account()?);
        let worked_ns = self.subject.workers_task_clock_ns()?;
        let offered = self.senders.offer(rate_per_s, room.packets(scenario))?;
        self.subject.was_offered(offered.packets);
        let decided = self.subject.wait_until_decided(offered.packets, &before)?;
        self.subject.wait_until_taken()?;
        let worked_ns = self.subject.workers_task_clock_ns()? - worked_ns;
        let after = self.subject.account()?;
        let xdp_ns =
            run_time_of(XDP_PROGRAM).ns_per_run_since(&ran).context("the XDP program has not run")?;
        drop(counting);
        check(&scenario.expect, &decided.kernel_since(&before), offered.packets, 0.0)?;

        let taken = after.received - before.received;
        let lost_share = (after.ring_lost - before.ring_lost) as f64 / offered.packets as f64;
        ensure!(
            lost_share <= LOST_SHARE_MAX,
            "{:.0} % of {rate_per_s} packets a second were lost at full rings: it is a rate that this machine cannot \
             take; lower rate_per_s",
            100.0 * lost_share
        );
        let cost = Cost { xdp_ns, worker_ns: worked_ns as f64 / taken.max(1) as f64, lost_share };
        costs.push(cost);
        Ok(1e3 / (cost.xdp_ns + cost.worker_ns))
    }

    fn end(self, details: &mut Details) -> anyhow::Result<()> {
        Guarded::end_subject(self.subject, details, self.server)
    }
}

/// The scenario's configuration on another wire.
fn configuration_for(configuration: &str, wire: Wire) -> anyhow::Result<String> {
    let mut all: toml::Table = toml::from_str(configuration).context("sipweir's configuration")?;
    all.insert("interface".to_owned(), wire.device().into());
    let main = all.get_mut("service").and_then(|services| services.get_mut("main"));
    let main = main.and_then(toml::Value::as_table_mut).context("no [service.main]")?;
    main.insert("listen".to_owned(), wire.service().to_string().into());
    toml::to_string(&all).context("sipweir's configuration")
}

/// Generators on several cores that work at the same time.
#[derive(Debug)]
struct Senders {
    device: &'static str,
    each: Vec<OnCore>,
}

/// A generator on a thread of its own, where it was loaded. The thread ends with the value.
#[derive(Debug)]
struct OnCore {
    /// Rate, packets. None: the thread has to end.
    orders: Option<Sender<(f64, u64)>>,
    done: Receiver<anyhow::Result<Duration>>,
    thread: Option<JoinHandle<()>>,
}

impl Senders {
    /// Starts them in the calling thread's namespace.
    fn start(stream: &Stream, device: &'static str, cores: &[usize]) -> anyhow::Result<Self> {
        let each =
            (0..).zip(cores).map(|(number, core)| OnCore::start(stream, device, *core, number * RANGE));
        Ok(Self { device, each: each.collect::<Result<_, _>>()? })
    }

    /// Offers packets at a rate, both shared out evenly.
    fn offer(&self, rate_per_s: f64, packets: u64) -> anyhow::Result<Offered> {
        let (before, begin) = (refused(self.device)?, Instant::now());
        let each = packets / self.each.len() as u64;
        for sender in &self.each {
            let orders = sender.orders.as_ref().context("a generator has ended")?;
            orders.send((rate_per_s / self.each.len() as f64, each)).context("a generator has ended")?;
        }
        for sender in &self.each {
            let _took = sender.done.recv().context("a generator has ended")??;
        }
        let (packets, refused) = (each * self.each.len() as u64, refused(self.device)? - before);
        Ok(Offered { packets: packets - refused, refused, elapsed: begin.elapsed(), cpu: Duration::ZERO })
    }
}

impl OnCore {
    fn start(stream: &Stream, device: &'static str, core: usize, base: u32) -> anyhow::Result<Self> {
        let (orders, to_do) = channel();
        let (report, done) = channel();
        let stream = stream.clone();
        let work = move || {
            let load = || {
                let mut generator = Generator::load(&stream, device, core)?;
                generator.go_round(base, RANGE)?;
                Ok(generator)
            };
            let generator = match load() {
                Ok(generator) => generator,
                Err(error) => {
                    let _nobody = report.send(Err(error));
                    return;
                }
            };
            for (rate_per_s, packets) in to_do {
                // Who gave the order may have given up.
                let _nobody = report.send(generator.run_uncounted_at(rate_per_s, packets));
            }
        };
        let thread = std::thread::Builder::new().name(format!("generator-{core}")).spawn(work);
        let thread = thread.context("cannot start a thread for a generator")?;
        Ok(Self { orders: Some(orders), done, thread: Some(thread) })
    }
}

impl Drop for OnCore {
    fn drop(&mut self) {
        self.orders = None;
        // A panic of it was told as "a generator has ended".
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::{Wire, configuration_for};

    #[test]
    fn the_rival_is_the_same_sipweir_on_the_other_wire() {
        let text =
            "interface = \"eth0\"\n[service.main]\nlisten = \"10.77.0.2:5060\"\nhandoff = \"kernel\"\n";
        let other = configuration_for(text, Wire::Rival).expect("a configuration");
        let expected = text.replace("eth0", "eth1").replace("10.77", "10.79");
        let parsed = |text: &str| toml::from_str::<toml::Table>(text).expect("TOML");
        assert_eq!(parsed(&other), parsed(&expected));
        assert_eq!(parsed(&configuration_for(text, Wire::Guarded).expect("a configuration")), parsed(text));
    }
}
