//! Between the rings and the waiting queue: messages of ring control and ring new in the order of their arrival.
//!
//! The two rings are read one after the other while the XDP program goes on filling them, so an INVITE may be seen
//! before the ACK that came ahead of it, or a CANCEL before its INVITE. A message leaves here when nothing older can
//! still lie unread in the other ring. Each ring is in order of arrival, so that is known when
//!
//! - the other ring was read to its end after this message was read, or
//! - something younger was read from the other ring.
//!
//! Ring new is read first in each round and control second; a round in which both are empty lets everything out. Not here:
//! what the messages are.

use std::collections::VecDeque;

/// The two rings whose messages are put in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ring {
    /// What is served first.
    Control,
    /// Originals, and what is undecided.
    New,
}

/// A message and when the XDP program saw it.
type Timed<T> = (u64, T);

/// Messages on their way. Nothing is allocated as long as no more are put in than there is room for.
#[derive(Debug)]
pub(super) struct Inflow<T> {
    control: VecDeque<Timed<T>>,
    new: VecDeque<Timed<T>>,
    /// Room for so many of each: the frame budget counts on it, and an allocator may give more.
    room: usize,
    /// So many of `control`, from the front on, were here when ring new was last read to its end.
    confirmed: usize,
    /// Ring control was read to its end after everything in `new` was read.
    control_is_read: bool,
    /// The youngest message read from each ring.
    new_until_ns: u64,
    control_until_ns: u64,
}

impl<T> Inflow<T> {
    /// Room for so many of each.
    pub(super) fn new(room: usize) -> Self {
        Self {
            control: VecDeque::with_capacity(room),
            new: VecDeque::with_capacity(room),
            room,
            confirmed: 0,
            control_is_read: false,
            new_until_ns: 0,
            control_until_ns: 0,
        }
    }

    /// How many more there is room for.
    pub(super) fn room_for(&self, ring: Ring) -> usize {
        let line = match ring {
            Ring::Control => &self.control,
            Ring::New => &self.new,
        };
        self.room - line.len()
    }

    /// A message that was read from a ring.
    pub(super) fn push(&mut self, ring: Ring, arrival_ns: u64, message: T) {
        let (line, until_ns) = match ring {
            Ring::Control => (&mut self.control, &mut self.control_until_ns),
            Ring::New => (&mut self.new, &mut self.new_until_ns),
        };
        *until_ns = arrival_ns.max(*until_ns);
        line.push_back((arrival_ns, message));
    }

    /// A ring was read, or there was no room to.
    pub(super) fn was_read(&mut self, ring: Ring, to_its_end: bool) {
        match ring {
            Ring::Control => self.control_is_read = to_its_end,
            Ring::New => {
                if to_its_end {
                    self.confirmed = self.control.len();
                }
                self.control_is_read = false;
            }
        }
    }

    /// A message that came by neither ring takes its place by its time, among those of the ring that it would have come by.
    pub(super) fn insert(&mut self, ring: Ring, arrival_ns: u64, message: T) {
        let line = match ring {
            Ring::Control => &mut self.control,
            Ring::New => &mut self.new,
        };
        let place = line.iter().rposition(|(other_ns, _)| *other_ns <= arrival_ns).map_or(0, |at| at + 1);
        line.insert(place, (arrival_ns, message));
    }

    /// The next message whose turn it is for sure.
    pub(super) fn next(&mut self) -> Option<T> {
        let (control, new) = (self.control.front(), self.new.front());
        let control_is_first = match (control, new) {
            // Two packets of a queue never have the same time; where clocks are coarse, a CANCEL is behind its INVITE.
            (Some((control_ns, _)), Some((new_ns, _))) => control_ns < new_ns,
            (control, _) => control.is_some(),
        };
        if control_is_first {
            let arrival_ns = control?.0;
            if self.confirmed == 0 && arrival_ns > self.new_until_ns {
                return None;
            }
            self.confirmed = self.confirmed.saturating_sub(1);
            self.control.pop_front().map(|(_, message)| message)
        } else {
            let arrival_ns = new?.0;
            if !self.control_is_read && arrival_ns > self.control_until_ns {
                return None;
            }
            self.new.pop_front().map(|(_, message)| message)
        }
    }

    /// Whatever is left, in order as far as it is known.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.confirmed = self.control.len();
        self.control_is_read = true;
        std::iter::from_fn(|| self.next())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{Inflow, Ring};

    /// Reads up to `most` messages; true if that was all.
    fn read(ring: &mut VecDeque<u64>, most: usize, mut push: impl FnMut(u64)) -> bool {
        let count = ring.len().min(most);
        ring.drain(..count).for_each(&mut push);
        count < most
    }

