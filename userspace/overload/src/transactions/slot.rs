//! One slot of the transaction table: 64 bits, and what they say. `xdp-prog/transactions.h` has the same bits.

use super::TransactionState;
use crate::Nanos;

const FINGERPRINT_SHIFT: u32 = 22;
const STATE_SHIFT: u32 = 20;
const COPIES_SHIFT: u32 = 16;
const LAST_SHIFT: u32 = 8;
const STATE_MASK: u64 = 3;
const COPIES_MASK: u64 = 15;
const TIME_MASK: u64 = 0xff;

/// Times count in 2^30 ns (1.07 s) and wrap after 275 s.
const TIME_SHIFT: u32 = 30;
/// Units of time after which a request is forgotten: more than 64·T1 = 32 s whatever the rounding.
const AGE_MAX: u64 = 30;

/// What looks as old as this lies in the future: what is older than the sweeps let it become does not exist.
const FUTURE: u64 = 192;

const OTHER_BUCKET_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// The upper six bits of the product choose among the 64 buckets of a page of memory.
const OTHER_BUCKET_SHIFT: u32 = 58;

/// A slot's word. From the upper bits down: fingerprint, state, copies, time of the last datagram, start of the span
/// in which copies are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(pub(super) u64);

impl Slot {
    pub(super) const EMPTY: Self = Self(0);

    /// A request that has just come for the first time.
    pub(super) const fn new(hash: u64, state: TransactionState, now: Nanos) -> Self {
        let time = time_of(now);
        Self(fingerprint(hash) | (state as u64) << STATE_SHIFT | time << LAST_SHIFT | time)
    }

    /// True if the slot may be this request's.
    pub(super) const fn is_of(self, hash: u64) -> bool {
        (self.0 ^ hash) >> FINGERPRINT_SHIFT == 0
    }

    /// `None`: empty.
    pub(super) const fn state(self) -> Option<TransactionState> {
        match self.0 >> STATE_SHIFT & STATE_MASK {
            1 => Some(TransactionState::Shed),
            2 => Some(TransactionState::Queued),
            3 => Some(TransactionState::HandedOver),
            _ => None,
        }
    }

    pub(super) const fn copies(self) -> u8 {
        // Four bits.
        (self.0 >> COPIES_SHIFT & COPIES_MASK) as u8
    }

    /// True while the request is remembered.
    pub(super) const fn is_live(self, now: Nanos) -> bool {
        self.state().is_some() && self.age(now) <= AGE_MAX
    }

    /// Its age, or more than any age if it is empty.
    pub(super) const fn worthlessness(self, now: Nanos) -> u64 {
        if self.state().is_some() { self.age(now) } else { TIME_MASK + 1 }
    }

    /// Since the last datagram; of a refused request since the first of the span, which no copy renews while it is
    /// remembered.
    const fn age(self, now: Nanos) -> u64 {
        let since =
            if matches!(self.state(), Some(TransactionState::Shed)) { self.0 } else { self.0 >> LAST_SHIFT };
        let age = time_of(now).wrapping_sub(since) & TIME_MASK;
        // A worker's time is that of its turn, and the XDP program may have counted a copy since.
        if age >= FUTURE { 0 } else { age }
    }

    /// The slot with one datagram more. Copies are counted anew when the span of a client's timers is over: what
    /// comes then, such as a probe that never changes a byte, is not in excess.
    pub(super) const fn with_copy(self, now: Nanos) -> Self {
        let time = time_of(now);
        let (mut span, mut copies) = (self.0 & TIME_MASK, self.0 >> COPIES_SHIFT & COPIES_MASK);
        if time.wrapping_sub(span) & TIME_MASK > AGE_MAX {
            (span, copies) = (time, 0);
        }
        if copies < COPIES_MASK {
            copies += 1;
        }
        let kept = self.0 & (u64::MAX << STATE_SHIFT);
        Self(kept | copies << COPIES_SHIFT | time << LAST_SHIFT | span)
    }

    /// The slot in a new state, unless the server has got the request, which stays true.
    pub(super) const fn with_state(self, state: TransactionState) -> Self {
        if matches!(self.state(), Some(TransactionState::HandedOver)) {
            return self;
        }
        Self(self.0 & !(STATE_MASK << STATE_SHIFT) | (state as u64) << STATE_SHIFT)
    }
}

/// Whether a slot of that [`Slot::worthlessness`] is live ([`Slot::is_live`]).
pub(super) const fn is_worth_keeping(worthlessness: u64) -> bool {
    worthlessness <= AGE_MAX
}

/// The bucket that a hash leads to, to be cut to the size of the table.
pub(super) const fn bucket(hash: u64) -> usize {
    hash as usize
}

/// The other one. It is found from the first by the fingerprint alone, so that two requests whose fingerprints
/// agree in part do not meet more often for it. It lies in the same page of memory, so that the two cost one miss of
/// the TLB, and the step is odd, so that it is another one.
pub(super) const fn other_bucket(hash: u64) -> usize {
    let step = (hash >> FINGERPRINT_SHIFT).wrapping_mul(OTHER_BUCKET_FACTOR) >> OTHER_BUCKET_SHIFT | 1;
    hash as usize ^ step as usize
}

const fn fingerprint(hash: u64) -> u64 {
    hash >> FINGERPRINT_SHIFT << FINGERPRINT_SHIFT
}

const fn time_of(now: Nanos) -> u64 {
    now >> TIME_SHIFT & TIME_MASK
}
