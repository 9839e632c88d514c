//! The three numbers of the hysteretic gate, resolved from thresholds that may be given in time.

use crate::NANOS_PER_S;
use crate::config::{ConfigError, HystereticConfig};
use crate::threshold::Threshold;

/// L, H and B of M|G|1|⟨L,H⟩|B in messages. INVARIANT: 0 < L ≤ H < B.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Levels {
    low: u32,
    high: u32,
    buffer: u32,
}

impl Levels {
    /// The fewest messages that must be able to wait, so that L < H < B have room.
    pub(crate) const CAPACITY_MIN: u32 = 3;

    /// Checks 0 < L ≤ H < B.
    ///
    /// # Errors
    /// Every relation that does not hold, by the names of the configuration's fields.
    pub fn new(low: u32, high: u32, buffer: u32) -> Result<Self, ConfigError> {
        let config = HystereticConfig {
            admit_below: Threshold::Messages(low),
            shed_at: Threshold::Messages(high),
            discard_at: Threshold::Messages(buffer),
            share: 0.0,
        };
        ConfigError::check(config.check(u32::MAX))?;
        Ok(Self { low, high, buffer })
    }

    /// L: overload ends when fewer than this are in the system.
    #[must_use]
    pub const fn low(self) -> u32 {
        self.low
    }

    /// H: overload begins when this many are in the system; discarding ends here.
    #[must_use]
    pub const fn high(self) -> u32 {
        self.high
    }

    /// B: discarding begins when this many are in the system.
    #[must_use]
    pub const fn buffer(self) -> u32 {
        self.buffer
    }

    /// The levels of a checked configuration at a service rate, for a line in which `capacity` messages can wait.
    ///
    /// Numbers of messages stand as configured. Where B is a time in which more than `capacity` would be served, it is
    /// `capacity`, and L and H, as far as they are times, shrink in the same proportion: the gaps between them are what
    /// keeps the gate from chattering. As soon as one threshold is a time the result is fitted from the top: B into
    /// 3..=capacity, then H into 2..=B−1, then L into 1..=H−1. So a server that has nearly stopped leaves (1, 2, 3), and
    /// L < H < B at any rate.
    pub(crate) fn resolve(config: &HystereticConfig, rate_per_s: f64, capacity: u32) -> Self {
        let thresholds = [config.admit_below, config.shed_at, config.discard_at];
        let [low, high, buffer] = Self::fit(thresholds, rate_per_s, capacity);
        Self { low, high, buffer }
    }

    /// Three ascending thresholds in messages, fitted as [`Levels::resolve`] says.
    pub(crate) fn fit(thresholds: [Threshold; 3], rate_per_s: f64, capacity: u32) -> [u32; 3] {
        // The rate at which the largest is just the capacity. A span of 0 is refused by the configuration's check.
        let rate_per_s = match thresholds[2] {
            Threshold::Time(span_ns) => {
                rate_per_s.min(f64::from(capacity) * NANOS_PER_S as f64 / span_ns as f64)
            }
            Threshold::Messages(_) => rate_per_s,
        };
        let [low, high, buffer] = thresholds.map(|threshold| threshold.messages_at(rate_per_s));
        if thresholds.into_iter().all(|threshold| matches!(threshold, Threshold::Messages(_))) {
            return [low, high, buffer];
        }
        let buffer = buffer.clamp(Self::CAPACITY_MIN, capacity.max(Self::CAPACITY_MIN));
        let high = high.clamp(2, buffer - 1);
        [low.clamp(1, high - 1), high, buffer]
    }

    /// (L, H, B), as the literature writes them.
    #[must_use]
    pub const fn as_tuple(self) -> (u32, u32, u32) {
        (self.low, self.high, self.buffer)
    }

    /// INVARIANT of the type, asserted by tests over all rates.
    #[cfg(test)]
    const fn hold(self) -> bool {
        0 < self.low && self.low <= self.high && self.high < self.buffer
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, prop_oneof, proptest};
    use proptest::strategy::{Just, Strategy};

