//! The transaction hash: one number for a request and all its copies, and for nothing else.
//!
//! It covers the source address and every byte of the datagram but leading CR/LF and the marker, because
//! RFC 3261 clients retransmit the same bytes, and because no server compares more than the whole datagram.
//! The kernel computes the same number (`xdp-prog/txn.h`). It is keyed, so that nobody outside can aim at a value,
//! and must never leave the machine (for what does, see `tag`).
//!
//! ```text
//! words      w0   w1   w2  …  w511  | address          each w = high, low: 32 bits each
//! positions   0    1    2  …   511  | 512  513         each position i has two key words k[i] = high, low
//!
//! A = Σ (low(w) + low(k[i])) · (high(w) + high(k[i]))       sums inside modulo 2^32, products and Σ modulo 2^64
//! B = the same with k[i + 1] in place of k[i]
//! hash = SipHash-1-3(A, B, length) ^ service · constant
//! ```
//!
//! RFC 3261 matches a copy with its original within one server (section 17.2.3), so the number of the service (which of
//! the listen addresses) is a part of the hash. It is none of the share of the gate: nodes that share a seed may have
//! their services in different order, and must give the same answer.
//!
//! # Why nobody can aim
//!
//! A is NH, the hash of UMAC, and B its second Toeplitz iteration (Black, Halevi, Krawczyk, Krovetz and Rogaway, "UMAC:
//! fast and secure message authentication", 1999, theorems 4.2 and 5.1; RFC 4418). For any two different inputs of one
//! length, chosen without the key, (A, B) is the same for at most one key in 2^64. So it is not a matter of statistics
//! or of what differences somebody tries: for no pair of requests there is more to win, and a pair from two addresses
//! is one of them, since the address is a part of the input. Inputs of two lengths, and unequal (A, B), meet only if
//! the finishing pseudo-random function maps two inputs to one number, which is another 2^-64. It also hides the sums,
//! so that whoever learned hashes could not solve for the key.
//!
//! Together: a request is taken for one of n others that are remembered with probability n · 2^-63 at most, before the
//! table cuts the hash (`overload::transactions` says what that adds). The key words are drawn from the seed by
//! SipHash-2-4 in counter mode, so all this holds as far as SipHash is a pseudo-random function.
//!
//! Datagrams longer than 4096 bytes never meet the XDP program; their hash is SipHash-2-4 of address and bytes.

use std::net::IpAddr;

use crate::siphash::SipHash;
use crate::start_line::Marker;

/// Bytes that the sums have key words for.
const SUMMED_LEN_MAX: usize = 4096;
/// Positions of the key: the words of the datagram, two of the address, one that the last of them shares with B, five
/// that fill up the XDP program's last step, two of the finisher.
const KEY_POSITIONS: usize = SUMMED_LEN_MAX / 8 + 10;
/// Where the words of the address stand.
pub(crate) const ADDRESS_POSITION: usize = SUMMED_LEN_MAX / 8;
/// Where the key of the finisher stands.
const FINISHER_POSITION: usize = KEY_POSITIONS - 2;

/// Words of a [`TransactionKey`] (`HASH_KEY_WORDS` in `xdp-prog/maps.h`).
pub const HASH_KEY_WORDS: usize = 2 * KEY_POSITIONS;

/// Its multiples tell services apart in all bits that matter, those of the transaction table's fingerprint.
const SERVICE_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// Separates the share of the gate from the other uses of the transaction hash.
const SHARE_SALT: u64 = 0x9e37_79b9_7f4a_7c15;

// What the seed's hash begins with, one word for each use. The tag's first word is a length, which none of these is.
const KEY_SALT: u64 = 0x7478_6e2d_6b65_7921;
const LONG_SALT: u64 = 0x7478_6e2d_6c6f_6e67;
const ADDRESS_SALT: u64 = 0x736f_7572_6365_2d21;
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

impl Seed {
    /// The hash that all keys come from, and everything that is not computed for each packet.
    pub(crate) const fn hasher(&self) -> SipHash<2, 4> {
        let [seed0, seed1, seed2, seed3] = self.0;
        SipHash::new(seed0 ^ seed2.rotate_left(32), seed1 ^ seed3.rotate_left(32))
    }

    /// The same, begun with the word of a use.
    fn hasher_for(&self, salt: u64) -> SipHash<2, 4> {
        let mut hasher = self.hasher();
        hasher.write(&salt.to_le_bytes());
        hasher
    }
}

/// The key of the transaction hash, expanded from a seed. Four kilobytes: make it once.
#[derive(Clone, PartialEq, Eq)]
pub struct TransactionKey {
    seed: Seed,
    words: [u32; HASH_KEY_WORDS],
}

impl std::fmt::Debug for TransactionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TransactionKey(secret)")
    }
}

impl TransactionKey {
    /// The key of a seed.
    #[must_use]
    pub fn new(seed: &Seed) -> Self {
        let mut words = [0; HASH_KEY_WORDS];
        for (number, [low, high]) in (0_u64..).zip(words.as_chunks_mut::<2>().0) {
            let mut hasher = seed.hasher_for(KEY_SALT);
            hasher.write(&number.to_le_bytes());
            (*low, *high) = halves_of(hasher.finish());
        }
        Self { seed: *seed, words }
    }

    /// What it was expanded from.
    #[must_use]
    pub const fn seed(&self) -> &Seed {
        &self.seed
    }

    /// As the XDP program has them: of each position the low half, then the high one.
    #[must_use]
    pub const fn words(&self) -> &[u32; HASH_KEY_WORDS] {
        &self.words
    }

