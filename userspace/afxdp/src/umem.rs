//! One UMEM: the frames of a NIC queue, who has each of them, and the bytes of those that the user has.
//!
//! Rings are not in here. The ports move frames by the crate-private methods, each of which says from which
//! place to which place it moves; a move from anywhere else is refused.
//!
//! # Why the slices are sound
//!
//! A [`Frame`] exists only for frames whose place is `HELD`, and only once: it is made when a frame moves
//! *into* `HELD` (from the free list, or out of an RX ring) and consumed when it moves out. The kernel
//! touches only frames whose place is not `HELD`. Different frames don't overlap. So `&Frame` gives shared
//! and `&mut Frame` exclusive access to the bytes, and the UMEM itself need only be borrowed for its
//! lifetime: two frames can be borrowed at once, one of them mutably.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::config::UmemConfig;
use crate::error::Error;
use crate::frame::Frame;
use crate::mapping::{HUGE_PAGE, Mapping};
use crate::prefetch::prefetch;
use crate::{METADATA_LEN, XDP_HEADROOM};

#[cfg(test)]
mod tests;

/// Where a frame is. Egress ports are told apart so that one of them can be closed and its frames recovered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Place(u8);

impl Place {
    /// On the free list.
    pub(crate) const FREE: Self = Self(0);
    /// With the kernel for receiving: fill ring, NIC, an RX ring, or the kernel's own list of spare frames.
    pub(crate) const RECEIVING: Self = Self(1);
    /// With the user, as a `Frame`.
    pub(crate) const HELD: Self = Self(2);
    /// In the NIC's TX or completion ring, or in between.
    pub(crate) const TX_NIC: Self = Self(3);

    /// In the TX or completion ring of an egress port, or in between.
    pub(crate) fn tx_egress(slot: u8) -> Self {
        Self(4 + slot)
    }

    /// Index into `Umem::counts`.
    fn kind(self) -> usize {
        usize::from(self.0.min(4))
    }
}

/// How many frames are where. Their sum is the number of frames, always.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Places {
    /// On the free list.
    pub free: u32,
    /// With the kernel for receiving: fill ring, NIC, RX rings.
    pub receiving: u32,
    /// With the user, as [`Frame`]s.
    pub held: u32,
    /// Being sent by the NIC.
    pub tx_nic: u32,
    /// Being sent by egress ports.
    pub tx_egress: u32,
}

impl Places {
    /// The sum, which is the number of frames of the UMEM.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.free + self.receiving + self.held + self.tx_nic + self.tx_egress
    }
}

/// Egress ports of one UMEM at a time. Bound by the bits of `Umem::egress_slots`; more services than that on
/// one queue would need more devices than a host has for this.
const EGRESS_PORTS_MAX: u8 = 64;

/// The frames of one NIC queue. Ports give it out only as `&Umem`, so it can't be exchanged under the rings.
#[derive(Debug)]
pub struct Umem {
    config: UmemConfig,
    /// Differs between all UMEMs of the process.
    id: u32,
    /// log2 of the frame size.
    shift: u32,
    /// Indices of the frames in place `FREE`; a stack, so that the frame used last, still in the cache, is
    /// next.
    free: Vec<u32>,
    /// INVARIANT: `places[i]` is where frame `i` is; `counts` counts them by kind.
    places: Box<[Place]>,
    counts: [u32; 5],
    bad_descriptors: u64,
    egress_slots: u64,
    huge_pages: bool,
    memory: Arc<Mapping>,
}

impl Umem {
    /// Maps memory for all frames, all of them free.
    ///
    /// # Errors
    ///
    /// If the configuration can't work or the memory isn't there.
    pub(crate) fn new(config: &UmemConfig) -> Result<Self, Error> {
        config.check()?;
        let bytes = config.bytes();
        let len =
            usize::try_from(bytes).ok().ok_or(Error::Memory { bytes, source: rustix::io::Errno::NOMEM })?;
        let huge = config.huge_pages.then(|| Mapping::anonymous(len.next_multiple_of(HUGE_PAGE), true));
        let (memory, huge_pages) = match huge {
            Some(Ok(memory)) => (memory, true),
            Some(Err(_)) | None => {
                (Mapping::anonymous(len, false).map_err(|source| Error::Memory { bytes, source })?, false)
            }
        };
        Ok(Self {
            config: config.clone(),
            id: next_id(),
            shift: config.frame_size.trailing_zeros(),
            free: (0..config.frames).rev().collect(),
            places: vec![Place::FREE; config.frames as usize].into_boxed_slice(),
            counts: [config.frames, 0, 0, 0, 0],
            bad_descriptors: 0,
            egress_slots: 0,
            huge_pages,
            memory: Arc::new(memory),
        })
    }

