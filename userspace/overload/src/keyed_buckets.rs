//! A cap for each of many: token buckets under keys, in a table of fixed size.
//!
//! What belongs here: how much each key may have, and what happens when there are more keys than places. What a key
//! stands for (a source address, a destination, a kind of message) and what is done above the cap is the caller's.
//!
//! # A bucket is one number
//!
//! A bucket is kept as the time at which it is full again ("theoretical arrival time", ITU-T I.371). Taking a token moves
//! that time on by the span that one token takes to grow; a token is there while the bucket will be full within the
//! burst. The rate is therefore no part of the bucket and may differ at each call, as a share of a measured rate does.
//!
//! # More keys than places
//!
//! A bucket that is full says nothing, so its place is free. If a set has no such place, a new key takes over the place
//! *and the debt* of the bucket that is full soonest: whoever sends from forged addresses gets no more out of a full set than
//! the set's places times the rate, and at worst a source is held to the cap that another has used up.

use crate::{NANOS_PER_S, Nanos};

/// Places that a key can be at. Smaller: keys share places sooner. Larger: more to search for each message.
const WAYS: usize = 8;

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    key: u64,
    /// When it is full again; in the past for one that is full.
    full_at: Nanos,
}

impl Bucket {
    /// Takes tokens for a key, whose bucket this then is.
    fn take(&mut self, key: u64, tokens: u32, allowance: Allowance, now: Nanos) -> bool {
        let full_at = allowance.spend(self.full_at, tokens, now);
        if let Some(full_at) = full_at {
            *self = Self { key, full_at };
        }
        full_at.is_some()
    }
}

/// How much a key may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Allowance {
    /// Tokens a second. Zero, below zero or not a number gives nothing; infinite gives everything.
    pub per_s: f64,
    /// Tokens at once, as the time in which they grow; never less than one token.
    pub burst_ns: Nanos,
}

/// Token buckets under keys. Nothing is allocated after construction.
#[derive(Debug, Clone)]
pub struct KeyedBuckets {
    /// INVARIANT: a power of two.
    sets: Box<[[Bucket; WAYS]]>,
}

impl KeyedBuckets {
    /// Room for `keys` keys or a few more. Each takes 16 bytes.
    #[must_use]
    pub fn new(keys: usize) -> Self {
        Self {
            sets: vec![[Bucket::default(); WAYS]; keys.div_ceil(WAYS).next_power_of_two()].into_boxed_slice(),
        }
    }

    /// Keys that there is room for.
    #[must_use]
    pub fn places(&self) -> usize {
        self.sets.len() * WAYS
    }

    /// Whether a key has so many tokens now. Takes none.
    #[must_use]
    pub fn has(&self, key: u64, tokens: u32, allowance: Allowance, now: Nanos) -> bool {
        let set = &self.sets[self.set_of(key)];
        allowance.spend(set[place_of(set, key)].full_at, tokens, now).is_some()
    }

    /// Takes `tokens` tokens of a key, all or none; false if they are not there. Zero tokens are always there. Keys
    /// should spread over all 64 bits, as a keyed hash does.
    #[must_use]
    pub fn take(&mut self, key: u64, tokens: u32, allowance: Allowance, now: Nanos) -> bool {
        let set = self.set_of(key);
        let set = &mut self.sets[set];
        set[place_of(set, key)].take(key, tokens, allowance, now)
    }

    /// As [`Self::take`], but a key without a bucket has nothing; [`Self::open`] gives it one.
    #[must_use]
    pub fn take_of_known(&mut self, key: u64, tokens: u32, allowance: Allowance, now: Nanos) -> bool {
        let set = self.set_of(key);
        let known = self.sets[set].iter_mut().find(|bucket| bucket.key == key);
        known.is_some_and(|bucket| bucket.take(key, tokens, allowance, now))
    }

    /// Gives a key a full bucket, in the place of the bucket that is full soonest unless it has one.
    pub fn open(&mut self, key: u64, now: Nanos) {
        let set = self.set_of(key);
        let set = &mut self.sets[set];
        set[place_of(set, key)] = Bucket { key, full_at: now };
    }

    /// The memory that will be read for a key, for who wants to have it in the cache by then.
    pub fn memory_of(&self, key: u64) -> &[impl Sized + use<>] {
        &self.sets[self.set_of(key)]
    }

    const fn set_of(&self, key: u64) -> usize {
        // The number of sets is a power of two.
        (key >> 32) as usize & (self.sets.len() - 1)
    }
}

impl Allowance {
    /// When a bucket will be full again after `tokens` more; `None` if they are not there.
    fn spend(self, full_at: Nanos, tokens: u32, now: Nanos) -> Option<Nanos> {
        if tokens == 0 {
            return Some(full_at);
        }
        if self.per_s.is_nan() || self.per_s <= 0.0 {
            return None;
        }
        // The conversion stops at u64::MAX, which is "never".
        let span = |count: u32| (f64::from(count) * NANOS_PER_S as f64 / self.per_s) as Nanos;
        let later = full_at.max(now).saturating_add(span(tokens));
        (later.saturating_sub(now) <= self.burst_ns.max(span(1))).then_some(later)
    }
}

/// The key's own place, or the one that it would take: that which is full soonest.
fn place_of(set: &[Bucket; WAYS], key: u64) -> usize {
    let known = set.iter().position(|bucket| bucket.key == key);
    known.unwrap_or_else(|| (0..WAYS).min_by_key(|way| set[*way].full_at).unwrap_or(0))
}

#[cfg(test)]
mod tests;
