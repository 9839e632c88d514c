use overload::{GateState, Levels};
use proptest::prelude::{prop_assert, proptest};

use super::{Equilibrium, Hysteresis};
use crate::parameter::BUFFER_MAX;

const MU: f64 = 200.0;

fn solve(levels: (u32, u32, u32), rho: f64, share: f64, mu: f64) -> Equilibrium {
    let levels = Levels::new(levels.0, levels.1, levels.2).unwrap();
    Hysteresis::new(levels, rho * mu, mu, share).unwrap().solve()
}

/// Equal to `digits` significant digits of the reference, and no better than 1e-6 asked.
fn assert_close(what: &str, value: f64, reference: f64, digits: i32) {
    let tolerance = (0.51 * 10_f64.powi(1 - digits)).max(1e-6);
    assert!(
        (value - reference).abs() <= tolerance * reference.abs(),
        "{what}: {value}, reference {reference}"
    );
}

/// (ρ, q), then P0, P1, P2, E[R] in ms, τ in ms, rejected, E[N], for (L, H, B) = (74, 85, 100) and 1/μ = 5 ms.
const REFERENCE: [((f64, f64), [f64; 7]); 5] = [
    ((1.2, 0.5), [0.6667447699, 0.3331769906, 7.823957818e-5, 149.94719, 449.94701, 0.1666667349, 75.997745]),
    ((1.5, 0.5), [0.3360882959, 0.6611567416, 0.002754962552, 237.04903, 357.04903, 0.3333333333, 80.363629]),
    ((2.0, 0.5), [0.06451612903, 0.8709677419, 0.06451612903, 870.0, 930.0, 0.5, 85.903226]),
    ((1.2, 0.8), [0.3077761698, 0.6569464151, 0.03527741512, 674.73392, 974.73374, 0.1666666981, 81.990189]),
    ((1.2, 0.0), [0.8333332481, 0.1666667519, 0.0, 60.0, 359.99982, 0.1666667519, 74.500041]),
];

#[test]
fn the_reference_rows_are_met() {
    for ((rho, share), [p0, p1, p2, return_ms, cycle_ms, rejected, mean]) in REFERENCE {
        let found = solve((74, 85, 100), rho, share, MU);
        let row = format!("rho {rho} q {share}");
        for (what, value, reference) in [
            ("P0", found.states[0], p0),
            ("P1", found.states[1], p1),
            ("P2", found.states[2], p2),
            ("E[R]", found.return_time_s * 1e3, return_ms),
            ("tau", found.cycle_s * 1e3, cycle_ms),
            ("rejected", found.rejected, rejected),
            ("E[N]", found.mean_in_system, mean),
        ] {
            assert_close(&format!("{row} {what}"), value, reference, 8);
        }
    }
}

#[test]
fn the_smallest_case_agrees_with_pencil_and_paper() {
    let found = solve((1, 2, 3), 1.0, 0.5, 1.0);
    let by_hand = [
        (GateState::Normal, 0, 0.32),
        (GateState::Normal, 1, 0.16),
        (GateState::Overload, 1, 0.16),
        (GateState::Overload, 2, 0.24),
        (GateState::Discard, 3, 0.12),
    ];
    assert_eq!(found.distribution.len(), by_hand.len());
    for (state, (gate, n, probability)) in found.distribution.iter().zip(by_hand) {
        assert_eq!((state.gate, state.in_system), (gate, n));
        assert!((state.probability - probability).abs() < 1e-12, "{state:?}");
    }
    assert!((found.return_time_s - 3.25).abs() < 1e-12);
    assert!((found.cycle_s - 6.25).abs() < 1e-12);
}

#[test]
fn the_reference_threshold_choices_have_the_reference_return_times() {
    for ((low, high), return_ms) in [((76, 84), 112.4665), ((72, 85), 174.9471)] {
        let found = solve((low, high, 100), 1.2, 0.5, MU);
        assert_close("E[R]", found.return_time_s * 1e3, return_ms, 7);
        assert!(found.states[2] <= 1e-4);
    }
}

#[test]
fn with_hardly_any_arrivals_the_server_is_idle_and_overload_would_end_by_service_alone() {
    let found = solve((74, 85, 100), 1e-9, 0.5, MU);
    assert!((found.states[0] - 1.0).abs() < 1e-12 && found.rejected < 1e-12);
    assert!((found.mean_in_system - 1e-9).abs() < 1e-15 && found.mean_wait_s < 1e-10);
    assert_eq!(found.cycle_s, f64::INFINITY);
    assert!((found.return_time_s - 12.0 / MU).abs() < 1e-9);
}

#[test]
fn below_saturation_far_thresholds_leave_an_ordinary_queue() {
    let found = solve((900, 950, 1000), 0.5, 0.5, MU);
    assert!((found.mean_in_system - 1.0).abs() < 1e-9);
    assert!((found.states[0] - 1.0).abs() < 1e-12 && found.rejected < 1e-12);
}

