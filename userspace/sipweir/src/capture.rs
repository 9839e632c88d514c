//! Export of refused messages to a HEP collector (HOMER, sngrep): lossy, and never in the worker's way.
//!
//! ```text
//!   worker 0 ── full ──▶ ┐
//!            ◀─ spare ── ├─ thread "capture" ── UDP ──▶ collector
//!   worker n ── full ──▶ ┘
//! ```
//!
//! A worker copies a message into a buffer, if one is spare, and goes on: it makes no system call, allocates nothing
//! and waits for nobody. The thread looks after the rings every [`NAP`], so that nobody has to rouse it, and sends by a
//! socket that does not block, to an address, not to a name. What finds no buffer is lost and counted; what cannot be
//! sent is dropped and counted; while the socket is full, the rest waits in the rings. Each worker has rings of its
//! own, in which buffers circulate (`buffers`).
//!
//! What the XDP program sheds itself never reaches a worker, so it cannot be exported. Not here: the format
//! (`sip::hep`), and which messages are refused (`counters::Outcome`).
//!
//! Beside it is `sipweir capture`, which a client asks for while the instance runs: which packets (`filter`), the workers' part
//! (`live`), the XDP program's (`kernel`), the thread that sends (`session`) what goes over the socket (`record`), and the client
//! (`command`) that writes it down (`pcapng`).

mod buffers;
pub mod command;
pub mod filter;
mod kernel;
pub mod live;
mod pcapng;
mod record;
mod session;

use std::net::{SocketAddr, UdpSocket};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use sip::{Captured, Datagram, HEP_OVERHEAD_MAX};

pub use kernel::Samples;
pub use session::{Capturing, Limits, Now};

use crate::capabilities;
use crate::clock;
use crate::config;
use crate::counters::{Count, WorkerCounters};
use buffers::Buffers;

/// Bytes of a message that are exported; the rest is cut off. More than the frames of most packets hold, so that only
/// what came as fragments is cut. Larger: more memory, and HEP datagrams that themselves become many fragments.
pub const MESSAGE_BYTES_MAX: usize = 4096;

/// How often the thread looks after the rings. Longer: more buffers are needed for what comes in between. Shorter: more
/// wake-ups of an idle host.
const NAP: Duration = Duration::from_millis(10);

/// A message on its way to the thread.
#[derive(Debug)]
struct Sample {
    at_ns: u64,
    source: SocketAddr,
    destination: SocketAddr,
    len: usize,
    /// In the sample itself: one allocation for each, and the pages are there before the first message.
    bytes: [u8; MESSAGE_BYTES_MAX],
}

impl Sample {
    fn new() -> Self {
        let nobody = SocketAddr::from(([0, 0, 0, 0], 0));
        Self { at_ns: 0, source: nobody, destination: nobody, len: 0, bytes: [0; MESSAGE_BYTES_MAX] }
    }
}

/// The worker's end.
#[derive(Debug)]
pub struct Tap(Arc<Buffers<Sample>>);

/// The thread's end.
#[derive(Debug)]
pub struct Outlet(Arc<Buffers<Sample>>);

/// Both ends of rings with so many buffers.
#[must_use]
pub fn tap(messages: u32) -> (Tap, Outlet) {
    let buffers = Arc::new(Buffers::new(messages as usize, Sample::new));
    (Tap(Arc::clone(&buffers)), Outlet(buffers))
}

impl Tap {
    /// Copies a datagram for the thread, or counts it as lost.
    pub fn put(&self, packet: &[u8], datagram: &Datagram, now_ns: u64, counters: &WorkerCounters) {
        let Some(mut sample) = self.0.take() else { return counters.capture_lost.add(1) };
        let payload = datagram.payload(packet);
        let len = payload.len().min(MESSAGE_BYTES_MAX);
        sample.bytes[..len].copy_from_slice(&payload[..len]);
        sample.len = len;
        sample.at_ns = now_ns;
        (sample.source, sample.destination) = (datagram.source, datagram.destination);
        counters.captured.add(1);
        if len < payload.len() {
            counters.capture_cut.add(1);
        }
        self.0.put(sample);
    }
}

impl Outlet {
    /// Takes out what lies there until `of` breaks, and no more than there is room for: a worker that is faster than
    /// the thread must not keep it here.
    fn drain(&self, mut of: impl FnMut(&Sample) -> ControlFlow<()>) -> ControlFlow<()> {
        for _ in 0..self.0.places() {
            let Some(sample) = self.0.next() else { break };
            let flow = of(&sample);
            self.0.give_back(sample);
            flow?;
        }
        ControlFlow::Continue(())
    }

    fn is_empty(&self) -> bool {
        self.0.waiting() == 0
    }
}

/// What the thread counts.
#[derive(Debug, Default)]
pub struct Sent {
    /// Datagrams that the kernel has taken.
    pub sent: Count,
    /// Those that it has not: no route, nobody at the port, its buffer full.
    pub unsent: Count,
}