    /// The sum of NH over these words, the first of which stands at `position`.
    pub(crate) fn nh(&self, position: usize, words: &[[u8; 8]]) -> u64 {
        let keys = self.words.get(2 * position..).unwrap_or(&[]).as_chunks::<2>().0;
        let products = words.iter().zip(keys).map(|(word, key)| nh_product(*word, *key));
        products.fold(0, u64::wrapping_add)
    }

    fn finisher(&self) -> SipHash<1, 3> {
        let word = |position: usize| {
            u64::from(self.words[2 * position]) | u64::from(self.words[2 * position + 1]) << 32
        };
        SipHash::new(word(FINISHER_POSITION), word(FINISHER_POSITION + 1))
    }
}

/// The hash of a request from `source` to the service with this number, never 0.
///
/// `start` is the offset of the first byte that is not CR or LF, `marker` the marker of the same datagram. An
/// offset outside the datagram cuts nothing out.
#[must_use]
pub fn transaction_hash(
    key: &TransactionKey,
    source: IpAddr,
    service: u8,
    datagram: &[u8],
    start: usize,
    marker: Option<Marker>,
) -> u64 {
    let address = address_bytes(source);
    let (front, back) = canonical_parts(datagram, start, marker);
    if front.len() + back.len() > SUMMED_LEN_MAX {
        let mut hasher = key.seed.hasher_for(LONG_SALT);
        [&address, front, back].iter().for_each(|part| hasher.write(part));
        return nonzero(at_service(hasher.finish(), service));
    }
    let mut sums = Sums::new(&key.words, ADDRESS_POSITION);
    sums.words(address.as_chunks().0);
    sums.position = 0;
    sums.parts(front, back);
    let mut finisher = key.finisher();
    finisher.write(&sums.a.to_le_bytes());
    finisher.write(&sums.b.to_le_bytes());
    // Seven bytes, so that it fits the last word beside the length of the finisher's input.
    finisher.write(&((front.len() + back.len()) as u64).to_le_bytes()[..7]);
    nonzero(at_service(finisher.finish(), service))
}

/// An address as the sums have it, IPv4 as `::ffff:a.b.c.d`.
pub(crate) const fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The product of NH: of both halves of a word, with a key word added to each.
#[inline]
fn nh_product(word: [u8; 8], [key_low, key_high]: [u32; 2]) -> u64 {
    let (low, high) = halves_of(u64::from_le_bytes(word));
    u64::from(low.wrapping_add(key_low)) * u64::from(high.wrapping_add(key_high))
}

/// The hash at a service; applied twice it is the hash again.
const fn at_service(hash: u64, service: u8) -> u64 {
    hash ^ (service as u64).wrapping_mul(SERVICE_FACTOR)
}

/// The number that the gate compares with its threshold. The same at every service, whose numbers differ between nodes
/// that share a seed.
#[must_use]
pub const fn share_hash(txn_hash: u64, service: u8) -> u32 {
    (mix64(at_service(txn_hash, service) ^ SHARE_SALT) >> 32) as u32
}

/// The hash of a Call-ID's value, never 0.
pub(crate) fn hash_call_id(seed: &Seed, value: &[u8]) -> u64 {
    let mut hasher = seed.hasher_for(CALL_SALT);
    hasher.write(value);
    nonzero(hasher.finish())
}

/// A keyed hash of a peer, never 0. `kind` tells uses apart. An IPv6 peer is its /64: a single host may take any
/// address in it (RFC 4291 section 2.5.4).
#[must_use]
pub fn address_key(seed: &Seed, peer: IpAddr, kind: u32) -> u64 {
    let mut hasher = seed.hasher_for(ADDRESS_SALT);
    hasher.write(&kind.to_le_bytes());
    match peer.to_canonical() {
        IpAddr::V4(v4) => hasher.write(&v4.octets()),
        IpAddr::V6(v6) => hasher.write(&v6.octets()[..8]),
    }
    nonzero(hasher.finish())
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

/// The lower and the upper half.
const fn halves_of(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// A and B on their way.
struct Sums<'a> {
    key: &'a [u32; HASH_KEY_WORDS],
    /// Of the next word.
    position: usize,
    a: u64,
    b: u64,
}

impl<'a> Sums<'a> {
    const fn new(key: &'a [u32; HASH_KEY_WORDS], position: usize) -> Self {
        Self { key, position, a: 0, b: 0 }
    }

    #[inline]
    fn words(&mut self, words: &[[u8; 8]]) {
        let keys = self.key.get(2 * self.position..).unwrap_or(&[]);
        let keys_of_b = keys.get(2..).unwrap_or(&[]);
        let keys = keys.as_chunks::<2>().0.iter().zip(keys_of_b.as_chunks::<2>().0);
        for (word, (key, key_of_b)) in words.iter().zip(keys) {
            self.a = self.a.wrapping_add(nh_product(*word, *key));
            self.b = self.b.wrapping_add(nh_product(*word, *key_of_b));
        }
        self.position += words.len();
    }

    /// `front` and `back` as if they stood side by side.
    fn parts(&mut self, front: &[u8], back: &[u8]) {
        let (words, tail) = front.as_chunks::<8>();
        self.words(words);
        // The word across the seam: the front's last bytes, filled up with the back's first ones.
        let (filling, rest) = back.split_at(back.len().min((8 - tail.len()) % 8));
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        word[tail.len()..tail.len() + filling.len()].copy_from_slice(filling);
        if !tail.is_empty() {
            self.words(&[word]);
        }
        let (words, tail) = rest.as_chunks::<8>();
        self.words(words);
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        if !tail.is_empty() {
            self.words(&[word]);
        }
    }
}

#[cfg(test)]
mod tests;
