//! One NIC queue: its frames, four RX rings in order of priority, a fill ring for all of them, and a TX ring
//! for replies.

use std::time::Duration;

use arrayvec::ArrayVec;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;

use crate::RINGS;
use crate::config::{CopyMode, PortConfig};
use crate::error::Error;
use crate::frame::{Batch, Frame};
use crate::link::Link;
use crate::ring::{Consumer, Descriptor, Producer};
use crate::socket::{self, SocketStatistics, Target};
use crate::tx::{Kick, TxLane};
use crate::umem::{Place, Umem};

/// Descriptors that [`QueuePort::wait`] can watch besides its own.
const WAIT_OTHERS_MAX: usize = 4;

/// What was obtained, which can be less than what was asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mode {
    /// Copy or zero-copy.
    pub copy_mode: CopyMode,
    /// Whether the kernel says when it needs waking.
    pub need_wakeup: bool,
    /// Whether the frames lie in huge pages.
    pub huge_pages: bool,
}

/// Whether busy polling does anything.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BusyPoll {
    /// Not asked for.
    Off,
    /// Asked for, and refused by the kernel (an old one, or a budget above 64 without CAP_NET_ADMIN).
    Refused,
    /// Accepted without effect: the socket knows no NAPI instance. On veth it stays so; on a NIC in copy mode
    /// it changes with the first packet received.
    Inactive,
    /// Polling drives this NAPI instance.
    Active {
        /// Its number.
        napi_id: u32,
    },
}

#[derive(Debug)]
pub(crate) struct RxRing {
    pub(crate) ring: Consumer<Descriptor>,
    pub(crate) link: Link,
}

/// One NIC queue, used by one thread. It can be opened on one thread and moved to another.
///
/// Dropping it closes the sockets; the kernel frees the queue some time later, which is why
/// [`QueuePort::open`] retries.
#[derive(Debug)]
pub struct QueuePort {
    // INVARIANT: fields drop in this order; the memory goes last.
    rx: [RxRing; RINGS],
    tx: TxLane,
    fill: Producer<u64>,
    umem: Umem,
    mode: Mode,
    /// Whether busy polling was asked for, and if so whether the kernel took it.
    busy_poll_accepted: Option<bool>,
}

impl QueuePort {
    /// Opens the four sockets of a queue and fills its fill ring. Bind after the XDP program is attached:
    /// some drivers rebuild their queues on attach.
    ///
    /// The device must be in the network namespace of the calling thread. Needs CAP_NET_RAW.
    ///
    /// # Errors
    ///
    /// Everything that [`Error`] lists, by what must be changed.
    pub fn open(ifindex: u32, queue: u32, config: &PortConfig) -> Result<(Self, Mode), Error> {
        config.check()?;
        let target = Target { ifindex, queue };
        let umem = Umem::new(&config.umem)?;

        let first = socket::open()?;
        socket::register(first.as_fd(), &umem, target)?;
        let (fill, completion) =
            socket::fill_and_completion(first.as_fd(), config.fill_ring_size, config.tx_ring_size, target)?;
        let control = socket::rx_ring(first.as_fd(), config.rx_ring_sizes[0], target)?;
        let tx_ring = socket::tx_ring(first.as_fd(), config.tx_ring_size, target)?;
        socket::widen_send_buffer(first.as_fd(), config.tx_ring_size, config.umem.frame_size);
        let busy_poll_accepted = config.busy_poll.map(|busy| socket::prefer_busy_poll(first.as_fd(), busy));
        let busy_retry = Duration::from_nanos(config.busy_retry_ns);
        socket::bind_first(first.as_fd(), target, config.copy_mode, config.need_wakeup, busy_retry)?;
        let copy_mode = socket::copy_mode(first.as_fd(), target)?;

        let further = |ring: usize| -> Result<RxRing, Error> {
            let fd = socket::open()?;
            let rx_ring = socket::rx_ring(fd.as_fd(), config.rx_ring_sizes[ring], target)?;
            if let Some(busy) = config.busy_poll {
                socket::prefer_busy_poll(fd.as_fd(), busy);
            }
            socket::bind_shared(fd.as_fd(), target, first.as_fd(), busy_retry)?;
            Ok(RxRing { ring: rx_ring, link: Link::Socket(fd) })
        };
        let (second, third, fourth) = (further(1)?, further(2)?, further(3)?);

        let mode = Mode { copy_mode, need_wakeup: config.need_wakeup, huge_pages: umem.huge_pages() };
        let tx = TxLane::new(tx_ring, completion, Place::TX_NIC, copy_mode, config.need_wakeup);
        let rx = [RxRing { ring: control, link: Link::Socket(first) }, second, third, fourth];
        Ok((Self::assemble(rx, tx, fill, umem, mode, busy_poll_accepted), mode))
    }

