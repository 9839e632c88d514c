//! The theory that the data path is checked against.
//!
//! Formulas are small pure files with their assumptions, symbols and sources on top. The simulation is not a second
//! implementation: it drives the gates and the waiting line of `overload`, the code that runs live, so that a
//! difference to the formula is a difference of the product. What is deliberately not here: anything that runs in
//! the product, and any statement about the server beyond a service time.

#![forbid(unsafe_code)]

pub mod fluid;
pub mod hysteresis;
pub mod mmpp;
pub mod notifications;
pub mod parameter;
pub mod plan;
pub mod polling;
pub mod random;
pub mod service;
pub mod simulate;
pub mod thresholds;
pub mod tune;

mod elimination;
mod geometric;
mod inversion;
mod jet;
mod numeric;
