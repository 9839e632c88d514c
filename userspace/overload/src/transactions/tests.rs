use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};

use super::TransactionState::{HandedOver, Queued, Shed};
use super::{COPIES_OF_INVITE, COPIES_OF_OTHERS, Entered, Known, SLOTS, TransactionState, TransactionTable};
use crate::{NANOS_PER_S, Nanos};

const SECOND: Nanos = NANOS_PER_S;
/// Longer than a transaction is remembered, whatever the rounding.
const FORGOTTEN: Nanos = 34 * SECOND;

fn memory(buckets: usize) -> Vec<AtomicU64> {
    std::iter::repeat_with(|| AtomicU64::new(0)).take(buckets * SLOTS).collect()
}

fn table(memory: &[AtomicU64]) -> TransactionTable<'_> {
    TransactionTable::new(memory).expect("a power of two of buckets")
}

/// Well-mixed numbers, as hashes are.
fn hash(number: u64) -> u64 {
    let mut x = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[test]
fn a_request_is_unknown_until_it_is_entered_and_known_with_its_latest_state() {
    let memory = memory(16);
    let table = table(&memory);
    assert_eq!(table.recall(7, 0), None);
    assert_eq!(table.settle(7, Queued, 0), Entered::New);
    assert_eq!(table.recall(7, SECOND), Some(Known { state: Queued, copies: 1 }));
    assert_eq!(table.settle(7, HandedOver, SECOND), Entered::Updated);
    assert_eq!(table.recall(7, 2 * SECOND), Some(Known { state: HandedOver, copies: 2 }));
    assert_eq!(table.recall(8 << 22 | 7, 0), None);
}

#[test]
fn what_the_server_has_got_is_never_shed_nor_forgotten() {
    let memory = memory(16);
    let table = table(&memory);
    for state in [Shed, Queued] {
        table.settle(7, HandedOver, 0);
        table.settle(7, state, 0);
        table.forget(7, 0);
        assert_eq!(table.recall(7, 0).map(|known| known.state), Some(HandedOver));
    }
}

#[test]
fn a_request_lost_on_its_way_is_an_original_again_and_a_refused_one_stays_refused() {
    let memory = memory(16);
    let table = table(&memory);
    table.settle(7, Queued, 0);
    table.forget(7, 0);
    assert_eq!(table.recall(7, 0), None);
    table.settle(7, Queued, 0);
    table.settle(7, Shed, 0);
    table.forget(7, 0);
    assert_eq!(table.recall(7, 0).map(|known| known.state), Some(Shed));
}

#[test]
fn a_transaction_is_remembered_for_64_t1_after_its_last_copy_at_any_phase_of_the_clock() {
    for start in (0..300).map(|step| step * SECOND / 3) {
        let memory = memory(16);
        let table = table(&memory);
        for (hash, state) in [(7, Queued), (8 << 22, HandedOver)] {
            table.settle(hash, state, start);
            assert!(table.recall(hash, start + 32 * SECOND).is_some(), "{start}");
            assert!(table.recall(hash, start + 64 * SECOND).is_some(), "{start}");
            assert_eq!(table.recall(hash, start + 64 * SECOND + FORGOTTEN), None, "{start}");
        }
    }
}

#[test]
fn a_refusal_ends_64_t1_after_the_request_came_however_often_it_comes_again() {
    for start in (0..300).map(|step| step * SECOND / 3) {
        let memory = memory(16);
        let table = table(&memory);
        // Refused at once, and after it has waited.
        table.settle(7, Shed, start);
        table.settle(8 << 22, Queued, start);
        table.settle(8 << 22, Shed, start + 3 * SECOND);
        for hash in [7, 8 << 22] {
            for after in (1..=64).map(|half| half * SECOND / 2) {
                let known = table.recall(hash, start + after).map(|known| known.state);
                assert_eq!(known, Some(Shed), "{start} {after}");
            }
            assert_eq!(table.recall(hash, start + FORGOTTEN), None, "{start}: the gate decides anew");
            assert_eq!(table.settle(hash, HandedOver, start + FORGOTTEN), Entered::New, "{start}");
            assert_eq!(table.recall(hash, start + FORGOTTEN).map(|known| known.state), Some(HandedOver));
        }
        assert_eq!(table.sweep(0..16, start + FORGOTTEN), 2, "{start}: what is over is cleared");
    }
}

/// When copies come by the timers of RFC 3261, in milliseconds after the original.
const TIMER_A: [u64; 6] = [500, 1500, 3500, 7500, 15_500, 31_500];
const TIMER_E: [u64; 10] = [500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500];

#[test]
fn the_copies_of_rfc_3261_are_never_in_excess_at_any_phase_of_the_clock() {
    for start in (0..300).map(|step| step * SECOND / 3) {
        let memory = memory(16);
        let table = table(&memory);
        for (hash, schedule, limit) in
            [(1, &TIMER_A[..], COPIES_OF_INVITE), (2 << 22, &TIMER_E[..], COPIES_OF_OTHERS)]
        {
            table.settle(hash, HandedOver, start);
            for (copy, after_ms) in (1..).zip(schedule) {
                let known = table.recall(hash, start + after_ms * 1_000_000).expect("remembered");
                assert!(known.copies <= limit && known.copies <= copy, "{start} {after_ms}");
            }
        }
    }
}

#[test]
fn copies_faster_than_any_timer_are_in_excess_and_a_constant_probe_is_not() {
    let memory = memory(16);
    let table = table(&memory);
    table.settle(1, HandedOver, 0);
    let burst: Vec<_> = (1..=20).filter_map(|copy| table.recall(1, copy * 1_000_000)).collect();
    assert!(burst[usize::from(COPIES_OF_OTHERS)].copies > COPIES_OF_OTHERS);
    assert_eq!(burst[19].copies, 15);
    table.settle(2 << 22, HandedOver, 0);
    for probe in 1..500 {
        let known = table.recall(2 << 22, probe * 5 * SECOND).expect("each one is remembered by the next");
        assert!(known.copies <= COPIES_OF_OTHERS, "probe {probe}: {known:?}");
    }
}

#[test]
fn the_oldest_makes_room_when_both_buckets_are_full() {
    let memory = memory(1);
    let table = table(&memory);
    let request = |n: u64| n << 22;
    for n in 1..=8 {
        assert_eq!(table.settle(request(n), Queued, n * 2 * SECOND), Entered::New);
    }
    assert_eq!(table.settle(request(9), Queued, 18 * SECOND), Entered::Evicted);
    assert_eq!(table.recall(request(1), 18 * SECOND), None);
    for n in 2..=9 {
        assert!(table.recall(request(n), 18 * SECOND).is_some(), "{n}");
    }
}

#[test]
fn a_sweep_counts_the_living_and_clears_the_rest_before_time_wraps() {
    let memory = memory(64);
    let table = table(&memory);
    for n in 0..100 {
        table.settle(hash(n), HandedOver, 0);
    }
    assert_eq!(table.sweep(0..64, 20 * SECOND), 100);
    assert_eq!(table.sweep(0..64, FORGOTTEN), 0);
    let wrapped = 275 * SECOND;
    assert!((0..100).all(|n| table.recall(hash(n), wrapped).is_none()));
    assert_eq!(table.sweep(0..65, 0), 0, "outside of the table there is nothing");
}

#[test]
fn at_half_load_no_transaction_is_lost() {
    let memory = memory(4096);
    let table = table(&memory);
    // Evenly over the 32 s, so that the first is nearly forgotten when the last comes.
    let count = 4096 * 4;
    let at = |n: u64| n * 32 * SECOND / count;
    let evicted = (0..count).filter(|n| table.settle(hash(*n), Queued, at(*n)) == Entered::Evicted).count();
    assert_eq!(evicted, 0);
    assert!((0..count).all(|n| table.recall(hash(n), 32 * SECOND).is_some()));
}

#[test]
fn a_copy_that_was_counted_after_the_turn_began_does_not_hide_its_request() {
    for start in (0..300).map(|step| step * SECOND / 3) {
        let memory = memory(16);
        let table = table(&memory);
        let later = start + 2 * SECOND;
        table.settle(7, Queued, start);
        assert!(table.recall(7, later).is_some());
        assert_eq!(table.settle(7, Shed, start), Entered::Updated, "{start}");
        assert_eq!(table.recall(7, later).map(|known| known.state), Some(Shed), "{start}");
    }
}

#[test]
fn a_table_is_a_power_of_two_of_buckets() {
    assert!(TransactionTable::new(&[]).is_none());
    assert!(TransactionTable::new(&memory(3)).is_none());
    assert!(TransactionTable::new(&memory(2)[..9]).is_none());
    assert_eq!(table(&memory(4)).buckets(), 4);
}

#[test]
fn writers_at_the_same_slots_lose_no_state_of_the_better_knowledge() {
    let memory = memory(2);
    let table = table(&memory);
    // Few requests in few slots: every step meets another writer's.
    let requests: Vec<u64> = (1..=6).map(|n| n << 22).collect();
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let requests = &requests;
            scope.spawn(move || {
                for step in 0..20_000 {
                    let request = requests[(step + worker) % requests.len()];
                    match (worker, step % 3) {
                        (0, 0) => drop(table.settle(request, Queued, 0)),
                        (1, 1) => drop(table.settle(request, Shed, 0)),
                        _ => drop(table.recall(request, 0)),
                    }
                    if step == 10_000 {
                        // Lost only if four tries in a row meet another writer.
                        while table.settle(request, HandedOver, 0) == Entered::Lost {}
                    }
                }
            });
        }
    });
    let handed: Vec<_> = (0..4).map(|worker| requests[(10_000 + worker) % requests.len()]).collect();
    for request in handed {
        assert_eq!(table.recall(request, 0).map(|known| known.state), Some(HandedOver));
    }
}

