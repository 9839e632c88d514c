//! The one clock: CLOCK_MONOTONIC in nanoseconds, the same that `bpf_ktime_get_ns` reads, so that arrival
//! times written by the XDP program and times taken here can be subtracted.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC (about 20 ns a call, through the vDSO).
#[must_use]
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // The monotonic clock starts at boot; neither part is ever negative.
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// The time of day, in nanoseconds since 1970, at which the clock stood at 0. 0 if the time of day was never set.
#[must_use]
pub fn epoch() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    let since_1970 = u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000);
    since_1970.saturating_add(time.tv_nsec.unsigned_abs()).saturating_sub(now())
}

/// Nanoseconds that the calling thread has run on a CPU.
#[must_use]
pub fn thread_cpu() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Sleeps until the clock reads `at_ns`; returns at once if that is past.
pub fn sleep_until(at_ns: u64) {
    let time = Timespec {
        tv_sec: (at_ns / 1_000_000_000).cast_signed(),
        tv_nsec: (at_ns % 1_000_000_000).cast_signed(),
    };
    // The only error that can come is EINTR: sleep on.
    while rustix::thread::clock_nanosleep_absolute(rustix::thread::ClockId::Monotonic, &time).is_err() {}
}
