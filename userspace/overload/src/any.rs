//! One of the gates, chosen by configuration and dispatched without a virtual call.

use crate::Nanos;
use crate::baseline::{Fifo, TailDrop};
use crate::config::{ConfigError, GateConfig};
use crate::gate::{Decision, Discipline, Gate, GateState, GateWord};
use crate::hysteretic::Hysteretic;
use crate::random::Random;

/// Any gate that can be configured.
#[derive(Debug, Clone)]
pub enum AnyGate {
    /// Hysteretic shedding.
    Hysteretic(Hysteretic),
    /// Random two-threshold control.
    Random(Random),
    /// Priority classes and a bounded buffer.
    TailDrop(TailDrop),
    /// One bounded queue.
    Fifo(Fifo),
}

impl AnyGate {
    /// The configured gate for a line in which `capacity` messages can wait, at a first guess of the service rate.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration.
    pub fn new(config: &GateConfig, capacity: u32, rate_per_s: f64) -> Result<Self, ConfigError> {
        match config {
            GateConfig::Hysteretic(config) => {
                Hysteretic::new(config, capacity, rate_per_s).map(Self::Hysteretic)
            }
            GateConfig::Random(config) => Random::new(config, capacity, rate_per_s).map(Self::Random),
            GateConfig::TailDrop { buffer } => {
                TailDrop::new(*buffer, capacity, rate_per_s).map(Self::TailDrop)
            }
            GateConfig::Fifo { buffer } => Fifo::new(*buffer, capacity, rate_per_s).map(Self::Fifo),
        }
    }
}

impl AnyGate {
    /// Goes on where `old` ends, with the levels and the share of its own: the state stays, as far as this kind of gate has
    /// it, and so does the count of transitions. The next arrival or departure settles it by the new levels.
    pub fn succeed(&mut self, old: &Self, in_system: usize) {
        let (state, transitions) = (old.state(), old.transitions());
        match (self, old) {
            (Self::Random(gate), Self::Random(old)) => gate.continue_from(old),
            (Self::Random(gate), _) => gate.succeed(old.word(), transitions, in_system),
            (Self::Hysteretic(gate), _) => gate.succeed(state, transitions),
            (Self::TailDrop(gate), _) => gate.succeed(state, transitions),
            (Self::Fifo(gate), _) => gate.succeed(state, transitions),
        }
    }
}

macro_rules! each {
    ($any:expr, $gate:ident => $call:expr) => {
        match $any {
            AnyGate::Hysteretic($gate) => $call,
            AnyGate::Random($gate) => $call,
            AnyGate::TailDrop($gate) => $call,
            AnyGate::Fifo($gate) => $call,
        }
    };
}

impl Gate for AnyGate {
    fn arrive(&mut self, now: Nanos, share_hash: u32, in_system: usize) -> Decision {
        each!(self, gate => gate.arrive(now, share_hash, in_system))
    }

    fn looks_at_hash(&self) -> bool {
        each!(self, gate => gate.looks_at_hash())
    }

    fn published(&mut self, word: GateWord) {
        each!(self, gate => gate.published(word));
    }

    fn depart(&mut self, now: Nanos, in_system: usize) {
        each!(self, gate => gate.depart(now, in_system));
    }

    fn set_service_rate(&mut self, rate_per_s: f64) {
        each!(self, gate => gate.set_service_rate(rate_per_s));
    }

    fn state(&self) -> GateState {
        each!(self, gate => gate.state())
    }

    fn word(&self) -> GateWord {
        each!(self, gate => gate.word())
    }

    fn transitions(&self) -> u64 {
        each!(self, gate => gate.transitions())
    }

    fn discipline(&self) -> Discipline {
        each!(self, gate => gate.discipline())
    }
}

#[cfg(test)]
mod tests {
    use super::AnyGate;
    use crate::config::{GateConfig, HystereticConfig};
    use crate::gate::{Decision, Gate, GateState};
    use crate::random::RandomConfig;
    use crate::threshold::Threshold;

