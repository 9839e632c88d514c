use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

use super::{Random, RandomConfig, SAMPLE_THRESHOLD};
use crate::gate::{Decision, Gate, GateState, GateWord, ShedReason};
use crate::threshold::Threshold;

const MS: u64 = 1_000_000;

fn config(low: u32, high: u32, buffer: u32, weight: f64, initial_probability: f64) -> RandomConfig {
    let [low, high, buffer] = [low, high, buffer].map(Threshold::Messages);
    RandomConfig { low, high, buffer, weight, initial_probability }
}

fn gate(low: u32, high: u32, buffer: u32, weight: f64, initial_probability: f64) -> Random {
    Random::new(&config(low, high, buffer, weight, initial_probability), buffer, 1000.0).unwrap()
}

/// The gate while a word with this share is in force.
fn behind(mut gate: Random, share: f64) -> Random {
    gate.published(GateWord::new(GateState::Overload, GateWord::threshold_of(share)));
    gate
}

#[test]
fn the_average_decides_and_not_the_line() {
    let mut gate = gate(10, 20, 100, 0.5, 0.2);
    assert_eq!(gate.arrive(0, u32::MAX, 18), Decision::Admit, "Q = 9");
    assert_eq!(gate.arrive(0, u32::MAX, 18), Decision::Shed(ShedReason::ShareOutside), "Q = 13.5");
    assert_eq!(gate.arrive(0, 0, 40), Decision::Shed(ShedReason::GateDiscard), "Q = 26.75");
    assert_eq!(gate.arrive(0, u32::MAX, 0), Decision::Shed(ShedReason::ShareOutside), "Q = 13.375");
    assert_eq!(gate.arrive(0, u32::MAX, 0), Decision::Admit, "Q = 6.6875");
    assert_eq!(gate.average, 6.6875);
    assert_eq!(gate.transitions(), 4);
}

#[test]
fn the_share_falls_from_1_less_p0_at_the_first_threshold_to_0_at_the_second() {
    for (n, share) in [(10, 0.8), (15, 0.4), (20, 0.0)] {
        let mut gate = gate(10, 20, 100, 1.0, 0.2);
        let _decision = gate.arrive(0, u32::MAX, n);
        assert_eq!(gate.state(), GateState::Overload);
        assert!((gate.admitted_share() - share).abs() < 1e-12, "{n}");
    }
}

#[test]
fn a_full_buffer_refuses_whatever_the_average() {
    let mut gate = gate(10, 20, 30, 0.1, 0.0);
    assert_eq!(gate.arrive(0, 0, 30), Decision::Shed(ShedReason::GateDiscard));
    assert_eq!(gate.state(), GateState::Normal);
    assert_eq!(gate.arrive(0, u32::MAX, 29), Decision::Admit);
}

#[test]
fn the_word_is_open_below_the_thresholds_and_a_share_with_a_sample_above() {
    let mut gate = gate(10, 20, 100, 1.0, 0.2);
    assert_eq!(gate.word(), GateWord::OPEN);
    let _decision = gate.arrive(0, 0, 15);
    assert_eq!(gate.word().state(), GateState::Overload);
    assert!((gate.word().admitted_share() - 0.4).abs() < 1e-9);
    let _decision = gate.arrive(0, 0, 50);
    assert_eq!(gate.state(), GateState::Discard);
    assert_eq!(gate.word(), GateWord::new(GateState::Overload, SAMPLE_THRESHOLD));
}

#[test]
fn a_request_behind_a_word_counts_for_those_that_the_word_has_shed() {
    let mut all = gate(10, 20, 100, 0.3, 0.2);
    let mut quarter = behind(all.clone(), 0.25);
    for n in [40, 30, 35] {
        for _ in 0..4 {
            let _decision = all.arrive(0, 0, n);
        }
        let _decision = quarter.arrive(0, (1 << 30) - 1, n);
        assert!((all.average - quarter.average).abs() < 1e-9, "{} {}", all.average, quarter.average);
        let _decision = quarter.arrive(0, 1 << 30, n);
        assert!((all.average - quarter.average).abs() < 1e-9, "what came past the word is not counted twice");
    }
    quarter.published(GateWord::OPEN);
    let _decision = quarter.arrive(0, u32::MAX, 0);
    let _decision = all.arrive(0, u32::MAX, 0);
    assert!((all.average - quarter.average).abs() < 1e-9, "an open word sheds nothing");
}

#[test]
fn an_empty_system_behind_a_word_forgets_one_request_a_service_time() {
    let shut = || {
        let mut gate = gate(10, 20, 100, 0.5, 0.2);
        let _decision = gate.arrive(0, 0, 80);
        gate
    };
    let mut filtered = behind(shut(), 0.25);
    filtered.depart(0, 0);
    // 1000 services a second.
    filtered.depart(3 * MS, 0);
    assert!((filtered.average - 5.0).abs() < 1e-9, "{}", filtered.average);
    assert_eq!(filtered.state(), GateState::Normal);
    let mut literal = shut();
    literal.depart(0, 0);
    literal.depart(3 * MS, 0);
    assert_eq!(literal.average, 40.0, "where all requests come, only they count");
    let mut busy = behind(shut(), 0.25);
    busy.depart(0, 0);
    busy.depart(0, 1);
    busy.depart(3 * MS, 1);
    assert_eq!(busy.average, 40.0);
}

