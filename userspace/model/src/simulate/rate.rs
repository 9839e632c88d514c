//! Rates that change with time, for arrivals and for service alike.
//!
//! A process that runs at a changing rate r(t) takes a time d for an amount of work w with ∫ r = w over that time.
//! With exponential amounts of mean 1 this is the Poisson process of rate r(t), or an exponential server of that speed:
//! what is in service when the speed changes goes on at the new one. With constant amounts it is a regular stream, or a
//! deterministic server.
//!
//! | rate | example in a plan | |
//! |---|---|---|
//! | constant | `200` | |
//! | steps | `"steps 0:100, 30:1000"` | from second 30 on 1000/s |
//! | modulated | `"mmpp 1300:1, 500:1"` | rate and mean sojourn of each phase in seconds, one after the other |
//!
//! A modulated rate goes through its phases in turn and stays in each for an exponential time; with exponential work this
//! is an MMPP of K phases (Fischer, Meier-Hellstern, Performance Evaluation 18, 1993). It starts in the first phase.

use std::str::FromStr;

use overload::Nanos;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64;

use super::NANOS_PER_S;

/// Time is in nanoseconds: what is faster than one each cannot be told apart.
const RATE_MAX: f64 = 1e9;
/// Once in thirty years.
const RATE_MIN: f64 = 1e-9;
const SOJOURN_MIN_S: f64 = 1e-9;
const SOJOURN_MAX_S: f64 = 1e9;

/// One phase of a modulated rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phase {
    /// The rate in this phase, per second.
    pub rate_per_s: f64,
    /// The mean time in it, seconds.
    pub sojourn_s: f64,
}

/// A rate as a function of time.
#[derive(Debug, Clone, PartialEq)]
pub enum Rate {
    /// Always the same, per second.
    Constant(f64),
    /// From each time (seconds, ascending, the first 0) the rate beside it, per second.
    Steps(Vec<(f64, f64)>),
    /// Phases of exponential length, in turn.
    Modulated(Vec<Phase>),
}

impl Rate {
    /// The rate at a time, in seconds, if it does not depend on chance.
    #[must_use]
    pub fn at(&self, time_s: f64) -> Option<f64> {
        match self {
            Self::Constant(rate) => Some(*rate),
            Self::Steps(steps) => steps.iter().rev().find(|step| step.0 <= time_s).map(|step| step.1),
            Self::Modulated(_) => None,
        }
    }

    /// What is wrong with it, in words that end a sentence about its key.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let no_rate = |rate: &f64| *rate != 0.0 && !(RATE_MIN..=RATE_MAX).contains(rate);
        let range = |rate: f64| {
            format!("is {rate} per second; a rate is 0 or a number above 0 (between 1e-9 and 1e9)")
        };
        match self {
            Self::Constant(rate) => no_rate(rate).then(|| range(*rate)),
            Self::Steps(steps) => {
                let first_wrong = steps.iter().map(|step| step.1).find(no_rate);
                let ascend = steps.windows(2).all(|pair| pair[0].0 < pair[1].0);
                if steps.first().is_none_or(|first| first.0 != 0.0) || !ascend {
                    Some("has steps whose times (seconds) do not start at 0 and rise".to_owned())
                } else {
                    first_wrong.map(range)
                }
            }
            Self::Modulated(phases) => {
                let first_wrong = phases.iter().map(|phase| phase.rate_per_s).find(no_rate);
                let sojourn = phases.iter().map(|phase| phase.sojourn_s);
                let mut sojourn = sojourn.filter(|time| !(SOJOURN_MIN_S..=SOJOURN_MAX_S).contains(time));
                match (phases.len(), sojourn.next()) {
                    (0, _) => Some("has no phases; it needs at least one".to_owned()),
                    (_, Some(time)) => Some(format!(
                        "has a phase of {time} seconds; a mean sojourn is a number above 0 (between 1e-9 and 1e9)"
                    )),
                    (_, None) => first_wrong.map(range),
                }
            }
        }
    }

    /// The rate at the start, or on average where it varies at random: the first guess of what will be measured.
    #[must_use]
    pub fn guess_per_s(&self) -> f64 {
        match self {
            Self::Constant(rate) => *rate,
            Self::Steps(steps) => steps.first().map_or(0.0, |step| step.1),
            Self::Modulated(phases) => {
                let time: f64 = phases.iter().map(|phase| phase.sojourn_s).sum();
                phases.iter().map(|phase| phase.rate_per_s * phase.sojourn_s).sum::<f64>() / time
            }
        }
    }
}

