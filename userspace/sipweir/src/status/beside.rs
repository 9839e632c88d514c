//! What the kernel counts beside sipweir: for each AF_XDP socket, for the programs. For the interface: `netdev::Traffic`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::counters::WorkerCounters;

/// The names of the AF_XDP sockets of a queue: its RX rings, and the one that sends by the hand-off device.
pub const SOCKET_NAMES: [&str; afxdp::RINGS + 1] = ["control", "new", "retransmission", "reject", "handoff"];

/// What a BPF program has cost while the kernel measured it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramCost {
    /// Runs that were timed.
    pub runs: u64,
    /// Their time, seconds, with the two clock readings that timing costs each run.
    pub run_s: f64,
}

/// The kernel's counters of one AF_XDP socket (`struct xdp_statistics` in include/uapi/linux/if_xdp.h), beside `ring_full` and
/// `fill_ring_empty`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Socket {
    /// Packets dropped since no frame was free, or since they were longer than one.
    pub rx_dropped: u64,
    /// Invalid addresses in the fill ring; above 0 is a bug.
    pub rx_invalid_descs: u64,
    /// Invalid descriptors in the TX ring; above 0 is a bug.
    pub tx_invalid_descs: u64,
    /// How often the TX ring was found empty; no loss.
    pub tx_ring_empty_descs: u64,
}

/// The sockets of a worker by name. Without a hand-off device its socket counts nothing.
pub(super) fn sockets(counters: &WorkerCounters) -> BTreeMap<String, Socket> {
    let sockets = SOCKET_NAMES.iter().zip(&counters.sockets);
    sockets
        .map(|(name, counters)| {
            let socket = Socket {
                rx_dropped: counters.rx_dropped.get(),
                rx_invalid_descs: counters.rx_invalid_descs.get(),
                tx_invalid_descs: counters.tx_invalid_descs.get(),
                tx_ring_empty_descs: counters.tx_ring_empty_descs.get(),
            };
            ((*name).to_owned(), socket)
        })
        .collect()
}
