//! The transaction table: which requests were seen lately, and what became of them. It tells a copy from an original
//! where no marker does.
//!
//! The key is a keyed 64-bit hash of source address, service and whole datagram (`sip::transaction_hash`). RFC 3261 clients
//! send the same bytes again, so a copy is what has the same key; if any byte differs it is an original.
//!
//! ```text
//!   hash ──┬─▶ bucket  [slot × 8]  one cache line       slot = fingerprint 42 | state 2 | copies 4 | last 8 | span 8
//!          └─▶ other   [slot × 8]  one cache line
//! ```
//!
//! A request lives in one of two buckets, in the emptier one when it is entered. So the table holds half its slots
//! in use without losing anybody, which one bucket alone would not. Both lie in one page of memory: in a table of many
//! megabytes the page is what misses, in the TLB.
//!
//! # Two writers
//!
//! The memory is shared: the XDP program (`xdp-prog/transactions.h`) looks requests up, counts copies and enters what it
//! sheds; each worker enters and updates what it has received. Each slot is one word that is read once and changed by one
//! compare-and-swap, so a slot never mixes two writers. Ordering between slots does not matter, since no slot refers to
//! anything else.
//!
//! # No state kills a call
//!
//! - Only `shed` and `queued` keep a copy from the server. `queued` is written by the worker that holds the request, and
//!   by it alone; when the request leaves the worker in whatever way, the worker writes `handed_over` or `shed`, or
//!   forgets the request if it was lost. The XDP program enters no request that goes to a ring, since a full ring
//!   could lose it.
//! - `shed` is written only by who refuses the request; not by the XDP program where the answer that is owed cannot be given
//!   because too many are: its client was told nothing. `handed_over` is never turned back into `shed`.
//! - `shed` ends 64·T1 after the request came, as timer J of the refusal would (RFC 3261 section 17.2.2), which starts
//!   once. All copies of a client fall into that time. What comes later, such as a monitor's request that never changes
//!   a byte, is an original and meets the gate as it is then; in the other states each datagram renews the memory.
//! - Two writers may enter the same request at the same time, in two slots. Reading then takes the highest state, so
//!   that a request which the server has got is never answered by sipweir.
//! - A failed compare-and-swap has lost against a newer truth. At worst a copy is not counted, or a request not entered:
//!   then its copy is an original, which costs capacity and no call.
//!
//! # False copies
//!
//! Two requests are confused if 42 bits of fingerprint agree and they meet in a bucket. At most 16 slots are compared, so
//! the chance is at most 16 · 2⁻⁴² = 3.6·10⁻¹² for each original, with the table full; over 100 million originals
//! 0.04 %. Nobody outside can aim at it: whatever two requests somebody chooses, their whole hashes agree
//! for at most one key in 2⁶³ (`sip::txn`).

mod slot;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Nanos;
use slot::Slot;

/// Slots of a bucket.
pub const SLOTS: usize = 8;

/// The bits of the hash below the fingerprint choose the bucket.
pub const BUCKETS_MAX: usize = 1 << 22;

/// Copies that timer A makes within 64·T1 (RFC 3261 section 17.1.1.2).
pub const COPIES_OF_INVITE: u8 = 6;
/// Copies that timer E makes within 64·T1 (RFC 3261 section 17.1.2.2).
pub const COPIES_OF_OTHERS: u8 = 10;

/// What became of a request. A higher number is the better knowledge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TransactionState {
    /// Refused; a copy gets the same answer.
    Shed = 1,
    /// It waits in the front-end; the answer to it will serve its copies, too.
    Queued = 2,
    /// The server has got it; only the server can repair a lost response.
    HandedOver = 3,
}

impl TransactionState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Shed, Self::Queued, Self::HandedOver];
}

/// A request that was seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// What became of it.
    pub state: TransactionState,
    /// Copies within 64·T1, this one included.
    pub copies: u8,
}

/// What entering a request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entered {
    /// It was known, and its state is now right.
    Updated,
    /// It took a free slot.
    New,
    /// It took the slot of the oldest transaction of its buckets.
    Evicted,
    /// Other writers were faster, several times; nothing was entered.
    Lost,
}

/// A view of the table's memory: `SLOTS` words a bucket, a power of two of buckets.
#[derive(Debug, Clone, Copy)]
pub struct TransactionTable<'a> {
    words: &'a [AtomicU64],
    mask: usize,
}

impl<'a> TransactionTable<'a> {
    /// The table in `words`; `None` if they are no power of two of buckets, or too many.
    #[must_use]
    pub const fn new(words: &'a [AtomicU64]) -> Option<Self> {
        let buckets = words.len() / SLOTS;
        if !words.len().is_multiple_of(SLOTS) || !buckets.is_power_of_two() || buckets > BUCKETS_MAX {
            return None;
        }
        Some(Self { words, mask: buckets - 1 })
    }

    /// Asks what is known of a request that has just arrived. If it is known, this is a copy, and it is counted.
    #[must_use]
    pub fn recall(&self, hash: u64, now: Nanos) -> Option<Known> {
        let (word, found) = self.find(hash, now)?;
        let counted = found.with_copy(now);
        // Lost against another writer: one copy is not counted.
        let _seen = word.compare_exchange(found.0, counted.0, Ordering::Relaxed, Ordering::Relaxed);
        Some(Known { state: found.state()?, copies: counted.copies() })
    }

