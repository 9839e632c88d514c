use overload::{Decision, Gate, GateState, Hysteretic, HystereticConfig, Threshold};
use proptest::prelude::{ProptestConfig, prop_assert, prop_oneof, proptest};
use proptest::strategy::{Just, Strategy};
use rand_distr::{Distribution, Exp1, Gamma};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

use crate::hysteresis::oracle::{Oracle, PhaseType};
use crate::hysteresis::{Hysteresis, ReturnTime};
use crate::parameter::levels;
use crate::service::ServiceLaw;

const MU: f64 = 200.0;

fn model((low, high, buffer): (u32, u32, u32), rho: f64, share: f64) -> Hysteresis {
    Hysteresis::new(levels(low, high, buffer).unwrap(), rho * MU, MU, share).unwrap()
}

fn law(levels: (u32, u32, u32), rho: f64, share: f64, law: ServiceLaw) -> ReturnTime {
    model(levels, rho, share).solve_with_return_time(law).unwrap().1
}

fn relative(found: f64, reference: f64) -> f64 {
    (found / reference - 1.0).abs()
}

#[track_caller]
fn assert_same(what: &str, found: ReturnTime, expected: ReturnTime, tolerance: f64) {
    for (one, other) in [
        (found.mean_s, expected.mean_s),
        (found.sd_s, expected.sd_s),
        (found.p50_s, expected.p50_s),
        (found.p99_s, expected.p99_s),
    ] {
        assert!(relative(one, other) < tolerance, "{what}: {found:?} {expected:?}");
    }
}

#[test]
fn three_ways_to_say_exponential_give_the_closed_form() {
    for (levels, rho, share) in [
        ((74, 85, 100), 1.2, 0.5),
        ((74, 85, 100), 2.0, 0.5),
        ((1, 1, 2), 1.0, 1.0),
        ((1, 2, 3), 3.0, 0.0),
        ((5, 5, 9), 0.1, 0.7),
        ((3, 20, 24), 4.0, 0.4),
    ] {
        let closed = model(levels, rho, share).return_time();
        for same in [ServiceLaw::Exponential, ServiceLaw::Gamma(1.0), ServiceLaw::Hyperexponential(1.0)] {
            let found = law(levels, rho, share, same);
            assert_same(&format!("{levels:?} {rho} {share} {same}"), found, closed, 1e-7);
        }
    }
}

#[test]
fn a_gamma_law_of_little_variation_nears_the_fixed_time() {
    let fixed = law((20, 25, 40), 1.3, 0.6, ServiceLaw::Deterministic);
    assert_same("gamma", law((20, 25, 40), 1.3, 0.6, ServiceLaw::Gamma(1e-3)), fixed, 1e-2);
}

#[test]
fn fixed_services_end_overload_at_whole_numbers_of_them() {
    // H = L = 1: overload begins with a service, and nobody is admitted.
    let found = law((1, 1, 4), 0.5, 0.0, ServiceLaw::Deterministic);
    for time_s in [found.mean_s, found.p50_s, found.p99_s] {
        assert!(relative(time_s, 1.0 / MU) < 1e-9, "{found:?}");
    }
    assert!(found.sd_s < 1e-6 / MU, "{found:?}");
    // Nobody is admitted, so R is H − L services and what is left of one: within one service.
    let found = law((74, 85, 100), 1.2, 0.0, ServiceLaw::Deterministic);
    for time_s in [found.mean_s, found.p50_s, found.p99_s] {
        assert!((11.0..=12.0).contains(&(time_s * MU)), "{found:?}");
    }
    assert!(found.p50_s < found.p99_s && relative(found.sd_s * MU, 12_f64.sqrt().recip()) < 0.2, "{found:?}");
}

