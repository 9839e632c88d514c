//! How fast packets leave a ring: sipweir's worker, which classifies and sheds each, against a receiver that only gives
//! frames back, and against a UDP socket.

use super::{Found, Guarded, Room, Taken};
use crate::generator::Generator;
use crate::report::{Details, Row};
use crate::rival::programs::Bare;
use crate::rival::{receiver, socket};
use crate::scenario::Scenario;
use crate::stage::{Wire, ifindex};
use crate::statistics::{Rounds, median};

pub(super) fn measure(room: &Room<'_>, scenario: &Scenario) -> anyhow::Result<Found> {
    let server = room.stuck_server(Wire::Guarded)?;
    let mut guarded = Guarded::start(room, scenario)?;
    let rival = room.generator(scenario, Wire::Rival)?;
    let packets = room.packets(scenario);

    let (mut bare, mut by_socket) = (Rounds::default(), Rounds::default());
    let (mut worker_ns, mut bare_ns, mut socket_ns) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..room.rounds(scenario) {
        room.go_on()?;
        let ours = worker(&mut guarded, scenario, packets)?;
        let theirs = bare_receiver(room, &rival, packets)?;
        let socket = bare_socket(room, &rival, packets)?;
        bare.push(ours.mpps, theirs.mpps);
        by_socket.push(ours.mpps, socket.mpps);
        worker_ns.push(ours.task_ns_per_packet);
        bare_ns.push(theirs.task_ns_per_packet);
        socket_ns.push(socket.task_ns_per_packet);
    }

    let mut details = Details::default();
    details.note("task_clock_ns_per_packet", median(&worker_ns));
    details.note("rival_task_clock_ns_per_packet", median(&bare_ns));
    details.note("socket_task_clock_ns_per_packet", median(&socket_ns));
    details.note("xdp_ns_per_packet", guarded.xdp_ns_per_packet(scenario, packets)?);
    guarded.end(&mut details, server)?;
    details.rounds("drain", &bare);
    details.rounds("drain_against_socket", &by_socket);
    let rows = vec![
        Row::of_rounds("drain", "Mpps", "bare AF_XDP receiver", &bare),
        Row::of_rounds("drain_against_socket", "Mpps", "UDP socket, recvmmsg", &by_socket),
    ];
    Ok(Found { rows, details })
}

/// One side in one round.
struct Drained {
    mpps: f64,
    /// CPU time of the reader; what the kernel does on the generator's core is not in it.
    task_ns_per_packet: f64,
}

impl From<Taken> for Drained {
    fn from(Taken { packets, elapsed, task_clock_ns }: Taken) -> Self {
        Self {
            mpps: packets as f64 / elapsed.as_secs_f64() / 1e6,
            task_ns_per_packet: task_clock_ns as f64 / packets.max(1) as f64,
        }
    }
}

fn worker(guarded: &mut Guarded, scenario: &Scenario, packets: u64) -> anyhow::Result<Drained> {
    let (before, used) = (guarded.subject.account()?, guarded.subject.usage()?);
    let offered = guarded.offer(scenario, packets)?;
    let (after, used) = (guarded.subject.account()?, guarded.subject.usage()?.since(&used));
    let packets = after.received - before.received;
    Ok(Taken { packets, elapsed: offered.elapsed, task_clock_ns: used.task_clock_ns }.into())
}

fn bare_receiver(room: &Room<'_>, generator: &Generator, packets: u64) -> anyhow::Result<Drained> {
    let port = room.stage.at_server(|| {
        let ifindex = ifindex(Wire::Rival.device())?;
        let link = room.programs.attach(Bare::Socket, ifindex)?;
        Ok((receiver::open_port(room.programs, ifindex)?, link))
    });
    let (port, _link) = port?;
    let thread = receiver::start(port, room.stage.cores.worker)?;
    let taken = room.load_rival(generator, packets, &thread)?;
    thread.end()?;
    Ok(taken.into())
}

fn bare_socket(room: &Room<'_>, generator: &Generator, packets: u64) -> anyhow::Result<Drained> {
    let (socket, _link) = room.stage.at_server(|| {
        let link = room.programs.attach(Bare::Pass, ifindex(Wire::Rival.device())?)?;
        Ok((socket::bind(Wire::Rival.service())?, link))
    })?;
    let thread = socket::sink(socket, room.stage.cores.worker)?;
    let taken = room.load_rival(generator, packets, &thread)?;
    thread.end()?;
    Ok(taken.into())
}
