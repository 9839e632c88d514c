//! Rules one by one, then against a server that queues where nobody sees it.

use proptest::prelude::*;

use super::{Health, HealthConfig, LIMIT_MIN_PER_S, Seen};
use crate::{NANOS_PER_S, Nanos};

const SLOW: HealthConfig = HealthConfig { answer_time_max_s: Some(0.1), unavailable_max: None };
const REFUSING: HealthConfig = HealthConfig { answer_time_max_s: None, unavailable_max: Some(0.05) };
const STEP: Nanos = NANOS_PER_S / 4;

fn timed(median_s: f64) -> Seen {
    Seen { handed_over: 100, timed: 50, median_s: Some(median_s), finals: 100, unavailable: 0 }
}

#[test]
fn a_slow_server_is_cut_by_how_slow_it_is_and_one_that_is_not_is_left_alone() {
    for (median_s, limit_per_s) in
        [(0.09, None), (0.1, None), (0.102, Some(360.0)), (0.125, Some(320.0)), (9.0, Some(200.0))]
    {
        let mut health = Health::new(SLOW, 0);
        assert!(health.observe(STEP, &timed(median_s)));
        assert_eq!(health.limit_per_s(), limit_per_s, "{median_s}");
    }
}

#[test]
fn a_server_that_refuses_is_cut_and_only_by_its_share() {
    let seen = |unavailable| Seen { handed_over: 100, finals: 100, unavailable, ..Seen::default() };
    for (unavailable, limit_per_s) in [(0, None), (5, None), (6, Some(333.0)), (50, Some(200.0))] {
        let mut health = Health::new(REFUSING, 0);
        health.observe(STEP, &seen(unavailable));
        assert_eq!(health.limit_per_s().map(f64::round), limit_per_s, "{unavailable}");
    }
    let mut slow_only = Health::new(SLOW, 0);
    slow_only.observe(8 * STEP, &seen(100));
    assert_eq!(slow_only.limit_per_s(), None);
}

#[test]
fn a_server_that_gets_nothing_from_here_is_not_cut() {
    let seen = Seen { handed_over: 0, finals: 100, unavailable: 50, ..Seen::default() };
    let mut health = Health::new(REFUSING, 0);
    assert!(health.observe(STEP, &seen));
    assert_eq!((health.limit_per_s(), health.cuts()), (None, 0));
    health.observe(2 * STEP, &Seen { handed_over: 100, ..seen });
    let limit = health.limit_per_s();
    assert_eq!(limit, Some(200.0));
    for step in 3..10 {
        health.observe(step * STEP, &seen);
        assert_eq!(health.limit_per_s(), limit, "{step}");
    }
}

#[test]
fn a_window_waits_for_evidence_and_few_answers_are_none() {
    let few = Seen { timed: 3, median_s: Some(5.0), handed_over: 3, ..Seen::default() };
    let mut health = Health::new(SLOW, 0);
    assert!(!health.observe(STEP, &few), "it may get more");
    assert!(!health.observe(7 * STEP, &few));
    assert!(health.observe(8 * STEP, &few));
    assert_eq!(health.limit_per_s(), None);
    assert!(!health.observe(8 * STEP + STEP / 2, &timed(5.0)), "too short");
}

#[test]
fn after_a_cut_the_answers_of_before_do_not_cut_again() {
    let mut health = Health::new(SLOW, 0);
    health.observe(STEP, &timed(1.0));
    let first = health.limit_per_s();
    for step in 2..5 {
        health.observe(step * STEP, &timed(1.0));
        assert_eq!(health.limit_per_s(), first, "{step}");
    }
    health.observe(5 * STEP, &timed(1.0));
    assert!(health.limit_per_s() < first);
    assert_eq!(health.cuts(), 2);
}

#[test]
fn health_takes_the_limit_away() {
    let mut health = Health::new(SLOW, 0);
    health.observe(STEP, &timed(9.0));
    let mut steps = 1;
    while health.limit_per_s().is_some() {
        steps += 1;
        health.observe(steps * STEP, &timed(0.01));
        assert!(steps < 100, "{health:?}");
    }
    // From half to one and a half, at a tenth a second, and four seconds of settling.
    assert!((40..60).contains(&steps), "{steps} quarters of a second");
}

/// A server with a queue inside, reached by as much as is offered or as the limit lets through.
struct Model {
    capacity_per_s: f64,
    queue: f64,
    health: Health,
    seen: Seen,
    now: Nanos,
    served: f64,
}

impl Model {
    fn new(capacity_per_s: f64) -> Self {
        let health = Health::new(SLOW, 0);
        Self { capacity_per_s, queue: 0.0, health, seen: Seen::default(), now: 0, served: 0.0 }
    }