    /// Puts the parts together and fills the fill ring; the parts come from the kernel or from `testing`.
    pub(crate) fn assemble(
        rx: [RxRing; RINGS],
        tx: TxLane,
        fill: Producer<u64>,
        umem: Umem,
        mode: Mode,
        busy_poll_accepted: Option<bool>,
    ) -> Self {
        let mut port = Self { rx, tx, fill, umem, mode, busy_poll_accepted };
        port.refill();
        port
    }

    /// The frames' bytes and counters.
    #[must_use]
    pub fn umem(&self) -> &Umem {
        &self.umem
    }

    pub(crate) fn umem_mut(&mut self) -> &mut Umem {
        &mut self.umem
    }

    /// A free frame to write a packet into, if there is one.
    pub fn take(&mut self) -> Option<Frame> {
        self.umem.take()
    }

    /// Puts a frame on the free list.
    ///
    /// # Panics
    ///
    /// If the frame is another port's.
    pub fn give_back(&mut self, frame: Frame) {
        self.umem.give_back(frame);
    }

    /// Puts all frames of a batch on the free list.
    pub fn give_back_all(&mut self, batch: &mut Batch) {
        for frame in batch.drain(..) {
            self.umem.give_back(frame);
        }
    }

    /// Moves free frames into the fill ring until it is full or none is left, and wakes the driver if it ran
    /// dry. To be called before work is done, not after: the NIC then has frames while the worker is busy.
    /// Returns how many.
    pub fn refill(&mut self) -> u32 {
        let wanted = self.umem.free_len();
        let count = wanted.min(self.fill.room(wanted));
        for _ in 0..count {
            let Some(address) = self.umem.lend() else { break };
            let pushed = self.fill.push(address);
            debug_assert!(pushed, "there was room");
        }
        if count > 0 {
            self.fill.publish();
        }
        if self.mode.copy_mode == CopyMode::ZeroCopy && self.mode.need_wakeup && self.fill.needs_wakeup() {
            // A device that is down is noticed by `probe`; refilling goes on when it is up again.
            let _ = self.rx[0].link.wake_rx();
        }
        count
    }

    /// Appends what lies in an RX ring to the batch, up to the room that the batch has. Returns how many. Their bytes
    /// are on their way to this core's cache then.
    ///
    /// # Panics
    ///
    /// If `ring` is not below [`RINGS`].
    pub fn receive(&mut self, ring: usize, batch: &mut Batch) -> usize {
        let rx = &mut self.rx[ring].ring;
        let before = batch.len();
        let count = rx.available(batch.remaining_capacity() as u32).min(batch.remaining_capacity() as u32);
        for _ in 0..count {
            let Some(descriptor) = rx.pop() else { break };
            if let Some(frame) = self.umem.accept(descriptor.address, descriptor.len) {
                self.umem.prefetch(&frame);
                batch.push(frame);
            }
        }
        if count > 0 {
            rx.release();
        }
        batch.len() - before
    }

    /// Packets that lie in an RX ring.
    ///
    /// # Panics
    ///
    /// If `ring` is not below [`RINGS`].
    pub fn waiting(&mut self, ring: usize) -> u32 {
        self.rx[ring].ring.available(u32::MAX)
    }

