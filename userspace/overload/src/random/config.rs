//! Settings of the random gate and everything that can be wrong with them.

use crate::config::Problem;
use crate::threshold::Threshold;

/// The random gate's settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RandomConfig {
    /// Tmin: while the average is below this, every original is admitted.
    pub low: Threshold,
    /// Tmax: while the average is above this, none is. Above `low`.
    pub high: Threshold,
    /// B: none is admitted either while this many are in the system, whatever the average. At least `high`.
    pub buffer: Threshold,
    /// w: the part of the average that one request renews, above 0 and up to 1. Published experience has .4 to .8
    /// stable; with far less the average lags behind the line, which then swings.
    pub weight: f64,
    /// P0: the probability with which an original is refused when the average is at `low`, 0 to 1. It grows to 1 at
    /// `high`.
    pub initial_probability: f64,
}

impl RandomConfig {
    /// All problems, for a line in which `capacity` messages can wait.
    #[must_use]
    pub fn check(&self, capacity: u32) -> Vec<Problem> {
        let (low, high, buffer) = (("low", self.low), ("high", self.high), ("buffer", self.buffer));
        let mut problems = Vec::new();
        problems.extend([low, high, buffer].into_iter().filter_map(Problem::zero));
        problems.extend(Problem::order(low, high, true));
        problems.extend(Problem::order(high, buffer, false));
        if !(self.weight > 0.0 && self.weight <= 1.0) {
            let range = "above 0 and at most 1";
            problems.push(Problem::Range { field: "weight", value: self.weight, range });
        }
        if !(0.0..=1.0).contains(&self.initial_probability) {
            problems
                .push(Problem::Probability { field: "initial_probability", value: self.initial_probability });
        }
        problems.extend(Problem::no_room([low, high, buffer], capacity));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::RandomConfig;
    use crate::config::Problem;
    use crate::threshold::Threshold;

    const VALID: RandomConfig = RandomConfig {
        low: Threshold::Messages(25),
        high: Threshold::Messages(80),
        buffer: Threshold::Messages(100),
        weight: 0.5,
        initial_probability: 0.16,
    };

    #[test]
    fn the_ends_of_every_range_are_allowed() {
        assert_eq!(VALID.check(100), []);
        assert_eq!(RandomConfig { high: Threshold::Messages(100), ..VALID }.check(100), []);
        for initial_probability in [0.0, 1.0] {
            assert_eq!(RandomConfig { weight: 1.0, initial_probability, ..VALID }.check(100), []);
        }
    }

    #[test]
    fn each_problem_is_reported_once_with_its_field() {
        let messages = Threshold::Messages;
        for (config, field) in [
            (RandomConfig { low: messages(0), ..VALID }, "low"),
            (RandomConfig { low: messages(80), ..VALID }, "low"),
            (RandomConfig { high: messages(101), buffer: messages(100), ..VALID }, "high"),
            (RandomConfig { buffer: messages(102), ..VALID }, "buffer"),
            (RandomConfig { weight: 0.0, ..VALID }, "weight"),
            (RandomConfig { weight: 1.01, ..VALID }, "weight"),
            (RandomConfig { weight: f64::NAN, ..VALID }, "weight"),
            (RandomConfig { initial_probability: -0.1, ..VALID }, "initial_probability"),
            (RandomConfig { initial_probability: f64::NAN, ..VALID }, "initial_probability"),
        ] {
            let fields: Vec<_> = config.check(101).iter().map(Problem::field).collect();
            assert_eq!(fields, [field], "{config:?}");
        }
        let time = RandomConfig { buffer: Threshold::Time(1), ..VALID };
        assert_eq!(time.check(2).last().map(Problem::field), Some("capacity"));
    }

    #[test]
    fn the_published_probability_of_1_6_is_named_as_what_it_is() {
        let problems = RandomConfig { initial_probability: 1.6, ..VALID }.check(100);
        assert_eq!(problems.len(), 1);
        let text = problems[0].to_string();
        assert!(text.starts_with("initial_probability = 1.6 is no probability"), "{text}");
        assert!(text.contains("between 0 and 1"), "{text}");
    }
}
