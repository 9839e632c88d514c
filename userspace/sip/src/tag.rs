//! The To tag of our own refusals: a MAC of the request, so that no state is kept and every ACK to one of
//! them is known again.
//!
//! RFC 3261 section 8.2.7 asks for a tag that is the same for every copy of a request. It covers what a client
//! must repeat in the ACK of a refusal (section 17.1.1.3): Call-ID, the From tag, the CSeq number and the
//! branch of the top Via. Tags are sent to strangers, so unlike the transaction hash this is SipHash-2-4
//! (Aumasson and Bernstein, 2012), from whose output the key cannot be computed.

use crate::txn::Seed;

/// Characters of a tag: 64 bits, five to a character.
pub(crate) const TAG_LEN: usize = 13;

/// Characters that stand for five bits. Lower case only, because tokens are compared without case (RFC 3261
/// section 7.3.1) and some peers change it.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// What the tag of a refusal is computed from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TagInput<'a> {
    pub(crate) call_id: &'a [u8],
    /// Empty if From has no tag.
    pub(crate) from_tag: &'a [u8],
    pub(crate) cseq_number: &'a [u8],
    /// Empty if the top Via has no branch.
    pub(crate) branch: &'a [u8],
}

impl TagInput<'_> {
    /// The MAC.
    pub(crate) fn mac(&self, seed: &Seed) -> u64 {
        // Half of the seed each, mixed with the other half, so that the key is not one of the hash's words.
        let [seed0, seed1, seed2, seed3] = seed.0;
        let mut mac = SipHash::new(seed0 ^ seed2.rotate_left(32), seed1 ^ seed3.rotate_left(32));
        for part in [self.call_id, self.from_tag, self.cseq_number, self.branch] {
            // The length in front keeps bytes from wandering between the parts.
            mac.write(&(part.len() as u64).to_le_bytes());
            mac.write(part);
        }
        mac.finish()
    }
}

/// A MAC as a tag.
pub(crate) fn tag_of(mut mac: u64) -> [u8; TAG_LEN] {
    std::array::from_fn(|_| {
        let character = ALPHABET[(mac & 31) as usize];
        mac >>= 5;
        character
    })
}

/// SipHash with two rounds for each word and four at the end.
struct SipHash {
    state: [u64; 4],
    /// Bytes that do not fill a word yet, from the lowest on.
    pending: u64,
    len: usize,
}

impl SipHash {
    fn new(k0: u64, k1: u64) -> Self {
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
        self.rounds(2);
        self.state[0] ^= word;
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.pending |= u64::from(*byte) << (8 * (self.len % 8));
            self.len += 1;
            if self.len.is_multiple_of(8) {
                let word = std::mem::take(&mut self.pending);
                self.word(word);
            }
        }
    }

    fn finish(mut self) -> u64 {
        self.word(self.pending | (self.len as u64) << 56);
        self.state[2] ^= 0xff;
        self.rounds(4);
        self.state.iter().fold(0, |hash, word| hash ^ word)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[expect(deprecated, reason = "the standard library's SipHash-2-4 is the oracle")]
    fn standard(k0: u64, k1: u64, bytes: &[u8]) -> u64 {
        use std::hash::{Hasher, SipHasher};
        let mut hasher = SipHasher::new_with_keys(k0, k1);
        hasher.write(bytes);
        hasher.finish()
    }

    #[test]
    fn the_vector_of_the_paper_comes_out() {
        let bytes: [u8; 15] = std::array::from_fn(|i| u8::try_from(i).unwrap());
        let mut hash = SipHash::new(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        hash.write(&bytes);
        assert_eq!(hash.finish(), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn bytes_that_wander_between_the_parts_make_another_tag() {
        let seed = Seed([1, 2, 3, 4]);
        let input = TagInput { call_id: b"ab", from_tag: b"c", cseq_number: b"1", branch: b"z9hG4bK1" };
        let tag_with = |input: TagInput<'_>, seed: &Seed| tag_of(input.mac(seed));
        let tag = tag_with(input, &seed);
        assert_ne!(tag_with(TagInput { call_id: b"a", from_tag: b"bc", ..input }, &seed), tag);
        assert_ne!(tag_with(TagInput { branch: b"z9hG4bK2", ..input }, &seed), tag);
        assert_ne!(tag_with(TagInput { cseq_number: b"2", ..input }, &seed), tag);
        for i in 0..4 {
            let mut other = seed;
            other.0[i] ^= 1;
            assert_ne!(tag_with(input, &other), tag, "word {i} of the seed");
        }
        assert!(tag.iter().all(u8::is_ascii_alphanumeric));
    }

    proptest! {
        #[test]
        fn the_hash_is_that_of_the_standard_library(
            keys: (u64, u64),
            bytes in prop::collection::vec(any::<u8>(), 0..80),
            cut in 0usize..80,
        ) {
            let mut hash = SipHash::new(keys.0, keys.1);
            let (front, back) = bytes.split_at(cut.min(bytes.len()));
            hash.write(front);
            hash.write(back);
            prop_assert_eq!(hash.finish(), standard(keys.0, keys.1, &bytes));
        }
    }
}
