//! Rousing a worker that sleeps in poll(2), without a system call while it is awake.
//!
//! The worker announces that it is about to sleep ([`Wake::prepare`]), looks once more for work, then
//! sleeps; whoever makes work calls [`Wake::notify`], which writes to the eventfd only if the announcement
//! stands. Both sides order their two steps with sequentially consistent operations, so either the worker
//! sees the work or the other side sees the announcement.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd with a flag that says whether anybody sleeps on it.
#[derive(Debug)]
pub struct Wake {
    fd: OwnedFd,
    asleep: AtomicBool,
}

impl Wake {
    /// Makes one.
    ///
    /// # Errors
    ///
    /// When the system gives no eventfd (out of file descriptors).
    pub fn new() -> std::io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { fd, asleep: AtomicBool::new(false) })
    }

    /// The worker: announces sleep. Work made before this call must be looked for again after it.
    pub fn prepare(&self) {
        self.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The worker: is awake again; forgets pending notifications.
    ///
    /// It always reads, since a notifier that took an earlier announcement may write only now: skipping the read
    /// because nobody took *this* announcement would leave the eventfd readable, and poll would never sleep again.
    pub fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
        let mut count = [0; 8];
        let _nothing_pending = rustix::io::read(&self.fd, &mut count);
    }

    /// Anybody: there is work. Cheap while the worker is awake.
    pub fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            // The counter cannot overflow: one write per announcement.
            let _written = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::{Ordering, Wake};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn readable(wake: &Wake) -> bool {
        let mut fds = [PollFd::new(wake, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("poll") > 0
    }

    #[test]
    fn a_notification_while_awake_costs_no_wake_up() {
        let wake = Wake::new().expect("eventfd");
        wake.notify();
        assert!(!readable(&wake));
    }

    #[test]
    fn a_notification_after_the_announcement_ends_the_sleep_once() {
        let wake = Wake::new().expect("eventfd");
        wake.prepare();
        wake.notify();
        wake.notify();
        assert!(readable(&wake));
        wake.awake();
        assert!(!readable(&wake));
        wake.notify();
        assert!(!readable(&wake));
    }

    #[test]
    fn a_notifier_that_writes_late_does_not_keep_the_worker_awake_for_ever() {
        let wake = Wake::new().expect("eventfd");
        // It took the announcement, and the worker woke for another reason before it wrote.
        wake.prepare();
        wake.asleep.store(false, Ordering::SeqCst);
        wake.awake();
        rustix::io::write(&wake.fd, &1u64.to_ne_bytes()).expect("write");
        wake.prepare();
        assert!(readable(&wake));
        wake.awake();
        wake.prepare();
        assert!(!readable(&wake));
    }

    #[test]
    fn an_announcement_without_notification_is_taken_back() {
        let wake = Wake::new().expect("eventfd");
        wake.prepare();
        wake.awake();
        wake.notify();
        assert!(!readable(&wake));
    }
}