/// The thread; dropping it sends what the workers have left and ends it.
#[derive(Debug)]
pub struct Exporter {
    stop: Arc<AtomicBool>,
    counters: Arc<Sent>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Starts the thread behind these outlets.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub fn start(config: &config::Capture, outlets: Vec<Outlet>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let counters = Arc::new(Sent::default());
        let mut sender = Sender {
            collector: config.collector.0,
            agent_id: config.agent_id,
            socket: None,
            next: 0,
            datagram: [0; MESSAGE_BYTES_MAX + HEP_OVERHEAD_MAX],
            counters: Arc::clone(&counters),
        };
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("capture".into()).spawn(move || {
            capabilities::renounce_all_of_thread();
            loop {
                let last = stopped.load(Ordering::Acquire);
                sender.round(&outlets, last);
                if last {
                    break;
                }
                std::thread::park_timeout(NAP);
            }
        })?;
        Ok(Self { stop, counters, thread: Some(thread) })
    }

    /// What it counts, for the control thread.
    #[must_use]
    pub fn counters(&self) -> Arc<Sent> {
        Arc::clone(&self.counters)
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // Nothing that it does can wait.
            let _joined = thread.join();
        }
    }
}

/// A tap for each worker, and the thread behind them; without a configuration neither.
///
/// # Errors
///
/// When the system gives no thread.
pub fn start(
    config: Option<&config::Capture>,
    workers: u32,
) -> std::io::Result<(Vec<Option<Tap>>, Option<Exporter>)> {
    let Some(config) = config else { return Ok(((0..workers).map(|_worker| None).collect(), None)) };
    let ends = (0..workers).map(|_worker| tap(config.messages));
    let (taps, outlets) = ends.map(|(tap, outlet)| (Some(tap), outlet)).unzip();
    Ok((taps, Some(Exporter::start(config, outlets)?)))
}

struct Sender {
    collector: SocketAddr,
    agent_id: u32,
    /// `None` before the first message, and while there is no way to the collector.
    socket: Option<UdpSocket>,
    /// The outlet that comes first in the next round, so that one worker cannot fill the socket for all others.
    next: usize,
    datagram: [u8; MESSAGE_BYTES_MAX + HEP_OVERHEAD_MAX],
    counters: Arc<Sent>,
}

