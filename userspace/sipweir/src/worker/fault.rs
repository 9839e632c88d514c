//! A fault that tests ask for: nothing else makes a worker panic, and what becomes of calls then must be tried. Only builds with
//! assertions look.

use crate::counters::WorkerCounters;

/// Set to `worker_panic`, each worker panics after some time of work.
pub(super) const VARIABLE: &str = "SIPWEIR_FAULT";
/// Turns until then: a second or two of the load of a test.
const TURNS: u64 = 1000;

/// Whether it is time.
pub(super) fn is_due(counters: &WorkerCounters) -> bool {
    counters.turns.get() >= TURNS && std::env::var_os(VARIABLE).is_some_and(|fault| fault == "worker_panic")
}
