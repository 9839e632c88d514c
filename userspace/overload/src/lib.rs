//! Overload decisions: whom to admit, in which order to serve, how much to hand over, how often to answer.
//!
//! Everything here is pure. Time is a parameter (nanoseconds of `CLOCK_MONOTONIC`), the server is described by
//! numbers that the caller has read, and nothing allocates after construction. The same code therefore runs in the
//! worker, in the simulator of `model`, and in property tests. What is deliberately not here: sockets, rings, SIP
//! bytes, configuration files, logging.
//!
//! ```text
//!   message ──► Gate::arrive ──► CallQueue ──► Credit::grant ──► server
//!                  ▲   shed?      control > new > copy              │
//!                  │                                                │ receive queue, free places
//!                  └── Gate::depart ◄── ServiceRate ◄── Credit::look ◄┘
//! ```
//!
//! # The number in the system
//!
//! Gates judge `n`, the number waiting plus in service. Under [`Discipline::Priority`] it is
//! `queue.len_of(Lane::New) + credit.at_server()`: originals that wait, also those that a later message of their
//! call waits for, and whatever the server has not finished. Control messages at the server are part of
//! it because they occupy the server and its queue cannot be told apart by class; the credit's target bounds their
//! number. Under [`Discipline::Fifo`] it is `queue.len() + credit.at_server()`. The caller (the worker, or the
//! simulator) adds these up; this crate keeps no second count that could drift.

#![forbid(unsafe_code)]

mod admitted_calls;
mod any;
mod baseline;
mod budget;
mod config;
mod credit;
mod destination;
pub mod distributed;
mod feedback;
mod gate;
mod gate_times;
mod health;
mod heavy_hitters;
mod hysteretic;
mod inquiry;
mod keyed_buckets;
mod levels;
mod mix;
mod pace;
mod picker;
mod quantile;
mod queue;
mod random;
mod rate;
mod served;
mod silence;
mod threshold;
mod transactions;
mod truesize;
mod virtual_queue;

pub use admitted_calls::AdmittedCalls;
pub use any::AnyGate;
pub use baseline::{Fifo, TailDrop};
pub use budget::TokenBucket;
pub use config::{ConfigError, GateConfig, HystereticConfig, Problem};
pub use credit::{Credit, CreditConfig, Look, Places, ReceiveQueue, ServerState};
pub use destination::DestinationCap;
pub use feedback::{Advice, Feedback};
pub use gate::{Decision, Discipline, Gate, GateState, GateWord, ShedReason};
pub use gate_times::{GateSums, GateTimes};
pub use health::{Health, HealthConfig, Seen};
pub use heavy_hitters::{HeavyHitters, Hitter};
pub use hysteretic::Hysteretic;
pub use inquiry::Inquiry;
pub use keyed_buckets::{Allowance, KeyedBuckets};
pub use levels::Levels;
pub use mix::Mix;
pub use pace::Pace;
pub use picker::Picker;
pub use quantile::quantile;
pub use queue::{CallQueue, Lane, QueueCapacity, SURPLUS_PER_CALL_MAX, Served};
pub use random::{Random, RandomConfig};
pub use rate::{RateConfig, ServiceRate};
pub use served::{GENERATIONS, ServedFilter};
pub use silence::Silence;
pub use threshold::{ParseThresholdError, Threshold};
pub use transactions::{
    BUCKETS_MAX, COPIES_OF_INVITE, COPIES_OF_OTHERS, Entered, Known, Lookup, Place, SLOTS, TransactionState,
    TransactionTable, Vacancy,
};
pub use virtual_queue::{Arrivals, VirtualQueue};

/// Nanoseconds of `CLOCK_MONOTONIC`, as a point in time or as a span.
pub type Nanos = u64;

/// Nanoseconds in a second.
pub const NANOS_PER_S: Nanos = 1_000_000_000;
