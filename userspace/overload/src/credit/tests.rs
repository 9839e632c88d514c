use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

use super::{Credit, CreditConfig, Look, Places, ReceiveQueue, ServerState};
use crate::rate::RateConfig;

const MS: u64 = 1_000_000;
const TRUESIZE: u64 = 2304;

fn credit() -> Credit {
    Credit::new(CreditConfig::default(), 0).unwrap()
}

fn queue(messages: u64) -> ReceiveQueue {
    ReceiveQueue { sockets: 1, bytes: messages * TRUESIZE, ..ReceiveQueue::default() }
}

/// Packets of 642 bytes, which have the size above.
fn hand(credit: &mut Credit, count: u32) {
    (0..count).for_each(|_| credit.handed(642));
}

#[test]
fn nothing_is_granted_before_the_server_has_been_seen() {
    let mut credit = credit();
    assert_eq!((credit.grant(), credit.server()), (0, ServerState::Missing));
    let look = credit.look_kernel(MS, queue(0), 0);
    assert_eq!(look, Look { departed: 0, dropped: 0, lost: 0, server: ServerState::Up, changed: true });
    assert_eq!(credit.grant(), 16);
}

#[test]
fn the_grant_is_what_is_missing_to_the_target() {
    let mut credit = credit();
    let _ = credit.look_kernel(MS, queue(0), 0);
    hand(&mut credit, 10);
    assert_eq!((credit.grant(), credit.at_server()), (6, 10));
    assert_eq!(credit.look_kernel(2 * MS, queue(7), 0).departed, 3);
    assert_eq!((credit.grant(), credit.at_server()), (9, 7));
    let _ = credit.look_kernel(3 * MS, queue(40), 0);
    assert_eq!((credit.grant(), credit.at_server()), (0, 40));
}

#[test]
fn messages_that_arrive_after_the_look_are_not_counted_twice() {
    let mut credit = credit();
    let _ = credit.look_kernel(MS, queue(0), 0);
    hand(&mut credit, 10);
    let mut departed = 0;
    for (at, waiting) in [(2, 2), (3, 10), (4, 6), (5, 0)] {
        departed += credit.look_kernel(at * MS, queue(waiting), 0).departed;
    }
    assert_eq!(departed, 10);
}

#[test]
fn traffic_past_sipweir_lowers_the_grant_and_is_not_ours_to_count() {
    let mut credit = credit();
    let _ = credit.look_kernel(MS, queue(12), 0);
    assert_eq!(credit.grant(), 4);
    hand(&mut credit, 4);
    assert_eq!(credit.look_kernel(2 * MS, queue(16), 0).departed, 0);
    assert_eq!(credit.look_kernel(3 * MS, queue(0), 0).departed, 4);
}

#[test]
fn drops_are_no_departures_and_a_new_socket_begins_a_new_count() {
    let mut credit = credit();
    let look = |credit: &mut Credit, at, messages, drops| {
        credit.look_kernel(at * MS, ReceiveQueue { drops, ..queue(messages) }, 0)
    };
    let _ = look(&mut credit, 1, 0, 700);
    hand(&mut credit, 10);
    let seen = look(&mut credit, 2, 5, 703);
    assert_eq!((seen.dropped, seen.departed), (3, 2));
    let seen = look(&mut credit, 3, 5, 2);
    assert_eq!((seen.dropped, seen.departed), (0, 0), "the counter went back: another socket");
}

#[test]
fn a_server_that_is_gone_is_missing_then_down_and_back_at_once() {
    let mut credit = credit();
    let _ = credit.look_kernel(MS, queue(0), 0);
    hand(&mut credit, 5);
    let gone = ReceiveQueue::default();
    let look = credit.look_kernel(2 * MS, gone, 0);
    assert_eq!((look.server, look.changed, look.lost, look.departed), (ServerState::Missing, true, 5, 0));
    assert_eq!((credit.grant(), credit.at_server()), (0, 0));
    let look = credit.look_kernel(202 * MS, gone, 0);
    assert_eq!((look.server, look.changed, look.lost), (ServerState::Missing, false, 0));
    let look = credit.look_kernel(203 * MS, gone, 0);
    assert_eq!((look.server, look.changed), (ServerState::Down, true));
    assert_eq!(credit.grant(), 0);
    assert!(!credit.look_kernel(900 * MS, gone, 0).changed);
    let look = credit.look_kernel(901 * MS, queue(1), 0);
    assert_eq!((look.server, look.changed), (ServerState::Up, true));
    assert_eq!(credit.grant(), 15);
}