#[test]
fn far_beyond_saturation_every_law_is_nearly_exponential_and_then_infinite() {
    for service in [ServiceLaw::Deterministic, ServiceLaw::Gamma(3.0), ServiceLaw::Hyperexponential(2.0)] {
        let found = law((40, 84, 100), 5.0, 0.5, service);
        assert!(found.mean_s > 1e6 && relative(found.sd_s, found.mean_s) < 1e-3, "{service} {found:?}");
        assert!(relative(found.p50_s / found.mean_s, 2_f64.ln()) < 1e-3, "{service} {found:?}");
        assert!(relative(found.p99_s / found.mean_s, 100_f64.ln()) < 1e-3, "{service} {found:?}");
        let beyond = model((1, 900, 1_000), 100.0, 1.0).solve_with_return_time(service).unwrap().1;
        assert_eq!(beyond.p99_s, f64::INFINITY, "{service} {beyond:?}");
    }
}

#[test]
fn a_service_that_may_see_many_arrivals_needs_no_more_values_than_are_asked_for() {
    // Four places, and some hundred arrivals in a long service: the circle is the smaller one.
    let levels = (3, 5, 9);
    for cv2 in [1.0, 4.0] {
        let gamma = law(levels, 3.0, 0.5, ServiceLaw::Gamma(cv2));
        assert!(gamma.p50_s < gamma.mean_s && gamma.p99_s > gamma.mean_s + 2.0 * gamma.sd_s, "{gamma:?}");
        if cv2 == 1.0 {
            assert_same("exponential", gamma, model(levels, 3.0, 0.5).return_time(), 1e-8);
        }
    }
}

#[test]
fn long_buffers_have_their_moments_where_quantiles_take_too_long() {
    let found = law((7_400, 8_500, 10_000), 1.2, 0.5, ServiceLaw::Deterministic);
    assert!(found.p50_s < found.mean_s && found.p99_s > found.mean_s + 2.0 * found.sd_s, "{found:?}");
    let longer = law((74_000, 85_000, 100_000), 1.2, 0.5, ServiceLaw::Hyperexponential(2.0));
    assert!(relative(longer.mean_s * MU, 11_001.0 / 0.4) < 1e-2 && longer.p50_s.is_nan(), "{longer:?}");
    // Each level takes a busy period of its own, of variance (cv² + a)/(1 − a)³.
    let sd = (11_001.0 * (2.0 + 0.6) / 0.4_f64.powi(3)).sqrt();
    assert!(relative(longer.sd_s * MU, sd) < 1e-2, "{longer:?}");
}

#[test]
fn the_mean_is_that_of_the_equilibrium() {
    for service in [ServiceLaw::Deterministic, ServiceLaw::Gamma(0.4), ServiceLaw::Hyperexponential(9.0)] {
        for (levels, rho, share) in
            [((74, 85, 100), 1.2, 0.5), ((2, 9, 11), 3.0, 0.3), ((1, 1, 9), 0.01, 1.0)]
        {
            let model = model(levels, rho, share);
            let residual = model.mean_by_series(service);
            let solved = model.solve_with_service(service).unwrap().return_time_s * MU;
            assert!(relative(residual, solved) < 1e-9, "{service} {levels:?} {residual} {solved}");
        }
    }
}

/// Return times of the live gate before a server that draws its services from a law, in services.
fn played(
    (low, high, buffer): (u32, u32, u32),
    rho: f64,
    share: f64,
    mut service: impl FnMut(&mut Pcg64) -> f64,
    returns: usize,
) -> Vec<f64> {
    let messages = Threshold::Messages;
    let config = HystereticConfig {
        admit_below: messages(low),
        shed_at: messages(high),
        discard_at: messages(buffer),
        share,
    };
    let mut gate = Hysteretic::new(&config, buffer, 1.0).unwrap();
    let mut random = Pcg64::seed_from_u64(11);
    let (mut n, mut next_arrival, mut departure) = (0_usize, 0.0_f64, f64::INFINITY);
    let (mut entered, mut found) = (0.0, Vec::with_capacity(returns));
    while found.len() < returns {
        let before = gate.state();
        let now = next_arrival.min(departure);
        if next_arrival < departure {
            let gap: f64 = Exp1.sample(&mut random);
            next_arrival = now + gap / rho;
            if gate.arrive(0, random.next_u32(), n) == Decision::Admit {
                n += 1;
                if n == 1 {
                    departure = now + service(&mut random);
                }
            }
        } else {
            gate.depart(0, n - 1);
            n -= 1;
            departure = if n > 0 { now + service(&mut random) } else { f64::INFINITY };
        }
        match (before == GateState::Normal, gate.state() == GateState::Normal) {
            (true, false) => entered = now,
            (false, true) => found.push(now - entered),
            _ => {}
        }
    }
    found.sort_by(f64::total_cmp);
    found
}

