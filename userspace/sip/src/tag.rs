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
        // Its first word is a length, which no other use of the seed's hash begins with.
        let mut mac = seed.hasher();
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
