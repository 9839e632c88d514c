//! SipHash-c-d (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012): `C` rounds for each word of eight
//! bytes, `D` at the end.
//!
//! 2-4 is what the paper proposes, and what is used where a stranger sees the result or where speed is no matter; 1-3 is
//! the hash tables' choice (the standard library's among them) and finishes the transaction hash in the XDP program
//! (`xdp-prog/txn.h`). Here is the function alone; keys and uses are in `txn` and `tag`.

/// A hash under way.
pub(crate) struct SipHash<const C: usize, const D: usize> {
    state: [u64; 4],
    /// Bytes that do not fill a word yet, from the lowest on.
    pending: u64,
    len: usize,
}

impl<const C: usize, const D: usize> SipHash<C, D> {
    pub(crate) const fn new(k0: u64, k1: u64) -> Self {
        let state = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        Self { state, pending: 0, len: 0 }
    }

    fn rounds(&mut self, count: usize) {
        let [v0, v1, v2, v3] = &mut self.state;
        for _ in 0..count {
            *v0 = v0.wrapping_add(*v1);
            *v1 = v1.rotate_left(13) ^ *v0;
            *v0 = v0.rotate_left(32);
            *v2 = v2.wrapping_add(*v3);
            *v3 = v3.rotate_left(16) ^ *v2;
            *v0 = v0.wrapping_add(*v3);
            *v3 = v3.rotate_left(21) ^ *v0;
            *v2 = v2.wrapping_add(*v1);
            *v1 = v1.rotate_left(17) ^ *v2;
            *v2 = v2.rotate_left(32);
        }
    }

    fn word(&mut self, word: u64) {
        self.state[3] ^= word;
        self.rounds(C);
        self.state[0] ^= word;
    }

    /// Appends bytes, a word at a time wherever the last ones ended: what a word has too many for the pending one
    /// is pending next.
    // Inlined, so that the state stays in registers from one call to the next.
    #[inline(always)]
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let pending_bits = 8 * (self.len % 8) as u32;
        let excess_of = |word: u64| word.checked_shr(64 - pending_bits).unwrap_or(0);
        self.len += bytes.len();
        let (words, tail) = bytes.as_chunks::<8>();
        for word in words {
            let word = u64::from_le_bytes(*word);
            self.word(self.pending | word << pending_bits);
            self.pending = excess_of(word);
        }
        let last = tail.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        self.pending |= last << pending_bits;
        if pending_bits + 8 * tail.len() as u32 >= 64 {
            self.word(self.pending);
            self.pending = excess_of(last);
        }
    }

    pub(crate) fn finish(mut self) -> u64 {
        self.word(self.pending | (self.len as u64) << 56);
        self.state[2] ^= 0xff;
        self.rounds(D);
        self.state.iter().fold(0, |hash, word| hash ^ word)
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher as _;

    use proptest::prelude::*;

    use super::SipHash;

    #[expect(deprecated, reason = "the standard library's SipHash-2-4 is the oracle")]
    fn standard(k0: u64, k1: u64, bytes: &[u8]) -> u64 {
        let mut hasher = std::hash::SipHasher::new_with_keys(k0, k1);
        hasher.write(bytes);
        hasher.finish()
    }

    #[test]
    fn the_vector_of_the_paper_comes_out() {
        let bytes: [u8; 15] = std::array::from_fn(|i| u8::try_from(i).unwrap());
        let mut hash = SipHash::<2, 4>::new(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        hash.write(&bytes);
        assert_eq!(hash.finish(), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn a_cut_at_any_two_places_changes_nothing() {
        let bytes: [u8; 40] = std::array::from_fn(|i| 0xff - u8::try_from(i).unwrap());
        for (first, second) in (0..=40).flat_map(|first| (first..=40).map(move |second| (first, second))) {
            let mut hash = SipHash::<2, 4>::new(1, 2);
            [&bytes[..first], &bytes[first..second], &bytes[second..]]
                .iter()
                .for_each(|part| hash.write(part));
            assert_eq!(hash.finish(), standard(1, 2, &bytes), "{first} {second}");
        }
    }

    proptest! {
        #[test]
        fn the_hash_is_that_of_the_standard_library(
            keys: (u64, u64),
            bytes in prop::collection::vec(any::<u8>(), 0..80),
            cuts in prop::array::uniform3(0usize..80),
        ) {
            let mut ends = cuts.map(|cut| cut.min(bytes.len()));
            ends.sort_unstable();
            let parts =
                [&bytes[..ends[0]], &bytes[ends[0]..ends[1]], &bytes[ends[1]..ends[2]], &bytes[ends[2]..]];
            let mut hash = SipHash::<2, 4>::new(keys.0, keys.1);
            parts.iter().for_each(|part| hash.write(part));
            prop_assert_eq!(hash.finish(), standard(keys.0, keys.1, &bytes));
            // The standard library's default is SipHash-1-3 with a key of zeros.
            let mut hash = SipHash::<1, 3>::new(0, 0);
            parts.iter().for_each(|part| hash.write(part));
            let mut default = std::hash::DefaultHasher::new();
            default.write(&bytes);
            prop_assert_eq!(hash.finish(), default.finish());
        }
    }
}
