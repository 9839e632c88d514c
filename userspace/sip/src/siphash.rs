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

    fn byte(&mut self, byte: u8) {
        self.pending |= u64::from(byte) << (8 * (self.len % 8));
        self.len += 1;
        if self.len.is_multiple_of(8) {
            let word = std::mem::take(&mut self.pending);
            self.word(word);
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let to_boundary = self.len.wrapping_neg() % 8;
        let (head, rest) = bytes.split_at(to_boundary.min(bytes.len()));
        let (words, tail) = rest.as_chunks::<8>();
        head.iter().for_each(|byte| self.byte(*byte));
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        self.len += 8 * words.len();
        tail.iter().for_each(|byte| self.byte(*byte));
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

    proptest! {
        #[test]
        fn the_hash_is_that_of_the_standard_library(
            keys: (u64, u64),
            bytes in prop::collection::vec(any::<u8>(), 0..80),
            cut in 0usize..80,
        ) {
            let (front, back) = bytes.split_at(cut.min(bytes.len()));
            let mut hash = SipHash::<2, 4>::new(keys.0, keys.1);
            hash.write(front);
            hash.write(back);
            prop_assert_eq!(hash.finish(), standard(keys.0, keys.1, &bytes));
            // The standard library's default is SipHash-1-3 with a key of zeros.
            let mut hash = SipHash::<1, 3>::new(0, 0);
            hash.write(front);
            hash.write(back);
            let mut default = std::hash::DefaultHasher::new();
            default.write(&bytes);
            prop_assert_eq!(hash.finish(), default.finish());
        }
    }
}