    fn latency_s(&self) -> f64 {
        0.002 + self.queue / self.capacity_per_s
    }

    /// A quarter of a second.
    fn step(&mut self, offered_per_s: f64) {
        let per_s = self.health.limit_per_s().map_or(offered_per_s, |limit| limit.min(offered_per_s));
        let (comes, goes) = (per_s / 4.0, (self.capacity_per_s / 4.0).min(self.queue + per_s / 4.0));
        self.queue = (self.queue + comes - goes).max(0.0);
        self.served += goes;
        self.now += STEP;
        self.seen.handed_over += comes.round() as u64;
        self.seen.timed += goes.round() as u64;
        self.seen.finals += goes.round() as u64;
        self.seen.median_s = Some(self.latency_s());
        if self.health.observe(self.now, &self.seen) {
            self.seen = Seen::default();
        }
    }

    /// Mean latency, its largest, what was served of capacity, and the limit's extremes as parts of capacity.
    fn run(&mut self, offered_per_s: f64, seconds: u32) -> (f64, f64, f64, f64, f64) {
        let (mut sum, mut most, mut low, mut high) = (0.0, 0.0_f64, f64::MAX, 0.0_f64);
        self.served = 0.0;
        for _ in 0..4 * seconds {
            self.step(offered_per_s);
            sum += self.latency_s();
            most = most.max(self.latency_s());
            if let Some(limit) = self.health.limit_per_s() {
                (low, high) = (low.min(limit / self.capacity_per_s), high.max(limit / self.capacity_per_s));
            }
        }
        let capacity = self.capacity_per_s * f64::from(seconds);
        (sum / f64::from(4 * seconds), most, self.served / capacity, low, high)
    }
}

#[test]
fn at_twice_its_capacity_a_server_is_kept_near_its_bound_and_busy() {
    for (capacity_per_s, overload) in [(100.0, 1.2), (100.0, 2.0), (1000.0, 2.0), (1000.0, 5.0), (20.0, 3.0)]
    {
        let mut model = Model::new(capacity_per_s);
        model.run(overload * capacity_per_s, 30);
        let (mean_s, most_s, busy, low, high) = model.run(overload * capacity_per_s, 120);
        println!(
            "{capacity_per_s}/s x {overload}: {mean_s:.3} s, at most {most_s:.3} s, busy {busy:.2}, limit {low:.2} to {high:.2}"
        );
        assert!(mean_s < 0.08, "mean latency {mean_s}");
        assert!(most_s < 0.35, "{most_s}");
        assert!(busy > 0.8, "{busy}");
        assert!(low > 0.5 && high < 1.25, "{low} to {high}");
    }
}

#[test]
fn below_capacity_nothing_is_ever_cut() {
    let mut model = Model::new(100.0);
    model.run(95.0, 60);
    assert_eq!(model.health.cuts(), 0);
}

#[test]
fn a_server_that_slows_down_for_a_while_gets_all_again_afterwards() {
    let mut model = Model::new(200.0);
    model.run(150.0, 20);
    model.capacity_per_s = 30.0;
    let (.., busy, _, _) = model.run(150.0, 60);
    assert!(model.health.limit_per_s().is_some() && busy > 0.8, "{busy}");
    model.capacity_per_s = 200.0;
    model.run(150.0, 40);
    assert_eq!(model.health.limit_per_s(), None, "{:?}", model.health);
    let (mean_s, ..) = model.run(150.0, 10);
    assert!(mean_s < 0.05);
}

proptest! {
    #[test]
    fn the_limit_is_a_number_that_starves_nobody_whatever_is_seen(
        windows in proptest::collection::vec(
            (0_u64..4_000_000_000, 0_u64..10_000, 0_u64..100, proptest::option::of(0.0_f64..100.0), 0_u64..1000, 0_u64..1000),
            0..60,
        ),
    ) {
        let config = HealthConfig { answer_time_max_s: Some(0.1), unavailable_max: Some(0.1) };
        let mut health = Health::new(config, 0);
        let mut now = 0;
        for (elapsed, handed_over, timed, median_s, finals, unavailable) in windows {
            now += elapsed;
            health.observe(now, &Seen { handed_over, timed, median_s, finals, unavailable: unavailable.min(finals) });
            if let Some(limit) = health.limit_per_s() {
                prop_assert!(limit.is_finite() && limit >= LIMIT_MIN_PER_S, "{limit}");
            }
        }
        // Health lasts: the limit goes, however deep it was.
        for _ in 0..400 {
            now += NANOS_PER_S;
            health.observe(now, &Seen { handed_over: 1, timed: 16, median_s: Some(0.01), finals: 16, unavailable: 0 });
        }
        prop_assert_eq!(health.limit_per_s(), None);
    }
}
