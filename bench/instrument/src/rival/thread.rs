//! A rival's thread: on its core until it is dropped, with one counter that others read meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use anyhow::Context as _;

use crate::stage::pin;

/// What the thread sees of its owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    stop: Arc<AtomicBool>,
    counted: Arc<AtomicU64>,
    tid: Arc<AtomicU64>,
}

impl Shared {
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Counts packets; for the one thread that owns this.
    pub(crate) fn count(&self, packets: usize) {
        self.counted.fetch_add(packets as u64, Ordering::Relaxed);
    }
}

/// A running thread; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Thread {
    shared: Shared,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Thread {
    /// Starts it. `run` is to return soon after [`Shared::stopped`] has become true.
    pub(crate) fn start(
        name: &str,
        core: usize,
        run: impl FnOnce(&Shared) -> anyhow::Result<()> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let shared = Shared::default();
        let its = shared.clone();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            pin(core)?;
            let tid = rustix::thread::gettid().as_raw_nonzero().get();
            its.tid.store(u64::from(tid.cast_unsigned()), Ordering::Release);
            run(&its)
        });
        let thread = thread.with_context(|| format!("cannot start the thread {name}"))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Packets so far.
    pub(crate) fn counted(&self) -> u64 {
        self.shared.counted.load(Ordering::Relaxed)
    }

    /// Nanoseconds that it has run.
    pub(crate) fn task_clock_ns(&self) -> u64 {
        let tid = self.shared.tid.load(Ordering::Acquire);
        let ran = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).unwrap_or_default();
        ran.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
    }

    /// Ends it, and says what went wrong in it.
    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        self.join()
    }

    fn join(&mut self) -> anyhow::Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(error),
            Some(Err(_panic)) => anyhow::bail!("a rival's thread has panicked"),
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // Whoever wants to know the error calls `end`.
        let _ended = self.join();
    }
}