#[derive(Debug, Clone)]
enum Step {
    Recall(u8),
    Settle(u8, TransactionState),
    Forget(u8),
    Wait(Nanos),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let state = prop_oneof![Just(Shed), Just(Queued), Just(HandedOver)];
    let step = prop_oneof![
        4 => any::<u8>().prop_map(Step::Recall),
        3 => (any::<u8>(), state).prop_map(|(number, state)| Step::Settle(number, state)),
        1 => any::<u8>().prop_map(Step::Forget),
        2 => (0..40 * SECOND).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 0..400)
}

/// The same by a map without limits. Time counts in the table's units, which is all that is coarse about it.
#[derive(Default)]
struct Oracle(HashMap<u8, (TransactionState, Vec<u64>)>);

impl Oracle {
    fn unit(now: Nanos) -> u64 {
        now >> 30
    }

    fn live(&mut self, number: u8, now: Nanos) -> Option<&mut (TransactionState, Vec<u64>)> {
        self.0.retain(|_, (state, seen)| {
            let since = if *state == Shed { Self::span(seen).0 } else { seen[seen.len() - 1] };
            Self::unit(now) - since <= 30
        });
        self.0.get_mut(&number)
    }

    /// Start and copies of the last span: spans are of 30 units, each begins with the first datagram after the last.
    fn span(seen: &[u64]) -> (u64, u8) {
        let (mut span, mut copies) = (seen[0], 0_u8);
        for &at in &seen[1..] {
            if at - span > 30 {
                (span, copies) = (at, 0);
            }
            copies = copies.saturating_add(1).min(15);
        }
        (span, copies)
    }
}

