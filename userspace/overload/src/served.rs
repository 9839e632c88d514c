//! Which requests the server may have got lately: a Bloom filter over the beginnings of what workers hand over.
//!
//! While replies are above their budget, the XDP program drops what is shed, known or not. All that the transaction
//! table could still change is what happens to copies of requests that the server has got: only the server can repair a
//! lost response. This filter says which requests those may be, from one cache line of a memory that is small enough
//! to stay in the cache, where the table costs the hash of the whole datagram and a miss or two.
//!
//! ```text
//!   hash ──▶ line  [generation × 4]   three bits of one word       now ──▶ generation (17 s each)
//! ```
//!
//! A bit is set in the generation of the moment and read in all four. The next generation is cleared before its time
//! comes, so a request is seen for two whole generations at least, 34 s: longer than 64·T1, in which the last copy of a
//! client comes. Nothing that is in the filter is ever missed. What is not may be seen in it by chance, and then the table
//! is asked: with as many requests in a generation as it has lines, in one case of fifty.
//!
//! Two writers: each worker sets bits, the supervising thread clears. The XDP program (`xdp-prog/served.h`) reads.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Nanos;

/// Words of a line, one a generation: that of the moment, two before it, and one that is being cleared.
pub const GENERATIONS: usize = 4;

/// 2^34 ns, 17.2 s. Two of them must be longer than 64·T1 = 32 s. Longer: more requests in each.
const GENERATION_SHIFT: u32 = 34;

/// Bits of a request, six bits of the hash each, from the highest on.
const BITS: u32 = 3;

/// A view of the filter's memory.
#[derive(Debug, Clone, Copy)]
pub struct ServedFilter<'a> {
    words: &'a [AtomicU64],
    mask: usize,
}

impl<'a> ServedFilter<'a> {
    /// The filter in `words`; `None` if they are no power of two of lines.
    #[must_use]
    pub const fn new(words: &'a [AtomicU64]) -> Option<Self> {
        let lines = words.len() / GENERATIONS;
        if !words.len().is_multiple_of(GENERATIONS) || !lines.is_power_of_two() {
            return None;
        }
        Some(Self { words, mask: lines - 1 })
    }

    /// Enters a request that the server gets now, by the hash of its beginning.
    pub fn insert(&self, hash: u64, now: Nanos) {
        let bits = bits_of(hash);
        let line = self.line(hash);
        // Without a look first, the line would be taken from all who read it.
        if let Some(word) = line.get(generation_of(now))
            && word.load(Ordering::Relaxed) & bits != bits
        {
            word.fetch_or(bits, Ordering::Relaxed);
        }
    }

    /// False: the server has not got it since two generations ago.
    #[must_use]
    pub fn may_contain(&self, hash: u64) -> bool {
        let bits = bits_of(hash);
        self.line(hash).iter().any(|word| word.load(Ordering::Relaxed) & bits == bits)
    }

    /// Clears the generation that comes next. To be called once in each; [`Self::generation_at`] says when.
    pub fn clear_next(&self, now: Nanos) {
        let next = (generation_of(now) + 1) % GENERATIONS;
        for word in self.words.iter().skip(next).step_by(GENERATIONS) {
            if word.load(Ordering::Relaxed) != 0 {
                word.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Counts the generations, from the clock's beginning on.
    #[must_use]
    pub const fn generation_at(now: Nanos) -> u64 {
        now >> GENERATION_SHIFT
    }

    fn line(&self, hash: u64) -> &'a [AtomicU64] {
        let first = (hash as usize & self.mask) * GENERATIONS;
        // Inside by the mask.
        self.words.get(first..first + GENERATIONS).unwrap_or(&[])
    }
}

fn bits_of(hash: u64) -> u64 {
    (1..=BITS).fold(0, |bits, number| bits | 1 << (hash >> (u64::BITS - 6 * number) & 63))
}

/// The number of the generation at a time.
const fn generation_of(now: Nanos) -> usize {
    ServedFilter::generation_at(now) as usize % GENERATIONS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NANOS_PER_S;

    fn memory(lines: usize) -> Vec<AtomicU64> {
        (0..lines * GENERATIONS).map(|_| AtomicU64::new(0)).collect()
    }

    /// Distinct, and spread over all bits.
    fn hash(number: u64) -> u64 {
        let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    #[test]
    fn a_request_is_seen_for_as_long_as_its_client_sends_copies_and_then_forgotten() {
        for begin_s in [0, 5, 17, 100, 4_000_000] {
            let words = memory(128);
            let filter = ServedFilter::new(&words).expect("a power of two");
            let entered = begin_s * NANOS_PER_S;
            filter.insert(hash(7), entered);
            let mut cleared = None;
            for later_ms in (0..120_000).step_by(250) {
                let now = entered + later_ms * 1_000_000;
                let generation = Some(ServedFilter::generation_at(now));
                if cleared != generation {
                    filter.clear_next(now);
                    cleared = generation;
                }
                let seen = filter.may_contain(hash(7));
                assert!(seen || later_ms > 34_000, "lost after {later_ms} ms");
                assert!(!seen || later_ms < 52_000, "still there after {later_ms} ms");
            }
        }
    }

    #[test]
    fn nothing_that_is_in_it_is_missed_and_few_others_are_seen() {
        let lines = 4096;
        let words = memory(lines);
        let filter = ServedFilter::new(&words).expect("a power of two");
        let entered = 3 * lines as u64;
        // As many as lines in each of three generations.
        for number in 0..entered {
            filter.insert(hash(number), (number / lines as u64) << GENERATION_SHIFT);
        }
        assert!((0..entered).all(|number| filter.may_contain(hash(number))));
        let others = 100_000;
        let seen = (entered..entered + others).filter(|number| filter.may_contain(hash(*number))).count();
        assert!(seen < others as usize / 50, "{seen} of {others}");
    }

    #[test]
    fn memory_of_another_size_is_no_filter() {
        assert!(ServedFilter::new(&memory(3)).is_none());
        assert!(ServedFilter::new(&memory(4)[1..]).is_none());
        assert!(ServedFilter::new(&[]).is_none());
    }
}
