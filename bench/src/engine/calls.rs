//! The calls of a run: a slab of fixed room, found by token, with the closed ones in a queue to be forgotten.
//!
//! INVARIANT: every slot is free, live or closed; closed slots are linked in the order of closing.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::clock::Nanos;
use crate::identity::Token;
use crate::template::{Dialog, Method};

/// "No slot" in a link.
const NONE: u32 = u32::MAX;

/// Where a call stands; see the drawing in the engine's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// INVITE sent, nothing heard; timers A and B run.
    Calling,
    /// INVITE provisionally answered; no timer runs.
    Proceeding,
    /// Another request sent, nothing heard; timers E and F run.
    Trying,
    /// Another request provisionally answered; timer E is T2.
    TryingSlowly,
    /// Answered; `intended` is when the BYE is meant to be sent.
    Holding,
    /// Over.
    Closed,
}

/// One call, and its transaction of the moment.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) token: Token,
    pub(crate) call_no: u64,
    pub(crate) intended: Nanos,
    pub(crate) next_copy: Nanos,
    pub(crate) timeout_at: Nanos,
    pub(crate) interval_ns: Nanos,
    /// When the first final response to the first request came.
    pub(crate) final_at: Nanos,
    /// Its status code; 0 while there is none.
    pub(crate) final_code: u16,
    pub(crate) method: Method,
    pub(crate) phase: Phase,
    pub(crate) copies: u8,
    pub(crate) provisional: bool,
    pub(crate) in_window: bool,
    pub(crate) ack_unheard: bool,
    pub(crate) lost: bool,
    closed_at: Nanos,
    next_closed: u32,
}

/// All calls.
#[derive(Debug)]
pub(crate) struct Calls {
    calls: Vec<Call>,
    dialogs: Vec<Dialog>,
    free: Vec<u32>,
    slots: HashMap<Token, u32, BuildHasherDefault<TokenHasher>>,
    live: usize,
    oldest_closed: u32,
    newest_closed: u32,
    capacity: usize,
}

impl Calls {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            calls: Vec::with_capacity(capacity),
            dialogs: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
            slots: HashMap::with_capacity_and_hasher(capacity, BuildHasherDefault::default()),
            live: 0,
            oldest_closed: NONE,
            newest_closed: NONE,
            capacity,
        }
    }

    /// A slot for a new call: a free one, a new one, or that of the call closed longest ago. `None`: all are live.
    pub(crate) fn open(&mut self, token: Token, call_no: u64, in_window: bool) -> Option<u32> {
        if self.free.is_empty() && self.calls.len() == self.capacity {
            self.forget_oldest();
        }
        let call = Call {
            token,
            call_no,
            intended: 0,
            next_copy: 0,
            timeout_at: 0,
            interval_ns: 0,
            final_at: 0,
            final_code: 0,
            method: Method::Invite,
            phase: Phase::Calling,
            copies: 0,
            provisional: false,
            in_window,
            ack_unheard: false,
            lost: false,
            closed_at: 0,
            next_closed: NONE,
        };
        let slot = if let Some(slot) = self.free.pop() {
            self.calls[slot as usize] = call;
            slot
        } else if self.calls.len() < self.capacity {
            self.calls.push(call);
            self.dialogs.push(Dialog::EMPTY);
            (self.calls.len() - 1) as u32
        } else {
            return None;
        };
        self.slots.insert(token, slot);
        self.live += 1;
        Some(slot)
    }

    pub(crate) fn find(&self, token: Token) -> Option<u32> {
        self.slots.get(&token).copied()
    }

    pub(crate) fn get(&self, slot: u32) -> &Call {
        &self.calls[slot as usize]
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> &mut Call {
        &mut self.calls[slot as usize]
    }

    pub(crate) fn dialog(&self, slot: u32) -> &Dialog {
        &self.dialogs[slot as usize]
    }

    pub(crate) fn dialog_mut(&mut self, slot: u32) -> &mut Dialog {
        &mut self.dialogs[slot as usize]
    }

    /// Calls that are not closed.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Moves a live call to the end of the queue of closed ones.
    pub(crate) fn close(&mut self, slot: u32, now: Nanos) {
        let call = &mut self.calls[slot as usize];
        debug_assert_ne!(call.phase, Phase::Closed);
        call.phase = Phase::Closed;
        call.closed_at = now;
        match self.newest_closed {
            NONE => self.oldest_closed = slot,
            newest => self.calls[newest as usize].next_closed = slot,
        }
        self.newest_closed = slot;
        self.live -= 1;
    }

    pub(crate) fn forget_closed_before(&mut self, time: Nanos) {
        while self.oldest_closed != NONE && self.calls[self.oldest_closed as usize].closed_at < time {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let slot = self.oldest_closed;
        if slot == NONE {
            return;
        }
        let call = &self.calls[slot as usize];
        self.oldest_closed = call.next_closed;
        if self.oldest_closed == NONE {
            self.newest_closed = NONE;
        }
        self.slots.remove(&call.token);
        self.free.push(slot);
    }
}

/// Tokens are mixed already.
#[derive(Debug, Default)]
pub(crate) struct TokenHasher(u64);

impl Hasher for TokenHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_calls_make_room_in_the_order_of_closing() {
        let mut calls = Calls::new(3);
        let slots: Vec<u32> = (0..3).map(|n| calls.open(Token(n), n, false).unwrap()).collect();
        assert_eq!(calls.open(Token(9), 9, false), None, "all are live");
        calls.close(slots[1], 5);
        calls.close(slots[0], 6);
        assert_eq!((calls.live(), calls.find(Token(1))), (1, Some(slots[1])), "closed calls are still known");
        assert_eq!(calls.open(Token(9), 9, false), Some(slots[1]));
        assert_eq!((calls.find(Token(1)), calls.find(Token(0))), (None, Some(slots[0])));
        calls.forget_closed_before(6);
        assert!(calls.find(Token(0)).is_some());
        calls.forget_closed_before(7);
        assert_eq!(calls.find(Token(0)), None);
        assert_eq!(calls.open(Token(10), 10, false), Some(slots[0]));
        assert_eq!(calls.live(), 3);
    }
}