impl Sender {
    /// Sends what lies in the rings, until the socket is full: what then is left waits for the next round, unless this
    /// is the last one.
    fn round(&mut self, outlets: &[Outlet], is_last: bool) {
        if outlets.iter().all(Outlet::is_empty) {
            return;
        }
        // Tried once a round, not for each message; without a way to the collector the whole round is unsent.
        self.socket = self.socket.take().or_else(|| connect(self.collector).ok());
        // The time of day may be set while it runs.
        let epoch_ns = clock::epoch();
        for turn in 0..outlets.len() {
            let outlet = (self.next + turn) % outlets.len();
            let flow = outlets[outlet].drain(|sample| {
                let sent = self.send(sample, epoch_ns);
                let count = if sent.is_ok() { &self.counters.sent } else { &self.counters.unsent };
                count.add(1);
                if sent.is_err_and(|error| is_full(&error)) && !is_last {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            if flow.is_break() {
                self.next = (outlet + 1) % outlets.len();
                break;
            }
        }
    }

    fn send(&mut self, sample: &Sample, epoch_ns: u64) -> std::io::Result<()> {
        let socket = self.socket.as_ref().ok_or(std::io::ErrorKind::NotConnected)?;
        let captured = Captured {
            source: sample.source,
            destination: sample.destination,
            at_ns: epoch_ns.saturating_add(sample.at_ns),
            agent_id: self.agent_id,
            payload: &sample.bytes[..sample.len],
        };
        let written = sip::write_hep(&captured, &mut self.datagram);
        let len = written.ok_or(std::io::ErrorKind::InvalidData)?;
        let sent = socket.send(&self.datagram[..len]);
        // Its route and source address may have gone; nobody at the port, or no room, may pass.
        if sent.as_ref().is_err_and(is_lasting) {
            self.socket = None;
        }
        sent.map(|_all| ())
    }
}

fn is_full(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::WouldBlock
}

fn is_lasting(error: &std::io::Error) -> bool {
    !is_full(error) && error.kind() != std::io::ErrorKind::ConnectionRefused
}

/// A connected socket, since only such hear that nobody is at the port.
fn connect(collector: SocketAddr) -> std::io::Result<UdpSocket> {
    let any: SocketAddr = if collector.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0; 16], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.set_nonblocking(true)?;
    socket.connect(collector)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};
    use std::ops::ControlFlow;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;
    use std::sync::Arc;
    use std::time::Duration;

    use sip::{Datagram, HEP_OVERHEAD_MAX};

    use super::{MESSAGE_BYTES_MAX, Outlet, Sample, Sender, Sent, tap};
    use crate::counters::WorkerCounters;

    fn datagram(payload_len: usize) -> Datagram {
        let address = |last| SocketAddr::from(([192, 0, 2, last], 5060));
        Datagram {
            l3_offset: 14,
            payload_offset: 42,
            payload_len,
            source: address(1),
            destination: address(2),
        }
    }

    fn counts(counters: &WorkerCounters) -> [u64; 3] {
        [counters.captured.get(), counters.capture_cut.get(), counters.capture_lost.get()]
    }

    fn drain(outlet: &Outlet, mut of: impl FnMut(&Sample)) {
        let flow = outlet.drain(|sample| {
            of(sample);
            ControlFlow::Continue(())
        });
        assert_eq!(flow, ControlFlow::Continue(()));
    }

    /// An outlet in which so many messages lie.
    fn outlet(messages: u32) -> Outlet {
        let (tap, outlet) = tap(messages);
        (0..messages).for_each(|_| tap.put(&[7; 50], &datagram(8), 0, &WorkerCounters::default()));
        outlet
    }

    fn sender(collector: SocketAddr, socket: OwnedFd) -> Sender {
        Sender {
            collector,
            agent_id: 1,
            socket: Some(UdpSocket::from(socket)),
            next: 0,
            datagram: [0; MESSAGE_BYTES_MAX + HEP_OVERHEAD_MAX],
            counters: Arc::new(Sent::default()),
        }
    }

    fn sent(sender: &Sender) -> [u64; 2] {
        [sender.counters.sent.get(), sender.counters.unsent.get()]
    }

    #[test]
    fn what_a_full_socket_does_not_take_waits_in_the_ring_and_the_next_ring_has_its_turn() {
        // Such sockets are full when the other end does not read; those of UDP only behind a slow device.
        let (ours, theirs) = UnixDatagram::pair().expect("sockets");
        ours.set_nonblocking(true).expect("flag");
        theirs.set_nonblocking(true).expect("flag");
        let received = || std::iter::from_fn(|| theirs.recv(&mut [0; 256]).ok()).count() as u64;
        let outlets = [outlet(4000), outlet(3)];
        let left = || outlets.each_ref().map(|outlet| outlet.0.waiting() as u64);
        let mut sender = sender(([127, 65, 1, 1], 9060).into(), ours.into());

        sender.round(&outlets, false);
        let room = received();
        assert!((3..1300).contains(&room), "{room} are no test");
        assert_eq!((sent(&sender), left()), ([room, 1], [4000 - room - 1, 3]));
        sender.round(&outlets, false);
        assert_eq!(
            (received(), left()),
            (room, [4000 - 2 * room + 1, 0]),
            "those of the second ring, then the first"
        );
        // The last round leaves nothing.
        sender.round(&outlets, true);
        assert_eq!((received(), left()), (room, [0, 0]));
        assert_eq!(sent(&sender), [3 * room, 4003 - 3 * room]);
    }

    #[test]
    fn a_socket_that_is_of_no_use_any_more_is_made_anew_once_a_round() {
        let collector = UdpSocket::bind("127.65.1.2:0").expect("bind");
        collector.set_read_timeout(Some(Duration::from_secs(20))).expect("time-out");
        let address = collector.local_addr().expect("address");
        // One that is connected to nobody.
        let useless = UdpSocket::bind("127.65.1.2:0").expect("bind");
        let mut sender = sender(address, useless.into());
        sender.round(&[outlet(3)], false);
        assert_eq!(
            (sent(&sender), sender.socket.is_none()),
            ([0, 3], true),
            "none was tried by another socket"
        );
        sender.round(&[tap(1).1], false);
        assert!(sender.socket.is_none(), "there is nothing to send");
        sender.round(&[outlet(2)], false);
        assert_eq!(sent(&sender), [2, 3]);
        assert!((0..2).all(|_| collector.recv(&mut [0; 256]).is_ok()));
    }

    #[test]
    fn a_full_ring_loses_the_newer_ones_and_takes_more_when_it_was_read() {
        let (tap, outlet) = tap(3);
        let counters = WorkerCounters::default();
        let put = |number: u8| tap.put(&[number; 50], &datagram(8), u64::from(number), &counters);
        (0..5).for_each(put);
        assert_eq!(counts(&counters), [3, 0, 2]);
        let mut seen = Vec::new();
        drain(&outlet, |sample| {
            assert_eq!((sample.len, sample.source.ip()), (8, [192, 0, 2, 1].into()));
            assert_eq!(u64::from(sample.bytes[7]), sample.at_ns);
            seen.push(sample.bytes[0]);
        });
        put(9);
        drain(&outlet, |sample| seen.push(sample.bytes[0]));
        assert_eq!(seen, [0, 1, 2, 9]);
        assert_eq!(counts(&counters), [4, 0, 2]);
    }

    #[test]
    fn what_is_longer_than_a_buffer_is_cut() {
        let (tap, outlet) = tap(2);
        let counters = WorkerCounters::default();
        for len in [MESSAGE_BYTES_MAX, 60_000] {
            tap.put(&vec![1; 42 + len], &datagram(len), 0, &counters);
        }
        assert_eq!(counts(&counters), [2, 1, 0]);
        drain(&outlet, |sample| assert_eq!(sample.len, MESSAGE_BYTES_MAX));
    }
}
