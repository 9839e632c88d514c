//! Frames and rings: AF_XDP as this project uses it, and nothing else.
//!
//! This is the only room with `unsafe` in it. It turns kernel memory into types that can't be misused: a
//! [`Frame`] is owned by exactly one party at any time, a [`QueuePort`] is one NIC queue with its four
//! receive rings, an [`EgressPort`] is the device that packets are handed to. Deliberately not in here: what
//! a packet means, the XDP program, the XSKMAP, threads, and any decision.
//!
//! Who owns a frame, and what moves it:
//!
//! ```text
//!                     refill                   XDP_REDIRECT                 receive
//!   free list ──────────────────► fill ring ─────────────────► RX ring r ─────────────► Frame
//!     ▲  ▲  │                     (kernel)                      (kernel)                 │  │
//!     │  │  └──────────────────────────── take ──────────────────────────────────────►   │  │
//!     │  └─────────────────────────────── give_back ─────────────────────────────────────┘  │
//!     │              reap                                                     transmit      │
//!     └───────────────────────── completion ring ◄──────── TX ring ◄────────────────────────┘
//!                                (NIC or hand-off device, each has its own pair)
//! ```
//!
//! Every arrow is one method, and [`Umem`] notes the place of every frame, so at any moment
//! `free + receiving + held + tx_nic + tx_egress = frames` ([`Places`]). A descriptor that names a frame
//! which isn't where it should be is counted ([`Umem::bad_descriptors`]) and never becomes a second `Frame`.
//!
//! Read on in this order: `frame`, `umem` (memory), `ring` (the protocol), `socket` (set-up), `port`, `tx`,
//! `egress` (the three together), `testing` (the same rings without a kernel).
#![allow(unsafe_code, reason = "kernel memory is wrapped here once, so that no other crate needs unsafe")]

mod budget;
mod config;
mod egress;
mod error;
mod frame;
mod link;
mod mapping;
mod port;
mod prefetch;
mod ring;
mod socket;
pub mod testing;
mod tx;
mod umem;
mod words;

pub use budget::{FrameBudget, Shortfall};
pub use config::{BusyPollConfig, CopyMode, EgressConfig, PortConfig, UmemConfig};
pub use egress::EgressPort;
pub use error::Error;
pub use frame::{BATCH, Batch, Frame};
pub use port::{BusyPoll, Mode, QueuePort};
pub use prefetch::prefetch;
pub use rustix::io::Errno;
pub use socket::SocketStatistics;
pub use tx::Kick;
pub use umem::{Places, Umem};
pub use words::MappedWords;

/// Receive rings of a queue, in order of priority. The same number as `RINGS` in `xdp-prog/abi.h`.
pub const RINGS: usize = 4;

/// Bytes of metadata that the XDP program writes in front of a packet (`struct packet_meta` in
/// `xdp-prog/abi.h`). Kernels before 6.8 accept no more than 32; with fewer, some of what was learned is
/// lost.
pub const METADATA_LEN: usize = 32;

/// Bytes that the kernel leaves free at the start of a frame before it writes a packet (`XDP_PACKET_HEADROOM`
/// in the kernel's `include/uapi/linux/bpf.h`). Fixed by the kernel; metadata lies at its end.
pub const XDP_HEADROOM: u32 = 256;
