//! The reference values, and agreement with the event simulation where neither knows of the other.

use overload::{Discipline, GateConfig, Threshold};

use super::{Flow, FluidError, FluidOutcome, Hop, solve};
use crate::simulate::{Estimate, Law, Node, Rate, Route, Scenario, State, Timers, replicate};

#[track_caller]
fn assert_close(found: f64, reference: f64, tolerance: f64) {
    assert!((found - reference).abs() <= tolerance, "{found}, expected {reference}");
}

fn slope_per_s(outcome: &FluidOutcome, from_s: usize, until_s: usize) -> f64 {
    let line = |at_s: usize| outcome.series[at_s * 100 - 1].lines[0];
    (line(until_s) - line(from_s)) / (until_s - from_s) as f64
}

#[test]
fn a_slowdown_is_fatal_to_a_long_fifo() {
    let outcome = solve(&Flow::slowdown(Discipline::Fifo, 200_000.0));
    assert_close(outcome.peak_lines[0], 120_401.0, 0.5);
    assert_close(outcome.copies_per_call, 5.5567, 5e-5);
    // 200 calls in 7 messages each, 1000 services: what is in excess can only wait.
    assert_close(slope_per_s(&outcome, 200, 300), 400.0, 1e-6);
    assert_eq!(outcome.peak_lines, outcome.final_lines);
}

#[test]
fn under_priority_the_same_slowdown_passes() {
    for buffer in [5_000.0, 20_000.0, 200_000.0] {
        let outcome = solve(&Flow::slowdown(Discipline::Priority, buffer));
        assert_close(outcome.copies_per_call, 0.35263, 5e-6);
        assert_close(outcome.mean_delay_s, 50_625.0 / 60_000.0, 1e-9);
        assert_close(outcome.final_lines[0], 0.0, 1e-6);
        assert_close(outcome.failed_share, 0.0, 1e-9);
    }
}

#[test]
fn a_burst_is_forgotten_behind_a_short_buffer_or_under_priority_only() {
    let left = |discipline, buffer| solve(&Flow::burst(discipline, buffer)).final_lines[0];
    assert_close(left(Discipline::Fifo, 1_000.0), 0.0, 1.0);
    assert!(left(Discipline::Fifo, 200_000.0) > 50_000.0);
    for buffer in [20_000.0, 200_000.0] {
        let outcome = solve(&Flow::burst(Discipline::Priority, buffer));
        assert_close(outcome.final_lines[0], 0.0, 1e-6);
        assert_close(outcome.failed_share, 0.0, 1e-9);
    }
}

#[test]
fn the_safe_buffer_is_that_of_the_reference_and_tells_who_recovers() {
    let flow = |calls: f64, services: f64, timers| Flow {
        rate: Rate::Constant(calls),
        timers,
        hops: vec![Hop {
            rate: Rate::Constant(services),
            discipline: Discipline::Fifo,
            buffer: 1.0,
            state: State::Stateless,
        }],
        duration_ns: 1_000_000_000,
    };
    let safe = |calls, services, timers| flow(calls, services, timers).safe_buffer().unwrap();
    assert_close(safe(200.0, 1000.0, Timers::Invite), 7_500.0, 1e-9);
    assert_close(safe(900.0, 1117.0, Timers::Invite), 558.5, 1e-9);
    // No burst is fatal below 1/7, for other requests below 1/11.
    for (timers, messages) in [(Timers::Invite, 7.0), (Timers::Other, 11.0)] {
        assert!(safe(0.999 / messages, 1.0, timers).is_infinite());
        assert!(safe(1.001 / messages, 1.0, timers).is_finite());
    }
    assert_close(safe(1.0, 1.0, Timers::Invite), 0.0, 0.0);
    // A server that stops for 40 s fills any of these buffers.
    for (buffer, recovers) in [(7_000.0, true), (9_000.0, false)] {
        let mut flow = Flow::slowdown(Discipline::Fifo, buffer);
        flow.hops[0].rate = Rate::Steps(vec![(0.0, 0.0), (40.0, 1000.0)]);
        assert_close(flow.safe_buffer().unwrap(), 7_500.0, 1e-9);
        let left = solve(&flow).final_lines[0];
        assert!(if recovers { left < 1.0 } else { left > 8_000.0 }, "{buffer}: {left}");
    }
}

#[test]
fn the_slots_leave_the_exact_copies_of_the_slowdown_to_their_width() {
    // Originals first: a call of t < 15 s waits for t, one of t < 33.75 s for 27 − .8 t. Copy j is sent by those who wait for
    // more than T_j, from T_j on until (27 − T_j)/.8.
    let copies: f64 = [0.5, 1.5, 3.5, 7.5].map(|sent: f64| 200.0 * ((27.0 - sent) / 0.8 - sent)).iter().sum();
    assert_close(copies / 60_000.0, 0.3525, 1e-12);
    let outcome = solve(&Flow::slowdown(Discipline::Priority, 5_000.0));
    // Four copies, each with an error of a slot at either end.
    assert_close(outcome.copies_per_call, copies / 60_000.0, 8.0 * 2.0 / 60_000.0);
}

