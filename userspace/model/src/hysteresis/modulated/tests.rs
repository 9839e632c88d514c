use proptest::prelude::{ProptestConfig, prop_assert, proptest};

use super::ModulatedHysteresis;
use crate::hysteresis::oracle::{Oracle, PhaseType};
use crate::hysteresis::{Equilibrium, Hysteresis, ReturnTime};
use crate::parameter::levels;

const MU: f64 = 200.0;

fn solve(
    (low, high, buffer): (u32, u32, u32),
    arrivals: &str,
    share: f64,
) -> (Equilibrium, Option<ReturnTime>) {
    let levels = levels(low, high, buffer).unwrap();
    ModulatedHysteresis::new(levels, arrivals.parse().unwrap(), MU, share).unwrap().solve()
}

fn relative(found: f64, reference: f64) -> f64 {
    (found / reference - 1.0).abs()
}

#[test]
fn the_reference_values_are_met() {
    let (found, _) = solve((74, 85, 100), "400:1,80:1", 0.5);
    assert!(relative(found.states[1], 0.34951969) < 2e-8, "{:?}", found.states);
    assert!(relative(found.states[2], 0.021563055) < 3e-8, "{:?}", found.states);
    assert!(relative(found.return_time_s, 0.52374087) < 1e-8, "{}", found.return_time_s);
    assert!(relative(found.cycle_s, 1.4113857) < 4e-8, "{}", found.cycle_s);
    assert!(relative(found.rejected, 0.30861904) < 2e-8, "{}", found.rejected);
}

#[test]
fn equal_rates_are_one_stream() {
    let (found, law) = solve((74, 85, 100), "240:1,240:.1,240:5", 0.5);
    let simple = Hysteresis::new(levels(74, 85, 100).unwrap(), 240.0, MU, 0.5).unwrap();
    let (expected, expected_law, law) = (simple.solve(), simple.return_time(), law.unwrap());
    for (one, other) in found.distribution.iter().zip(&expected.distribution) {
        assert_eq!((one.gate, one.in_system), (other.gate, other.in_system));
        assert!(relative(one.probability, other.probability) < 1e-9, "{one:?} {other:?}");
    }
    assert!(relative(found.rejected, expected.rejected) < 1e-9);
    assert!(relative(found.mean_wait_s, expected.mean_wait_s) < 1e-9);
    for (one, other) in [
        (law.mean_s, expected_law.mean_s),
        (law.sd_s, expected_law.sd_s),
        (law.p50_s, expected_law.p50_s),
        (law.p99_s, expected_law.p99_s),
    ] {
        assert!(relative(one, other) < 1e-8, "{law:?} {expected_law:?}");
    }
}

#[test]
fn overload_that_is_too_rare_for_a_float_still_has_its_length() {
    let levels = levels(74, 85, 100).unwrap();
    let model = ModulatedHysteresis::new(levels, "400:1,80:1".parse().unwrap(), 1e12, 0.5).unwrap();
    let (found, law) = model.solve();
    let simple = Hysteresis::new(levels, 400.0, 1e12, 0.5).unwrap().return_time();
    assert!(relative(found.return_time_s, simple.mean_s) < 1e-6, "{found:?}");
    assert!(law.is_some_and(|law| relative(law.p99_s, simple.p99_s) < 1e-6), "{law:?}");
    assert_eq!(found.cycle_s, f64::INFINITY);
}

#[test]
fn long_buffers_are_solved_and_their_quantiles_left_out() {
    let (found, law) = solve((740, 850, 1_000), "400:1,80:1", 0.5);
    assert!((found.states.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    assert!(found.mean_in_system > 300.0 && found.mean_in_system < 1_000.0);
    assert!(law.is_some_and(|law| relative(law.mean_s, found.return_time_s) < 1e-9));
    let (found, law) = solve((1, 500, 50_000), "400:1,80:1", 0.5);
    assert!((found.states.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    assert!(law.is_none());
}

#[test]
fn what_would_take_too_much_is_refused_by_name() {
    let phases = vec!["200:1"; 32].join(",");
    let levels = levels(1, 2, 500_000).unwrap();
    let error = ModulatedHysteresis::new(levels, phases.parse().unwrap(), MU, 0.5).unwrap_err();
    assert_eq!(error.name, "buffer");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn the_band_agrees_with_the_states_written_out(
        low in 1_u32..7, gap in 0_u32..6, room in 1_u32..7, share in 0.0..1.0_f64,
        rates in (0.0..3.0_f64, 0.1..3.0_f64, 0.0..1.0_f64), sojourns in (0.1..20.0_f64, 0.1..20.0_f64, 0.1..20.0_f64),
        circle in proptest::bool::ANY,
    ) {
        let levels = (low, low + gap, low + gap + room);
        let next = if circle { ["", "", ""] } else { [":0:.3:.7", ":.9:0:.1", ":1:0:0"] };
        // A silent phase now and then; sojourns in services.
        let rates = [if rates.0 < 0.5 { 0.0 } else { rates.0 }, rates.1, rates.2];
        let text: Vec<String> = [0, 1, 2]
            .map(|k| format!("{}:{}{}", rates[k] * MU, [sojourns.0, sojourns.1, sojourns.2][k] / MU, next[k]))
            .to_vec();
        let text = text.join("\n");
        let arrivals = text.parse().unwrap();
        let oracle = Oracle { levels, arrivals, service: PhaseType::erlang(1, MU), share }.solve();
        let (found, law) = solve(levels, &text, share);
        for state in &found.distribution {
            let expected = oracle.place[&(state.gate, state.in_system)];
            prop_assert!((state.probability - expected).abs() < 1e-10, "{:?} {}", state, expected);
        }
        for (share, expected) in found.states.iter().zip(oracle.states) {
            prop_assert!((share - expected).abs() < 1e-9);
        }
        prop_assert!((found.rejected - oracle.rejected).abs() < 1e-9);
        prop_assert!(relative(found.return_time_s, oracle.return_time_s) < 1e-7);
        prop_assert!(relative(found.cycle_s, oracle.cycle_s) < 1e-7);
        prop_assert!((found.mean_wait_s - oracle.mean_wait_s).abs() * MU < 1e-8);
        let (mean_s, sd_s) = oracle.return_moments_s();
        let law = law.unwrap();
        prop_assert!(relative(law.mean_s, mean_s) < 1e-7 && relative(law.sd_s, sd_s) < 1e-6);
        if law.p99_s * MU < 5_000.0 {
            for (quantile_s, p) in [(law.p50_s, 0.5), (law.p99_s, 0.99)] {
                prop_assert!((oracle.returned_by(quantile_s) - p).abs() < 1e-8);
            }
        }
    }
}