#[test]
fn a_server_that_returns_in_time_is_never_down() {
    let mut credit = credit();
    for round in 0..50 {
        let _ = credit.look_kernel(round * 200 * MS, queue(0), 0);
        assert_eq!(
            credit.look_kernel(round * 200 * MS + MS, ReceiveQueue::default(), 0).server,
            ServerState::Missing
        );
        assert_eq!(
            credit.look_kernel(round * 200 * MS + 150 * MS, ReceiveQueue::default(), 0).server,
            ServerState::Missing
        );
    }
}

#[test]
fn an_embedded_processor_is_granted_its_free_places_up_to_the_target() {
    let mut credit = credit();
    let _ = credit.look_embedded(MS, Some(Places { free: 64, total: 64 }));
    assert_eq!(credit.grant(), 16);
    hand(&mut credit, 16);
    assert_eq!(credit.look_embedded(2 * MS, Some(Places { free: 50, total: 64 })).departed, 2);
    assert_eq!(credit.grant(), 2);
    let _ = credit.look_embedded(3 * MS, Some(Places { free: 4, total: 4 }));
    assert_eq!(credit.grant(), 4, "a queue shorter than the target");
    assert_eq!(credit.look_embedded(4 * MS, None).server, ServerState::Missing);
}

/// A server with a queue, and a way to look at it.
struct Simulated {
    serves_per_s: u64,
    waiting: u64,
    /// Served, in 1/10⁹ message.
    progress: u64,
    now: u64,
}

impl Simulated {
    fn new(serves_per_s: u64) -> Self {
        Self { serves_per_s, waiting: 0, progress: 0, now: 0 }
    }

    /// Time passes; an idle server saves nothing up.
    fn run(&mut self, span_ns: u64) {
        self.now += span_ns;
        self.progress += span_ns * self.serves_per_s;
        let served = (self.progress / 1_000_000_000).min(self.waiting);
        self.waiting -= served;
        self.progress = if self.waiting == 0 { 0 } else { self.progress - served * 1_000_000_000 };
    }

    fn look(&self, credit: &mut Credit) -> Look {
        credit.look_kernel(self.now, queue(self.waiting), 0)
    }

    /// Hands over `most`, or as much as is granted.
    fn hand(&mut self, credit: &mut Credit, most: u32) -> u32 {
        let count = credit.grant().min(most);
        hand(credit, count);
        self.waiting += u64::from(count);
        count
    }
}

#[test]
fn the_service_rate_is_measured_while_the_server_has_work() {
    let mut credit = credit();
    let mut server = Simulated::new(400);
    for _ in 0..50_000 {
        server.run(MS / 5);
        let _ = server.look(&mut credit);
        server.hand(&mut credit, u32::MAX);
    }
    assert!((credit.rate_per_s() - 400.0).abs() < 4.0, "{}", credit.rate_per_s());
    server.waiting = 0;
    for _ in 0..5000 {
        server.run(10 * MS);
        let _ = server.look(&mut credit);
    }
    assert!(
        (credit.rate_per_s() - 400.0).abs() < 10.0,
        "idle time counts for nothing: {}",
        credit.rate_per_s()
    );
}

#[test]
fn what_strangers_send_to_the_server_does_not_change_the_rate() {
    let mut credit = credit();
    for at in 1..10_000 {
        let _ = credit.look_kernel(at * MS, queue(1 + at % 8), 0);
    }
    assert!((credit.rate_per_s() - 1000.0).abs() < 1e-6, "{}", credit.rate_per_s());
}

#[test]
fn pairs_of_messages_with_long_pauses_do_not_make_the_server_look_slow() {
    let mut credit = credit();
    let mut server = Simulated::new(100);
    for step in 0..100_000 {
        server.run(MS);
        let _ = server.look(&mut credit);
        if step % 50 == 0 {
            server.hand(&mut credit, 2);
        }
    }
    assert!((80.0..200.0).contains(&credit.rate_per_s()), "{}", credit.rate_per_s());
}

#[test]
fn a_slow_server_has_few_in_its_queue_and_a_fast_one_up_to_the_target() {
    for (serves_per_s, most) in [(100, 4), (300, 9), (400, 12), (5000, 16)] {
        let mut credit = credit();
        let mut server = Simulated::new(serves_per_s);
        for step in 0..100_000 {
            server.run(MS / 5);
            let _ = server.look(&mut credit);
            server.hand(&mut credit, u32::MAX);
            assert!(
                step < 50_000 || server.waiting.abs_diff(most) <= 1,
                "{serves_per_s}: {}",
                server.waiting
            );
        }
    }
}