    /// The packet in a frame.
    #[must_use]
    pub fn packet<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        let start = self.start_of(frame, frame.len.into());
        // SAFETY: `start_of` has checked that the bytes lie in this UMEM; the frame is the caller's and
        // borrowed for as long as the slice lives, so neither the kernel nor another slice writes to them
        // (module header).
        unsafe { std::slice::from_raw_parts(start.as_ptr(), frame.len.into()) }
    }

    /// The packet in a frame, to be changed in place.
    ///
    /// ```compile_fail
    /// fn keep(umem: &afxdp::Umem, port: &mut afxdp::QueuePort, mut frame: afxdp::Frame) {
    ///     let packet = umem.packet_mut(&mut frame);
    ///     port.give_back(frame); // the frame is still borrowed by `packet`
    ///     packet[0] = 1;
    /// }
    /// ```
    #[must_use]
    #[allow(
        clippy::mut_from_ref,
        reason = "the exclusive borrow is that of the frame, see the module header"
    )]
    pub fn packet_mut<'a>(&'a self, frame: &'a mut Frame) -> &'a mut [u8] {
        let start = self.start_of(frame, frame.len.into());
        // SAFETY: as in `packet`; the frame is borrowed exclusively, so no other slice of these bytes lives.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), frame.len.into()) }
    }

    /// All bytes from the packet's start to the end of the frame, to write a packet longer than the present
    /// one; say how long it has become with [`Umem::set_range`].
    #[must_use]
    #[allow(
        clippy::mut_from_ref,
        reason = "the exclusive borrow is that of the frame, see the module header"
    )]
    pub fn buffer_mut<'a>(&'a self, frame: &'a mut Frame) -> &'a mut [u8] {
        let len = self.config.frame_size as usize - usize::from(frame.offset);
        let start = self.start_of(frame, len);
        // SAFETY: as in `packet_mut`, with the length up to the end of the frame, which no other frame
        // reaches into.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) }
    }

    /// The bytes directly in front of the packet. They are the XDP program's metadata if the frame was
    /// received from a program that writes it, and not touched by [`Umem::set_range`] since; otherwise
    /// whatever lay there before.
    #[must_use]
    pub fn metadata<'a>(&'a self, frame: &'a Frame) -> &'a [u8; METADATA_LEN] {
        let start = self.start_of(frame, 0);
        // SAFETY: `METADATA_LEN <= offset` (invariant of `Frame`), so this stays within the frame.
        let metadata = unsafe { start.sub(METADATA_LEN) }.cast::<[u8; METADATA_LEN]>();
        // SAFETY: as in `packet`; bytes have no alignment.
        unsafe { metadata.as_ref() }
    }

    /// Has the CPU fetch metadata and packet while other work goes on.
    #[inline]
    pub(crate) fn prefetch(&self, frame: &Frame) {
        prefetch(self.metadata(frame));
        prefetch(self.packet(frame));
    }

    /// Makes `range`, counted from the packet's present start, the packet. Its end may lie behind the present
    /// end, in the tail room: that is how a packet written by [`Umem::buffer_mut`] gets its length. What is
    /// cut off in front can't be had back.
    ///
    /// # Panics
    ///
    /// If the range doesn't lie between the packet's start and the end of the frame. Ranges come from our own
    /// code that has just worked on these bytes, never from the wire unchecked.
    pub fn set_range(&self, frame: &mut Frame, range: Range<usize>) {
        let room = self.config.frame_size as usize - usize::from(frame.offset);
        assert!(
            frame.umem == self.id && range.start <= range.end && range.end <= room,
            "packet range {range:?} leaves frame {} ({room} bytes)",
            frame.index
        );
        // Both fit into u16, because `range.end` is at most a frame size, 4096.
        frame.offset += range.start as u16;
        frame.len = (range.end - range.start) as u16;
    }

    /// Bytes between the packet's end and the end of the frame.
    #[must_use]
    pub fn tail_room(&self, frame: &Frame) -> usize {
        self.config.frame_size as usize - usize::from(frame.offset) - usize::from(frame.len)
    }

    /// Number of frames.
    #[must_use]
    pub fn frames(&self) -> u32 {
        self.config.frames
    }

    /// Frames that are held as [`Frame`] values: zero when a worker has nothing in its hands or queues.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.counts[Place::HELD.kind()]
    }

    /// How many frames are where.
    #[must_use]
    pub fn places(&self) -> Places {
        let [free, receiving, held, tx_nic, tx_egress] = self.counts;
        Places { free, receiving, held, tx_nic, tx_egress }
    }

    /// The same counted frame by frame, for tests: slow, and independent of the running counters.
    #[must_use]
    pub fn recount(&self) -> Places {
        let count = |kind| self.places.iter().filter(|place| place.kind() == kind).count() as u32;
        Places { free: count(0), receiving: count(1), held: count(2), tx_nic: count(3), tx_egress: count(4) }
    }

    /// Descriptors from the other end that named no frame, or one that wasn't there, or bytes outside of it.
    /// More than zero means a kernel or driver bug; the frames concerned are not believed in.
    #[must_use]
    pub fn bad_descriptors(&self) -> u64 {
        self.bad_descriptors
    }

    /// The configuration it was made from.
    #[must_use]
    pub fn config(&self) -> &UmemConfig {
        &self.config
    }

    /// Address of the packet, after checking that the frame is of this UMEM and that `len` bytes from there
    /// lie in it.
    fn start_of(&self, frame: &Frame, len: usize) -> NonNull<u8> {
        assert!(frame.umem == self.id, "frame {} belongs to another UMEM", frame.index);
        let at = ((frame.index as usize) << self.shift) + usize::from(frame.offset);
        self.memory.at(at, len).expect("a frame's bytes lie in its UMEM")
    }
}

