//! What the worker tells the XDP program: the gate's state and share, who asks the table, when nobody is answered.

use super::*;

#[test]
fn the_kernel_is_asked_to_know_copies_while_there_are_many() {
    let mut bench = Bench::new(&Setup::default());
    bench.turn_after(MS);
    let unasked = GateWord::OPEN.with_table_unasked(true);
    let offer = |bench: &mut Bench, copies: usize| {
        for call in 0..300 {
            let message = request("INVITE", URI, &format!("c{}", if call < copies { 0 } else { call }));
            bench.deliver(&message).expect("delivered");
            bench.turn_after(MS / 100);
            bench.at_server();
        }
    };
    offer(&mut bench, 0);
    assert_eq!(word(&bench), unasked, "all were originals");
    offer(&mut bench, 300);
    assert_eq!(word(&bench), GateWord::OPEN, "the same message again and again");
    bench.turn_after(1100 * MS);
    assert_eq!(word(&bench), unasked, "a second later");
    bench.assert_conserved();
}

#[test]
fn the_gate_of_a_watched_service_follows_the_line_that_would_wait() {
    let levels = HystereticConfig {
        admit_below: Threshold::Messages(5),
        shed_at: Threshold::Messages(10),
        discard_at: Threshold::Messages(20),
        share: 0.5,
    };
    let (gate, monitored) = (GateConfig::Hysteretic(levels), Monitored::ALL);
    let mut bench = Bench::new(&Setup { gate, monitored, rate_per_s: 100.0, ..Setup::default() });
    bench.turn_after(MS);
    // As the XDP program counts: originals and all, at the lane's second service.
    let place = QUEUES_MAX * ARRIVAL_WORDS;
    let arrive = |bench: &Bench, originals: u64| {
        bench.arrivals.store(place, bench.arrivals.load(place) + originals);
        bench.arrivals.store(place + 2, bench.arrivals.load(place + 2) + originals);
    };
    arrive(&bench, 1);
    // The server serves one in ten milliseconds until it is measured, and all that came if nothing waits there.
    for (arrivals, at_server, ms, expected) in [
        (20, 0, 10, GateState::Normal),
        (8, 2, 1, GateState::Normal),
        (5, 2, 1, GateState::Overload),
        (20, 2, 1, GateState::Discard),
        (0, 2, 2, GateState::Discard),
        (0, 0, 400, GateState::Normal),
    ] {
        bench.server.set_waiting(at_server);
        arrive(&bench, arrivals);
        for _ in 0..ms {
            bench.turn_after(MS);
        }
        // One look more: with an empty queue at the server it is taken every 5 ms.
        bench.turn_after(5 * MS);
        let word = word(&bench);
        assert_eq!(word.state(), expected, "{arrivals} more, {} in line", bench.lane.would_wait.get());
        assert_eq!(word.bits() >> 48, 0xffff, "all pass");
        assert!(bench.worker.due_in_ns().is_some_and(|due_ns| due_ns <= 5 * MS), "it has to look");
    }
    assert!(bench.at_server().is_empty() && bench.replies().is_empty());
    bench.assert_conserved();
}

#[test]
fn what_is_only_watched_and_comes_to_the_worker_is_neither_refused_nor_absorbed() {
    let monitored = MonitorClasses(vec![Class::Original, Class::Copy]).monitored();
    let gate = GateConfig::TailDrop { buffer: Threshold::Messages(1) };
    let mut bench = Bench::new(&Setup { gate, monitored, queue_target: 1, ..Setup::default() });
    bench.server.set_waiting(1);
    bench.turn_after(MS);
    for call in ["c1", "c2", "c3", "c4", "c1"] {
        bench.deliver(&request("INVITE", URI, call)).expect("delivered");
        bench.turn_after(MS);
    }
    let mut served = Vec::new();
    for _ in 0..10 {
        bench.server.set_waiting(0);
        bench.turn_after(MS);
        served.extend(bench.at_server());
    }
    assert_eq!(served.len(), 5, "{:?}", names(&served));
    assert!(bench.replies().is_empty());
    bench.assert_conserved();
}

/// A bench whose server is known to be gone, and that may answer ten at once.
fn bench_without_server() -> Bench {
    let reply = Reply { rate: 200, per_destination: 1000, ..Reply::default() };
    let mut bench = Bench::new(&Setup { reply, ..Setup::default() });
    bench.server.set_gone(true);
    for _ in 0..2000 {
        bench.turn_after(2 * MS);
    }
    assert_eq!(word(&bench), CLOSED);
    bench
}