#[test]
fn the_target_is_30_ms_of_service_but_at_least_four_messages() {
    let config = CreditConfig { target_messages: 32, ..CreditConfig::default() };
    let targets = [1.0, 100.0, 200.0, 1000.0, 1e9, f64::NAN].map(|rate_per_s| config.target_at(rate_per_s));
    assert_eq!(targets, [4, 4, 6, 30, 32, 4]);
    let few = CreditConfig { target_messages: 3, ..config };
    assert_eq!(few.target_at(1.0), 3, "what is configured is never exceeded");
}

#[test]
fn a_server_that_became_fast_is_not_held_at_the_least_target() {
    let rate = RateConfig { initial_per_s: 10.0, ..RateConfig::default() };
    let mut credit = Credit::new(CreditConfig { rate, ..CreditConfig::default() }, 0).unwrap();
    let mut server = Simulated::new(1_000_000);
    let _ = server.look(&mut credit);
    let handed = [(); 4].map(|()| {
        let count = server.hand(&mut credit, u32::MAX);
        server.run(MS / 5);
        let _ = server.look(&mut credit);
        count
    });
    assert_eq!(handed, [4, 8, 16, 16], "it empties its queue before every look");
    hand(&mut credit, 1);
    let _ = credit.look_kernel(server.now + MS, queue(1), 0);
    assert_eq!(credit.grant(), 3, "until something is found waiting");
    hand(&mut credit, 3);
    let _ = credit.look_kernel(server.now + 2 * MS, queue(0), 4);
    assert_eq!(credit.grant(), 0, "what is still on its way was not served");
}

#[test]
fn half_of_the_sockets_memory_is_never_exceeded() {
    let look = |limit_messages: u64, waiting: u64| {
        let mut credit = credit();
        let limit_bytes = limit_messages * TRUESIZE;
        let _ = credit.look_kernel(MS, ReceiveQueue { limit_bytes, ..queue(waiting) }, 0);
        credit.grant()
    };
    assert_eq!(look(0, 0), 16, "an unknown limit");
    assert_eq!(look(1000, 0), 16);
    assert_eq!(look(20, 0), 10);
    assert_eq!(look(20, 4), 6);
    assert_eq!(look(1, 0), 1, "one message is always tried");
    assert_eq!(look(1, 1), 0);
}

#[test]
fn large_packets_count_for_what_they_take() {
    let mut credit = credit();
    let _ = credit.look_kernel(MS, queue(0), 0);
    (0..10_000).for_each(|_| credit.handed(1700));
    let _ = credit.look_kernel(2 * MS, ReceiveQueue { bytes: 10 * 4352, ..queue(0) }, 0);
    assert_eq!((credit.bytes_per_message(), credit.at_server(), credit.grant()), (4351, 10, 6));
}

#[test]
fn workers_take_even_parts_of_the_room_of_what_waits_and_of_the_drops() {
    let config = CreditConfig { workers: 4, ..CreditConfig::default() };
    let mut credit = Credit::new(config, 0).unwrap();
    let look = |credit: &mut Credit, at, messages, drops| {
        credit.look_kernel(at * MS, ReceiveQueue { drops, ..queue(messages) }, 0)
    };
    let _ = look(&mut credit, 1, 9, 0);
    assert_eq!((credit.at_server(), credit.grant()), (0, 2), "others' messages; a quarter of 7 places");
    hand(&mut credit, 2);
    assert_eq!((credit.at_server(), credit.grant()), (2, 0));
    assert_eq!(look(&mut credit, 2, 8, 0).departed, 0);
    assert_eq!((credit.at_server(), credit.grant()), (2, 2));
    hand(&mut credit, 2);
    assert_eq!(look(&mut credit, 3, 4, 0).departed, 3);
    assert_eq!((credit.at_server(), credit.grant()), (1, 3));
    let dropped: Vec<_> = (4..12).map(|at| look(&mut credit, at, 4, at - 3).dropped).collect();
    assert_eq!(dropped, [0, 0, 0, 1, 0, 0, 0, 1]);
}

