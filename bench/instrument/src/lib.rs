//! The instrument: what sipweir carries and costs, beside the bare kernel and beside what would run instead, in the
//! same minutes on the same machine.
//!
//! ```text
//!  namespace swb-callers           namespace swb-server
//!  ┌─────────────────────┐  veth  ┌──────────────────────────────────────────────┐
//!  │ generator, core 0   ├────────┤ eth0   sipweir, last core ── server (socket)  │
//!  │  (live XDP frames)  ├────────┤ eth1   a rival, last core ── server (socket)  │
//!  └─────────────────────┘        └──────────────────────────────────────────────┘
//! ```
//!
//! Sides take turns within each round, so that what the machine does meanwhile happens to both; what counts are ratios
//! of one round, and their median. A scenario (`scenarios/*.toml`) says what is offered and what must have become of it:
//! one that measured something else fails. Each ends with the conservation law, offered = Σ verdicts.
//!
//! In the order in which a reader meets them:
//!
//! ```text
//! scenario     what is offered, what must come out    ┐
//! frame        one request in Ethernet                │ pure
//! statistics   medians, ratios, spread                ┘
//! generator    frames at millions a second            ┐
//! stage        namespaces, wires, cores               │
//! device       what the driver counted                │ the machine
//! cost         what a process used                    │
//! bpf_stats    what a BPF program used                │
//! subject      sipweir and its counters               │
//! rival        what it is compared with               ┘
//! measure      one file a kind of measurement: read these
//! report       rows, record, page
//! ```
//!
//! Nothing here knows sipweir's insides: it sees the binary, its status and the wire. `METHODOLOGY.md`, one folder up,
//! says what the figures mean and what they do not show.

mod bpf_stats;
mod cost;
mod device;
mod frame;
mod generator;
mod measure;
mod report;
mod rival;
mod scenario;
mod skeleton;
mod stage;
mod statistics;
mod subject;

pub mod cli;
