//! The device that packets are handed to: it sends from the frames of a NIC queue and receives nothing.

use std::time::Duration;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;

use crate::config::EgressConfig;
use crate::error::Error;
use crate::frame::Frame;
use crate::link::Link;
use crate::port::QueuePort;
use crate::socket::{self, SocketStatistics, Target};
use crate::tx::{Kick, TxLane};
use crate::umem::Place;

/// A queue of a second device. All frames belong to the [`QueuePort`] that it was opened with and go back
/// there; with another port, methods panic.
///
/// Dropping it without [`EgressPort::close`] is safe, but frames in its rings then stay away from the free
/// list until the `QueuePort` is dropped too.
#[derive(Debug)]
pub struct EgressPort {
    tx: TxLane,
    link: Link,
    /// The UMEM that all frames belong to.
    umem: u32,
    slot: u8,
}

impl EgressPort {
    /// Opens a socket on the device that shares the frames of `port`. The device must be in the network
    /// namespace of the calling thread, and in copy mode unless `port` is in zero-copy mode: the kernel wants
    /// both alike.
    ///
    /// # Errors
    ///
    /// Everything that [`Error`] lists, by what must be changed.
    pub fn open(
        port: &mut QueuePort,
        ifindex: u32,
        queue: u32,
        config: &EgressConfig,
    ) -> Result<Self, Error> {
        config.check()?;
        let target = Target { ifindex, queue };
        let fd = socket::open()?;
        let completion = socket::completion_only(fd.as_fd(), config.tx_ring_size, target)?;
        let ring = socket::tx_ring(fd.as_fd(), config.tx_ring_size, target)?;
        socket::widen_send_buffer(fd.as_fd(), config.tx_ring_size, port.umem().config().frame_size);
        let busy_retry = Duration::from_nanos(config.busy_retry_ns);
        socket::bind_shared(fd.as_fd(), target, port.rx_fd(0), busy_retry)?;
        let copy_mode = socket::copy_mode(fd.as_fd(), target)?;
        let need_wakeup = port.mode().need_wakeup;
        Self::assemble(port, Link::Socket(fd), |place| {
            TxLane::new(ring, completion, place, copy_mode, need_wakeup)
        })
    }

    /// Puts the parts together; they come from the kernel or from `testing`.
    pub(crate) fn assemble(
        port: &mut QueuePort,
        link: Link,
        lane: impl FnOnce(Place) -> TxLane,
    ) -> Result<Self, Error> {
        let slot = port.umem_mut().claim_egress().ok_or(Error::TooManyEgressPorts)?;
        Ok(Self { tx: lane(Place::tx_egress(slot)), link, umem: port.umem().id(), slot })
    }

    /// Queues a packet; the kernel sees it at the next [`EgressPort::kick`].
    ///
    /// # Errors
    ///
    /// Returns the frame if the TX ring is full (reap and kick first) or the packet is empty.
    ///
    /// # Panics
    ///
    /// If the frame or this port isn't `port`'s.
    pub fn transmit(&mut self, port: &mut QueuePort, frame: Frame) -> Result<(), Frame> {
        self.check(port);
        self.tx.transmit(port.umem_mut(), frame)
    }

    /// Has the kernel send what was queued.
    ///
    /// # Errors
    ///
    /// `ENETDOWN` if the device is down, `ENXIO` if it is gone. The frames stay in the TX ring;
    /// [`EgressPort::close`] gets them back.
    pub fn kick(&mut self) -> Result<Kick, Errno> {
        self.tx.kick(&self.link)
    }

    /// Takes sent frames back to the free list of `port`. Returns how many.
    ///
    /// # Panics
    ///
    /// If this port isn't `port`'s.
    pub fn reap(&mut self, port: &mut QueuePort) -> u32 {
        self.check(port);
        self.tx.reap(port.umem_mut())
    }

    /// Closes the socket and takes back every frame that was in its rings, sent or not. For a hand-off device
    /// that went away. Returns how many.
    ///
    /// # Panics
    ///
    /// If this port isn't `port`'s.
    pub fn close(self, port: &mut QueuePort) -> u32 {
        self.check(port);
        let Self { tx, link, slot, .. } = self;
        let place = tx.place();
        // The socket first: after that the kernel takes nothing more from the TX ring.
        link.close();
        drop(tx);
        let reclaimed = port.umem_mut().reclaim(place);
        port.umem_mut().release_egress(slot);
        reclaimed
    }

    /// The kernel's counters for the socket.
    ///
    /// # Errors
    ///
    /// What the kernel says, which for a bound socket is nothing.
    pub fn statistics(&self) -> Result<SocketStatistics, Errno> {
        self.link.statistics()
    }

    /// The socket, for polling.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.link.fd()
    }

    fn check(&self, port: &QueuePort) {
        assert!(self.umem == port.umem().id(), "the egress port was opened with another queue port");
    }
}