/// The moves. `FREE` → `RECEIVING` → `HELD` → `TX_*` → `FREE`, and `FREE` ↔ `HELD`.
impl Umem {
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    pub(crate) fn memory(&self) -> &Arc<Mapping> {
        &self.memory
    }

    pub(crate) fn huge_pages(&self) -> bool {
        self.huge_pages
    }

    fn set_place(&mut self, index: u32, place: Place) {
        let entry = &mut self.places[index as usize];
        self.counts[entry.kind()] -= 1;
        self.counts[place.kind()] += 1;
        *entry = place;
    }

    /// `FREE` → `HELD`. The packet is empty and starts where a received one would.
    pub(crate) fn take(&mut self) -> Option<Frame> {
        let index = self.free.pop()?;
        self.set_place(index, Place::HELD);
        let offset = (XDP_HEADROOM + self.config.headroom) as u16;
        Some(Frame { index, umem: self.id, offset, len: 0 })
    }

    /// `HELD` → `FREE`.
    pub(crate) fn give_back(&mut self, frame: Frame) {
        assert!(frame.umem == self.id, "frame {} belongs to another UMEM", frame.index);
        debug_assert_eq!(self.places[frame.index as usize], Place::HELD);
        self.set_place(frame.index, Place::FREE);
        self.free.push(frame.index);
    }

    pub(crate) fn free_len(&self) -> u32 {
        self.free.len() as u32
    }

    /// `FREE` → `RECEIVING`: the address for the fill ring.
    pub(crate) fn lend(&mut self) -> Option<u64> {
        let index = self.free.pop()?;
        self.set_place(index, Place::RECEIVING);
        Some(u64::from(index) << self.shift)
    }

    /// `RECEIVING` → `HELD`: the frame that an RX descriptor names.
    pub(crate) fn accept(&mut self, address: u64, len: u32) -> Option<Frame> {
        let Some(index) = self.index_in(address, Place::RECEIVING) else {
            self.bad_descriptors += 1;
            return None;
        };
        let offset = (address & u64::from(self.config.frame_size - 1)) as u32;
        if offset < METADATA_LEN as u32 || len > self.config.frame_size - offset {
            // The frame itself is back; only what lies in it is unknown.
            self.bad_descriptors += 1;
            self.set_place(index, Place::FREE);
            self.free.push(index);
            return None;
        }
        self.set_place(index, Place::HELD);
        // Both are at most a frame size, 4096.
        Some(Frame { index, umem: self.id, offset: offset as u16, len: len as u16 })
    }

    /// `HELD` → a TX place: address and length for the TX ring.
    pub(crate) fn send(&mut self, frame: Frame, place: Place) -> (u64, u32) {
        assert!(frame.umem == self.id, "frame {} belongs to another UMEM", frame.index);
        debug_assert_eq!(self.places[frame.index as usize], Place::HELD);
        self.set_place(frame.index, place);
        ((u64::from(frame.index) << self.shift) + u64::from(frame.offset), frame.len.into())
    }

    /// A TX place → `FREE`: what a completion ring says. `false` if the frame isn't there.
    pub(crate) fn complete(&mut self, address: u64, place: Place) -> bool {
        let Some(index) = self.index_in(address, place) else {
            self.bad_descriptors += 1;
            return false;
        };
        self.set_place(index, Place::FREE);
        self.free.push(index);
        true
    }

    /// All frames of a TX place → `FREE`: for an egress port that is closed. Returns how many there were.
    pub(crate) fn reclaim(&mut self, place: Place) -> u32 {
        let mut reclaimed = 0;
        for index in 0..self.config.frames {
            if self.places[index as usize] == place {
                self.set_place(index, Place::FREE);
                self.free.push(index);
                reclaimed += 1;
            }
        }
        reclaimed
    }

    /// The place for a new egress port, if there is one left.
    pub(crate) fn claim_egress(&mut self) -> Option<u8> {
        let slot = self.egress_slots.trailing_ones() as u8;
        (slot < EGRESS_PORTS_MAX).then(|| {
            self.egress_slots |= 1 << slot;
            slot
        })
    }

    /// Gives back what `claim_egress` gave.
    pub(crate) fn release_egress(&mut self, slot: u8) {
        self.egress_slots &= !(1 << slot);
    }

    /// Index of the frame that an address lies in, if the frame is in this place.
    fn index_in(&self, address: u64, place: Place) -> Option<u32> {
        let index = u32::try_from(address >> self.shift).ok()?;
        (*self.places.get(index as usize)? == place).then_some(index)
    }
}

/// A number that no other UMEM of the process has.
fn next_id() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let next = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |id| id.checked_add(1));
    next.expect("fewer than 2^32 UMEMs in the life of a process")
}
