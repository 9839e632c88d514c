//! Bad hours under load: what is lost, for how long, and that nothing else is. `docs/operations.md` ("What survives what") has
//! the figures.

use std::time::Duration;

use rustix::process::Signal;
use sipweir_tests::sipp::Snapshot;
use sipweir_tests::{CallLoad, Kamailio, KamailioPlan, Link, LinkPlan, Sipweir, turn, wait_until};

use crate::guard::{assert_nothing_left, configuration, end, guard, has_program, sum_of_workers};
use crate::topology::Topology;

/// A third of what Kamailio does alone here: nothing is refused but for what happens in the test.
const RATE: u32 = 300;
const CALLS: u32 = 12 * RATE;
/// From the last call on, for its timers.
const PATIENCE: Duration = Duration::from_secs(60);

/// After a bad time everything is as before it: the gate is open, nothing waits, and calls take no copies.
#[track_caller]
fn assert_recovered(topology: &Topology, mut sipweir: Sipweir) {
    wait_until("the gate is normal again", Duration::from_secs(5), || {
        sipweir.status().pointer("/services/main/gate/state").is_some_and(|state| state == "normal")
    });
    let calls = CallLoad::at(50).ending_after(50);
    let totals = topology.call(&calls).finish(Duration::from_secs(20)).totals();
    assert_eq!((totals.completed, totals.copies), (50, 0), "{totals:?}\n{:#}", sipweir.status());
    end(sipweir, topology);
}

/// Each call got an answer: the whole of it, or a refusal.
#[track_caller]
fn assert_all_answered(totals: &Snapshot) {
    println!("{totals:?}");
    assert_eq!((totals.failed, totals.in_progress), (0, 0), "{totals:?}");
    assert_eq!(totals.completed + totals.refused, u64::from(CALLS), "{totals:?}");
}

#[test]
fn a_server_that_stands_still_for_five_seconds_costs_the_calls_of_that_time_a_refusal() {
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan::default());
    let kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let sipweir = guard(&topology);
    let mut callers = topology.call(&CallLoad::at(RATE).ending_after(CALLS));
    callers.run_for(Duration::from_secs(3));
    kamailio.signal(Signal::STOP);
    callers.run_for(Duration::from_secs(8));
    kamailio.signal(Signal::CONT);
    let totals = callers.finish(PATIENCE).totals();
    assert_all_answered(&totals);
    // Those of the five seconds, and a second on either side.
    assert!((u64::from(3 * RATE)..=u64::from(7 * RATE)).contains(&totals.refused), "{totals:?}");
    assert_eq!(kamailio.socket().drops, 0, "its socket ran over");
    assert_recovered(&topology, sipweir);
}

#[test]
fn a_server_that_is_killed_and_started_again_costs_the_calls_of_that_time_a_refusal() {
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan::default());
    let plan = KamailioPlan::new(topology.service());
    let kamailio = Kamailio::start(&topology.server, &plan);
    let sipweir = guard(&topology);
    let mut callers = topology.call(&CallLoad::at(RATE).ending_after(CALLS));
    callers.run_for(Duration::from_secs(3));
    kamailio.signal(Signal::KILL);
    drop(kamailio);
    callers.run_for(Duration::from_secs(6));
    let _again = Kamailio::start(&topology.server, &plan);
    let totals = callers.finish(PATIENCE).totals();
    assert_all_answered(&totals);
    assert!((u64::from(RATE)..=u64::from(5 * RATE)).contains(&totals.refused), "{totals:?}");
    assert_recovered(&topology, sipweir);
}

#[test]
fn an_interface_that_is_made_anew_is_guarded_by_a_new_start() {
    let plan = LinkPlan::default();
    let mut topology = Topology::new(&plan);
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let mut sipweir = guard(&topology);
    topology.callers.ip(&["link", "del", topology.link.near.device]);
    wait_until("sipweir has ended", Duration::from_secs(5), || !sipweir.describe().contains(": running"));
    topology.link = Link::between(&topology.callers, &topology.server, &plan);
    assert_nothing_left(&topology);
    // What systemd does (`Restart=`).
    let again = guard(&topology);
    assert!(has_program(&topology));
    assert_recovered(&topology, again);
}