fn tandem(state: State, discipline: Discipline, buffers: [u32; 2], speeds: [&str; 2]) -> Scenario {
    let node = |index: usize| {
        let buffer = Threshold::Messages(buffers[index]);
        let gate = match discipline {
            Discipline::Fifo => GateConfig::Fifo { buffer },
            Discipline::Priority => GateConfig::TailDrop { buffer },
        };
        let rate: Rate = speeds[index].parse().unwrap();
        Node::server(["edge", "core"][index], rate, Law::Exponential, gate, buffers[index])
    };
    let mut scenario = Scenario::single(Rate::Constant(200.0), Timers::Invite, node(0), 100_000_000_000);
    scenario.nodes.push(node(1));
    scenario.nodes[0].state = state;
    scenario.nodes[0].routes = vec![Route::to(1)];
    scenario
}

#[test]
fn fluid_and_events_agree_on_two_servers_of_which_the_second_slows_down() {
    for (state, discipline) in [
        (State::Stateless, Discipline::Fifo),
        (State::Stateless, Discipline::Priority),
        (State::Stateful, Discipline::Fifo),
        (State::Stateful, Discipline::Priority),
    ] {
        let scenario = tandem(state, discipline, [3000, 2000], ["1500", "steps 0:100, 10:1000"]);
        let fluid = solve(&Flow::of(&scenario).unwrap());
        let runs = replicate(&scenario, 4, 2, || {}).unwrap();
        let what = format!("{state:?} {discipline:?}");
        let near = |measure: &str, fluid: f64, simulated: Estimate| {
            let tolerance = 4.0f64.mul_add(simulated.standard_error, 0.04 * fluid) + 0.01;
            assert!((fluid - simulated.mean).abs() <= tolerance, "{what} {measure}: {fluid}, {simulated:?}");
        };
        let of =
            |measure: fn(&crate::simulate::Outcome) -> f64| Estimate::of(runs.iter().map(measure)).unwrap();
        near("copies", fluid.copies_per_call, of(|o| o.calls().copies as f64 / o.calls().offered as f64));
        near("delay", fluid.mean_delay_s, of(|o| o.calls().mean_delay_with_late_s()));
        near("peak", fluid.peak_lines[1], of(|o| o.nodes[1].longest_line as f64));
    }
}

#[test]
fn a_second_server_without_a_queue_changes_nothing() {
    let single = Flow::slowdown(Discipline::Fifo, 5_000.0);
    let fast = Hop { rate: Rate::Constant(1e9), buffer: 1e9, ..single.hops[0].clone() };
    let alone = solve(&single);
    for state in [State::Stateless, State::Stateful] {
        let first = Hop { state, ..single.hops[0].clone() };
        let both = solve(&Flow { hops: vec![first, fast.clone()], ..single.clone() });
        assert_close(both.copies_per_call, alone.copies_per_call, 0.01 * alone.copies_per_call);
        assert_close(both.mean_delay_s, alone.mean_delay_s, 0.01 * alone.mean_delay_s);
        assert_close(both.final_lines[0], alone.final_lines[0], 0.01 * alone.final_lines[0] + 1.0);
    }
}

#[test]
fn what_is_no_flow_is_refused_by_name() {
    let scenario = || tandem(State::Stateful, Discipline::Fifo, [10, 10], ["1", "1"]);
    let refused = |change: fn(&mut Scenario)| {
        let mut scenario = scenario();
        change(&mut scenario);
        Flow::of(&scenario).unwrap_err()
    };
    assert!(Flow::of(&scenario()).is_ok());
    assert_eq!(refused(|s| s.sources.clear()), FluidError::Sources(0));
    assert_eq!(refused(|s| s.nodes[0].routes[0].delay_ns = 1), FluidError::Way);
    let modulated = |s: &mut Scenario| s.nodes[1].rate = "mmpp 1:1, 2:1".parse().unwrap();
    assert_eq!(refused(modulated), FluidError::Rate("node.core.rate_per_s".to_owned()));
    let in_time = |s: &mut Scenario| s.nodes[0].gate = GateConfig::Fifo { buffer: Threshold::Time(1) };
    assert_eq!(refused(in_time), FluidError::Gate("node.edge.gate".to_owned()));
    assert_eq!(refused(|s| s.duration_ns = 20_000_000_000_000), FluidError::Length(20_000));
    let silent = |s: &mut Scenario| s.sources[0].rate = Rate::Constant(0.0);
    assert_eq!(refused(silent), FluidError::Nobody("source.callers.rate_per_s".to_owned()));
    let other = |s: &mut Scenario| s.sources[0].timers = Timers::Other;
    assert_eq!(refused(other), FluidError::Timers("source.callers.timers".to_owned()));
}
