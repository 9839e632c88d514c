//! Which changes of a state are worth a line: the first ones at once, from then on some, each with how many it stands for.
//!
//! The control thread looks a few times a second and asks with the number of changes so far, so a state that came and went
//! in between is counted too. The last line always tells the state as it stayed. Pure: time is a parameter.

use overload::TokenBucket;

/// Lines at once, after a quiet time. A server that goes and comes back makes three (missing, down, up).
const BURST: u32 = 4;

/// Seconds from line to line while changes go on. A gate in lasting overload changes several times a second; a line
/// each ten seconds shows what goes on, and a day of it stays below ten thousand.
pub const INTERVAL_S: u64 = 10;

/// The changes of one state.
#[derive(Debug)]
pub struct Changes {
    told: u64,
    /// INVARIANT: its clock goes slower by [`INTERVAL_S`], since it gives whole tokens a second.
    lines: TokenBucket,
}

impl Changes {
    /// None so far.
    #[must_use]
    pub const fn new(now_ns: u64) -> Self {
        Self { told: 0, lines: TokenBucket::new(1, BURST, now_ns / INTERVAL_S) }
    }

    /// How many changes a line would stand for, if one is due now; `count` is how many there were since the start.
    #[must_use]
    pub fn due(&mut self, count: u64, now_ns: u64) -> Option<u64> {
        if count == self.told || !self.lines.take(now_ns / INTERVAL_S) {
            return None;
        }
        let untold = count.wrapping_sub(self.told);
        self.told = count;
        Some(untold)
    }
}

#[cfg(test)]
mod tests {
    use super::{BURST, Changes, INTERVAL_S};

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn no_change_no_line() {
        let mut changes = Changes::new(5 * SECOND);
        assert_eq!(changes.due(0, 3600 * SECOND), None);
    }

    #[test]
    fn a_server_that_goes_and_comes_back_is_told_three_times_at_once() {
        let mut changes = Changes::new(0);
        let told: Vec<_> = (1..=3).map(|count| changes.due(count, count * SECOND / 4)).collect();
        assert_eq!(told, [Some(1); 3]);
    }

    #[test]
    fn an_hour_of_eight_changes_a_second_is_told_every_ten_seconds_and_no_change_is_missed() {
        let mut changes = Changes::new(0);
        let (mut lines, mut sum, mut count) = (0, 0, 0);
        // Four looks a second, two changes between two of them.
        for look in 1..=4 * 3600 {
            count += 2;
            if let Some(untold) = changes.due(count, look * SECOND / 4) {
                lines += 1;
                sum += untold;
            }
        }
        // The interval that had begun with the first line has not ended.
        assert_eq!(lines, u64::from(BURST) + 3600 / INTERVAL_S - 1);
        // What follows the last change tells the rest.
        assert_eq!(changes.due(count, 3610 * SECOND).map(|rest| sum + rest), Some(count));
        assert_eq!(changes.due(count, 3700 * SECOND), None);
    }
}
