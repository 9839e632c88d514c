//! The room of the end-to-end tests: network namespaces, real SIP software in them, and sipweir between.
//!
//! This library is the furniture, in the order in which a test meets it; the tests are in `e2e/`. Everything a test
//! makes is a value that undoes itself when it is dropped, also while the test panics. Whatever goes wrong panics with
//! the command line and both of its streams: this is test code, and nobody handles its errors.
//!
//! Not here: anything that knows sipweir's insides. The tests see the binary, its socket and the wire.

#![forbid(unsafe_code)]

pub mod command;
pub mod flood;
pub mod kamailio;
pub mod link;
pub mod message;
pub mod netns;
pub mod peer;
pub mod process;
pub mod sandbox;
pub mod sipp;
pub mod sipweir;
pub mod slow_server;
pub mod sofia;
pub mod turn;
pub mod udp_socket;
pub mod wait;

pub use flood::Flood;
pub use kamailio::{Kamailio, KamailioPlan};
pub use link::{Link, LinkPlan};
pub use netns::NetNs;
pub use peer::Peer;
pub use process::Process;
pub use sipp::{CallLoad, Marking, Scenario, Sipp};
pub use sipweir::Sipweir;
pub use slow_server::SlowServer;
pub use sofia::{Sofia, SofiaPlan};
pub use wait::wait_until;
