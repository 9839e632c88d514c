//! PEOC: an edge that learns from the delay of probes.
//!
//! Refusals come when the overload is there; a longer delay comes before. The edge sends a probe (an OPTIONS request that
//! the core serves in turn with the others) every `probe_period_ns`, and estimates the core's load from the mean delay D of
//! the probes that came back in a period: in M|M|1 a probe waits for S/(1 − ρ), where S is its delay at an idle core, so
//!
//! ```text
//!   ρ = 1 − S/D
//! ```
//!
//! With ρ ≤ θ the edge sends more, otherwise less ([`AdaptiveRate`]). Where service is not exponential the estimate
//! is not the load, but it still grows with it, and θ is a threshold on D all the same: D ≤ S/(1 − θ). A probe that is
//! refused or does not come back says ρ = 1. Delays of ordinary requests are not used: they contain what the callee does.
//!
//! Source: PEOC (JNCA 2014).

use super::adaptive::{AdaptiveConfig, AdaptiveRate};
use super::{Category, ClientControl, Response};
use crate::Nanos;
use crate::config::{ConfigError, Problem};

/// Settings of [`Peoc`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PeocConfig {
    /// How the rate changes.
    pub adaptive: AdaptiveConfig,
    /// Time between two probes; several should fit into `adaptive.period_ns`. Each costs the core a service.
    pub probe_period_ns: Nanos,
    /// S: the delay of a probe at an idle core, network and service.
    pub idle_delay_ns: Nanos,
    /// θ: the estimated load up to which a period counts as one without overload, above 0 and below 1.
    pub load: f64,
}

impl Default for PeocConfig {
    /// Ten probes in a period, a core that answers in 5 ms, and a delay of up to ten times that.
    fn default() -> Self {
        Self {
            adaptive: AdaptiveConfig::default(),
            probe_period_ns: 20_000_000,
            idle_delay_ns: 5_000_000,
            load: 0.9,
        }
    }
}

impl PeocConfig {
    /// All problems, one for each wrong parameter.
    #[must_use]
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = self.adaptive.check();
        for (field, span_ns) in
            [("probe_period_ns", self.probe_period_ns), ("idle_delay_ns", self.idle_delay_ns)]
        {
            if span_ns == 0 {
                problems.push(Problem::Zero { field });
            }
        }
        if !(self.load > 0.0 && self.load < 1.0) {
            let range = "above 0 and below 1";
            problems.push(Problem::Range { field: "load", value: self.load, range });
        }
        problems
    }
}

/// The control of [`PeocConfig`].
#[derive(Debug, Clone)]
pub struct Peoc {
    config: PeocConfig,
    rate: AdaptiveRate,
    next_probe: Nanos,
    /// Probes of this period that came back with an answer, and the sum of their delays.
    answered: u64,
    delay_ns: u128,
    /// Probes of this period that were refused or lost.
    failed: u64,
}

impl Peoc {
    /// An edge at the beginning of its first period; its first probe is due at once.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration.
    pub fn new(config: &PeocConfig) -> Result<Self, ConfigError> {
        ConfigError::check(config.check())?;
        let rate = AdaptiveRate::new(&config.adaptive)?;
        Ok(Self { config: *config, rate, next_probe: 0, answered: 0, delay_ns: 0, failed: 0 })
    }

    /// ρ by the probes of the running period, if there are any.
    #[must_use]
    pub fn load(&self) -> Option<f64> {
        match (self.failed, self.answered) {
            (0, 0) => None,
            (0, answered) => {
                let mean_ns = self.delay_ns as f64 / answered as f64;
                Some((1.0 - self.config.idle_delay_ns as f64 / mean_ns).max(0.0))
            }
            _ => Some(1.0),
        }
    }

    fn judge(&mut self, now: Nanos) {
        if self.rate.period_ends(now)
            && let Some(load) = self.load()
        {
            self.rate.adapt(load > self.config.load);
            (self.answered, self.delay_ns, self.failed) = (0, 0, 0);
        }
    }
}

impl ClientControl for Peoc {
    fn ask(&mut self, now: Nanos, category: Category, _draw: u32) -> bool {
        self.judge(now);
        self.rate.ask(now, category)
    }

