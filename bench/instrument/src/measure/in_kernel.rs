//! What the XDP program sheds or absorbs by itself, against a program that drops everything. The same stream goes to both.

use anyhow::{Context as _, ensure};

use super::{Found, Guarded, Room};
use crate::bpf_stats::{Counting, run_time_of};
use crate::generator::{Generator, Offered};
use crate::report::{Details, Row};
use crate::rival::programs::Bare;
use crate::scenario::Scenario;
use crate::stage::{Wire, ifindex};
use crate::statistics::{alternate, median};

/// The bare program, as the kernel names it.
const EMPTY_PROGRAM: &str = "bare_drop";

pub(super) fn measure(room: &Room<'_>, scenario: &Scenario) -> anyhow::Result<Found> {
    let server = room.stuck_server(Wire::Guarded)?;
    let mut guarded = Guarded::start(room, scenario)?;
    let rival = room.generator(scenario, Wire::Rival)?;
    let device = Wire::Rival.device();
    let _link = room.stage.at_server(|| room.programs.attach(Bare::Drop, ifindex(device)?))?;
    let packets = room.packets(scenario);

    let (mut cpu_ns, mut rival_cpu_ns) = (Vec::new(), Vec::new());
    let rounds = alternate(
        room.rounds(scenario),
        || {
            room.go_on()?;
            let offered = guarded.offer(scenario, packets)?;
            cpu_ns.push(offered.cpu_ns_per_packet());
            Ok(offered.per_s() / 1e6)
        },
        || {
            let offered = drop_all(room, &rival, packets)?;
            rival_cpu_ns.push(offered.cpu_ns_per_packet());
            Ok(offered.per_s() / 1e6)
        },
    )?;

    let mut details = Details::default();
    details.note("xdp_ns_per_packet", guarded.xdp_ns_per_packet(scenario, packets)?);
    details.note("empty_program_ns", empty_program_ns(room, &rival, packets)?);
    details.note("cpu_ns_per_packet", median(&cpu_ns));
    details.note("rival_cpu_ns_per_packet", median(&rival_cpu_ns));
    guarded.end(&mut details, server)?;
    details.rounds(&scenario.name, &rounds);
    Ok(Found { rows: vec![Row::of_rounds(&scenario.name, "Mpps", "bare XDP_DROP", &rounds)], details })
}

/// Offers packets to the bare program, which drops them all.
fn drop_all(room: &Room<'_>, generator: &Generator, packets: u64) -> anyhow::Result<Offered> {
    let before = room.rival_received()?;
    let offered = generator.run(packets)?;
    let received = room.rival_received()?.since(&before);
    let are_dropped = received.dropped == received.packets;
    ensure!(are_dropped && received.is_of(offered.packets), "{offered:?} to the bare XDP_DROP: {received:?}");
    Ok(offered)
}

/// Nanoseconds of one run of a program that does nothing: what counting itself costs.
pub(super) fn empty_program_ns(room: &Room<'_>, generator: &Generator, packets: u64) -> anyhow::Result<f64> {
    let counting = Counting::start()?;
    let before = run_time_of(EMPTY_PROGRAM);
    drop_all(room, generator, packets)?;
    let ns = run_time_of(EMPTY_PROGRAM).ns_per_run_since(&before).context("the empty program has not run")?;
    drop(counting);
    Ok(ns)
}
