//! Giving up privileges: what a thread of a running instance may still do is what any user may.
//!
//! Capabilities belong to threads, not to processes, and the kernel lets nobody take them from another thread. So each
//! thread renounces them itself: those that never need any as the first thing that they do, the one that sets up when it
//! is done. Why none is needed afterwards:
//!
//! | what a run does | why it may |
//! |---|---|
//! | reads and writes BPF maps, gates and counters | by descriptors that are open; only making maps and loading programs needs CAP_BPF (`__sys_bpf`, kernel/bpf/syscall.c, since Linux 5.19) |
//! | AF_XDP rings, packet socket, side door | sockets that are open; CAP_NET_RAW is asked for when one is made |
//! | asks about the server's sockets (`sock_diag`), the host's addresses and devices | netlink answers anybody who only asks |
//! | locked memory of the frames | is charged when the UMEM is registered |
//! | detaches the programs | by closing descriptors |
//! | removes the hand-off device | it may not: that is left to a process of its own (`run::janitor`) |
//!
//! From then on no program that such a thread starts can have more (`no_new_privs`).

use caps::{CapSet, Capability, CapsHashSet};
use thiserror::Error;

/// Privileges could not be given up.
#[derive(Debug, Error)]
#[error("cannot give up privileges: {0}; a seccomp filter must allow capset and prctl")]
pub struct CapabilityError(String);

/// Renounces every capability of the calling thread, for ever.
///
/// # Errors
///
/// When the system refuses, which only a seccomp filter makes it do.
pub fn renounce_all() -> Result<(), CapabilityError> {
    keep_only(&CapsHashSet::new())
}

/// The same as the first thing that a thread of the instance does. A refusal is said and no more: it cannot but concern all
/// threads, and ends the set-up.
pub(crate) fn renounce_all_of_thread() {
    if let Err(error) = renounce_all() {
        tracing::error!("{error}");
    }
}

/// Renounces all capabilities of the calling thread but one, if it has that.
///
/// # Errors
///
/// As [`renounce_all`].
pub fn renounce_all_but(kept: Capability) -> Result<(), CapabilityError> {
    let has = caps::has_cap(None, CapSet::Permitted, kept).map_err(refused)?;
    keep_only(&has.then_some(kept).into_iter().collect())
}

fn keep_only(kept: &CapsHashSet) -> Result<(), CapabilityError> {
    rustix::thread::set_no_new_privs(true).map_err(|errno| CapabilityError(errno.to_string()))?;
    // Needs CAP_SETPCAP. Without, `no_new_privs` has the same effect: nothing can be gained by starting a program.
    let _refused = caps::clear(None, CapSet::Bounding);
    caps::clear(None, CapSet::Ambient).map_err(refused)?;
    caps::clear(None, CapSet::Inheritable).map_err(refused)?;
    caps::set(None, CapSet::Effective, kept).map_err(refused)?;
    caps::set(None, CapSet::Permitted, kept).map_err(refused)
}

fn refused(error: caps::errors::CapsError) -> CapabilityError {
    CapabilityError(error.to_string())
}

#[cfg(test)]
mod tests {
    use caps::{CapSet, Capability};

    use super::{renounce_all, renounce_all_but};

    /// The capability words of the calling thread: inheritable, permitted, effective, ambient; and no_new_privs.
    fn words() -> [u64; 5] {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("status");
        ["CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs"].map(|name| {
            let line =
                status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t")).expect(name);
            u64::from_str_radix(line.trim(), 16).expect("a hexadecimal number")
        })
    }

    #[test]
    fn a_thread_that_renounces_has_nothing_and_the_others_keep_theirs() {
        let before = words();
        let inside = std::thread::spawn(|| {
            renounce_all().expect("renounces");
            words()
        });
        assert_eq!(inside.join().expect("thread"), [0, 0, 0, 0, 1]);
        assert_eq!(words(), before);
    }

    #[test]
    fn one_capability_can_be_kept_and_what_is_not_there_cannot() {
        let has = caps::has_cap(None, CapSet::Permitted, Capability::CAP_NET_ADMIN).expect("read");
        let inside = std::thread::spawn(|| {
            renounce_all_but(Capability::CAP_NET_ADMIN).expect("renounces");
            let kept = words();
            renounce_all().expect("renounces");
            renounce_all_but(Capability::CAP_NET_ADMIN).expect("nothing to keep is no error");
            (kept, words())
        });
        let word = if has { Capability::CAP_NET_ADMIN.bitmask() } else { 0 };
        assert_eq!(inside.join().expect("thread"), ([0, word, word, 0, 1], [0, 0, 0, 0, 1]));
    }
}
