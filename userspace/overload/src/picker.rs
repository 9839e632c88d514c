//! Which requests are picked for a measurement that costs something: few enough for a busy server, all of an idle one.

/// Picks per second that all workers together aim at. More cost more and are forgotten sooner; fewer make a quantile of one
/// quarter of a second uncertain: 512 leave 128, whose median is within a tenth of the distribution.
const PICKS_PER_S: f64 = 512.0;

/// Picks every n-th on the average, with gaps by chance: a fixed n would meet the same place of every batch.
#[derive(Debug, Clone)]
pub struct Picker {
    /// To be passed over before the next.
    left: u32,
    per_s: f64,
}

impl Picker {
    /// The picker of one of `workers` that pick from the same stream.
    #[must_use]
    pub fn new(workers: u32) -> Self {
        Self { left: 0, per_s: PICKS_PER_S / f64::from(workers.max(1)) }
    }

    /// Whether the next shall be picked; true until [`Self::picked`] says that one was.
    pub const fn is_due(&mut self) -> bool {
        if self.left == 0 {
            return true;
        }
        self.left -= 1;
        false
    }

    /// Notes that one was picked from a stream of so many per second. `random` is any number that differs each time.
    pub fn picked(&mut self, rate_per_s: f64, random: u64) {
        // A cast saturates, and what is no number becomes 0.
        let passed_over = (rate_per_s / self.per_s) as u32;
        // Evenly from none to twice the mean.
        let choices = u64::from(passed_over.saturating_mul(2)) + 1;
        // Below a u32, as is `choices`.
        self.left = ((u128::from(random) * u128::from(choices)) >> 64) as u32;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{PICKS_PER_S, Picker};

    /// Picks out of a stream.
    fn picks(picker: &mut Picker, rate_per_s: f64, messages: u32) -> u32 {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut picks = 0;
        for _ in 0..messages {
            if picker.is_due() {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                picker.picked(rate_per_s, random);
                picks += 1;
            }
        }
        picks
    }

    #[test]
    fn a_slow_stream_is_picked_whole_and_a_fast_one_as_often_as_was_meant() {
        assert_eq!(picks(&mut Picker::new(1), 100.0, 1000), 1000);
        for (workers, rate_per_s) in [(1, 10_000.0), (1, 200_000.0), (8, 50_000.0)] {
            // Ten seconds of the stream.
            let picked = f64::from(picks(&mut Picker::new(workers), rate_per_s, (10.0 * rate_per_s) as u32));
            let meant = 10.0 * PICKS_PER_S / f64::from(workers);
            assert!(
                (0.8 * meant..1.25 * meant).contains(&picked),
                "{workers} {rate_per_s}: {picked} of {meant}"
            );
        }
    }

    proptest! {
        #[test]
        fn one_is_due_within_twice_the_mean(rate_per_s in 0.0_f64..1e7, random: u64) {
            let mut picker = Picker::new(1);
            picker.picked(rate_per_s, random);
            let most = 2 * (rate_per_s / PICKS_PER_S) as u32;
            let passed = (0..=most).take_while(|_| !picker.is_due()).count();
            prop_assert!(passed <= most as usize);
        }

        #[test]
        fn no_rate_stops_it(rate_per_s in any::<f64>(), random: u64) {
            Picker::new(1).picked(rate_per_s, random);
        }
    }
}
