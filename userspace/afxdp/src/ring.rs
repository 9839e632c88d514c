//! The ring protocol: one producer, one consumer, indices that count up for ever and wrap at 2^32.
//!
//! The same two types stand at either end of all four kinds of rings, with the kernel at the other end or, in
//! `testing`, with ourselves. Index arithmetic is here and nowhere else. Memory layout and ordering as in the
//! kernel's `net/xdp/xsk_queue.h` (the comment on ring barriers): entries are written before the producer
//! index is stored with release, and read after it was loaded with acquire; the consumer index likewise in
//! the other direction.
//!
//! Each end keeps its own index, and a copy of the other end's which is refreshed only when it isn't
//! sufficient: the other index's cache line is then touched once a batch instead of once an entry.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::mapping::Mapping;

#[cfg(test)]
mod tests;

/// An entry of the RX and TX rings: `struct xdp_desc` in `include/uapi/linux/if_xdp.h`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub(crate) struct Descriptor {
    /// Byte offset of the packet in the UMEM.
    pub(crate) address: u64,
    /// Bytes of the packet.
    pub(crate) len: u32,
    /// `XDP_PKT_CONTD` and the like; zero, because sockets are bound without `XDP_USE_SG`.
    pub(crate) options: u32,
}

/// What may lie in a ring.
///
/// # Safety
///
/// Every bit pattern must be a value, because the other end may be the kernel.
pub(crate) unsafe trait Entry: Copy {}
// SAFETY: three plain integers without padding (8 + 4 + 4 bytes).
unsafe impl Entry for Descriptor {}
// SAFETY: a plain integer: the fill and completion rings hold addresses only.
unsafe impl Entry for u64 {}

/// Where the parts of a ring lie in its mapping, in bytes; by `XDP_MMAP_OFFSETS` for the kernel's rings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingLayout {
    pub(crate) producer: usize,
    pub(crate) consumer: usize,
    pub(crate) flags: Option<usize>,
    pub(crate) entries: usize,
}

impl RingLayout {
    /// Bytes of a ring with so many entries.
    pub(crate) fn len<T>(&self, size: u32) -> usize {
        self.entries + size as usize * size_of::<T>()
    }
}

/// The other end wants a system call before it looks at the ring (`XDP_RING_NEED_WAKEUP`).
const NEED_WAKEUP: u32 = 1;

/// What both ends have in common.
#[derive(Debug)]
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: Option<NonNull<AtomicU32>>,
    entries: NonNull<T>,
    /// A power of two.
    size: u32,
    /// INVARIANT: all pointers above lead into this mapping.
    _mapping: Arc<Mapping>,
}

// SAFETY: the indices are atomics, and an entry is touched by one end at a time (the protocol above); an end
// can thus move to another thread. `T` is plain data.
unsafe impl<T: Entry> Send for Ring<T> {}

