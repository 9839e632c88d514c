//! The other end, minimal: one socket, one thread, one first-come-first-served queue, which is the socket's receive
//! buffer. It is what tests call, and what a plain server without a front-end looks like.
//!
//! Capacity is a virtual clock: each request costs service time, and the thread sleeps rather than spins when it is
//! ahead of the clock. Answers are stateless (a copy is answered like its original and costs as much), which is the
//! worst case for a server under retransmissions. Deliberately absent: sending a 2xx again until its ACK comes.

mod reply;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;
use rustix::net::{RecvFlags, SocketAddrAny, recvfrom};

use self::reply::Request;
use crate::clock::{Nanos, monotonic_ns};
use crate::error::Error;
use crate::sockets::enlarge_buffers;

/// How long a stop can go unnoticed.
const STOP_CHECK: Duration = Duration::from_millis(20);
/// The clock may run this far ahead before the thread sleeps: shorter sleeps would be mostly overhead, longer ones
/// would make answers come in visible bursts.
const AHEAD_NS_MAX: Nanos = 500_000;
/// Transactions remembered for `drop_first`; a longer run forgets all and drops again.
const REMEMBERED_MAX: usize = 1 << 20;
/// Largest UDP payload.
const DATAGRAM_MAX: usize = 65_535;

/// Distribution of service times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Always the mean.
    Fixed,
    /// Exponential.
    Exponential,
}

/// How the answerer behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswererConfig {
    /// Address of its socket; port 0 lets the kernel choose.
    pub bind: SocketAddr,
    /// Final answer to requests outside a dialog.
    pub status: u16,
    /// Final answer to BYE.
    pub bye_status: u16,
    /// Answer an INVITE with 180 first.
    pub ringing: bool,
    /// Distribution of service times.
    pub service: Service,
    /// Mean service time of a request outside a dialog; 0 is as fast as the core allows.
    pub service_ns: u64,
    /// Mean service time of ACK and BYE.
    pub in_dialog_ns: u64,
    /// So many copies of every transaction are ignored before one is served.
    pub drop_first: u8,
    /// Answer nothing at all.
    pub silent: bool,
    /// The queue: size of the receive buffer. The kernel counts a 600-byte datagram as about 2.3 KB, and doubles this.
    pub receive_buffer_bytes: usize,
    /// Seed of service times.
    pub seed: u64,
}

impl AnswererConfig {
    /// Answers everything with 200 at once.
    #[must_use]
    pub fn new(bind: SocketAddr) -> Self {
        Self {
            bind,
            status: 200,
            bye_status: 200,
            ringing: false,
            service: Service::Fixed,
            service_ns: 0,
            in_dialog_ns: 0,
            drop_first: 0,
            silent: false,
            receive_buffer_bytes: 4 << 20,
            seed: 1,
        }
    }
}

/// A datagram as it arrived.
#[derive(Debug, Clone)]
pub struct Captured {
    /// When it was read.
    pub at: Nanos,
    /// Who sent it.
    pub source: SocketAddr,
    /// Its bytes.
    pub datagram: Vec<u8>,
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What an answerer has seen and done.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct AnswererCounts { $($(#[$doc])* pub $name: u64),* }

        #[derive(Debug, Default)]
        struct SharedCounts { $($name: AtomicU64),* }

        impl SharedCounts {
            fn read(&self) -> AnswererCounts {
                AnswererCounts { $($name: self.$name.load(Relaxed)),* }
            }
        }
    };
}

counts! {
    /// Datagrams read.
    received,
    /// INVITEs, copies included.
    invite,
    /// ACKs.
    ack,
    /// BYEs, copies included.
    bye,
    /// Other requests, copies included.
    other,
    /// Datagrams that are no requests or cannot be answered.
    not_understood,
    /// Requests ignored for `drop_first` or because it is silent.
    ignored,
    /// Final answers sent.
    answered,
    /// Answers that the kernel did not take.
    send_errors,
}

/// A running answerer; stops when dropped.
#[derive(Debug)]
pub struct Answerer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    counts: Arc<SharedCounts>,
    thread: Option<JoinHandle<()>>,
}

impl Answerer {
    /// Opens the socket here, in the calling thread's network namespace, and starts the thread.
    ///
    /// # Errors
    /// The address is taken or not on this host; no thread can be started.
    pub fn start(config: &AnswererConfig) -> Result<Self, Error> {
        Self::start_with(config, None)
    }

    /// The same, and everything that arrives is handed to the receiver too.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_capturing(config: &AnswererConfig) -> Result<(Self, Receiver<Captured>), Error> {
        let (sender, receiver) = channel();
        Ok((Self::start_with(config, Some(sender))?, receiver))
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counts so far.
    #[must_use]
    pub fn counts(&self) -> AnswererCounts {
        self.counts.read()
    }

    /// Ends the thread.
    #[must_use]
    pub fn stop(mut self) -> AnswererCounts {
        self.join();
        self.counts.read()
    }

