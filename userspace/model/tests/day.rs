//! A day of control cycles of a busy server in some seconds: the live gate over a chain of events, held to the closed form and to
//! what must hold at every step.

use model::hysteresis::Hysteresis;
use overload::{Decision, Gate, GateState, GateTimes, Hysteretic, Levels};
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

const SERVICE_PER_S: f64 = 500.0;
const LOAD: f64 = 1.2;
const SHARE: f64 = 0.5;
const DAY_NS: u64 = 86_400_000_000_000;

#[test]
fn a_day_of_control_cycles_leaves_no_gate_stuck_and_no_count_wrong() {
    let levels = Levels::new(74, 85, 100).expect("levels");
    let (low, high, buffer) = levels.as_tuple();
    let [low, high, buffer] = [low, high, buffer].map(|level| level as usize);
    let arrival_per_s = LOAD * SERVICE_PER_S;
    let mut gate = Hysteretic::with_levels(levels, SHARE).expect("share");
    let mut times = GateTimes::new(0);
    let mut random = Pcg64::seed_from_u64(4);
    let (mut now_ns, mut in_system) = (0_u64, 0_usize);
    let (mut offered, mut shed, mut changes) = (0_u64, 0_u64, 0_u64);
    while now_ns < DAY_NS {
        let departures_per_s = if in_system > 0 { SERVICE_PER_S } else { 0.0 };
        let unit: f64 = Exp1.sample(&mut random);
        // Rounded up: no two events at one time.
        now_ns += (unit / (arrival_per_s + departures_per_s) * 1e9) as u64 + 1;
        let before = gate.state();
        // 2^-64 is nothing beside the error of a day.
        let is_arrival =
            random.next_u64() as f64 * (arrival_per_s + departures_per_s) < arrival_per_s * 2_f64.powi(64);
        if is_arrival {
            offered += 1;
            match gate.arrive(now_ns, random.next_u32(), in_system) {
                Decision::Shed(_) => shed += 1,
                _ => in_system += 1,
            }
        } else {
            in_system -= 1;
            gate.depart(now_ns, in_system);
        }
        let state = gate.state();
        changes += u64::from(state != before);
        let holds = match state {
            GateState::Normal => in_system <= high,
            GateState::Overload => (low..=buffer).contains(&in_system),
            GateState::Discard => (high..=buffer).contains(&in_system),
        };
        assert!(holds, "{state:?} with {in_system} at {now_ns} ns");
        times.note(now_ns, state, in_system);
    }
    let sums = times.sums();
    assert_eq!(sums.state_ns.iter().sum::<u64>(), now_ns, "every nanosecond is in one state");
    assert_eq!(gate.transitions(), changes);

    let theory = Hysteresis::new(levels, arrival_per_s, SERVICE_PER_S, SHARE).expect("parameters").solve();
    let (total_s, returns) = (now_ns as f64 / 1e9, sums.returns as f64);
    println!("{} cycles, {offered} offered, {shed} shed", sums.returns);
    for (name, measured, expected) in [
        ("P0", sums.state_ns[0] as f64 / now_ns as f64, theory.states[0]),
        ("rejected", shed as f64 / offered as f64, theory.rejected),
        ("return time", sums.return_ns as f64 / 1e9 / returns, theory.return_time_s),
        ("cycle", total_s / returns, theory.cycle_s),
        ("in system", sums.in_system_ns as f64 / 1e9 / total_s, theory.mean_in_system),
    ] {
        let ratio = measured / expected;
        assert!((0.99..=1.01).contains(&ratio), "{name}: {measured:.5} of {expected:.5}");
    }
}
