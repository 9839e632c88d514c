//! The two clocks: monotonic time for everything measured, and the thread's own processor time.
//!
//! Only the I/O shell reads them; the pure files take the time as a parameter.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub type Nanos = u64;

/// Nanoseconds in a second.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// Now, on the clock that all measurements use.
#[must_use]
pub fn monotonic_ns() -> Nanos {
    read(ClockId::Monotonic)
}

/// Processor time that the calling thread has used so far.
pub(crate) fn thread_cpu_ns() -> Nanos {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    // Both clocks start at zero and never run backwards.
    time.tv_sec.unsigned_abs() * SECOND_NS + time.tv_nsec.unsigned_abs()
}