    /// Queues a packet for the NIC; the kernel sees it at the next [`QueuePort::kick`].
    ///
    /// # Errors
    ///
    /// Returns the frame if the TX ring is full (reap and kick first) or the packet is empty.
    ///
    /// # Panics
    ///
    /// If the frame is another port's.
    pub fn transmit(&mut self, frame: Frame) -> Result<(), Frame> {
        self.tx.transmit(&mut self.umem, frame)
    }

    /// Frames that [`transmit`](Self::transmit) takes now; more after the next [`reap`](Self::reap).
    #[must_use]
    pub fn tx_room(&self) -> u32 {
        self.tx.room()
    }

    /// Has the kernel send what was queued.
    ///
    /// # Errors
    ///
    /// `ENETDOWN` if the device is down, `ENXIO` if it is gone. The frames stay in the TX ring.
    pub fn kick(&mut self) -> Result<Kick, Errno> {
        self.tx.kick(&self.rx[0].link)
    }

    /// Takes sent frames back to the free list. Returns how many.
    pub fn reap(&mut self) -> u32 {
        self.tx.reap(&mut self.umem)
    }

    /// The socket of an RX ring, for its XSKMAP slot and for polling.
    ///
    /// # Panics
    ///
    /// If `ring` is not below [`RINGS`].
    #[must_use]
    pub fn rx_fd(&self, ring: usize) -> BorrowedFd<'_> {
        self.rx[ring].link.fd()
    }

    /// Sleeps until a packet has arrived in any ring, one of `others` is readable, or the time is over.
    /// `true` if something is there; `false` also after a signal.
    ///
    /// # Errors
    ///
    /// What `poll` says, which for valid descriptors is nothing but a lack of memory.
    ///
    /// # Panics
    ///
    /// If there are more than four `others`.
    pub fn wait(&self, others: &[BorrowedFd<'_>], timeout_ns: Option<u64>) -> Result<bool, Errno> {
        let mut fds: ArrayVec<PollFd<'_>, { RINGS + WAIT_OTHERS_MAX }> = ArrayVec::new();
        for fd in self.rx.iter().map(|rx| rx.link.fd()).chain(others.iter().copied()) {
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        // The quotient of a u64 by 10^9 fits into i64 and the remainder into any integer of 32 bits.
        let timeout = timeout_ns.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000).cast_signed(),
            tv_nsec: (ns % 1_000_000_000).cast_signed(),
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) | Err(Errno::INTR) => Ok(false),
            Ok(_) => {
                self.rx[0].link.quiet();
                Ok(true)
            }
            Err(errno) => Err(errno),
        }
    }

    /// Asks whether the device is still there; `poll` doesn't say when it is gone. One system call.
    ///
    /// # Errors
    ///
    /// `ENETDOWN` if the device is down, `ENXIO` if it is gone: then only a new port helps.
    pub fn probe(&self) -> Result<(), Errno> {
        self.rx[0].link.wake_rx()
    }

    /// The kernel's counters for the socket of an RX ring; ring 0's also has those of the TX ring.
    ///
    /// # Errors
    ///
    /// What the kernel says, which for a bound socket is nothing.
    ///
    /// # Panics
    ///
    /// If `ring` is not below [`RINGS`].
    pub fn statistics(&self, ring: usize) -> Result<SocketStatistics, Errno> {
        self.rx[ring].link.statistics()
    }

    /// Whether busy polling does anything now.
    #[must_use]
    pub fn busy_poll(&self) -> BusyPoll {
        match (self.busy_poll_accepted, &self.rx[0].link) {
            (None, _) => BusyPoll::Off,
            (Some(false), _) => BusyPoll::Refused,
            (Some(true), Link::Paired(..)) => BusyPoll::Inactive,
            (Some(true), Link::Socket(fd)) => match socket::napi_id(fd.as_fd()) {
                Ok(napi_id) if napi_id > 0 => BusyPoll::Active { napi_id },
                _ => BusyPoll::Inactive,
            },
        }
    }

    /// The mode obtained.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }
}
