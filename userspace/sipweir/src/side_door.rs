//! The side door: sockets by which datagrams come in that the XDP program has let pass, since only the kernel can put
//! them together.
//!
//! ```text
//!   fragments, options, … ─▶ IP stack ─▶ sk_lookup program ─▶ our UDP socket ─▶ worker of queue 0
//!                                                  (xdp-prog)     replies ◀─ raw socket ◀─┘
//! ```
//!
//! The sockets are bound to a port of loopback that nobody knows; what reaches them otherwise than by the program is
//! for no service and is dropped. A reply to such a datagram has no link to leave by, so it goes out by a raw socket
//! and the host's routes, from the address and port that the request was sent to. A reply longer than the route's MTU
//! is not sent.
//!
//! Not here: which datagrams come (`xdp-prog/side_door.bpf.c`), what is done with them (`worker/side.rs`).

use std::io::IoSliceMut;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use anyhow::Context as _;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrIn, SockaddrIn6, SockaddrLike, recvmsg, setsockopt, sockopt,
};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, bind, ipproto, sendto, socket_with};
use rustix::time::{ClockId, clock_gettime};
use sip::Services;
use xdp_prog::Family;

use crate::body::{Large, LargePool};
use crate::clock;

/// Receive buffer of a socket, bytes, as asked for; the kernel doubles it. It must hold what arrives between two looks
/// of a busy worker, counted with the kernel's bookkeeping: some 2 KB a fragment. Smaller loses datagrams of a burst,
/// larger only takes memory while they wait.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// After a look that found nothing, a busy worker does not look again for so long: a look is a system call a socket. A
/// worker that sleeps is roused by the sockets themselves.
const LOOK_INTERVAL_NS: u64 = 100_000;

/// Destination, timestamp, lost datagrams: the ancillary data of one datagram.
const ANCILLARY_BYTES: usize = 256;

/// A datagram that was received into a buffer, headers rebuilt.
#[derive(Debug)]
pub struct Received {
    /// Where it lies.
    pub datagram: sip::Datagram,
    /// The service that it is for; the index is that of the XDP program.
    pub service: u8,
    /// When the kernel had it whole, nanoseconds of CLOCK_MONOTONIC.
    pub arrival_ns: u64,
}

/// What a look at a socket found.
#[derive(Debug)]
pub enum Look {
    /// A datagram for a service.
    Datagram(Received),
    /// A datagram for nobody; the buffer is free again.
    Foreign,
    /// Nothing.
    Empty,
}

/// One family's socket.
#[derive(Debug)]
struct Door {
    family: Family,
    socket: OwnedFd,
    /// Where datagrams of denied sources end: bound, and never read.
    sink: OwnedFd,
    /// Sends replies of this family.
    raw: OwnedFd,
    /// Datagrams lost at the full receive buffer, as the kernel counts them.
    lost: u32,
    look_at_ns: u64,
}

/// The worker's part of the side door: sockets and large buffers.
#[derive(Debug)]
pub struct SideDoor {
    doors: Vec<Door>,
    /// Buffers for what does not fit into a frame, and the one that is received into.
    pub pool: LargePool,
    services: Services,
    /// Index of the guarded interface: the zone of link-local peers.
    zone: u32,
    ancillary: Vec<u8>,
}

impl SideDoor {
    /// Opens the sockets; everything is foreign as yet. `large` messages that are larger than a frame can wait; `zone`
    /// is the index of the guarded interface.
    ///
    /// A host without IPv6 has no IPv6 door, and needs none.
    ///
    /// # Errors
    ///
    /// Without CAP_NET_RAW, or out of descriptors or ports.
    pub fn open(large: usize, zone: u32) -> anyhow::Result<Self> {
        let mut doors = Vec::new();
        for family in [Family::Ipv4, Family::Ipv6] {
            match Door::open(family) {
                Err(rustix::io::Errno::AFNOSUPPORT) if family == Family::Ipv6 => {}
                door => doors.push(door.context("cannot open the sockets of the side door (CAP_NET_RAW)")?),
            }
        }
        // One more: the buffer that is received into.
        let pool = LargePool::new(large + 1);
        Ok(Self { doors, pool, services: Services::default(), zone, ancillary: vec![0; ANCILLARY_BYTES] })
    }

    /// Takes in what is for these services, in the order of the XDP program's indexes.
    #[must_use]
    pub fn serving(self, services: Services) -> Self {
        Self { services, ..self }
    }

