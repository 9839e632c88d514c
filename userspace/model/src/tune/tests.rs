use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::{Just, Strategy};

use super::predict::Model;
use super::{Burst, Cost, Demand, Effort, Limit, Peak, Recommendation, Settled, TuneError, Tuning};
use crate::hysteresis::{Hysteresis, ModulatedHysteresis};
use crate::service::ServiceLaw;
use crate::thresholds::ThresholdProblem;

/// A server of 1000 a second at three times its capacity.
fn demand() -> Demand {
    Demand {
        service_rate_per_s: 1000.0,
        service: ServiceLaw::Exponential,
        peak: Peak::Load(3.0),
        burst: None,
        credentials: 0.0,
        reply_cost: Cost::Services(0.0),
        max_wait_s: 0.2,
        max_discard: 0.001,
        min_cycle_s: None,
    }
}

fn solve(demand: &Demand) -> Result<Recommendation, TuneError> {
    Tuning::new(demand.clone()).map_err(TuneError::from)?.solve()
}

#[test]
fn the_choice_is_hardly_longer_in_overload_than_the_shortest_of_all_pairs() {
    for (load, max_discard, min_cycle_s) in [(1.2, 1e-4, 0.2), (3.0, 1e-3, 0.3), (10.0, 0.01, 0.4)] {
        let wish = Demand { peak: Peak::Load(load), max_discard, min_cycle_s: Some(min_cycle_s), ..demand() };
        let found = solve(&wish).unwrap();
        let buffer = found.levels.buffer();
        let rates = (load * 1000.0, 1000.0);
        let problem = ThresholdProblem::new(rates, buffer, found.share, max_discard, min_cycle_s).unwrap();
        let shortest = problem.solve().unwrap();
        let ratio = found.model.return_time_s / shortest.return_time_s;
        assert!((1.0 - 1e-9..1.03).contains(&ratio), "{load}: {found:?} {shortest:?}");
    }
}

#[test]
fn the_gate_leaves_a_fifth_of_the_server_at_the_peak_and_bounds_the_wait() {
    let found = solve(&demand()).unwrap();
    let (low, high, buffer) = found.levels.as_tuple();
    assert_eq!((buffer, found.admit, found.share), (200, 0.26, 0.26));
    // 200 services less what their spread may take in one case of a hundred: 2.33 √n.
    assert!((165..=169).contains(&high) && low < high, "{low} {high}");
    assert!(found.model.cycle_s >= 0.1 && found.model.states[2] <= 0.001, "{found:?}");
    assert!((found.model.rejected - 2.0 / 3.0).abs() < 1e-3, "{found:?}");
    assert!(found.model.answer_p99_s.unwrap() < 0.2);
    let costly = solve(&Demand { reply_cost: Cost::Services(0.05), ..demand() }).unwrap();
    assert_eq!(costly.levels.buffer(), 170, "3000 refusals a second take 150 services");
    assert!((costly.peak_service_rate_per_s - 850.0 / 0.95).abs() < 1e-9);
    // What is served and what is refused are all.
    assert!((costly.model.rejected - (1.0 - 850.0 / 0.95 / 3000.0)).abs() < 2e-3, "{costly:?}");
    let known = solve(&Demand { credentials: 0.3, ..demand() }).unwrap();
    assert_eq!((known.admit, known.share), (0.2, 0.26), "three of ten are admitted by twice as much");
}

#[test]
fn other_loads_and_laws_get_settings_too() {
    for peak in [0.05, 0.8, 0.99, 1.0, 1.01, 50.0] {
        let found = solve(&Demand { peak: Peak::Load(peak), ..demand() }).unwrap();
        assert!(found.model.states[2] <= 0.001, "{peak}: {found:?}");
    }
    let levels = |service| solve(&Demand { service, ..demand() }).unwrap().levels.as_tuple();
    let (even, uneven) = (levels(ServiceLaw::Deterministic), levels(ServiceLaw::Gamma(4.0)));
    assert!(even.1 > uneven.1 && even.2 == uneven.2, "{even:?} {uneven:?}");
    let burst = Burst { length_s: 1.0, pause_s: 4.0, base_load: Some(0.5) };
    let bursts = solve(&Demand { burst: Some(burst), ..demand() }).unwrap();
    assert!(bursts.model.rejected < 0.6 && bursts.model.answer_p99_s.is_none(), "{bursts:?}");
    let phases = Peak::Phases("3000:1,500:4".parse().unwrap());
    assert_eq!(solve(&Demand { peak: phases, ..demand() }).unwrap(), bursts);
}

