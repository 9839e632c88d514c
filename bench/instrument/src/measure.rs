//! The kinds of measurement; each turns a scenario into rows.

mod curve;
mod drain;
mod goodput;
mod handoff;
mod idle;
mod in_kernel;
mod latency;
mod refusal;
mod workers;

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use self::refusal::Counted;
use crate::bpf_stats::{Counting, run_time_of};
use crate::device::Received;
use crate::generator::{Generator, Offered};
use crate::report::{Details, Row};
use crate::rival::programs::Programs;
use crate::rival::thread::Thread;
use crate::scenario::{Measure, Scenario, check};
use crate::stage::{Stage, Wire};
use crate::subject::Subject;

/// sipweir's XDP program, as the kernel names it.
const XDP_PROGRAM: &str = "sipweir";

/// Fits into every ring that priming goes through: 512 frames of ring `reject`, 256 of the wire.
const PRIMING_BURST: u64 = 250;

/// What all measurements share.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    pub(crate) stage: Stage,
    pub(crate) programs: &'a Programs,
    pub(crate) quick: bool,
    /// Set by a signal.
    pub(crate) stop: Arc<AtomicBool>,
}

/// What a scenario has found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) rows: Vec<Row>,
    pub(crate) details: Details,
}

/// What one side took in one round.
#[derive(Clone, Copy, Debug)]
struct Taken {
    packets: u64,
    elapsed: Duration,
    /// CPU time of who took them; what the kernel does on the generator's core is not in it.
    task_clock_ns: u64,
}

impl Room<'_> {
    pub(crate) fn measure(&self, scenario: &Scenario) -> anyhow::Result<Found> {
        match scenario.measure {
            Measure::InKernel => in_kernel::measure(self, scenario),
            Measure::Drain => drain::measure(self, scenario),
            Measure::Goodput => goodput::measure(self, scenario),
            Measure::Handoff => handoff::measure(self, scenario),
            Measure::Replies => refusal::measure(self, scenario, Counted::Replies),
            Measure::Refusals => refusal::measure(self, scenario, Counted::Requests),
            Measure::Latency => latency::measure(self, scenario),
            Measure::Idle => idle::measure(self, scenario),
            Measure::Curve => curve::measure(self, scenario),
            Measure::Workers => workers::measure(self, scenario),
        }
    }

    fn rounds(&self, scenario: &Scenario) -> u32 {
        u32::try_from(scenario.rounds.of(self.quick)).unwrap_or(u32::MAX)
    }

    fn packets(&self, scenario: &Scenario) -> u64 {
        scenario.packets.of(self.quick)
    }

    /// Between two measurements.
    pub(crate) fn go_on(&self) -> anyhow::Result<()> {
        ensure!(!self.stop.load(Ordering::Relaxed), "interrupted");
        Ok(())
    }

    /// A generator of the scenario's stream onto a wire.
    fn generator(&self, scenario: &Scenario, wire: Wire) -> anyhow::Result<Generator> {
        let plan = scenario.stream.as_ref().context("the scenario has no [stream]")?;
        let stream = plan.stream(|v6| self.stage.flow(wire, v6))?;
        let mut generator = Generator::load(&stream, wire.device(), self.stage.cores.generator)?;
        if let Some(range) = plan.range {
            generator.go_round(0, range)?;
        }
        Ok(generator)
    }

    /// Offers packets to a rival and sees what its thread takes meanwhile. Each must have come to the rival's program.
    fn load_rival(&self, generator: &Generator, packets: u64, thread: &Thread) -> anyhow::Result<Taken> {
        let before = self.rival_received()?;
        let (counted, clock_ns) = (thread.counted(), thread.task_clock_ns());
        let offered = generator.run(packets)?;
        let (counted, clock_ns) = (thread.counted() - counted, thread.task_clock_ns() - clock_ns);
        let received = self.rival_received()?.since(&before);
        ensure!(received.is_of(offered.packets), "{offered:?} to a rival: {received:?}");
        ensure!(counted > 0, "the rival has taken none of {packets} packets: {received:?}");
        Ok(Taken { packets: counted, elapsed: offered.elapsed, task_clock_ns: clock_ns })
    }

    /// What the rival's device has received so far.
    fn rival_received(&self) -> anyhow::Result<Received> {
        Received::of(&self.stage.server, Wire::Rival.device())
    }

    /// A server that has its port and never reads.
    fn stuck_server(&self, wire: Wire) -> anyhow::Result<UdpSocket> {
        let address = wire.service();
        self.stage.at_server(|| UdpSocket::bind(address).with_context(|| format!("cannot bind {address}")))
    }
}