#[test]
fn with_a_full_share_and_adjacent_upper_levels_the_buffer_is_an_ordinary_one() {
    // L = H = B − 1 and q = 1: discard is left at the first departure, so nothing but B − 1 < n refuses: M|M|1|B.
    let (rho, buffer) = (1.3_f64, 30);
    let found = solve((buffer - 1, buffer - 1, buffer), rho, 1.0, MU);
    let full = rho.powi(30) * (1.0 - rho) / (1.0 - rho.powi(31));
    assert!((found.rejected - full).abs() < 1e-12, "{} {full}", found.rejected);
}

#[test]
fn an_ordinary_queue_is_waited_in_as_textbooks_say() {
    let found = solve((900, 950, 1000), 0.8, 0.5, MU);
    assert!((found.mean_wait_s - 0.8 / (MU - 0.8 * MU)).abs() < 1e-9);
}

#[test]
fn any_length_and_load_stays_in_range() {
    for rho in [0.01, 0.5, 1.0, 1.0 + 1e-12, 1.9, 100.0] {
        for share in [0.0, 5e-324, 1e-300, 1e-150, 1e-12, 0.01, 0.5, 1.0] {
            for levels in [(74_000, 85_000, 100_000), (1, 1, 100_000), (1, 99_999, 100_000), (1, 1, 2)] {
                let found = solve(levels, rho, share, MU);
                let what = format!("{rho} {share} {levels:?} {:?}", found.states);
                assert!((found.states.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{what}");
                assert!(found.mean_in_system <= f64::from(levels.2), "{what}");
                assert!(found.mean_wait_s.is_finite() && found.return_time_s > 0.0, "{what}");
                let busy = 1.0 - found.distribution[0].probability;
                assert!((rho * (1.0 - found.rejected) - busy).abs() < 1e-9, "{what}");
            }
        }
    }
}

#[test]
fn parameters_outside_their_range_are_named() {
    let levels = Levels::new(1, 2, 3).unwrap();
    let name = |arrival, service, share| Hysteresis::new(levels, arrival, service, share).unwrap_err().name;
    assert_eq!(name(-1.0, 1.0, 0.5), "arrival-rate");
    assert_eq!(name(0.0, 1.0, 0.5), "arrival-rate");
    assert_eq!(name(1.0, f64::NAN, 0.5), "service-rate");
    assert_eq!(name(1.0, 1.0, 1.6), "admit");
    let long = Levels::new(1, 2, BUFFER_MAX + 1).unwrap();
    assert_eq!(Hysteresis::new(long, 1.0, 1.0, 0.5).unwrap_err().name, "buffer");
}

/// Where each state goes at unit μ, from the diagram and not from the formula.
fn moves(
    gate: GateState,
    n: u32,
    (low, high, buffer): (u32, u32, u32),
    rho: f64,
    share: f64,
) -> Vec<(GateState, u32, f64)> {
    use GateState::{Discard, Normal, Overload};
    let up = match gate {
        Normal if n == high - 1 => Some((Overload, high, rho)),
        Normal => Some((Normal, n + 1, rho)),
        Overload if n == buffer - 1 => Some((Discard, buffer, share * rho)),
        Overload => Some((Overload, n + 1, share * rho)),
        Discard => None,
    };
    let down = match gate {
        Overload if n == low => Some((Normal, low - 1, 1.0)),
        Discard if n == high + 1 => Some((Overload, high, 1.0)),
        _ if n > 0 => Some((gate, n - 1, 1.0)),
        _ => None,
    };
    up.into_iter().chain(down).collect()
}

proptest! {
    #[test]
    fn the_solution_balances_the_flow_through_every_state(
        low in 1_u32..12, gap in 0_u32..10, room in 1_u32..12,
        rho in 0.05..3.0_f64, share in 0.0..1.0_f64,
    ) {
        let levels = (low, low + gap, low + gap + room);
        let found = solve(levels, rho, share, 1.0);
        let place = |gate, n| found.distribution.iter().position(|s| (s.gate, s.in_system) == (gate, n));
        let mut balance = vec![0.0; found.distribution.len()];
        let mut refused = 0.0;
        for (index, state) in found.distribution.iter().enumerate() {
            for (gate, n, rate) in moves(state.gate, state.in_system, levels, rho, share) {
                let flow = rate * state.probability;
                balance[index] -= flow;
                balance[place(gate, n).unwrap()] += flow;
            }
            refused += state.probability * match state.gate {
                GateState::Normal => 0.0,
                GateState::Overload => 1.0 - share,
                GateState::Discard => 1.0,
            };
        }
        prop_assert!(balance.iter().all(|net| net.abs() < 1e-12), "{balance:?}");
        prop_assert!((found.rejected - refused).abs() < 1e-12);
        // What is admitted is served: λ(1 − rejected) = μ(1 − P(empty)).
        let busy = 1.0 - found.distribution[0].probability;
        prop_assert!((rho * (1.0 - found.rejected) - busy).abs() < 1e-9);
        // The chain enters overload once a cycle and stays for a return time.
        prop_assert!((found.return_time_s / found.cycle_s - found.states[1] - found.states[2]).abs() < 1e-9);
    }
}
