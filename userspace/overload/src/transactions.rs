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

/// Where a request was entered. Only a hint: by the time it is used, another request may stand there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place(u32);

/// Where a request that is not known would be entered: the slot that is worth least of its two buckets, as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vacancy {
    place: Place,
    seen: Slot,
    /// Someone is lost with it.
    is_taken: bool,
}

/// What is known of a request that has just arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// It is a copy, and it is counted.
    Known(Known),
    /// It is an original.
    Unknown(Vacancy),
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
        match self.look_up(hash, now) {
            Lookup::Known(known) => Some(known),
            Lookup::Unknown(_) => None,
        }
    }

    /// The same, and if it is not known, where [`Self::enter`] finds room for it without another search.
    #[must_use]
    pub fn look_up(&self, hash: u64, now: Nanos) -> Lookup {
        let (found, vacancy) = self.survey(hash, now);
        let Some((word, found)) = found else { return Lookup::Unknown(vacancy) };
        let counted = found.with_copy(now);
        // Lost against another writer: one copy is not counted.
        let _seen = word.compare_exchange(found.0, counted.0, Ordering::Relaxed, Ordering::Relaxed);
        // What is live has a state.
        let state = found.state().unwrap_or(TransactionState::HandedOver);
        Lookup::Known(Known { state, copies: counted.copies() })
    }

    /// Notes what became of a request, and enters it if it is not known.
    pub fn settle(&self, hash: u64, state: TransactionState, now: Nanos) -> Entered {
        // Smaller: a busy bucket is given up early; larger: a storm of writers keeps this one.
        const TRIES: usize = 4;
        for _ in 0..TRIES {
            let (found, vacancy) = self.survey(hash, now);
            if let Some((word, found)) = found {
                let settled = found.with_state(state);
                if word.compare_exchange(found.0, settled.0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                    return Entered::Updated;
                }
            } else if let Some(entered) = self.try_to_enter(vacancy, hash, state, now) {
                return entered;
            }
        }
        Entered::Lost
    }

    /// The same for a request that was entered at this place.
    pub fn settle_at(&self, place: Place, hash: u64, state: TransactionState, now: Nanos) -> Entered {
        let word = self.word(place);
        let found = Slot(word.load(Ordering::Relaxed));
        if found.is_of(hash) && found.is_live(now) {
            let settled = found.with_state(state);
            if word.compare_exchange(found.0, settled.0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return Entered::Updated;
            }
        }
        self.settle(hash, state, now)
    }

    /// Enters a request of which [`Self::look_up`] has just said that it is not known, and where.
    pub fn enter(
        &self,
        vacancy: Vacancy,
        hash: u64,
        state: TransactionState,
        now: Nanos,
    ) -> (Entered, Place) {
        // Who was faster may have been the same request, so look again.
        let entered = self.try_to_enter(vacancy, hash, state, now);
        (entered.unwrap_or_else(|| self.settle(hash, state, now)), vacancy.place)
    }

    fn try_to_enter(
        &self,
        vacancy: Vacancy,
        hash: u64,
        state: TransactionState,
        now: Nanos,
    ) -> Option<Entered> {
        let Vacancy { place, seen, is_taken } = vacancy;
        let new = Slot::new(hash, state, now);
        self.word(place).compare_exchange(seen.0, new.0, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        Some(if is_taken { Entered::Evicted } else { Entered::New })
    }

    /// Forgets a waiting request that was lost, so that its copy is an original again.
    pub fn forget(&self, hash: u64, now: Nanos) {
        if let (Some((word, found)), _) = self.survey(hash, now)
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

    /// The same for a request that was entered at this place.
    #[must_use]
    pub fn memory_of(&self, place: Place) -> &'a AtomicU64 {
        self.word(place)
    }

    fn bucket(&self, index: usize) -> &'a [AtomicU64] {
        let first = self.first_of(index);
        // Inside by the mask.
        self.words.get(first..first + SLOTS).unwrap_or(&[])
    }

    const fn first_of(&self, index: usize) -> usize {
        (index & self.mask) * SLOTS
    }

    fn word(&self, place: Place) -> &'a AtomicU64 {
        // A place comes from a table of this size; the mask is for a hint that does not.
        &self.words[place.0 as usize & (self.mask * SLOTS + SLOTS - 1)]
    }

    /// One look at both buckets: the request's slot, of several the one whose state is highest; and the slot that is worth
    /// least, in the emptier bucket an empty or expired one, or the oldest of both.
    fn survey(&self, hash: u64, now: Nanos) -> (Option<(&'a AtomicU64, Slot)>, Vacancy) {
        let [first, second] = [slot::bucket(hash), slot::other_bucket(hash)]
            .map(|index| Bucket::survey(self.bucket(index), self.first_of(index), hash, now));
        let found = match (first.found, second.found) {
            (Some(one), Some(other)) if other.1.state() > one.1.state() => Some(other),
            (one, other) => one.or(other),
        };
        let both_full = first.used == SLOTS && second.used == SLOTS;
        let second_wins =
            second.used < first.used || (both_full && second.worthlessness > first.worthlessness);
        let Bucket { used, worst: (index, seen), .. } = if second_wins { second } else { first };
        // There are fewer than 2^25 words.
        (found, Vacancy { place: Place(index as u32), seen, is_taken: used == SLOTS })
    }
}

/// What one look at a bucket has shown.
struct Bucket<'a> {
    /// The request's slot.
    found: Option<(&'a AtomicU64, Slot)>,
    /// Slots that are in use.
    used: usize,
    /// The slot that is worth least, and its number in the table.
    worst: (usize, Slot),
    worthlessness: u64,
}

impl<'a> Bucket<'a> {
    /// Looks at these words, the first of which has this number.
    fn survey(words: &'a [AtomicU64], first: usize, hash: u64, now: Nanos) -> Self {
        let mut bucket = Self { found: None, used: 0, worst: (first, Slot::EMPTY), worthlessness: 0 };
        for (number, word) in words.iter().enumerate() {
            let slot = Slot(word.load(Ordering::Relaxed));
            let worthlessness = slot.worthlessness(now);
            let is_used = slot::is_worth_keeping(worthlessness);
            bucket.used += usize::from(is_used);
            // The first of equals.
            if number == 0 || worthlessness > bucket.worthlessness {
                bucket.worst = (first + number, slot);
                bucket.worthlessness = worthlessness;
            }
            let is_found = is_used && slot.is_of(hash);
            if is_found && bucket.found.is_none_or(|(_, other)| slot.state() > other.state()) {
                bucket.found = Some((word, slot));
            }
        }
        bucket
    }
}

#[cfg(test)]
mod tests;
