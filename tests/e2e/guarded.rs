//! sipweir between SIPp and Kamailio: the main job with real parts.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sipweir_tests::{CallLoad, Flood, Kamailio, KamailioPlan, LinkPlan, Marking, message, turn, wait_until};

use crate::guard::{end, guard, kernel_packets, sum_of_workers};
use crate::topology::Topology;
use crate::unguarded::best_completed_per_s;

/// Load against the server's own best.
const OVERLOAD: f64 = 3.0;

/// Until the gate and the rate estimate have settled.
const WARM_UP: Duration = Duration::from_secs(3);

/// Offers three times the server's best for 12 s, then lets every call end.
fn keeps_its_best_at_three_times_the_load(marking: Marking) {
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan::default());
    let kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let best = best_completed_per_s(&topology, Duration::from_secs(5));

    let mut sipweir = guard(&topology);
    let rate = (OVERLOAD * best) as u32;
    let mut callers = topology.call(&CallLoad::at(rate).ending_after(13 * rate).marked(marking));
    callers.run_for(Duration::from_secs(12));
    let overload = callers.statistics().after(WARM_UP);
    let totals = callers.finish(Duration::from_secs(60)).totals();
    let drops = kamailio.socket().drops;
    println!(
        "{marking:?}: best {best:.0}, offered {:.0}, completed {:.0}, refused {:.0}, copies {:.0} /s, {:.1} % within T1, drops {drops}",
        overload.started_per_s(),
        overload.completed_per_s(),
        overload.refused_per_s(),
        overload.copies_per_s(),
        100.0 * overload.share_within_t1(),
    );

    let status = sipweir.status();
    assert!(
        overload.started_per_s() > 0.9 * OVERLOAD * best,
        "SIPp offered {:.0}/s only",
        overload.started_per_s()
    );
    assert!(overload.completed_per_s() >= 0.95 * best, "{overload:?} against {best:.0}/s\n{status:#}");
    assert!(overload.share_within_t1() >= 0.95, "{overload:?}\n{status:#}");
    assert_eq!(totals.answered, totals.completed, "an answered call was lost: {totals:?}\n{status:#}");
    assert_eq!((totals.failed, totals.in_progress), (0, 0), "{totals:?}\n{status:#}");
    assert_eq!(drops, 0, "{status:#}");
    assert_eq!(sum_of_workers(&status, "/fill_ring_empty"), 0, "{status:#}");
    assert_eq!(sum_of_workers(&status, "/ring_full/control"), 0, "{status:#}");
    end(sipweir, &topology);
}

#[test]
fn kamailio_keeps_its_best_at_three_times_the_load_of_unmarked_calls() {
    keeps_its_best_at_three_times_the_load(Marking::Off);
}

#[test]
fn kamailio_keeps_its_best_at_three_times_the_load_of_calls_marked_behind_the_version() {
    keeps_its_best_at_three_times_the_load(Marking::Field);
}

#[test]
fn kamailio_keeps_its_best_at_three_times_the_load_of_calls_marked_in_the_uri() {
    keeps_its_best_at_three_times_the_load(Marking::Uri);
}

/// As above with callers that mark each copy by its number, and that notice when a request is refused after it was
/// answered, or the other way round; over two queues, whose workers share the server.
#[test]
fn two_workers_keep_kamailio_at_its_best_under_callers_that_number_their_copies() {
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan { queues: 2, ..LinkPlan::default() });
    let kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let best = best_completed_per_s(&topology, Duration::from_secs(5));
    let mut sipweir = guard(&topology);
    for (round, marker) in [bench::Marker::Field, bench::Marker::Uri].into_iter().enumerate() {
        let mut config = bench::CallerConfig::new(topology.service());
        config.rate_per_s = OVERLOAD * best;
        config.duration_ns = 8_000_000_000;
        config.warm_up_ns = 2_000_000_000;
        config.drain_ns = 34_000_000_000;
        config.hold = bench::Hold { mean_ns: 100_000_000, exponential: false };
        config.marker = marker;
        config.seed = 1 + round as u64;
        let report = topology.callers.inside(|| {
            bench::run(&config, &AtomicBool::new(false), &bench::Progress::default())
                .expect("the caller runs")
        });
        let invite = report.of(bench::Method::Invite).expect("INVITE was offered");
        let status = sipweir.status();
        println!("two workers, {marker:?}: best {best:.0}, {:?}", report.window);
        let shares: Vec<u64> = status["workers"]
            .as_array()
            .expect("workers")
            .iter()
            .map(|worker| worker["turns"].as_u64().unwrap_or(0))
            .collect();
        assert!(shares.len() == 2 && shares.iter().all(|turns| *turns > 1000), "both work: {shares:?}");
        assert!(report.window.goodput_per_s >= 0.95 * best, "{report}\n{status:#}");
        assert!(
            report.window.goodput_in_t1_per_s >= 0.95 * report.window.goodput_per_s,
            "{report}\n{status:#}"
        );
        assert_eq!(report.responses.contradictions, 0, "{report}\n{status:#}");
        assert_eq!((invite.total.failed, report.calls.answered_then_lost), (0, 0), "{report}\n{status:#}");
        assert_eq!(kamailio.socket().drops, 0, "{status:#}");
    }
    end(sipweir, &topology);
}

