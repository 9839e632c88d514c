//! What reaches a server's socket in the host's stack: by sipweir, by bare hand-offs (AF_XDP to veth, AF_XDP to TAP), and by a
//! front-end of plain sockets. Sender's half on the generator's core; hand-off and the reading server on the other.

use anyhow::Context as _;

use super::{Found, Guarded, Room};
use crate::generator::Generator;
use crate::report::{Details, Row};
use crate::rival::forward::{self, Addresses};
use crate::rival::programs::Bare;
use crate::rival::thread::Thread;
use crate::rival::{receiver, socket, tap};
use crate::scenario::Scenario;
use crate::stage::{Wire, ifindex};
use crate::statistics::Rounds;

/// The rivals' hand-off devices.
const VETH: [&str; 2] = ["swbhand0", "swbhand1"];
const TAP: &str = "swbtap0";
const MAC_TEXT: &str = "02:5b:00:00:01:01";
const MAC: [u8; 6] = [0x02, 0x5b, 0, 0, 1, 1];
/// Port of the server behind the front-end of sockets, which has the other.
const BEHIND_PORT: u16 = 5070;

/// The ways to hand over without sipweir.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Veth,
    Tap,
    Sockets,
}

pub(super) fn measure(room: &Room<'_>, scenario: &Scenario) -> anyhow::Result<Found> {
    lay_devices(room)?;
    let server = room.stage.at_server(|| socket::bind(Wire::Guarded.service()))?;
    let server = socket::sink(server, room.stage.cores.worker)?;
    let mut guarded = Guarded::start(room, scenario)?;
    let rival = room.generator(scenario, Wire::Rival)?;
    let packets = room.packets(scenario);

    let ways = [Way::Veth, Way::Tap, Way::Sockets];
    let mut rounds = [Rounds::default(), Rounds::default(), Rounds::default()];
    for _ in 0..room.rounds(scenario) {
        room.go_on()?;
        let before = server.counted();
        let offered = guarded.offer(scenario, packets)?;
        let ours = (server.counted() - before) as f64 / offered.elapsed.as_secs_f64() / 1e6;
        for (rounds, way) in rounds.iter_mut().zip(ways) {
            rounds.push(ours, bare(room, &rival, packets, way).with_context(|| format!("{way:?}"))?);
        }
    }

    let mut details = Details::default();
    let account = guarded.subject.wait("nothing waits any more", |account| account.waiting == 0)?;
    details.note("outcomes", &account.outcomes);
    guarded.end(&mut details, server)?;
    let [veth, tap, sockets] = rounds;
    details.rounds("handoff_against_veth", &veth);
    details.rounds("handoff_against_tap", &tap);
    details.rounds("handoff_against_sockets", &sockets);
    let row = |name: &str, rival: &str, rounds: &Rounds| Row::of_rounds(name, "Mpps", rival, rounds);
    // The best that is bare: the smaller ratio.
    let best = if veth.ratio() <= tap.ratio() { (&veth, "veth") } else { (&tap, "TAP") };
    let rows = vec![
        row("handoff_kernel", &format!("best bare hand-off: {}", best.1), best.0),
        row("handoff_against_veth", "bare AF_XDP to veth", &veth),
        row("handoff_against_tap", "bare AF_XDP to TAP", &tap),
        row("handoff_against_sockets", "recvmmsg, sendmmsg", &sockets),
    ];
    Ok(Found { rows, details })
}

/// Both rivals' devices in the server's namespace. The receiving ends get an address of their own, since a device without
/// one fails the source check, and take what is routed elsewhere.
fn lay_devices(room: &Room<'_>) -> anyhow::Result<()> {
    let server = &room.stage.server;
    let [sending, receiving] = VETH;
    server.ip(&["link", "add", sending, "type", "veth", "peer", "name", receiving]);
    server.ip(&["tuntap", "add", "dev", TAP, "mode", "tap"]);
    for (device, address) in [(receiving, "10.78.0.1/32"), (TAP, "10.78.0.2/32")] {
        server.ip(&["link", "set", device, "address", MAC_TEXT]);
        server.ip(&["addr", "add", address, "dev", device, "scope", "host"]);
        // /proc/sys/net is that of the calling thread's namespace.
        let filter = format!("/proc/sys/net/ipv4/conf/{device}/rp_filter");
        room.stage
            .at_server(|| std::fs::write(&filter, "2").with_context(|| format!("cannot write {filter}")))?;
    }
    for device in [sending, receiving, TAP] {
        server.ip(&["link", "set", device, "up"]);
    }
    Ok(())
}

/// Mpps that reach the rival's server.
fn bare(room: &Room<'_>, generator: &Generator, packets: u64, way: Way) -> anyhow::Result<f64> {
    let core = room.stage.cores.worker;
    let mut listen = Wire::Rival.service();
    if way == Way::Sockets {
        listen.set_port(BEHIND_PORT);
    }
    let program = if way == Way::Sockets { Bare::Pass } else { Bare::Socket };
    let (server, front_end, _link) = room.stage.at_server(|| {
        let server = socket::sink(socket::bind(listen)?, core)?;
        let device = ifindex(Wire::Rival.device())?;
        let link = room.programs.attach(program, device)?;
        let front_end = match way {
            Way::Sockets => socket::front_end(socket::bind(Wire::Rival.service())?, listen, core)?,
            Way::Veth => {
                let port = receiver::open_port(room.programs, device)?;
                forward::to_veth(port, ifindex(VETH[0])?, addresses(), core)?
            }
            Way::Tap => forward::to_tap(
                receiver::open_port(room.programs, device)?,
                tap::open(TAP)?,
                addresses(),
                core,
            )?,
        };
        Ok((server, front_end, link))
    })?;
    let taken = room.load_rival(generator, packets, &server)?;
    front_end.end()?;
    Thread::end(server)?;
    Ok(taken.packets as f64 / taken.elapsed.as_secs_f64() / 1e6)
}

fn addresses() -> Addresses {
    let mut addresses = [0; 12];
    addresses[..6].copy_from_slice(&MAC);
    addresses[6..].copy_from_slice(&[0x02, 0x5b, 0, 0, 1, 0]);
    addresses
}
