//! Rate-based control at the client (RFC 7415): no more requests per second than the core says.
//!
//! The default algorithm, a leaky bucket with T = 1/`oc`, with priority (section 3.5.2): each category has a
//! tolerance TAU of its own, and one that ascends with the category lets a burst use up the patience for the first category
//! before later ones have to wait. In the long run all categories together are sent at the announced rate. Left out is the
//! optional randomisation against resonance (section 3.5.3).

use super::announced::{Algorithm, Announced};
use super::leaky_bucket::LeakyBucket;
use super::{CATEGORIES_MAX, Category, ClientControl, Response};
use crate::Nanos;
use crate::config::{ConfigError, Problem};

/// Settings of [`RateControl`].
#[derive(Debug, Clone, PartialEq)]
pub struct RateControlConfig {
    /// TAU in units of T, by category, 1 to 8 of them, not descending. 0: no burst at all; n: a burst of n + 1 passes.
    pub tolerances: Vec<f64>,
}

impl Default for RateControlConfig {
    /// TAU = 4T for the first category and 10T for all others.
    fn default() -> Self {
        Self { tolerances: vec![4.0, 10.0] }
    }
}

impl RateControlConfig {
    /// All problems; the first of its kind where several tolerances are wrong.
    #[must_use]
    pub fn check(&self) -> Vec<Problem> {
        let field = "tolerances";
        let count = self.tolerances.len();
        let mut problems = Vec::new();
        if !(1..=CATEGORIES_MAX).contains(&count) {
            let range = "a list of 1 to 8";
            problems.push(Problem::Range { field, value: count as f64, range });
        }
        if let Some(value) = self.tolerances.iter().find(|t| !(t.is_finite() && **t >= 0.0)) {
            problems.push(Problem::Range { field, value: *value, range: "at least 0 and finite" });
        } else if let Some(pair) = self.tolerances.windows(2).find(|pair| pair[1] < pair[0]) {
            problems.push(Problem::Range { field, value: pair[1], range: "no less than the one before it" });
        }
        problems
    }
}

/// The client's side of RFC 7415.
#[derive(Debug, Clone)]
pub struct RateControl {
    tolerances: [f64; CATEGORIES_MAX],
    categories: usize,
    announced: Announced,
    bucket: LeakyBucket,
}

impl RateControl {
    /// A client that has heard nothing yet.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration.
    pub fn new(config: &RateControlConfig) -> Result<Self, ConfigError> {
        ConfigError::check(config.check())?;
        let mut tolerances = [0.0; CATEGORIES_MAX];
        let categories = config.tolerances.len();
        tolerances[..categories].copy_from_slice(&config.tolerances);
        Ok(Self {
            tolerances,
            categories,
            announced: Announced::new(Algorithm::Rate),
            bucket: LeakyBucket::default(),
        })
    }
}

impl ClientControl for RateControl {
    fn ask(&mut self, now: Nanos, category: Category, _draw: u32) -> bool {
        match self.announced.value(now) {
            None => true,
            Some(0) => false,
            Some(oc) => {
                let interval_ns = LeakyBucket::interval_ns(f64::from(oc));
                let tolerance = self.tolerances[category.place_of(self.categories)];
                self.bucket.conforms(now, interval_ns, tolerance)
            }
        }
    }

    fn hear(&mut self, now: Nanos, response: &Response) {
        if let Some(announcement) = &response.announcement {
            self.announced.hear(now, announcement);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::{RateControl, RateControlConfig};
    use crate::config::Problem;
    use crate::distributed::{Algorithm, Announcement, Category, ClientControl, Response};

    const SECOND: u64 = 1_000_000_000;

    fn told(oc: u32, seq: u64) -> Response {
        let announcement =
            Announcement { algorithm: Algorithm::Rate, value: oc, validity_ms: Some(60_000), seq };
        Response { announcement: Some(announcement), ..Response::new(200, 0) }
    }

    fn control(tolerances: &[f64], oc: u32) -> RateControl {
        let mut control = RateControl::new(&RateControlConfig { tolerances: tolerances.into() }).unwrap();
        assert!(control.ask(0, Category::FIRST, 0), "no limit before one is announced");
        control.hear(0, &told(oc, 1));
        control
    }

    fn back_to_back(control: &mut RateControl, category: Category) -> usize {
        (0..100).take_while(|_| control.ask(0, category, 0)).count()
    }

    #[test]
    fn the_tolerance_is_the_burst() {
        for (tolerance, passed) in [(4.0, 5), (5.0, 6), (10.0, 11)] {
            assert_eq!(back_to_back(&mut control(&[tolerance], 150), Category::FIRST), passed);
        }
    }

    #[test]
    fn a_category_of_priority_passes_where_the_first_must_wait() {
        let mut control = control(&[5.0, 10.0], 150);
        assert_eq!(back_to_back(&mut control, Category::FIRST), 6);
        assert_eq!(back_to_back(&mut control, Category::SECOND), 5, "eleven in all");
        let five_intervals = 5 * 6_666_667;
        assert!(!control.ask(five_intervals, Category::FIRST, 0), "whose place they took");
        assert!(control.ask(five_intervals + 6_666_667, Category::FIRST, 0));
    }

    #[test]
    fn a_rate_of_zero_sends_nothing_and_ends_with_its_validity() {
        let mut control = control(&[4.0], 0);
        assert!(!control.ask(0, Category::FIRST, 0));
        assert_eq!(control.announced.value(0), Some(0));
        assert!(control.ask(60 * SECOND, Category::FIRST, 0));
        assert_eq!(control.announced.value(60 * SECOND), None);
    }

    #[test]
    fn each_wrong_parameter_is_named_once() {
        for (tolerances, part) in [
            (vec![], "tolerances = 0 is out of range; it must be a list of 1 to 8"),
            (vec![1.0; 9], "tolerances = 9"),
            (vec![1.0, -1.0], "tolerances = -1 is out of range; it must be at least 0"),
            (vec![f64::NAN], "tolerances = NaN"),
            (vec![5.0, 4.0], "tolerances = 4 is out of range; it must be no less"),
        ] {
            let error = RateControl::new(&RateControlConfig { tolerances }).unwrap_err();
            assert_eq!(error.problems.iter().map(Problem::field).collect::<Vec<_>>(), ["tolerances"]);
            assert!(error.to_string().contains(part), "{part} in {error}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_offered_no_more_is_sent_than_announced(
            oc in 1_u32..1000, gaps_us in proptest::collection::vec(0_u64..5_000, 100..1000),
        ) {
            let mut control = control(&[4.0, 10.0], oc);
            let (mut now, mut sent) = (0, 0_u32);
            for (i, gap_us) in gaps_us.into_iter().enumerate() {
                now += gap_us * 1000;
                sent += u32::from(control.ask(now, Category::new((i % 3) as u8), 0));
            }
            let most = now as f64 / 1e9 * f64::from(oc) + 11.0;
            prop_assert!(f64::from(sent) <= most + 1e-6, "{sent} {most}");
        }

        #[test]
        fn under_a_flood_the_announced_rate_is_used_up(oc in 1_u32..1000) {
            let mut control = control(&[4.0], oc);
            let span = 20 * SECOND / u64::from(oc);
            let sent = (0..20_000_u64).filter(|i| control.ask(i * span / 20_000, Category::FIRST, 0)).count();
            // Twenty intervals and the burst at their beginning.
            prop_assert!((24..=25).contains(&sent), "{sent}");
        }
    }
}