#[test]
fn the_live_gate_returns_as_the_law_says_for_any_service() {
    const RETURNS: usize = 40_000;
    let gamma = |cv2: f64| {
        let law = Gamma::new(1.0 / cv2, cv2).unwrap();
        move |random: &mut Pcg64| law.sample(random)
    };
    let levels = (6, 11, 18);
    for (rho, share) in [(1.2, 0.5), (2.0, 0.6)] {
        for (service, returns) in [
            (ServiceLaw::Deterministic, played(levels, rho, share, |_| 1.0, RETURNS)),
            (ServiceLaw::Gamma(0.3), played(levels, rho, share, gamma(0.3), RETURNS)),
            (ServiceLaw::Gamma(3.0), played(levels, rho, share, gamma(3.0), RETURNS)),
        ] {
            let found = law(levels, rho, share, service);
            let what = format!("{service} {rho} {share} {found:?}");
            let mean = returns.iter().sum::<f64>() / RETURNS as f64;
            let variance = returns.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / RETURNS as f64;
            assert!(relative(mean, found.mean_s * MU) < 0.03, "{what} {mean}");
            assert!(relative(variance.sqrt(), found.sd_s * MU) < 0.05, "{what} {}", variance.sqrt());
            for (quantile_s, p) in [(found.p50_s, 0.5), (found.p99_s, 0.99)] {
                let below = returns.partition_point(|time| *time <= quantile_s * MU) as f64 / RETURNS as f64;
                // Returns are independent: five standard errors.
                let error = 5.0 * (p * (1.0 - p) / RETURNS as f64).sqrt();
                assert!((below - p).abs() < error, "{what}: {below} below the quantile of {p}");
            }
        }
    }
}

/// A law, and the phases that say the same.
fn phases() -> impl Strategy<Value = (ServiceLaw, usize)> {
    prop_oneof![
        (1_usize..5).prop_map(|phases| (ServiceLaw::Gamma(1.0 / phases as f64), phases)),
        (1.0..10.0_f64).prop_map(|cv2| (ServiceLaw::Hyperexponential(cv2), 2)),
        Just((ServiceLaw::Exponential, 1)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn moments_and_quantiles_agree_with_the_phases_written_out(
        low in 1_u32..7, gap in 0_u32..6, room in 1_u32..7,
        rho in 0.05..4.0_f64, share in prop_oneof![Just(0.0), Just(1.0), 0.0..1.0_f64],
        (service, phases) in phases(),
    ) {
        let levels = (low, low + gap, low + gap + room);
        let written = match service {
            ServiceLaw::Hyperexponential(cv2) => PhaseType::hyperexponential(cv2, MU),
            _ => PhaseType::erlang(phases, MU),
        };
        let arrivals = format!("{}:1", rho * MU).parse().unwrap();
        let oracle = Oracle { levels, arrivals, service: written, share }.solve();
        let found = law(levels, rho, share, service);
        let (mean_s, sd_s) = oracle.return_moments_s();
        prop_assert!(relative(found.mean_s, mean_s) < 1e-7 && relative(found.sd_s, sd_s) < 1e-6, "{found:?} {mean_s} {sd_s}");
        if found.p99_s * MU < 2_000.0 {
            for (quantile_s, p) in [(found.p50_s, 0.5), (found.p99_s, 0.99)] {
                let reached = oracle.returned_by(quantile_s);
                prop_assert!((reached - p).abs() < 1e-7, "{found:?} {p} {reached}");
            }
        }
    }
}