proptest! {
    #[test]
    fn the_table_agrees_with_a_map_without_limits(steps in steps()) {
        let memory = memory(256);
        let table = table(&memory);
        let mut oracle = Oracle::default();
        let mut now = 0;
        for step in steps {
            // No request is older than the wrap of the times when the table is swept as it must be.
            let _live = table.sweep(0..256, now);
            match step {
                Step::Wait(time) => now += time,
                Step::Recall(number) => {
                    let expected = oracle.live(number, now).map(|(state, seen)| {
                        seen.push(Oracle::unit(now));
                        Known { state: *state, copies: Oracle::span(seen).1 }
                    });
                    prop_assert_eq!(table.recall(hash(number.into()), now), expected);
                }
                Step::Settle(number, state) => {
                    let entered = table.settle(hash(number.into()), state, now);
                    match oracle.live(number, now) {
                        Some((known, _)) => {
                            prop_assert_eq!(entered, Entered::Updated);
                            *known = if *known == HandedOver { HandedOver } else { state };
                        }
                        None => {
                            prop_assert_eq!(entered, Entered::New);
                            oracle.0.insert(number, (state, vec![Oracle::unit(now)]));
                        }
                    }
                }
                Step::Forget(number) => {
                    table.forget(hash(number.into()), now);
                    if oracle.live(number, now).is_some_and(|(state, _)| *state == Queued) {
                        oracle.0.remove(&number);
                    }
                }
            }
        }
    }
}
