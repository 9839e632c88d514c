//! Copies among the packets of a run: the transaction table as both classifiers have it, played through as if every
//! request were handed over at once.
//!
//! Time is that of the captures. The program knows only its own clock, so what the captures' time has left behind
//! is taken out of its table by hand.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use afxdp::MappedWords;
use overload::{Known, SLOTS, TransactionState, TransactionTable};
use sip::{Class, Message, Reason, Verdict};

use crate::clock;
use crate::transactions::in_excess;

/// Enough for captures of a million requests within 32 s.
pub(super) const BUCKETS: u32 = 1 << 17;

/// What a packet is in the light of those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// Class, verdict and reason that user space gives it.
    pub(super) answer: (Class, Verdict, Reason),
    /// The first of its kind, counted over the whole run.
    pub(super) copy_of: Option<usize>,
}

/// The tables of one run.
#[derive(Debug)]
pub(super) struct Memory {
    user: Vec<AtomicU64>,
    kernel: Option<MappedWords>,
    /// First packet of each transaction.
    first: HashMap<u64, usize>,
}

impl Memory {
    /// Empty tables; `kernel` is the XDP program's.
    pub(super) fn new(kernel: Option<MappedWords>) -> Self {
        let user = std::iter::repeat_with(|| AtomicU64::new(0)).take(BUCKETS as usize * SLOTS).collect();
        Self { user, kernel, first: HashMap::new() }
    }

    /// True for what the table remembers: requests whose copies may wait.
    pub(super) const fn remembers(class: Class) -> bool {
        matches!(class, Class::Original | Class::InDialog | Class::Copy)
    }

    /// Looks a request up before the XDP program sees it. `number` counts the packets of the run, `at_ns` is the time of
    /// its capture.
    pub(super) fn recall(&mut self, message: &Message, hash: u64, number: usize, at_ns: u64) -> Seen {
        let unknown = (message.class, sip::verdict_of(message.class), message.reason);
        let user = TransactionTable::new(&self.user);
        let Some(known) = user.and_then(|table| table.recall(hash, at_ns)) else {
            if let Some(words) = &self.kernel {
                erase(words.words(), hash);
            }
            self.first.insert(hash, number);
            return Seen { answer: unknown, copy_of: None };
        };
        let copy = match known {
            known if in_excess(known, message.method) => (Class::Copy, Verdict::Drop, Reason::CopyExcess),
            Known { .. } => (Class::Copy, Verdict::RingRetransmission, Reason::OriginalServed),
        };
        Seen { answer: copy, copy_of: self.first.get(&hash).copied() }
    }

    /// Notes that the request was handed over, in both tables.
    pub(super) fn handed_over(&self, hash: u64, at_ns: u64) {
        if let Some(table) = TransactionTable::new(&self.user) {
            table.settle(hash, TransactionState::HandedOver, at_ns);
        }
        if let Some(table) = self.kernel.as_ref().and_then(|words| TransactionTable::new(words.words())) {
            table.settle(hash, TransactionState::HandedOver, clock::now());
        }
    }
}

/// Empties the slots of a request.
fn erase(words: &[AtomicU64], hash: u64) {
    if let Some(table) = TransactionTable::new(words) {
        for word in table.slots_of(hash) {
            word.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn see(memory: &mut Memory, hash: u64, number: usize, at_ns: u64) -> Seen {
        let message = sip::classify(b"INVITE sip:b@x SIP/2.0\r\n\r\n");
        let seen = memory.recall(&message, hash, number, at_ns);
        memory.handed_over(hash, at_ns);
        seen
    }

    #[test]
    fn a_copy_names_the_first_of_its_kind_until_that_is_forgotten() {
        let mut memory = Memory::new(None);
        assert_eq!(see(&mut memory, 7, 0, 0).copy_of, None);
        assert_eq!(see(&mut memory, 1 << 40, 1, 0).copy_of, None);
        let copy = see(&mut memory, 7, 2, SECOND_NS);
        assert_eq!(copy.copy_of, Some(0));
        assert_eq!(copy.answer, (Class::Copy, Verdict::RingRetransmission, Reason::OriginalServed));
        assert_eq!(see(&mut memory, 7, 3, 100 * SECOND_NS).copy_of, None, "forgotten");
        assert_eq!(see(&mut memory, 7, 4, 101 * SECOND_NS).copy_of, Some(3));
    }

    #[test]
    fn one_copy_too_many_is_dropped() {
        let mut memory = Memory::new(None);
        let answers: Vec<_> = (0..9).map(|number| see(&mut memory, 7, number, 0).answer.1).collect();
        assert_eq!(answers[6], Verdict::RingRetransmission);
        assert_eq!(answers[7], Verdict::Drop);
    }
}