    fn round(
        inflow: &mut Inflow<u64>,
        rings: &mut [VecDeque<u64>; 2],
        most: usize,
        between: impl FnOnce(&mut [VecDeque<u64>; 2]),
    ) {
        let room = most.min(inflow.room_for(Ring::New));
        let to_its_end = read(&mut rings[1], room, |time| inflow.push(Ring::New, time, time));
        inflow.was_read(Ring::New, to_its_end);
        between(rings);
        let room = most.min(inflow.room_for(Ring::Control));
        let to_its_end = read(&mut rings[0], room, |time| inflow.push(Ring::Control, time, time));
        inflow.was_read(Ring::Control, to_its_end);
    }

    #[test]
    fn an_invite_that_is_read_before_the_ack_ahead_of_it_waits_for_it() {
        let mut inflow = Inflow::new(8);
        let mut rings = [VecDeque::from([1]), VecDeque::from([2])];
        round(&mut inflow, &mut rings, 4, |_| {});
        assert_eq!((inflow.next(), inflow.next(), inflow.next()), (Some(1), Some(2), None));
    }

    #[test]
    fn a_cancel_that_is_read_before_its_invite_waits_for_it() {
        let mut inflow = Inflow::new(8);
        let mut rings = [VecDeque::new(), VecDeque::new()];
        // Both come between the two reads.
        round(&mut inflow, &mut rings, 4, |rings| {
            rings[1].push_back(1);
            rings[0].push_back(2);
        });
        assert_eq!(inflow.next(), None);
        round(&mut inflow, &mut rings, 4, |_| {});
        assert_eq!((inflow.next(), inflow.next(), inflow.next()), (Some(1), Some(2), None));
    }

    #[test]
    fn a_lone_message_of_either_ring_gets_through_within_two_rounds() {
        let mut inflow = Inflow::new(8);
        for ring in [0, 1] {
            let mut rings = [VecDeque::new(), VecDeque::new()];
            rings[ring].push_back(5 + ring as u64);
            round(&mut inflow, &mut rings, 4, |_| {});
            let first = inflow.next();
            round(&mut inflow, &mut rings, 4, |_| {});
            assert_eq!(first.or_else(|| inflow.next()), Some(5 + ring as u64));
        }
    }

    #[test]
    fn what_came_by_neither_ring_takes_its_place_and_is_not_left_behind() {
        let mut inflow = Inflow::new(8);
        let mut rings = [VecDeque::from([2, 6]), VecDeque::from([4])];
        for time in [5, 3, 9] {
            inflow.insert(if time == 3 { Ring::Control } else { Ring::New }, time, time);
        }
        let mut left = Vec::new();
        for _ in 0..2 {
            round(&mut inflow, &mut rings, 4, |_| {});
            left.extend(std::iter::from_fn(|| inflow.next()));
        }
        left.sort_unstable();
        assert_eq!(left, [2, 3, 4, 5, 6, 9]);
        // Alone, with both rings empty.
        inflow.insert(Ring::Control, 10, 10);
        round(&mut inflow, &mut rings, 4, |_| {});
        assert_eq!(inflow.next(), Some(10));
    }

    proptest! {
        /// Whatever is published when, and however little is read at a time: all leave in the order of their arrival, and
        /// when no more come all leave.
        #[test]
        fn messages_leave_in_the_order_of_their_arrival(
            steps in proptest::collection::vec((any::<bool>(), 0_u8..5), 1..300), most in 1_usize..5, room in 5_usize..20,
        ) {
            let mut inflow = Inflow::new(room);
            let mut rings = [VecDeque::new(), VecDeque::new()];
            let (mut left, mut time) = (Vec::new(), 0);
            for (to_new, action) in steps {
                let publish = |rings: &mut [VecDeque<u64>; 2], time: &mut u64| {
                    *time += 1;
                    rings[usize::from(to_new)].push_back(*time);
                };
                match action {
                    0..3 => publish(&mut rings, &mut time),
                    3 => round(&mut inflow, &mut rings, most, |rings| publish(rings, &mut time)),
                    _ => round(&mut inflow, &mut rings, most, |_| {}),
                }
                left.extend(std::iter::from_fn(|| inflow.next()));
                prop_assert!(inflow.control.len() <= room && inflow.new.len() <= room);
            }
            for _ in 0..1000 {
                round(&mut inflow, &mut rings, most, |_| {});
                left.extend(std::iter::from_fn(|| inflow.next()));
            }
            prop_assert_eq!(left, (1..=time).collect::<Vec<_>>());
        }
    }
}
