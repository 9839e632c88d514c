//! A SIP server made by hand, of one thread and a small socket buffer: whatever it reads, SIP or not, costs it the same time.
//!
//! Real servers are like that where it matters: what comes to their port must be read before one knows what it is.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::message::{first_word, response};
use crate::netns::NetNs;

/// What is asked of SO_RCVBUF, bytes. The kernel doubles it; it then holds about 28 SIP requests.
const RECEIVE_BUFFER_BYTES: usize = 32_768;

/// How long it waits for a datagram before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// A running server; dropping it ends it.
#[derive(Debug)]
pub struct SlowServer {
    stop: Arc<AtomicBool>,
    read: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl SlowServer {
    /// Starts it in a namespace. Each datagram costs `cost`, which it sleeps off; requests other than ACK are then
    /// answered with 200.
    ///
    /// # Panics
    /// If the socket cannot be bound.
    #[track_caller]
    #[must_use]
    pub fn start(namespace: &NetNs, listen: SocketAddr, cost: Duration) -> Self {
        let socket = namespace
            .inside(|| UdpSocket::bind(listen).unwrap_or_else(|error| panic!("bind {listen}: {error}")));
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES).expect("SO_RCVBUF");
        socket.set_read_timeout(Some(LOOK)).expect("a time-out");
        let (stop, read) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counter) = (Arc::clone(&stop), Arc::clone(&read));
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; 65_535];
            while !stopped.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
                counter.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(cost);
                let message = &buffer[..length];
                if let b"INVITE" | b"BYE" | b"OPTIONS" | b"REGISTER" = first_word(message) {
                    // A client that has gone away is no reason to stop serving the others.
                    let _sent = socket.send_to(&response(message, "200 OK"), from);
                }
            }
        });
        Self { stop, read, thread: Some(thread) }
    }

    /// Datagrams read so far.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

impl Drop for SlowServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server's thread panicked");
        }
    }
}
