//! What refusing costs: requests refused, or answered with 503, per second of CPU; sipweir against Kamailio.
//!
//! CPU of sipweir is its threads' task clock and every run of its XDP program. CPU of Kamailio is its processes' task
//! clock; the kernel's receiving half runs on the generator's core and is charged to nobody, in Kamailio's favour, whose
//! half (IP stack, socket) is the dearer one.

use anyhow::{Context as _, ensure};
use sipweir_tests::kamailio::Script;
use sipweir_tests::{Kamailio, KamailioPlan};

use super::in_kernel::empty_program_ns;
use super::{Found, Guarded, Room};
use crate::cost::Usage;
use crate::device::{Datagrams, arrived};
use crate::generator::Generator;
use crate::report::{Details, Row};
use crate::rival::programs::Bare;
use crate::scenario::Scenario;
use crate::stage::{Wire, ifindex};
use crate::statistics::{Rounds, median};
use crate::subject::Account;

const KAMAILIO_503: &str = include_str!("../../scenarios/kamailio-503.cfg");
const KAMAILIO_RATELIMIT: &str = include_str!("../../scenarios/kamailio-ratelimit.cfg");
const KAMAILIO_PIKE: &str = include_str!("../../scenarios/kamailio-pike.cfg");

/// What Kamailio is offered: about twice what a core of it takes.
const KAMAILIO_RATE_PER_S: f64 = 150_000.0;
/// Packets until pike knows its sources: longer than the two seconds in which it counts.
const PIKE_WARM_UP: u64 = 400_000;
/// The part of the packets that Kamailio gets; it takes that much longer for each.
const KAMAILIO_PART: u64 = 10;
/// Worker processes; they share one core.
const CHILDREN: u32 = 2;

/// What counts as refusing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// Replies that arrived at the callers.
    Replies,
    /// Requests that were refused, by a reply or in silence.
    Requests,
}

/// A Kamailio and the row that compares it.
struct Rival {
    row: &'static str,
    name: &'static str,
    script: &'static str,
    /// Packets before the measurement.
    warm_up: u64,
}

impl Rival {
    fn all(counted: Counted, quick: bool) -> Vec<Self> {
        let rival = |row, name, script, warm_up| Self { row, name, script, warm_up };
        match counted {
            Counted::Replies => vec![rival("reply_503", "Kamailio, sl_send_reply", KAMAILIO_503, 0)],
            Counted::Requests => {
                let limit = rival("refuse", "Kamailio with ratelimit", KAMAILIO_RATELIMIT, 0);
                let pike = rival("refuse_against_pike", "Kamailio with pike", KAMAILIO_PIKE, PIKE_WARM_UP);
                // Its seconds of warm-up are not in a quick run.
                if quick { vec![limit] } else { vec![limit, pike] }
            }
        }
    }
}

pub(super) fn measure(room: &Room<'_>, scenario: &Scenario, counted: Counted) -> anyhow::Result<Found> {
    let rivals = Rival::all(counted, room.quick);
    let server = room.stuck_server(Wire::Guarded)?;
    let mut guarded = Guarded::start(room, scenario)?;
    let generator = room.generator(scenario, Wire::Rival)?;
    let packets = room.packets(scenario);
    let attach =
        |program| room.stage.at_server(|| room.programs.attach(program, ifindex(Wire::Rival.device())?));
    // Outside of this count nobody pays for its clock readings.
    let counting_ns = {
        let _link = attach(Bare::Drop)?;
        empty_program_ns(room, &generator, packets / 4)?
    };
    let xdp_ns = guarded.xdp_ns_per_packet(scenario, packets / 4)? - counting_ns;
    let _link = attach(Bare::Pass)?;

    let mut rounds = vec![Rounds::default(); rivals.len()];
    let mut all = Vec::new();
    for _ in 0..room.rounds(scenario) {
        room.go_on()?;
        let round = subject(room, &mut guarded, scenario, counted)?;
        let ours = round.per_core_second(xdp_ns);
        all.push(round);
        for (rounds, rival) in rounds.iter_mut().zip(&rivals) {
            let theirs = kamailio(room, &generator, packets / KAMAILIO_PART, rival, counted);
            rounds.push(ours, theirs.context(rival.name)?);
        }
    }

    let mut details = Details::default();
    details.note("xdp_ns_per_packet", xdp_ns);
    let share = |part: fn(&Refused) -> u64, whole: fn(&Refused) -> u64| {
        median(&all.iter().map(|round| part(round) as f64 / whole(round) as f64).collect::<Vec<_>>())
    };
    details.note("answered_share", share(|round| round.replies, |round| round.packets));
    let account = guarded.subject.account()?;
    details.note("outcomes", &account.outcomes);
    details.note("lost_at_full_rings", account.ring_lost);
    details.note("threads_ns_per_refusal", share(|round| round.task_clock_ns, |round| round.refused));
    guarded.end(&mut details, server)?;
    let mut rows = Vec::new();
    for (rounds, rival) in rounds.iter().zip(&rivals) {
        details.rounds(rival.row, rounds);
        rows.push(Row::of_rounds(rival.row, "per core-second", rival.name, rounds));
    }
    Ok(Found { rows, details })
}

