//! SIPp and Kamailio without sipweir: what the server can do by itself, and what happens to it above that.
//!
//! These are the yardstick of the tests with sipweir, and they prove that those measure what they claim: that the server's
//! capacity is what its configuration says, and that it does collapse.

use std::time::Duration;

use sipweir_tests::{CallLoad, Kamailio, KamailioPlan, LinkPlan, Marking, turn};

use crate::topology::Topology;

/// As many calls at once keep every child of the server busy and none waiting for longer than 70 ms: no copies.
const BUSY_CALLS: u32 = 64;

/// Calls completed a second while the server is always busy and never overloaded.
pub(crate) fn best_completed_per_s(topology: &Topology, duration: Duration) -> f64 {
    let load = CallLoad { concurrent_max: Some(BUSY_CALLS), ..CallLoad::at(5000) };
    let mut callers = topology.call(&load);
    callers.run_for(duration);
    let statistics = callers.stop();
    assert_eq!(statistics.totals().copies, 0, "the server was overloaded: {:?}", statistics.totals());
    statistics.after(Duration::from_secs(1)).completed_per_s()
}

#[test]
fn kamailio_completes_what_its_plan_says_and_collapses_at_three_times_that() {
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan::default());
    let plan = KamailioPlan::new(topology.service());
    let kamailio = Kamailio::start(&topology.server, &plan);

    let best = best_completed_per_s(&topology, Duration::from_secs(6));
    let nominal = plan.nominal_capacity_per_s();
    println!("best: {best:.0} calls/s, nominal {nominal:.0}");
    assert!((0.85 * nominal..=nominal).contains(&best), "best {best:.0}/s, nominal {nominal:.0}/s");
    assert_eq!(kamailio.socket().drops, 0);

    let mut callers = topology.call(&CallLoad::at((3.0 * best) as u32));
    callers.run_for(Duration::from_secs(12));
    let overload = callers.stop().after(Duration::from_secs(4));
    let (completed, within) = (overload.completed_per_s(), overload.share_within_t1());
    println!(
        "3 x best: offered {:.0}, completed {completed:.0} calls/s, {:.0} % of the answers within T1, copies {:.0}/s, drops {}",
        overload.started_per_s(),
        100.0 * within,
        overload.copies_per_s(),
        kamailio.socket().drops
    );
    assert!(overload.started_per_s() > 2.7 * best, "SIPp offered {:.0}/s only", overload.started_per_s());
    assert!(completed < 0.7 * best, "no collapse: {completed:.0}/s of {best:.0}/s");
    assert!(kamailio.socket().drops > 0);
}

#[test]
fn refused_calls_are_acknowledged_and_counted_as_refused() {
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let load = CallLoad { callee: "busy", ..CallLoad::at(100).ending_after(50) };
    let totals = topology.call(&load).finish(Duration::from_secs(20)).totals();
    assert_eq!(
        (totals.refused, totals.answered, totals.completed, totals.failed),
        (50, 0, 0, 0),
        "{totals:?}"
    );
}

#[test]
fn calls_complete_over_ipv6() {
    let topology = Topology::new(&LinkPlan::default().with_ipv6());
    let listen = (topology.link.far.ipv6.expect("address"), 5060).into();
    let kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(listen));
    let totals =
        topology.call_ipv6(&CallLoad::at(100).ending_after(50)).finish(Duration::from_secs(20)).totals();
    assert_eq!((totals.completed, totals.failed), (50, 0), "{totals:?}");
    assert!(kamailio.terminate().success());
}

#[test]
fn a_bare_server_understands_the_marker_in_the_uri_but_not_behind_the_version() {
    let topology = Topology::new(&LinkPlan::default());
    let kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let calls = CallLoad::at(100).ending_after(20);
    let totals = topology.call(&calls.clone().marked(Marking::Uri)).finish(Duration::from_secs(20)).totals();
    assert_eq!((totals.completed, totals.failed), (20, 0), "{totals:?}");

    // The reason why sipweir must remove the field before it hands over.
    let mut callers = topology.call(&calls.marked(Marking::Field));
    callers.run_for(Duration::from_secs(2));
    let totals = callers.stop().totals();
    assert_eq!((totals.started, totals.answered), (20, 0), "{totals:?}");
    assert!(kamailio.log().contains("parsing of SIP message failed"), "{}", kamailio.log());
}