#[test]
fn short_bursts_do_not_make_the_gate_change_more_often_than_is_allowed() {
    // Each burst of this length is a cycle of its own; while the peak lasts the same thresholds are calm for longer.
    let burst = Some(Burst { length_s: 0.2, pause_s: 0.2, base_load: Some(0.0) });
    let wish = Demand { burst, max_wait_s: 0.39, peak: Peak::Load(2.7), ..demand() };
    let found = solve(&Demand { min_cycle_s: Some(0.3), ..wish.clone() }).unwrap();
    assert!(found.model.cycle_s >= 0.3, "{found:?}");
    let Err(TuneError::Impossible(error)) = solve(&Demand { min_cycle_s: Some(1.7), ..wish.clone() }) else {
        panic!("possible")
    };
    assert_eq!(error.unmet[0].limit, Limit::MinCycle);
    assert!(solve(&Demand { min_cycle_s: Some(1.7), burst: None, ..wish }).is_ok());
}

#[test]
fn slow_and_fast_servers_are_tuned_and_the_slowest_told_why_not() {
    for (service_rate_per_s, max_wait_s) in [(20.0, 0.4), (100_000.0, 0.4), (300_000.0, 0.01)] {
        let wish = Demand { service_rate_per_s, max_wait_s, ..demand() };
        let found = solve(&wish).unwrap();
        assert!(f64::from(found.levels.buffer()) <= max_wait_s * service_rate_per_s, "{found:?}");
    }
    for (service_rate_per_s, longest) in [(20.0, 8), (100_000.0, 2500)] {
        let burst = Some(Burst { length_s: 1.0, pause_s: 1.0, base_load: Some(0.5) });
        let wish = Demand { service_rate_per_s, max_wait_s: 0.4, burst, ..demand() };
        let found = solve(&wish).unwrap();
        assert_eq!(found.levels.buffer(), longest, "{found:?}");
        assert_eq!(f64::from(found.buffer_in_time), 0.4 * service_rate_per_s);
    }
    let wish = Demand { service_rate_per_s: 10.0, max_wait_s: 0.4, ..demand() };
    let Err(TuneError::Impossible(error)) = solve(&wish) else { panic!("10 a second are possible") };
    assert_eq!((error.unmet[0].limit, error.together), (Limit::ServiceRate, false), "{error}");
}

