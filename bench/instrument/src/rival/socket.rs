//! Plain UDP sockets with many datagrams a system call: the receiver at the end of every hand-off, and a front-end on
//! the kernel's own path.

use std::io::{IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use anyhow::Context as _;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};

use crate::rival::thread::Thread;

/// Datagrams a call.
const BATCH: usize = 64;
const DATAGRAM_MAX: usize = 2048;
/// What the receiving sockets may hold: bursts of some hundredths of a second.
const BUFFER_BYTES: usize = 32 << 20;
/// How long a receiver sleeps before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// A socket of the calling thread's namespace with room for bursts.
pub(crate) fn bind(address: SocketAddr) -> anyhow::Result<UdpSocket> {
    let socket = UdpSocket::bind(address).with_context(|| format!("cannot bind {address}"))?;
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES)
        .context("SO_RCVBUFFORCE")?;
    socket.set_read_timeout(Some(LOOK)).context("SO_RCVTIMEO")?;
    Ok(socket)
}

/// Reads and counts.
pub(crate) fn sink(socket: UdpSocket, core: usize) -> anyhow::Result<Thread> {
    Thread::start("udp-sink", core, move |shared| {
        let mut buffers = vec![[0_u8; DATAGRAM_MAX]; BATCH];
        let mut headers = MultiHeaders::<()>::preallocate(BATCH, None);
        while !shared.stopped() {
            shared.count(receive(&socket, &mut headers, &mut buffers)?.len());
        }
        Ok(())
    })
}

/// A front-end without AF_XDP: reads from one socket and sends on to `server` by another, in the other network namespace
/// or the same one.
pub(crate) fn front_end(socket: UdpSocket, server: SocketAddr, core: usize) -> anyhow::Result<Thread> {
    let out = UdpSocket::bind(SocketAddr::new(socket.local_addr()?.ip(), 0)).context("cannot bind a port")?;
    out.connect(server).with_context(|| format!("cannot connect to {server}"))?;
    Thread::start("udp-front-end", core, move |shared| {
        let mut buffers = vec![[0_u8; DATAGRAM_MAX]; BATCH];
        let mut headers = MultiHeaders::<()>::preallocate(BATCH, None);
        let mut out_headers = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
        while !shared.stopped() {
            let lens = receive(&socket, &mut headers, &mut buffers)?;
            let datagrams: Vec<[IoSlice<'_>; 1]> =
                buffers.iter().zip(&lens).map(|(buffer, len)| [IoSlice::new(&buffer[..*len])]).collect();
            let connected = vec![None; datagrams.len()];
            let sent = sendmmsg(
                out.as_raw_fd(),
                &mut out_headers,
                &datagrams,
                connected,
                [],
                MsgFlags::MSG_DONTWAIT,
            );
            match sent {
                Ok(sent) => shared.count(sent.count()),
                // A full device queue loses the rest, as it would anybody's.
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ECONNREFUSED) => {}
                Err(errno) => return Err(errno).context("sendmmsg"),
            }
        }
        Ok(())
    })
}

/// Lengths of the datagrams that one call has read.
fn receive(
    socket: &UdpSocket,
    headers: &mut MultiHeaders<()>,
    buffers: &mut [[u8; DATAGRAM_MAX]],
) -> anyhow::Result<Vec<usize>> {
    let mut places: Vec<[IoSliceMut<'_>; 1]> =
        buffers.iter_mut().map(|buffer| [IoSliceMut::new(buffer)]).collect();
    match recvmmsg(socket.as_raw_fd(), headers, places.iter_mut(), MsgFlags::MSG_WAITFORONE, None) {
        Ok(received) => Ok(received.map(|datagram| datagram.bytes).collect()),
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(Vec::new()),
        Err(errno) => Err(errno).context("recvmmsg"),
    }
}
