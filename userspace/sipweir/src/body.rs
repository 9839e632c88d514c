//! Where the bytes of a message lie: in a frame, or in a large buffer if they are too many for one.
//!
//! Large buffers are made at start and circulate like frames: taken from the pool, held by one message, given back. A
//! [`Large`] cannot be copied either. Not here: where the bytes come from (`side_door`) and where they go (`handoff`).

use std::ops::Range;

use afxdp::{Frame, Umem};
use bytes::BytesMut;

/// Bytes of a large buffer: the longest datagram that UDP can carry, and the headers in front of it.
pub const LARGE_LEN: usize = sip::REBUILT_HEADERS_MAX + u16::MAX as usize;

/// One packet in a buffer of its own. Behind a pointer, so that what waits in frames has no room for it.
#[derive(Debug)]
pub struct Large(Box<Buffer>);

#[derive(Debug)]
struct Buffer {
    bytes: BytesMut,
    len: usize,
}

impl Large {
    /// The packet.
    #[must_use]
    pub fn packet(&self) -> &[u8] {
        &self.0.bytes[..self.0.len]
    }

    /// The packet, to be changed in place.
    #[must_use]
    pub fn packet_mut(&mut self) -> &mut [u8] {
        let Buffer { bytes, len } = &mut *self.0;
        &mut bytes[..*len]
    }

    /// All [`LARGE_LEN`] bytes, to write a packet into.
    #[must_use]
    pub fn buffer_mut(&mut self) -> &mut [u8] {
        &mut self.0.bytes
    }

    /// Says how long the packet is that was written; no more than the buffer.
    pub fn set_len(&mut self, len: usize) {
        self.0.len = len.min(self.0.bytes.len());
    }
}

/// The large buffers of a worker.
#[derive(Debug)]
pub struct LargePool {
    free: Vec<Large>,
    total: usize,
}

impl LargePool {
    /// A pool of `total` buffers, cut from one allocation: the C library has a mapping made for one so large, whose
    /// pages take no memory until they are written to. Buffers allocated one by one would come from its heap, where it
    /// writes zeros over most of them.
    #[must_use]
    pub fn new(total: usize) -> Self {
        let mut all = BytesMut::zeroed(total * LARGE_LEN);
        let buffer = |_| Large(Box::new(Buffer { bytes: all.split_to(LARGE_LEN), len: 0 }));
        let free = (0..total).map(buffer).collect();
        Self { free, total }
    }

    /// A buffer, if one is left. The one used last, still in the cache, is next.
    pub fn take(&mut self) -> Option<Large> {
        self.free.pop()
    }

    /// Takes a buffer back.
    pub fn give_back(&mut self, large: Large) {
        debug_assert!(self.free.len() < self.total, "buffers only circulate");
        self.free.push(large);
    }

    /// Buffers left.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Buffers that are held by messages.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.total - self.free.len()
    }
}

/// The bytes of a message.
#[derive(Debug)]
pub enum Body {
    /// In a frame of the worker's UMEM.
    Frame(Frame),
    /// In a large buffer of the worker's pool.
    Large(Large),
}

impl Body {
    /// The packet.
    #[must_use]
    pub fn packet<'a>(&'a self, umem: &'a Umem) -> &'a [u8] {
        match self {
            Self::Frame(frame) => umem.packet(frame),
            Self::Large(large) => large.packet(),
        }
    }

    /// The packet, to be changed in place.
    #[must_use]
    pub fn packet_mut<'a>(&'a mut self, umem: &'a Umem) -> &'a mut [u8] {
        match self {
            Self::Frame(frame) => umem.packet_mut(frame),
            Self::Large(large) => large.packet_mut(),
        }
    }
}

/// A packet within a buffer: what `prepare_handoff` leaves of it.
pub(crate) fn part_of(large: &Large, range: Range<usize>) -> &[u8] {
    large.packet().get(range).unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_circulate_and_the_pool_says_how_many_are_out() {
        let mut pool = LargePool::new(2);
        let (mut first, second) = (pool.take().expect("two"), pool.take().expect("one more"));
        assert!(pool.take().is_none());
        assert_eq!((pool.free(), pool.outstanding()), (0, 2));
        first.buffer_mut()[..3].copy_from_slice(b"abc");
        first.set_len(3);
        assert_eq!(
            (first.packet(), part_of(&first, 1..3), part_of(&first, 2..9)),
            (&b"abc"[..], &b"bc"[..], &b""[..])
        );
        pool.give_back(first);
        pool.give_back(second);
        assert_eq!((pool.free(), pool.outstanding()), (2, 0));
    }

    #[test]
    fn the_longest_datagram_of_either_family_fits() {
        let mut large = LargePool::new(1).take().expect("one");
        assert_eq!(large.buffer_mut().len(), 14 + 40 + 8 + 65_535);
        large.set_len(usize::MAX);
        assert_eq!(large.packet().len(), LARGE_LEN);
    }
}
