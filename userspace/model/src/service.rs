//! Laws of the service time, and how many Poisson arrivals fall into one service.
//!
//! # Symbols
//!
//! | symbol | meaning |
//! |---|---|
//! | S | service time; all here is in units of its mean |
//! | cv² | squared coefficient of variation, Var S/E\[S\]² |
//! | r | arrival rate times mean service time |
//! | A | number of arrivals in one service |
//!
//! # Solution
//!
//! - deterministic: A is Poisson
//! - exponential: P(A=i) = (1/(1+r)) (r/(1+r))^i
//! - gamma with shape κ = 1/cv²: A is negative binomial, P(A=i+1)/P(A=i) = (κ+i)/(i+1) · r/(κ+r), P(A=0) = (κ/(κ+r))^κ
//! - hyperexponential with balanced means: with p = (1 + √((cv²−1)/(cv²+1)))/2 exponential of rate 2p, otherwise of rate
//!   2(1−p): a mixture of two geometric laws
//!
//! The time in a service during which just i have arrived is P(A>i)/r on average, since the next arrival ends it with
//! rate r unless the service does.

use std::fmt;
use std::str::FromStr;

use crate::parameter::ParameterError;

mod transform;

pub(crate) use transform::add_terms;

/// The law of the service time; its mean is 1/μ, given elsewhere.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ServiceLaw {
    /// No memory.
    Exponential,
    /// Always the same.
    Deterministic,
    /// Gamma law with this squared coefficient of variation (1/k: Erlang of k phases).
    Gamma(f64),
    /// Two exponential phases of balanced means with this squared coefficient of variation, at least 1.
    Hyperexponential(f64),
}

/// Gamma laws of less variation have more than a million phases: deterministic to seven digits.
const CV2_MIN: f64 = 1e-6;
/// Beyond this the rare long service is longer than any call.
const CV2_MAX: f64 = 1e4;
/// Probabilities below this are left out when they fall from there on. Far below what a table of counts sums to, since
/// rare states are reached by rare counts.
const NEGLIGIBLE: f64 = 1e-290;
/// The first terms are kept however small they are: at a load near 0 they are all there is.
const TERMS_MIN: usize = 16;

impl ServiceLaw {
    /// Checks cv².
    ///
    /// # Errors
    /// When it is outside its range.
    pub fn check(self) -> Result<Self, ParameterError> {
        let (cv2, range) = match self {
            Self::Exponential | Self::Deterministic => return Ok(self),
            Self::Gamma(cv2) => (cv2, CV2_MIN..=CV2_MAX),
            Self::Hyperexponential(cv2) => (cv2, 1.0..=CV2_MAX),
        };
        if range.contains(&cv2) {
            return Ok(self);
        }
        let range = format!("given with a CV2 between {} and {}", range.start(), range.end());
        Err(ParameterError::new("service", self, range))
    }

    /// The law of A at load r, up to `terms_max` arrivals.
    pub(crate) fn arrivals(self, load: f64, terms_max: usize) -> ArrivalCounts {
        let chain = |first: f64, ratio: &dyn Fn(f64) -> f64| chain(first, ratio, terms_max);
        let probabilities = match self {
            Self::Deterministic => chain((-load).exp(), &|i| load / (i + 1.0)),
            Self::Exponential => chain(1.0 / (1.0 + load), &|_| load / (1.0 + load)),
            Self::Gamma(cv2) => {
                let shape = 1.0 / cv2;
                let none = (-shape * (load * cv2).ln_1p()).exp();
                chain(none, &|i| (shape + i) / (i + 1.0) * (load / (shape + load)))
            }
            Self::Hyperexponential(cv2) => {
                let short = balanced(cv2);
                let phase = |chance: f64| {
                    let load = load / (2.0 * chance);
                    chain(chance / (1.0 + load), &|_| load / (1.0 + load))
                };
                let (mut sum, other) = (phase(1.0 - short), phase(short));
                sum.resize(sum.len().max(other.len()), 0.0);
                sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
                sum
            }
        };
        ArrivalCounts::new(probabilities, load)
    }
}

/// The chance of the shorter of two phases with balanced means.
fn balanced(cv2: f64) -> f64 {
    f64::midpoint(1.0, ((cv2 - 1.0) / (cv2 + 1.0)).sqrt())
}

/// Probabilities from the first and the ratio of each to the one before.
fn chain(first: f64, ratio: &dyn Fn(f64) -> f64, terms_max: usize) -> Vec<f64> {
    let mut probabilities = vec![first];
    let mut last = first;
    loop {
        let i = probabilities.len() - 1;
        let ratio = ratio(i as f64);
        let next = last * ratio;
        let negligible = i >= TERMS_MIN && ratio < 1.0 && next < NEGLIGIBLE;
        if negligible || i >= terms_max {
            return probabilities;
        }
        probabilities.push(next);
        last = next;
    }
}

