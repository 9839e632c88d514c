//! What can go wrong, by what the operator must change.

use std::io;

/// Errors of loading, attaching and reading the program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting that cannot be meant.
    #[error("{0}")]
    Settings(String),

    /// The process may not do this.
    #[error(
        "{action}: not permitted; the process needs the capabilities CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON (setcap \
             cap_bpf,cap_net_admin,cap_perfmon+ep, or AmbientCapabilities= in its unit), in the initial user namespace"
    )]
    NotPermitted {
        /// What was tried.
        action: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },

    /// There is no such interface.
    #[error("interface {ifindex} does not exist (any more)")]
    NoInterface {
        /// Its index.
        ifindex: i32,
    },

    /// Another program sits on the interface.
    #[error(
        "interface {ifindex}: another XDP program is attached ({program}); detach it first (`ip link set dev … xdp \
             off`, or stop the process that holds its link), two programs cannot share an interface"
    )]
    OtherProgram {
        /// Index of the interface.
        ifindex: i32,
        /// Identifier and name as far as the kernel tells.
        program: String,
    },

    /// The driver cannot run XDP programs, or not with this MTU or channel set-up.
    #[error(
        "interface {ifindex}: its driver refuses XDP in {mode} mode (MTU too large for one page, LRO, or no support \
             in the driver); choose mode `auto` or `generic`, or change the interface"
    )]
    ModeRefused {
        /// Index of the interface.
        ifindex: i32,
        /// The mode that was asked for.
        mode: &'static str,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },

    /// Not enough memory for the maps.
    #[error(
        "{action}: no memory for the program's maps; raise the memory limit of the control group, or before \
             kernel 5.11 RLIMIT_MEMLOCK (LimitMEMLOCK=infinity in its unit)"
    )]
    NoMemory {
        /// What was tried.
        action: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },

    /// The kernel does not know something that the program uses, or refuses the program.
    #[error(
        "{action}: the kernel refuses the program; Linux 6.1 or later is needed, with CONFIG_BPF_SYSCALL, \
             CONFIG_XDP_SOCKETS and BTF (the verifier's log is above)"
    )]
    Kernel {
        /// What was tried.
        action: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },

    /// A slot, queue, ring or service outside of the program's tables.
    #[error("{what} {index} is outside of the program's table of {limit}")]
    OutOfTable {
        /// The kind of thing.
        what: &'static str,
        /// The index asked for.
        index: usize,
        /// Size of the table.
        limit: usize,
    },

    /// Any other answer of the kernel.
    #[error("{action}")]
    System {
        /// What was tried.
        action: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },

    /// A test run that cannot be explained.
    #[error("test run: {0}")]
    TestRun(String),
}

// Numbers of <asm-generic/errno*.h>; they are the same on every architecture that BPF runs on.
pub(crate) const EPERM: i32 = 1;
const EACCES: i32 = 13;
pub(crate) const EBUSY: i32 = 16;
pub(crate) const EEXIST: i32 = 17;
pub(crate) const ENODEV: i32 = 19;
const ENOMEM: i32 = 12;
const EINVAL: i32 = 22;
const E2BIG: i32 = 7;
const EOPNOTSUPP: i32 = 95;

impl Error {
    /// Sorts an answer of the kernel by what helps.
    pub(crate) fn from_kernel(action: impl Into<String>, source: io::Error) -> Self {
        let action = action.into();
        match source.raw_os_error() {
            // EACCES is the verifier's. It knows this program, so what is missing is CAP_PERFMON, without which it
            // allows no variable offset into a packet (protection against speculative execution).
            Some(EPERM | EACCES) => Self::NotPermitted { action, source },
            Some(ENOMEM) => Self::NoMemory { action, source },
            Some(EINVAL | E2BIG | EOPNOTSUPP) => Self::Kernel { action, source },
            _ => Self::System { action, source },
        }
    }

    /// The same for errors of libbpf, which carry the number somewhere below.
    pub(crate) fn from_libbpf(action: impl Into<String>, error: &libbpf_rs::Error) -> Self {
        Self::from_kernel(action, io_error(error))
    }
}

/// The operating system's error inside an error of libbpf-rs, which shows its number in its text alone.
fn io_error(error: &libbpf_rs::Error) -> io::Error {
    let text = format!("{error:#}");
    let number = text.rsplit_once("(os error ").and_then(|(_, rest)| rest.split(')').next()?.parse().ok());
    number.map_or_else(|| io::Error::other(text), io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_number(number: i32) -> Error {
        Error::from_libbpf("load", &libbpf_rs::Error::from_raw_os_error(number))
    }

    #[test]
    fn the_kernel_s_answers_are_sorted_by_what_helps() {
        assert!(matches!(of_number(EPERM), Error::NotPermitted { .. }));
        assert!(matches!(of_number(ENOMEM), Error::NoMemory { .. }));
        assert!(matches!(of_number(EACCES), Error::NotPermitted { .. }));
        assert!(matches!(of_number(EINVAL), Error::Kernel { .. }));
        assert!(matches!(of_number(EBUSY), Error::System { .. }));
    }

    #[test]
    fn a_missing_right_names_the_capabilities() {
        let text = of_number(EPERM).to_string();
        assert!(text.contains("CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"), "{text}");
    }
}
