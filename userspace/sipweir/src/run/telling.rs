//! What the control thread says about states that have changed: gates, servers, and the log itself.
//!
//! The workers only count; nothing here happens in the packet path.

use std::sync::Arc;

use overload::{GateState, ServerState};

use crate::counters::LaneCounters;
use crate::log::changes::Changes;
use crate::{log, status};

/// What has been said so far about one service.
#[derive(Debug)]
struct Told {
    gate: Changes,
    server: Changes,
}

/// What has been said so far.
#[derive(Debug)]
pub(super) struct Telling {
    services: Vec<Told>,
    lost: Changes,
}

impl Telling {
    /// Nothing, about so many services.
    pub(super) fn new(services: usize, now_ns: u64) -> Self {
        let none = || Changes::new(now_ns);
        let services = (0..services).map(|_service| Told { gate: none(), server: none() }).collect();
        Self { services, lost: none() }
    }

    /// Says what is due. `lanes` are those of the services, in the same order every time.
    pub(super) fn tell(&mut self, lanes: &[(String, Vec<Arc<LaneCounters>>)], now_ns: u64) {
        for ((service, lanes), told) in lanes.iter().zip(&mut self.services) {
            let sum = |count: fn(&LaneCounters) -> u64| lanes.iter().map(|lane| count(lane)).sum::<u64>();
            if let Some(changes) = told.server.due(sum(|lane| lane.server_changes.get()), now_ns) {
                tell_server(service, lanes, changes);
            }
            if let Some(changes) = told.gate.due(sum(|lane| lane.gate_transitions.get()), now_ns) {
                tell_gate(service, lanes, changes);
            }
        }
        if let Some(lines) = self.lost.due(log::lost(), now_ns) {
            tracing::warn!(lines, "lines of this log were lost since nobody read them");
        }
    }
}

fn tell_gate(service: &str, lanes: &[Arc<LaneCounters>], changes: u64) {
    let now = status::Service::read(Vec::new(), "", "", "", lanes);
    let (gate, admits) = (&now.gate.state, now.gate.admits);
    let (waiting, at_server, rate_per_s) = (now.waiting, now.at_server, now.service_rate_per_s);
    if *gate == GateState::Normal.name() {
        tracing::info!(%service, %gate, changes, admits, waiting, at_server, rate_per_s, "the gate is open");
    } else {
        tracing::warn!(%service, %gate, changes, admits, waiting, at_server, rate_per_s, "the gate sheds");
    }
}

fn tell_server(service: &str, lanes: &[Arc<LaneCounters>], changes: u64) {
    let now = status::Service::read(Vec::new(), "", "", "", lanes);
    let (server, waiting, drops) = (&now.server.state, now.waiting, now.server.drops);
    if *server == ServerState::Up.name() {
        tracing::info!(%service, %server, changes, waiting, drops, "the server is there");
    } else if *server == ServerState::Missing.name() {
        tracing::warn!(%service, %server, changes, waiting, drops, "no socket on the guarded port; requests wait");
    } else if now.server.silent {
        tracing::error!(
            %service, %server, changes, waiting, drops,
            "the server is down: it has a socket and answers no probes (server.probe_interval). It is stopped or stuck; until it \
             answers, new requests are answered by sipweir"
        );
    } else {
        tracing::error!(
            %service, %server, changes, waiting, drops,
            "the server is down: no socket on the guarded port. Start it, or correct `listen`; until then new requests \
             are answered by sipweir"
        );
    }
}
