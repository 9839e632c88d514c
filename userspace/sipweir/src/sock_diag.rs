//! How much waits in the server's own receive queue, from the kernel's socket diagnosis.
//!
//! [`Watch`] is for the worker: two system calls and no allocation per question. [`SockDiag`] is for people: which
//! sockets are there at all. Not in here: what follows from the figures (`overload::credit`).
//!
//! **Which sockets count.** Those that a datagram to the service from an unknown peer can reach:
//!
//! - bound to the service's address, or else (nothing more specific there) to the wildcard address of its family, or
//!   to the IPv6 wildcard of a dual-stack socket; for a service on any address, whatever is bound to the port;
//! - not bound to a device, or bound to the device by which packets are handed over;
//! - not connected. A connected socket takes the datagrams of one peer only: its backlog is that peer's affair and
//!   must not throttle everybody else.
//!
//! **How they are asked.** An exact look-up (`udp_dump_one`, `net/ipv4/udp_diag.c`) runs the kernel's own search for
//! the receiver of a datagram and costs microseconds; a dump walks the whole port table of the network namespace. So
//! the sockets are found by a dump and then asked one by one. Sockets that share an address (`SO_REUSEPORT`) cannot be
//! named in a look-up; but the kernel spreads over them by a hash of both ends, so source ports are tried until each
//! of them has one that leads to it. Every answer carries the socket's cookie: one that is not the expected leads to a
//! new dump. Where no such port is found for some socket, every question is a dump.

#[cfg(test)]
mod tests;
mod watch;
mod wire;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rustix::io::Errno;

use crate::netdev::netlink::{READ_LEN, Socket};

pub use watch::{Observation, Watch};

/// How long an answer is waited for. The kernel puts it into the socket before the question's `send` returns, so this
/// runs out only if something is broken; longer would hold a worker up, shorter gains nothing.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(50);

/// Late answers to questions that were given up, skipped before an answer; more would mean that something else writes
/// into the socket.
const STALE_MAX: u32 = 16;

/// Why the kernel's socket diagnosis could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No netlink socket.
    #[error("cannot open a netlink socket for socket diagnosis: {0}")]
    Open(#[source] Errno),
    /// The kernel has no diagnosis for UDP, or could not load the module.
    #[error("this kernel cannot say how long the server's receive queue is: `modprobe udp_diag`")]
    Unsupported,
    /// The kernel refused the question.
    #[error("the kernel refuses to describe the UDP sockets on port {port}: {source}")]
    Refused {
        /// The port asked about.
        port: u16,
        /// The kernel's answer.
        source: Errno,
    },
    /// The kernel did not answer.
    #[error("the kernel gave no answer in time about the UDP sockets on port {port}")]
    Timeout {
        /// The port asked about.
        port: u16,
    },
    /// The kernel's answer is in a form that is not understood.
    #[error("the kernel's answer about the UDP sockets on port {port} cannot be read")]
    Unreadable {
        /// The port asked about.
        port: u16,
    },
}

/// An unconnected UDP socket as the kernel describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpSocket {
    /// The address and port it is bound to. IPv4-mapped addresses are shown as they are.
    pub local: SocketAddr,
    /// The device it is bound to, or 0.
    pub device: u32,
    /// Whether an IPv6 socket refuses IPv4.
    pub v6_only: bool,
    /// Memory of the datagrams that wait in it, in bytes by truesize: payload, headers and the kernel's own records.
    pub queue_bytes: u32,
    /// Memory at which it drops, in the same measure.
    pub queue_limit_bytes: u32,
    /// Datagrams dropped since it was opened, modulo 2³².
    pub drops: u32,
    /// Inode, as in `/proc/<pid>/fd`.
    pub inode: u32,
    /// The kernel's own name of the socket, never used again.
    pub cookie: u64,
}

/// The UDP service whose sockets are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// The address served; `None` for every local one.
    pub address: Option<IpAddr>,
    /// The port served.
    pub port: u16,
    /// The device by which packets are handed over, so that a socket bound to it counts; 0 for none.
    pub device: u32,
}

