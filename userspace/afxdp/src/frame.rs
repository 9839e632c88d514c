//! The token of ownership of one frame.
//!
//! What can be done with a frame's bytes is in `umem`; here is only what a frame *is*.

use arrayvec::ArrayVec;

/// Frames that are moved at a time. Source: the kernel's NAPI budget, the most a queue delivers per softirq
/// round. Smaller: the cost of ring indices is shared by fewer frames. Larger: control messages wait longer
/// behind a batch.
pub const BATCH: usize = 64;

/// Frames on their way through one turn of a worker. Lives on the stack or in the worker; never allocates.
pub type Batch = ArrayVec<Frame, BATCH>;

/// One frame in the user's hands: whoever has this value owns the bytes of the frame.
///
/// It can be neither cloned nor made outside this crate, so two of the same frame never exist. It must be
/// given back ([`QueuePort::give_back`](crate::QueuePort::give_back)) or transmitted; a frame that is simply
/// dropped is lost to its UMEM, which shows in [`Umem::outstanding`](crate::Umem::outstanding).
///
/// ```compile_fail
/// fn twice(frame: afxdp::Frame) -> (afxdp::Frame, afxdp::Frame) {
///     (frame.clone(), frame)
/// }
/// ```
#[derive(Debug)]
#[must_use = "a frame that is dropped is lost to its UMEM: give it back or transmit it"]
pub struct Frame {
    /// Number of the frame in its UMEM.
    pub(crate) index: u32,
    /// The UMEM it belongs to; compared on every use, so that a frame never reaches into another UMEM.
    pub(crate) umem: u32,
    /// First byte of the packet, counted from the start of the frame. INVARIANT: `METADATA_LEN <= offset` and
    /// `offset + len <= frame_size`.
    pub(crate) offset: u16,
    /// Bytes of the packet.
    pub(crate) len: u16,
}

const _: () = assert!(size_of::<Frame>() == 12, "a batch of frames fits into a dozen cache lines");

impl Frame {
    /// Bytes of the packet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.into()
    }

    /// Whether there is no packet in the frame (yet).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of the frame in its UMEM, for logs and tests.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }
}
