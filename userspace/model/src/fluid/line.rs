//! A line of fluid: groups that leave first in, first out, and a buffer.

/// Amounts below this are rounding.
const NOTHING: f64 = 1e-12;

/// A part of a group that leaves in a slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Leaving {
    /// The slot in which its group was accepted.
    pub(super) group: usize,
    /// The share of the group.
    pub(super) share: f64,
}

/// One line.
#[derive(Debug, Clone)]
pub(super) struct Line {
    buffer: f64,
    length: f64,
    /// By group: how much was accepted, and the share of it that waits.
    accepted: Vec<f64>,
    waits: Vec<f64>,
    /// The oldest group that waits, or the next to come.
    oldest: usize,
}

impl Line {
    pub(super) fn new(buffer: f64, slots: usize) -> Self {
        Self { buffer, length: 0.0, accepted: vec![0.0; slots], waits: vec![1.0; slots], oldest: 0 }
    }

    /// Q.
    pub(super) const fn length(&self) -> f64 {
        self.length
    }

    /// u: the share of a group that has not left.
    pub(super) fn waits(&self, group: usize) -> f64 {
        self.waits[group]
    }

    /// Takes in what fits of what arrives in a slot, if `capacity` is served in it; returns p.
    pub(super) fn accept(&mut self, slot: usize, arrives: f64, capacity: f64) -> f64 {
        if arrives <= 0.0 {
            return 1.0;
        }
        let served = capacity.min(self.length + arrives);
        let share = ((self.buffer - self.length + served) / arrives).clamp(0.0, 1.0);
        self.accepted[slot] = arrives * share;
        self.length += arrives * share;
        share
    }

    /// Serves up to `capacity`; notes what leaves and returns how much.
    pub(super) fn serve(&mut self, slot: usize, capacity: f64, leaving: &mut Vec<Leaving>) -> f64 {
        let served = capacity.min(self.length);
        self.length -= served;
        let mut rest = served;
        while rest > NOTHING && self.oldest <= slot {
            let group = self.oldest;
            let there = self.accepted[group] * self.waits[group];
            if there <= rest + NOTHING {
                if there > 0.0 {
                    leaving.push(Leaving { group, share: self.waits[group] });
                }
                self.waits[group] = 0.0;
                self.oldest += 1;
                rest -= there;
            } else {
                let share = rest / self.accepted[group];
                leaving.push(Leaving { group, share });
                self.waits[group] -= share;
                rest = 0.0;
            }
        }
        served
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::{Leaving, Line};

    #[test]
    fn groups_leave_in_their_order_and_whole_before_the_next() {
        let mut line = Line::new(10.0, 3);
        assert_eq!(line.accept(0, 4.0, 1.0), 1.0);
        assert_eq!(line.accept(1, 4.0, 1.0), 1.0);
        let mut leaving = Vec::new();
        assert_eq!(line.serve(1, 5.0, &mut leaving), 5.0);
        assert_eq!(leaving, [Leaving { group: 0, share: 1.0 }, Leaving { group: 1, share: 0.25 }]);
        assert_eq!((line.waits(0), line.waits(1), line.length()), (0.0, 0.75, 3.0));
    }

    #[test]
    fn what_does_not_fit_is_dropped_in_proportion() {
        let mut line = Line::new(10.0, 2);
        // 10 places and 2 that are served: 12 of 16.
        assert_eq!(line.accept(0, 16.0, 2.0), 0.75);
        line.serve(0, 2.0, &mut Vec::new());
        assert_eq!(line.length(), 10.0);
        assert_eq!(line.accept(1, 5.0, 0.0), 0.0);
    }

    proptest! {
        #[test]
        fn nothing_is_made_and_nothing_lost(steps in proptest::collection::vec((0.0..9.0_f64, 0.0..9.0_f64), 1..80)) {
            let mut line = Line::new(20.0, steps.len());
            let (mut accepted, mut left, mut by_group) = (0.0, 0.0, vec![0.0; steps.len()]);
            for (slot, (arrives, capacity)) in steps.into_iter().enumerate() {
                let amount = arrives * line.accept(slot, arrives, capacity);
                accepted += amount;
                by_group[slot] = amount;
                let mut leaving = Vec::new();
                let served = line.serve(slot, capacity, &mut leaving);
                let named: f64 = leaving.iter().map(|part| part.share * by_group[part.group]).sum();
                prop_assert!((served - named).abs() < 1e-9);
                left += served;
                prop_assert!(line.length() <= 20.0 + 1e-9);
                prop_assert!((accepted - left - line.length()).abs() < 1e-9);
            }
        }
    }
}