/// What sipweir did in one round.
struct Refused {
    packets: u64,
    replies: u64,
    /// What counts.
    refused: u64,
    /// Of all its threads.
    task_clock_ns: u64,
}

impl Refused {
    /// Per second of CPU, which is also that of the XDP program, for whatever it saw.
    fn per_core_second(&self, xdp_ns: f64) -> f64 {
        self.refused as f64 * 1e9 / (self.task_clock_ns as f64 + xdp_ns * self.packets as f64)
    }
}

fn subject(
    room: &Room<'_>,
    guarded: &mut Guarded,
    scenario: &Scenario,
    counted: Counted,
) -> anyhow::Result<Refused> {
    let packets = room.packets(scenario);
    let device = Wire::Guarded.device();
    let (replies, used) = (arrived(&room.stage.callers, device)?, guarded.subject.usage()?);
    let before = guarded.subject.account()?;
    let packets = guarded.offer(scenario, packets)?.packets;
    let (after, used) = (guarded.subject.account()?, guarded.subject.usage()?.since(&used));
    let replies = arrived(&room.stage.callers, device)? - replies;
    // Two witnesses; some replies may be on their way between the two looks.
    let sent = after.replies - before.replies;
    ensure!(sent.abs_diff(replies) <= sent / 100 + 64, "{sent} replies sent, {replies} arrived");
    let handed_over = |account: &Account| account.outcome(|name| name == "handed_over");
    let taken = handed_over(&after) - handed_over(&before) + after.waiting.saturating_sub(before.waiting);
    let refused = match counted {
        Counted::Replies => replies,
        Counted::Requests => packets - taken,
    };
    ensure!(refused > 0, "nothing was refused: {after:?}");
    Ok(Refused { packets, replies, refused, task_clock_ns: used.task_clock_ns })
}

fn kamailio(
    room: &Room<'_>,
    generator: &Generator,
    packets: u64,
    rival: &Rival,
    counted: Counted,
) -> anyhow::Result<f64> {
    let mut plan = KamailioPlan::new(Wire::Rival.service());
    plan.script = Script::Given(rival.script);
    plan.children = CHILDREN;
    plan.core = Some(room.stage.cores.worker);
    let kamailio = Kamailio::start(&room.stage.server, &plan);
    generator.run_at(KAMAILIO_RATE_PER_S, rival.warm_up)?;
    let device = Wire::Rival.device();
    let (replies, datagrams) = (arrived(&room.stage.callers, device)?, Datagrams::of(&room.stage.server)?);
    let used = Usage::of_group(kamailio.id())?;
    let packets = generator.run_at(KAMAILIO_RATE_PER_S, packets)?.packets;
    let used = Usage::of_group(kamailio.id())?.since(&used);
    let after = Datagrams::of(&room.stage.server)?;
    let (read, lost) = (after.read - datagrams.read, after.lost - datagrams.lost);
    let replies = arrived(&room.stage.callers, device)? - replies;
    // What is neither read nor lost waits in the socket, which holds some hundreds.
    ensure!(
        read + lost <= packets && read + lost + 2000 > packets,
        "{packets} sent, {read} read, {lost} lost"
    );
    ensure!(lost > 0, "Kamailio has read all of {packets} packets: it was not at its limit");
    let refused = match counted {
        Counted::Replies => {
            ensure!(replies + 10 > read, "{read} requests read, {replies} answered");
            replies
        }
        // Of some it let through and answered: the limit is ten a second, or sixteen a source.
        Counted::Requests => read.saturating_sub(replies),
    };
    kamailio.terminate();
    Ok(refused as f64 / (used.task_clock_ns as f64 / 1e9))
}
