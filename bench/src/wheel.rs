//! The timer wheel: one pending timer per call, set, cancelled and fired in constant time.
//!
//! One ring of slots, each a tick wide and holding a list that is linked through a table with one entry per call; a
//! bitmap of occupied slots lets time jump over empty ones. Timers of one tick fire in the order in which they were set,
//! so that the copies of a burst come in the order of its originals. Timers beyond the ring's span wait in its last slot and
//! are set again when they come up there. Nothing is allocated after [`Wheel::new`].
//!
//! INVARIANT: a call is in at most one slot; a slot's bit is set exactly when its list is not empty; no timer is
//! due before `cursor`. A timer never fires early, and at most one tick late if the wheel is asked often enough.

use crate::clock::Nanos;

/// A tick is 2^16 ns = 66 us: fine beside the time between two messages, since what fires together finds the same full
/// queue; coarse enough that a ring of [`SLOTS`] spans 64·T1 = 32 s with the default T1.
pub(crate) const TICK_SHIFT: u32 = 16;
/// Slots of the ring: 2^20 ticks are 68.7 s. Fewer would set long timers more than once, more only cost memory.
const SLOTS: usize = 1 << 20;
/// "No call" in a link.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Timer {
    previous: u32,
    next: u32,
    /// Tick at which the timer fires.
    due_tick: u64,
    /// Slot whose list holds it, or `NONE`.
    slot: u32,
}

/// First and last call of a slot's list.
#[derive(Debug, Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
}

const EMPTY: Ends = Ends { first: NONE, last: NONE };
const UNSET: Timer = Timer { previous: NONE, next: NONE, due_tick: 0, slot: NONE };

/// Timers for calls `0..capacity`.
#[derive(Debug)]
pub struct Wheel {
    ends: Box<[Ends]>,
    occupied: Box<[u64]>,
    timers: Box<[Timer]>,
    /// All slots of earlier ticks are empty.
    cursor: u64,
}

impl Wheel {
    /// A wheel for calls `0..capacity`, whose time starts at `start`.
    #[must_use]
    pub fn new(capacity: usize, start: Nanos) -> Self {
        Self {
            ends: vec![EMPTY; SLOTS].into(),
            occupied: vec![0; SLOTS / 64].into(),
            timers: vec![UNSET; capacity].into(),
            cursor: start >> TICK_SHIFT,
        }
    }

    /// Sets the timer of `call`, replacing the one it may have.
    pub fn set(&mut self, call: u32, at: Nanos) {
        self.cancel(call);
        let due_tick = at.div_ceil(1 << TICK_SHIFT).max(self.cursor);
        let slot = (due_tick.min(self.cursor + SLOTS as u64 - 1) as usize) % SLOTS;
        let previous = self.ends[slot].last;
        if previous == NONE {
            self.ends[slot].first = call;
            self.occupied[slot / 64] |= 1 << (slot % 64);
        } else {
            self.timers[previous as usize].next = call;
        }
        self.ends[slot].last = call;
        self.timers[call as usize] = Timer { previous, next: NONE, due_tick, slot: slot as u32 };
    }