    /// The sockets, for the program's map and for poll.
    pub fn sockets(&self) -> impl Iterator<Item = (Family, BorrowedFd<'_>)> {
        self.doors.iter().map(|door| (door.family, door.socket.as_fd()))
    }

    /// The sockets that nobody reads, for the program's map.
    pub fn sinks(&self) -> impl Iterator<Item = (Family, BorrowedFd<'_>)> {
        self.doors.iter().map(|door| (door.family, door.sink.as_fd()))
    }

    /// The cookies (`SO_COOKIE`) of the sockets that replies are sent by; 0 where there is none.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn sending_sockets(&self) -> anyhow::Result<[u64; 2]> {
        let mut cookies = [0; 2];
        for (cookie, door) in cookies.iter_mut().zip(&self.doors) {
            *cookie =
                rustix::net::sockopt::socket_cookie(&door.raw).context("cannot tell own sockets apart")?;
        }
        Ok(cookies)
    }

    /// How many families there are; [`SideDoor::look`] takes a number below it.
    #[must_use]
    pub fn families(&self) -> usize {
        self.doors.len()
    }

    /// Whether it is time to look at that family's socket.
    #[must_use]
    pub fn is_due(&self, family: usize, now_ns: u64) -> bool {
        now_ns >= self.doors[family].look_at_ns
    }

    /// The next turn looks, whenever the last look was.
    pub fn look_soon(&mut self) {
        for door in &mut self.doors {
            door.look_at_ns = 0;
        }
    }

    /// Datagrams lost since start because a receive buffer was full.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.doors.iter().map(|door| u64::from(door.lost)).sum()
    }

    /// Takes one datagram of a family into `large`.
    pub fn look(&mut self, family: usize, large: &mut Large, now_ns: u64) -> Look {
        let door = &mut self.doors[family];
        let taken = match door.family {
            Family::Ipv4 => door.take::<SockaddrIn>(large, &mut self.ancillary),
            Family::Ipv6 => door.take::<SockaddrIn6>(large, &mut self.ancillary),
        };
        let Some(taken) = taken else {
            door.look_at_ns = now_ns + LOOK_INTERVAL_NS;
            return Look::Empty;
        };
        let found = taken.addresses.and_then(|(source, destination)| {
            let service = self.services.find(destination)?;
            let packet = large.packet_mut();
            let datagram = sip::write_datagram_headers(packet, source, destination)?;
            Some(Received { datagram, service, arrival_ns: taken.arrival_ns })
        });
        found.map_or(Look::Foreign, Look::Datagram)
    }

    /// Sends a packet without link addresses by the host's routes; false if the network does not take it.
    pub fn send(&self, packet: &[u8]) -> bool {
        let Some((ip, destination)) = sip::ip_packet(packet) else { return false };
        let family = if destination.is_ipv4() { Family::Ipv4 } else { Family::Ipv6 };
        let Some(door) = self.doors.iter().find(|door| door.family == family) else { return false };
        // The port of a raw address means nothing.
        let sent = match destination {
            IpAddr::V4(to) => sendto(&door.raw, ip, SendFlags::DONTWAIT, &SocketAddrV4::new(to, 0)),
            IpAddr::V6(to) => {
                let zone = if to.is_unicast_link_local() { self.zone } else { 0 };
                sendto(&door.raw, ip, SendFlags::DONTWAIT, &SocketAddrV6::new(to, 0, 0, zone))
            }
        };
        sent == Ok(ip.len())
    }
}

/// A datagram as the kernel gave it.
struct Taken {
    addresses: Option<(SocketAddr, SocketAddr)>,
    arrival_ns: u64,
}

