//! Which gate, with which numbers, and everything that can be wrong with them.
//!
//! Plain structs: reading them from a file is the binary's business. A check returns *all* problems at once, each
//! with the name of its field, so that the operator edits the file once.

use crate::gate::Discipline;
use crate::levels::Levels;
use crate::random::RandomConfig;
use crate::threshold::Threshold;

/// The hysteretic gate's settings. Named by effect; the symbols are those of the model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HystereticConfig {
    /// L: from overload back to normal when fewer than this are in the system.
    pub admit_below: Threshold,
    /// H: from normal to overload when this many are in the system, and from discard back to overload.
    pub shed_at: Threshold,
    /// B: from overload to discard when this many are in the system.
    pub discard_at: Threshold,
    /// q: the share of originals admitted in overload, 0 to 1. Choose it so that q times the highest offered load
    /// is below 1; otherwise overload, once begun, does not end before the load falls.
    pub share: f64,
}

impl Default for HystereticConfig {
    /// 280/320/380 ms and one half: an admitted original is served before T1 = 500 ms (RFC 3261 section 17.1.1.1)
    /// with room to spare, so callers do not send copies of it.
    fn default() -> Self {
        Self {
            admit_below: Threshold::Time(280_000_000),
            shed_at: Threshold::Time(320_000_000),
            discard_at: Threshold::Time(380_000_000),
            share: 0.5,
        }
    }
}

impl HystereticConfig {
    const ADMIT_BELOW: &str = "admit_below";
    const SHED_AT: &str = "shed_at";
    const DISCARD_AT: &str = "discard_at";

    /// All problems, for a line in which `capacity` messages can wait.
    #[must_use]
    pub fn check(&self, capacity: u32) -> Vec<Problem> {
        let (low, high, buffer) = (
            (Self::ADMIT_BELOW, self.admit_below),
            (Self::SHED_AT, self.shed_at),
            (Self::DISCARD_AT, self.discard_at),
        );
        let mut problems = Vec::new();
        problems.extend([low, high, buffer].into_iter().filter_map(Problem::zero));
        problems.extend(Problem::order(low, high, false));
        problems.extend(Problem::order(high, buffer, true));
        if !(0.0..=1.0).contains(&self.share) {
            problems.push(Problem::Share { field: "share", value: self.share });
        }
        problems.extend(Problem::no_room([low, high, buffer], capacity));
        problems
    }
}

/// A gate and its settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GateConfig {
    /// Hysteretic shedding with priority classes.
    Hysteretic(HystereticConfig),
    /// Random shedding between two thresholds of an average, with priority classes.
    Random(RandomConfig),
    /// Priority classes and a buffer that refuses originals when it is full.
    TailDrop {
        /// How many may be in the system.
        buffer: Threshold,
    },
    /// One queue without classes that refuses everything when it is full.
    Fifo {
        /// How many may be in the system.
        buffer: Threshold,
    },
}

impl Default for GateConfig {
    fn default() -> Self {
        Self::Hysteretic(HystereticConfig::default())
    }
}

impl GateConfig {
    /// The name in configuration, metrics and documents.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Hysteretic(_) => "hysteretic",
            Self::Random(_) => "random",
            Self::TailDrop { .. } => "tail_drop",
            Self::Fifo { .. } => "fifo",
        }
    }

    /// The order of service that belongs to the gate.
    #[must_use]
    pub const fn discipline(&self) -> Discipline {
        match self {
            Self::Hysteretic(_) | Self::Random(_) | Self::TailDrop { .. } => Discipline::Priority,
            Self::Fifo { .. } => Discipline::Fifo,
        }
    }

    /// All problems, for a line in which `capacity` messages can wait.
    #[must_use]
    pub fn check(&self, capacity: u32) -> Vec<Problem> {
        match self {
            Self::Hysteretic(config) => config.check(capacity),
            Self::Random(config) => config.check(capacity),
            Self::TailDrop { buffer } | Self::Fifo { buffer } => check_buffer(*buffer, capacity),
        }
    }
}

/// All problems of a baseline's only setting.
pub(crate) fn check_buffer(buffer: Threshold, capacity: u32) -> Vec<Problem> {
    let field = ("buffer", buffer);
    let mut problems = Vec::new();
    problems.extend(Problem::zero(field));
    problems.extend(Problem::too_long(field, capacity));
    if capacity == 0 {
        problems.push(Problem::Capacity { field: "capacity", capacity, needed: 1 });
    }
    problems
}

