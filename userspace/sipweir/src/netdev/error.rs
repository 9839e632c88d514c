//! What can be wrong with network devices, by what the operator must change.

use std::io;

use netlink_packet_core::DecodeError;
use rustix::io::Errno;

/// Why a network device could not be found, made, set up or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No device of that name in this network namespace.
    #[error("no network interface {name:?} in this network namespace; there are: {known}")]
    NoSuchInterface {
        /// The name asked for.
        name: String,
        /// The names that exist, separated by commas.
        known: String,
    },
    /// The device exists and is administratively down.
    #[error("interface {name} is down: `ip link set {name} up`")]
    InterfaceDown {
        /// The device.
        name: String,
    },
    /// The device has no six-byte hardware address, so its frames have no Ethernet header.
    #[error(
        "interface {name} is not an Ethernet device; only those carry the frames that are classified here"
    )]
    NotEthernet {
        /// The device.
        name: String,
    },
    /// A queue count that no veth device can have.
    #[error("a hand-off needs 1 to {max} queues, not {queues}")]
    Queues {
        /// The count asked for.
        queues: u32,
        /// The kernel's limit.
        max: u32,
    },
    /// A device has the name that the hand-off needs and does not carry its mark.
    #[error(
        "device {name} exists and is not a hand-off of sipweir (its alias is {alias:?}): rename it, or if it is a \
         remainder, `ip link delete {name}`"
    )]
    ForeignDevice {
        /// The device that is in the way.
        name: String,
        /// The alias that it has instead of ours; empty if none.
        alias: String,
    },
    /// Another process holds the hand-off of this device.
    #[error("another sipweir already serves {nic}: stop it first")]
    InUse {
        /// The network device that is served.
        nic: String,
    },
    /// The kernel cannot make veth devices.
    #[error("this kernel has no veth devices: `modprobe veth`")]
    NoVeth,
    /// Both ends were set up and did not come up in time.
    #[error("hand-off device {name} did not come up within {waited_ms} ms")]
    NotUp {
        /// The end that stayed down.
        name: String,
        /// How long it was waited for.
        waited_ms: u64,
    },
    /// A kernel setting has the wrong value and cannot be changed.
    #[error("{path} must be {value} and cannot be set: {source}")]
    Setting {
        /// The file under `/proc/sys`.
        path: String,
        /// The value it needs.
        value: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The process lacks the right.
    #[error("not permitted to {action}: run as root or with CAP_NET_ADMIN")]
    Permission {
        /// What was attempted.
        action: String,
    },
    /// The kernel refused a request.
    #[error("cannot {action}: {source}")]
    Refused {
        /// What was attempted.
        action: String,
        /// The kernel's answer.
        source: Errno,
    },
    /// The kernel did not answer.
    #[error("the kernel gave no answer in time when asked to {action}")]
    Timeout {
        /// What was attempted.
        action: String,
    },
    /// The kernel's answer is in a form that is not understood.
    #[error("the kernel's answer to {action} cannot be read: {source}")]
    Unreadable {
        /// What was attempted.
        action: String,
        /// Where it stopped making sense.
        source: DecodeError,
    },
}

impl Error {
    /// The variant that fits what the kernel said to `action`.
    pub(super) fn refused(action: &str, errno: Errno) -> Self {
        let action = action.to_owned();
        match errno {
            Errno::PERM | Errno::ACCESS => Self::Permission { action },
            Errno::AGAIN => Self::Timeout { action },
            source => Self::Refused { action, source },
        }
    }

    /// The kernel's error number, if it refused the request with one.
    pub(super) fn errno(&self) -> Option<Errno> {
        match self {
            Self::Refused { source, .. } => Some(*source),
            _ => None,
        }
    }
}
