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

    #[test]
    fn a_bad_configuration_builds_no_gate() {
        let config = GateConfig::TailDrop { buffer: Threshold::Messages(9) };
        assert_eq!(AnyGate::new(&config, 5, 1.0).unwrap_err().problems.len(), 1);
    }
}
