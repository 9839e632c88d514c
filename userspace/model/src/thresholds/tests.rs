use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

use super::{OutOfReach, ThresholdProblem, Thresholds, down, up};
use crate::hysteresis::Hysteresis;
use crate::parameter::levels;

const MU: f64 = 200.0;

fn problem(buffer: u32, rho: f64, share: f64, max_discard: f64, min_cycle_s: f64) -> ThresholdProblem {
    ThresholdProblem::new((rho * MU, MU), buffer, share, max_discard, min_cycle_s).unwrap()
}

/// All pairs, each solved state by state.
fn all_pairs(buffer: u32, rho: f64, share: f64) -> Vec<Thresholds> {
    let pairs = (1..buffer).flat_map(|high| (1..=high).map(move |low| (low, high)));
    pairs
        .map(|(low, high)| {
            let model = Hysteresis::new(levels(low, high, buffer).unwrap(), rho * MU, MU, share).unwrap();
            let found = model.solve();
            Thresholds {
                low,
                high,
                return_time_s: found.return_time_s,
                cycle_s: found.cycle_s,
                p_discard: found.states[2],
            }
        })
        .collect()
}

#[test]
fn the_reference_choices_are_met() {
    for (min_cycle_s, pair, return_ms) in
        [(0.42, (74, 85), 149.94719), (60.0 / MU, (76, 84), 112.4665), (100.0 / MU, (72, 85), 174.9471)]
    {
        let found = problem(100, 1.2, 0.5, 1e-4, min_cycle_s).solve().unwrap();
        assert_eq!((found.low, found.high), pair, "{min_cycle_s}");
        assert!((found.return_time_s * 1e3 / return_ms - 1.0).abs() < 1e-6, "{found:?}");
        assert!(found.p_discard <= 1e-4 && found.cycle_s >= min_cycle_s, "{found:?}");
    }
}

#[test]
fn a_limit_that_cannot_be_met_is_named_with_the_nearest_that_can() {
    let discard = problem(20, 1.5, 0.9, 1e-9, 0.0);
    let error = discard.solve().unwrap_err();
    let OutOfReach::Discard { nearest, .. } = error else { panic!("{error}") };
    assert!(error.to_string().starts_with("max-discard 0.000000001 cannot be met"), "{error}");
    let met = problem(20, 1.5, 0.9, up(nearest.p_discard, 4), 0.0).solve().unwrap();
    assert_eq!((met.low, met.high), (nearest.low, nearest.high));

    let cycle = problem(20, 1.5, 0.5, 1.0, 60.0);
    let error = cycle.solve().unwrap_err();
    let OutOfReach::Cycle { nearest, .. } = error else { panic!("{error}") };
    assert!(error.to_string().starts_with("min-cycle 60 cannot be met"), "{error}");
    let met = problem(20, 1.5, 0.5, 1.0, down(nearest.cycle_s, 4)).solve().unwrap();
    assert_eq!((met.low, met.high), (nearest.low, nearest.high));
}

#[test]
fn limits_that_exclude_each_other_are_answered_with_the_nearest_of_each() {
    let error = problem(100, 1.2, 0.5, 1e-6, 3.0).solve().unwrap_err();
    let OutOfReach::Together { longest, surest, .. } = error else { panic!("{error}") };
    for (max_discard, min_cycle_s) in [(1e-6, down(longest.cycle_s, 4)), (up(surest.p_discard, 4), 3.0)] {
        assert!(problem(100, 1.2, 0.5, max_discard, min_cycle_s).solve().is_ok(), "{error}");
    }
    for (max_discard, min_cycle_s) in [(1e-6, longest.cycle_s * 1.001), (surest.p_discard * 0.999, 3.0)] {
        assert!(problem(100, 1.2, 0.5, max_discard, min_cycle_s).solve().is_err(), "{error}");
    }
}

#[test]
fn parameters_outside_their_range_are_named() {
    let new = |rates, buffer, share, discard, cycle| {
        ThresholdProblem::new(rates, buffer, share, discard, cycle).unwrap_err().name
    };
    assert_eq!(new((0.0, 1.0), 100, 0.5, 0.1, 1.0), "arrival-rate");
    assert_eq!(new((1.0, f64::NAN), 100, 0.5, 0.1, 1.0), "service-rate");
    assert_eq!(new((1.0, 1.0), 1, 0.5, 0.1, 1.0), "buffer");
    assert_eq!(new((1.0, 1.0), 100, 1.5, 0.1, 1.0), "admit");
    assert_eq!(new((1.0, 1.0), 100, 0.5, -0.1, 1.0), "max-discard");
    assert_eq!(new((1.0, 1.0), 100, 0.5, 0.1, -1.0), "min-cycle");
}

#[test]
fn long_buffers_are_searched_by_halving() {
    // All pairs would be half a billion.
    let found = problem(30_000, 1.2, 0.5, 1e-6, 10.0).solve().unwrap();
    assert!(found.cycle_s >= 10.0 && found.p_discard <= 1e-6);
}

proptest! {
    #[test]
    fn no_pair_is_better_and_none_is_overlooked(
        buffer in 2_u32..24, rho in 0.2..3.0_f64, share in 0.0..1.0_f64,
        log_discard in -8.0..0.0_f64, cycle in 0.0..60.0_f64,
    ) {
        let (max_discard, min_cycle_s) = (10_f64.powf(log_discard), cycle / MU);
        let mut within: Vec<_> = all_pairs(buffer, rho, share)
            .into_iter()
            .filter(|pair| pair.p_discard <= max_discard && pair.cycle_s >= min_cycle_s)
            .collect();
        within.sort_by(|one, other| one.return_time_s.total_cmp(&other.return_time_s));
        match problem(buffer, rho, share, max_discard, min_cycle_s).solve() {
            Err(error) => prop_assert!(within.is_empty(), "{error} {:?}", within[0]),
            Ok(found) => {
                let best = within.first().copied();
                prop_assert!(best.is_some(), "{found:?}");
                let best = best.unwrap_or(found);
                prop_assert!((found.return_time_s / best.return_time_s - 1.0).abs() < 1e-9, "{found:?} {best:?}");
                let same = within.iter().find(|pair| (pair.low, pair.high) == (found.low, found.high));
                prop_assert_eq!(same.map(|pair| (pair.cycle_s / found.cycle_s * 1e9).round()), Some(1e9));
            }
        }
    }
}
