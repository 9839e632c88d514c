//! What the XDP program sheds or absorbs by itself, against a program that drops everything. The same stream goes to both.

use anyhow::ensure;

use super::{Found, Guarded, Room};
use crate::generator::Generator;
use crate::report::{Details, Row};
use crate::rival::programs::Bare;
use crate::scenario::Scenario;
use crate::stage::{Wire, ifindex};
use crate::statistics::alternate;

pub(super) fn measure(room: &Room<'_>, scenario: &Scenario) -> anyhow::Result<Found> {
    let _server = room.stuck_server(Wire::Guarded)?;
    let mut guarded = Guarded::start(room, scenario)?;
    let rival = room.generator(scenario, Wire::Rival)?;
    let device = Wire::Rival.device();
    let _link = room.stage.at_server(|| room.programs.attach(Bare::Drop, ifindex(device)?))?;
    let packets = room.packets(scenario);

    let rounds = alternate(
        room.rounds(scenario),
        || {
            room.go_on()?;
            Ok(guarded.offer(scenario, packets)?.per_s() / 1e6)
        },
        || dropped_per_s(room, &rival, packets).map(|per_s| per_s / 1e6),
    )?;

    let mut details = Details::default();
    details.note("xdp_ns_per_packet", guarded.xdp_ns_per_packet(scenario, packets)?);
    details.note("wire_ns_per_packet", 1e3 / rounds.value());
    details.note("rival_wire_ns_per_packet", 1e3 / rounds.rival_value());
    guarded.end(&mut details)?;
    details.rounds(&scenario.name, &rounds);
    Ok(Found { rows: vec![Row::of_rounds(&scenario.name, "Mpps", "bare XDP_DROP", &rounds)], details })
}

/// Packets a second that the bare program drops.
fn dropped_per_s(room: &Room<'_>, generator: &Generator, packets: u64) -> anyhow::Result<f64> {
    let before = room.rival_received()?;
    let offered = generator.run(packets)?;
    let received = room.rival_received()?.since(&before);
    let are_dropped = received.dropped == received.packets;
    ensure!(are_dropped && received.is_of(offered.packets), "{offered:?} to the bare XDP_DROP: {received:?}");
    Ok(offered.per_s())
}
