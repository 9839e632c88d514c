//! Hand-off to an unmodified server through the host's IP stack.
//!
//! ```text
//!   worker ──TX ring──▶ swt<N> ═veth═ swr<N> ──▶ IP stack ──▶ the server's UDP socket
//!          ──packet socket──▶ (what is larger than a frame)
//!   worker ◀── sock_diag: bytes in that socket's receive queue
//! ```
//!
//! The packet keeps its source and destination, so the server and its access lists see the real peer, and
//! its replies leave by the host's routes as always. [`Egress`] is one per worker, [`Server`] one per lane.

use std::ops::Range;
use std::os::fd::{AsRawFd as _, OwnedFd};

use afxdp::{EgressPort, Errno, Frame, Kick, QueuePort};
use overload::ReceiveQueue;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socket_with};

use crate::body::{Body, Large, part_of};
use crate::counters::Outcome;
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
    /// For packets larger than a frame.
    packet_socket: Option<OwnedFd>,
}

impl Egress {
    /// Wraps an open port with a TX ring of `ring_size`; the MACs are those of the device's two ends.
    #[must_use]
    pub fn new(port: EgressPort, ring_size: u32, destination_mac: [u8; 6], source_mac: [u8; 6]) -> Self {
        Self {
            port,
            destination_mac,
            source_mac,
            queued: false,
            ring_size,
            in_flight: 0,
            packet_socket: None,
        }
    }

    /// Lets this worker hand over packets that are larger than a frame as well.
    #[must_use]
    pub fn with_packet_socket(self, socket: OwnedFd) -> Self {
        Self { packet_socket: Some(socket), ..self }
    }

    /// Hands over the packet that lies in `range` of a body.
    ///
    /// # Errors
    ///
    /// The body itself, and why it stays.
    pub(crate) fn send(
        &mut self,
        port: &mut QueuePort,
        body: Body,
        range: Range<usize>,
    ) -> Result<Option<Large>, (Body, Outcome)> {
        match body {
            Body::Frame(mut frame) => {
                port.umem().set_range(&mut frame, range);
                match self.transmit(port, frame) {
                    Ok(()) => Ok(None),
                    Err(frame) => Err((Body::Frame(frame), Outcome::NoRoom)),
                }
            }
            Body::Large(large) => match self.send_large(part_of(&large, range)) {
                Ok(()) => Ok(Some(large)),
                // The datagram is one of the longest of IPv6, and longer than the device's MTU.
                Err(Errno::MSGSIZE) => Err((Body::Large(large), Outcome::Unfit)),
                Err(_) => Err((Body::Large(large), Outcome::NoRoom)),
            },
        }
    }

    /// Sends at once, behind everything that was queued: both ways end in the receive queue of this CPU.
    fn send_large(&mut self, packet: &[u8]) -> Result<(), Errno> {
        self.flush();
        let socket = self.packet_socket.as_ref().ok_or(Errno::NOBUFS)?;
        send(socket, packet, SendFlags::DONTWAIT).map(|_all| ())
    }

    /// What the kernel counts for the device's socket, if it answers.
    #[must_use]
    pub fn statistics(&self) -> Option<afxdp::SocketStatistics> {
        self.port.statistics().ok()
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

/// Room for packets in a packet socket, bytes: what a turn can hand over before the softirq has taken them in. Too small:
/// the second large message of a turn is lost.
const PACKET_SOCKET_BYTES: usize = 8 << 20;

/// A packet socket that sends by the device of that name, in the network namespace of the calling thread, and receives
/// nothing. Needs CAP_NET_RAW.
///
/// # Errors
///
/// What the kernel says; `NODEV` if there is no such device.
pub fn packet_socket(device: &str) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Protocol 0: it is never given a packet.
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    if rustix::net::sockopt::set_socket_send_buffer_size_force(&socket, PACKET_SOCKET_BYTES).is_err() {
        rustix::net::sockopt::set_socket_send_buffer_size(&socket, PACKET_SOCKET_BYTES)?;
    }
    let of_nix = |errno: nix::errno::Errno| Errno::from_raw_os_error(errno as i32);
    // The address of a device's link layer cannot be written down without unsafe code, but the system has it.
    let address = nix::ifaddrs::getifaddrs()
        .map_err(of_nix)?
        .filter(|entry| entry.interface_name == device)
        .find_map(|entry| entry.address?.as_link_addr().copied())
        .ok_or(Errno::NODEV)?;
    debug_assert_eq!(address.protocol(), 0);
    nix::sys::socket::bind(socket.as_raw_fd(), &address).map_err(of_nix)?;
    Ok(socket)
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
