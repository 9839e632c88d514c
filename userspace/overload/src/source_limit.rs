//! A cap per source: many token buckets under keys, in a table of fixed size.
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

#[derive(Debug, Clone, Copy)]
struct Bucket {
    key: u64,
    /// When it is full again; in the past for one that is full.
    full_at: Nanos,
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
#[derive(Debug)]
pub struct KeyedBuckets {
    sets: Box<[[Bucket; WAYS]]>,
}

impl KeyedBuckets {
    /// Room for `keys` keys or a few more. Each takes 16 bytes.
    #[must_use]
    pub fn new(keys: usize) -> Self {
        let empty = [Bucket { key: 0, full_at: 0 }; WAYS];
        Self { sets: vec![empty; keys.div_ceil(WAYS).next_power_of_two()].into_boxed_slice() }
    }

    /// Keys that there is room for.
    #[must_use]
    pub fn places(&self) -> usize {
        self.sets.len() * WAYS
    }

    /// Takes `tokens` tokens of a key, all or none; false if they are not there. Zero tokens are always there. Keys
    /// should spread over all 64 bits, as a keyed hash does.
    #[must_use]
    pub fn take(&mut self, key: u64, tokens: u32, allowance: Allowance, now: Nanos) -> bool {
        if tokens == 0 {
            return true;
        }
        if allowance.per_s.is_nan() || allowance.per_s <= 0.0 {
            return false;
        }
        // The conversion stops at u64::MAX, which is "never".
        let span = |count: u32| (f64::from(count) * NANOS_PER_S as f64 / allowance.per_s) as Nanos;
        let bucket = self.bucket(key);
        let full_at = bucket.full_at.max(now).saturating_add(span(tokens));
        let fits = full_at.saturating_sub(now) <= allowance.burst_ns.max(span(1));
        if fits {
            bucket.full_at = full_at;
        }
        fits
    }

    /// The bucket of a key; a new key gets the place that says least.
    fn bucket(&mut self, key: u64) -> &mut Bucket {
        // The number of sets is a power of two.
        let set = (key >> 32) as usize & (self.sets.len() - 1);
        let set = &mut self.sets[set];
        let known = set.iter().position(|bucket| bucket.key == key);
        let place = known.unwrap_or_else(|| {
            let soonest = (0..WAYS).min_by_key(|way| set[*way].full_at).unwrap_or(0);
            set[soonest] = Bucket { key, full_at: set[soonest].full_at };
            soonest
        });
        &mut set[place]
    }
}

#[cfg(test)]
mod tests;
