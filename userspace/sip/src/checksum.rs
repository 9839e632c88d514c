//! The Internet checksum (RFC 1071), computed once and in pieces.
//!
//! A sum is kept unfolded and in the machine's byte order, which RFC 1071 section 2(B) allows: the sum of
//! byte-swapped words is the byte-swapped sum. A piece that stands at an odd offset of what is summed adds its
//! byte-swapped sum, so bytes may move by an odd distance and need not be summed again.

use crate::wire::PROTOCOL_UDP;

/// An unfolded one's complement sum of 16-bit words in the machine's byte order.
///
/// INVARIANT: what is summed is bytes of one packet, so a sum is less than 2^46 and a handful of them cannot
/// overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum(u64);

impl Sum {
    /// The sum of bytes that begin at an even offset.
    #[inline]
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let (blocks, tail) = bytes.as_chunks::<32>();
        let mut sum = if blocks.is_empty() { 0 } else { sum_blocks(blocks) };
        let (words, tail) = tail.as_chunks::<4>();
        for word in words {
            sum += u64::from(u32::from_ne_bytes(*word));
        }
        if !tail.is_empty() {
            let mut last = [0; 4];
            last[..tail.len()].copy_from_slice(tail);
            sum += u64::from(u32::from_ne_bytes(last));
        }
        Self(sum)
    }

    /// Adds a piece that stands at an even offset.
    pub(crate) fn and(self, piece: Self) -> Self {
        Self(self.0 + piece.0)
    }

    /// Adds a piece that stands at `offset`.
    pub(crate) fn and_at(self, offset: usize, piece: Self) -> Self {
        if offset.is_multiple_of(2) {
            return self.and(piece);
        }
        Self(self.0 + u64::from(fold(piece.0).swap_bytes()))
    }

    /// Adds one 16-bit number.
    pub(crate) fn and_number(self, number: u16) -> Self {
        Self(self.0 + u64::from(number.to_be()))
    }

    /// The sum as a 16-bit number; never 0 unless every byte was.
    pub(crate) fn folded(self) -> u16 {
        u16::from_be(fold(self.0))
    }

    /// The checksum: what makes the sum all ones.
    pub(crate) fn checksum(self) -> u16 {
        !self.folded()
    }
}

/// Eight lanes of 64 bits that take 32-bit words: additions overlap and fit into wide registers, and no carry is
/// lost.
fn sum_blocks(blocks: &[[u8; 32]]) -> u64 {
    let mut lanes = [0u64; 8];
    for block in blocks {
        let (words, _) = block.as_chunks::<4>();
        for i in 0..8 {
            lanes[i] += u64::from(u32::from_ne_bytes(words[i]));
        }
    }
    lanes.iter().sum()
}

/// The sum of UDP's pseudo-header (RFC 768, RFC 8200 section 8.1). `addresses` are the two addresses as they
/// stand side by side in the IP header; the padding and the upper half of IPv6's length add nothing.
pub(crate) fn pseudo_header(addresses: &[u8], udp_len: u16) -> Sum {
    Sum::of(addresses).and_number(u16::from(PROTOCOL_UDP)).and_number(udp_len)
}

/// Adds the carries back until 16 bits are left.
const fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    sum as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 1071 section 4.1, word by word.
    fn naive(bytes: &[u8]) -> u16 {
        bytes.chunks(2).fold(0u16, |sum, pair| {
            let word = u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
            let (sum, carry) = sum.overflowing_add(word);
            sum + u16::from(carry)
        })
    }

    #[test]
    fn the_example_of_rfc_1071_section_3_adds_up() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::of(&bytes).folded(), 0xddf2);
        assert_eq!(Sum::of(&bytes).checksum(), 0x220d);
    }

    #[test]
    fn all_ones_do_not_overflow_at_the_longest_datagram() {
        assert_eq!(Sum::of(&[0xff; 65_535]).folded(), naive(&[0xff; 65_535]));
        assert_eq!(Sum::of(&[]).checksum(), 0xffff);
    }

    proptest! {
        #[test]
        fn the_wide_sum_is_the_narrow_sum(bytes in prop::collection::vec(any::<u8>(), 0..700)) {
            prop_assert_eq!(Sum::of(&bytes).folded(), naive(&bytes));
        }

        #[test]
        fn pieces_at_any_offset_add_up_to_the_whole(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            cuts in (0usize..200, 0usize..200),
            number: u16,
        ) {
            let first = cuts.0.min(cuts.1).min(bytes.len());
            let second = cuts.0.max(cuts.1).min(bytes.len());
            let sum = Sum::of(&bytes[..first])
                .and_at(first, Sum::of(&bytes[first..second]))
                .and_at(second, Sum::of(&bytes[second..]))
                .and_number(number);
            let mut whole = bytes.clone();
            whole.resize(bytes.len().next_multiple_of(2), 0);
            whole.extend_from_slice(&number.to_be_bytes());
            prop_assert_eq!(sum.folded(), naive(&whole));
        }
    }
}