/// sipweir under a generator, in the state that the scenario is about.
#[derive(Debug)]
struct Guarded {
    subject: Subject,
    generator: Generator,
}

impl Guarded {
    /// Starts sipweir and sends what the scenario wants sent before anything is measured.
    fn start(room: &Room<'_>, scenario: &Scenario) -> anyhow::Result<Self> {
        let generator = room.generator(scenario, Wire::Guarded)?;
        Self::start_with(room, scenario, &scenario.sipweir, generator)
    }

    /// The same with a configuration of one's own and a generator that is there.
    fn start_with(
        room: &Room<'_>,
        scenario: &Scenario,
        configuration: &str,
        generator: Generator,
    ) -> anyhow::Result<Self> {
        let subject = Subject::start(&room.stage.server, configuration)?;
        let mut guarded = Self { subject, generator };
        if let Some(prime) = &scenario.prime {
            guarded.prime(prime.packets).context("while priming")?;
            if let Some(expected) = &prime.gate {
                let gate = guarded.subject.gate();
                ensure!(&gate == expected, "the gate is {gate} after priming, not {expected}");
            }
        }
        Ok(guarded)
    }

    /// Sends packets in bursts that a ring holds, each when the worker has taken the one before: none is lost, however busy
    /// the machine.
    fn prime(&mut self, packets: u64) -> anyhow::Result<()> {
        let mut left = packets;
        while left > 0 {
            let now = left.min(PRIMING_BURST);
            self.generator.burst(now)?;
            self.subject.was_offered(now);
            self.subject.wait_until_taken()?;
            left -= now;
        }
        self.subject.check_law()?;
        Ok(())
    }

    /// Offers packets, as fast as it goes or at the scenario's rate, and checks what was decided about them.
    fn offer(&mut self, scenario: &Scenario, packets: u64) -> anyhow::Result<Offered> {
        let before = self.subject.account()?;
        let offered = match scenario.rate_per_s {
            Some(rate_per_s) => self.generator.run_at(rate_per_s, packets)?,
            None => self.generator.run(packets)?,
        };
        self.subject.was_offered(offered.packets);
        let after = self.subject.wait_until_decided(offered.packets, &before)?;
        let slack = scenario.stream.as_ref().map_or(0.0, |stream| stream.slack(&offered));
        check(&scenario.expect, &after.kernel_since(&before), offered.packets, slack)?;
        Ok(offered)
    }

    /// Nanoseconds of one run of the XDP program, by the kernel's own count, over so many packets.
    fn xdp_ns_per_packet(&mut self, scenario: &Scenario, packets: u64) -> anyhow::Result<f64> {
        let counting = Counting::start()?;
        let before = run_time_of(XDP_PROGRAM);
        self.offer(scenario, packets)?;
        let ns = run_time_of(XDP_PROGRAM).ns_per_run_since(&before).context("the XDP program has not run")?;
        drop(counting);
        Ok(ns)
    }

    /// Ends it with its server, see [`Self::end_subject`].
    fn end<S>(self, details: &mut Details, server: S) -> anyhow::Result<()> {
        Self::end_subject(self.subject, details, server)
    }

    /// Checks the law of conservation and ends sipweir, which then checks its frames. Its server goes first: sipweir gives
    /// what is still at one that is there a second to leave.
    fn end_subject<S>(mut subject: Subject, details: &mut Details, server: S) -> anyhow::Result<()> {
        let account = subject.check_law()?;
        details.note("resident_kib", subject.usage()?.resident_kib);
        details.note("turns", account.turns);
        details.note("sleeps", account.sleeps);
        drop(server);
        subject.end()
    }
}