    /// Cancels the timer of `call`, if it has one.
    pub fn cancel(&mut self, call: u32) {
        let Timer { previous, next, slot, .. } = std::mem::replace(&mut self.timers[call as usize], UNSET);
        if slot == NONE {
            return;
        }
        let slot = slot as usize;
        let Ends { first, last } = &mut self.ends[slot];
        match previous {
            NONE => *first = next,
            _ => self.timers[previous as usize].next = next,
        }
        match next {
            NONE => *last = previous,
            _ => self.timers[next as usize].previous = previous,
        }
        if *first == NONE {
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
    }

    /// Takes one call whose timer is due at `now`; call again until there is none.
    pub fn pop_due(&mut self, now: Nanos) -> Option<u32> {
        let now_tick = now >> TICK_SHIFT;
        loop {
            self.cursor = self.next_occupied(now_tick)?;
            let call = self.ends[self.cursor as usize % SLOTS].first;
            let due_tick = self.timers[call as usize].due_tick;
            if due_tick <= now_tick {
                self.cancel(call);
                return Some(call);
            }
            // A timer from beyond the ring's span. It goes to another slot: the last one is just behind this one.
            self.set(call, due_tick << TICK_SHIFT);
        }
    }

    /// When the next timer is due, if that is before `limit`; may be too early, never too late.
    #[must_use]
    pub fn next_due(&self, limit: Nanos) -> Option<Nanos> {
        let mut tick = self.cursor;
        let last = (limit >> TICK_SHIFT).min(self.cursor + SLOTS as u64 - 1);
        while tick <= last {
            tick += self.distance_in_word(tick);
            if tick <= last && self.is_occupied(tick) {
                return Some(tick << TICK_SHIFT).filter(|due| *due < limit);
            }
        }
        None
    }

    /// First occupied tick from the cursor up to `now_tick`; without one the cursor moves there.
    fn next_occupied(&mut self, now_tick: u64) -> Option<u64> {
        let last = now_tick.min(self.cursor + SLOTS as u64 - 1);
        let mut tick = self.cursor;
        while tick <= last {
            tick += self.distance_in_word(tick);
            if tick <= last && self.is_occupied(tick) {
                return Some(tick);
            }
        }
        self.cursor = self.cursor.max(now_tick);
        None
    }

    fn is_occupied(&self, tick: u64) -> bool {
        let slot = tick as usize % SLOTS;
        self.occupied[slot / 64] & 1 << (slot % 64) != 0
    }

    /// Ticks to the next occupied slot of the word that holds `tick`, or to the next word's first slot.
    fn distance_in_word(&self, tick: u64) -> u64 {
        let slot = tick as usize % SLOTS;
        let word = self.occupied[slot / 64] >> (slot % 64);
        if word == 0 { 64 - slot as u64 % 64 } else { u64::from(word.trailing_zeros()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TICK_NS: u64 = 1 << TICK_SHIFT;
    const CALLS: u32 = 8;

    #[derive(Debug, Clone)]
    enum Step {
        Set(u32, u64),
        Cancel(u32),
        Advance(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let delay = prop_oneof![0..5 * TICK_NS, 0..2_000 * TICK_NS, 0..4 * SLOTS as u64 * TICK_NS];
        let advance = prop_oneof![0..3 * TICK_NS, 0..1_000 * TICK_NS, 0..3 * SLOTS as u64 * TICK_NS];
        prop_oneof![
            4 => (0..CALLS, delay).prop_map(|(call, ns)| Step::Set(call, ns)),
            1 => (0..CALLS).prop_map(Step::Cancel),
            3 => advance.prop_map(Step::Advance),
        ]
    }

    proptest! {
        /// The oracle is one optional deadline per call.
        #[test]
        fn fires_exactly_what_is_due_and_never_early(start in 0..1_u64 << 50, steps in prop::collection::vec(step(), 1..60)) {
            let mut now = start;
            let mut wheel = Wheel::new(CALLS as usize, start);
            let mut deadlines = [None; CALLS as usize];
            for step in steps {
                match step {
                    Step::Set(call, ns) => {
                        wheel.set(call, now + ns);
                        deadlines[call as usize] = Some(now + ns);
                    }
                    Step::Cancel(call) => {
                        wheel.cancel(call);
                        deadlines[call as usize] = None;
                    }
                    Step::Advance(ns) => {
                        now += ns;
                        while let Some(call) = wheel.pop_due(now) {
                            let deadline = deadlines[call as usize].take();
                            prop_assert!(deadline.is_some_and(|at| at <= now), "{call} fired early or twice");
                        }
                        let missed = deadlines.iter().flatten().any(|at| at + TICK_NS <= now);
                        prop_assert!(!missed, "a timer is more than a tick late");
                    }
                }
                let earliest = deadlines.iter().flatten().min();
                if let (Some(earliest), Some(wake)) = (earliest, wheel.next_due(u64::MAX)) {
                    prop_assert!(wake < earliest + TICK_NS, "the wheel would sleep past a timer");
                }
                prop_assert_eq!(earliest.is_some(), wheel.next_due(u64::MAX).is_some());
            }
        }
    }

    #[test]
    fn timers_of_one_slot_fire_in_order_and_are_cancelled_from_any_position() {
        for cancelled in 0..3 {
            let mut wheel = Wheel::new(3, 0);
            (0..3).for_each(|call| wheel.set(call, 10 * TICK_NS));
            wheel.cancel(cancelled);
            let fired: Vec<u32> = std::iter::from_fn(|| wheel.pop_due(10 * TICK_NS)).collect();
            assert_eq!(fired, (0..3).filter(|call| *call != cancelled).collect::<Vec<_>>());
            assert_eq!(wheel.next_due(u64::MAX), None);
        }
    }

    #[test]
    fn next_due_looks_no_further_than_asked() {
        let mut wheel = Wheel::new(1, 0);
        wheel.set(0, 1_000 * TICK_NS);
        assert_eq!(wheel.next_due(1_000 * TICK_NS), None);
        assert_eq!(wheel.next_due(1_000 * TICK_NS + 1), Some(1_000 * TICK_NS));
    }
}
