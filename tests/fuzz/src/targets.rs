//! Functions of some bytes that panic if a promise is broken.
//!
//! | target | what it is given | what it promises |
//! |---|---|---|
//! | [`scanner`] | a datagram | one class; offsets within the datagram; the same for copies, marked and unmarked |
//! | [`reply`] | a source and a request | a reply keeps the rules of RFC 3261, or there is none |
//! | [`worker`] | packets, metadata, times, a server | each packet counted once, no frame leaked, nothing but SIP sent |
//!
//! libFuzzer calls them (`src/bin/target_*.rs`); the tests of this crate call them over the corpora and over made and
//! mutated messages.

mod bytes;
mod reply;
mod scanner;
mod worker;

pub use reply::reply;
pub use scanner::scanner;
pub use worker::worker;