/// How many arrive in one service.
#[derive(Debug)]
pub(crate) struct ArrivalCounts {
    /// P(A=i).
    pub(crate) probability: Vec<f64>,
    /// P(A>i), summed from the far end so that nothing cancels.
    pub(crate) beyond: Vec<f64>,
    /// The mean time in a service during which just i have arrived.
    pub(crate) time: Vec<f64>,
    /// The mean time in a service during which at least i have arrived.
    pub(crate) time_from: Vec<f64>,
}

impl ArrivalCounts {
    fn new(probability: Vec<f64>, load: f64) -> Self {
        let tails = |terms: &[f64]| {
            let mut sum = 0.0;
            let mut tails: Vec<f64> = terms
                .iter()
                .rev()
                .map(|term| {
                    sum += term;
                    sum
                })
                .collect();
            tails.reverse();
            tails
        };
        let mut beyond = tails(&probability);
        beyond.remove(0);
        beyond.push(0.0);
        // Nobody comes: the whole service is spent with none.
        let time = if load > 0.0 { beyond.iter().map(|beyond| beyond / load).collect() } else { vec![1.0] };
        let time_from = tails(&time);
        Self { probability, beyond, time, time_from }
    }

    /// The number of counts that are kept.
    pub(crate) fn len(&self) -> usize {
        self.probability.len()
    }

    /// The last of the probabilities that are kept.
    pub(crate) fn last(&self) -> f64 {
        at(&self.probability, self.len() - 1)
    }
}

/// The i-th of a list that goes on with zeros.
pub(crate) fn at(list: &[f64], i: usize) -> f64 {
    list.get(i).copied().unwrap_or(0.0)
}

impl fmt::Display for ServiceLaw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exponential => formatter.write_str("exponential"),
            Self::Deterministic => formatter.write_str("deterministic"),
            Self::Gamma(cv2) => write!(formatter, "gamma:{cv2}"),
            Self::Hyperexponential(cv2) => write!(formatter, "hyperexponential:{cv2}"),
        }
    }
}

impl FromStr for ServiceLaw {
    type Err = ParameterError;

    /// `exponential`, `deterministic`, `gamma:CV2`, `hyperexponential:CV2`.
    fn from_str(text: &str) -> Result<Self, ParameterError> {
        let unknown = || {
            let range = "exponential, deterministic, gamma:CV2 or hyperexponential:CV2";
            ParameterError::new("service", text, range)
        };
        let (name, cv2) = match text.split_once(':') {
            None => (text, None),
            Some((name, cv2)) => (name, Some(cv2.parse().map_err(|_not_a_number| unknown())?)),
        };
        match (name, cv2) {
            ("exponential", None) => Self::Exponential,
            ("deterministic", None) => Self::Deterministic,
            ("gamma", Some(cv2)) => Self::Gamma(cv2),
            ("hyperexponential", Some(cv2)) => Self::Hyperexponential(cv2),
            _ => return Err(unknown()),
        }
        .check()
    }
}

#[cfg(test)]
mod tests {
    use super::ServiceLaw;

    const LAWS: [ServiceLaw; 6] = [
        ServiceLaw::Exponential,
        ServiceLaw::Deterministic,
        ServiceLaw::Gamma(0.25),
        ServiceLaw::Gamma(4.0),
        ServiceLaw::Hyperexponential(1.0),
        ServiceLaw::Hyperexponential(9.0),
    ];

    #[test]
    fn counts_have_the_mean_and_the_variance_of_a_poisson_stream_over_the_law() {
        for law in LAWS {
            for load in [0.01, 0.9, 3.0, 100.0] {
                let counts = law.arrivals(load, 100_000);
                let moment = |power: i32| -> f64 {
                    (0..).zip(&counts.probability).map(|(i, p)| f64::from(i).powi(power) * p).sum()
                };
                let (mean, variance) = (load, load + load * load * law.cv2());
                assert!((moment(0) - 1.0).abs() < 1e-12, "{law} {load}");
                assert!((moment(1) / mean - 1.0).abs() < 1e-9, "{law} {load}");
                assert!(((moment(2) - mean * mean) / variance - 1.0).abs() < 1e-9, "{law} {load}");
            }
        }
    }

    #[test]
    fn the_times_of_all_counts_are_one_service() {
        for law in LAWS {
            for load in [0.0, 1e-12, 0.5, 100.0] {
                let counts = law.arrivals(load, 100_000);
                assert!((counts.time_from[0] - 1.0).abs() < 1e-9, "{law} {load} {}", counts.time_from[0]);
                assert!((counts.probability[0] + counts.beyond[0] - 1.0).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn a_law_is_read_as_it_is_written() {
        for law in LAWS {
            assert_eq!(law.to_string().parse(), Ok(law));
        }
        for wrong in ["", "normal", "gamma", "gamma:", "gamma:0", "gamma:x", "gamma:NaN", "exponential:1"] {
            let error = wrong.parse::<ServiceLaw>().unwrap_err();
            assert_eq!(error.name, "service", "{wrong}");
        }
        let error = "hyperexponential:0.5".parse::<ServiceLaw>().unwrap_err().to_string();
        assert_eq!(error, "service hyperexponential:0.5 must be given with a CV2 between 1 and 10000");
    }
}
