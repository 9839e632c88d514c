//! The lists of sources whose packets are dropped, and of those that are not: kept while an instance runs.
//!
//! ```text
//!   files ── line ──▶ file ──▶ table ── steps ──▶ xdp_prog::SourceLists ──▶ both BPF programs
//!   `sipweir list` ─────────▶ keeper (a thread)     (maps of the kernel)
//! ```
//!
//! An allowed network wins over a denied one, whichever is longer. Lists of denied networks come from strangers, and since
//! sources of UDP are forged easily, somebody's trunk may get on them; what the operator allows by name is his own word.
//!
//! Networks come from files, or are added by command until the end of the instance. Either may end at a time of the wall
//! clock; the keeper takes them out then, a bounded number a second. A file that cannot be read, or has a line that is no
//! network, changes nothing.
//!
//! Here: who is on a list, and since when it is in the kernel. Not here: the look-up (`xdp-prog/lists.h`).

pub mod file;
pub mod keeper;
pub mod table;
