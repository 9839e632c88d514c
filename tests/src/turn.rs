//! Taking turns: tests that measure rates must not share the cores.

use std::sync::{Mutex, MutexGuard, PoisonError};

static MACHINE: Mutex<()> = Mutex::new(());

/// The machine for oneself, against the other tests of this binary that ask for it. Held until dropped.
pub fn alone() -> MutexGuard<'static, ()> {
    // A test that panicked while it had its turn says nothing about the next one.
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}
