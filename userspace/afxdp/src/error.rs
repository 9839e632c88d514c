//! What can go wrong at set-up, by what the operator must change. The data path has no errors of this kind.

use rustix::io::Errno;
use thiserror::Error as ThisError;

/// Why a port couldn't be opened.
#[derive(Debug, ThisError)]
pub enum Error {
    /// A ring size that the kernel would refuse.
    #[error("{key} = {value} is not a power of two from 1 to {most}; the nearest is {nearest}")]
    RingSize {
        /// The setting.
        key: &'static str,
        /// Its value.
        value: u32,
        /// A value that would do.
        nearest: u32,
        /// The largest value that would do.
        most: u32,
    },

    /// No frames at all.
    #[error("frames.count = 0: a queue can't work without frames")]
    NoFrames,

    /// A frame size other than the two that work.
    #[error("frames.size = {value} must be 2048 or 4096")]
    FrameSize {
        /// Its value.
        value: u32,
    },

    /// Too little of a frame is left for a packet.
    #[error("umem.headroom = {value} leaves too little of a frame for a packet; at most {most}")]
    Headroom {
        /// Its value.
        value: u32,
        /// The largest value that would do.
        most: u32,
    },

    /// Busy polling asked for and switched off at once.
    #[error("{key} = 0 would switch busy polling off; leave busy_poll out instead")]
    BusyPollZero {
        /// The setting.
        key: &'static str,
    },

    /// The machine doesn't have the memory.
    #[error(
        "{bytes} bytes for the frames of one queue can't be had: {source}; lower frames.count or free memory"
    )]
    Memory {
        /// What was asked for.
        bytes: u64,
        /// What the kernel said.
        source: Errno,
    },

    /// The memory is there but may not be pinned.
    #[error(
        "{bytes} bytes of frames exceed the limit of locked memory: raise RLIMIT_MEMLOCK (systemd: \
         LimitMEMLOCK=), grant CAP_IPC_LOCK, or lower frames.count"
    )]
    LockedMemory {
        /// What was asked for.
        bytes: u64,
    },

    /// A missing capability.
    #[error("opening an AF_XDP socket needs CAP_NET_RAW: {source}")]
    Permission {
        /// What the kernel said.
        source: Errno,
    },

    /// A kernel without AF_XDP.
    #[error("this kernel has no AF_XDP sockets (CONFIG_XDP_SOCKETS): {source}")]
    NoAfXdp {
        /// What the kernel said.
        source: Errno,
    },

    /// There is no such device, at least not in this network namespace.
    #[error("{device} does not exist in this network namespace")]
    NoDevice {
        /// Name and index.
        device: String,
    },

    /// The device has fewer queues.
    #[error("{device} has no queue {queue}; see `ethtool -l` for the queues it has now")]
    NoQueue {
        /// Name and index.
        device: String,
        /// The queue.
        queue: u32,
    },

    /// Another socket is bound to the queue.
    #[error(
        "queue {queue} of {device} is still in use by another AF_XDP socket after {waited_ms} ms: is another \
         instance running?"
    )]
    QueueBusy {
        /// Name and index.
        device: String,
        /// The queue.
        queue: u32,
        /// How long it was tried.
        waited_ms: u64,
    },

    /// The driver can't do zero-copy.
    #[error("{device} can't do zero-copy AF_XDP on queue {queue}; set xdp.zero_copy = false")]
    NoZeroCopy {
        /// Name and index.
        device: String,
        /// The queue.
        queue: u32,
    },

    /// An egress device that can't do zero-copy, sharing frames with a NIC that does.
    #[error(
        "{device} can't do zero-copy, but it shares the frames of a NIC queue in zero-copy mode and the \
         kernel wants both alike; set xdp.zero_copy = false"
    )]
    EgressNeedsCopy {
        /// Name and index.
        device: String,
    },

    /// More egress ports than a queue can tell apart.
    #[error("a queue can have at most 64 egress ports")]
    TooManyEgressPorts,

    /// Frames don't suffice.
    #[error(transparent)]
    Budget(#[from] crate::budget::Shortfall),

    /// A map that can't be mapped.
    #[error("{words} words of the BPF map can't be mapped ({source}); is it mmapable and as large as that?")]
    MapWords {
        /// What was asked for.
        words: usize,
        /// What the kernel said.
        source: Errno,
    },

    /// Anything else that the kernel refused.
    #[error("{action} on queue {queue} of {device}: {source}")]
    Kernel {
        /// What was tried.
        action: &'static str,
        /// Name and index.
        device: String,
        /// The queue.
        queue: u32,
        /// What the kernel said.
        source: Errno,
    },
}
