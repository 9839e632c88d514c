use proptest::prelude::{Strategy, prop_assert, proptest};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

use super::{PolledQueue, Polling, TimeMoments, VisitDiscipline};

const fn time(mean_s: f64, scv: f64) -> TimeMoments {
    TimeMoments { mean_s, scv }
}

const fn queue(arrival_rate_per_s: f64, mean_s: f64, scv: f64) -> PolledQueue {
    PolledQueue { arrival_rate_per_s, service: time(mean_s, scv) }
}

const INVITE_AND_OTHER: [PolledQueue; 2] = [queue(20.0, 0.01, 1.0), queue(120.0, 0.004, 1.0)];
const FIXED: [TimeMoments; 2] = [time(0.0005, 0.0); 2];

#[test]
fn the_reference_waits_are_met() {
    for (discipline, reference_ms) in [
        (VisitDiscipline::Exhaustive, [16.640625, 11.753906]),
        (VisitDiscipline::Gated, [13.410342, 14.860274]),
    ] {
        let waits = Polling::new(discipline, INVITE_AND_OTHER, FIXED).unwrap().waits_s();
        for (wait, reference) in waits.into_iter().zip(reference_ms) {
            assert!((wait * 1e3 - reference).abs() < 6e-7, "{discipline:?} {waits:?}");
        }
    }
}

/// Mean waits by playing it out: visits to queues of arrival times, with exponential or fixed times.
fn simulate(discipline: VisitDiscipline, queues: [PolledQueue; 2], switches: [TimeMoments; 2]) -> [f64; 2] {
    let mut random = Pcg64::seed_from_u64(4);
    let mut exponential = move |mean_s: f64| {
        let uniform = ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -uniform.ln() * mean_s
    };
    let mut draw = move |time: TimeMoments| {
        if time.scv == 0.0 { time.mean_s } else { exponential(time.mean_s) }
    };
    let gap = |queue: &PolledQueue| time(1.0 / queue.arrival_rate_per_s, 1.0);
    let (mut now, mut next) = (0.0, queues.map(|queue| draw(gap(&queue))));
    let (mut waited, mut served) = ([0.0; 2], [0_u32; 2]);
    while served[0] + served[1] < 3_000_000 {
        for i in 0..2 {
            let gate = now;
            // The queue is never stored: those in it are the arrivals up to now that are not yet served.
            while next[i] <= if discipline == VisitDiscipline::Gated { gate } else { now } {
                waited[i] += now - next[i];
                served[i] += 1;
                next[i] += draw(gap(&queues[i]));
                now += draw(queues[i].service);
            }
            now += draw(switches[i]);
        }
    }
    [0, 1].map(|i| waited[i] / f64::from(served[i]))
}

#[test]
fn a_simulation_of_unlike_queues_and_switches_agrees() {
    let queues = [queue(20.0, 0.01, 1.0), queue(120.0, 0.004, 0.0)];
    let switches = [time(0.004, 1.0), time(0.001, 0.0)];
    for discipline in [VisitDiscipline::Exhaustive, VisitDiscipline::Gated] {
        let waits = Polling::new(discipline, queues, switches).unwrap().waits_s();
        let played = simulate(discipline, queues, switches);
        for (wait, played) in waits.into_iter().zip(played) {
            assert!((played / wait - 1.0).abs() < 0.01, "{discipline:?} {waits:?} {played}");
        }
    }
}

#[test]
fn an_idle_queue_waits_for_half_a_switch_cycle() {
    // Nobody to serve: fixed switches of s in all are seen at a uniform moment.
    for discipline in [VisitDiscipline::Exhaustive, VisitDiscipline::Gated] {
        let waits = Polling::new(discipline, [queue(1e-9, 1e-6, 1.0); 2], FIXED).unwrap().waits_s();
        assert!(waits.iter().all(|wait| (wait - 0.0005).abs() < 1e-12), "{waits:?}");
    }
}

#[test]
fn parameters_outside_their_range_are_named() {
    let new = |queues, switches| Polling::new(VisitDiscipline::Gated, queues, switches).unwrap_err();
    assert_eq!(new([queue(-1.0, 0.01, 1.0); 2], FIXED).name, "queue");
    assert_eq!(new([queue(1.0, f64::NAN, 1.0); 2], FIXED).name, "queue");
    assert_eq!(new([queue(1.0, 0.01, -1.0); 2], FIXED).name, "queue");
    assert_eq!(new(INVITE_AND_OTHER, [time(0.0, 0.0); 2]).name, "switch");
    let overload = new([queue(60.0, 0.01, 1.0); 2], FIXED).to_string();
    assert!(overload.contains("sum to 1.2"), "{overload}");
}

fn time_moments() -> impl Strategy<Value = TimeMoments> {
    (1e-4..1.0_f64, 0.0..5.0_f64).prop_map(|(mean_s, scv)| time(mean_s, scv))
}

proptest! {
    #[test]
    fn the_pseudo_conservation_law_holds(
        loads in (0.01..0.48_f64, 0.01..0.48_f64),
        services in (time_moments(), time_moments()),
        switches in (time_moments(), time_moments()),
    ) {
        let queue = |load: f64, service: TimeMoments| {
            PolledQueue { arrival_rate_per_s: load / service.mean_s, service }
        };
        let queues = [queue(loads.0, services.0), queue(loads.1, services.1)];
        let (rho, squares) = (loads.0 + loads.1, loads.0.powi(2) + loads.1.powi(2));
        let s = switches.0.mean_s + switches.1.mean_s;
        let s_square = s * s + switches.0.variance() + switches.1.variance();
        let work = queues[0].arriving_square_s() + queues[1].arriving_square_s();
        let common = rho * work / (2.0 * (1.0 - rho))
            + rho * s_square / (2.0 * s)
            + s / (2.0 * (1.0 - rho)) * (rho * rho - squares);
        for (discipline, left_behind) in
            [(VisitDiscipline::Exhaustive, 0.0), (VisitDiscipline::Gated, s / (1.0 - rho) * squares)]
        {
            let polling = Polling::new(discipline, queues, [switches.0, switches.1]).unwrap();
            let waits = polling.waits_s();
            let found = loads.0 * waits[0] + loads.1 * waits[1];
            let law = common + left_behind;
            prop_assert!((found / law - 1.0).abs() < 1e-9, "{discipline:?} {found} {law}");
        }
    }
}
