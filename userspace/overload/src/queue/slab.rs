//! Slots of fixed number and the doubly linked lines that run through them.

use super::Lane;
use crate::Nanos;

/// "No slot" in links. The slab is smaller than this by its constructor.
pub(super) const NONE: u32 = u32::MAX;

/// One message at rest.
#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) item: T,
    pub(super) lane: Lane,
    /// In the copy lane, but no copy: taken along instead of outdated.
    pub(super) surplus: bool,
    pub(super) call_key: u64,
    pub(super) arrival_ns: Nanos,
}

#[derive(Debug)]
struct Slot<T> {
    /// `None` while the slot is free.
    entry: Option<Entry<T>>,
    prev: u32,
    /// The next in the line, or in the list of free slots.
    next: u32,
}

/// The ends of a line. A slot is in one line at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    first: u32,
    last: u32,
}

impl Line {
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE };

    pub(super) const fn first(&self) -> Option<u32> {
        if self.first == NONE { None } else { Some(self.first) }
    }
}

#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Box<[Slot<T>]>,
    free: u32,
}

impl<T> Slab<T> {
    pub(super) const BYTES_PER_SLOT: usize = size_of::<Slot<T>>();

    /// # Panics
    /// At set-up, when the capacity does not fit into 32 bits.
    pub(super) fn new(capacity: usize) -> Self {
        assert!(capacity < NONE as usize, "a queue of {capacity} messages cannot be indexed with 32 bits");
        let next = |slot: usize| if slot + 1 < capacity { slot as u32 + 1 } else { NONE };
        Self {
            slots: (0..capacity).map(|slot| Slot { entry: None, prev: NONE, next: next(slot) }).collect(),
            free: if capacity == 0 { NONE } else { 0 },
        }
    }

    /// Puts an item into a free slot, in no line yet; gives it back when there is none.
    pub(super) fn insert(&mut self, entry: Entry<T>) -> Result<u32, T> {
        let index = self.free;
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return Err(entry.item);
        };
        self.free = slot.next;
        slot.entry = Some(entry);
        Ok(index)
    }

    /// Empties a slot that is in no line.
    pub(super) fn remove(&mut self, index: u32) -> Option<Entry<T>> {
        let slot = &mut self.slots[index as usize];
        let entry = slot.entry.take()?;
        slot.next = self.free;
        self.free = index;
        Some(entry)
    }

    pub(super) fn entry(&self, index: u32) -> Option<&Entry<T>> {
        self.slots[index as usize].entry.as_ref()
    }

    /// The next in its line.
    pub(super) fn after(&self, index: u32) -> Option<u32> {
        let next = self.slots[index as usize].next;
        (next != NONE).then_some(next)
    }

    pub(super) fn append(&mut self, line: &mut Line, index: u32) {
        let slot = &mut self.slots[index as usize];
        (slot.prev, slot.next) = (line.last, NONE);
        match line.last {
            NONE => line.first = index,
            last => self.slots[last as usize].next = index,
        }
        line.last = index;
    }

    /// Takes a slot out of the line that it is in.
    pub(super) fn unlink(&mut self, line: &mut Line, index: u32) {
        let Slot { prev, next, .. } = self.slots[index as usize];
        match prev {
            NONE => line.first = next,
            prev => self.slots[prev as usize].next = next,
        }
        match next {
            NONE => line.last = prev,
            next => self.slots[next as usize].prev = prev,
        }
    }
}