    fn hear(&mut self, now: Nanos, response: &Response) {
        self.judge(now);
        if response.is_probe {
            if response.is_refusal() || response.code == 0 {
                self.failed += 1;
            } else {
                self.answered += 1;
                self.delay_ns += u128::from(response.delay_ns);
            }
        }
    }

    fn probe(&mut self, now: Nanos) -> bool {
        let is_due = now >= self.next_probe;
        if is_due {
            self.next_probe = now.saturating_add(self.config.probe_period_ns);
        }
        is_due
    }

    fn next_probe(&self) -> Option<Nanos> {
        Some(self.next_probe)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::{Peoc, PeocConfig};
    use crate::config::Problem;
    use crate::distributed::{AdaptiveConfig, ClientControl, Response};

    const MS: u64 = 1_000_000;
    const PERIOD_NS: u64 = 200 * MS;

    fn probe(code: u16, delay_ns: u64) -> Response {
        Response { is_probe: true, ..Response::new(code, delay_ns) }
    }

    /// The rate after a period with these answers, from 100 by 10 up or a fifth down.
    fn after(answers: &[Response]) -> f64 {
        let mut edge = Peoc::new(&PeocConfig::default()).unwrap();
        for answer in answers {
            edge.hear(0, answer);
        }
        edge.hear(PERIOD_NS, &Response::new(200, 0));
        edge.rate.rate_per_s
    }

    #[test]
    fn the_load_is_what_the_delay_of_m_m_1_says() {
        let mut edge = Peoc::new(&PeocConfig::default()).unwrap();
        assert_eq!(edge.load(), None);
        for (delay_ms, load) in [(5, 0.0), (15, 0.5), (10, 0.5)] {
            edge.hear(0, &probe(200, delay_ms * MS));
            assert!((edge.load().unwrap() - load).abs() < 1e-12, "{delay_ms} {:?}", edge.load());
        }
        edge.hear(0, &probe(503, MS));
        assert_eq!(edge.load(), Some(1.0));
    }

    #[test]
    fn a_delay_beyond_the_threshold_lowers_the_rate_before_anything_is_refused() {
        // S/(1 - θ) = 50 ms.
        assert_eq!(after(&[probe(200, 49 * MS)]), 110.0);
        assert_eq!(after(&[probe(200, 51 * MS)]), 80.0);
        assert_eq!(
            after(&[probe(200, 99 * MS), probe(405, MS - 1)]),
            110.0,
            "their mean counts, whatever the code"
        );
    }

    #[test]
    fn a_probe_that_is_refused_or_lost_is_an_overload() {
        assert_eq!(after(&[probe(200, MS), probe(503, MS)]), 80.0);
        assert_eq!(after(&[probe(0, 32_000 * MS)]), 80.0);
    }

    #[test]
    fn ordinary_requests_say_nothing() {
        assert_eq!(after(&[Response::new(503, 0), Response::new(200, 9_000 * MS)]), 100.0);
    }

    #[test]
    fn each_wrong_parameter_is_named_once() {
        let valid = PeocConfig::default();
        let adaptive = AdaptiveConfig { increase: -1.0, ..valid.adaptive };
        for (config, field) in [
            (PeocConfig { adaptive, ..valid }, "increase"),
            (PeocConfig { probe_period_ns: 0, ..valid }, "probe_period_ns"),
            (PeocConfig { idle_delay_ns: 0, ..valid }, "idle_delay_ns"),
            (PeocConfig { load: 1.0, ..valid }, "load"),
            (PeocConfig { load: f64::NAN, ..valid }, "load"),
        ] {
            let problems = Peoc::new(&config).unwrap_err().problems;
            assert_eq!(problems.iter().map(Problem::field).collect::<Vec<_>>(), [field]);
        }
    }

    proptest! {
        #[test]
        fn probes_are_due_in_their_period_however_often_it_is_asked(
            gaps_ms in proptest::collection::vec(0_u64..50, 1..200),
        ) {
            let mut edge = Peoc::new(&PeocConfig::default()).unwrap();
            let (mut now, mut last) = (0, None);
            for gap_ms in gaps_ms {
                now += gap_ms * MS;
                let is_due = last.is_none_or(|last| now >= last + 20 * MS);
                prop_assert_eq!(edge.probe(now), is_due);
                last = if is_due { Some(now) } else { last };
                prop_assert!(edge.next_probe().unwrap() > now);
            }
        }
    }
}