#[test]
fn a_server_that_is_down_does_not_change_what_requests_count_for() {
    let mut gate = behind(gate(10, 20, 100, 0.5, 0.2), 0.25);
    gate.published(GateWord::new(GateState::Discard, 0));
    gate.published(GateWord::new(GateState::Overload, 0));
    let _decision = gate.arrive(0, 0, 16);
    assert!(gate.average.is_finite());
}

#[test]
fn thresholds_in_time_follow_the_service_rate() {
    let [low, high, buffer] = [100, 200, 300].map(|ms| Threshold::Time(ms * MS));
    let config = RandomConfig { low, high, buffer, weight: 1.0, initial_probability: 0.5 };
    let mut gate = Random::new(&config, 1000, 1000.0).unwrap();
    assert_eq!(gate.levels, [100, 200, 300]);
    gate.set_service_rate(100.0);
    assert_eq!(gate.levels, [10, 20, 30]);
    for ignored in [f64::NAN, -1.0, f64::INFINITY] {
        gate.set_service_rate(ignored);
        assert_eq!(gate.levels, [10, 20, 30]);
    }
    assert_eq!(gate.arrive(0, 0, 21), Decision::Shed(ShedReason::GateDiscard));
}

/// The definition, word by word: the average as the sum over all requests so far, the probability as a fraction.
struct Definition {
    config: (f64, f64, usize, f64, f64),
    found: Vec<usize>,
}

impl Definition {
    /// The probability of a refusal of a request that finds n others.
    fn refusal(&mut self, n: usize) -> f64 {
        let (low, high, buffer, weight, initial) = self.config;
        self.found.push(n);
        let average: f64 = self
            .found
            .iter()
            .rev()
            .enumerate()
            .map(|(age, n)| weight * (1.0 - weight).powi(age as i32) * *n as f64)
            .sum();
        match average {
            _ if n >= buffer => 1.0,
            q if q < low => 0.0,
            q if q > high => 1.0,
            q => (q - low) / (high - low) * (1.0 - initial) + initial,
        }
    }
}

proptest! {
    #[test]
    fn the_gate_follows_the_definition(
        low in 1_u32..20, gap in 1_u32..20, room in 0_u32..20,
        weight in 0.01..=1.0_f64, initial in 0.0..=1.0_f64,
        requests in proptest::collection::vec((0_usize..70, any::<u32>()), 1..200),
    ) {
        let (high, buffer) = (low + gap, low + gap + room);
        let mut gate = gate(low, high, buffer, weight, initial);
        let mut definition = Definition {
            config: (f64::from(low), f64::from(high), buffer as usize, weight, initial),
            found: Vec::new(),
        };
        for (n, hash) in requests {
            let refusal = definition.refusal(n);
            let decision = gate.arrive(0, hash, n);
            let draw = 1.0 - f64::from(hash) / 4_294_967_296.0;
            // Sums in another order differ in their last digits.
            let close = (draw - refusal).abs() < 1e-9
                || [low, high].iter().any(|level| (gate.average - f64::from(*level)).abs() < 1e-9);
            if !close {
                prop_assert_eq!(decision == Decision::Admit, draw > refusal, "{} {}", draw, refusal);
            }
        }
    }

    #[test]
    fn who_is_admitted_is_admitted_with_every_smaller_hash(
        found in proptest::collection::vec(0_usize..60, 1..20), hash in any::<u32>(), part in 0.0..1.0_f64,
    ) {
        let mut gate = gate(10, 40, 50, 0.4, 0.1);
        for n in found {
            let mut other = gate.clone();
            let smaller = (f64::from(hash) * part) as u32;
            if gate.arrive(0, hash, n) == Decision::Admit {
                prop_assert_eq!(other.arrive(0, smaller, n), Decision::Admit);
            }
        }
    }

    #[test]
    fn calls_of_depart_in_between_change_nothing(
        times in proptest::collection::vec(0_u64..2_000_000, 1..30), share in 0.1..1.0_f64,
    ) {
        let mut rare = behind(gate(10, 20, 100, 0.01, 0.2), share);
        let _decision = rare.arrive(0, 0, 90);
        let mut often = rare.clone();
        let mut now = 0;
        rare.depart(0, 0);
        often.depart(0, 0);
        for span_ns in times {
            now += span_ns;
            often.depart(now, 0);
        }
        rare.depart(now, 0);
        prop_assert!((rare.average - often.average).abs() < 1e-9);
        prop_assert_eq!(rare.state(), often.state());
    }

    #[test]
    fn the_word_admits_what_the_gate_would_admit_and_at_least_a_sample(
        found in proptest::collection::vec((0_usize..60, any::<u32>()), 1..30), hash in any::<u32>(),
    ) {
        let mut gate = gate(10, 40, 50, 0.4, 0.1);
        for (n, before) in found {
            let _decision = gate.arrive(0, before, n);
            let word = gate.word();
            prop_assert!(word.admitted_share() >= 1.0 / 16.0);
            // The same line again moves the average by itself, so the share of the word is compared.
            prop_assert!(word.admitted_share() >= gate.admitted_share() - 1e-9);
            if hash < SAMPLE_THRESHOLD {
                prop_assert_eq!(word.decide(hash), Decision::Admit);
            }
        }
    }
}
