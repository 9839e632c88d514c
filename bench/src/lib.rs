//! The caller: an open-loop load generator that behaves as many RFC 3261 user agent clients over UDP,
//! and a minimal answerer to try it on.
//!
//! Open loop means that calls start when the arrival process says so, whatever became of the calls before, and
//! that every delay counts from the *intended* start: a caller that falls behind reports longer delays, not
//! fewer calls.
//!
//! In the order in which a reader meets them:
//!
//! ```text
//! config     what to offer                      (one typed tree, checked before anything starts)
//! arrivals   when calls are meant to start      ┐
//! identity   who a call is                      │ pure: time is a parameter, no I/O,
//! template   its bytes                          │ tested with a clock that a test turns
//! response   what an answer says                │
//! wheel      which timer is next                │
//! engine     the client transactions, the calls ┘
//! tally      what is counted, report: how it is told
//! sockets    many client addresses              ┐ I/O
//! run        the loop: read this file first     ┘
//! answerer   the other end, for tests and as the plain-socket rival
//! ```
//!
//! Deliberately absent: SIP over TCP or TLS, authentication, media, CANCEL, and any knowledge of the front-end
//! under test. The caller parses answers with its own few lines rather than with the product's parser, so that a
//! mistake there cannot hide itself here.
#![forbid(unsafe_code)]

mod answerer;
mod arrivals;
mod clock;
mod config;
mod engine;
mod error;
mod identity;
mod report;
mod response;
mod run;
mod selftest;
mod sockets;
mod tally;
mod template;
mod wheel;

pub use answerer::{Answerer, AnswererConfig, AnswererCounts, Captured, Service};
pub use arrivals::Arrivals;
pub use clock::{Nanos, monotonic_ns};
pub use config::{Arrival, CallerConfig, Hold, Marker, Mix, RateStep, Sources};
pub use engine::{Engine, Outbox, Sent};
pub use error::Error;
pub use report::{
    Bin, Bucket, CallCounts, Distribution, MethodCounts, MethodReport, Report, ResponseCounts, Series,
    TransportCounts, Window,
};
pub use run::{Progress, run};
pub use selftest::self_test;
pub use template::Method;
pub use wheel::Wheel;
