//! The servers' health, four times a second: what was answered is judged, and the lanes are told how much they may hand over.
//!
//! What is decided, and why: `overload::Health`. Here are the counters it is fed from, and the division among the workers.

use std::ops::Range;
use std::sync::Arc;

use overload::{Health, HealthConfig, Seen, quantile};
use sip::Class;
use xdp_prog::{AnswerCounters, AnswerReader, answer_bounds_s};

use super::answers::{self, Answers};
use crate::config::{Config, Service};
use crate::counters::{LaneCounters, Outcome};
use crate::log::changes::Changes;
use crate::orders::Orders;

/// Part of a limit that is divided evenly, so that a queue on which calls begin to come is not at zero.
const EVEN_PART: f64 = 0.1;

/// A lane as the judge sees it.
#[derive(Debug, Clone)]
pub(super) struct Judged {
    pub(super) counters: Arc<LaneCounters>,
    pub(super) orders: Arc<Orders>,
}

/// The judges of all services that have one.
#[derive(Debug, Default)]
pub(super) struct Judges {
    reader: Option<AnswerReader>,
    judges: Vec<Judge>,
}

#[derive(Debug)]
struct Judge {
    service: String,
    health: Health,
    told: Changes,
    /// Times that a limit was set or taken away.
    changes: u64,
    /// Indexes of the service's addresses in the program that sees answers.
    addresses: Range<usize>,
    lanes: Vec<Judged>,
    /// At the beginning of the window.
    answered: AnswerCounters,
    handed_over: Vec<u64>,
}

/// What a configured service allows its server.
fn config_of(service: &Service) -> HealthConfig {
    HealthConfig {
        answer_time_max_s: service.server.answer_time_max.map(|span| span.nanos() as f64 / 1e9),
        unavailable_max: service.server.unavailable_max,
    }
}

impl Judges {
    /// The judges of those services that have a bound, and whose answers are seen; `lanes` are those of each service.
    pub(super) fn new(
        config: &Config,
        answers: Option<&Answers>,
        lanes: &[Vec<Judged>],
        now_ns: u64,
    ) -> anyhow::Result<Self> {
        let reader = answers.map(Answers::reader).transpose()?;
        let mut judges = Vec::new();
        let mut begin = 0;
        for ((name, service), lanes) in config.service.iter().zip(lanes) {
            let addresses = begin..begin + service.listen.0.len();
            begin = addresses.end;
            let bounds = config_of(service);
            if bounds.is_on() && answers::is_watched(service) {
                let handed_over = vec![0; lanes.len()];
                let (health, lanes) = (Health::new(bounds, now_ns), lanes.clone());
                judges.push(Judge {
                    service: name.clone(),
                    health,
                    told: Changes::new(now_ns),
                    changes: 0,
                    addresses,
                    lanes,
                    answered: AnswerCounters::default(),
                    handed_over,
                });
            }
        }
        Ok(Self { reader, judges })
    }

    /// Judges what was answered since the last time, and tells the lanes.
    pub(super) fn look(&mut self, now_ns: u64) {
        let Some(reader) = &self.reader else { return };
        for judge in &mut self.judges {
            judge.look(reader, now_ns);
        }
    }
}

impl Judge {
    fn look(&mut self, reader: &AnswerReader, now_ns: u64) {
        let mut answered = AnswerCounters::default();
        for address in self.addresses.clone() {
            let Ok(counters) = reader.read(address) else { return };
            answered.add(&counters);
        }
        let handed_over: Vec<u64> = self
            .lanes
            .iter()
            .map(|lane| lane.counters.outcome_of(Class::Original, Outcome::HandedOver))
            .collect();
        let since: Vec<u64> = handed_over
            .iter()
            .zip(&self.handed_over)
            .map(|(now, before)| now.saturating_sub(*before))
            .collect();
        let seen = seen(&answered.since(&self.answered), since.iter().sum());
        let was_limited = self.health.limit_per_s().is_some();
        let is_closed = self.health.observe(now_ns, &seen);
        self.changes += u64::from(was_limited != self.health.limit_per_s().is_some());
        self.tell(&seen, now_ns);
        if !is_closed {
            return;
        }
        (self.answered, self.handed_over) = (answered, handed_over);
        let demand: Vec<u64> = since
            .iter()
            .zip(&self.lanes)
            .map(|(handed, lane)| handed + lane.counters.waiting.get())
            .collect();
        for (lane, part) in self.lanes.iter().zip(parts(&demand)) {
            lane.orders.limit(self.health.limit_per_s().map(|limit| limit * part));
        }
    }
}

impl Judge {
    /// Says that there is a limit, or none any more.
    fn tell(&mut self, seen: &Seen, now_ns: u64) {
        let Some(changes) = self.told.due(self.changes, now_ns) else { return };
        let service = &self.service;
        let answer_ms = seen.median_s.map(|median| 1e3 * median);
        let (finals, unavailable) = (seen.finals, seen.unavailable);
        match self.health.limit_per_s() {
            Some(limit_per_s) => tracing::warn!(
                %service, changes, limit_per_s, answer_ms, finals, unavailable,
                "the server is above its bounds (server.answer_time_max, server.unavailable_max), so it is given less"
            ),
            None => tracing::info!(
                %service, changes, answer_ms, finals, unavailable, "the server is well, and is given all it takes"
            ),
        }
    }
}

/// What the judge is told.
fn seen(answered: &AnswerCounters, handed_over: u64) -> Seen {
    Seen {
        handed_over,
        timed: answered.times.iter().sum(),
        median_s: quantile(&answered.times, &answer_bounds_s(), 0.5),
        // From 200 on.
        finals: answered.classes[2..].iter().sum(),
        unavailable: answered.unavailable,
    }
}

/// The parts of a limit by what each lane has to hand over.
fn parts(demand: &[u64]) -> Vec<f64> {
    let lanes = demand.len() as f64;
    let total: u64 = demand.iter().sum();
    let of = |one: &u64| if total == 0 { 1.0 / lanes } else { *one as f64 / total as f64 };
    demand.iter().map(|one| EVEN_PART / lanes + (1.0 - EVEN_PART) * of(one)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use xdp_prog::AnswerCounters;

    use super::{parts, seen};

    #[test]
    fn provisional_answers_are_no_final_ones() {
        let mut answered =
            AnswerCounters { classes: [0, 9, 4, 1, 1, 3, 1], unavailable: 2, ..Default::default() };
        answered.times[1] = 5;
        let seen = seen(&answered, 12);
        assert_eq!((seen.finals, seen.unavailable, seen.timed, seen.handed_over), (10, 2, 5, 12));
        assert!(seen.median_s.is_some_and(|median| median > 64e-6 && median <= 96e-6));
    }

    proptest! {
        #[test]
        fn parts_add_up_and_none_is_nothing(demand in proptest::collection::vec(0_u64..1000, 1..20)) {
            let parts = parts(&demand);
            prop_assert!((parts.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            prop_assert!(parts.iter().all(|part| *part >= 0.099 / demand.len() as f64));
        }
    }
}
