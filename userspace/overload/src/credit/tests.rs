use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

use super::{Credit, CreditConfig, Look, Places, ReceiveQueue, ServerState};
use crate::rate::RateConfig;

const MS: u64 = 1_000_000;
const TRUESIZE: u64 = 2304;

fn credit() -> Credit {
    Credit::new(CreditConfig::default(), 0).unwrap()
}

fn queue(messages: u64) -> ReceiveQueue {
    ReceiveQueue { sockets: 1, bytes: messages * TRUESIZE, drops: 0 }
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
    credit.handed(10);
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
    credit.handed(10);
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
    credit.handed(4);
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
    credit.handed(10);
    let seen = look(&mut credit, 2, 5, 703);
    assert_eq!((seen.dropped, seen.departed), (3, 2));
    let seen = look(&mut credit, 3, 5, 2);
    assert_eq!((seen.dropped, seen.departed), (0, 0), "the counter went back: another socket");
}

#[test]
fn a_server_that_is_gone_is_missing_then_down_and_back_at_once() {
    let mut credit = credit();
    let _ = credit.look_kernel(MS, queue(0), 0);
    credit.handed(5);
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
    credit.handed(16);
    assert_eq!(credit.look_embedded(2 * MS, Some(Places { free: 50, total: 64 })).departed, 2);
    assert_eq!(credit.grant(), 2);
    let _ = credit.look_embedded(3 * MS, Some(Places { free: 4, total: 4 }));
    assert_eq!(credit.grant(), 4, "a queue shorter than the target");
    assert_eq!(credit.look_embedded(4 * MS, None).server, ServerState::Missing);
}

#[test]
fn the_service_rate_is_measured_while_the_server_has_work() {
    let mut credit = credit();
    let mut now = MS;
    let _ = credit.look_kernel(now, queue(0), 0);
    credit.handed(16);
    let _ = credit.look_kernel(now + 1, queue(16), 0);
    for _ in 0..5000 {
        now += 10 * MS;
        let look = credit.look_kernel(now, queue(12), 0);
        assert_eq!(look.departed, 4);
        credit.handed(credit.grant());
    }
    assert!((credit.rate_per_s() - 400.0).abs() < 4.0, "{}", credit.rate_per_s());
    let busy = credit.rate_per_s();
    for _ in 0..5000 {
        now += 10 * MS;
        let _ = credit.look_kernel(now, queue(0), 0);
    }
    assert!((credit.rate_per_s() - busy).abs() < 10.0, "idle time counts for nothing");
}

#[test]
fn the_size_of_a_message_is_learned_and_the_queue_then_kept_at_the_target() {
    let mut credit = credit();
    let mut now = 0;
    let small = 768;
    for _ in 0..400 {
        // An idle server gets a burst, takes a while to begin, and serves all of it.
        for (wait_ns, handed, messages) in [(MS, 0, 0), (MS, 0, 0), (1000, 16, 9), (1000, 0, 16)] {
            now += wait_ns;
            credit.handed(handed);
            let _ =
                credit.look_kernel(now, ReceiveQueue { sockets: 1, bytes: messages * small, drops: 0 }, 0);
        }
    }
    assert!(credit.bytes_per_message().abs_diff(768) < 20, "{}", credit.bytes_per_message());
    assert_eq!((credit.at_server(), credit.grant()), (16, 0));
}

#[test]
fn all_problems_of_the_configuration_are_reported() {
    let config = CreditConfig {
        target_messages: 0,
        down_after_ns: 0,
        rate: RateConfig { initial_per_s: 0.0, time_constant_ns: 0 },
    };
    let fields: Vec<_> =
        Credit::new(config, 0).unwrap_err().problems.iter().map(super::Problem::field).collect();
    assert_eq!(fields, ["initial_per_s", "time_constant", "target_messages"]);
}

proptest! {
    #[test]
    fn whatever_is_handed_over_departs_is_dropped_or_waits(
        steps in proptest::collection::vec((0_u64..20, 0_u64..20, 0_u64..4, 0_u64..5), 1..200),
    ) {
        // A server whose messages travel for up to one look, with a receive queue that drops now and then.
        // It is known to be fast, so that what it serves does not make messages look smaller than they are.
        let rate = RateConfig { initial_per_s: 1e6, ..RateConfig::default() };
        let mut credit = Credit::new(CreditConfig { rate, ..CreditConfig::default() }, 0).unwrap();
        let (mut travelling, mut waiting, mut drops) = (0_u64, 0_u64, 0_u64);
        let (mut handed, mut departed, mut dropped, mut served) = (0, 0, 0, 0);
        let _ = credit.look_kernel(0, queue(0), 0);
        for (at, (late, serve, drop, idle)) in (1..).zip(steps) {
            let grant = u64::from(credit.grant());
            prop_assert!(grant <= 16);
            credit.handed(u32::try_from(grant).unwrap());
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
