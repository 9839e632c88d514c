//! Reproducible numbers. Not here: what is made of them.

/// A small generator (splitmix64): a state of one word, so that every message of a run can have a stream of its own.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of one message of a run.
    #[must_use]
    pub fn of(seed: u64, index: u64) -> Self {
        let mut random = Self(seed);
        let key = random.word();
        Self(key ^ index.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    /// 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `limit`; 0 if there is none.
    pub fn below(&mut self, limit: usize) -> usize {
        // The high half of a product; the bias is smaller than 2^-40 for any limit used here.
        let wide = u128::from(self.word()) * limit as u128;
        (wide >> 64) as usize
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        self.word().to_le_bytes()[7]
    }

    /// One of several, which must not be empty.
    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_reproducible_and_every_message_has_its_own() {
        let stream = |seed, index| {
            let mut random = Random::of(seed, index);
            [random.word(), random.word(), random.word()]
        };
        assert_eq!(stream(1, 7), stream(1, 7));
        assert_ne!(stream(1, 7), stream(1, 8));
        assert_ne!(stream(1, 7), stream(2, 7));
        let firsts: std::collections::HashSet<u64> = (0..10_000).map(|i| stream(3, i)[0]).collect();
        assert_eq!(firsts.len(), 10_000);
    }

    #[test]
    fn numbers_stay_below_their_limit_and_reach_every_value() {
        let mut random = Random::of(1, 0);
        let mut seen = [0; 7];
        for _ in 0..7000 {
            seen[random.below(7)] += 1;
        }
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }
}
