//! A flood of datagrams at a steady rate, from a thread in a namespace.
//!
//! For what SIPp cannot send: retransmissions that say so, and bytes that are no SIP. Answers are not looked at.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::netns::NetNs;

/// How often the thread wakes to send what is due. Short against any buffer of the tests at their rates.
const TICK: Duration = Duration::from_millis(1);

/// Most datagrams in one go, if the thread was held up: a flood is steady, it does not catch up in bursts of seconds.
const BURST_MAX: u64 = 256;

/// A running flood; dropping it ends it.
#[derive(Debug)]
pub struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    /// Sends `datagram(0)`, `datagram(1)`, … at that rate until dropped.
    ///
    /// # Panics
    /// If the socket cannot be bound to `from` in that namespace.
    #[track_caller]
    #[must_use]
    pub fn start(
        namespace: &NetNs,
        from: SocketAddr,
        to: SocketAddr,
        rate_per_s: u32,
        datagram: impl Fn(u64) -> Vec<u8> + Send + 'static,
    ) -> Self {
        let socket =
            namespace.inside(|| UdpSocket::bind(from).unwrap_or_else(|error| panic!("bind {from}: {error}")));
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counter) = (Arc::clone(&stop), Arc::clone(&sent));
        let thread = std::thread::spawn(move || {
            let begin = Instant::now();
            let mut number = 0;
            while !stopped.load(Ordering::Relaxed) {
                let due = (begin.elapsed().as_secs_f64() * f64::from(rate_per_s)) as u64;
                let skipped = due.saturating_sub(number).saturating_sub(BURST_MAX);
                for number in number + skipped..due {
                    // A full or unreachable destination is what a flood is about.
                    if socket.send_to(&datagram(number), to).is_ok() {
                        counter.fetch_add(1, Ordering::Relaxed);
                    }
                }
                number = due;
                std::thread::sleep(TICK);
            }
        });
        Self { stop, sent, thread: Some(thread) }
    }

    /// Datagrams that the kernel took.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Ends it; the datagrams sent.
    #[must_use]
    pub fn stop(mut self) -> u64 {
        self.end();
        self.sent()
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the flood's thread panicked");
        }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.end();
    }
}
