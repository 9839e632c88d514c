//! What a packet costs as one number of the configuration grows. sipweir is started anew for each point of each round, and
//! rounds go through the points there and back, so that the machine's moods happen to all alike.

use std::collections::BTreeMap;
use std::net::UdpSocket;

use anyhow::{Context as _, ensure};
use serde::Serialize;

use super::in_kernel::empty_program_ns;
use super::{Found, Guarded, Room, XDP_PROGRAM};
use crate::bpf_stats::{Counting, run_time_of};
use crate::generator::Generator;
use crate::report::{Details, Row};
use crate::rival::programs::Bare;
use crate::scenario::{CurvePlan, Parameter, Scenario};
use crate::stage::{Wire, ifindex};
use crate::statistics::{Rounds, median};

/// What a packet costs.
#[derive(Clone, Copy, Debug, Serialize)]
struct Cost {
    /// One run of the XDP program, less one of a program that does nothing.
    xdp_ns: f64,
    /// The worker, for each packet that it took; 0 where the XDP program decides on all.
    worker_ns: f64,
}

pub(super) fn measure(room: &Room<'_>, scenario: &Scenario) -> anyhow::Result<Found> {
    let CurvePlan { parameter, points } = scenario.curve.as_ref().context("the scenario has no [curve]")?;
    ensure!(!points.is_empty(), "the curve has no points");
    let rival = room.generator(scenario, Wire::Rival)?;
    let _link = room.stage.at_server(|| room.programs.attach(Bare::Drop, ifindex(Wire::Rival.device())?))?;
    let mut generator = room.generator(scenario, Wire::Guarded)?;

    let mut details = Details::default();
    let mut costs: BTreeMap<usize, Vec<Cost>> = BTreeMap::new();
    for round in 0..room.rounds(scenario) {
        let empty_ns = empty_program_ns(room, &rival, room.packets(scenario))?;
        let mut order: Vec<usize> = (0..points.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            room.go_on()?;
            let visit = Visit { room, scenario, parameter: *parameter, point: points[index], empty_ns };
            let name = format!("{}_{}", scenario.name, parameter.label(points[index]));
            let cost;
            (cost, generator) = visit.make(generator, &mut details).with_context(|| name)?;
            costs.entry(index).or_default().push(cost);
        }
    }

    let name = |index: usize| format!("{}_{}", scenario.name, parameter.label(points[index]));
    let mut rows = Vec::new();
    for (index, of_point) in &costs {
        let mut rounds = Rounds::default();
        let total = |cost: &Cost| cost.xdp_ns + cost.worker_ns;
        of_point.iter().zip(&costs[&0]).for_each(|(cost, first)| rounds.push(total(cost), total(first)));
        let of_part = |part: fn(&Cost) -> f64| median(&of_point.iter().map(part).collect::<Vec<_>>());
        let medians = Cost { xdp_ns: of_part(|cost| cost.xdp_ns), worker_ns: of_part(|cost| cost.worker_ns) };
        details.note(&name(*index), medians);
        details.rounds(&name(*index), &rounds);
        rows.push(Row::of_rounds(&name(*index), "ns/packet", &name(0), &rounds));
    }
    Ok(Found { rows, details })
}

/// One point in one round.
struct Visit<'a> {
    room: &'a Room<'a>,
    scenario: &'a Scenario,
    parameter: Parameter,
    point: u32,
    empty_ns: f64,
}

impl Visit<'_> {
    /// Also gives the generator back: it goes on with the next requests at the next point.
    fn make(&self, generator: Generator, details: &mut Details) -> anyhow::Result<(Cost, Generator)> {
        let Self { room, scenario, parameter, point, empty_ns } = *self;
        let servers = self.servers()?;
        let folder = tempfile::tempdir().context("a folder for what the configuration names")?;
        let configuration = parameter.set(&scenario.sipweir, point, folder.path())?;
        let mut guarded = Guarded::start_with(room, scenario, &configuration, generator)?;

        let counting = Counting::start()?;
        let (ran, before) = (run_time_of(XDP_PROGRAM), guarded.subject.account()?);
        let worked_ns = guarded.subject.workers_task_clock_ns()?;
        guarded.offer(scenario, room.packets(scenario))?;
        // What the worker has not taken yet is paid for, and counted, below.
        guarded.subject.wait_until_taken()?;
        let worked_ns = guarded.subject.workers_task_clock_ns()? - worked_ns;
        let taken = guarded.subject.account()?.received - before.received;
        let ran_ns =
            run_time_of(XDP_PROGRAM).ns_per_run_since(&ran).context("the XDP program has not run")?;
        drop(counting);

        let cost = Cost {
            xdp_ns: ran_ns - empty_ns,
            worker_ns: if taken == 0 { 0.0 } else { worked_ns as f64 / taken as f64 },
        };
        let Guarded { subject, generator } = guarded;
        Guarded::end_subject(subject, details, servers)?;
        Ok((cost, generator))
    }

    /// For each service one that has its port and never reads.
    fn servers(&self) -> anyhow::Result<Vec<UdpSocket>> {
        let mut address = Wire::Guarded.service();
        let others = if self.parameter == Parameter::Services { self.point } else { 1 };
        let bind = |number: u16| {
            address.set_port(Wire::Guarded.service().port() + number);
            UdpSocket::bind(address).with_context(|| format!("cannot bind {address}"))
        };
        let others = u16::try_from(others).context("more services than ports")?;
        self.room.stage.at_server(|| (0..others).map(bind).collect())
    }
}
