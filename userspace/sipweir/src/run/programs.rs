//! What the BPF programs of an instance cost, as the kernel measures it while it is asked to.
//!
//! The kernel times programs only while `kernel.bpf_stats_enabled` is 1 or somebody holds the descriptor of
//! `BPF_ENABLE_STATS` (include/uapi/linux/bpf.h): it costs each run two clock readings. The numbers are read from
//! `/proc/self/fdinfo`, which asks for no privilege, so they stay readable when all capabilities were given up.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::status;

/// A program of this instance.
#[derive(Debug)]
pub(super) struct Program {
    name: &'static str,
    descriptor: OwnedFd,
}

impl Program {
    /// Holds on to a program, so that it can be asked after.
    ///
    /// # Errors
    ///
    /// When there are too many descriptors.
    pub(super) fn new(name: &'static str, descriptor: BorrowedFd<'_>) -> std::io::Result<Self> {
        Ok(Self { name, descriptor: descriptor.try_clone_to_owned()? })
    }

    /// Its name, and its cost if the kernel has ever measured it.
    pub(super) fn cost(&self) -> Option<(String, status::ProgramCost)> {
        let path = format!("/proc/self/fdinfo/{}", self.descriptor.as_raw_fd());
        let cost = cost_in(&std::fs::read_to_string(path).ok()?)?;
        Some((self.name.to_owned(), cost))
    }
}

/// Reads the two numbers out of the lines of an fdinfo (`bpf_prog_show_fdinfo` in kernel/bpf/syscall.c).
fn cost_in(text: &str) -> Option<status::ProgramCost> {
    let number = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        line?.trim().parse::<u64>().ok()
    };
    let (run_ns, runs) = (number("run_time_ns")?, number("run_cnt")?);
    (runs > 0).then_some(status::ProgramCost { runs, run_s: run_ns as f64 / 1e9 })
}

#[cfg(test)]
mod tests {
    use super::cost_in;

    #[test]
    fn a_program_that_was_never_timed_has_no_cost() {
        let text = "pos:\t0\nprog_type:\t6\nrun_time_ns:\t0\nrun_cnt:\t0\nrecursion_misses:\t0\n";
        assert_eq!(cost_in(text), None);
        assert_eq!(cost_in("pos:\t0\nflags:\t02\n"), None, "no program");
    }

    #[test]
    fn time_and_runs_are_read() {
        let text = "prog_tag:\tabc\nrun_time_ns:\t2500000000\nrun_cnt:\t7\nverified_insns:\t9\n";
        let cost = cost_in(text).expect("timed");
        assert_eq!((cost.runs, cost.run_s), (7, 2.5));
    }
}
