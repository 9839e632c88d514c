//! Loss-based control at the client (RFC 7339 section 7, the default algorithm).
//!
//! The core says which percentage of the requests shall not be sent. Categories are given up in their order: of category i
//! with the share c_i of all requests the part min(1, rest/c_i) is dropped, where rest is what the categories before it
//! could not give of `oc`. With two categories this is the RFC's algorithm; the shares are measured, as its
//! section 7.2 asks, over the last one to two periods.

use super::announced::{Algorithm, Announced};
use super::{CATEGORIES_MAX, Category, ClientControl, Response};
use crate::Nanos;
use crate::config::{ConfigError, Problem};
use crate::gate::HASHES;

/// Settings of [`LossControl`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossConfig {
    /// How many categories are told apart, 1 to 8. Further ones are treated as the last.
    pub categories: usize,
    /// Over which time the categories' shares are measured. Too short: they are noise. Too long: they are old.
    pub mix_period_ns: Nanos,
}

impl Default for LossConfig {
    /// Two categories as in the RFC, measured over 5 s: some hundred requests where overload control matters.
    fn default() -> Self {
        Self { categories: 2, mix_period_ns: 5_000_000_000 }
    }
}

impl LossConfig {
    /// All problems.
    #[must_use]
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if !(1..=CATEGORIES_MAX).contains(&self.categories) {
            let range = "between 1 and 8";
            problems.push(Problem::Range { field: "categories", value: self.categories as f64, range });
        }
        if self.mix_period_ns == 0 {
            problems.push(Problem::Zero { field: "mix_period_ns" });
        }
        problems
    }
}

/// How many requests of each category there were lately.
#[derive(Debug, Clone, Default)]
struct CategoryMix {
    period_start: Nanos,
    before: [u64; CATEGORIES_MAX],
    now: [u64; CATEGORIES_MAX],
}

impl CategoryMix {
    fn count(&mut self, now: Nanos, period_ns: Nanos, place: usize) {
        match now.saturating_sub(self.period_start) / period_ns {
            0 => {}
            passed => {
                let last = std::mem::take(&mut self.now);
                self.before = if passed == 1 { last } else { Default::default() };
                self.period_start += passed * period_ns;
            }
        }
        self.now[place] += 1;
    }

    fn shares(&self) -> [f64; CATEGORIES_MAX] {
        let counts: [u64; CATEGORIES_MAX] = std::array::from_fn(|place| self.before[place] + self.now[place]);
        let all = counts.iter().sum::<u64>().max(1) as f64;
        counts.map(|count| count as f64 / all)
    }
}

/// The client's side of RFC 7339.
#[derive(Debug, Clone)]
pub struct LossControl {
    config: LossConfig,
    announced: Announced,
    mix: CategoryMix,
}

impl LossControl {
    /// A client that has heard nothing yet.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration.
    pub fn new(config: &LossConfig) -> Result<Self, ConfigError> {
        ConfigError::check(config.check())?;
        Ok(Self { config: *config, announced: Announced::new(Algorithm::Loss), mix: CategoryMix::default() })
    }

    /// The part of each category that is dropped for `oc` per cent of all, at these shares of the categories.
    #[must_use]
    pub(super) fn reductions(oc: u32, shares: [f64; CATEGORIES_MAX]) -> [f64; CATEGORIES_MAX] {
        let mut rest = f64::from(oc.min(100)) / 100.0;
        shares.map(|share| {
            let reduction = if rest < share { rest / share } else { f64::from(rest > 0.0) };
            rest = (rest - reduction * share).max(0.0);
            reduction
        })
    }
}

impl ClientControl for LossControl {
    fn ask(&mut self, now: Nanos, category: Category, draw: u32) -> bool {
        let place = category.place_of(self.config.categories);
        self.mix.count(now, self.config.mix_period_ns, place);
        match self.announced.value(now) {
            None | Some(0) => true,
            // Rounding must not leave a rest for categories that are to be spared, nor spare what all is asked of.
            Some(100..) => false,
            Some(oc) => {
                let reduction = Self::reductions(oc, self.mix.shares())[place];
                f64::from(draw) >= reduction * HASHES
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
mod tests;
