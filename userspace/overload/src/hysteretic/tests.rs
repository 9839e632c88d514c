use proptest::prelude::{any, prop_assert_eq, proptest};

use super::Hysteretic;
use crate::config::HystereticConfig;
use crate::gate::{Decision, Gate, GateState, GateWord, ShedReason};
use crate::levels::Levels;
use crate::threshold::Threshold;

/// The edges of the model's state diagram, written down one by one. Only single steps exist in it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Diagram {
    state: u8,
    n: u32,
}

impl Diagram {
    /// One offered arrival; returns whether it is accepted.
    fn arrival(&mut self, (_, high, buffer): (u32, u32, u32), inside_share: bool) -> bool {
        match (self.state, self.n) {
            (0, n) if n == high - 1 => *self = Self { state: 1, n: high },
            (0, n) => *self = Self { state: 0, n: n + 1 },
            (1, _) if !inside_share => return false,
            (1, n) if n == buffer - 1 => *self = Self { state: 2, n: buffer },
            (1, n) => *self = Self { state: 1, n: n + 1 },
            _ => return false,
        }
        true
    }

    fn departure(&mut self, (low, high, _): (u32, u32, u32)) {
        match (self.state, self.n) {
            (1, n) if n == low => *self = Self { state: 0, n: low - 1 },
            (2, n) if n == high + 1 => *self = Self { state: 1, n: high },
            (_, 0) => {}
            (state, n) => *self = Self { state, n: n - 1 },
        }
    }
}

fn gate(low: u32, high: u32, buffer: u32, share: f64) -> Hysteretic {
    Hysteretic::with_levels(Levels::new(low, high, buffer).unwrap(), share).unwrap()
}

#[test]
fn a_cycle_passes_through_every_state_at_the_exact_counts() {
    let mut gate = gate(2, 4, 6, 0.5);
    for n in 0..3 {
        assert_eq!(gate.arrive(0, u32::MAX, n), Decision::Admit);
        assert_eq!(gate.state(), GateState::Normal);
    }
    assert_eq!(gate.arrive(0, u32::MAX, 3), Decision::Admit);
    assert_eq!(gate.state(), GateState::Overload);
    assert_eq!(gate.arrive(0, 0x8000_0000, 4), Decision::Shed(ShedReason::ShareOutside));
    assert_eq!(gate.arrive(0, 0x7fff_ffff, 4), Decision::Admit);
    assert_eq!(gate.arrive(0, 0, 5), Decision::Admit);
    assert_eq!(gate.state(), GateState::Discard);
    assert_eq!(gate.arrive(0, 0, 6), Decision::Shed(ShedReason::GateDiscard));
    gate.depart(0, 5);
    assert_eq!(gate.state(), GateState::Discard);
    gate.depart(0, 4);
    assert_eq!(gate.state(), GateState::Overload);
    gate.depart(0, 2);
    assert_eq!(gate.state(), GateState::Overload);
    gate.depart(0, 1);
    assert_eq!(gate.state(), GateState::Normal);
    assert_eq!(gate.transitions(), 4);
}

#[test]
fn jumps_end_where_single_steps_would() {
    let mut gate = gate(2, 4, 6, 0.5);
    assert_eq!(gate.arrive(0, 0, 9), Decision::Shed(ShedReason::GateDiscard));
    assert_eq!((gate.state(), gate.transitions()), (GateState::Discard, 2));
    gate.depart(0, 0);
    assert_eq!((gate.state(), gate.transitions()), (GateState::Normal, 4));
    gate.depart(0, usize::MAX);
    assert_eq!(gate.state(), GateState::Discard);
    gate.depart(0, 3);
    assert_eq!(gate.state(), GateState::Overload);
}

#[test]
fn an_admission_that_could_not_be_queued_is_taken_back() {
    let mut gate = gate(2, 4, 6, 0.5);
    assert_eq!(gate.arrive(0, 0, 5), Decision::Admit);
    assert_eq!(gate.state(), GateState::Discard);
    gate.depart(0, 5);
    // Five is above H, so the gate stays shut until the line has really become shorter, as after any departure.
    assert_eq!(gate.state(), GateState::Discard);
    gate.depart(0, 4);
    assert_eq!(gate.state(), GateState::Overload);
}

