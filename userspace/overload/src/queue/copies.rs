//! The copy lane: copies that a younger message of their call outdates, and surplus, which such a message takes along.
//!
//! Not here: the order between lanes and the way out of them (`queue.rs`).

use super::{CallQueue, Lane, Served};
use crate::Nanos;
use crate::gate::Discipline;
use crate::queue::slab::Entry;

/// Control messages of one call that can be surplus at a time; a call has a few responses or an ACK and a CANCEL on
/// their way at once. Larger: one message that is admitted takes more along, past the cap.
pub const SURPLUS_PER_CALL_MAX: u32 = 4;

impl<T> CallQueue<T> {
    /// Notes a message of a call that arrived at `arrival_ns` and is not queued: waiting copies of that call that are no
    /// younger will not be served. [`CallQueue::push`] does this itself.
    pub fn outdate_copies(&mut self, call_key: u64, arrival_ns: Nanos) {
        self.settle_copies(call_key, arrival_ns, None);
    }

    /// A message of a call is here: what is no younger in the copy lane is outdated or, if it is surplus, moves to the
    /// end of the line that the message joins.
    pub(super) fn settle_copies(&mut self, call_key: u64, arrival_ns: Nanos, joins: Option<Lane>) {
        if call_key == 0 || self.held[Lane::Copy as usize] == 0 {
            return;
        }
        let mut next = self.copies.take(call_key);
        while let Some(slot) = next {
            next = self.copies.after(slot);
            let Some(entry) = self.slab.entry(slot) else { continue };
            let (key, surplus) = (entry.call_key, entry.surplus);
            // Strangers from the nameless group and younger ones stay, in their order.
            if key != call_key || entry.arrival_ns > arrival_ns || (surplus && joins.is_none()) {
                self.copies.append(slot, key);
                continue;
            }
            self.slab.unlink(&mut self.lines[Lane::Copy as usize], slot);
            match joins.filter(|_| surplus) {
                None => self.slab.append(&mut self.outdated, slot),
                Some(Lane::New) => self.append_indexed(Lane::New, slot, key),
                Some(line) => self.slab.append(&mut self.lines[line as usize], slot),
            }
        }
    }

    /// Appends a control message of a source above its cap: it waits in the copy lane, and in its room.
    ///
    /// # Errors
    /// The message itself, when that lane has no room, or when [`SURPLUS_PER_CALL_MAX`] messages of its call wait
    /// there. Nothing has changed then.
    pub fn push_surplus(&mut self, call_key: u64, arrival_ns: Nanos, item: T) -> Result<(), T> {
        let lane = Lane::Copy;
        if self.room(lane) == 0 || self.surplus_of(call_key) >= SURPLUS_PER_CALL_MAX {
            return Err(item);
        }
        let slot = self.slab.insert(Entry { item, lane, surplus: true, call_key, arrival_ns })?;
        self.held[lane as usize] += 1;
        match self.discipline {
            Discipline::Fifo => self.slab.append(&mut self.lines[0], slot),
            Discipline::Priority => self.append_indexed(lane, slot, call_key),
        }
        Ok(())
    }

    /// How many surplus messages the next message of a call would take along.
    #[must_use]
    pub fn surplus_of(&self, call_key: u64) -> u32 {
        if call_key == 0 || self.held[Lane::Copy as usize] == 0 {
            return 0;
        }
        let slots = std::iter::successors(self.copies.first(call_key), |slot| self.copies.after(*slot));
        let entries = slots.filter_map(|slot| self.slab.entry(slot));
        entries.filter(|entry| entry.surplus && entry.call_key == call_key).map(|_| 1).sum()
    }

    /// A copy that a younger message of its call has outdated; call until `None`.
    pub fn pop_outdated(&mut self, now: Nanos) -> Option<Served<T>> {
        let slot = self.outdated.first()?;
        self.slab.unlink(&mut self.outdated, slot);
        let entry = self.slab.remove(slot)?;
        self.held[entry.lane as usize] -= 1;
        let waited_ns = now.saturating_sub(entry.arrival_ns);
        Some(Served { item: entry.item, lane: entry.lane, call_key: entry.call_key, waited_ns })
    }
}
