//! sipweir: keeps SIP servers alive under any load.
//!
//! In the order in which a reader meets them:

pub mod worker;

pub mod body;
pub mod capture;
pub mod counters;
pub mod handoff;
pub mod lane;
pub mod limits;
pub mod lists;
pub mod local;
pub mod orders;
pub mod picks;
pub mod prefix;
pub mod privileged;
pub mod processor;
pub mod reply_policy;
pub mod sources;
pub mod transactions;

pub mod capabilities;
pub mod change;
pub mod clock;
pub mod cores;
pub mod monitor;
pub mod netdev;
pub mod side_door;
pub mod sip_helper;
pub mod sock_diag;
pub mod wake;

pub mod config;
pub mod run;

pub mod control;
pub mod log;
pub mod metrics;
pub mod reload;
pub mod status;

pub mod classify;
pub mod cli;
pub mod demo;
pub mod doctor;
pub mod experiment;
pub mod generate;
pub mod limit;
pub mod list;
pub mod model;
pub mod simulate;
pub mod top;
pub mod tune;

mod numbers;
mod page;
