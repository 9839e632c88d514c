//! The transaction hash: one number for a request and all its copies, and for nothing else.
//!
//! It covers the source address and every byte of the datagram but leading CR/LF and the marker, because
//! RFC 3261 clients retransmit the same bytes, and because no server compares more than the whole datagram.
//! The kernel computes the same number (`xdp-prog/hash.h`); the two lanes exist because one chain of
//! multiplications would wait for itself. It is keyed, so that nobody outside can aim at a value; it is no
//! cryptographic hash and must never leave the machine (for what does, see `tag`).
//!
//! ```text
//! words   w0  w1  w2  w3  w4 …          lane a: a = rotl((a ^ w) * K1, 29)   even words
//! lanes   a   b   a   b   a             lane b: b = rotl((b ^ w) * K2, 31)   odd words
//! ```

use std::net::IpAddr;

use crate::start_line::Marker;

/// Separates the share of the gate from the other uses of the transaction hash.
const SHARE_SALT: u64 = 0x9e37_79b9_7f4a_7c15;
/// Multiplies the length into the result, so that trailing zero bytes count.
const LENGTH_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// Stands where a source address would, so that the key of an address is not a datagram's hash.
const ADDRESS_SALT: u64 = 0x736f_7572_6365_2d21;
/// Stands where a source address would, so that a Call-ID's hash is not a datagram's.
const CALL_SALT: u64 = 0x6361_6c6c_2d69_6421;

/// The secret of a front-end, or of a group of front-ends that share traffic. Drawn at start; nodes with the
/// same seed give the same answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub [u64; 4]);

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(secret)")
    }
}

/// The hash of a request from `source`, never 0.
///
/// `start` is the offset of the first byte that is not CR or LF, `marker` the marker of the same datagram. An
/// offset outside the datagram cuts nothing out.
#[must_use]
pub fn transaction_hash(
    seed: &Seed,
    source: IpAddr,
    datagram: &[u8],
    start: usize,
    marker: Option<Marker>,
) -> u64 {
    let address = match source {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    let (front, back) = canonical_parts(datagram, start, marker);
    let (high, low) = words_of(&address);
    nonzero(hash_parts(seed, high, low, front, back))
}

/// The number that the gate compares with its threshold.
#[must_use]
pub const fn share_hash(txn_hash: u64) -> u32 {
    (mix64(txn_hash ^ SHARE_SALT) >> 32) as u32
}

/// The hash of a Call-ID's value, never 0.
pub(crate) fn hash_call_id(seed: &Seed, value: &[u8]) -> u64 {
    nonzero(hash_parts(seed, CALL_SALT, 0, value, &[]))
}

/// A keyed hash of a peer, never 0. `kind` tells uses apart. An IPv6 peer is its /64: a single host may take any
/// address in it (RFC 4291 section 2.5.4).
#[must_use]
pub fn address_key(seed: &Seed, peer: IpAddr, kind: u8) -> u64 {
    let low = u64::from(kind);
    nonzero(match peer.to_canonical() {
        IpAddr::V4(v4) => hash_parts(seed, ADDRESS_SALT, low, &v4.octets(), &[]),
        IpAddr::V6(v6) => hash_parts(seed, ADDRESS_SALT, low, &v6.octets()[..8], &[]),
    })
}

/// The message without leading line ends, in front of and behind the marker.
pub(crate) fn canonical_parts(datagram: &[u8], start: usize, marker: Option<Marker>) -> (&[u8], &[u8]) {
    let whole = datagram.get(start..).unwrap_or(&[]);
    let cut = marker.and_then(|marker| {
        let front = usize::from(marker.offset).checked_sub(start)?;
        Some((whole.get(..front)?, whole.get(front + usize::from(marker.len)..)?))
    });
    cut.unwrap_or((whole, &[]))
}

/// The final mixing of MurmurHash3's 64-bit variant.
pub(crate) const fn mix64(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

const fn nonzero(hash: u64) -> u64 {
    if hash == 0 { 1 } else { hash }
}

/// Two little-endian words.
const fn words_of(block: &[u8; 16]) -> (u64, u64) {
    let both = u128::from_le_bytes(*block);
    (both as u64, (both >> 64) as u64)
}

struct Lanes {
    a: u64,
    b: u64,
    k1: u64,
    k2: u64,
}

impl Lanes {
    #[inline]
    fn even(&mut self, word: u64) {
        self.a = (self.a ^ word).wrapping_mul(self.k1).rotate_left(29);
    }

    #[inline]
    fn odd(&mut self, word: u64) {
        self.b = (self.b ^ word).wrapping_mul(self.k2).rotate_left(31);
    }

    #[inline]
    fn blocks(&mut self, blocks: &[[u8; 16]]) {
        for block in blocks {
            let (even, odd) = words_of(block);
            self.even(even);
            self.odd(odd);
        }
    }
}

/// Hashes `front` and `back` as if they stood side by side.
fn hash_parts(seed: &Seed, high: u64, low: u64, front: &[u8], back: &[u8]) -> u64 {
    let [seed0, seed1, seed2, seed3] = seed.0;
    let mut lanes = Lanes { a: seed0 ^ high, b: seed1 ^ low, k1: seed2 | 1, k2: seed3 | 1 };

    let (blocks, tail) = front.as_chunks::<16>();
    lanes.blocks(blocks);
    // The block across the seam: the front's last bytes, filled up with the back's first ones. It stays
    // short only if the back ends in it.
    let (filling, rest) = back.split_at(back.len().min((16 - tail.len()) % 16));
    let mut filled = tail.len() + filling.len();
    let mut block = [0; 16];
    block[..tail.len()].copy_from_slice(tail);
    block[tail.len()..filled].copy_from_slice(filling);
    if filled % 16 == 0 {
        lanes.blocks(&[block][..filled / 16]);
        let (blocks, tail) = rest.as_chunks::<16>();
        lanes.blocks(blocks);
        filled = tail.len();
        block = [0; 16];
        block[..filled].copy_from_slice(tail);
    }
    let (even, odd) = words_of(&block);
    if filled > 0 {
        lanes.even(even);
    }
    if filled > 8 {
        lanes.odd(odd);
    }

    let len = (front.len() + back.len()) as u64;
    mix64(lanes.a ^ lanes.b.rotate_left(32) ^ len.wrapping_mul(LENGTH_FACTOR))
}

#[cfg(test)]
mod tests;
