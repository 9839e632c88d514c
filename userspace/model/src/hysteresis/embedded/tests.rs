use proptest::prelude::{ProptestConfig, Strategy, prop_assert, prop_oneof, proptest};
use proptest::strategy::Just;

use crate::hysteresis::oracle::{Oracle, PhaseType};
use crate::hysteresis::{Equilibrium, Hysteresis};
use crate::parameter::levels;
use crate::service::ServiceLaw;

const MU: f64 = 200.0;

fn solve((low, high, buffer): (u32, u32, u32), rho: f64, share: f64, law: ServiceLaw) -> Equilibrium {
    let levels = levels(low, high, buffer).unwrap();
    Hysteresis::new(levels, rho * MU, MU, share).unwrap().solve_with_service(law).unwrap()
}

fn relative(found: f64, reference: f64) -> f64 {
    (found / reference - 1.0).abs()
}

#[test]
fn the_reference_values_of_fixed_service_are_met() {
    let found = solve((74, 85, 100), 1.2, 0.5, ServiceLaw::Deterministic);
    assert!(relative(found.states[1], 0.3333330981) < 2e-10, "{:?}", found.states);
    assert!(relative(found.states[2], 1.176179e-7) < 5e-7, "{:?}", found.states);
    assert!(relative(found.return_time_s, 0.14179393) < 5e-8, "{}", found.return_time_s);
    assert!(relative(found.cycle_s, 0.42538193) < 5e-8, "{}", found.cycle_s);
    let saturated = solve((74, 85, 100), 2.0, 0.5, ServiceLaw::Deterministic);
    assert!(relative(saturated.return_time_s, 1.5898411) < 5e-8, "{}", saturated.return_time_s);
}

#[test]
fn a_gamma_law_of_hardly_any_variation_is_a_fixed_time() {
    let fixed = solve((20, 25, 40), 1.3, 0.6, ServiceLaw::Deterministic);
    let gamma = solve((20, 25, 40), 1.3, 0.6, ServiceLaw::Gamma(1e-6));
    assert!(relative(gamma.return_time_s, fixed.return_time_s) < 1e-5);
    assert!(relative(gamma.states[2], fixed.states[2]) < 1e-4);
}

#[test]
fn any_length_and_load_stays_in_range() {
    for law in [ServiceLaw::Deterministic, ServiceLaw::Gamma(4.0), ServiceLaw::Hyperexponential(20.0)] {
        for rho in [0.01, 0.9, 1.0, 1.2, 100.0] {
            for (levels, share) in [((700, 900, 1_000), 0.5), ((1, 1, 1_000), 1.0), ((1, 999, 1_000), 0.0)] {
                let found = solve(levels, rho, share, law);
                let what = format!("{law} {rho} {levels:?} {:?}", found.states);
                assert!((found.states.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{what}");
                assert!(found.distribution.iter().all(|state| state.probability >= 0.0), "{what}");
                // What is admitted is served: λ(1 − rejected) = μ(1 − P(empty)).
                let busy = 1.0 - found.distribution[0].probability;
                assert!((rho * (1.0 - found.rejected) - busy).abs() < 1e-10, "{what}");
            }
        }
    }
}

#[test]
fn a_long_buffer_costs_its_length_and_not_its_square() {
    let found = solve((74_000, 85_000, 100_000), 1.2, 0.5, ServiceLaw::Deterministic);
    assert!((found.states[1] - 1.0 / 3.0).abs() < 1e-9);
    // 11,001 levels to fall against a stream of 0.6, and what comes during the service that is under way.
    assert!(relative(found.return_time_s * MU, 11_001.0 / 0.4) < 1e-3, "{}", found.return_time_s);
}

#[test]
fn what_would_take_too_much_is_refused_by_name() {
    let model = |rho: f64, buffer| Hysteresis::new(levels(1, 9, buffer).unwrap(), rho, 1.0, 0.5).unwrap();
    let error = model(600.0, 10).solve_with_service(ServiceLaw::Deterministic).unwrap_err();
    assert_eq!(error.name, "arrival-rate");
    let error = model(100.0, 900_000).solve_with_service(ServiceLaw::Hyperexponential(9.0)).unwrap_err();
    assert_eq!(error.name, "service");
    let error = model(1.0, 10).solve_with_service(ServiceLaw::Gamma(-1.0)).unwrap_err();
    assert_eq!(error.name, "service");
}

/// A law, and the phases that say the same.
fn law() -> impl Strategy<Value = (ServiceLaw, usize)> {
    prop_oneof![
        Just((ServiceLaw::Exponential, 1)),
        (1_usize..5).prop_map(|phases| (ServiceLaw::Gamma(1.0 / phases as f64), phases)),
        (1.0..10.0_f64).prop_map(|cv2| (ServiceLaw::Hyperexponential(cv2), 2)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn the_embedded_chain_agrees_with_the_phases_written_out(
        low in 1_u32..8, gap in 0_u32..7, room in 1_u32..7,
        rho in 0.05..4.0_f64, share in prop_oneof![Just(0.0), Just(1.0), 0.0..1.0_f64],
        (law, phases) in law(),
    ) {
        let levels = (low, low + gap, low + gap + room);
        let service = match law {
            ServiceLaw::Hyperexponential(cv2) => PhaseType::hyperexponential(cv2, MU),
            _ => PhaseType::erlang(phases, MU),
        };
        let arrivals = format!("{}:1", rho * MU).parse().unwrap();
        let oracle = Oracle { levels, arrivals, service, share }.solve();
        let found = solve(levels, rho, share, law);
        for state in &found.distribution {
            let expected = oracle.place[&(state.gate, state.in_system)];
            prop_assert!((state.probability - expected).abs() < 1e-10, "{:?} {}", state, expected);
        }
        for (share, expected) in found.states.iter().zip(oracle.states) {
            prop_assert!((share - expected).abs() < 1e-9);
        }
        prop_assert!((found.rejected - oracle.rejected).abs() < 1e-10);
        prop_assert!(relative(found.return_time_s, oracle.return_time_s) < 1e-7);
        prop_assert!(relative(found.cycle_s, oracle.cycle_s) < 1e-7);
        prop_assert!(relative(found.mean_in_system, oracle.mean_in_system) < 1e-9);
        prop_assert!((found.mean_wait_s - oracle.mean_wait_s).abs() * MU < 1e-9);
    }

    #[test]
    fn exponential_service_gives_the_closed_form_to_the_smallest_probability(
        low in 1_u32..60, gap in 0_u32..60, room in 1_u32..60,
        log_rho in -4.6..4.6_f64, share in 0.0..1.0_f64,
    ) {
        let levels = (low, low + gap, low + gap + room);
        let rho = log_rho.exp();
        let embedded = solve(levels, rho, share, ServiceLaw::Exponential);
        let (low, high, buffer) = levels;
        let levels = crate::parameter::levels(low, high, buffer).unwrap();
        let closed = Hysteresis::new(levels, rho * MU, MU, share).unwrap().solve();
        for (one, other) in embedded.distribution.iter().zip(&closed.distribution) {
            prop_assert!(
                (one.probability - other.probability).abs() <= 1e-8 * other.probability + 1e-280,
                "{:?} {:?}", one, other
            );
        }
        prop_assert!(relative(embedded.return_time_s, closed.return_time_s) < 1e-8);
    }
}
