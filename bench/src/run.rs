//! The loop of the caller: read this file first. It moves time and datagrams between the sockets and the pure
//! [`Engine`], and decides nothing but when to sleep.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::clock::{Nanos, monotonic_ns, thread_cpu_ns};
use crate::config::CallerConfig;
use crate::engine::Engine;
use crate::error::Error;
use crate::report::Report;
use crate::sockets::{READS_MAX, Sockets};
use crate::tally::Tally;
use crate::template::Method;

/// Longest sleep: how late a stop flag is noticed and progress is published.
const SLEEP_NS_MAX: Nanos = 20_000_000;
/// Progress is published this often; more often would only move cache lines.
const PUBLISH_NS: Nanos = 10_000_000;
/// Largest UDP payload.
const DATAGRAM_MAX: usize = 65_535;

/// Offers what `config` says, on the calling thread and in its network namespace, until all is done or `stop` is set.
///
/// # Errors
/// A setting that contradicts, a socket that cannot be opened, a target without a route.
pub fn run(config: &CallerConfig, stop: &AtomicBool, progress: &Progress) -> Result<Report, Error> {
    config.check()?;
    if let Some(core) = config.core {
        pin(core)?;
    }
    let sockets = Sockets::open(config)?;
    let mut outbox = &sockets;
    let mut ready = Vec::with_capacity(usize::from(config.sources.sockets));
    let mut buffer = vec![0; DATAGRAM_MAX];
    let cpu_start = thread_cpu_ns();
    let start = monotonic_ns();
    let mut engine = Engine::new(config, sockets.addresses(), start);
    let mut now = start;
    let mut publish_at = start;

    while !engine.finished(now) && !stop.load(Relaxed) {
        let more = engine.turn(now, &mut outbox);

        now = monotonic_ns();
        if now >= publish_at {
            progress.publish(&engine.snapshot());
            publish_at = now + PUBLISH_NS;
        }

        let sleep_ns = if more || config.wake_interval_ns == 0 {
            0
        } else {
            engine.next_wake(now + SLEEP_NS_MAX).saturating_sub(now).max(config.wake_interval_ns)
        };
        sockets.wait(sleep_ns, &mut ready)?;

        now = monotonic_ns();
        for &socket in &ready {
            for _ in 0..READS_MAX {
                let Some(len) = sockets.receive(socket, &mut buffer) else { break };
                engine.receive(now, &buffer[..len], &mut outbox);
            }
        }
    }

    progress.publish(&engine.snapshot());
    Ok(engine.into_report(monotonic_ns(), thread_cpu_ns() - cpu_start))
}

fn pin(core: usize) -> Result<(), Error> {
    let failed = |source| Error::Pin { core, source };
    if core >= CpuSet::MAX_CPU {
        return Err(failed(std::io::ErrorKind::InvalidInput.into()));
    }
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).map_err(|errno| failed(errno.into()))
}

/// Counts of a running caller, first requests only but for `copies`, `sent` and `received`. Written by the caller,
/// read by anyone at any time; each is right by itself, together they may be some microseconds apart.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "as in the report")]
pub struct Progress {
    pub offered: AtomicU64,
    pub answered: AtomicU64,
    pub answered_in_t1: AtomicU64,
    pub rejected: AtomicU64,
    pub failed: AtomicU64,
    pub copies: AtomicU64,
    pub sent: AtomicU64,
    pub received: AtomicU64,
    /// Calls that are not over.
    pub live: AtomicU64,
}

/// The values of one moment for [`Progress`].
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Snapshot {
    pub(crate) offered: u64,
    pub(crate) answered: u64,
    pub(crate) answered_in_t1: u64,
    pub(crate) rejected: u64,
    pub(crate) failed: u64,
    pub(crate) copies: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) live: u64,
}

impl Snapshot {
    pub(crate) fn new(tally: &Tally, live: usize) -> Self {
        let mut snapshot = Self {
            sent: tally.wire.sent,
            received: tally.wire.received,
            live: live as u64,
            ..Self::default()
        };
        for method in Method::ALL {
            let total = &tally.of(method).total;
            snapshot.copies += total.copies;
            if method != Method::Bye {
                snapshot.offered += total.offered;
                snapshot.answered += total.answered;
                snapshot.answered_in_t1 += total.answered_in_t1;
                snapshot.rejected += total.rejected;
                snapshot.failed += total.failed;
            }
        }
        snapshot
    }
}

impl Progress {
    fn publish(&self, snapshot: &Snapshot) {
        self.offered.store(snapshot.offered, Relaxed);
        self.answered.store(snapshot.answered, Relaxed);
        self.answered_in_t1.store(snapshot.answered_in_t1, Relaxed);
        self.rejected.store(snapshot.rejected, Relaxed);
        self.failed.store(snapshot.failed, Relaxed);
        self.copies.store(snapshot.copies, Relaxed);
        self.sent.store(snapshot.sent, Relaxed);
        self.received.store(snapshot.received, Relaxed);
        self.live.store(snapshot.live, Relaxed);
    }
}
