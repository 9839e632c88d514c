//! Plans: what to simulate, as TOML, and its execution.
//!
//! A plan names sources, nodes and *mechanisms*. Each mechanism is run on the same network with the same callers, so several
//! are compared in one go:
//!
//! ```toml
//! title = "Two gates under twice the load"
//!
//! [run]
//! duration_s = 400
//! cool_down_s = 32
//! seeds = 10
//!
//! [source.callers]
//! rate_per_s = [1500, 2000]          # a list: one run for each
//! timers = "invite"
//! to = "server"
//!
//! [node.server]
//! rate_per_s = 1000
//!
//! [mechanism.fifo.gate]              # keys as in the configuration of `sipweir run`
//! kind = "fifo"
//! buffer = "500..8000 times 2"       # a range: 500, 1000, 2000, 4000, 8000
//!
//! [mechanism.shed.gate]
//! kind = "hysteretic"
//! low = 74
//! high = 85
//! buffer = 100
//! admit = 0.5
//! ```
//!
//! Any number or text in `source`, `node` and `mechanism` may be a list or a range; the product of them all is what is run,
//! with those of a mechanism for that mechanism only. Unknown keys are refused.
//!
//! In the order in which a reader meets them: `expand` lists and ranges, `document` the whole, `places` and
//! `mechanism` and `control` its tables, `notation` their values; `execute` the runs and their results.

mod control;
mod document;
mod execute;
mod expand;
mod mechanism;
mod notation;
mod places;

pub use document::{Plan, PlannedRun};
pub use execute::{Estimates, FluidResult, NodeResult, Progress, RunResult, SourceResult, execute};

/// A plan that cannot be run: one message that names the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(pub(crate) String);

#[cfg(test)]
mod tests;
