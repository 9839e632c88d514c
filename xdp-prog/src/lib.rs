//! The XDP classifier of sipweir: a C program that decides on every packet of a NIC queue, and what loads it, attaches
//! it, tells it its settings and reads its counters.
//!
//! ```text
//!   Settings ──load──> Classifier ──attach──> Attached      (a link: detached when dropped, or with the process)
//!                        │  set_socket(queue, ring, fd)     where a verdict sends its packets
//!                        │  gates_fd(), publish_gate()      the overload state, one word a service and queue
//!                        │  source_lists()                  whose packets are dropped, and whose are not
//!                        │  change(Settings)                what can change of them while it runs
//!                        │  counters(), counter_reader()    packets by class, verdict and reason
//!                        └  test_run(packet)                one packet through the loaded program, explained
//! ```
//!
//! [`SideDoor`] is a second, small program for what the classifier lets pass because only the kernel can make one
//! datagram of it. [`Answers`] is a third: it sees what leaves, and counts what the servers answer and how soon.
//!
//! The decision itself is in `classifier.bpf.c`, which reads as the decision; what the two sides share is in `abi.h`.
//! Numbers stay numbers here: the enums of class, verdict and reason live in `sipweir-sip`, which this crate does not
//! depend on; `tests/abi.rs` holds them together.
//!
//! # What a redirect does not say
//!
//! The program counts what it decided. A packet for a ring whose socket slot is empty goes to the kernel
//! (`XDP_PASS`), one for a ring that is full is dropped by AF_XDP; both are counted as decided. The socket's own
//! `xdp_statistics` say what became of them.
//!
//! # Drivers without metadata
//!
//! The worker trusts the 32 bytes in front of a packet, so a packet without them must never reach it. A driver that
//! refuses `bpf_xdp_adjust_meta` gets its packets passed to the kernel, counted with the class that was decided and the
//! verdict `pass`. No other way leads to that pair, so [`Counters::without_metadata`] is exact: if it is not zero, the
//! program runs on a driver that cannot do it, and [`AttachMode::Generic`] will.

pub mod abi;
mod answers;
mod attach;
mod change;
mod counters;
mod egress;
mod error;
mod link;
mod lists;
mod load;
mod locals;
mod meta;
mod probe;
mod samples;
mod services;
mod settings;
mod side_door;
mod skeleton;
mod test_run;
mod yardstick;

pub use answers::{
    ANSWER_TIMES, AWAITED_PLACES, AnswerCounters, AnswerReader, Answers, answer_bounds_s, awaited,
};
pub use attach::{AttachMode, Attached, Mode};
pub use counters::{CounterReader, Counters};
pub use egress::{AnswersAttached, Filter};
pub use error::Error;
pub use lists::{List, SourceLists};
pub use load::Classifier;
pub use meta::Meta;
pub use probe::{missing_types, program_name};
pub use samples::{SAMPLING_WORDS, Sample, SampleReader, SampleRing, SamplingWord};
pub use settings::{
    EMERGENCY_NUMBERS_MAX, FRAME_LEN_MAX, FRAME_LEN_MIN, HASH_KEY_WORDS, HashKey, LINK_ADDRESSES_MAX,
    LIST_ROOM_MAX, PROBERS_MAX, ServiceAddress, Settings,
};
pub use side_door::{Family, SideDoor, SideDoorAttached, SideDoorCounterReader, SideDoorCounters};
pub use test_run::{Action, BareRun, TestRun};
pub use yardstick::Yardstick;
