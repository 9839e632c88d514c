//! Waiting for a condition, never for a time.

use std::time::{Duration, Instant};

/// Between two looks. Small against every time-out of the tests, large against the cost of a look.
pub const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Waits until `condition` holds.
///
/// # Panics
/// If it does not hold within `timeout`; `what` says what was waited for.
#[track_caller]
pub fn wait_until(what: &str, timeout: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + timeout;
    while !condition() {
        assert!(Instant::now() < deadline, "waited {timeout:?} in vain until {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_as_soon_as_the_condition_holds() {
        let mut looks = 0;
        wait_until("the third look", Duration::from_secs(5), || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
    }

    #[test]
    #[should_panic(expected = "in vain until the moon is cheese")]
    fn waiting_in_vain_says_for_what() {
        wait_until("the moon is cheese", Duration::from_millis(20), || false);
    }
}
