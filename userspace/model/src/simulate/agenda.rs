//! What happens next: pending events in the order of their times, ties in the order of insertion.
//!
//! Most delays of this simulation are constants: the j-th copy of a request is due a fixed time after its first send, and
//! requests are first sent in the order of time. So events with one delay queue up in a *lane*, a plain FIFO, and only
//! the heads of the lanes have to be compared. A tournament tree over these heads finds the next event in
//! log2(lanes) steps, however many calls wait, where a heap of all events takes log2(events) cache misses. What has no
//! constant delay goes into one heap, whose top is one more head.
//!
//! The pair (time, insertion number) is unique, so the order is total and a run is repeatable.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use overload::Nanos;

/// Time and insertion number.
type Key = (Nanos, u64);

/// The key of an empty lane: after everything.
const NEVER: Key = (Nanos::MAX, u64::MAX);

#[derive(Debug, Clone, Copy)]
struct Entry<E> {
    key: Key,
    event: E,
}

impl<E> Ord for Entry<E> {
    /// Reversed: the heap of the standard library gives the largest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

/// Pending events.
#[derive(Debug)]
pub(super) struct Agenda<E> {
    lanes: Vec<VecDeque<Entry<E>>>,
    heap: BinaryHeap<Entry<E>>,
    /// The key of each lane's first entry; the heap's is the last. Filled up with `NEVER` to a power of two.
    heads: Vec<Key>,
    /// The tournament: node 1 is the root, node n plays 2n against 2n + 1, the leaves are the heads.
    winners: Vec<u32>,
    inserted: u64,
}

impl<E: Copy> Agenda<E> {
    /// An empty agenda with lanes 0 to `lanes` − 1.
    pub(super) fn new(lanes: usize) -> Self {
        let leaves = (lanes + 1).next_power_of_two().max(2);
        let mut agenda = Self {
            lanes: (0..lanes).map(|_| VecDeque::new()).collect(),
            heap: BinaryHeap::new(),
            heads: vec![NEVER; leaves],
            winners: vec![0; leaves],
            inserted: 0,
        };
        (0..leaves).for_each(|leaf| agenda.play(leaf));
        agenda
    }

    /// Adds an event to a lane. Times within a lane must not fall.
    pub(super) fn push(&mut self, lane: usize, at: Nanos, event: E) {
        let entry = self.entry(at, event);
        let queue = &mut self.lanes[lane];
        debug_assert!(queue.back().is_none_or(|last| last.key < entry.key), "lane {lane} goes back in time");
        queue.push_back(entry);
        if queue.len() == 1 {
            self.heads[lane] = entry.key;
            self.play(lane);
        }
    }

    /// Adds an event at any time.
    pub(super) fn push_anywhere(&mut self, at: Nanos, event: E) {
        let entry = self.entry(at, event);
        self.heap.push(entry);
        self.look_at_heap();
    }

    /// Takes out the next event if it comes before `end`.
    pub(super) fn pop_before(&mut self, end: Nanos) -> Option<(Nanos, E)> {
        let leaf = self.winners[1] as usize;
        if self.heads[leaf].0 >= end {
            return None;
        }
        let entry = if let Some(queue) = self.lanes.get_mut(leaf) {
            let entry = queue.pop_front()?;
            self.heads[leaf] = queue.front().map_or(NEVER, |next| next.key);
            self.play(leaf);
            entry
        } else {
            let entry = self.heap.pop()?;
            self.look_at_heap();
            entry
        };
        Some((entry.key.0, entry.event))
    }

    /// Events that are pending.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.heap.len() + self.lanes.iter().map(VecDeque::len).sum::<usize>()
    }

    const fn entry(&mut self, at: Nanos, event: E) -> Entry<E> {
        self.inserted += 1;
        Entry { key: (at, self.inserted), event }
    }

    fn look_at_heap(&mut self) {
        let leaf = self.lanes.len();
        let key = self.heap.peek().map_or(NEVER, |first| first.key);
        if self.heads[leaf] != key {
            self.heads[leaf] = key;
            self.play(leaf);
        }
    }

    /// Plays the matches between a leaf and the root again.
    fn play(&mut self, leaf: usize) {
        let leaves = self.heads.len();
        let mut node = (leaf + leaves) / 2;
        let mut winner = if self.heads[leaf ^ 1] < self.heads[leaf] { leaf ^ 1 } else { leaf } as u32;
        self.winners[node] = winner;
        while node > 1 {
            let rival = self.winners[node ^ 1];
            if self.heads[rival as usize] < self.heads[winner as usize] {
                winner = rival;
            }
            node /= 2;
            self.winners[node] = winner;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::Agenda;

    #[test]
    fn equal_times_come_in_the_order_of_insertion() {
        let mut agenda = Agenda::new(3);
        for (lane, event) in [(2, 'a'), (0, 'b'), (1, 'c'), (0, 'd')] {
            agenda.push(lane, 5, event);
        }
        agenda.push_anywhere(5, 'e');
        agenda.push_anywhere(1, 'f');
        let order: String = std::iter::from_fn(|| agenda.pop_before(6)).map(|(_, event)| event).collect();
        assert_eq!(order, "fabcde");
    }

    #[test]
    fn what_lies_at_or_after_the_end_stays() {
        let mut agenda = Agenda::new(1);
        agenda.push(0, 7, ());
        assert_eq!(agenda.pop_before(7), None);
        assert_eq!((agenda.pop_before(8), agenda.len()), (Some((7, ())), 0));
    }

    proptest! {
        #[test]
        fn the_order_is_that_of_a_stable_sort(
            lanes in 1_usize..20,
            steps in proptest::collection::vec((any::<u8>(), 0_u64..30, any::<bool>()), 1..300),
        ) {
            let mut agenda = Agenda::new(lanes);
            let mut naive: Vec<(u64, usize)> = Vec::new();
            let mut last = vec![0; lanes];
            let mut now = 0;
            for (number, (choice, delay, take)) in steps.into_iter().enumerate() {
                let lane = usize::from(choice) % (lanes + 1);
                let mut at = now + delay;
                if let Some(last) = last.get_mut(lane) {
                    at = at.max(*last);
                    *last = at;
                    agenda.push(lane, at, number);
                } else {
                    agenda.push_anywhere(at, number);
                }
                naive.push((at, number));
                if take {
                    naive.sort_unstable();
                    let first = naive.remove(0);
                    prop_assert_eq!(agenda.pop_before(u64::MAX), Some(first));
                    now = first.0;
                }
            }
            naive.sort_unstable();
            let rest: Vec<_> = std::iter::from_fn(|| agenda.pop_before(u64::MAX)).collect();
            prop_assert_eq!(rest, naive);
        }
    }
}
