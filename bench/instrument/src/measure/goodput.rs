//! What callers get done of a server that is overloaded: Kamailio alone and behind sipweir, under callers that repeat what is
//! not answered as RFC 3261 tells them to. The yardstick is that Kamailio's best: always busy, never overloaded.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use bench::{CallerConfig, Hold, Method, Progress};
use sipweir_tests::{CallLoad, Kamailio, KamailioPlan, Sipp};

use super::{Found, Guarded, Room};
use crate::report::{Details, Row};
use crate::scenario::{CallsPlan, Scenario};
use crate::stage::{Wire, on_core};
use crate::statistics::Rounds;
use crate::subject::Subject;

/// As many calls at once keep every child of Kamailio busy and none waiting for long: no copies.
const BUSY_CALLS: u32 = 64;
/// More than it can complete; the number of calls at once is what limits SIPp.
const BUSY_RATE_PER_S: u32 = 5000;
const BUSY_WARM_UP: Duration = Duration::from_secs(1);
/// Calls last so long: short against a run.
const HOLD_NS: u64 = 100_000_000;
/// Calls that start later than this before the end are left out.
const TAIL_NS: u64 = 1_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
const CALLER_PORT: u16 = 5060;

pub(super) fn measure(room: &Room<'_>, scenario: &Scenario) -> anyhow::Result<Found> {
    let plan = scenario.calls.as_ref().context("the scenario has no [calls]")?;
    let mut details = Details::default();
    let mut rows = Vec::new();
    for load in plan.loads(room.quick) {
        let mut rounds: [Rounds; 4] = Default::default();
        for round in 0..room.rounds(scenario) {
            room.go_on()?;
            // Another Kamailio for each side: no queue of the one before is left for the next.
            let best = best_per_s(room, plan)?;
            let seed = u64::from(round) + 1;
            let alone = overloaded_alone(room, plan, load * best, seed)?;
            let mut seen = Details::default();
            let behind = overloaded_behind(room, scenario, plan, load * best, seed, &mut seen)?;
            details.note(&format!("behind_{load}x_round_{}", round + 1), seen);
            let found =
                [behind.completed_per_s, alone.completed_per_s, behind.in_t1_per_s, alone.in_t1_per_s];
            for (rounds, value) in rounds.iter_mut().zip(found) {
                rounds.push(value, best);
            }
        }
        let names = ["goodput_{}x", "goodput_{}x_alone", "within_t1_{}x", "within_t1_{}x_alone"];
        for (name, rounds) in names.iter().zip(&rounds) {
            let name = name.replace("{}", &load.to_string());
            details.rounds(&name, rounds);
            rows.push(Row::of_rounds(&name, "calls/s", "Kamailio's best", rounds));
        }
    }
    Ok(Found { rows, details })
}

/// What became of the calls of the window, per second.
struct Goodput {
    /// Set up and ended: INVITE and BYE were both answered 2xx, as SIPp counts them, too.
    completed_per_s: f64,
    /// INVITEs answered 2xx within T1: no copy was needed.
    in_t1_per_s: f64,
}

impl Goodput {
    fn of(report: &bench::Report) -> anyhow::Result<Self> {
        let window = &report.window;
        let seconds = (window.until_ns - window.from_ns) as f64 / 1e9;
        let byes = &report.of(Method::Bye).context("no call was ended")?.window;
        Ok(Self { completed_per_s: byes.answered as f64 / seconds, in_t1_per_s: window.goodput_in_t1_per_s })
    }
}

fn kamailio(room: &Room<'_>) -> Kamailio {
    let plan =
        KamailioPlan { core: Some(room.stage.cores.worker), ..KamailioPlan::new(Wire::Guarded.service()) };
    Kamailio::start(&room.stage.server, &plan)
}

/// Calls a second that it completes at its best.
fn best_per_s(room: &Room<'_>, plan: &CallsPlan) -> anyhow::Result<f64> {
    let server = kamailio(room);
    let load = CallLoad { concurrent_max: Some(BUSY_CALLS), ..CallLoad::at(BUSY_RATE_PER_S) };
    let from = (Wire::Guarded.caller(), CALLER_PORT).into();
    let mut callers = Sipp::start(&room.stage.callers, from, Wire::Guarded.service(), &load);
    callers.run_for(BUSY_WARM_UP + Duration::from_secs(plan.best_s.of(room.quick)));
    let statistics = callers.stop();
    let totals = statistics.totals();
    ensure!(totals.copies == 0, "Kamailio was overloaded while its best was looked for: {totals:?}");
    server.terminate();
    Ok(statistics.after(BUSY_WARM_UP).completed_per_s())
}

fn overloaded_alone(
    room: &Room<'_>,
    plan: &CallsPlan,
    rate_per_s: f64,
    seed: u64,
) -> anyhow::Result<Goodput> {
    let server = kamailio(room);
    let report = call(room, plan, rate_per_s, seed)?;
    // An overloaded server may need long to end in an orderly way.
    drop(server);
    Goodput::of(&report)
}

fn overloaded_behind(
    room: &Room<'_>,
    scenario: &Scenario,
    plan: &CallsPlan,
    rate_per_s: f64,
    seed: u64,
    details: &mut Details,
) -> anyhow::Result<Goodput> {
    let server = kamailio(room);
    let mut subject = Subject::start(&room.stage.server, &scenario.sipweir)?;
    let used = subject.usage()?;
    let report = call(room, plan, rate_per_s, seed)?;
    let used = subject.usage()?.since(&used);
    subject.was_offered(report.transport.sent);
    let drops = server.socket().drops;
    details.note("task_clock_ns_per_packet", used.task_clock_ns as f64 / report.transport.sent as f64);
    details.note("datagrams", report.transport.sent);
    details.note("drops_at_kamailio", drops);
    Guarded::end_subject(subject, details, server)?;
    ensure!(
        report.responses.contradictions == 0,
        "requests were both answered and refused: {:?}",
        report.responses
    );
    Goodput::of(&report)
}

/// Offers calls and checks that the caller has kept its own account and kept up.
fn call(room: &Room<'_>, plan: &CallsPlan, rate_per_s: f64, seed: u64) -> anyhow::Result<bench::Report> {
    let mut config = CallerConfig::new(Wire::Guarded.service());
    config.rate_per_s = rate_per_s;
    config.warm_up_ns = plan.warm_up_s.of(room.quick) * SECOND_NS;
    config.duration_ns = config.warm_up_ns + plan.window_s.of(room.quick) * SECOND_NS + TAIL_NS;
    config.tail_ns = TAIL_NS;
    config.drain_ns = plan.drain_s.of(room.quick) * SECOND_NS;
    config.hold = Hold { mean_ns: HOLD_NS, exponential: false };
    config.seed = seed;
    let report = on_core(room.stage.cores.generator, || {
        bench::run(&config, &room.stop, &Progress::default()).context("the caller")
    })?;
    room.go_on()?;
    let invite = &report.of(Method::Invite).context("no INVITE was offered")?.total;
    let ended = invite.answered + invite.rejected + invite.failed + invite.unresolved;
    ensure!(invite.offered == ended && invite.not_started == 0, "the caller's own account: {invite:?}");
    let (wanted, offered) = (rate_per_s, report.window.offered_per_s);
    ensure!((offered / wanted - 1.0).abs() < 0.1, "{offered:.0} calls/s were offered, not {wanted:.0}");
    Ok(report)
}
