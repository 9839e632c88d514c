//! Which calls were admitted lately, and how many more messages each of them may bring with privilege.
//!
//! Messages within a call are served before originals, and most of what they say about themselves can be forged: a To tag, a
//! method. What cannot be had for nothing is an original that the server has got. So such an original earns for its
//! Call-ID what calls need, ACK, re-INVITE, BYE, whoever sends them; and a flood of messages for calls that nobody has
//! started finds only the cap of its source.
//!
//! A flood within calls that were admitted is bounded by what these have earned: eight messages each, and then one in eight
//! seconds. There is no bound on all calls together: the measured rate counts messages, of which originals cost a server
//! most, so right after a row of originals control may come at many times that rate. With a bound of 90 % of it, one ACK
//! in 3,000 came to wait behind originals, and its call hung (`cargo test -p sipweir-tests -- sofia`).
//!
//! A privilege that ends here is no refusal: calls that are older than the table, or that the server has started, are
//! within the cap of their source as before. Keys are keyed hashes of the Call-ID, made by the caller (`sip::call_key`).

use crate::{Allowance, KeyedBuckets, NANOS_PER_S, Nanos};

/// Calls that are known at a time, 1 MiB. Smaller: long calls are forgotten sooner, and what ends them is charged to their
/// source.
const CALLS: usize = 1 << 16;

/// What a call may bring: eight messages at once, which is an ACK, two re-INVITEs with theirs, a CANCEL and a BYE; then one
/// in eight seconds. Larger: a flood gets more out of each original that it gets past the gate. Smaller: what goes on in
/// a call, such as digits by INFO, is charged to its source sooner.
const PER_CALL: Allowance = Allowance { per_s: 0.125, burst_ns: 64 * NANOS_PER_S };

/// The calls. Nothing is allocated after construction.
#[derive(Debug, Clone)]
pub struct AdmittedCalls(KeyedBuckets);

impl Default for AdmittedCalls {
    fn default() -> Self {
        Self::with_room_for(CALLS)
    }
}

impl AdmittedCalls {
    /// Room for `calls` calls or a few more; the one that was silent longest makes room.
    fn with_room_for(calls: usize) -> Self {
        Self(KeyedBuckets::new(calls))
    }

    /// The server has got an original of this call. Key 0 is no call.
    pub fn admit(&mut self, call_key: u64, now: Nanos) {
        if call_key != 0 {
            self.0.open(call_key, now);
        }
    }

    /// The memory that will be read for a call, for who wants to have it in the cache by then.
    pub fn memory_of(&self, call_key: u64) -> &[impl Sized + use<>] {
        self.0.memory_of(call_key)
    }

    /// Takes `messages` messages out of what the call may bring; false if it is not known or has used that up.
    #[must_use]
    pub fn take(&mut self, call_key: u64, messages: u32, now: Nanos) -> bool {
        call_key != 0 && self.0.take_of_known(call_key, messages, PER_CALL, now)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};

    use super::{AdmittedCalls, PER_CALL};
    use crate::NANOS_PER_S;

    fn taken(calls: &mut AdmittedCalls, call_key: u64, now: u64) -> usize {
        (0..1000).take_while(|_| calls.take(call_key, 1, now)).count()
    }

    #[test]
    fn only_an_admitted_call_brings_anything_and_then_eight_messages_and_one_in_eight_seconds() {
        let mut calls = AdmittedCalls::default();
        assert_eq!(taken(&mut calls, 7, NANOS_PER_S), 0);
        calls.admit(7, NANOS_PER_S);
        assert_eq!(taken(&mut calls, 8, NANOS_PER_S), 0);
        assert_eq!(taken(&mut calls, 7, NANOS_PER_S), 8);
        assert_eq!(taken(&mut calls, 7, 17 * NANOS_PER_S), 2);
        calls.admit(7, 17 * NANOS_PER_S);
        assert_eq!(taken(&mut calls, 7, 17 * NANOS_PER_S), 8);
    }

    #[test]
    fn a_message_that_would_take_others_along_needs_room_for_all() {
        let mut calls = AdmittedCalls::default();
        calls.admit(7, 0);
        assert!(!calls.take(7, 9, 0));
        assert!(calls.take(7, 8, 0));
        assert!(!calls.take(7, 1, 0));
    }

    #[test]
    fn what_has_no_call_id_is_no_call() {
        let mut calls = AdmittedCalls::default();
        calls.admit(0, 0);
        assert!(!calls.take(0, 1, 0));
    }

    #[test]
    fn in_a_full_table_the_call_that_was_silent_longest_is_forgotten() {
        let mut calls = AdmittedCalls::with_room_for(8);
        for call in 1..=8 {
            calls.admit(call, call);
        }
        assert!(calls.take(1, 1, 9));
        calls.admit(9, 10);
        let known: Vec<u64> = (1..=9).filter(|call| calls.take(*call, 1, 11)).collect();
        assert_eq!(known, [1, 3, 4, 5, 6, 7, 8, 9]);
    }

    proptest! {
        /// However a flood spreads its messages over calls and time, it gets no more than its originals have earned.
        #[test]
        fn messages_with_privilege_are_bounded_by_admitted_originals(
            admitted in 0u64..40,
            steps in proptest::collection::vec((any::<u16>(), 0u64..200_000_000), 0..2000),
        ) {
            let mut calls = AdmittedCalls::with_room_for(64);
            // Keys spread over all 64 bits, as hashes do.
            let key = |call: u64| call << 32 | 1;
            for call in 0..admitted {
                calls.admit(key(call), 0);
            }
            let (mut now, mut taken) = (0, 0u32);
            for (call, pause) in steps {
                now += pause;
                taken += u32::from(calls.take(key(u64::from(call % 64)), 1, now));
            }
            let each = 8.0 + PER_CALL.per_s * now as f64 / NANOS_PER_S as f64;
            prop_assert!(f64::from(taken) <= admitted as f64 * each, "{taken} of {admitted} calls");
        }
    }
}
