//! Many client addresses: one UDP socket each, waited for together.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

use rustix::event::{Timespec, epoll};
use rustix::net::sockopt;

use crate::clock::{Nanos, SECOND_NS};
use crate::config::CallerConfig;
use crate::engine::{Outbox, Sent};
use crate::error::Error;

/// Sockets reported ready by one wait; more only costs the list's memory.
const READY_MAX: usize = 256;
/// Datagrams read from one ready socket before the next one gets its turn; what is left is reported again.
pub(crate) const READS_MAX: u32 = 64;

/// The sockets of all clients.
#[derive(Debug)]
pub(crate) struct Sockets {
    sockets: Vec<UdpSocket>,
    addresses: Vec<SocketAddr>,
    target: SocketAddr,
    connected: bool,
    epoll: OwnedFd,
}

impl Sockets {
    /// Opens all sockets in the network namespace of the calling thread.
    pub(crate) fn open(config: &CallerConfig) -> Result<Self, Error> {
        let wait_error = |errno: rustix::io::Errno| Error::Wait { source: errno.into() };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(wait_error)?;
        let mut sockets = Vec::new();
        let mut addresses = Vec::new();
        for index in 0..config.sources.sockets {
            let (socket, address) = open_one(config, index)?;
            let data = epoll::EventData::new_u64(u64::from(index));
            epoll::add(&epoll, &socket, data, epoll::EventFlags::IN).map_err(wait_error)?;
            sockets.push(socket);
            addresses.push(address);
        }
        let connected = config.sources.connected;
        Ok(Self { sockets, addresses, target: config.target, connected, epoll })
    }

    /// Client addresses, as the server sees them.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Sleeps for `timeout_ns`, or until a datagram arrives; puts the sockets that have one into `ready`.
    pub(crate) fn wait(&self, timeout_ns: Nanos, ready: &mut Vec<usize>) -> Result<(), Error> {
        let timeout =
            Timespec { tv_sec: (timeout_ns / SECOND_NS) as i64, tv_nsec: (timeout_ns % SECOND_NS) as i64 };
        let mut events = [const { std::mem::MaybeUninit::uninit() }; READY_MAX];
        ready.clear();
        match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
            Ok((events, _)) => ready.extend(events.iter().map(|event| event.data.u64() as usize)),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(Error::Wait { source: errno.into() }),
        }
        Ok(())
    }

    /// One datagram from socket number `index`, if it has one.
    pub(crate) fn receive(&self, index: usize, buffer: &mut [u8]) -> Option<usize> {
        // A connected socket reports an ICMP error once, on whichever call comes next; the datagram after it is there.
        for _ in 0..2 {
            match self.sockets[index].recv(buffer) {
                Ok(len) => return Some(len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(_) => {}
            }
        }
        None
    }

    fn send_once(&self, socket: usize, datagram: &[u8]) -> io::Result<usize> {
        let socket = &self.sockets[socket];
        if self.connected { socket.send(datagram) } else { socket.send_to(datagram, self.target) }
    }
}

impl Outbox for &Sockets {
    fn send(&mut self, socket: usize, datagram: &[u8]) -> Sent {
        let mut result = self.send_once(socket, datagram);
        if matches!(&result, Err(error) if error.kind() == ErrorKind::ConnectionRefused) {
            // The error belongs to an earlier datagram, and this one has not been sent.
            result = self.send_once(socket, datagram);
        }
        match result.map_err(|error| error.kind()) {
            Ok(_) => Sent::Yes,
            Err(ErrorKind::WouldBlock) => Sent::NoRoom,
            Err(ErrorKind::ConnectionRefused) => Sent::Refused,
            Err(_) => Sent::Error,
        }
    }
}

fn open_one(config: &CallerConfig, index: u16) -> Result<(UdpSocket, SocketAddr), Error> {
    let sources = &config.sources;
    let any = if config.target.is_ipv4() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    };
    let ip = match sources.addresses.as_slice() {
        [] => any,
        addresses => addresses[usize::from(index) % addresses.len()],
    };
    let port = if sources.first_port == 0 { 0 } else { sources.first_port + index };
    let wanted = SocketAddr::new(ip, port);
    let socket_error = |source| Error::Socket { address: wanted, source };
    let socket = UdpSocket::bind(wanted).map_err(socket_error)?;
    socket.set_nonblocking(true).map_err(socket_error)?;
    enlarge_buffers(&socket, config.socket_buffer_bytes).map_err(socket_error)?;
    let connect = |socket: &UdpSocket| {
        socket.connect(config.target).map_err(|source| Error::Connect {
            target: config.target,
            address: wanted,
            source,
        })
    };
    let mut address = socket.local_addr().map_err(socket_error)?;
    if sources.connected {
        connect(&socket)?;
        address = socket.local_addr().map_err(socket_error)?;
    } else if address.ip().is_unspecified() {
        // Only a route look-up says which address the server will see.
        let probe = UdpSocket::bind(SocketAddr::new(any, 0)).map_err(socket_error)?;
        connect(&probe)?;
        address.set_ip(probe.local_addr().map_err(socket_error)?.ip());
    }
    Ok((socket, address))
}

/// Sets both buffers, beyond the system's limit when the process may.
pub(crate) fn enlarge_buffers(socket: &UdpSocket, bytes: usize) -> io::Result<()> {
    if sockopt::set_socket_recv_buffer_size_force(socket, bytes).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, bytes)?;
    }
    sockopt::set_socket_send_buffer_size(socket, bytes)?;
    Ok(())
}