#[test]
fn each_limit_that_alone_stands_in_the_way_is_named() {
    let named = |wish: &Demand| match solve(wish) {
        Err(TuneError::Impossible(error)) => error.unmet.iter().map(|unmet| unmet.limit).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let wish = Demand { min_cycle_s: Some(60.0), ..demand() };
    assert_eq!(named(&wish), [Limit::MinCycle]);
    let wish = Demand { reply_cost: Cost::Services(0.4), ..demand() };
    assert_eq!(named(&wish), [Limit::ReplyCost, Limit::PeakLoad]);
    let wish = Demand { max_wait_s: 0.004, ..demand() };
    assert_eq!(named(&wish), [Limit::MaxWait]);
    // No single change helps: refusals take the whole server, and the line would be too short without them.
    let wish = Demand { reply_cost: Cost::Services(0.4), max_wait_s: 0.004, ..demand() };
    let Err(TuneError::Impossible(error)) = solve(&wish) else { panic!("possible") };
    assert!(error.together && error.unmet.len() == 2, "{error}");
    let text = error.to_string();
    assert!(text.starts_with("--reply-cost 0.4 cannot be met: it must be at most 0.1666"), "{text}");
    assert!(
        text.contains(", and --max-wait at least 0.013") && text.ends_with(" instead of 0.004"),
        "{text}"
    );
}

#[test]
fn bursts_of_a_server_that_is_too_slow_or_pays_too_much_name_what_must_give_way() {
    let burst = |base_load| Some(Burst { length_s: 2.0, pause_s: 2.0, base_load });
    let slow = |peak, base_load| Demand {
        service_rate_per_s: 10.0,
        peak,
        burst: burst(base_load),
        max_wait_s: 0.4,
        ..demand()
    };
    for wish in [
        slow(Peak::Rate(30.0), None),
        slow(Peak::Rate(30.0), Some(0.5)),
        slow(Peak::Rate(3.0), None),
        // The service rate can rise only if the load between bursts, a multiple of it, falls.
        slow(Peak::Rate(3.0), Some(0.3)),
        Demand { burst: burst(None), reply_cost: Cost::Services(0.4), ..demand() },
        Demand { burst: burst(Some(0.5)), reply_cost: Cost::Services(0.4), ..demand() },
        Demand { burst: burst(Some(2.0)), reply_cost: Cost::Services(0.4), ..demand() },
    ] {
        let Err(TuneError::Impossible(error)) = solve(&wish) else { panic!("{wish:?} is possible") };
        assert!(!error.unmet.is_empty(), "{wish:?}");
        let mut all = wish.clone();
        for unmet in &error.unmet {
            all = unmet.limit.set(&all, unmet.nearest);
            let one = unmet.limit.set(&wish, unmet.nearest);
            assert!(error.together || solve(&one).is_ok(), "{error}: {wish:?}");
        }
        assert!(solve(&all).is_ok(), "{error}: {wish:?}");
    }
}

#[test]
fn parameters_outside_their_range_are_named() {
    type Change = fn(&mut Demand);
    let wrong: [(Change, &str); 14] = [
        (|d| d.service_rate_per_s = 0.0, "service-rate 0 must be a number above 0"),
        (|d| d.service_rate_per_s = 1.5, "service-rate 1.5 must be above 2, since a service"),
        (
            |d| d.service_rate_per_s = 1e9,
            "service-rate 1000000000 must be above 2, since a service must end before T1 = 0.5 s, and at most 1000000",
        ),
        (|d| d.service_rate_per_s = 5e5, "peak-load 3 must be between 0.01 and 2"),
        (
            |d| d.service = ServiceLaw::Hyperexponential(4.0),
            "service hyperexponential:4 must be exponential, deterministic or gamma",
        ),
        (|d| d.peak = Peak::Load(1000.0), "peak-load 1000 must be between 0.01 and 100"),
        (|d| d.peak = Peak::Rate(f64::NAN), "peak-rate NaN must be between 10 and 100000"),
        (
            |d| d.peak = Peak::Phases("1:1,2:1".parse().unwrap()),
            "mmpp 2 must be a highest rate between 10 and",
        ),
        (|d| d.reply_cost = Cost::Services(1.0), "reply-cost 1 must be at least 0 and below 1"),
        (|d| d.max_wait_s = 0.4995, "max-wait 0.4995 must be above 0 and at most 0.499:"),
        (|d| d.max_discard = -0.1, "max-discard -0.1 must be between 0 and 1"),
        (|d| d.min_cycle_s = Some(f64::INFINITY), "min-cycle inf must be a finite number"),
        (|d| d.credentials = 2.0, "credentials 2 must be between 0 and 1"),
        (
            |d| d.burst = Some(Burst { length_s: 1.0, pause_s: 1.0, base_load: Some(4.0) }),
            "base-load 4 must be between 0 and the load of the peak, 3",
        ),
    ];
    for (change, said) in wrong {
        let mut demand = demand();
        change(&mut demand);
        let error = Tuning::new(demand).unwrap_err().to_string();
        assert!(error.starts_with(said), "{error}; expected {said}");
    }
    let phases = Peak::Phases("3000:1:0:.5:.5\n2000:1:1:0:0\n100:1:1:0:0".parse().unwrap());
    let error = Tuning::new(Demand { peak: phases, ..demand() }).unwrap_err();
    assert_eq!(error.name, "mmpp");
    let phases = Peak::Phases("3000:1e-4,500:1".parse().unwrap());
    let error = Tuning::new(Demand { peak: phases, ..demand() }).unwrap_err().to_string();
    assert_eq!(error, "mmpp sojourn 0.0001 must be between 0.001 and 1000000 seconds");
    let burst = Some(Burst { length_s: 1.0, pause_s: 1.0, base_load: Some(0.5) });
    let error = Tuning::new(Demand { burst, service: ServiceLaw::Deterministic, ..demand() }).unwrap_err();
    assert_eq!(error.to_string(), "service deterministic must be exponential together with bursts");
}

#[test]
fn the_same_effort_gives_the_same_numbers_on_any_number_of_threads() {
    let tuning = Tuning::new(demand()).unwrap();
    let chosen = tuning.solve().unwrap();
    let of = |threads| tuning.verify(&chosen, Effort { seeds: 4, calls: 40_000, threads }).unwrap();
    assert_eq!(of(1), of(2));
}

#[test]
fn more_calls_than_the_memory_holds_are_named() {
    let tuning = Tuning::new(Demand { service_rate_per_s: 300_000.0, ..demand() }).unwrap();
    let chosen = tuning.solve().unwrap();
    let error = tuning.verify(&chosen, Effort { seeds: 2, calls: 1_000_000_000, threads: 1 }).unwrap_err();
    let said = "calls 1000000000 must be fewer, or spread over more seeds: the simulation keeps about ";
    assert!(error.to_string().starts_with(said), "{error}");
}

#[test]
fn what_is_served_and_what_refusals_cost_is_all_that_the_server_has() {
    // Uneven services, during which many refusals wait.
    let wish = Demand {
        service_rate_per_s: 185.0,
        service: ServiceLaw::Gamma(2.0),
        peak: Peak::Load(5.0),
        reply_cost: Cost::Services(0.02),
        max_discard: 0.02,
        ..demand()
    };
    let tuning = Tuning::new(wish.clone()).unwrap();
    let chosen = tuning.solve().unwrap();
    let seen = tuning.verify(&chosen, Effort { seeds: 8, calls: 400_000, threads: 2 }).unwrap();
    let (rejected, copies) = (seen.rejected.unwrap(), seen.copies.unwrap());
    let must_be = 1.0 - wish.peak_service_rate_per_s() / wish.peak_rate_per_s();
    assert!(
        (rejected.mean - must_be).abs() < 0.002 + 4.0 * rejected.standard_error,
        "{rejected:?} {must_be}"
    );
    assert!(copies.mean < 1e-3, "{copies:?}");
}

/// A short line, uneven services and dear refusals: cycles are a sixth shorter than the model has it.
fn uneven() -> Demand {
    Demand {
        service_rate_per_s: 73.0,
        service: ServiceLaw::Gamma(2.0),
        peak: Peak::Load(5.6),
        reply_cost: Cost::Services(0.027),
        max_wait_s: 0.23,
        max_discard: 0.02,
        ..demand()
    }
}

#[test]
fn where_the_simulation_misses_a_limit_the_model_is_asked_for_more() {
    let tuning = Tuning::new(Demand { min_cycle_s: Some(0.09), ..uneven() }).unwrap();
    let effort = Effort { seeds: 8, calls: 400_000, threads: 2 };
    let by_model = tuning.solve().unwrap();
    let seen = tuning.verify(&by_model, effort).unwrap().cycle_s.unwrap();
    assert!(by_model.model.cycle_s >= 0.09 && seen.mean < 0.085, "{by_model:?} {seen:?}");
    let settled = tuning.recommend(effort).unwrap();
    assert!(!misses(&tuning, &settled) && settled.verified.cycle_s.unwrap().mean >= 0.089, "{settled:?}");
    assert!(settled.chosen.model.cycle_s > by_model.model.cycle_s && settled.no_more.is_none());
}

#[test]
fn where_the_model_can_give_no_more_it_is_told_why() {
    // The longest cycle of all.
    let Err(TuneError::Impossible(error)) = solve(&Demand { min_cycle_s: Some(9.0), ..uneven() }) else {
        panic!("possible")
    };
    let longest_s = error.unmet.iter().find(|unmet| unmet.limit == Limit::MinCycle).unwrap().nearest;
    let tuning = Tuning::new(Demand { min_cycle_s: Some(longest_s), ..uneven() }).unwrap();
    let settled = tuning.recommend(Effort { seeds: 8, calls: 400_000, threads: 2 }).unwrap();
    assert!(misses(&tuning, &settled) && settled.no_more.is_some(), "{settled:?}");
}

/// Whether the simulation misses a limit.
fn misses(tuning: &Tuning, settled: &Settled) -> bool {
    let quantities = tuning.quantities(&settled.chosen, &settled.verified);
    quantities.iter().any(|quantity| quantity.misses)
}

/// Demands most of which can be met.
fn demands() -> impl Strategy<Value = Demand> {
    let laws = prop_oneof![
        3 => Just(ServiceLaw::Exponential),
        1 => Just(ServiceLaw::Deterministic),
        1 => Just(ServiceLaw::Gamma(2.0)),
    ];
    let base_load = prop_oneof![Just(None), (0.0..0.9_f64).prop_map(Some)];
    let burst = (0.2..2.0_f64, 0.2..2.0_f64, base_load).prop_map(|(length_s, pause_s, base_load)| Burst {
        length_s,
        pause_s,
        base_load,
    });
    let wishes = (0.05..0.4_f64, 1e-3..0.05_f64, prop_oneof![Just(None), (0.05..0.5_f64).prop_map(Some)]);
    let cost = prop_oneof![
        2 => Just(Cost::Services(0.0)),
        1 => (0.0..0.05_f64).prop_map(Cost::Services),
        1 => (0.0..50e-6_f64).prop_map(Cost::Seconds),
    ];
    let peak = (1.1..6.0_f64, any::<bool>());
    (100.0..3000.0_f64, laws, peak, (any::<bool>(), burst), cost, wishes).prop_map(
        |(rate_per_s, service, (load, as_rate), (bursts, burst), reply_cost, wishes)| {
            // The chain of other laws takes its time.
            let service_rate_per_s =
                if service == ServiceLaw::Exponential { rate_per_s } else { rate_per_s / 10.0 };
            let (max_wait_s, max_discard, min_cycle_s) = wishes;
            Demand {
                service_rate_per_s,
                service,
                peak: if as_rate { Peak::Rate(load * service_rate_per_s) } else { Peak::Load(load) },
                burst: (bursts && service == ServiceLaw::Exponential).then_some(burst),
                credentials: 0.0,
                reply_cost,
                max_wait_s,
                max_discard,
                min_cycle_s,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_server_that_pays_for_refusals_is_the_modulated_chain_of_one_phase(
        (high, gap, room) in (2_u32..40, 0_u32..30, 1_u32..30),
        load in 0.3..8.0_f64,
        cost in 0.0..0.1_f64,
        share in 0.0..1.0_f64,
    ) {
        let (low, buffer) = (high.saturating_sub(gap).max(1), high + room);
        let demand = Demand { peak: Peak::Load(load), reply_cost: Cost::Services(cost), ..demand() };
        let found = Model::new(&demand, buffer, share).predict(low, high).unwrap();
        let levels = crate::parameter::levels(low, high, buffer).unwrap();
        let chain = ModulatedHysteresis::new(levels, demand.phases().unwrap(), 1000.0, share).unwrap();
        let (expected, _) = chain.with_refusal_cost(cost).unwrap().solve();
        let pairs = [
            (found.states[0], expected.states[0]),
            (found.states[1], expected.states[1]),
            (found.states[2], expected.states[2]),
            (found.rejected, expected.rejected),
            (found.mean_wait_s, expected.mean_wait_s),
            (found.return_time_s, expected.return_time_s),
            (found.cycle_s, expected.cycle_s),
        ];
        for (one, other) in pairs {
            prop_assert!((one - other).abs() <= 1e-8 * other.abs() + 1e-14, "{found:?} {expected:?}");
        }
    }

    #[test]
    fn what_is_recommended_meets_the_limits_and_what_is_nearest_can_be_met(mut wish in demands(), tight in any::<bool>()) {
        if tight {
            wish.max_discard /= 1000.0;
            wish.min_cycle_s = Some(wish.min_cycle_s.unwrap_or(0.1) * 5.0);
        }
        match solve(&wish) {
            Ok(found) => {
                let (low, high, buffer) = found.levels.as_tuple();
                prop_assert!(low < high, "thresholds in time need L < H");
                prop_assert!(found.model.states[2] <= wish.max_discard && found.model.cycle_s >= found.min_cycle_s);
                prop_assert!(wish.min_cycle_s.is_none_or(|wished| wished == found.min_cycle_s));
                prop_assert!(f64::from(buffer) <= wish.max_wait_s * wish.slowest_rate_per_s() + 1e-6);
                let peak_per_s = wish.peak_rate_per_s();
                prop_assert!(found.share * peak_per_s < wish.rates_per_s(found.share)[1], "overload must end");
                if wish.burst.is_none() && wish.refusal_services() == 0.0 && wish.service == ServiceLaw::Exponential {
                    // The public closed form, not the one that the search has used.
                    let model = Hysteresis::new(found.levels, peak_per_s, wish.service_rate_per_s, found.share).unwrap();
                    let expected = model.solve();
                    prop_assert!((found.model.states[2] - expected.states[2]).abs() < 1e-12, "{high}");
                    prop_assert!((found.model.mean_wait_s / expected.mean_wait_s - 1.0).abs() < 1e-9);
                }
            }
            Err(TuneError::Impossible(error)) => {
                prop_assert!(!error.unmet.is_empty(), "what must give way is named");
                let mut relaxed = wish.clone();
                for unmet in &error.unmet {
                    let changed = unmet.limit.set(if error.together { &relaxed } else { &wish }, unmet.nearest);
                    if !error.together {
                        prop_assert!(solve(&changed).is_ok(), "{error}: {:?}", solve(&changed));
                    }
                    // Nearer to the wish by a hundredth it cannot be met.
                    let nearer = if unmet.limit.is_least() { unmet.nearest * 1.01 } else { unmet.nearest * 0.99 };
                    if !error.together && (nearer > unmet.wanted) != unmet.limit.is_least() {
                        prop_assert!(solve(&unmet.limit.set(&wish, nearer)).is_err(), "{error}: {nearer}");
                    }
                    relaxed = changed;
                }
                if error.together {
                    prop_assert!(solve(&relaxed).is_ok(), "{error}");
                }
            }
            Err(other) => prop_assert_eq!(other.to_string(), "", "a demand in its ranges"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn the_simulation_agrees_that_the_limits_are_met(wish in demands()) {
        let tuning = Tuning::new(wish.clone()).unwrap();
        let effort = Effort { seeds: 8, calls: 400_000, threads: 2 };
        let settled = match tuning.recommend(effort) {
            Ok(settled) => settled,
            Err(TuneError::Impossible(_)) => return Ok(()),
            Err(other) => panic!("{other}"),
        };
        let (found, seen) = (&settled.chosen, &settled.verified);
        let keeps_limits = !misses(&tuning, &settled);
        // Only paid refusals, which the model takes for a drain, may leave less room than was counted on.
        prop_assert!(keeps_limits || wish.refusal_services() > 0.0, "{settled:?}");
        let allowed = |limit: f64, error: f64| 4.0f64.mul_add(error, 0.02 * limit);
        if keeps_limits {
            let discard = seen.states[2].unwrap();
            let most = wish.max_discard + allowed(wish.max_discard, discard.standard_error);
            prop_assert!(discard.mean <= most, "{settled:?}");
            if let Some((wished, cycle)) = wish.min_cycle_s.zip(seen.cycle_s) {
                prop_assert!(cycle.mean >= wished - allowed(wished, cycle.standard_error), "{settled:?}");
            }
        }
        // Waiting is cut off at the limit; hardly anybody is to be refused for it, or sends again.
        let rejected = seen.rejected.unwrap();
        let most = found.model.rejected + 0.01 + 4.0 * rejected.standard_error;
        prop_assert!(rejected.mean <= most, "{settled:?}");
        prop_assert!(seen.copies.unwrap().mean < 0.01, "{settled:?}");
    }
}