    #[test]
    fn each_configuration_builds_its_gate_and_answers_through_it() {
        let buffer = Threshold::Messages(5);
        let hysteretic = GateConfig::Hysteretic(HystereticConfig {
            admit_below: Threshold::Messages(2),
            shed_at: Threshold::Messages(3),
            discard_at: buffer,
            share: 0.0,
        });
        let random = GateConfig::Random(RandomConfig {
            low: Threshold::Messages(2),
            high: Threshold::Messages(4),
            buffer,
            weight: 1.0,
            initial_probability: 0.0,
        });
        for (config, looks_at_hash, refused_from) in [
            (hysteretic, false, 3),
            (random, true, 4),
            (GateConfig::TailDrop { buffer }, false, 5),
            (GateConfig::Fifo { buffer }, false, 5),
        ] {
            let mut gate = AnyGate::new(&config, 5, 1.0).unwrap();
            assert_eq!(gate.looks_at_hash(), looks_at_hash);
            let admitted = (0..9).take_while(|&n| gate.arrive(0, 0, n) == Decision::Admit).count();
            assert_eq!(admitted, refused_from, "{}", config.name());
            assert_eq!(gate.discipline(), config.discipline());
            // A random gate only learns from requests.
            let _decision = gate.arrive(0, 0, 0);
            gate.depart(0, 0);
            assert_eq!(gate.state(), GateState::Normal);
        }
    }

    fn hysteretic(levels: [u32; 3], share: f64) -> AnyGate {
        let [admit_below, shed_at, discard_at] = levels.map(Threshold::Messages);
        let config = HystereticConfig { admit_below, shed_at, discard_at, share };
        AnyGate::new(&GateConfig::Hysteretic(config), 100, 1.0).unwrap()
    }

    fn random() -> AnyGate {
        let [low, high, buffer] = [10, 20, 30].map(Threshold::Messages);
        let config = RandomConfig { low, high, buffer, weight: 0.5, initial_probability: 0.1 };
        AnyGate::new(&GateConfig::Random(config), 100, 1.0).unwrap()
    }

    #[test]
    fn a_gate_goes_on_in_the_state_of_the_one_before_and_by_its_own_levels() {
        let mut old = hysteretic([2, 5, 9], 0.0);
        // What finds the gate normal is judged so, and turns it.
        assert_eq!((old.arrive(0, 0, 5), old.state()), (Decision::Admit, GateState::Overload));
        let mut new = hysteretic([6, 20, 30], 0.5);
        new.succeed(&old, 7);
        assert_eq!((new.state(), new.transitions()), (GateState::Overload, 1));
        // Between the new levels the state stays, and the new share holds.
        assert_eq!(new.arrive(0, 0, 7), Decision::Admit);
        new.depart(0, 5);
        assert_eq!((new.state(), new.transitions()), (GateState::Normal, 2));
    }

    #[test]
    fn a_random_gate_goes_on_with_its_average_and_begins_with_what_is_in_the_system() {
        let mut old = random();
        for _ in 0..20 {
            let _decision = old.arrive(0, 0, 15);
        }
        let mut new = random();
        new.succeed(&old, 0);
        assert_eq!((new.word(), new.state()), (old.word(), GateState::Overload));
        let mut from_another = random();
        from_another.succeed(&hysteretic([2, 5, 9], 0.0), 25);
        let _decision = from_another.arrive(0, 0, 25);
        assert_eq!(from_another.state(), GateState::Discard, "a line of 25 is its average");
    }

    #[test]
    fn the_count_of_transitions_never_falls() {
        let mut gate = hysteretic([2, 5, 9], 0.0);
        let _decision = gate.arrive(0, 0, 5);
        let before = gate.transitions();
        let mut baseline =
            AnyGate::new(&GateConfig::TailDrop { buffer: Threshold::Messages(5) }, 5, 1.0).unwrap();
        baseline.succeed(&gate, 5);
        assert_eq!((baseline.state(), baseline.transitions()), (GateState::Normal, before + 1));
        let mut again = hysteretic([2, 5, 9], 0.0);
        again.succeed(&baseline, 0);
        assert_eq!(again.transitions(), before + 1);
    }

    #[test]
    fn a_bad_configuration_builds_no_gate() {
        let config = GateConfig::TailDrop { buffer: Threshold::Messages(9) };
        assert_eq!(AnyGate::new(&config, 5, 1.0).unwrap_err().problems.len(), 1);
    }
}
