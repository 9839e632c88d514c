//! Whether to sleep when there is nothing to do, or to look again at once.
//!
//! Falling asleep and being woken costs the core, and every packet its latency (docs/journal, "where the time goes").
//! So the worker waits awake while packets have been coming close together, but not for long, and sleeps otherwise.

/// Gaps that are shorter on average are waited out. Smaller: packets pay for wake-ups at rates where the core would be busy
/// anyway; at 30 us a stream of 50,000 a second still put it to sleep before every fourth packet, since two that come in one
/// turn are one. Larger: a core spins at low rates.
const GAP_NS_MAX: u64 = 50_000;
/// The longest wait without sleep: three times the largest average gap covers nineteen in twenty exponential ones.
const AWAKE_NS_MAX: u64 = 3 * GAP_NS_MAX;
/// A longer gap counts as this long, so that an idle night is forgotten after a few packets and a single pause after some.
const SAMPLE_NS_MAX: u64 = 1_000_000;
/// The weight of a new gap is one over this.
const WEIGHT: u64 = 8;

/// The gaps between turns that moved something.
#[derive(Debug)]
pub(super) struct Pause {
    gap_ns: u64,
    moved_ns: u64,
}

impl Default for Pause {
    fn default() -> Self {
        Self { gap_ns: SAMPLE_NS_MAX, moved_ns: 0 }
    }
}

impl Pause {
    /// Notes a turn that has moved something.
    pub(super) fn moved(&mut self, now_ns: u64) {
        let sample_ns = now_ns.saturating_sub(self.moved_ns).min(SAMPLE_NS_MAX);
        self.gap_ns = (self.gap_ns * (WEIGHT - 1) + sample_ns) / WEIGHT;
        self.moved_ns = now_ns;
    }

    /// Whether more is to be expected so soon that sleeping does not pay.
    pub(super) fn is_short(&self, now_ns: u64) -> bool {
        self.gap_ns < GAP_NS_MAX && now_ns.saturating_sub(self.moved_ns) < AWAKE_NS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::{AWAKE_NS_MAX, Pause};

    /// Packets so far apart, and the time of the last.
    fn after(gap_ns: u64, packets: u64) -> (Pause, u64) {
        let mut pause = Pause::default();
        (1..=packets).for_each(|number| pause.moved(10_000_000_000 + number * gap_ns));
        (pause, 10_000_000_000 + packets * gap_ns)
    }

    #[test]
    fn close_packets_are_waited_for_but_not_for_long() {
        let (pause, now_ns) = after(20_000, 100);
        assert!(pause.is_short(now_ns) && pause.is_short(now_ns + AWAKE_NS_MAX - 1));
        assert!(!pause.is_short(now_ns + AWAKE_NS_MAX));
    }

    #[test]
    fn rare_packets_are_not() {
        for gap_ns in [60_000, 1_000_000, 1_000_000_000] {
            let (pause, now_ns) = after(gap_ns, 1000);
            assert!(!pause.is_short(now_ns), "{gap_ns}");
        }
        assert!(!Pause::default().is_short(0));
    }

    #[test]
    fn one_gust_does_not_keep_a_core_awake() {
        let (mut pause, mut now_ns) = after(1_000, 100);
        assert!(pause.is_short(now_ns));
        now_ns += 2_000_000;
        pause.moved(now_ns);
        assert!(!pause.is_short(now_ns), "after a pause");
    }
}
