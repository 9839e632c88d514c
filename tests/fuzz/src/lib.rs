//! Hostile input for sipweir.
//!
//! ```text
//!  corpus ─┐                        ┌─ the XDP program (BPF_PROG_TEST_RUN) ─┐
//!          ├─ case ── a packet ─────┤                                       ├─ judge ── minimise ── report
//!  grammar ┘  mutate                └─ the classifier of user space ────────┘
//! ```
//!
//! - The **differential run** ([`run`], `cargo xtask fuzz`): millions of made, mutated and random messages through the
//!   program in the kernel and through `sip`; wherever the program decides, both must say the same.
//! - The **targets** ([`targets`], `cargo xtask fuzz --targets`): functions of some bytes that panic if a promise is
//!   broken, run by libFuzzer, which looks for bytes that reach code not reached before. They know nothing of
//!   libFuzzer, so ordinary tests run them too.
//!
//! - The **copies** ([`copies`], `sipweir-copies`): requests without end through the transaction table, none of which may
//!   pass for a copy.
//!
//! Every message of a run follows from the run's seed and its own number, so any finding can be made again. Not here:
//! tests of single behaviours, which belong to the crate that behaves.

pub mod case;
pub mod copies;
pub mod corpus;
pub mod engine;
pub mod grammar;
pub mod judge;
pub mod minimise;
pub mod mutate;
pub mod packet;
pub mod random;
pub mod report;
pub mod run;
pub mod targets;