#[test]
fn a_change_of_the_number_of_queues_loses_no_call_and_is_said() {
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan { queues: 2, ..LinkPlan::default() });
    let device = topology.link.far.device;
    let set = |queues| topology.server.finish(&["ethtool", "-L", device, "rx", queues, "tx", queues]);
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    // The kernel keeps queues with AF_XDP sockets, so only more are possible while it runs.
    let mut of_both = guard(&topology);
    assert_eq!(of_both.status()["workers"].as_array().map(Vec::len), Some(2));
    let refused = set("1");
    assert!(!refused.status.success() && refused.stderr.contains("AF_XDP"), "{refused}");
    end(of_both, &topology);

    let _said = set("1").expect_success();
    let mut sipweir = guard(&topology);
    let mut callers = topology.call(&CallLoad::at(RATE).ending_after(CALLS));
    for (seconds, queues) in [(3, "2"), (8, "1")] {
        callers.run_for(Duration::from_secs(seconds));
        let _said = set(queues).expect_success();
    }
    let totals = callers.finish(PATIENCE).totals();
    assert_all_answered(&totals);
    assert_eq!(totals.refused, 0, "{totals:?}");
    let said = sipweir.describe();
    assert!(said.contains("more receive queues") && said.contains("is guarded again"), "{said}");
    assert_recovered(&topology, sipweir);
}

/// As a worker that panics ends its process, this is what `kill -9` is for the server. The fault is there in builds with
/// assertions only.
#[test]
fn a_worker_that_panics_ends_the_run_and_calls_go_on_without_it() {
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let by = ["env", "SIPWEIR_FAULT=worker_panic"];
    let mut sipweir = Sipweir::start_by(&by, &topology.server, &configuration(), &[]);
    // It panics after a thousand turns, which is a second or two from now.
    let callers = topology.call(&CallLoad::at(RATE).ending_after(CALLS));
    wait_until("sipweir has ended", Duration::from_secs(20), || !sipweir.describe().contains(": running"));
    let said = sipweir.describe();
    assert!(
        said.contains("exit status: 1") && said.contains("panicked") && said.contains("worker-q0 ended"),
        "{said}"
    );
    assert_nothing_left(&topology);
    let totals = callers.finish(PATIENCE).totals();
    println!("{totals:?}");
    assert_eq!((totals.completed, totals.failed), (u64::from(CALLS), 0), "{totals:?}");
    // A second without anybody would have left as many copies as calls come in it.
    assert!(totals.copies < u64::from(RATE), "{totals:?}");
}

/// Twice the server's best for so many seconds: `cargo xtask soak` has ten minutes.
#[test]
fn a_soak_leaves_memory_and_frames_where_they_were() {
    let seconds =
        std::env::var("SIPWEIR_SOAK_S").map_or(20, |text| text.parse().expect("SIPWEIR_SOAK_S: seconds"));
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan::default());
    let plan = KamailioPlan::new(topology.service());
    let kamailio = Kamailio::start(&topology.server, &plan);
    let mut sipweir = guard(&topology);
    let rate = (2.0 * plan.nominal_capacity_per_s()) as u32;
    let warm_up_s = 8;
    let mut callers = topology.call(&CallLoad::at(rate).ending_after(rate * (warm_up_s + seconds + 4)));
    callers.run_for(Duration::from_secs(warm_up_s.into()));
    let resident = |sipweir: &Sipweir| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", sipweir.id())).expect("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("KiB")
    };
    let first_kib = resident(&sipweir);
    let (mut most_kib, mut most_frames) = (first_kib, 0);
    for look_s in (warm_up_s..=warm_up_s + seconds).step_by(4) {
        callers.run_for(Duration::from_secs(look_s.into()));
        most_kib = most_kib.max(resident(&sipweir));
        most_frames = most_frames.max(sum_of_workers(&sipweir.status(), "/frames_outstanding"));
    }
    let totals = callers.finish(PATIENCE).totals();
    let last_kib = resident(&sipweir);
    println!(
        "{seconds} s: {first_kib} KiB at first, {most_kib} at most, {last_kib} at last; {most_frames} frames at most; {totals:?}"
    );
    assert!(most_kib <= first_kib + 1024, "{first_kib} KiB grew to {most_kib}");
    assert_eq!((totals.failed, totals.in_progress), (0, 0), "{totals:?}");
    assert_eq!(totals.answered, totals.completed, "an answered call was lost: {totals:?}");
    assert_eq!(kamailio.socket().drops, 0);
    assert_recovered(&topology, sipweir);
}
