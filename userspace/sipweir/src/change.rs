//! What a reload changes at a running worker, and how it gets there.
//!
//! ```text
//!   control thread ── put ──▶ [ one place ] ── take, between two turns ──▶ worker
//!                  ◀── taken ── [ one place ] ◀── give_back: what was replaced
//! ```
//!
//! The control thread makes everything, so that nothing can fail at the worker, and nothing is allocated there. The worker
//! swaps what it has for what comes and gives the rest back, to be freed where that takes nobody's time; so the control
//! thread also learns that the change holds. While there is none a turn reads one flag.
//!
//! Not here: what can change at all (`config::keys`), and in which order who is told (`run::reload`).

use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_queue::ArrayQueue;
use overload::{AnyGate, CreditConfig};

use crate::config::Monitored;
use crate::limits::CapTable;
use crate::monitor::Monitor;
use crate::privileged::Privileged;
use crate::reply_policy::ReplyRules;

/// What of a lane can change.
#[derive(Debug)]
pub struct LaneChange {
    /// Its levels and its share; the state is the old one's.
    pub gate: AnyGate,
    /// How short the server's queue is kept, and when it is taken for gone.
    pub credit: CreditConfig,
    /// What those that are shed are told.
    pub reply: ReplyRules,
    /// How much a source may send with privilege.
    pub caps: CapTable,
    /// Longest wait of an original.
    pub max_wait_ns: u64,
    /// Longest wait of a copy.
    pub copy_wait_ns: u64,
    /// Whose packets are only watched.
    pub monitored: Monitored,
    /// The line that would wait, if originals are only watched; one that was there already goes on.
    pub monitor: Option<Monitor>,
}

/// What of a worker can change.
#[derive(Debug)]
pub struct WorkerChange {
    /// For each lane, in their order.
    pub lanes: Vec<LaneChange>,
    /// Whom the configuration exempts from the gate.
    pub privileged: Privileged,
    /// Spin instead of sleeping.
    pub spin: bool,
    /// Drop what user space finds to be no SIP.
    pub drop_not_sip: bool,
}

/// The place between control thread and worker.
#[derive(Debug)]
pub struct ChangeBox {
    is_waiting: AtomicBool,
    next: ArrayQueue<Box<WorkerChange>>,
    done: ArrayQueue<Box<WorkerChange>>,
}

impl Default for ChangeBox {
    fn default() -> Self {
        Self { is_waiting: AtomicBool::new(false), next: ArrayQueue::new(1), done: ArrayQueue::new(1) }
    }
}

impl ChangeBox {
    /// Leaves a change, in the place of one that was not taken yet.
    pub fn put(&self, change: WorkerChange) {
        drop(self.next.force_push(Box::new(change)));
        self.is_waiting.store(true, Ordering::SeqCst);
    }

    /// Whether a change waits to be taken.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::SeqCst)
    }

    /// The worker: takes the change that waits.
    #[must_use]
    pub fn take(&self) -> Option<Box<WorkerChange>> {
        // The flag first: a change that comes now is seen by the next look at the latest.
        self.is_waiting.store(false, Ordering::SeqCst);
        self.next.pop()
    }

    /// The worker: gives back what was replaced.
    pub fn give_back(&self, replaced: Box<WorkerChange>) {
        // Of two that nobody has fetched only the last tells anything. The other is freed here, once in a blue moon.
        drop(self.done.force_push(replaced));
    }

    /// What the last change that was taken has replaced, once.
    #[must_use]
    pub fn taken(&self) -> Option<Box<WorkerChange>> {
        self.done.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::{ChangeBox, WorkerChange};
    use crate::privileged::Privileged;

    fn change(spin: bool) -> WorkerChange {
        WorkerChange { lanes: Vec::new(), privileged: Privileged::default(), spin, drop_not_sip: false }
    }

    #[test]
    fn only_the_newest_change_is_taken_and_it_is_known_when() {
        let changes = ChangeBox::default();
        assert!(!changes.is_waiting() && changes.take().is_none());
        changes.put(change(false));
        changes.put(change(true));
        assert!(changes.is_waiting() && changes.taken().is_none());
        let taken = changes.take().expect("it waits");
        assert!(taken.spin && !changes.is_waiting());
        changes.give_back(taken);
        assert!(changes.taken().is_some_and(|replaced| replaced.spin) && changes.taken().is_none());
    }
}
