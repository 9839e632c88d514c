use proptest::prelude::{Just, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy;

use super::{CallQueue, Lane, QueueCapacity, Served, calls};
use crate::gate::Discipline;

/// The queue as one would write it without caring for cost.
struct Oracle {
    discipline: Discipline,
    capacity: QueueCapacity,
    lines: [Vec<Waiting>; 3],
    outdated: Vec<Waiting>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Waiting {
    lane: Lane,
    surplus: bool,
    call_key: u64,
    arrival: u64,
    item: u32,
}

impl Oracle {
    fn count(&self, lane: Lane) -> usize {
        self.lines.iter().flatten().chain(&self.outdated).filter(|waiting| waiting.lane == lane).count()
    }

    /// A younger message of this call is here, and joins that line.
    fn settle(&mut self, call_key: u64, arrival: u64, joins: Option<usize>) {
        let old = |w: &Waiting| {
            let same_call = w.call_key == call_key && call_key != 0;
            same_call && w.arrival <= arrival && (joins.is_some() || !w.surplus)
        };
        let (old, kept): (Vec<Waiting>, _) = self.lines[2].iter().partition(|w| old(w));
        self.lines[2] = kept;
        for waiting in old {
            match joins.filter(|_| waiting.surplus) {
                Some(line) => self.lines[line].push(waiting),
                None => self.outdated.push(waiting),
            }
        }
    }

    fn surplus_of(&self, call_key: u64) -> u32 {
        let same_call = |w: &&Waiting| w.surplus && w.call_key == call_key && call_key != 0;
        self.lines[2].iter().filter(same_call).map(|_| 1).sum()
    }

    fn push(&mut self, waiting: Waiting) -> bool {
        let (held, most) = match self.discipline {
            Discipline::Fifo => (self.lines[0].len(), self.capacity.total()),
            Discipline::Priority => (self.count(waiting.lane), self.capacity.of(waiting.lane)),
        };
        if held == most || (waiting.surplus && self.surplus_of(waiting.call_key) >= 4) {
            return false;
        }
        match (self.discipline, waiting.lane) {
            (Discipline::Fifo, _) => self.lines[0].push(waiting),
            (Discipline::Priority, Lane::Control) => {
                let same_call = |w: &&Waiting| w.call_key == waiting.call_key && waiting.call_key != 0;
                let oldest = self.lines[1].iter().find(same_call);
                let line = usize::from(oldest.is_some_and(|oldest| oldest.arrival <= waiting.arrival));
                self.settle(waiting.call_key, waiting.arrival, Some(line));
                self.lines[line].push(waiting);
            }
            (Discipline::Priority, Lane::New) => {
                self.settle(waiting.call_key, waiting.arrival, Some(1));
                self.lines[1].push(waiting);
            }
            (Discipline::Priority, lane) => self.lines[lane as usize].push(waiting),
        }
        true
    }

    fn take(&mut self, line: usize, now: u64) -> Served<u32> {
        let Waiting { lane, arrival, item, call_key, .. } = self.lines[line].remove(0);
        Served { item, lane, call_key, waited_ns: now.saturating_sub(arrival) }
    }

    fn pop(&mut self, now: u64) -> Option<Served<u32>> {
        let line = self.lines.iter().position(|line| !line.is_empty())?;
        Some(self.take(line, now))
    }

    fn expire(&mut self, lane: Lane, now: u64, max_wait: u64) -> Option<Served<u32>> {
        loop {
            let oldest = *self.lines[lane as usize].first()?;
            if now.saturating_sub(oldest.arrival) <= max_wait {
                return None;
            }
            if (self.discipline, lane, oldest.lane) != (Discipline::Priority, Lane::New, Lane::Control) {
                return Some(self.take(lane as usize, now));
            }
            let moved = self.lines[1].remove(0);
            self.lines[0].push(moved);
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Push(Lane, u64, u64),
    PushSurplus(u64, u64),
    Outdate(u64),
    PopOutdated,
    Pop,
    Expire(u64),
    ExpireCopy(u64),
    ExpireControl(u64),
    Wait(u64),
}

fn lane() -> impl Strategy<Value = Lane> {
    prop_oneof![Just(Lane::Control), Just(Lane::New), Just(Lane::New), Just(Lane::Copy)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (lane(), 0_u64..6, 0_u64..6).prop_map(|(lane, key, late)| Step::Push(lane, key, late)),
        2 => (0_u64..6, 0_u64..6).prop_map(|(key, late)| Step::PushSurplus(key, late)),
        3 => Just(Step::Pop),
        1 => (0_u64..6).prop_map(Step::Outdate),
        2 => Just(Step::PopOutdated),
        1 => (0_u64..30).prop_map(Step::Expire),
        1 => (0_u64..30).prop_map(Step::ExpireCopy),
        1 => (0_u64..30).prop_map(Step::ExpireControl),
        2 => (0_u64..10).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn the_queue_does_what_the_slow_one_does_and_loses_nothing(
        fifo in any::<bool>(),
        (control, new, copy) in (0_u32..8, 0_u32..12, 0_u32..6),
        steps in proptest::collection::vec(step(), 1..300),
    ) {
        let discipline = if fifo { Discipline::Fifo } else { Discipline::Priority };
        let capacity = QueueCapacity { control, new, copy };
        let mut queue = CallQueue::new(discipline, capacity);
        let mut oracle = Oracle { discipline, capacity, lines: [vec![], vec![], vec![]], outdated: vec![] };
        let (mut now, mut pushed, mut popped, mut expired) = (0_u64, 0_usize, 0_usize, 0_usize);
        for (item, step) in (0_u32..).zip(steps) {
            match step {
                Step::Push(lane, call_key, late) => {
                    // Rings are read one after another, so an older message may come later.
                    let arrival = now.saturating_sub(late);
                    let accepted = queue.push(lane, call_key, arrival, item);
                    prop_assert_eq!(accepted.is_ok(), oracle.push(Waiting { lane, surplus: false, call_key, arrival, item }));
                    prop_assert_eq!(accepted.err().unwrap_or(item), item);
                    pushed += usize::from(accepted.is_ok());
                }
                Step::PushSurplus(call_key, late) => {
                    let arrival = now.saturating_sub(late);
                    let accepted = queue.push_surplus(call_key, arrival, item);
                    let waiting = Waiting { lane: Lane::Copy, surplus: true, call_key, arrival, item };
                    prop_assert_eq!(accepted.is_ok(), oracle.push(waiting));
                    pushed += usize::from(accepted.is_ok());
                }
                Step::Outdate(call_key) => {
                    queue.outdate_copies(call_key, now);
                    oracle.settle(call_key, now, None);
                }
                Step::PopOutdated => {
                    let outdated = queue.pop_outdated(now).map(|served| served.item);
                    let expected = (!oracle.outdated.is_empty()).then(|| oracle.outdated.remove(0).item);
                    prop_assert_eq!(outdated, expected);
                    expired += usize::from(outdated.is_some());
                }
                Step::Pop => {
                    let next = queue.peek().map(|(lane, item)| (lane, *item));
                    let served = queue.pop(now);
                    prop_assert_eq!(served, oracle.pop(now));
                    prop_assert_eq!(served.map(|served| (served.lane, served.item)), next);
                    popped += usize::from(served.is_some());
                }
                Step::Expire(max_wait) => {
                    let stale = queue.expire(now, max_wait);
                    prop_assert_eq!(stale, oracle.expire(Lane::New, now, max_wait));
                    expired += usize::from(stale.is_some());
                }
                Step::ExpireCopy(max_wait) => {
                    let stale = queue.expire_copy(now, max_wait);
                    prop_assert_eq!(stale, oracle.expire(Lane::Copy, now, max_wait));
                    expired += usize::from(stale.is_some());
                }
                Step::ExpireControl(max_age) => {
                    let stale = queue.expire_control(now, max_age);
                    let expected = if fifo { None } else { oracle.expire(Lane::Control, now, max_age) };
                    prop_assert_eq!(stale, expected);
                    expired += usize::from(stale.is_some());
                }
                Step::Wait(span) => now += span,
            }
            for lane in Lane::ALL {
                prop_assert_eq!(queue.len_of(lane), oracle.count(lane));
            }
            for call_key in 0..6 {
                prop_assert_eq!(queue.surplus_of(call_key), oracle.surplus_of(call_key));
            }
            prop_assert_eq!(pushed, popped + expired + queue.len());
            queue.calls.check();
            queue.copies.check();
        }
        while let Some(outdated) = queue.pop_outdated(now) {
            prop_assert_eq!(outdated.item, oracle.outdated.remove(0).item);
        }
        while let Some(served) = queue.pop(now) {
            prop_assert_eq!(Some(served), oracle.pop(now));
        }
        prop_assert!(queue.is_empty() && oracle.pop(now).is_none());
    }

    #[test]
    fn no_copy_is_served_after_a_younger_message_of_its_call_and_no_strangers_copy_is_lost(
        steps in proptest::collection::vec((0_usize..24, 0_u8..6), 1..400), collide in any::<bool>(),
    ) {
        let capacity = QueueCapacity { control: 400, new: 400, copy: 400 };
        let mut queue = CallQueue::new(Discipline::Priority, capacity);
        let keys = if collide { colliding_keys(&queue.copies, 24) } else { (1..25).collect() };
        // Per call: the number of the last message that is no copy; per served copy it must not be larger.
        let mut last = vec![0; keys.len()];
        let (mut copies, mut left) = (Vec::new(), Vec::new());
        for (number, (call, action)) in (1_u64..).zip(steps) {
            match action {
                0..3 => {
                    queue.push_copy(keys[call], number, (call, number)).unwrap();
                    copies.push((call, number));
                }
                3 => queue.push_control(keys[call], number, (call, number)).unwrap(),
                4 => queue.push_new(keys[call], number, (call, number)).unwrap(),
                _ => {
                    let copy = queue.pop(number).filter(|served| served.lane == Lane::Copy);
                    if let Some(Served { item: (call, pushed), .. }) = copy {
                        prop_assert!(pushed > last[call], "an outdated copy was served");
                        left.push((call, pushed));
                    }
                }
            }
            if matches!(action, 3 | 4) {
                last[call] = number;
            }
            while let Some(Served { item: (call, pushed), .. }) = queue.pop_outdated(number) {
                prop_assert!(pushed < last[call], "nothing younger of that call has come");
                left.push((call, pushed));
            }
            queue.copies.check();
        }
        left.extend(std::iter::from_fn(|| queue.pop(0)).filter(|s| s.lane == Lane::Copy).map(|s| s.item));
        left.sort_by_key(|&(_, number)| number);
        prop_assert_eq!(left, copies);
    }

    #[test]
    fn keys_that_all_collide_neither_break_a_call_nor_lengthen_a_chain(
        steps in proptest::collection::vec((0_usize..24, 0_u8..7), 1..400),
    ) {
        let capacity = QueueCapacity { control: 400, new: 400, copy: 400 };
        let mut queue = CallQueue::new(Discipline::Priority, capacity);
        // Both indices have as many buckets or the keys of the larger one collide in the smaller, too.
        let keys = colliding_keys(&queue.calls, 24);
        let mut pushed = vec![Vec::new(); keys.len()];
        let mut served = vec![Vec::new(); keys.len()];
        let mut expired = vec![Vec::new(); keys.len()];
        for (item, (call, action)) in (0_u32..).zip(steps) {
            match action {
                0..3 => queue.push_new(keys[call], 0, (call, item)).unwrap(),
                3 => queue.push_control(keys[call], 0, (call, item)).unwrap(),
                4 => served.note(queue.pop(0)),
                5 => expired.note(queue.expire(10, 5)),
                _ if queue.push_surplus(keys[call], 0, (call, item)).is_err() => continue,
                _ => {}
            }
            if action <= 3 || action == 6 {
                pushed[call].push(item);
            }
            queue.copies.check();
            prop_assert!(queue.calls.check() <= calls::GROUPS_PER_BUCKET as usize);
        }
        while !queue.is_empty() {
            served.note(queue.pop(0));
        }
        // What has been shed apart, a call's messages leave in the order in which they came.
        for (call, came) in pushed.iter_mut().enumerate() {
            came.retain(|item| !expired[call].contains(item));
        }
        prop_assert_eq!(served, pushed);
    }
}

/// Sorts what left by its call.
trait ByCall {
    fn note(&mut self, served: Option<Served<(usize, u32)>>);
}

impl ByCall for Vec<Vec<u32>> {
    fn note(&mut self, served: Option<Served<(usize, u32)>>) {
        if let Some(Served { item: (call, item), .. }) = served {
            self[call].push(item);
        }
    }
}

fn colliding_keys(index: &calls::CallIndex, count: usize) -> Vec<u64> {
    let bucket = index.bucket_of(1);
    (1..).filter(|&key| index.bucket_of(key) == bucket).take(count).collect()
}

fn priority(each: u32) -> CallQueue<&'static str> {
    CallQueue::new(Discipline::Priority, QueueCapacity { control: each, new: each, copy: each })
}

fn drain(queue: &mut CallQueue<&'static str>) -> Vec<&'static str> {
    std::iter::from_fn(|| queue.pop(0)).map(|served| served.item).collect()
}

#[test]
fn a_cancel_waits_for_its_invite_and_moves_nobody() {
    let mut queue = priority(8);
    for (key, item) in [(1, "INVITE 1"), (2, "INVITE 2"), (2, "INVITE 2 again"), (3, "INVITE 3")] {
        queue.push_new(key, 0, item).unwrap();
    }
    queue.push_control(9, 0, "BYE 9").unwrap();
    queue.push_control(2, 0, "CANCEL 2").unwrap();
    queue.push_new(4, 0, "INVITE 4").unwrap();
    queue.push_control(2, 0, "ACK 2").unwrap();
    assert_eq!((queue.len_of(Lane::New), queue.len_of(Lane::Control)), (5, 3));
    let order =
        ["BYE 9", "INVITE 1", "INVITE 2", "INVITE 2 again", "INVITE 3", "CANCEL 2", "INVITE 4", "ACK 2"];
    assert_eq!(drain(&mut queue), order);
}

#[test]
fn an_ack_that_is_older_than_the_invite_that_waits_does_not_wait_for_it() {
    let mut queue = priority(8);
    queue.push_new(1, 20, "INVITE with credentials").unwrap();
    queue.push_control(1, 10, "ACK to the challenge").unwrap();
    assert_eq!(drain(&mut queue), ["ACK to the challenge", "INVITE with credentials"]);
}

#[test]
fn a_message_of_an_unknown_call_waits_for_nobody() {
    let mut queue = priority(8);
    queue.push_new(0, 0, "INVITE").unwrap();
    queue.push_control(0, 0, "ACK").unwrap();
    assert_eq!(drain(&mut queue), ["ACK", "INVITE"]);
}

#[test]
fn a_full_copy_lane_does_not_refuse_originals() {
    let mut queue = priority(1);
    queue.push_copy(1, 0, "copy").unwrap();
    assert_eq!(queue.push_copy(1, 0, "second copy"), Err("second copy"));
    assert_eq!((queue.room(Lane::Copy), queue.room(Lane::New)), (0, 1));
    queue.push_new(2, 0, "original").unwrap();
    assert_eq!(drain(&mut queue), ["original", "copy"]);
}

#[test]
fn a_control_message_that_is_refused_changes_nothing() {
    let mut queue = priority(1);
    queue.push_control(7, 0, "BYE 7").unwrap();
    queue.push_new(1, 0, "INVITE 1").unwrap();
    assert_eq!(queue.push_control(1, 0, "CANCEL 1"), Err("CANCEL 1"));
    assert_eq!(drain(&mut queue), ["BYE 7", "INVITE 1"]);
}

#[test]
fn originals_go_stale_and_what_waited_for_them_is_served_as_control() {
    let mut queue = priority(8);
    queue.push_new(1, 100, "INVITE 1").unwrap();
    queue.push_new(2, 100, "INVITE 2").unwrap();
    queue.push_copy(3, 100, "copy").unwrap();
    queue.push_control(2, 400, "CANCEL 2").unwrap();
    queue.push_new(5, 450, "INVITE 5").unwrap();
    assert_eq!(queue.expire(500, 400), None);
    let stale = queue.expire(501, 400).unwrap();
    assert_eq!((stale.item, stale.waited_ns), ("INVITE 1", 401));
    assert_eq!(queue.expire(501, 400).unwrap().item, "INVITE 2");
    assert_eq!(queue.expire(501, 400), None);
    assert_eq!(queue.expire_copy(501, 400).unwrap().item, "copy");
    // CANCEL 2 has waited for too long behind an original that is gone.
    assert_eq!(queue.expire(801, 400), None);
    queue.push_new(4, 801, "INVITE 4").unwrap();
    queue.push_control(2, 802, "BYE 2").unwrap();
    assert_eq!(drain(&mut queue), ["CANCEL 2", "BYE 2", "INVITE 5", "INVITE 4"]);
}

#[test]
fn what_waits_too_long_in_the_control_line_leaves_in_order() {
    let mut queue = priority(8);
    queue.push_control(1, 100, "BYE 1").unwrap();
    queue.push_control(2, 400, "CANCEL 2").unwrap();
    assert_eq!(queue.expire_control(600, 500), None);
    assert_eq!(queue.expire_control(601, 500).unwrap().item, "BYE 1");
    assert_eq!(queue.expire_control(900, 500), None);
    assert_eq!(queue.expire_control(901, 500).unwrap().item, "CANCEL 2");
    assert_eq!(queue.expire_control(u64::MAX, 0), None);
}

#[test]
fn a_bye_outdates_the_waiting_copies_of_its_call_but_not_those_that_came_after_it() {
    let mut queue = priority(8);
    queue.push_copy(1, 10, "old copy 1").unwrap();
    queue.push_copy(2, 10, "copy 2").unwrap();
    queue.push_copy(0, 10, "copy of no call").unwrap();
    queue.push_copy(1, 30, "young copy 1").unwrap();
    queue.push_control(1, 20, "BYE 1").unwrap();
    assert_eq!((queue.len_of(Lane::Copy), queue.room(Lane::Copy)), (4, 4));
    let outdated = queue.pop_outdated(50).unwrap();
    assert_eq!((outdated.item, outdated.lane, outdated.waited_ns), ("old copy 1", Lane::Copy, 40));
    assert_eq!((queue.pop_outdated(50), queue.len_of(Lane::Copy)), (None, 3));
    assert_eq!(drain(&mut queue), ["BYE 1", "copy 2", "copy of no call", "young copy 1"]);
}

#[test]
fn surplus_waits_behind_everybody_and_is_not_overtaken_by_its_call() {
    let mut queue = priority(8);
    queue.push_surplus(1, 0, "ACK 1").unwrap();
    queue.push_surplus(2, 0, "ACK 2").unwrap();
    queue.push_surplus(3, 0, "ACK 3").unwrap();
    queue.push_copy(2, 0, "copy 2").unwrap();
    queue.push_new(4, 0, "INVITE 4").unwrap();
    queue.push_new(1, 0, "re-INVITE 1").unwrap();
    queue.push_control(2, 0, "BYE 2").unwrap();
    queue.push_control(9, 0, "BYE 9").unwrap();
    assert_eq!((queue.surplus_of(3), queue.surplus_of(1)), (1, 0));
    assert_eq!(queue.pop_outdated(0).unwrap().item, "copy 2");
    let order = ["ACK 2", "BYE 2", "BYE 9", "INVITE 4", "ACK 1", "re-INVITE 1", "ACK 3"];
    assert_eq!(drain(&mut queue), order);
}

#[test]
fn what_took_surplus_along_is_waited_for_together_with_it() {
    let mut queue = priority(8);
    queue.push_surplus(1, 0, "ACK 1").unwrap();
    queue.push_new(1, 0, "re-INVITE 1").unwrap();
    queue.push_new(2, 0, "INVITE 2").unwrap();
    queue.push_control(3, 0, "BYE 3").unwrap();
    queue.push_control(1, 0, "BYE 1").unwrap();
    assert_eq!(queue.len_of(Lane::Copy), 1);
    assert_eq!(drain(&mut queue), ["BYE 3", "ACK 1", "re-INVITE 1", "INVITE 2", "BYE 1"]);
}

#[test]
fn a_call_has_little_surplus_so_that_one_message_takes_little_along() {
    let mut queue = priority(8);
    for _ in 0..4 {
        queue.push_surplus(1, 0, "ACK 1").unwrap();
    }
    assert_eq!(queue.push_surplus(1, 0, "ACK 1"), Err("ACK 1"));
    queue.push_surplus(2, 0, "ACK 2").unwrap();
}

#[test]
fn a_queue_without_classes_keeps_the_order_of_arrival_and_shares_its_room() {
    let mut queue = CallQueue::new(Discipline::Fifo, QueueCapacity { control: 1, new: 2, copy: 0 });
    queue.push_copy(1, 0, "copy").unwrap();
    queue.push_new(1, 0, "INVITE").unwrap();
    queue.push_control(1, 0, "CANCEL").unwrap();
    assert_eq!(queue.push_control(2, 0, "BYE"), Err("BYE"));
    assert_eq!((queue.len_of(Lane::Copy), queue.expire(u64::MAX, 0)), (1, None));
    assert_eq!(queue.expire_control(u64::MAX, 0), None);
    assert_eq!(drain(&mut queue), ["copy", "INVITE", "CANCEL"]);
}

#[test]
fn a_queue_without_room_refuses_everything() {
    let mut queue = CallQueue::new(Discipline::Priority, QueueCapacity { control: 0, new: 0, copy: 0 });
    assert_eq!(queue.push_new(1, 0, "INVITE"), Err("INVITE"));
    assert_eq!(queue.pop(0), None);
    assert_eq!(queue.capacity().total(), 0);
}