    fn start_with(config: &AnswererConfig, capture: Option<Sender<Captured>>) -> Result<Self, Error> {
        let socket_error = |source| Error::Socket { address: config.bind, source };
        let socket = UdpSocket::bind(config.bind).map_err(socket_error)?;
        enlarge_buffers(&socket, config.receive_buffer_bytes).map_err(socket_error)?;
        socket.set_read_timeout(Some(STOP_CHECK)).map_err(socket_error)?;
        let address = socket.local_addr().map_err(socket_error)?;
        let stop = Arc::new(AtomicBool::new(false));
        let counts = Arc::new(SharedCounts::default());
        let mut server = Server {
            rng: Pcg64Mcg::seed_from_u64(config.seed),
            config: config.clone(),
            address,
            socket,
            capture,
            stop: Arc::clone(&stop),
            counts: Arc::clone(&counts),
            busy_until: monotonic_ns(),
            seen: HashMap::new(),
            hasher: RandomState::new(),
        };
        let thread = thread::Builder::new()
            .name("answerer".into())
            .spawn(move || server.serve())
            .map_err(|source| Error::Thread { source })?;
        Ok(Self { address, stop, counts, thread: Some(thread) })
    }

    fn join(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported on its own; there is nothing to add to it here.
            thread.join().unwrap_or_default();
        }
    }
}

impl Drop for Answerer {
    fn drop(&mut self) {
        self.join();
    }
}

struct Server {
    config: AnswererConfig,
    address: SocketAddr,
    socket: UdpSocket,
    capture: Option<Sender<Captured>>,
    stop: Arc<AtomicBool>,
    counts: Arc<SharedCounts>,
    rng: Pcg64Mcg,
    /// The virtual clock: all work so far is done then.
    busy_until: Nanos,
    seen: HashMap<u64, u8>,
    hasher: RandomState,
}

impl Server {
    fn serve(&mut self) {
        let mut buffer = vec![0; DATAGRAM_MAX];
        let mut answer = Vec::with_capacity(2048);
        while !self.stop.load(Relaxed) {
            let Some((len, source)) = self.next_datagram(&mut buffer) else { continue };
            let datagram = &buffer[..len];
            self.counts.received.fetch_add(1, Relaxed);
            if let Some(capture) = &self.capture {
                let captured = Captured { at: monotonic_ns(), source, datagram: datagram.to_vec() };
                // The receiver may have lost interest.
                capture.send(captured).unwrap_or_default();
            }
            let Some(request) = Request::parse(datagram) else {
                self.counts.not_understood.fetch_add(1, Relaxed);
                continue;
            };
            self.take(&request, source, &mut answer);
        }
    }

    /// The next datagram of the queue. When there is none, the server is idle until one comes, and its virtual clock
    /// moves on to then; otherwise the work goes on where the clock stands, so late wake-ups cost no capacity.
    fn next_datagram(&mut self, buffer: &mut [u8]) -> Option<(usize, SocketAddr)> {
        let from =
            |len: usize, source: Option<SocketAddrAny>| Some((len, SocketAddr::try_from(source?).ok()?));
        if let Ok(found) = recvfrom(&self.socket, &mut *buffer, RecvFlags::DONTWAIT) {
            return from(found.1, found.2);
        }
        let found = recvfrom(&self.socket, &mut *buffer, RecvFlags::empty());
        self.busy_until = self.busy_until.max(monotonic_ns());
        let (_, len, source) = found.ok()?;
        from(len, source)
    }

    fn take(&mut self, request: &Request<'_>, source: SocketAddr, answer: &mut Vec<u8>) {
        let counts = &self.counts;
        let (counter, mean_ns, status) = match request.method {
            b"INVITE" => (&counts.invite, self.config.service_ns, self.config.status),
            b"ACK" => (&counts.ack, self.config.in_dialog_ns, 0),
            b"BYE" => (&counts.bye, self.config.in_dialog_ns, self.config.bye_status),
            _ => (&counts.other, self.config.service_ns, self.config.status),
        };
        counter.fetch_add(1, Relaxed);
        if self.config.silent || status != 0 && self.is_to_be_dropped(request) {
            self.counts.ignored.fetch_add(1, Relaxed);
            return;
        }
        self.work(mean_ns);
        if status == 0 {
            return;
        }
        if self.config.ringing && request.method == b"INVITE" {
            request.answer(180, source, self.address, answer);
            self.send(answer, source);
        }
        request.answer(status, source, self.address, answer);
        if self.send(answer, source) {
            self.counts.answered.fetch_add(1, Relaxed);
        }
    }

    fn is_to_be_dropped(&mut self, request: &Request<'_>) -> bool {
        if self.config.drop_first == 0 {
            return false;
        }
        if self.seen.len() >= REMEMBERED_MAX {
            self.seen.clear();
        }
        let key = self.hasher.hash_one((request.method, request.top_via()));
        let copies = self.seen.entry(key).or_insert(0);
        let dropped = *copies < self.config.drop_first;
        *copies = copies.saturating_add(1);
        dropped
    }

    fn work(&mut self, mean_ns: u64) {
        let share: f64 = match self.config.service {
            Service::Fixed => 1.0,
            Service::Exponential => Exp1.sample(&mut self.rng),
        };
        self.busy_until += (mean_ns as f64 * share) as u64;
        let ahead_ns = self.busy_until.saturating_sub(monotonic_ns());
        if ahead_ns > AHEAD_NS_MAX {
            thread::sleep(Duration::from_nanos(ahead_ns));
        }
    }

    fn send(&self, answer: &[u8], to: SocketAddr) -> bool {
        let sent: io::Result<usize> = self.socket.send_to(answer, to);
        if sent.is_err() {
            self.counts.send_errors.fetch_add(1, Relaxed);
        }
        sent.is_ok()
    }
}

#[cfg(test)]
mod tests;
