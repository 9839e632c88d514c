//! The busiest keys of a stream in fixed memory: Space-Saving.
//!
//! Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005
//! (<https://doi.org/10.1007/978-3-540-30570-5_27>). Of m places each counts one key; a key that has none takes the place
//! with the smallest count, and takes over that count as its own possible error. With W the sum of all weights
//! noted (their N):
//!
//! - a count is never too small: `count − error ≤ true weight ≤ count`;
//! - no error is above W / m (their Lemma 3), so every key of more than W / m has a place (their Theorem 2).
//!
//! Weights other than 1 change neither, since both follow from Σ counts = W alone.
//!
//! Here key and smallest count are searched, not kept in their "stream summary": the caller notes a sample, so a walk over
//! some KiB of places is rare, and there is no order to keep. Not here: what is sampled and how often.

/// One place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hitter<K> {
    /// Who.
    pub key: K,
    /// Weight, at most [`Self::error`] too much.
    pub count: u64,
    /// How much of `count` may be others'.
    pub error: u64,
    /// Weight that was marked, at least: what was marked before the key had its place is lost.
    pub marked: u64,
}

/// The busiest keys of a stream.
#[derive(Debug, Clone)]
pub struct HeavyHitters<K> {
    /// As long as its capacity at most, which never grows.
    places: Vec<Hitter<K>>,
    capacity: usize,
    weight: u64,
}

impl<K: Copy + Eq> HeavyHitters<K> {
    /// Nobody, with all memory that it will ever use.
    ///
    /// # Panics
    ///
    /// Without a place.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "nobody can be remembered in no place");
        Self { places: Vec::with_capacity(capacity), capacity, weight: 0 }
    }

    /// Notes a key.
    pub fn note(&mut self, key: K, weight: u64, is_marked: bool) {
        self.weight = self.weight.saturating_add(weight);
        let marked = if is_marked { weight } else { 0 };
        if let Some(place) = self.places.iter_mut().find(|place| place.key == key) {
            place.count = place.count.saturating_add(weight);
            place.marked = place.marked.saturating_add(marked);
            return;
        }
        if self.places.len() < self.capacity {
            return self.places.push(Hitter { key, count: weight, error: 0, marked });
        }
        if let Some(least) = self.places.iter_mut().min_by_key(|place| place.count) {
            *least = Hitter { key, count: least.count.saturating_add(weight), error: least.count, marked };
        }
    }

    /// Sum of all weights noted.
    #[must_use]
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// No error is larger, and no key that weighs more is missing.
    #[must_use]
    pub fn error_max(&self) -> u64 {
        self.weight / self.capacity as u64
    }

    /// Who has a place, in no order.
    #[must_use]
    pub fn places(&self) -> &[Hitter<K>] {
        &self.places
    }

    /// Forgets everybody.
    pub fn clear(&mut self) {
        self.places.clear();
        self.weight = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::{any, prop};
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{HeavyHitters, Hitter};

    fn of(hitters: &HeavyHitters<u32>, key: u32) -> Option<Hitter<u32>> {
        hitters.places().iter().copied().find(|place| place.key == key)
    }

    #[test]
    fn as_long_as_all_have_a_place_everything_is_exact() {
        let mut hitters = HeavyHitters::new(3);
        for (key, weight, marked) in [(1, 5, false), (2, 1, true), (1, 2, true), (3, 9, false)] {
            hitters.note(key, weight, marked);
        }
        assert_eq!(of(&hitters, 1), Some(Hitter { key: 1, count: 7, error: 0, marked: 2 }));
        assert_eq!(of(&hitters, 2), Some(Hitter { key: 2, count: 1, error: 0, marked: 1 }));
        assert_eq!((hitters.weight(), hitters.error_max()), (17, 5));
        hitters.clear();
        assert_eq!((hitters.places().len(), hitters.weight()), (0, 0));
    }

    #[test]
    fn a_newcomer_takes_the_least_place_and_its_count_as_error() {
        let mut hitters = HeavyHitters::new(2);
        [(1, 5), (2, 3), (3, 1)].into_iter().for_each(|(key, weight)| hitters.note(key, weight, true));
        assert_eq!(of(&hitters, 2), None);
        assert_eq!(of(&hitters, 3), Some(Hitter { key: 3, count: 4, error: 3, marked: 1 }));
    }

    #[test]
    fn memory_does_not_grow() {
        let mut hitters = HeavyHitters::new(8);
        let before = hitters.places.capacity();
        (0..10_000).for_each(|key| hitters.note(key, 1, false));
        assert_eq!((hitters.places.capacity(), hitters.places().len()), (before, 8));
    }

    proptest! {
        /// The paper's bounds, against exact counting.
        #[test]
        fn counts_are_within_their_errors_and_no_heavy_key_is_missing(
            stream in prop::collection::vec((0u32..40, 1u64..50, any::<bool>()), 0..600),
            capacity in 1usize..20,
        ) {
            let mut hitters = HeavyHitters::new(capacity);
            let mut exact: HashMap<u32, (u64, u64)> = HashMap::new();
            for (key, weight, marked) in &stream {
                hitters.note(*key, *weight, *marked);
                let of = exact.entry(*key).or_default();
                of.0 += weight;
                of.1 += if *marked { *weight } else { 0 };
            }
            prop_assert_eq!(hitters.places().iter().map(|place| place.count).sum::<u64>(), hitters.weight());
            for place in hitters.places() {
                let (count, marked) = exact[&place.key];
                prop_assert!(place.count - place.error <= count && count <= place.count, "{:?}, {}", place, count);
                prop_assert!(place.error <= hitters.error_max());
                prop_assert!(place.marked <= marked);
            }
            for (key, (count, _)) in exact {
                prop_assert!(count <= hitters.error_max() || of(&hitters, key).is_some(), "{} of {}", key, count);
            }
        }
    }
}