const CLOSED: GateWord = GateWord::new(GateState::Discard, 0);

fn reject(bench: &mut Bench, count: usize) {
    for call in 0..count {
        let message = request("INVITE", URI, &format!("c{call}"));
        let class = (Class::Original, Method::Invite);
        bench.deliver_as(REJECT, message.as_bytes(), class.0, class.1, None).expect("delivered");
        bench.turn_after(MS / 1000);
    }
}

#[test]
fn the_kernel_brings_nobody_to_be_answered_when_no_more_may_be() {
    let mut bench = bench_without_server();
    reject(&mut bench, 12);
    assert_eq!(word(&bench), CLOSED.with_silence(true));
    assert_eq!(bench.replies().len(), 10, "a burst");
    bench.turn_after(24 * MS);
    assert_eq!(word(&bench), CLOSED.with_silence(true));
    bench.turn_after(2 * MS);
    assert_eq!(word(&bench), CLOSED, "half a burst is there again");
    bench.assert_conserved();
}

#[test]
fn an_idle_worker_sleeps_although_the_last_it_refused_were_not_answered() {
    let mut bench = bench_without_server();
    reject(&mut bench, 12);
    assert_eq!(word(&bench), CLOSED.with_silence(true));
    bench.server.set_gone(false);
    for _ in 0..100 {
        bench.turn_after(2 * MS);
    }
    assert_eq!(word(&bench).state(), GateState::Normal);
    assert_eq!(
        bench.worker.due_in_ns(),
        None,
        "nobody is refused, so nobody waits for the end of the silence"
    );
    bench.assert_conserved();
}

#[test]
fn the_gate_is_published_at_each_threshold_and_opens_again() {
    let levels = HystereticConfig {
        admit_below: Threshold::Messages(5),
        shed_at: Threshold::Messages(10),
        discard_at: Threshold::Messages(20),
        share: 1.0,
    };
    let mut bench =
        Bench::new(&Setup { gate: GateConfig::Hysteretic(levels), queue_target: 1, ..Setup::default() });
    bench.server.set_waiting(1);
    bench.turn_after(MS);
    let state = |bench: &Bench| word(bench).state();
    assert_eq!(state(&bench), GateState::Normal);
    for call in 0..30 {
        bench.deliver(&request("INVITE", URI, &format!("c{call}"))).expect("delivered");
        bench.turn_after(MS / 1000);
        if call == 12 {
            assert_eq!(state(&bench), GateState::Overload);
        }
    }
    assert_eq!(state(&bench), GateState::Discard);
    let rejected = bench.lane.outcome_of(Class::Original, Outcome::Rejected);
    assert!(rejected > 0);
    assert_eq!(bench.replies().len() as u64, rejected);
    bench.server.set_waiting(0);
    for _ in 0..100 {
        bench.turn_after(MS);
        bench.at_server();
    }
    assert_eq!(state(&bench), GateState::Normal, "again");
    bench.assert_conserved();
}

#[test]
fn the_random_gate_publishes_the_share_that_it_admits_and_opens_when_the_line_is_empty() {
    let config = RandomConfig {
        low: Threshold::Messages(5),
        high: Threshold::Messages(25),
        buffer: Threshold::Messages(100),
        weight: 1.0,
        initial_probability: 0.25,
    };
    let gate = GateConfig::Random(config);
    let mut bench = Bench::new(&Setup { gate, queue_target: 1, ..Setup::default() });
    bench.server.set_waiting(1);
    bench.turn_after(MS);
    let open = GateWord::OPEN.with_table_unasked(true);
    assert_eq!(word(&bench), open);
    for call in 0..400 {
        bench.deliver(&request("INVITE", URI, &format!("c{call}"))).expect("delivered");
        bench.turn_after(MS / 1000);
    }
    // The line has grown to where nearly all are refused, and the word says so, but for the sample.
    let admitted = word(&bench).admitted_share();
    assert!((1.0 / 16.0..0.25).contains(&admitted), "{admitted}");
    assert_eq!(word(&bench).state(), GateState::Overload);
    let rejected = bench.lane.outcome_of(Class::Original, Outcome::Rejected);
    assert!((370..395).contains(&rejected), "{rejected}");
    assert_eq!(bench.replies().len() as u64, rejected);
    bench.server.set_waiting(0);
    for _ in 0..100 {
        bench.turn_after(MS);
        bench.at_server();
    }
    assert_eq!(word(&bench), open, "without a request having come");
    bench.assert_conserved();
}
