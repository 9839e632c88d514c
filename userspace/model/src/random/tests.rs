use nalgebra::{DMatrix, DVector};
use proptest::prelude::{prop_assert, proptest};

use super::RandomControl;

#[test]
fn the_reference_values_are_met() {
    for ((min, max), rejected, mean) in [((25, 80), 0.096_191, 21.9753), ((15, 100), 0.105_160, 14.3875)] {
        let found = RandomControl::new((220.0, 200.0), (min, max), 100, 0.16).unwrap().solve();
        assert!((found.reject_probability - rejected).abs() < 6e-7, "{found:?}");
        assert!((found.mean_in_system - mean).abs() < 6e-5, "{found:?}");
    }
}

#[test]
fn thresholds_out_of_reach_leave_an_ordinary_buffer() {
    // Tmin = B − 1, Tmax = B and P0 = 0: nothing but the full buffer refuses, M|M|1|B.
    let (rho, buffer) = (1.3_f64, 30);
    let found = RandomControl::new((rho, 1.0), (buffer - 1, buffer), buffer, 0.0).unwrap().solve();
    let full = rho.powi(30) * (1.0 - rho) / (1.0 - rho.powi(31));
    assert!((found.reject_probability - full).abs() < 1e-12);
}

#[test]
fn rejection_rises_from_the_initial_probability_to_one() {
    let control = RandomControl::new((1.0, 1.0), (10, 20), 40, 0.25).unwrap();
    let rejection: Vec<f64> = [9, 10, 15, 20, 21, 40].map(|n| control.rejection(n)).to_vec();
    assert_eq!(rejection, [0.0, 0.25, 0.625, 1.0, 1.0, 1.0]);
}

#[test]
fn long_buffers_and_any_load_stay_in_range() {
    for rho in [0.01, 1.0, 100.0] {
        let found = RandomControl::new((rho, 1.0), (25_000, 80_000), 100_000, 0.16).unwrap().solve();
        assert!((0.0..=1.0).contains(&found.reject_probability), "{rho} {found:?}");
        // What is admitted is served, so a server that is never idle refuses 1 − 1/ρ.
        assert!((found.reject_probability - (1.0 - 1.0 / rho).max(0.0)).abs() < 1e-4, "{rho} {found:?}");
    }
}

#[test]
fn parameters_outside_their_range_are_named() {
    let new = |rates, thresholds, buffer, p0| RandomControl::new(rates, thresholds, buffer, p0).unwrap_err();
    assert_eq!(new((-1.0, 1.0), (1, 2), 3, 0.1).name, "arrival-rate");
    assert_eq!(new((1.0, 0.0), (1, 2), 3, 0.1).name, "service-rate");
    assert_eq!(new((1.0, 1.0), (2, 2), 3, 0.1).name, "min-threshold");
    assert_eq!(new((1.0, 1.0), (1, 4), 3, 0.1).name, "max-threshold");
    assert_eq!(new((1.0, 1.0), (1, 2), 0, 0.1).name, "buffer");
    let published = new((1.0, 1.0), (1, 2), 3, 1.6).to_string();
    assert!(published.starts_with("initial-probability 1.6 must be between 0 and 1"), "{published}");
    assert!(published.contains("published P0 of 1.6 cannot be"), "{published}");
}

proptest! {
    #[test]
    fn the_chain_agrees_with_a_linear_solve(
        min in 0_u32..12, gap in 1_u32..12, room in 0_u32..12, p0 in 0.0..1.0_f64, rho in 0.05..5.0_f64,
    ) {
        let buffer = min + gap + room;
        let control = RandomControl::new((rho, 1.0), (min, min + gap), buffer, p0).unwrap();
        let states = buffer as usize + 1;
        let mut balance = DMatrix::zeros(states, states);
        for n in 0..states {
            let up = if n + 1 < states { rho * (1.0 - control.rejection(n as u32)) } else { 0.0 };
            let down = if n > 0 { 1.0 } else { 0.0 };
            balance[(n, n)] -= up + down;
            if n + 1 < states { balance[(n + 1, n)] += up; }
            if n > 0 { balance[(n - 1, n)] += down; }
        }
        balance.row_mut(0).fill(1.0);
        let mut one = DVector::zeros(states);
        one[0] = 1.0;
        let chance = balance.lu().solve(&one).unwrap();
        let rejected: f64 = (0..states).map(|n| chance[n] * control.rejection(n as u32)).sum();
        let mean: f64 = (0..states).map(|n| chance[n] * n as f64).sum();
        let found = control.solve();
        prop_assert!((found.reject_probability - rejected).abs() < 1e-9);
        prop_assert!((found.mean_in_system - mean).abs() < 1e-7 * (1.0 + mean));
    }
}
