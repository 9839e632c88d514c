//! A worker that goes on by another configuration: what it holds and knows stays, and what is new holds from the next turn on.

mod support;

use overload::{GateConfig, GateState, GateWord, HystereticConfig, Threshold};
use sip::Class;
use sipweir::config::{MonitorClasses, Reply};
use sipweir::counters::Outcome;
use support::{Bench, MS, Setup, change, request};

const URI: &str = "sip:bob@example.com";

fn hysteretic(low: u32, high: u32, buffer: u32) -> GateConfig {
    let [admit_below, shed_at, discard_at] = [low, high, buffer].map(Threshold::Messages);
    GateConfig::Hysteretic(HystereticConfig { admit_below, shed_at, discard_at, share: 0.0 })
}

fn state(bench: &Bench) -> GateState {
    GateWord::from_bits(bench.gates.load(0)).expect("a word").state()
}

fn go_on(bench: &mut Bench, setup: &Setup) {
    bench.changes.put(change(setup, &bench.arrivals, bench.now_ns));
    bench.turn_after(MS);
    assert!(bench.changes.taken().is_some(), "it was taken in one turn");
}

fn offer(bench: &mut Bench, calls: std::ops::Range<u32>) {
    for call in calls {
        bench.deliver(&request("INVITE", URI, &format!("c{call}"))).expect("delivered");
    }
    bench.turn_after(MS);
}

/// A bench whose server takes nothing, with five calls waiting and the gate in overload.
fn overloaded() -> (Bench, Setup) {
    let setup = Setup { gate: hysteretic(2, 6, 50), queue_target: 1, ..Setup::default() };
    let mut bench = Bench::new(&setup);
    bench.server.set_waiting(1);
    bench.turn_after(MS);
    offer(&mut bench, 0..30);
    assert_eq!(state(&bench), GateState::Overload);
    (bench, setup)
}

#[test]
fn who_waits_and_the_state_of_the_gate_stay_and_the_new_levels_decide() {
    let (mut bench, setup) = overloaded();
    let (waiting, transitions) = (bench.lane.waiting.get(), bench.lane.gate_transitions.get());
    assert_eq!(waiting, 5);
    // Between its new levels the gate stays in overload.
    go_on(&mut bench, &Setup { gate: hysteretic(3, 100, 200), ..setup });
    assert_eq!((state(&bench), bench.lane.waiting.get()), (GateState::Overload, waiting));
    assert_eq!(bench.lane.gate_transitions.get(), transitions);
    // Below the new L at once: everything is admitted again.
    go_on(&mut bench, &Setup { gate: hysteretic(90, 100, 200), queue_target: 1, ..Setup::default() });
    assert_eq!((state(&bench), bench.lane.gate_transitions.get()), (GateState::Normal, transitions + 1));
    let refused = bench.lane.outcome_of(Class::Original, Outcome::Rejected);
    offer(&mut bench, 100..110);
    assert_eq!(bench.lane.outcome_of(Class::Original, Outcome::Rejected), refused);
    assert_eq!(bench.serve_all().len() as u64, waiting + 10, "nobody was lost");
    bench.assert_conserved();
}

#[test]
fn copies_are_known_after_a_change() {
    let (mut bench, setup) = overloaded();
    go_on(&mut bench, &Setup { reply: Reply { code: 480, ..setup.reply.clone() }, ..setup });
    bench.replies();
    // One that waits is absorbed, one that was refused is refused again, by the new code.
    offer(&mut bench, 0..1);
    assert!(bench.replies().is_empty());
    offer(&mut bench, 29..30);
    let replies = bench.replies();
    assert!(replies.len() == 1 && replies[0].starts_with("SIP/2.0 480"), "{replies:?}");
    bench.assert_conserved();
}

#[test]
fn a_service_is_watched_from_the_next_turn_on_and_guarded_again() {
    let (mut bench, setup) = overloaded();
    let waiting = bench.lane.waiting.get();
    let bits = || MonitorClasses(vec![Class::Original, Class::Copy]).monitored();
    let gate = setup.gate;
    go_on(&mut bench, &Setup { monitored: bits(), ..setup });
    let word = bench.gates.load(0);
    assert_eq!(word >> 48, u64::from(bits().bits()), "the XDP program lets them pass");
    assert_eq!(bench.lane.waiting.get(), waiting, "those that wait are not forgotten");
    go_on(&mut bench, &Setup { gate, queue_target: 1, ..Setup::default() });
    assert_eq!(bench.gates.load(0) >> 48, 0);
    assert_eq!(bench.serve_all().len() as u64, waiting);
    bench.assert_conserved();
}
