//! Sending: a TX ring and its completion ring, alike for the NIC and for a hand-off device.

use std::sync::atomic::{Ordering, fence};

use rustix::io::Errno;

use crate::config::CopyMode;
use crate::frame::Frame;
use crate::link::Link;
use crate::ring::{Consumer, Descriptor, Producer};
use crate::umem::{Place, Umem};

/// What a kick has achieved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kick {
    /// The TX ring is empty; no system call was made.
    Nothing,
    /// The kernel has taken everything, or will without being asked again.
    Done,
    /// The kernel took a part (in copy mode 32 packets a call), or had no room just now. Kick again, at the
    /// latest after reaping completions. Not an error.
    Again,
}

#[derive(Debug)]
pub(crate) struct TxLane {
    ring: Producer<Descriptor>,
    completion: Consumer<u64>,
    /// Entries of the TX ring, and of the completion ring.
    size: u32,
    /// Frames in here, sent ones that are not reaped yet included. INVARIANT: `in_flight <= size`, so that
    /// completions always have room, and a frame budget that counts the TX ring counts them all.
    in_flight: u32,
    /// Where frames are while they are in here.
    place: Place,
    copy_mode: CopyMode,
    need_wakeup: bool,
}

impl TxLane {
    pub(crate) fn new(
        ring: Producer<Descriptor>,
        completion: Consumer<u64>,
        place: Place,
        copy_mode: CopyMode,
        need_wakeup: bool,
    ) -> Self {
        let size = ring.size().min(completion.size());
        Self { ring, completion, size, in_flight: 0, place, copy_mode, need_wakeup }
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Queues a frame, or returns it. An empty packet is returned too: the kernel takes it for an invalid
    /// descriptor and its frame would never come back.
    pub(crate) fn transmit(&mut self, umem: &mut Umem, frame: Frame) -> Result<(), Frame> {
        if frame.is_empty() || self.in_flight >= self.size || self.ring.room(1) == 0 {
            return Err(frame);
        }
        self.in_flight += 1;
        let (address, len) = umem.send(frame, self.place);
        let pushed = self.ring.push(Descriptor { address, len, options: 0 });
        debug_assert!(pushed, "there was room");
        Ok(())
    }

    /// Frames that can be queued now.
    pub(crate) fn room(&self) -> u32 {
        self.size - self.in_flight
    }

    /// Shows queued frames to the kernel and wakes it if it needs that.
    pub(crate) fn kick(&mut self, link: &Link) -> Result<Kick, Errno> {
        self.ring.publish();
        if self.ring.pending() == 0 {
            return Ok(Kick::Nothing);
        }
        if self.need_wakeup {
            // The driver first announces that it needs waking and then looks at the ring once more. Without
            // the fence our look at the flag could come before our index is visible, and both would miss each
            // other.
            fence(Ordering::SeqCst);
            if !self.ring.needs_wakeup() {
                return Ok(Kick::Done);
            }
        }
        match link.wake_tx() {
            // In copy mode the call itself sends; what is left has to be asked for again.
            Ok(()) if self.left_over(link) => Ok(Kick::Again),
            Ok(()) => Ok(Kick::Done),
            Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS) => Ok(Kick::Again),
            Err(errno) => Err(errno),
        }
    }

    fn left_over(&mut self, link: &Link) -> bool {
        matches!(link, Link::Socket(_)) && self.copy_mode == CopyMode::Copy && self.ring.pending() > 0
    }

    /// Takes sent frames back to the free list.
    pub(crate) fn reap(&mut self, umem: &mut Umem) -> u32 {
        let mut reaped = 0;
        // Bounded by what is being sent: nothing new is transmitted meanwhile.
        for _ in 0..self.completion.available(1) {
            let Some(address) = self.completion.pop() else { break };
            reaped += u32::from(umem.complete(address, self.place));
        }
        self.completion.release();
        self.in_flight -= reaped;
        reaped
    }
}
