//! Changes of a running instance are carried out one at a time, by the thread that has set it up and watches over it: BPF
//! objects belong to that thread. Whoever wants a change, such as a thread of the control socket, leaves a job and waits.
//!
//! A job takes milliseconds; what takes long, such as reading files, is done before. The workers wait for nobody.

use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use thiserror::Error;

use super::Instance;

/// Jobs that can wait; one more is refused.
const JOBS_MAX: usize = 8;
/// A job that was not done by then is no longer waited for. Longer than lists of millions of networks take to be read.
const PATIENCE: Duration = Duration::from_secs(60);

/// Something to do with the instance.
pub(super) type Job = Box<dyn FnOnce(&mut Instance) + Send>;

/// Why a job was not done.
#[derive(Debug, Error)]
pub(super) enum OwnerError {
    /// Too many at once.
    #[error("{JOBS_MAX} changes wait already; ask again later")]
    Busy,
    /// The instance ends, or does not get to it.
    #[error("the instance is ending, or hangs; its log says more")]
    Gone,
}

/// Leaves jobs.
#[derive(Debug, Clone)]
pub(super) struct Owner(Sender<Job>);

/// Both ends.
pub(super) fn owner() -> (Owner, Receiver<Job>) {
    let (jobs, next) = bounded(JOBS_MAX);
    (Owner(jobs), next)
}

impl Owner {
    /// Has the owner do this, and waits for what comes of it.
    ///
    /// # Errors
    ///
    /// When it was not done.
    pub(super) fn carry_out<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Instance) -> T + Send + 'static,
    ) -> Result<T, OwnerError> {
        let (done, outcome) = bounded(1);
        let job: Job = Box::new(move |instance| {
            // Who asked may have given up.
            let _told = done.send(job(instance));
        });
        self.0.try_send(job).map_err(|refused| match refused {
            crossbeam_channel::TrySendError::Full(_) => OwnerError::Busy,
            crossbeam_channel::TrySendError::Disconnected(_) => OwnerError::Gone,
        })?;
        outcome.recv_timeout(PATIENCE).map_err(|error| match error {
            RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected => OwnerError::Gone,
        })
    }
}
