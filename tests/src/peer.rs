//! A UDP socket in a namespace whose every byte the test decides: a client, or a server that reads only when told to.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::netns::NetNs;
use crate::wait::POLL_INTERVAL;

/// The largest datagram that is read whole.
const DATAGRAM_MAX: usize = 65_535;

/// The socket.
#[derive(Debug)]
pub struct Peer {
    socket: UdpSocket,
    address: SocketAddr,
}

impl Peer {
    /// Binds it.
    ///
    /// # Panics
    /// If that fails: the address is taken, for example.
    #[track_caller]
    #[must_use]
    pub fn bind(namespace: &NetNs, address: SocketAddr) -> Self {
        let socket = namespace
            .inside(|| UdpSocket::bind(address).unwrap_or_else(|error| panic!("bind {address}: {error}")));
        socket.set_nonblocking(true).expect("a socket that does not block");
        Self { socket, address }
    }

    /// Where it is bound.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends one datagram.
    ///
    /// # Panics
    /// If the kernel does not take it.
    #[track_caller]
    pub fn send(&self, datagram: &[u8], to: SocketAddr) {
        let sent = self.socket.send_to(datagram, to).unwrap_or_else(|error| panic!("send to {to}: {error}"));
        assert_eq!(sent, datagram.len());
    }

    /// The next datagram and its sender, if one waits.
    ///
    /// # Panics
    /// If the socket fails.
    #[track_caller]
    pub fn take(&self) -> Option<(Vec<u8>, SocketAddr)> {
        let mut buffer = vec![0; DATAGRAM_MAX];
        match self.socket.recv_from(&mut buffer) {
            Ok((length, sender)) => {
                buffer.truncate(length);
                Some((buffer, sender))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("receive at {}: {error}", self.address),
        }
    }

    /// Waits for the next datagram.
    ///
    /// # Panics
    /// If none comes within `timeout`; `what` says what was waited for.
    #[track_caller]
    #[must_use]
    pub fn receive(&self, what: &str, timeout: Duration) -> (Vec<u8>, SocketAddr) {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(received) = self.take() {
                return received;
            }
            assert!(Instant::now() < deadline, "waited {timeout:?} in vain for {what} at {}", self.address);
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}