impl<T: Entry> Ring<T> {
    fn new(mapping: Arc<Mapping>, layout: RingLayout, size: u32) -> Option<Self> {
        if !size.is_power_of_two() {
            return None;
        }
        let flags = match layout.flags {
            Some(offset) => Some(mapping.at(offset, 1)?),
            None => None,
        };
        Some(Self {
            producer: mapping.at(layout.producer, 1)?,
            consumer: mapping.at(layout.consumer, 1)?,
            flags,
            entries: mapping.at(layout.entries, size as usize)?,
            size,
            _mapping: mapping,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: leads to an aligned word in `_mapping`, which lives as long as `self`; every access to it
        // is atomic.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { self.consumer.as_ref() }
    }

    fn needs_wakeup(&self) -> bool {
        let Some(flags) = self.flags else { return false };
        // SAFETY: as for `producer`.
        let flags = unsafe { flags.as_ref() };
        flags.load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }

    /// The place of the entry with this index.
    fn entry(&self, index: u32) -> NonNull<T> {
        let slot = (index & (self.size - 1)) as usize;
        // SAFETY: `slot` < `size`, and `new` has checked that `size` entries lie in the mapping.
        unsafe { self.entries.add(slot) }
    }
}

/// The end that writes entries: ours for the fill and TX rings.
#[derive(Debug)]
pub(crate) struct Producer<T> {
    ring: Ring<T>,
    /// Index of the next entry to write; runs ahead of the shared index until [`Producer::publish`].
    head: u32,
    /// The consumer's index as last seen. INVARIANT: `head - tail <= size`.
    tail: u32,
}

impl<T: Entry> Producer<T> {
    /// Takes the producing end; `None` if the ring doesn't fit into the mapping.
    ///
    /// # Safety
    ///
    /// No other producing end of this ring may exist, and whoever has the consuming end must keep to the
    /// protocol.
    pub(crate) unsafe fn new(mapping: Arc<Mapping>, layout: RingLayout, size: u32) -> Option<Self> {
        let ring = Ring::new(mapping, layout, size)?;
        let head = ring.producer().load(Ordering::Relaxed);
        let tail = ring.consumer().load(Ordering::Acquire);
        Some(Self { ring, head, tail })
    }

    /// Entries that can be written now, at least if no more than `wanted` are asked for; the shared index is
    /// read only when the known room is smaller than that.
    pub(crate) fn room(&mut self, wanted: u32) -> u32 {
        let known = self.known_room();
        if known >= wanted.min(self.ring.size) {
            return known;
        }
        self.tail = self.ring.consumer().load(Ordering::Acquire);
        self.known_room()
    }

    /// Saturating, so that an index that makes no sense means "no room" and never more room than there is.
    fn known_room(&self) -> u32 {
        self.ring.size.saturating_sub(self.head.wrapping_sub(self.tail))
    }

    /// Writes an entry that becomes visible with [`Producer::publish`]. `false` if the ring is full.
    pub(crate) fn push(&mut self, entry: T) -> bool {
        if self.room(1) == 0 {
            return false;
        }
        // SAFETY: `head - tail < size`, so the consumer has given this slot up (acquire in `room`) and reads
        // it only after `publish`; no other producing end exists (`new`).
        unsafe { self.ring.entry(self.head).write(entry) };
        self.head = self.head.wrapping_add(1);
        true
    }

    /// Number of slots.
    pub(crate) fn size(&self) -> u32 {
        self.ring.size
    }

    /// Makes all written entries visible to the other end.
    pub(crate) fn publish(&mut self) {
        self.ring.producer().store(self.head, Ordering::Release);
    }

    /// Entries that were written and that the other end has not taken yet.
    pub(crate) fn pending(&mut self) -> u32 {
        self.tail = self.ring.consumer().load(Ordering::Acquire);
        self.head.wrapping_sub(self.tail)
    }

    /// Whether the other end has asked to be woken by a system call.
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// The end that reads entries: ours for the RX and completion rings.
#[derive(Debug)]
pub(crate) struct Consumer<T> {
    ring: Ring<T>,
    /// Index of the next entry to read; runs ahead of the shared index until [`Consumer::release`].
    tail: u32,
    /// The producer's index as last seen. INVARIANT: `head - tail <= size`, else the entries are not
    /// believed.
    head: u32,
}

impl<T: Entry> Consumer<T> {
    /// Takes the consuming end; `None` if the ring doesn't fit into the mapping.
    ///
    /// # Safety
    ///
    /// No other consuming end of this ring may exist, and whoever has the producing end must keep to the
    /// protocol.
    pub(crate) unsafe fn new(mapping: Arc<Mapping>, layout: RingLayout, size: u32) -> Option<Self> {
        let ring = Ring::new(mapping, layout, size)?;
        let tail = ring.consumer().load(Ordering::Relaxed);
        let head = ring.producer().load(Ordering::Acquire);
        Some(Self { ring, tail, head })
    }

    /// Entries that can be read now, at least if no more than `wanted` are asked for; the shared index is
    /// read only when fewer than that are known.
    pub(crate) fn available(&mut self, wanted: u32) -> u32 {
        let known = self.known_available();
        if known >= wanted.min(self.ring.size) {
            return known;
        }
        self.head = self.ring.producer().load(Ordering::Acquire);
        self.known_available()
    }

    /// Zero if the other end's index makes no sense.
    fn known_available(&self) -> u32 {
        let distance = self.head.wrapping_sub(self.tail);
        if distance <= self.ring.size { distance } else { 0 }
    }

    /// Number of slots.
    pub(crate) fn size(&self) -> u32 {
        self.ring.size
    }

    /// Reads an entry; its slot goes back to the other end with [`Consumer::release`].
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.available(1) == 0 {
            return None;
        }
        // SAFETY: `tail` is before `head`, so the producer has written this slot (acquire in `available`) and
        // leaves it alone until `release`; every bit pattern is a value (`Entry`).
        let entry = unsafe { self.ring.entry(self.tail).read() };
        self.tail = self.tail.wrapping_add(1);
        Some(entry)
    }

    /// Gives the slots of all entries read back to the other end.
    pub(crate) fn release(&mut self) {
        self.ring.consumer().store(self.tail, Ordering::Release);
    }
}