/// A rate that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no rate: write a number (200), \"steps 0:100, 30:1000\" (second:rate) or \"mmpp 1300:1, 500:1\" \
     (rate:mean sojourn in seconds)"
)]
pub struct ParseRateError {
    text: String,
}

impl FromStr for Rate {
    type Err = ParseRateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseRateError { text: text.to_owned() };
        let number = |part: &str| part.trim().parse::<f64>().ok();
        let pairs = |list: &str| {
            let pair = |part: &str| part.split_once(':').and_then(|(a, b)| Some((number(a)?, number(b)?)));
            list.split(',').map(pair).collect::<Option<Vec<_>>>().ok_or_else(wrong)
        };
        match text.trim().split_once(char::is_whitespace) {
            Some(("steps", list)) => pairs(list).map(Self::Steps),
            Some(("mmpp", list)) => {
                let phase = |(rate_per_s, sojourn_s)| Phase { rate_per_s, sojourn_s };
                Ok(Self::Modulated(pairs(list)?.into_iter().map(phase).collect()))
            }
            _ => number(text).map(Self::Constant).ok_or_else(wrong),
        }
    }
}

/// A rate on its way through time. Questions must come in the order of time.
#[derive(Debug, Clone)]
pub(super) struct RateClock {
    rate: Rate,
    random: Pcg64,
    /// The segment of steps or phases that holds until `until`.
    segment: usize,
    until: Nanos,
    per_ns: f64,
    /// Nobody asks for what is later.
    end: Nanos,
}

impl RateClock {
    /// At time 0, for work that ends before `end`. The rate is taken as checked.
    pub(super) fn new(rate: &Rate, random: Pcg64, end: Nanos) -> Self {
        let mut clock = Self { rate: rate.clone(), random, segment: 0, until: 0, per_ns: 0.0, end };
        clock.enter(0);
        clock
    }

    fn enter(&mut self, segment: usize) {
        let begin = self.until;
        let (rate_per_s, until) = match &self.rate {
            Rate::Constant(rate) => (*rate, Nanos::MAX),
            Rate::Steps(steps) => {
                let until = steps.get(segment + 1).map_or(Nanos::MAX, |next| (next.0 * NANOS_PER_S) as Nanos);
                (steps[segment].1, until)
            }
            Rate::Modulated(phases) => {
                let stay: f64 = Exp1.sample(&mut self.random);
                let stay_ns = (stay * phases[segment].sojourn_s * NANOS_PER_S) as Nanos;
                (phases[segment].rate_per_s, begin.saturating_add(stay_ns))
            }
        };
        (self.segment, self.until, self.per_ns) = (segment, until, rate_per_s / NANOS_PER_S);
    }

    fn advance(&mut self) {
        let next = match &self.rate {
            Rate::Modulated(phases) => (self.segment + 1) % phases.len(),
            Rate::Constant(_) | Rate::Steps(_) => self.segment + 1,
        };
        self.enter(next);
    }

