//! Client transactions that something still refers to: a timer, a message in a line or on its way, a later transaction.
//!
//! A call is one transaction of its client, and one more for each stateful node that has sent it on. A transaction's place
//! is used again as soon as nothing refers to it, so memory grows with what waits and not with the length of a run.

use overload::Nanos;

use super::timers::Timers;

/// "No transaction" in links.
pub(super) const NONE: u32 = u32::MAX;

/// How far a transaction has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// No response: the client sends again.
    Open,
    /// 100 Trying: silent, waiting for the final response.
    Trying,
    /// The client has given up, and would still take a late answer for one.
    GivenUp,
    /// A final response is there.
    Finished,
}

/// A request that somebody has sent and that may be sent again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transaction {
    /// What tells its call from others: all messages of a call share it.
    pub(super) identity: u64,
    pub(super) first_sent: Nanos,
    /// Hop delays between the sender of the transaction above and the node that began this one.
    pub(super) above_delay_ns: Nanos,
    refs: u32,
    /// The transaction that a stateful node has answered for by this one.
    pub(super) above: u32,
    /// Index of the sender: sources first, then nodes.
    pub(super) sender: u32,
    /// Index of the call's source.
    pub(super) source: u32,
    pub(super) timers: Timers,
    pub(super) progress: Progress,
    /// A stateful node has begun a transaction of its own for it.
    pub(super) sent_on: bool,
    /// A controller has let it in.
    pub(super) let_in: bool,
    /// Part of the statistics.
    pub(super) counts: bool,
    /// The node that its sender probes by it; `NONE` for what belongs to a call.
    pub(super) probes: u32,
}

impl Transaction {
    /// The first one of a call.
    pub(super) const fn of_client(
        source: usize,
        timers: Timers,
        identity: u64,
        now: Nanos,
        counts: bool,
    ) -> Self {
        Self {
            identity,
            first_sent: now,
            above_delay_ns: 0,
            refs: 0,
            above: NONE,
            sender: source as u32,
            source: source as u32,
            timers,
            progress: Progress::Open,
            sent_on: false,
            let_in: false,
            counts,
            probes: NONE,
        }
    }

    /// A probe of a node by the controller at a place.
    pub(super) const fn probe(place: usize, node: usize, identity: u64, now: Nanos) -> Self {
        let call = Self::of_client(0, Timers::Other, identity, now, false);
        Self { sender: place as u32, probes: node as u32, ..call }
    }

    /// The one by which the stateful node at a place sends this one, whose index is given, on.
    pub(super) const fn sent_on_by(self, place: usize, index: u32, travelled_ns: Nanos, now: Nanos) -> Self {
        Self {
            first_sent: now,
            above_delay_ns: travelled_ns,
            above: index,
            sender: place as u32,
            progress: Progress::Open,
            sent_on: false,
            let_in: false,
            probes: NONE,
            ..self
        }
    }
}

/// All transactions that are referred to.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    places: Vec<Transaction>,
    free: Vec<u32>,
}

impl Transactions {
    /// Adds a transaction with one reference.
    pub(super) fn insert(&mut self, transaction: Transaction) -> u32 {
        let transaction = Transaction { refs: 1, ..transaction };
        if let Some(index) = self.free.pop() {
            self.places[index as usize] = transaction;
            return index;
        }
        self.places.push(transaction);
        self.places.len() as u32 - 1
    }

    /// One more reference.
    pub(super) fn hold(&mut self, index: u32) {
        self.places[index as usize].refs += 1;
    }

    /// One reference less; the last one frees the place, and its reference to the transaction above.
    pub(super) fn release(&mut self, mut index: u32) {
        while index != NONE {
            let transaction = &mut self.places[index as usize];
            transaction.refs -= 1;
            if transaction.refs > 0 {
                return;
            }
            self.free.push(index);
            index = transaction.above;
        }
    }

    pub(super) fn get(&self, index: u32) -> &Transaction {
        &self.places[index as usize]
    }

    pub(super) fn get_mut(&mut self, index: u32) -> &mut Transaction {
        &mut self.places[index as usize]
    }

    /// Places ever needed at once.
    pub(super) const fn most(&self) -> usize {
        self.places.len()
    }

    /// Transactions that are referred to.
    #[cfg(test)]
    pub(super) const fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::{Timers, Transaction, Transactions};

    #[test]
    fn a_place_is_free_when_the_last_reference_has_gone_and_then_used_again() {
        let call = |number| Transaction::of_client(0, Timers::Invite, number, 0, true);
        let mut all = Transactions::default();
        let first = all.insert(call(1));
        all.hold(first);
        let below = all.insert(Transaction { above: first, ..call(1) });
        all.release(first);
        assert_eq!(all.len(), 2);
        all.release(below);
        assert_eq!(all.len(), 0);
        let second = all.insert(call(2));
        assert!(second == first || second == below);
        assert_eq!((all.get(second).identity, all.most()), (2, 2));
    }
}