#[test]
fn no_original_is_lost_while_ten_times_as_many_copies_arrive() {
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let best = best_completed_per_s(&topology, Duration::from_secs(5));
    let mut sipweir = guard(&topology);

    let rate = (0.6 * best) as u32;
    let (from, to) = (SocketAddr::new(topology.link.near.ipv4, 5070), topology.service());
    let copies = Flood::start(&topology.callers, from, to, 10 * rate, move |number| {
        message::request("INVITE", from, to, number, &format!(" rtx={}", 1 + number % 6), 300)
    });
    let totals =
        topology.call(&CallLoad::at(rate).ending_after(8 * rate)).finish(Duration::from_secs(60)).totals();
    let copies = copies.stop();

    let status = sipweir.status();
    println!("{totals:?}, beside {copies} copies");
    assert!(copies > 9 * totals.started, "the flood sent {copies} copies beside {totals:?}");
    // A copy of SIPp's own would hide a lost original.
    assert_eq!((totals.completed, totals.copies), (totals.started, 0), "{totals:?}\n{status:#}");
    assert_eq!(sum_of_workers(&status, "/ring_full/new"), 0, "{status:#}");
    assert_eq!(sum_of_workers(&status, "/ring_full/control"), 0, "{status:#}");
    assert_eq!(sum_of_workers(&status, "/fill_ring_empty"), 0, "{status:#}");
    end(sipweir, &topology);
}

#[test]
fn calls_complete_over_ipv6_and_over_several_queues() {
    let topology = Topology::new(&LinkPlan { queues: 2, ..LinkPlan::default().with_ipv6() });
    let listen = (topology.link.far.ipv6.expect("address"), 5060).into();
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(listen));
    let mut sipweir = guard(&topology);
    assert_eq!(sipweir.status()["workers"].as_array().map(Vec::len), Some(2));
    let totals =
        topology.call_ipv6(&CallLoad::at(100).ending_after(50)).finish(Duration::from_secs(20)).totals();
    assert_eq!(
        (totals.completed, totals.copies, totals.failed),
        (50, 0, 0),
        "{totals:?}\n{}",
        sipweir.describe()
    );
    end(sipweir, &topology);
}

/// Sends a request from the callers' namespace and waits for the first line of an answer.
#[track_caller]
fn answer_to(topology: &Topology, padding: usize) -> String {
    let from = SocketAddr::new(topology.link.near.ipv4, 5071);
    let socket = topology.callers.inside(|| UdpSocket::bind(from).expect("bind in the callers' namespace"));
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("time-out");
    let request = message::request("OPTIONS", from, topology.service(), padding as u64, "", padding);
    socket.send_to(&request, topology.service()).expect("send");
    let mut buffer = [0; 4096];
    let (length, _) =
        socket.recv_from(&mut buffer).unwrap_or_else(|error| panic!("padding {padding}: {error}"));
    String::from_utf8_lossy(&buffer[..length]).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn fragments_and_packets_larger_than_a_frame_reach_the_server_through_the_side_door() {
    let topology = Topology::new(&LinkPlan { mtu: 2500, ..LinkPlan::default() });
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let mut sipweir = guard(&topology);
    for (padding, class) in [(1900, "oversize"), (6000, "fragment")] {
        assert_eq!(answer_to(&topology, padding), "SIP/2.0 200 OK");
        let packets = kernel_packets(&sipweir.status(), Some(class));
        assert!(packets > 0, "{class}: {:#}", sipweir.status());
    }
    assert_eq!(sipweir.number("/side_door/received"), 2);
    assert_eq!(answer_to(&topology, 100), "SIP/2.0 200 OK");
    end(sipweir, &topology);
}

#[test]
fn a_server_that_is_gone_is_answered_for_and_found_again() {
    let topology = Topology::new(&LinkPlan::default());
    let plan = KamailioPlan::new(topology.service());
    let kamailio = Kamailio::start(&topology.server, &plan);
    let mut sipweir = guard(&topology);
    let calls = CallLoad::at(50).ending_after(25);
    assert_eq!(topology.call(&calls).finish(Duration::from_secs(20)).totals().completed, 25);

    kamailio.terminate();
    wait_until("sipweir has seen that the server is gone", Duration::from_secs(5), || {
        sipweir.status().pointer("/services/main/server/state").is_some_and(|state| state == "down")
    });
    let totals = topology.call(&calls).finish(Duration::from_secs(20)).totals();
    assert_eq!((totals.refused, totals.failed), (25, 0), "{totals:?}\n{:#}", sipweir.status());

    let _kamailio = Kamailio::start(&topology.server, &plan);
    wait_until("sipweir has found the server again", Duration::from_secs(5), || {
        sipweir.status().pointer("/services/main/server/state").is_some_and(|state| state == "up")
    });
    assert_eq!(topology.call(&calls).finish(Duration::from_secs(20)).totals().completed, 25);
    end(sipweir, &topology);
}

#[test]
fn an_idle_sipweir_uses_less_than_a_hundredth_of_a_core() {
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let sipweir = guard(&topology);
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", sipweir.id())).expect("stat of sipweir");
        // Behind the name, which may hold blanks: state is field 3, utime and stime are 14 and 15 (proc(5)).
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        fields[11].parse::<u64>().expect("utime") + fields[12].parse::<u64>().expect("stime")
    };
    let before = ticks();
    let begin = std::time::Instant::now();
    wait_until("five seconds have been measured", Duration::from_secs(10), || begin.elapsed().as_secs() >= 5);
    // Ticks are hundredths of a second: 1 % of 5 s are 5.
    assert!(ticks() - before < 5, "{} ticks in 5 s", ticks() - before);
    end(sipweir, &topology);
}
