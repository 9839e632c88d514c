//! What a port has instead of a wire: a socket, or in tests the other end of the same memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::RINGS;
use crate::socket::{self, SocketStatistics};

#[derive(Debug)]
pub(crate) enum Link {
    /// An AF_XDP socket, bound.
    Socket(OwnedFd),
    /// `testing`: no kernel. Says which ring's counters are meant.
    Paired(Arc<Pairing>, usize),
}

/// What both ends of a paired port share besides the rings.
#[derive(Debug)]
pub(crate) struct Pairing {
    /// An eventfd that becomes readable when a packet is delivered.
    pub(crate) event: OwnedFd,
    pub(crate) rings: [RingCounters; RINGS],
    /// Like the kernel's, one number for the whole queue.
    pub(crate) fill_empty: AtomicU64,
    /// Set when the port is closed: its frames have gone elsewhere, so the wire must leave them alone. The
    /// wire holds the lock while it reads frames.
    pub(crate) closed: Mutex<bool>,
}

/// What the kernel counts for each socket.
#[derive(Debug, Default)]
pub(crate) struct RingCounters {
    pub(crate) dropped: AtomicU64,
    pub(crate) ring_full: AtomicU64,
}

impl Link {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Socket(fd) => fd.as_fd(),
            Self::Paired(pairing, _) => pairing.event.as_fd(),
        }
    }

    /// Has the kernel look at the TX ring.
    pub(crate) fn wake_tx(&self) -> Result<(), Errno> {
        match self {
            Self::Socket(fd) => send(fd, &[], SendFlags::DONTWAIT).map(drop),
            Self::Paired(..) => Ok(()),
        }
    }

    /// Has the kernel look at the fill ring. Nothing is received this way.
    pub(crate) fn wake_rx(&self) -> Result<(), Errno> {
        match self {
            Self::Socket(fd) => recv(fd, &mut [0_u8; 1], RecvFlags::DONTWAIT).map(drop),
            Self::Paired(..) => Ok(()),
        }
    }

    /// Forgets that packets were announced, once a wait has returned for them.
    pub(crate) fn quiet(&self) {
        if let Self::Paired(pairing, _) = self {
            // Not readable means nothing was announced, which is as well.
            let _ = rustix::io::read(&pairing.event, &mut [0; 8]);
        }
    }

    /// Ends all use of the port's frames by the other end, once this returns.
    pub(crate) fn close(self) {
        match self {
            Self::Socket(fd) => drop(fd),
            Self::Paired(pairing, _) => *pairing.closed.lock().unwrap_or_else(PoisonError::into_inner) = true,
        }
    }

    pub(crate) fn statistics(&self) -> Result<SocketStatistics, Errno> {
        match self {
            Self::Socket(fd) => socket::statistics(fd.as_fd()),
            Self::Paired(pairing, ring) => Ok(SocketStatistics {
                rx_dropped: pairing.rings[*ring].dropped.load(Ordering::Relaxed),
                rx_ring_full: pairing.rings[*ring].ring_full.load(Ordering::Relaxed),
                rx_fill_ring_empty_descs: pairing.fill_empty.load(Ordering::Relaxed),
                ..SocketStatistics::default()
            }),
        }
    }
}
