//! The controls of `overload::distributed` at a simulated edge: one towards each node that the edge sends to.
//!
//! # Assumptions
//!
//! - All requests are of the first category.
//! - A probe is a request of its own (OPTIONS: sent again like any request but INVITE), that waits behind the node's gate
//!   and costs a service like a call. What it measures is the delay of a request, and what it takes is lost to calls.
//! - A request that the edge's own timers gave up counts as unanswered (`code` 0).

use std::collections::BTreeMap;

use overload::distributed::{self, AnyControl, Category, ClientControl, ControlConfig};
use overload::{ConfigError, Nanos};

use super::controller::{Controller, MakeController, Request, Response};

/// What a timed out transaction is for a control.
const UNANSWERED: u16 = 0;
/// What the engine tells of it.
const TIMEOUT: u16 = 408;

/// Makes the edge of a control.
#[derive(Debug, Clone)]
pub struct EdgeControl {
    fresh: AnyControl,
    probe_period_ns: Option<Nanos>,
}

impl EdgeControl {
    /// Edges with this control.
    ///
    /// # Errors
    /// Everything that is wrong with its settings.
    pub fn new(config: &ControlConfig) -> Result<Self, ConfigError> {
        let probe_period_ns = match config {
            ControlConfig::Peoc(peoc) => Some(peoc.probe_period_ns),
            _ => None,
        };
        Ok(Self { fresh: AnyControl::new(config)?, probe_period_ns })
    }
}

impl MakeController for EdgeControl {
    fn make(&self, _seed: u64) -> Box<dyn Controller> {
        Box::new(Edge { fresh: self.fresh.clone(), ways: BTreeMap::new() })
    }

    fn probe_period_ns(&self) -> Option<Nanos> {
        self.probe_period_ns
    }
}

#[derive(Debug)]
struct Edge {
    fresh: AnyControl,
    /// By the node that is sent to.
    ways: BTreeMap<usize, AnyControl>,
}

impl Edge {
    fn towards(&mut self, next: usize) -> &mut AnyControl {
        self.ways.entry(next).or_insert_with(|| self.fresh.clone())
    }
}

impl Controller for Edge {
    fn admit(&mut self, request: &Request) -> bool {
        self.towards(request.next).ask(request.now, Category::FIRST, request.share_hash)
    }

    fn respond(&mut self, response: &Response) {
        let Response { now, next, code, delay_ns, is_probe, announcement } = *response;
        let code = if code == TIMEOUT { UNANSWERED } else { code };
        self.towards(next).hear(now, &distributed::Response { code, delay_ns, is_probe, announcement });
    }

    fn next_probe(&mut self, next: usize) -> Option<Nanos> {
        self.towards(next).next_probe()
    }

    fn probe(&mut self, now: Nanos, next: usize) -> bool {
        self.towards(next).probe(now)
    }
}

#[cfg(test)]
mod tests {
    use overload::distributed::{ControlConfig, DeocConfig, PeocConfig, RateControlConfig};

    use super::EdgeControl;
    use crate::simulate::controller::{Controller, MakeController, Request, Response};

    const MS: u64 = 1_000_000;

    fn edge(config: &ControlConfig) -> Box<dyn Controller> {
        EdgeControl::new(config).unwrap().make(1)
    }

    fn answer(now: u64, next: usize, code: u16, delay_ns: u64) -> Response {
        Response { now, next, code, delay_ns, is_probe: false, announcement: None }
    }

    #[test]
    fn an_edge_controls_each_way_by_itself() {
        let mut edge = edge(&ControlConfig::Deoc(DeocConfig::default()));
        let mut admitted = |next: usize, from_ms: u64| {
            let request = |ms| Request { now: (from_ms + ms) * MS, next, share_hash: 0 };
            (0..1000).filter(|ms| edge.admit(&request(*ms))).count()
        };
        // 100 a second at first, with a tolerance of four.
        assert_eq!((admitted(3, 0), admitted(4, 0)), (104, 104));
        for period in 0..10 {
            edge.respond(&answer((1000 + 200 * period) * MS, 3, 503, MS));
            edge.respond(&answer((1000 + 200 * period) * MS, 4, 200, MS));
        }
        let mut admitted = |next| {
            (0..1000).filter(|ms| edge.admit(&Request { now: (4000 + ms) * MS, next, share_hash: 0 })).count()
        };
        assert!(admitted(3) < 30);
        assert!(admitted(4) > 180);
    }

    #[test]
    fn only_probes_tell_their_delay_and_each_way_has_its_own() {
        let config = PeocConfig { probe_period_ns: 20 * MS, idle_delay_ns: 5 * MS, ..PeocConfig::default() };
        let admitted = |delays_ms: &[(bool, u64)]| {
            let mut edge = edge(&ControlConfig::Peoc(config));
            for (is_probe, delay_ms) in delays_ms {
                edge.respond(&Response { is_probe: *is_probe, ..answer(100 * MS, 0, 200, delay_ms * MS) });
            }
            (400..1400).filter(|ms| edge.admit(&Request { now: ms * MS, next: 0, share_hash: 0 })).count()
        };
        // The threshold is ten times the idle delay.
        assert!(admitted(&[(true, 10), (false, 100)]) > 104);
        assert!(admitted(&[(true, 100), (false, 10)]) < 100);
        let mut edge = edge(&ControlConfig::Peoc(config));
        assert!(edge.probe(7 * MS, 0));
        assert_eq!((edge.next_probe(0), edge.next_probe(1)), (Some(27 * MS), Some(0)));
    }

    #[test]
    fn wrong_settings_make_no_edge() {
        let config = ControlConfig::Rate(RateControlConfig { tolerances: vec![-1.0] });
        assert_eq!(EdgeControl::new(&config).unwrap_err().problems.len(), 1);
    }
}
