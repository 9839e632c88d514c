//! The thread of a capture: from the workers' buffers and the XDP program's samples to the client.
//!
//! It looks every [`NAP`] and never makes anybody wait: who is slow loses packets, which are counted. When the client has gone,
//! takes longer than [`CLIENT_TIME`] for what it is sent, or has all that it asked for, the capture ends, and so does what it costs.

use std::cell::Cell;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sip::{Class, Reason};
use xdp_prog::Sample;

use super::filter::{Bits, Fate, Filter};
use super::kernel::Samples;
use super::live::{BUFFERS, Packet, Session};
use super::record::{Line, PROGRESS, Record};
use crate::capabilities;
use crate::clock;
use crate::control::Client;
use crate::counters::WorkerCounters;
use crate::status;

/// How often the thread looks. Longer: more is lost in bursts.
const NAP: Duration = Duration::from_millis(10);
/// A client that does not take what is there within this time is cut off.
const CLIENT_TIME: Duration = Duration::from_secs(5);
/// How long a worker may take to see that a capture has ended: it turns once a second at least.
const LAST_LOOK: Duration = Duration::from_secs(3);
/// Packets of the workers, and as many of the XDP program, that are sent between two looks at the clock: as many as there can be, so
/// that the last round leaves none of what came before the end.
const ROUND: usize = BUFFERS;

/// What a running instance has for captures.
#[derive(Debug)]
pub struct Capturing {
    /// The guarded interface.
    pub interface: String,
    /// Names of the services, in order.
    pub services: Vec<String>,
    /// For each service index of the XDP program the service that it belongs to.
    pub lane_of_service: Vec<u8>,
    /// In queue order.
    pub workers: Vec<Arc<WorkerCounters>>,
    /// What the XDP program drops by itself.
    pub samples: Samples,
    /// There is one at a time.
    pub now: Now,
    /// Set when the instance ends.
    pub stop: Arc<AtomicBool>,
}

/// The capture that is under way, if there is one.
#[derive(Debug, Default)]
pub struct Now(Mutex<Option<Running>>);

/// What is told of it.
#[derive(Debug)]
struct Running {
    filter: Filter,
    begun: Instant,
    session: Arc<Session>,
    sent: Arc<AtomicU64>,
}

impl Now {
    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When a capture is over by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// After so many packets.
    pub count: Option<u64>,
    /// After so long.
    pub duration: Option<Duration>,
}

impl Capturing {
    /// Starts a capture for a client, on a thread of its own, or tells it why not.
    ///
    /// # Errors
    ///
    /// When the client has gone.
    pub fn start(
        self: &Arc<Self>,
        filter: &Filter,
        limits: Limits,
        mut client: Client,
    ) -> std::io::Result<()> {
        let names: Vec<&str> = self.services.iter().map(String::as_str).collect();
        let bits = match filter.bits(&names) {
            Ok(bits) => bits,
            Err(why) => return client.refuse(why),
        };
        let Some(active) = Active::begin(self, filter, bits) else {
            return client.refuse("another capture is under way, and there is one at a time; end it first");
        };
        let thread = std::thread::Builder::new().name("capture-live".into()).spawn(move || {
            capabilities::renounce_all_of_thread();
            // A client that went away is no event worth a word.
            let _gone = active.run(limits, client);
        });
        thread.map(|_detached| ())
    }

    /// The capture that is under way, for the status.
    #[must_use]
    pub fn status(&self) -> Option<status::Capturing> {
        let now = self.now.lock();
        let Running { filter, begun, session, sent } = now.as_ref()?;
        Some(status::Capturing {
            running_s: begun.elapsed().as_secs_f64(),
            verdict: filter.verdict.map(|fate| fate.name().to_owned()),
            reason: filter.reason.clone(),
            class: filter.class.clone(),
            service: filter.service.clone(),
            one_in: filter.one_in,
            sent_so_far: sent.load(Ordering::Relaxed),
            lost_so_far: session.lost() + self.samples.lost(),
        })
    }

    /// Bits by service index of the XDP program.
    fn kernel_services(&self, services: u64) -> u64 {
        let wanted = |lane: &u8| services >> lane & 1;
        self.lane_of_service.iter().enumerate().map(|(index, lane)| wanted(lane) << index).sum()
    }

    fn service(&self, lane: usize) -> String {
        self.services.get(lane).cloned().unwrap_or_default()
    }
}

/// A capture that has begun; dropping it ends it.
struct Active {
    capturing: Arc<Capturing>,
    bits: Bits,
    session: Arc<Session>,
    sent: Arc<AtomicU64>,
    ended: Cell<bool>,
}