#[test]
fn workers_share_one_server_without_overfilling_or_idling_it() {
    let rate = RateConfig { initial_per_s: 250.0, ..RateConfig::default() };
    let config = CreditConfig { workers: 4, rate, ..CreditConfig::default() };
    let mut credits = [(); 4].map(|()| Credit::new(config, 0).unwrap());
    // A rate that is no multiple of the turns, or else the same worker would find each place that becomes free.
    let mut server = Simulated::new(1130);
    let (mut handed, mut departed) = ([0; 4], [0; 4]);
    for step in 0..200_000_usize {
        server.run(MS / 20);
        let worker = step % 4;
        departed[worker] += server.look(&mut credits[worker]).departed;
        // The last worker has nothing to hand over.
        if worker < 3 {
            handed[worker] += u64::from(server.hand(&mut credits[worker], u32::MAX));
        }
        assert!(server.waiting <= 16 + 3, "{}", server.waiting);
        assert!(step < 1000 || server.waiting >= 8, "{}", server.waiting);
    }
    assert_eq!((credits[3].at_server(), departed[3]), (0, 0));
    assert!((credits[3].rate_per_s() - 250.0).abs() < 1e-6, "nothing of its own was served");
    let served: u64 = handed.iter().sum::<u64>() - server.waiting;
    assert!(departed.iter().sum::<u64>().abs_diff(served) <= 16, "{departed:?} of {served}");
    for worker in 0..3 {
        let own_per_s = departed[worker] as f64 / 10.0;
        assert!((credits[worker].rate_per_s() - own_per_s).abs() < own_per_s / 10.0, "{worker}: {own_per_s}");
    }
}

#[test]
fn all_problems_of_the_configuration_are_reported() {
    let config = CreditConfig {
        target_messages: 0,
        workers: 0,
        only_monitors: false,
        down_after_ns: 0,
        rate: RateConfig { initial_per_s: 0.0, time_constant_ns: 0 },
    };
    let fields: Vec<_> =
        Credit::new(config, 0).unwrap_err().problems.iter().map(super::Problem::field).collect();
    assert_eq!(fields, ["initial_per_s", "time_constant", "target_messages", "workers"]);
}

proptest! {
    #[test]
    fn nothing_is_granted_while_the_sockets_are_half_full_and_never_more_than_fits_into_that_half(
        packet_len in 40_u32..4000, limit_bytes in 1_u64..200_000, bytes in 0_u64..200_000, workers in 1_u32..5,
    ) {
        let mut credit = Credit::new(CreditConfig { workers, ..CreditConfig::default() }, 0).unwrap();
        (0..5000).for_each(|_| credit.handed(packet_len));
        let _ = credit.look_kernel(MS, ReceiveQueue { bytes, limit_bytes, ..queue(0) }, 0);
        let grants = u64::from(credit.grant() * workers);
        let rounding = u64::from(workers - 1);
        if bytes > limit_bytes / 2 {
            prop_assert_eq!(grants, 0);
        }
        prop_assert!(grants <= 16 + rounding);
        let most = (limit_bytes / 2 / credit.bytes_per_message()).max(1);
        prop_assert!(grants <= most + rounding, "{grants} of {most}");
    }

    #[test]
    fn whatever_is_handed_over_departs_is_dropped_or_waits(
        steps in proptest::collection::vec((0_u64..20, 0_u64..20, 0_u64..4, 0_u64..5), 1..200),
    ) {
        // A server whose messages travel for up to one look, with a receive queue that drops now and then.
        let mut credit = credit();
        let (mut travelling, mut waiting, mut drops) = (0_u64, 0_u64, 0_u64);
        let (mut handed, mut departed, mut dropped, mut served) = (0, 0, 0, 0);
        let _ = credit.look_kernel(0, queue(0), 0);
        for (at, (late, serve, drop, idle)) in (1..).zip(steps) {
            let grant = u64::from(credit.grant());
            prop_assert!(grant <= 16);
            hand(&mut credit, u32::try_from(grant).unwrap());
            handed += grant;
            let arriving = travelling + grant - late.min(grant);
            travelling = late.min(grant);
            let lost = drop.saturating_sub(2).min(arriving);
            (waiting, drops) = (waiting + arriving - lost, drops + lost);
            let serve = if idle == 0 { 0 } else { serve.min(waiting) };
            (waiting, served) = (waiting - serve, served + serve);
            let look = credit.look_kernel(at * MS, ReceiveQueue { drops, ..queue(waiting) }, 0);
            (departed, dropped) = (departed + look.departed, dropped + look.dropped);
            prop_assert_eq!(u64::from(credit.at_server()), waiting);
            prop_assert!(departed >= served, "a departure is noticed at the next look");
            prop_assert!(departed <= handed - dropped);
        }
        let look = credit.look_kernel(1_000_000 * MS, ReceiveQueue { drops, ..queue(waiting + travelling) }, 0);
        departed += look.departed;
        let look = credit.look_kernel(1_000_001 * MS, ReceiveQueue { drops, ..queue(0) }, 0);
        departed += look.departed;
        prop_assert_eq!(dropped, drops);
        prop_assert_eq!(departed + dropped, handed);
    }
}
