//! How long BPF programs run, as the kernel counts it (`BPF_ENABLE_STATS`).
//!
//! Counting costs each run two readings of the clock, so it is on for measurements of this alone. It ends with the
//! descriptor, at the latest with the process. The one hand-written system call of this crate; nothing else belongs here.

#![allow(unsafe_code, reason = "libbpf-rs 0.25 has no wrapper for bpf_enable_stats")]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

use anyhow::Context as _;
use libbpf_rs::query::ProgInfoIter;

/// Run time is counted while this lives.
#[derive(Debug)]
pub(crate) struct Counting {
    _descriptor: OwnedFd,
}

impl Counting {
    pub(crate) fn start() -> anyhow::Result<Self> {
        // SAFETY: the call takes a number and returns a descriptor or a negative error.
        let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        if fd < 0 {
            return Err(io::Error::from_raw_os_error(-fd))
                .context("cannot have the kernel time BPF programs");
        }
        // SAFETY: the call made this descriptor for us, and nobody else has it.
        Ok(Self { _descriptor: unsafe { OwnedFd::from_raw_fd(fd) } })
    }
}

/// What a program has run since it was loaded, while counting was on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunTime {
    pub(crate) time: Duration,
    pub(crate) runs: u64,
}

/// The sum over all programs of that name. Names are cut to 15 characters by the kernel.
pub(crate) fn run_time_of(name: &str) -> RunTime {
    let ours = ProgInfoIter::default().filter(|info| info.name.to_str() == Ok(name));
    ours.fold(RunTime::default(), |sum, info| RunTime {
        time: sum.time + Duration::from_nanos(info.run_time_ns),
        runs: sum.runs + info.run_cnt,
    })
}

impl RunTime {
    /// Nanoseconds a run since an earlier look; none if it did not run.
    pub(crate) fn ns_per_run_since(&self, earlier: &Self) -> Option<f64> {
        let (time, runs) = (self.time.checked_sub(earlier.time)?, self.runs.checked_sub(earlier.runs)?);
        (runs > 0).then(|| time.as_nanos() as f64 / runs as f64)
    }
}