    /// Notes what became of a request, and enters it if it is not known.
    pub fn settle(&self, hash: u64, state: TransactionState, now: Nanos) -> Entered {
        // Smaller: a busy bucket is given up early; larger: a storm of writers keeps this one.
        const TRIES: usize = 4;
        for _ in 0..TRIES {
            if let Some((word, found)) = self.find(hash, now) {
                let settled = found.with_state(state);
                if word.compare_exchange(found.0, settled.0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                    return Entered::Updated;
                }
                continue;
            }
            if let Some(entered) = self.try_to_enter(hash, state, now) {
                return entered;
            }
        }
        Entered::Lost
    }

    /// Enters a request of which [`Self::recall`] has just said that it is not known.
    pub fn enter(&self, hash: u64, state: TransactionState, now: Nanos) -> Entered {
        // Who was faster may have been the same request, so look again.
        self.try_to_enter(hash, state, now).unwrap_or_else(|| self.settle(hash, state, now))
    }

    fn try_to_enter(&self, hash: u64, state: TransactionState, now: Nanos) -> Option<Entered> {
        let (word, least, full) = self.least_worth(hash, now);
        let new = Slot::new(hash, state, now);
        word.compare_exchange(least.0, new.0, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        Some(if full { Entered::Evicted } else { Entered::New })
    }

    /// Forgets a waiting request that was lost, so that its copy is an original again.
    pub fn forget(&self, hash: u64, now: Nanos) {
        if let Some((word, found)) = self.find(hash, now)
            && found.state() == Some(TransactionState::Queued)
        {
            // Lost against a copy that was counted meanwhile: try once more, then let it be.
            if let Err(newer) = word.compare_exchange(found.0, 0, Ordering::Relaxed, Ordering::Relaxed)
                && Slot(newer).is_of(hash)
            {
                let _seen = word.compare_exchange(newer, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    /// Clears what is older than the table's memory in these buckets and counts what is not. Each bucket must be swept
    /// at least every 200 s, since times wrap after 275 s.
    #[must_use]
    pub fn sweep(&self, buckets: std::ops::Range<usize>, now: Nanos) -> usize {
        let words = self.words.get(buckets.start * SLOTS..buckets.end * SLOTS).unwrap_or(&[]);
        let mut live = 0;
        for word in words {
            let slot = Slot(word.load(Ordering::Relaxed));
            if slot.is_live(now) {
                live += 1;
            } else if slot != Slot::EMPTY {
                let _seen = word.compare_exchange(slot.0, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
        live
    }

    /// The words that hold this request now, whatever its age; for tools that replay traffic.
    pub fn slots_of(&self, hash: u64) -> impl Iterator<Item = &'a AtomicU64> {
        let words = self.buckets_of(hash).into_iter().flatten();
        words.filter(move |word| Slot(word.load(Ordering::Relaxed)).is_of(hash))
    }

    /// Where a request is looked for, for who wants to have it in the cache by then.
    #[must_use]
    pub fn buckets_of(&self, hash: u64) -> [&'a [AtomicU64]; 2] {
        [self.bucket(slot::bucket(hash)), self.bucket(slot::other_bucket(hash))]
    }

    /// Buckets.
    #[must_use]
    pub const fn buckets(&self) -> usize {
        self.mask + 1
    }

    fn bucket(&self, index: usize) -> &'a [AtomicU64] {
        let first = (index & self.mask) * SLOTS;
        // Inside by the mask.
        self.words.get(first..first + SLOTS).unwrap_or(&[])
    }

    /// The request's slot; of several the one whose state is highest.
    fn find(&self, hash: u64, now: Nanos) -> Option<(&'a AtomicU64, Slot)> {
        let mut best: Option<(&AtomicU64, Slot)> = None;
        for word in self.buckets_of(hash).into_iter().flatten() {
            let slot = Slot(word.load(Ordering::Relaxed));
            if slot.is_of(hash)
                && slot.is_live(now)
                && best.is_none_or(|(_, other)| slot.state() > other.state())
            {
                best = Some((word, slot));
            }
        }
        best
    }

    /// The slot that is worth least: in the emptier bucket an empty or expired one, or the oldest of both. True: someone
    /// is lost with it.
    fn least_worth(&self, hash: u64, now: Nanos) -> (&'a AtomicU64, Slot, bool) {
        let [first, second] = self.buckets_of(hash).map(|bucket| {
            let (mut used, mut worst) = (0, None);
            for word in bucket {
                let slot = Slot(word.load(Ordering::Relaxed));
                let worthlessness = slot.worthlessness(now);
                used += usize::from(slot::is_worth_keeping(worthlessness));
                // The first of equals.
                if worst.is_none_or(|(_, _, most)| worthlessness > most) {
                    worst = Some((word, slot, worthlessness));
                }
            }
            (worst, used)
        });
        let of = |worst: Option<(_, _, u64)>| worst.map_or(0, |(_, _, worthlessness)| worthlessness);
        let both_full = first.1 == SLOTS && second.1 == SLOTS;
        let second_wins = second.1 < first.1 || (both_full && of(second.0) > of(first.0));
        let (worst, used) = if second_wins { second } else { first };
        let (word, slot, _) = worst.unwrap_or((&self.words[0], Slot::EMPTY, 0));
        (word, slot, used == SLOTS)
    }
}

#[cfg(test)]
mod tests;
