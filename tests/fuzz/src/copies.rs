//! Whether the transaction table tells copies from originals: over many requests, each of its own, none may pass for a
//! copy; and the copies that clients of RFC 3261 send must be known.
//!
//! Requests come at the rate that keeps half of the default table in use, so that what is known is known at the load that
//! the table is made for. No kernel and no clock: time is counted.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::AtomicU64;

use overload::{Entered, SLOTS, TransactionState, TransactionTable};
use sip::{Seed, TransactionKey, transaction_hash};

/// 16 MiB, the default of `transactions.memory_mib`.
const BUCKETS: usize = 1 << 18;
/// A transaction is remembered for 32 s: so many a second fill half of the table.
pub const REQUESTS_PER_S: u64 = (BUCKETS * SLOTS / 2) as u64 / 32;
/// One request in so many sends all copies of its client's timer.
const COPIED: u64 = 64;
/// When timer E sends them, milliseconds after the original (RFC 3261 section 17.1.2.2).
const TIMER_E_MS: [u64; 10] = [500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500];

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Requests, each different from all others, that were taken for copies.
    pub false_copies: u64,
    /// Transactions forgotten early.
    pub evicted: u64,
    /// Copies sent.
    pub copies: u64,
    /// Copies known.
    pub known: u64,
}

/// A request whose branch, Call-ID and source carry its number.
struct Requests {
    text: Vec<u8>,
    places: Vec<usize>,
}

impl Requests {
    fn new() -> Self {
        let text = b"INVITE sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 198.51.100.7;branch=z9hG4bK0000000000\r\n\
            Max-Forwards: 70\r\nFrom: <sip:alice@example.net>;tag=1\r\nTo: <sip:bob@example.com>\r\n\
            Call-ID: 0000000000\r\nCSeq: 1 INVITE\r\nContact: <sip:alice@198.51.100.7>\r\nContent-Length: 0\r\n\r\n"
            .to_vec();
        let places = text.windows(10).enumerate().filter(|(_, window)| *window == b"0000000000");
        let places = places.map(|(place, _)| place).collect();
        Self { text, places }
    }

    /// The hash of one of them: neighbours differ in one byte or two, the hardest case.
    fn hash(&mut self, key: &TransactionKey, number: u64) -> u64 {
        let mut rest = number;
        for digit in (0..10).rev() {
            for place in &self.places {
                self.text[place + digit] = b'0' + (rest % 10) as u8;
            }
            rest /= 10;
        }
        let source = Ipv4Addr::from(0x0a00_0000 | (number as u32 & 0xffff));
        transaction_hash(key, IpAddr::V4(source), 0, &self.text, 0, None)
    }
}

/// Offers so many requests under a hash of this seed.
///
/// # Panics
///
/// Never: the table is a power of two of buckets.
#[must_use]
pub fn run(requests: u64, seed: u64) -> Tally {
    let memory: Vec<AtomicU64> = std::iter::repeat_with(|| AtomicU64::new(0)).take(BUCKETS * SLOTS).collect();
    let table = TransactionTable::new(&memory).expect("a power of two of buckets");
    let word = |lane: u64| (seed + lane).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let key = TransactionKey::new(&Seed([word(1), word(2), word(3), word(4)]));
    let mut texts = Requests::new();

    let (mut false_copies, mut evicted, mut copies, mut known) = (0_u64, 0_u64, 0_u64, 0_u64);
    // Copies that are still to come, one queue for each step of the timer: in order of time by themselves.
    let mut due: [VecDeque<(u64, u64)>; TIMER_E_MS.len()] = Default::default();
    let mut swept = 0;
    for number in 0..requests {
        let now_ns = number * (1_000_000_000 / REQUESTS_PER_S);
        for queue in &mut due {
            while queue.front().is_some_and(|(at_ns, _)| *at_ns <= now_ns) {
                let Some((at_ns, hash)) = queue.pop_front() else { break };
                copies += 1;
                known += u64::from(table.recall(hash, at_ns).is_some());
            }
        }
        let hash = texts.hash(&key, number);
        false_copies += u64::from(table.recall(hash, now_ns).is_some());
        evicted += u64::from(table.settle(hash, TransactionState::HandedOver, now_ns) == Entered::Evicted);
        if number % COPIED == 0 {
            for (queue, after_ms) in due.iter_mut().zip(TIMER_E_MS) {
                queue.push_back((now_ns + after_ms * 1_000_000, hash));
            }
        }
        // As the main thread of an instance does: all of it once in 64 s.
        if number % 4096 == 0 {
            let end = swept + BUCKETS / 512;
            let _live = table.sweep(swept..end.min(BUCKETS), now_ns);
            swept = if end >= BUCKETS { 0 } else { end };
        }
    }
    Tally { false_copies, evicted, copies, known }
}

#[cfg(test)]
mod tests {
    use super::run;

    #[test]
    fn no_request_passes_for_a_copy_and_every_copy_is_known_at_half_load() {
        // More than the 32 s in which the table fills to half.
        let tally = run(1_300_000, 7);
        assert_eq!((tally.false_copies, tally.evicted), (0, 0));
        assert!(tally.copies > 130_000 && tally.known == tally.copies, "{tally:?}");
    }
}
