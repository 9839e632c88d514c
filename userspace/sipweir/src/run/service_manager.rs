//! What the service manager is told: ready, stopping, and that all is alive. Without one (`NOTIFY_SOCKET`) nobody is told.

use sd_notify::NotifyState;

use crate::counters::WorkerCounters;

/// Tells that the services are guarded.
pub(super) fn ready(interface: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(&format!("guarding {interface}"))]);
}

/// Tells that a changed configuration is being taken over; [`ready`] follows.
pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!(%error, "cannot tell the service manager about the reload"),
    }
}

/// Tells that the end has begun.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// A manager that does not listen is no reason to stop guarding.
fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "cannot tell the service manager how things are");
    }
}

/// The watchdog of the service manager: fed when every worker has turned since the last time. A worker without packets turns
/// once a second, so `WatchdogSec=` must be some seconds.
#[derive(Debug)]
pub(super) struct Watchdog {
    is_on: bool,
    turns: Vec<u64>,
}

impl Watchdog {
    /// On if the manager has asked for it.
    pub(super) fn new() -> Self {
        Self { is_on: sd_notify::watchdog_enabled().is_some(), turns: Vec::new() }
    }

    /// Looks at the workers.
    pub(super) fn look<'a>(&mut self, workers: impl Iterator<Item = &'a WorkerCounters>) {
        if self.is_on && self.all_have_turned(workers.map(|counters| counters.turns.get()).collect()) {
            tell(&[NotifyState::Watchdog]);
        }
    }

    fn all_have_turned(&mut self, turns: Vec<u64>) -> bool {
        let turned = turns.iter().enumerate().all(|(worker, now)| self.turns.get(worker) != Some(now));
        if turned {
            self.turns = turns;
        }
        turned
    }
}

#[cfg(test)]
mod tests {
    use super::Watchdog;

    #[test]
    fn the_watchdog_is_fed_only_when_every_worker_has_turned() {
        let mut watchdog = Watchdog { is_on: true, turns: Vec::new() };
        assert!(watchdog.all_have_turned(vec![1, 1]));
        assert!(!watchdog.all_have_turned(vec![1, 2]), "the first hangs");
        assert!(!watchdog.all_have_turned(vec![1, 3]));
        assert!(watchdog.all_have_turned(vec![2, 3]));
        assert!(!watchdog.all_have_turned(vec![2, 3]));
    }
}