impl Active {
    /// `None` while there is another.
    fn begin(capturing: &Arc<Capturing>, filter: &Filter, bits: Bits) -> Option<Self> {
        let mut now = capturing.now.lock();
        if now.is_some() {
            return None;
        }
        let (session, sent) = (Arc::new(Session::new(bits)), Arc::default());
        let (filter, begun) = (filter.clone(), Instant::now());
        *now = Some(Running { filter, begun, session: Arc::clone(&session), sent: Arc::clone(&sent) });
        for worker in &capturing.workers {
            worker.capture_point.set(Some(Arc::clone(&session)));
        }
        Some(Self { capturing: Arc::clone(capturing), bits, session, sent, ended: Cell::new(false) })
    }

    fn run(&self, limits: Limits, mut client: Client) -> std::io::Result<()> {
        let Self { capturing, bits, session, .. } = self;
        let services = capturing.kernel_services(bits.services);
        let mut reader = match capturing.samples.switch_on(*bits, services) {
            Ok(reader) => reader,
            Err(error) => return client.refuse(format!("cannot read what the XDP program drops: {error:#}")),
        };
        client.grant(CLIENT_TIME);
        client.write_all(&Line::Begun { interface: capturing.interface.clone() }.bytes()?)?;
        let begun = Instant::now();
        let (mut told, mut sent) = (begun, 0);
        let lost = || session.lost() + capturing.samples.lost();
        loop {
            let is_over = capturing.stop.load(Ordering::Acquire)
                || limits.duration.is_some_and(|duration| begun.elapsed() >= duration);
            // What came before the end is sent.
            let room = limits.count.map_or(u64::MAX, |count| count - sent);
            let mut round = Round { capturing, epoch_ns: clock::epoch(), room, out: Vec::new() };
            for packet in std::iter::from_fn(|| session.packets.next()).take(ROUND) {
                round.of_worker(&packet)?;
                session.packets.give_back(packet);
            }
            reader.drain(ROUND, |sample| round.of_kernel(&sample))?;
            let Round { out, room: left, .. } = round;
            sent += room - left;
            self.sent.store(sent, Ordering::Relaxed);
            client.grant(CLIENT_TIME);
            client.write_all(&out)?;
            if is_over || limits.count == Some(sent) {
                // Who is told may begin the next one at once.
                self.end();
                return client.write_all(&Line::End { lost: lost() }.bytes()?);
            }
            if told.elapsed() >= PROGRESS {
                told = Instant::now();
                client.write_all(&Line::Progress { lost: lost() }.bytes()?)?;
            }
            if out.is_empty() {
                std::thread::sleep(NAP);
            }
        }
    }
}

impl Active {
    /// From now on it costs nothing, and there may be another one.
    fn end(&self) {
        if self.ended.replace(true) {
            return;
        }
        self.capturing.samples.switch_off();
        for worker in &self.capturing.workers {
            worker.capture_point.set(None);
        }
        *self.capturing.now.lock() = None;
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.end();
        let session = &self.session;
        // The workers let go of the session, and whoever is last frees its memory: not a worker.
        let patience = Instant::now() + LAST_LOOK;
        while Arc::strong_count(session) > 1 && Instant::now() < patience {
            std::thread::sleep(NAP);
        }
    }
}

/// What is sent at once.
struct Round<'a> {
    capturing: &'a Capturing,
    /// The time of day may be set while it runs.
    epoch_ns: u64,
    /// Packets that may still be sent.
    room: u64,
    out: Vec<u8>,
}

impl Round<'_> {
    fn of_worker(&mut self, packet: &Packet) -> std::io::Result<()> {
        let record = Record {
            at_ns: self.epoch_ns.saturating_add(packet.at_ns),
            len: packet.kept().len(),
            packet_len: packet.len,
            verdict: Fate::of_outcome(packet.outcome).name().to_owned(),
            reason: packet.outcome.name().to_owned(),
            class: packet.class.name().to_owned(),
            service: self.capturing.service(packet.lane),
            by: format!("worker {}", packet.queue),
        };
        self.send(record, packet.kept())
    }

    fn of_kernel(&mut self, sample: &Sample<'_>) -> std::io::Result<()> {
        let reason = Reason::from_u8(sample.reason).unwrap_or(Reason::Unset);
        let lane = self.capturing.lane_of_service.get(usize::from(sample.service));
        let record = Record {
            at_ns: self.epoch_ns.saturating_add(sample.at_ns),
            len: sample.bytes.len(),
            packet_len: usize::from(sample.packet_len),
            verdict: Fate::of_drop(reason).name().to_owned(),
            reason: reason.name().to_owned(),
            class: Class::from_u8(sample.class).map_or("unknown", Class::name).to_owned(),
            service: lane.map_or_else(String::new, |lane| self.capturing.service(usize::from(*lane))),
            by: "xdp".to_owned(),
        };
        self.send(record, sample.bytes)
    }

    fn send(&mut self, record: Record, bytes: &[u8]) -> std::io::Result<()> {
        if self.room > 0 {
            self.room -= 1;
            self.out.extend(Line::Packet(record).bytes()?);
            self.out.extend(bytes);
        }
        Ok(())
    }
}
