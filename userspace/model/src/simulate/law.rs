//! How amounts of work spread: times between arrivals, or service times, both with mean 1 (the rate gives the scale).

use rand_distr::{Distribution, Exp1, Gamma};
use rand_pcg::Pcg64;

/// The law of an amount with mean 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Law {
    /// Exponential: the Poisson process, or M service.
    Exponential,
    /// Always 1: a regular stream, or D service.
    Deterministic,
    /// Gamma with this squared coefficient of variation.
    Gamma {
        /// Variance, as the mean is 1; above 0.
        cv2: f64,
    },
}

/// As in `service.rs`: below it is deterministic to seven digits, beyond it one long service is longer than any call.
const CV2_MIN: f64 = 1e-6;
const CV2_MAX: f64 = 1e4;

impl Law {
    /// What is wrong with it, in words that end a sentence about its key.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::Gamma { cv2 } if !(CV2_MIN..=CV2_MAX).contains(cv2) => Some(format!(
                "is {cv2}; the squared coefficient of variation of a gamma law is a number above 0 (between {CV2_MIN:e} and \
                 {CV2_MAX:e})"
            )),
            _ => None,
        }
    }
}

/// Draws amounts from a stream of its own.
#[derive(Debug, Clone)]
pub(super) struct Amounts {
    law: Drawn,
    random: Pcg64,
}

#[derive(Debug, Clone, Copy)]
enum Drawn {
    Exponential,
    Deterministic,
    Gamma(Gamma<f64>),
}

impl Amounts {
    /// The law is taken as checked.
    pub(super) fn new(law: Law, random: Pcg64) -> Self {
        let law = match law {
            Law::Exponential => Drawn::Exponential,
            Law::Deterministic => Drawn::Deterministic,
            // Shape 1/c² and scale c² have mean 1 and variance c²; the check has left nothing that is refused.
            Law::Gamma { cv2 } => Gamma::new(1.0 / cv2, cv2).map_or(Drawn::Deterministic, Drawn::Gamma),
        };
        Self { law, random }
    }

    pub(super) fn draw(&mut self) -> f64 {
        match self.law {
            Drawn::Exponential => Exp1.sample(&mut self.random),
            Drawn::Deterministic => 1.0,
            Drawn::Gamma(gamma) => gamma.sample(&mut self.random),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Amounts, Law};
    use crate::simulate::stream::{Owner, Purpose, stream};

    #[test]
    fn every_law_has_mean_1_and_its_variance() {
        let laws = [
            (Law::Exponential, 1.0),
            (Law::Deterministic, 0.0),
            (Law::Gamma { cv2: 0.25 }, 0.25),
            (Law::Gamma { cv2: 4.0 }, 4.0),
        ];
        for (law, variance) in laws {
            let count = 200_000;
            let mut amounts = Amounts::new(law, stream(3, Owner::Node(0), Purpose::Work));
            let drawn: Vec<f64> = (0..count).map(|_| amounts.draw()).collect();
            let mean = drawn.iter().sum::<f64>() / f64::from(count);
            let found = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(count);
            assert!((mean - 1.0).abs() < 0.02, "{law:?}: {mean}");
            assert!((found - variance).abs() <= 0.05 * variance, "{law:?}: {found}");
        }
    }

    #[test]
    fn a_gamma_law_needs_a_variance() {
        for cv2 in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 1e300] {
            assert!(Law::Gamma { cv2 }.problem().unwrap().contains("above 0"));
        }
        assert_eq!(Law::Gamma { cv2: 2.0 }.problem(), None);
    }
}