#[test]
fn the_ends_of_the_share_admit_all_but_one_hash_and_none() {
    assert_eq!(GateWord::threshold_of(1.0), u32::MAX);
    assert_eq!(GateWord::threshold_of(0.0), 0);
    assert_eq!(GateWord::threshold_of(0.5), 0x8000_0000);
    let mut shut = gate(1, 2, 9, 0.0);
    shut.depart(0, 2);
    assert_eq!(shut.arrive(0, 0, 2), Decision::Shed(ShedReason::ShareOutside));
    let mut open = gate(1, 2, 9, 1.0);
    open.depart(0, 2);
    assert_eq!(open.arrive(0, u32::MAX - 1, 2), Decision::Admit);
    assert_eq!(open.arrive(0, u32::MAX, 2), Decision::Shed(ShedReason::ShareOutside));
}

#[test]
fn a_slower_server_closes_the_gate_at_a_shorter_line() {
    let config = HystereticConfig {
        admit_below: Threshold::Time(100_000_000),
        shed_at: Threshold::Time(200_000_000),
        discard_at: Threshold::Time(300_000_000),
        share: 0.5,
    };
    let mut gate = Hysteretic::new(&config, 1000, 1000.0).unwrap();
    assert_eq!(gate.levels().as_tuple(), (100, 200, 300));
    assert_eq!(gate.arrive(0, u32::MAX, 150), Decision::Admit);
    gate.set_service_rate(100.0);
    assert_eq!(gate.levels().as_tuple(), (10, 20, 30));
    assert_eq!(gate.arrive(0, 0, 151), Decision::Shed(ShedReason::GateDiscard));
    for ignored in [f64::NAN, -1.0] {
        gate.set_service_rate(ignored);
        assert_eq!(gate.levels().as_tuple(), (10, 20, 30));
    }
}

#[test]
fn the_hash_of_a_message_that_finds_the_gate_normal_does_not_matter() {
    for share in [0.0, 0.5, 1.0] {
        // 4 is H: the line grew unreported. 6 is B.
        for (in_system, decision) in [
            (0, Decision::Admit),
            (3, Decision::Admit),
            (4, Decision::Admit),
            (5, Decision::Admit),
            (6, Decision::Shed(ShedReason::GateDiscard)),
        ] {
            for hash in [0, 0x8000_0000, u32::MAX] {
                let mut gate = gate(2, 4, 6, share);
                assert_eq!(gate.arrive(0, hash, in_system), decision, "{in_system} {hash} {share}");
            }
        }
    }
}

#[test]
fn what_the_published_word_admits_the_gate_admits_in_the_same_state() {
    let mut gate = gate(2, 4, 60, 0.3);
    for n in [0, 3, 4, 10] {
        for hash in [0, 1 << 20, 1 << 30, 1 << 31, u32::MAX] {
            gate.depart(0, n);
            let word = gate.word();
            assert_eq!(gate.arrive(0, hash, n), word.decide(hash), "n {n} hash {hash}");
        }
    }
}

proptest! {
    #[test]
    fn the_gate_walks_the_state_diagram(
        low in 1_u32..6, gap in 0_u32..5, room in 1_u32..6,
        share in 0.0..1.0_f64,
        steps in proptest::collection::vec((any::<bool>(), any::<u32>()), 1..400),
    ) {
        let levels = (low, low + gap, low + gap + room);
        let mut gate = gate(levels.0, levels.1, levels.2, share);
        let mut diagram = Diagram { state: 0, n: 0 };
        let mut changes = 0;
        for (arrival, hash) in steps {
            let before = diagram;
            if arrival {
                let inside = f64::from(hash) < share * 4_294_967_296.0 && hash < GateWord::threshold_of(share);
                let accepted = diagram.arrival(levels, inside);
                let decision = gate.arrive(0, hash, before.n as usize);
                prop_assert_eq!(decision == Decision::Admit, accepted);
            } else {
                diagram.departure(levels);
                gate.depart(0, diagram.n as usize);
            }
            changes += u64::from(before.state != diagram.state);
            prop_assert_eq!(gate.state() as u8, diagram.state);
            prop_assert_eq!(gate.transitions(), changes);
        }
    }
}
