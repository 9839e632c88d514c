use proptest::prelude::{Just, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy;

use super::{CallQueue, Lane, QueueCapacity, Served, calls};
use crate::gate::Discipline;

/// The queue as one would write it without caring for cost.
struct Oracle {
    discipline: Discipline,
    capacity: QueueCapacity,
    lines: [Vec<Waiting>; 3],
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Waiting {
    lane: Lane,
    call_key: u64,
    arrival: u64,
    item: u32,
}

impl Oracle {
    fn count(&self, lane: Lane) -> usize {
        self.lines.iter().flatten().filter(|waiting| waiting.lane == lane).count()
    }

    fn push(&mut self, waiting: Waiting) -> bool {
        let (held, most) = match self.discipline {
            Discipline::Fifo => (self.lines.iter().flatten().count(), self.capacity.total()),
            Discipline::Priority => (self.count(waiting.lane), self.capacity.of(waiting.lane)),
        };
        if held == most {
            return false;
        }
        match (self.discipline, waiting.lane) {
            (Discipline::Fifo, _) => self.lines[0].push(waiting),
            (Discipline::Priority, Lane::Control) => {
                let same_call = |w: &Waiting| w.call_key == waiting.call_key && waiting.call_key != 0;
                let (moved, kept) = self.lines[1].iter().partition(|w| same_call(w));
                self.lines[1] = kept;
                let moved: Vec<Waiting> = moved;
                self.lines[0].extend(moved);
                self.lines[0].push(waiting);
            }
            (Discipline::Priority, lane) => self.lines[lane as usize].push(waiting),
        }
        true
    }

    fn take(&mut self, line: usize, now: u64) -> Served<u32> {
        let Waiting { lane, arrival, item, .. } = self.lines[line].remove(0);
        let promoted = self.discipline == Discipline::Priority && lane as usize != line;
        Served { item, lane, promoted, waited_ns: now.saturating_sub(arrival) }
    }

    fn pop(&mut self, now: u64) -> Option<Served<u32>> {
        let line = self.lines.iter().position(|line| !line.is_empty())?;
        Some(self.take(line, now))
    }

    fn expire(&mut self, lane: Lane, now: u64, max_wait: u64) -> Option<Served<u32>> {
        let oldest = self.lines[lane as usize].first()?;
        (now.saturating_sub(oldest.arrival) > max_wait).then(|| self.take(lane as usize, now))
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Push(Lane, u64),
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
        6 => (lane(), 0_u64..6).prop_map(|(lane, key)| Step::Push(lane, key)),
        3 => Just(Step::Pop),
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
        let mut oracle = Oracle { discipline, capacity, lines: [vec![], vec![], vec![]] };
        let (mut now, mut pushed, mut popped, mut expired) = (0, 0_usize, 0_usize, 0_usize);
        for (item, step) in (0_u32..).zip(steps) {
            match step {
                Step::Push(lane, call_key) => {
                    let accepted = queue.push(lane, call_key, now, item);
                    prop_assert_eq!(accepted.is_ok(), oracle.push(Waiting { lane, call_key, arrival: now, item }));
                    prop_assert_eq!(accepted.err().unwrap_or(item), item);
                    pushed += usize::from(accepted.is_ok());
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
            let promoted = oracle.lines[0].iter().filter(|w| w.lane == Lane::New && !fifo).count();
            prop_assert_eq!(queue.promoted_len(), promoted);
            prop_assert_eq!(pushed, popped + expired + queue.len());
            queue.calls.check();
        }
        while let Some(served) = queue.pop(now) {
            prop_assert_eq!(Some(served), oracle.pop(now));
        }
        prop_assert!(queue.is_empty() && oracle.pop(now).is_none());
    }

    #[test]
    fn keys_that_all_collide_neither_break_a_call_nor_lengthen_a_chain(
        steps in proptest::collection::vec((0_usize..24, 0_u8..6), 1..400),
    ) {
        let capacity = QueueCapacity { control: 400, new: 400, copy: 0 };
        let mut queue = CallQueue::new(Discipline::Priority, capacity);
        let keys = colliding_keys(&queue, 24);
        let mut pushed = vec![Vec::new(); keys.len()];
        let mut served = vec![Vec::new(); keys.len()];
        let mut expired = vec![Vec::new(); keys.len()];
        for (item, (call, action)) in (0_u32..).zip(steps) {
            match action {
                0..3 => queue.push_new(keys[call], 0, (call, item)).unwrap(),
                3 => queue.push_control(keys[call], 0, (call, item)).unwrap(),
                4 => served.note(queue.pop(0)),
                _ => expired.note(queue.expire(10, 5)),
            }
            if action <= 3 {
                pushed[call].push(item);
            }
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

fn colliding_keys<T>(queue: &CallQueue<T>, count: usize) -> Vec<u64> {
    let bucket = queue.calls.bucket_of(1);
    (1..).filter(|&key| queue.calls.bucket_of(key) == bucket).take(count).collect()
}

fn priority(each: u32) -> CallQueue<&'static str> {
    CallQueue::new(Discipline::Priority, QueueCapacity { control: each, new: each, copy: each })
}

fn drain(queue: &mut CallQueue<&'static str>) -> Vec<&'static str> {
    std::iter::from_fn(|| queue.pop(0)).map(|served| served.item).collect()
}

#[test]
fn a_cancel_takes_its_invite_to_the_front_and_leaves_the_others() {
    let mut queue = priority(8);
    for (key, item) in [(1, "INVITE 1"), (2, "INVITE 2"), (2, "INVITE 2 again"), (3, "INVITE 3")] {
        queue.push_new(key, 0, item).unwrap();
    }
    queue.push_control(9, 0, "BYE 9").unwrap();
    queue.push_control(2, 0, "CANCEL 2").unwrap();
    assert_eq!((queue.len_of(Lane::New), queue.promoted_len()), (4, 2));
    let order = ["BYE 9", "INVITE 2", "INVITE 2 again", "CANCEL 2", "INVITE 1", "INVITE 3"];
    assert_eq!(drain(&mut queue), order);
}

#[test]
fn a_message_of_an_unknown_call_pulls_nothing_forward() {
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
    queue.push_new(1, 0, "original").unwrap();
    assert_eq!(drain(&mut queue), ["original", "copy"]);
}

#[test]
fn a_control_message_that_is_refused_pulls_nothing_forward() {
    let mut queue = priority(1);
    queue.push_control(7, 0, "BYE 7").unwrap();
    queue.push_new(1, 0, "INVITE 1").unwrap();
    assert_eq!(queue.push_control(1, 0, "CANCEL 1"), Err("CANCEL 1"));
    assert_eq!(queue.promoted_len(), 0);
}

#[test]
fn only_what_waits_in_its_own_lane_goes_stale() {
    let mut queue = priority(8);
    queue.push_new(1, 100, "INVITE 1").unwrap();
    queue.push_new(2, 100, "INVITE 2").unwrap();
    queue.push_copy(3, 100, "copy").unwrap();
    queue.push_control(2, 400, "CANCEL 2").unwrap();
    assert_eq!(queue.expire(500, 400), None);
    let stale = queue.expire(501, 400).unwrap();
    assert_eq!((stale.item, stale.waited_ns, stale.promoted), ("INVITE 1", 401, false));
    assert_eq!(queue.expire(u64::MAX, 400), None);
    assert_eq!(queue.expire_copy(501, 400).unwrap().item, "copy");
    assert_eq!(drain(&mut queue), ["INVITE 2", "CANCEL 2"]);
}

#[test]
fn what_waits_too_long_in_the_control_line_leaves_in_order_also_what_was_pulled_forward() {
    let mut queue = priority(8);
    queue.push_new(2, 100, "INVITE 2").unwrap();
    queue.push_control(2, 400, "CANCEL 2").unwrap();
    assert_eq!(queue.expire_control(600, 500), None);
    let stale = queue.expire_control(601, 500).unwrap();
    assert_eq!((stale.item, stale.lane, stale.promoted), ("INVITE 2", Lane::New, true));
    assert_eq!((queue.promoted_len(), queue.len_of(Lane::New)), (0, 0));
    assert_eq!(queue.expire_control(900, 500), None);
    assert_eq!(queue.expire_control(901, 500).unwrap().item, "CANCEL 2");
    assert_eq!(queue.expire_control(u64::MAX, 0), None);
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