    /// When an amount of work that begins now is done; never if that is not before the end.
    pub(super) fn done(&mut self, now: Nanos, mut work: f64) -> Nanos {
        let mut from = now;
        loop {
            if from >= self.end {
                return Nanos::MAX;
            }
            while self.until <= from {
                self.advance();
            }
            let needed_ns = work / self.per_ns;
            if self.until == Nanos::MAX || needed_ns <= (self.until - from) as f64 {
                // A cast of what is too large, or of x/0, saturates; 0/0 becomes 0.
                return from.saturating_add(needed_ns.round() as Nanos);
            }
            work -= (self.until - from) as f64 * self.per_ns;
            from = self.until;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Phase, Rate, RateClock};
    use crate::simulate::stream::{Owner, Purpose, stream};

    const S: u64 = 1_000_000_000;

    fn clock(rate: &Rate) -> RateClock {
        RateClock::new(rate, stream(1, Owner::Node(0), Purpose::Phases), u64::MAX)
    }

    #[test]
    fn work_goes_on_at_the_new_rate_when_the_rate_changes() {
        let rate = "steps 0:2, 1:0, 3:4".parse().unwrap();
        // 2 units until second 1, none until second 3, then 4 a second.
        assert_eq!(clock(&rate).done(0, 1.0), S / 2);
        assert_eq!(clock(&rate).done(0, 4.0), 3 * S + S / 2);
        assert_eq!(clock(&rate).done(2 * S, 1.0), 3 * S + S / 4);
    }

    #[test]
    fn at_rate_zero_work_is_never_done() {
        assert_eq!(clock(&Rate::Constant(0.0)).done(5, 1.0), u64::MAX);
        assert_eq!(clock(&"steps 0:1, 1:0".parse().unwrap()).done(0, 1.5), u64::MAX);
    }

    #[test]
    fn phases_without_a_rate_are_followed_to_the_end_only() {
        let rate = "mmpp 0:0.001, 0:0.001".parse().unwrap();
        let mut clock = RateClock::new(&rate, stream(1, Owner::Node(0), Purpose::Phases), 10 * S);
        assert_eq!((clock.done(0, 1.0), clock.done(11 * S, 1.0)), (u64::MAX, u64::MAX));
    }

    #[test]
    fn phases_of_one_rate_are_a_constant_rate() {
        let phases = vec![Phase { rate_per_s: 8.0, sojourn_s: 0.1 }; 3];
        let mut modulated = clock(&Rate::Modulated(phases));
        let mut now = 0;
        for _ in 0..1000 {
            let done = modulated.done(now, 1.0);
            assert!(done.abs_diff(now + S / 8) <= 2, "{now} {done}");
            now = done;
        }
    }

    #[test]
    fn phases_have_their_share_of_time() {
        let phases =
            [(100.0, 1.0), (0.0, 3.0)].map(|(rate_per_s, sojourn_s)| Phase { rate_per_s, sojourn_s });
        let rate = Rate::Modulated(phases.to_vec());
        assert!((rate.guess_per_s() - 25.0).abs() < 1e-12);
        let mut clock = clock(&rate);
        let end = (0..250_000).fold(0, |now, _| clock.done(now, 1.0));
        // 10,000 s in cycles of 4 s: the standard error is about 2 %.
        assert!((end as f64 / S as f64 - 10_000.0).abs() < 800.0, "{end}");
    }

    #[test]
    fn rates_are_read_from_text_and_checked() {
        assert_eq!(" 200 ".parse(), Ok(Rate::Constant(200.0)));
        assert_eq!("steps 0:100, 30 : 1000".parse(), Ok(Rate::Steps(vec![(0.0, 100.0), (30.0, 1000.0)])));
        let phases =
            [(1300.0, 1.0), (500.0, 2.0)].map(|(rate_per_s, sojourn_s)| Phase { rate_per_s, sojourn_s });
        assert_eq!("mmpp 1300:1,500:2".parse(), Ok(Rate::Modulated(phases.to_vec())));
        for text in ["", "fast", "steps", "steps 0", "mmpp 1:x", "mmpp 1:1,", "1 2"] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?} is no rate")), "{error}");
        }
        for (text, part) in [
            ("-1", "0 or a number above 0 (between 1e-9 and 1e9)"),
            ("inf", "between 1e-9 and 1e9"),
            ("NaN", "between 1e-9 and 1e9"),
            ("1e300", "between 1e-9 and 1e9"),
            ("1e-300", "between 1e-9 and 1e9"),
            ("mmpp 5:1e-300", "between 1e-9 and 1e9"),
            ("mmpp 5:1e300", "between 1e-9 and 1e9"),
            ("steps 1:5", "start at 0"),
            ("steps 0:5, 0:6", "rise"),
            ("steps 0:-5", "between 1e-9 and 1e9"),
            ("mmpp 5:0", "above 0"),
            ("mmpp -5:1", "between 1e-9 and 1e9"),
        ] {
            let problem = text.parse::<Rate>().unwrap().problem().unwrap();
            assert!(problem.contains(part), "{text}: {problem}");
        }
        assert_eq!("mmpp 0:1".parse::<Rate>().unwrap().problem(), None);
    }
}