impl Door {
    fn open(family: Family) -> Result<Self, rustix::io::Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (domain, loopback) = match family {
            Family::Ipv4 => (AddressFamily::INET, IpAddr::V4(Ipv4Addr::LOCALHOST)),
            Family::Ipv6 => (AddressFamily::INET6, IpAddr::V6(Ipv6Addr::LOCALHOST)),
        };
        let socket = socket_with(domain, SocketType::DGRAM, flags, None)?;
        match family {
            Family::Ipv4 => {
                rustix::net::sockopt::set_ip_freebind(&socket, true)?;
                setsockopt(&socket, sockopt::Ipv4OrigDstAddr, &true).map_err(errno)?;
            }
            Family::Ipv6 => {
                rustix::net::sockopt::set_ipv6_v6only(&socket, true)?;
                // The address may be switched off on the loopback interface alone.
                rustix::net::sockopt::set_ipv6_freebind(&socket, true)?;
                setsockopt(&socket, sockopt::Ipv6OrigDstAddr, &true).map_err(errno)?;
            }
        }
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true).map_err(errno)?;
        setsockopt(&socket, sockopt::RxqOvfl, &1).map_err(errno)?;
        // Beyond net.core.rmem_max with CAP_NET_ADMIN only.
        if rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_BYTES).is_err() {
            rustix::net::sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES)?;
        }
        bind(&socket, &SocketAddr::new(loopback, 0))?;
        let sink = socket_with(domain, SocketType::DGRAM, flags, None)?;
        match family {
            Family::Ipv4 => rustix::net::sockopt::set_ip_freebind(&sink, true)?,
            Family::Ipv6 => rustix::net::sockopt::set_ipv6_freebind(&sink, true)?,
        }
        // The least that the kernel gives: a datagram or two lie in it for ever, all others are dropped.
        rustix::net::sockopt::set_socket_recv_buffer_size(&sink, 0)?;
        bind(&sink, &SocketAddr::new(loopback, 0))?;
        // Protocol RAW: our own IP headers, and nothing is received.
        let raw = socket_with(domain, SocketType::RAW, flags, Some(ipproto::RAW))?;
        Ok(Self { family, socket, sink, raw, lost: 0, look_at_ns: 0 })
    }

    /// Receives behind the room for headers.
    fn take<A: SockaddrLike + Copy + Into<SocketAddr>>(
        &mut self,
        large: &mut Large,
        ancillary: &mut [u8],
    ) -> Option<Taken> {
        let headers_len = match self.family {
            Family::Ipv4 => sip::rebuilt_headers_len(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)),
            Family::Ipv6 => sip::rebuilt_headers_len(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0)),
        };
        let (len, addresses, stamp, lost) = {
            let mut room = [IoSliceMut::new(&mut large.buffer_mut()[headers_len..])];
            let received =
                recvmsg::<A>(self.socket.as_raw_fd(), &mut room, Some(ancillary), MsgFlags::MSG_DONTWAIT);
            // EAGAIN is the usual one; whatever else is wrong with the socket, there is no datagram.
            let received = received.ok()?;
            let (mut destination, mut stamp, mut lost) = (None, None, None);
            for message in received.cmsgs().ok()? {
                match message {
                    ControlMessageOwned::Ipv4OrigDstAddr(address) => {
                        destination = Some(SocketAddr::from(SockaddrIn::from(address)));
                    }
                    ControlMessageOwned::Ipv6OrigDstAddr(address) => {
                        destination = Some(SocketAddr::from(SockaddrIn6::from(address)));
                    }
                    ControlMessageOwned::ScmTimestampns(time) => {
                        stamp = Some(nanoseconds(time.tv_sec(), time.tv_nsec()))
                    }
                    ControlMessageOwned::RxqOvfl(count) => lost = Some(count),
                    _ => {}
                }
            }
            let source = received.address.map(Into::<SocketAddr>::into);
            (received.bytes, source.zip(destination), stamp, lost)
        };
        large.set_len(headers_len + len);
        self.lost = lost.unwrap_or(self.lost);
        Some(Taken { addresses, arrival_ns: monotonic(stamp) })
    }
}

/// The time of the monotonic clock at which the real one said `stamp_ns`, as far as it has not been set since.
fn monotonic(stamp_ns: Option<u64>) -> u64 {
    let real = clock_gettime(ClockId::Realtime);
    let real_ns = nanoseconds(real.tv_sec, real.tv_nsec);
    clock::now().saturating_sub(stamp_ns.map_or(0, |stamp_ns| real_ns.saturating_sub(stamp_ns)))
}

fn nanoseconds(seconds: i64, nanoseconds: i64) -> u64 {
    // Neither is negative after 1970.
    seconds.unsigned_abs() * 1_000_000_000 + nanoseconds.unsigned_abs()
}

fn errno(error: nix::errno::Errno) -> rustix::io::Errno {
    rustix::io::Errno::from_raw_os_error(error as i32)
}

#[cfg(test)]
mod tests;