impl Service {
    /// How specifically the socket is bound to this service; 0 if it does not serve it.
    fn rank_of(&self, socket: &UdpSocket) -> u8 {
        if socket.local.port() != self.port || (socket.device != 0 && socket.device != self.device) {
            return 0;
        }
        let bound = socket.local.ip().to_canonical();
        match self.address.map(|address| address.to_canonical()) {
            None => 1,
            Some(address) if bound == address => 2,
            Some(address) if bound.is_unspecified() => {
                let same_family = bound.is_ipv4() == address.is_ipv4();
                u8::from(same_family || (bound.is_ipv6() && !socket.v6_only))
            }
            Some(_) => 0,
        }
    }
}

/// A connection to the kernel's socket diagnosis, of the network namespace in which it was opened.
#[derive(Debug)]
pub struct SockDiag {
    socket: Socket,
    buffer: Vec<u8>,
}

impl SockDiag {
    /// Opens a connection in the calling thread's network namespace and makes sure that the kernel knows about UDP.
    pub fn open() -> Result<Self, Error> {
        let socket =
            Socket::open(Some(rustix::net::netlink::SOCK_DIAG), ANSWER_TIMEOUT).map_err(Error::Open)?;
        let mut diag = Self { socket, buffer: vec![0; READ_LEN] };
        // A look-up answers "no such entry" for a missing module and for a missing socket alike; a dump does not.
        diag.dump(1, |_| ())?;
        Ok(diag)
    }

    /// All unconnected UDP sockets bound to `port`, of both families.
    pub fn sockets(&mut self, port: u16) -> Result<Vec<UdpSocket>, Error> {
        let mut sockets = Vec::new();
        self.dump(port, |socket| sockets.push(*socket))?;
        Ok(sockets)
    }

    /// Shows every unconnected socket on `port` to `visit`.
    fn dump(&mut self, port: u16, mut visit: impl FnMut(&UdpSocket)) -> Result<(), Error> {
        for family in [wire::AF_INET, wire::AF_INET6] {
            let sequence = self.socket.next_sequence();
            self.ask(port, &wire::dump_request(sequence, family, port))?;
            let mut ended = false;
            while !ended {
                let bytes = self.socket.receive(&mut self.buffer).map_err(|errno| failure(port, errno))?;
                for message in wire::messages(bytes) {
                    match message.ok_or(Error::Unreadable { port })? {
                        (answered, _) if answered != sequence => {}
                        (_, wire::Message::Socket(socket)) => visit(&socket),
                        (_, wire::Message::End(0)) => ended = true,
                        (_, wire::Message::End(code)) => {
                            return Err(match Errno::from_raw_os_error(code) {
                                Errno::NOENT => Error::Unsupported,
                                errno => failure(port, errno),
                            });
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The socket that a datagram from `source_port` of no address to `local` would reach, if any.
    fn look_up(
        &mut self,
        local: IpAddr,
        port: u16,
        device: u32,
        source_port: u16,
    ) -> Result<Option<UdpSocket>, Error> {
        let sequence = self.socket.next_sequence();
        self.ask(port, &wire::look_up_request(sequence, local, port, device, source_port))?;
        for _ in 0..STALE_MAX {
            let bytes = self.socket.receive(&mut self.buffer).map_err(|errno| failure(port, errno))?;
            for message in wire::messages(bytes) {
                match message.ok_or(Error::Unreadable { port })? {
                    (answered, _) if answered != sequence => {}
                    (_, wire::Message::Socket(socket)) => return Ok(Some(socket)),
                    (_, wire::Message::End(code)) => {
                        return match Errno::from_raw_os_error(code) {
                            Errno::NOENT => Ok(None),
                            errno => Err(failure(port, errno)),
                        };
                    }
                }
            }
        }
        Err(Error::Unreadable { port })
    }

    fn ask(&self, port: u16, request: &[u8]) -> Result<(), Error> {
        self.socket.send(request).map_err(|errno| failure(port, errno))
    }
}

fn failure(port: u16, errno: Errno) -> Error {
    match errno {
        Errno::AGAIN => Error::Timeout { port },
        Errno::MSGSIZE => Error::Unreadable { port },
        source => Error::Refused { port, source },
    }
}
