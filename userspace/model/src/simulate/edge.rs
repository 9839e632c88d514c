//! The controls of `overload::distributed` at a simulated edge: one towards each node that the edge sends to.
//!
//! # Assumptions
//!
//! - All requests are of the first category.
//! - A probe costs what a request costs, and is one: of the requests that the edge sends on, the first in each probe period
//!   stands for the probe. Its delay is that of a request that waits its turn and has no callee, which is what a probe
//!   is to measure, and no extra load has to be told from calls.
//! - A request that the edge's own timers gave up counts as unanswered (`code` 0).

use std::collections::BTreeMap;

use overload::ConfigError;
use overload::distributed::{self, AnyControl, Category, ClientControl, ControlConfig};

use super::controller::{Controller, MakeController, Request, Response};

/// What a timed out transaction is for a control.
const UNANSWERED: u16 = 0;
/// What the engine tells of it.
const TIMEOUT: u16 = 408;

/// Makes the edge of a control.
#[derive(Debug, Clone)]
pub struct EdgeControl {
    fresh: AnyControl,
}

impl EdgeControl {
    /// Edges with this control.
    ///
    /// # Errors
    /// Everything that is wrong with its settings.
    pub fn new(config: &ControlConfig) -> Result<Self, ConfigError> {
        Ok(Self { fresh: AnyControl::new(config)? })
    }
}

impl MakeController for EdgeControl {
    fn make(&self, _seed: u64) -> Box<dyn Controller> {
        Box::new(Edge { fresh: self.fresh.clone(), ways: BTreeMap::new() })
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
        let Response { now, next, code, delay_ns, announcement } = *response;
        let control = self.towards(next);
        let is_probe = control.probe(now - delay_ns);
        let code = if code == TIMEOUT { UNANSWERED } else { code };
        control.hear(now, &distributed::Response { code, delay_ns, is_probe, announcement });
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
        Response { now, next, code, delay_ns, announcement: None }
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
    fn the_first_request_of_each_probe_period_is_the_probe() {
        let config = PeocConfig { probe_period_ns: 20 * MS, idle_delay_ns: 5 * MS, ..PeocConfig::default() };
        let rate = |sent_ms: &[(u64, u64)]| {
            let mut edge = edge(&ControlConfig::Peoc(config));
            for (sent_ms, delay_ms) in sent_ms {
                edge.respond(&answer((sent_ms + delay_ms) * MS, 0, 200, delay_ms * MS));
            }
            (400..1400).filter(|ms| edge.admit(&Request { now: ms * MS, next: 0, share_hash: 0 })).count()
        };
        // The slow one is no probe; the threshold is ten times the idle delay.
        assert!(rate(&[(0, 10), (10, 100), (21, 10)]) > 104);
        assert!(rate(&[(0, 100), (10, 10), (21, 100)]) < 100);
    }

    #[test]
    fn wrong_settings_make_no_edge() {
        let config = ControlConfig::Rate(RateControlConfig { tolerances: vec![-1.0] });
        assert_eq!(EdgeControl::new(&config).unwrap_err().problems.len(), 1);
    }
}