/// One thing that the operator has to change.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Problem {
    /// A value that must be above zero is zero.
    #[error("{field} is 0; it must be above 0")]
    Zero {
        /// The field to change.
        field: &'static str,
    },
    /// Two thresholds stand in the wrong order.
    #[error("{field} = {value} must be {relation} {above_field} = {above_value}")]
    Order {
        /// The field that is too large.
        field: &'static str,
        /// Its value.
        value: Threshold,
        /// "below", or "at most".
        relation: &'static str,
        /// The field it is compared with.
        above_field: &'static str,
        /// That field's value.
        above_value: Threshold,
    },
    /// A share is outside 0 to 1.
    #[error("{field} = {value} is no share; it must be between 0 and 1")]
    Share {
        /// The field to change.
        field: &'static str,
        /// Its value.
        value: f64,
    },
    /// A probability is outside 0 to 1, as a published start probability of random control is.
    #[error(
        "{field} = {value} is no probability; it must be between 0 and 1 (a published start of 1.6 is none either)"
    )]
    Probability {
        /// The field to change.
        field: &'static str,
        /// Its value.
        value: f64,
    },
    /// A number is outside its range.
    #[error("{field} = {value} is out of range; it must be {range}")]
    Range {
        /// The field to change.
        field: &'static str,
        /// Its value.
        value: f64,
        /// What it must be, such as "above 0 and at most 1".
        range: &'static str,
    },
    /// A threshold asks for more messages than can wait.
    #[error(
        "{field} = {value} is more than the {capacity} messages that can wait; lower it or give the queue more frames"
    )]
    TooLong {
        /// The field to change.
        field: &'static str,
        /// Its value.
        value: Threshold,
        /// Messages that can wait.
        capacity: u32,
    },
    /// Too few messages can wait for the gate to have any room.
    #[error("{field} = {capacity} messages can wait; the gate needs {needed} or more")]
    Capacity {
        /// The field to change.
        field: &'static str,
        /// Messages that can wait.
        capacity: u32,
        /// Messages that must be able to wait.
        needed: u32,
    },
    /// A rate is not a positive number.
    #[error("{field} = {value} per second is no rate; it must be a number above 0")]
    Rate {
        /// The field to change.
        field: &'static str,
        /// Its value.
        value: f64,
    },
}

impl Problem {
    /// The field to change.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Zero { field }
            | Self::Order { field, .. }
            | Self::Share { field, .. }
            | Self::Probability { field, .. }
            | Self::Range { field, .. }
            | Self::TooLong { field, .. }
            | Self::Capacity { field, .. }
            | Self::Rate { field, .. } => field,
        }
    }

    pub(crate) fn zero((field, threshold): (&'static str, Threshold)) -> Option<Self> {
        threshold.is_zero().then_some(Self::Zero { field })
    }

    /// Compares two thresholds of the same kind; a number and a time have no order before the rate is known.
    pub(crate) fn order(
        below: (&'static str, Threshold),
        above: (&'static str, Threshold),
        strict: bool,
    ) -> Option<Self> {
        let (small, large) = match (below.1, above.1) {
            (Threshold::Messages(small), Threshold::Messages(large)) => (u64::from(small), u64::from(large)),
            (Threshold::Time(small), Threshold::Time(large)) => (small, large),
            _ => return None,
        };
        let holds = if strict { small < large } else { small <= large };
        (!holds).then_some(Self::Order {
            field: below.0,
            value: below.1,
            relation: if strict { "below" } else { "at most" },
            above_field: above.0,
            above_value: above.1,
        })
    }

    /// A number of messages that cannot wait; a time is fitted into the room instead.
    fn too_long((field, threshold): (&'static str, Threshold), capacity: u32) -> Option<Self> {
        match threshold {
            Threshold::Messages(count) if count > capacity => {
                Some(Self::TooLong { field, value: threshold, capacity })
            }
            _ => None,
        }
    }

    /// What keeps three ascending thresholds from having room.
    pub(crate) fn no_room(thresholds: [(&'static str, Threshold); 3], capacity: u32) -> Vec<Self> {
        let mut problems: Vec<_> =
            thresholds.into_iter().filter_map(|field| Self::too_long(field, capacity)).collect();
        let needed = Levels::CAPACITY_MIN;
        if capacity < needed && thresholds.iter().any(|(_, t)| matches!(t, Threshold::Time(_))) {
            problems.push(Self::Capacity { field: "capacity", capacity, needed });
        }
        problems
    }
}

/// A configuration that cannot be used, with everything that is wrong with it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct ConfigError {
    /// Never empty.
    pub problems: Vec<Problem>,
}

impl ConfigError {
    /// An error when there is a problem.
    pub fn check(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self { problems }) }
    }
}

#[cfg(test)]
mod tests {
    use super::{ConfigError, GateConfig, HystereticConfig, Problem};
    use crate::threshold::Threshold;

    #[test]
    fn the_default_has_no_problem() {
        assert_eq!(GateConfig::default().check(1000), []);
    }

    #[test]
    fn all_problems_are_reported_at_once_with_their_fields() {
        let config = HystereticConfig {
            admit_below: Threshold::Messages(0),
            shed_at: Threshold::Messages(90),
            discard_at: Threshold::Messages(80),
            share: 1.5,
        };
        let problems = config.check(85);
        let fields: Vec<_> = problems.iter().map(Problem::field).collect();
        assert_eq!(fields, ["admit_below", "shed_at", "share", "shed_at"]);
        let text = ConfigError { problems }.to_string();
        for part in
            ["admit_below is 0", "shed_at = 90 must be below discard_at = 80", "share = 1.5", "85 messages"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn a_number_and_a_time_are_not_compared() {
        let config =
            HystereticConfig { admit_below: Threshold::Messages(5000), ..HystereticConfig::default() };
        assert_eq!(config.check(10_000), []);
    }

    #[test]
    fn baselines_need_a_buffer_that_fits() {
        assert_eq!(GateConfig::TailDrop { buffer: Threshold::Messages(0) }.check(10)[0].field(), "buffer");
        assert_eq!(GateConfig::Fifo { buffer: Threshold::Messages(11) }.check(10).len(), 1);
        assert_eq!(GateConfig::Fifo { buffer: Threshold::Time(1) }.check(0)[0].field(), "capacity");
        assert_eq!(GateConfig::Fifo { buffer: Threshold::Messages(10) }.check(10), []);
    }

    #[test]
    fn a_share_that_is_not_a_number_is_refused() {
        let config = HystereticConfig { share: f64::NAN, ..HystereticConfig::default() };
        assert_eq!(config.check(1000)[0].field(), "share");
    }
}