    use super::Levels;
    use crate::config::HystereticConfig;
    use crate::threshold::Threshold;

    #[test]
    fn levels_out_of_order_are_refused_by_field() {
        assert_eq!(Levels::new(1, 1, 2).unwrap().as_tuple(), (1, 1, 2));
        for (low, high, buffer) in [(0, 1, 2), (3, 2, 4), (1, 4, 4)] {
            assert_eq!(Levels::new(low, high, buffer).unwrap_err().problems.len(), 1);
        }
        assert_eq!(Levels::new(5, 4, 3).unwrap_err().problems.len(), 2);
    }

    #[test]
    fn times_follow_the_rate_and_keep_their_proportion_where_the_capacity_ends_them() {
        let config = HystereticConfig {
            admit_below: Threshold::Time(370_000_000),
            shed_at: Threshold::Time(425_000_000),
            discard_at: Threshold::Time(500_000_000),
            share: 0.5,
        };
        assert_eq!(Levels::resolve(&config, 200.0, 10_000).as_tuple(), (74, 85, 100));
        assert_eq!(Levels::resolve(&config, 0.0, 10_000).as_tuple(), (1, 2, 3));
        assert_eq!(Levels::resolve(&config, 1e12, 10_000).as_tuple(), (7_400, 8_500, 10_000));
        assert_eq!(Levels::resolve(&config, 200.0, 90).as_tuple(), (67, 77, 90));
        let numbers = HystereticConfig { admit_below: Threshold::Messages(80), ..config };
        assert_eq!(Levels::resolve(&numbers, 200.0, 90).as_tuple(), (76, 77, 90), "L is kept below H");
    }

    fn threshold() -> impl Strategy<Value = Threshold> {
        prop_oneof![
            (1_u32..100_000).prop_map(Threshold::Messages),
            (1_u64..10_000_000_000).prop_map(Threshold::Time)
        ]
    }

    proptest! {
        #[test]
        fn times_keep_their_proportion_at_any_rate(
            times in (1_u64..10_000, 1_u64..10_000, 1_u64..10_000),
            rate_per_s in prop_oneof![0.0..1e9_f64, Just(f64::INFINITY)],
            capacity in 3_u32..100_000,
        ) {
            let mut times_ms = [times.0, times.1, times.2];
            times_ms.sort_unstable();
            let [admit_below, shed_at, discard_at] = times_ms.map(|ms| Threshold::Time(ms * 1_000_000));
            let config = HystereticConfig { admit_below, shed_at, discard_at, share: 0.5 };
            let (low, high, buffer) = Levels::resolve(&config, rate_per_s, capacity).as_tuple();
            let part_of_buffer = |ms: u64| ms as f64 / times_ms[2] as f64 * f64::from(buffer);
            // Each is rounded once, and at most two are moved to keep L < H < B.
            prop_assert!((f64::from(low) - part_of_buffer(times_ms[0])).abs() <= 3.0, "{low} {high} {buffer}");
            prop_assert!((f64::from(high) - part_of_buffer(times_ms[1])).abs() <= 3.0, "{low} {high} {buffer}");
        }

        #[test]
        fn levels_of_any_valid_configuration_hold_at_any_rate(
            (admit_below, shed_at, discard_at) in (threshold(), threshold(), threshold()),
            rate_per_s in prop_oneof![0.0..1e9_f64, Just(f64::INFINITY), Just(0.0)],
            capacity in 3_u32..100_000,
        ) {
            let config = HystereticConfig { admit_below, shed_at, discard_at, share: 0.5 };
            if config.check(capacity).is_empty() {
                let levels = Levels::resolve(&config, rate_per_s, capacity);
                prop_assert!(levels.hold(), "{levels:?}");
                prop_assert!(levels.buffer() <= capacity);
                prop_assert_eq!(Levels::new(levels.low(), levels.high(), levels.buffer()).unwrap(), levels);
            }
        }
    }
}
