//! SIP over UDP as bytes: headers of the wire, start line, classes, transaction hash, hand-off, refusals.
//!
//! Everything here is a function of its arguments. There is no I/O, no clock, no `unsafe`, no allocation
//! after set-up, and no panic on any input, so the worker, the tests, the fuzzers and the simulator run the
//! same code. What is *not* here: rings and frames (`afxdp`), whether to admit (`overload`), SIP state of any
//! kind. The kernel's half of the same rules is `xdp-prog`; the two must agree wherever the kernel decides.

#![forbid(unsafe_code)]

mod beginning;
mod branch;
mod checksum;
pub mod class;
pub mod handoff;
pub mod headers;
pub mod hep;
pub mod message;
mod number;
mod overload_control;
mod params;
pub mod rebuild;
pub mod refusal;
pub mod reply;
pub mod reply_packet;
mod reply_writer;
mod siphash;
pub mod start_line;
mod tag;
pub mod txn;
mod via;
pub mod wire;

pub use beginning::{BEGINNING_LEN, beginning_hash};
pub use branch::branch_hash;
pub use class::{Class, MarkerForm, Method, Reason, Verdict, verdict_of};
pub use handoff::{Checksum, HandoffError, prepare_handoff, verify_udp};
pub use headers::{CallLines, call_id, call_key, call_lines};
pub use hep::{Captured, HEP_OVERHEAD_MAX, write_hep};
pub use message::{KernelFindings, Message, classify, classify_rest};
pub use number::{Number, dialled_number};
pub use overload_control::OverloadControl;
pub use rebuild::{REBUILT_HEADERS_MAX, has_link, ip_packet, rebuilt_headers_len, write_datagram_headers};
pub use refusal::{ControlGiven, NoReply, Refusal, Reply, ReplyLine, RetryAfter};
pub use reply::{is_ack_of_own_reply, write_reply, write_response};
pub use reply_packet::{write_answer_packet, write_reply_packet};
pub use start_line::{Marker, StartLine};
pub use txn::{HASH_KEY_WORDS, Seed, TransactionKey, address_key, share_hash, transaction_hash};
pub use wire::{Datagram, Services, parse_packet};
