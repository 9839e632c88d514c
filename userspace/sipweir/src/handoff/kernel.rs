//! Hand-off to an unmodified server through the host's IP stack.
//!
//! ```text
//!   worker ──TX ring──▶ swt<N> ═veth═ swr<N> ──▶ IP stack ──▶ the server's UDP socket
//!   worker ◀── sock_diag: bytes in that socket's receive queue
//! ```
//!
//! The packet keeps its source and destination, so the server and its access lists see the real peer, and
//! its replies leave by the host's routes as always. [`Egress`] is one per worker, [`Server`] one per lane.

use afxdp::{EgressPort, Errno, Frame, Kick, QueuePort};
use overload::ReceiveQueue;

use crate::sock_diag::Watch;

/// The worker's end of the hand-off device.
#[derive(Debug)]
pub struct Egress {
    port: EgressPort,
    /// MAC of the receiving end: without it the stack would take the packet for somebody else's.
    pub destination_mac: [u8; 6],
    /// MAC of the transmitting end.
    pub source_mac: [u8; 6],
    queued: bool,
    ring_size: u32,
    in_flight: u32,
}

impl Egress {
    /// Wraps an open port with a TX ring of `ring_size`; the MACs are those of the device's two ends.
    #[must_use]
    pub fn new(port: EgressPort, ring_size: u32, destination_mac: [u8; 6], source_mac: [u8; 6]) -> Self {
        Self { port, destination_mac, source_mac, queued: false, ring_size, in_flight: 0 }
    }

    /// Packets that were queued and have not reached the IP stack yet: on a veth pair the kernel completes a
    /// packet when the receiving end's stack takes it over (`skb_orphan` in `ip_rcv_core`, net/ipv4/ip_input.c),
    /// which may be long after the send if that core's softirqs are behind.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Packets that can be queued now.
    #[must_use]
    pub fn room(&self) -> u32 {
        self.ring_size - self.in_flight
    }

    /// Queues a packet; the frame comes back when the TX ring is full.
    ///
    /// # Errors
    ///
    /// The frame itself, when there is no room.
    pub fn transmit(&mut self, port: &mut QueuePort, frame: Frame) -> Result<(), Frame> {
        self.port.transmit(port, frame)?;
        self.queued = true;
        self.in_flight += 1;
        Ok(())
    }

    /// Tells the kernel to send what is queued; true when some is left for the next turn.
    pub fn flush(&mut self) -> bool {
        if self.queued {
            self.queued = match kick_all(|| self.port.kick()) {
                Ok(left) => left,
                // The device is down or gone. Its packets stay where they are and are no reason to stay awake;
                // supervision, which watches the device, ends the run with the reason.
                Err(_) => return false,
            };
        }
        self.queued
    }

    /// Takes back frames that were sent.
    pub fn reap(&mut self, port: &mut QueuePort) -> u32 {
        let reaped = self.port.reap(port);
        self.in_flight -= reaped;
        reaped
    }

    /// Closes the port; frames still in its rings go back to `port`.
    pub fn close(self, port: &mut QueuePort) -> u32 {
        self.port.close(port)
    }
}

/// Kicks until the kernel has taken everything, but not for ever: in copy mode a call sends 32 packets, and a
/// turn may queue a few hundred. True when some are left.
pub(crate) fn kick_all(mut kick: impl FnMut() -> Result<Kick, Errno>) -> Result<bool, Errno> {
    const KICKS_MAX: usize = 16;
    for _ in 0..KICKS_MAX {
        if matches!(kick()?, Kick::Nothing | Kick::Done) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads the receive queue of a service's sockets. The live one is [`crate::sock_diag::Watch`]; tests bring
/// their own.
pub trait ServerQueue: Send {
    /// What waits in the server's sockets now. May be asked thousands of times a second.
    fn receive_queue(&mut self, now_ns: u64) -> ReceiveQueue;
}

/// The server behind one lane.
pub struct Server(Box<dyn ServerQueue>);

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Server")
    }
}

impl Server {
    /// A server whose receive queue is read by `queue`.
    #[must_use]
    pub fn new(queue: Box<dyn ServerQueue>) -> Self {
        Self(queue)
    }

    pub(super) fn receive_queue(&mut self, now_ns: u64) -> ReceiveQueue {
        self.0.receive_queue(now_ns)
    }
}

/// Looks that may fail in a row. The picture is then too old: the server may have no room at all.
const FAILURES_MAX: u32 = 64;

/// The sockets of a service on this host, one watch for each of its ports.
#[derive(Debug)]
pub(crate) struct Watches {
    watches: Vec<Watch>,
    last: ReceiveQueue,
    failures: u32,
}

impl Watches {
    pub(crate) fn new(watches: Vec<Watch>) -> Self {
        Self { watches, last: ReceiveQueue::default(), failures: 0 }
    }
}

impl ServerQueue for Watches {
    fn receive_queue(&mut self, now_ns: u64) -> ReceiveQueue {
        let mut sum = ReceiveQueue::default();
        for watch in &mut self.watches {
            // A look that failed (a netlink buffer that overflowed, say) is no news: the last picture stands.
            let seen = match watch.receive_queue(now_ns) {
                Ok(seen) => seen,
                Err(error) => {
                    self.failures += 1;
                    if self.failures.is_power_of_two() {
                        tracing::warn!(%error, failures = self.failures, "cannot see the server's receive queue");
                    }
                    // With no news for long the last picture is worth nothing; a full queue is the safe guess.
                    let blind = self.failures >= FAILURES_MAX;
                    return if blind {
                        ReceiveQueue { bytes: u64::MAX >> 16, ..self.last }
                    } else {
                        self.last
                    };
                }
            };
            sum.sockets += seen.sockets;
            sum.bytes += seen.bytes;
            sum.limit_bytes += seen.limit_bytes;
            sum.drops += seen.drops;
        }
        self.failures = 0;
        self.last = sum;
        sum
    }
}
