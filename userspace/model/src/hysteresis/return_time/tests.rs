use proptest::prelude::{ProptestConfig, prop_assert, proptest};

use crate::hysteresis::Hysteresis;
use crate::hysteresis::oracle::{Oracle, PhaseType};
use crate::mmpp::Mmpp;
use crate::parameter::levels;

const MU: f64 = 200.0;

fn model((low, high, buffer): (u32, u32, u32), rho: f64, share: f64) -> Hysteresis {
    Hysteresis::new(levels(low, high, buffer).unwrap(), rho * MU, MU, share).unwrap()
}

#[test]
fn the_reference_law_is_met() {
    let found = model((74, 85, 100), 1.2, 0.5).return_time();
    for (value, reference_ms) in
        [(found.mean_s, 149.94719), (found.sd_s, 86.383826), (found.p50_s, 129.3354), (found.p99_s, 446.9618)]
    {
        assert!((value * 1e3 / reference_ms - 1.0).abs() < 2e-7, "{found:?}");
    }
}

#[test]
fn with_nobody_admitted_it_is_a_sum_of_services() {
    let found = model((74, 85, 100), 1.2, 0.0).return_time();
    assert!((found.mean_s * MU - 12.0).abs() < 1e-12);
    assert!((found.sd_s * MU - 12_f64.sqrt()).abs() < 1e-12);
    // The probability that fewer than 12 services have ended by then.
    for (time_s, p) in [(found.p50_s, 0.5), (found.p99_s, 0.99)] {
        let mean = time_s * MU;
        let mut term = (-mean).exp();
        let mut fewer = 0.0;
        for ended in 1..=12 {
            fewer += term;
            term *= mean / f64::from(ended);
        }
        assert!((1.0 - fewer - p).abs() < 1e-9, "{p} {fewer}");
    }
}

#[test]
fn far_beyond_saturation_the_law_is_nearly_exponential_and_then_infinite() {
    // 45 levels against the stream: 10^17 services.
    let found = model((40, 84, 100), 5.0, 0.5).return_time();
    assert!(found.mean_s > 1e14 && (found.sd_s / found.mean_s - 1.0).abs() < 1e-3, "{found:?}");
    let exponential = [2_f64.ln(), 100_f64.ln()];
    for (quantile, expected) in [found.p50_s, found.p99_s].into_iter().zip(exponential) {
        assert!((quantile / found.mean_s / expected - 1.0).abs() < 1e-3, "{found:?}");
    }
    // Of 10^197 services too, of which the square is beyond a float.
    let endless = model((10, 74, 100_000), 1000.0, 1.0).return_time();
    assert!(endless.mean_s > 1e180 && endless.mean_s < 1e300, "{endless:?}");
    assert!((endless.p50_s / endless.mean_s / 2_f64.ln() - 1.0).abs() < 1e-3, "{endless:?}");
    let beyond = model((1, 5_000, 9_000), 100.0, 1.0).return_time();
    assert_eq!([beyond.mean_s, beyond.sd_s, beyond.p50_s, beyond.p99_s], [f64::INFINITY; 4]);
}

#[test]
fn the_moments_agree_with_the_closed_form_at_any_length() {
    for (levels, rho, share) in [
        ((74_000, 85_000, 100_000), 1.2, 0.5),
        ((74_000, 85_000, 100_000), 2.0, 0.5),
        ((1, 1, 2), 100.0, 1.0),
        ((1, 500, 501), 1.9, 0.5),
        ((300, 310, 1_000), 0.01, 1.0),
    ] {
        let model = model(levels, rho, share);
        let (law, solved) = (model.return_time(), model.solve().return_time_s);
        assert!((law.mean_s / solved - 1.0).abs() < 1e-9, "{levels:?} {law:?} {solved}");
        assert!(law.p50_s < law.p99_s && law.p50_s < law.mean_s + law.sd_s, "{levels:?} {law:?}");
    }
}

#[test]
fn a_law_of_separate_heaps_has_its_quantile_in_the_right_one() {
    // Nearly every third return climbs to B and comes back after 10,000 and some services.
    let model = model((1, 1, 2_001), 1.5, 1.0);
    let found = model.return_time();
    assert!(found.p50_s * MU < 3.0, "{found:?}");
    assert!(found.p99_s * MU > 8_000.0, "{found:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn moments_and_quantiles_agree_with_the_chain_written_out(
        low in 1_u32..8, gap in 0_u32..7, room in 1_u32..8, rho in 0.05..4.0_f64, share in 0.0..1.0_f64,
    ) {
        let levels = (low, low + gap, low + gap + room);
        let arrivals: Mmpp = format!("{}:1", rho * MU).parse().unwrap();
        let oracle = Oracle { levels, arrivals, service: PhaseType::erlang(1, MU), share }.solve();
        let found = model(levels, rho, share).return_time();
        let (mean_s, sd_s) = oracle.return_moments_s();
        prop_assert!((found.mean_s / mean_s - 1.0).abs() < 1e-8);
        prop_assert!((found.sd_s / sd_s - 1.0).abs() < 1e-6);
        // Uniformisation takes a step per event, so only returns of some thousand are followed.
        if found.p99_s * MU < 5_000.0 {
            for (quantile_s, p) in [(found.p50_s, 0.5), (found.p99_s, 0.99)] {
                let reached = oracle.returned_by(quantile_s);
                prop_assert!((reached - p).abs() < 1e-8, "{} {}", reached, p);
            }
        }
    }
}
