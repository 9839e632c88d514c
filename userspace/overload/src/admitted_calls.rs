//! Which calls were admitted lately, and how many more messages each of them may bring with privilege.
//!
//! Messages within a call are served before originals, and most of what they say about themselves can be forged: a To tag, a
//! method. What cannot be had for nothing is an original that the server has got. So such an original earns for its
//! Call-ID what calls need, ACK, re-INVITE, BYE, whoever sends them; and a flood of messages for calls that nobody has
//! started finds only the cap of its source.
//!
//! Who has many calls must not have the server with them: all calls together get no more than a share of it. Beside the
//! cap of a source, which is a share too, that leaves some of the server to originals. A privilege that ends here is no refusal: calls that are older than the table, or that the server has started, are
//! within the cap of their source as before. Keys are keyed hashes of the Call-ID, made by the caller (`sip::call_key`).

use crate::{Allowance, KeyedBuckets, NANOS_PER_S, Nanos};

/// Calls that are known at a time, 1 MiB. Smaller: long calls are forgotten sooner, and what ends them is charged to their
/// source.
const CALLS: usize = 1 << 16;

/// What a call may bring: eight messages at once, which is an ACK, two re-INVITEs with theirs, a CANCEL and a BYE; then one
/// in eight seconds. Larger: a flood gets more out of each original that it gets past the gate. Smaller: what goes on in
/// a call, such as digits by INFO, is charged to its source sooner.
const PER_CALL: Allowance = Allowance { per_s: 0.125, burst_ns: 64 * NANOS_PER_S };

/// What all calls together may bring, as a share of what the server is measured to serve, and how much of it at once. With
/// the 60 % of a source, nine tenths are for control: of a call with INVITE, ACK, re-INVITE, ACK, INFO and BYE it is five
/// sixths. Larger: less is left to originals.
const ALL_CALLS_SHARE: f64 = 0.3;
const ALL_CALLS_BURST_NS: Nanos = 250_000_000;
/// Of the bucket that they share.
const ALL_CALLS: u64 = 1;

/// The calls. Nothing is allocated after construction.
#[derive(Debug, Clone)]
pub struct AdmittedCalls {
    calls: KeyedBuckets,
    together: KeyedBuckets,
}

impl Default for AdmittedCalls {
    fn default() -> Self {
        Self::with_room_for(CALLS)
    }
}

impl AdmittedCalls {
    /// Room for `calls` calls or a few more; the one that was silent longest makes room.
    #[must_use]
    pub fn with_room_for(calls: usize) -> Self {
        Self { calls: KeyedBuckets::new(calls), together: KeyedBuckets::new(1) }
    }

    /// The server has got an original of this call. Key 0 is no call.
    pub fn admit(&mut self, call_key: u64, now: Nanos) {
        if call_key != 0 {
            self.calls.open(call_key, now);
        }
    }

    /// Takes `messages` messages out of what the call may bring, and all calls at a server of `rate_per_s`; false if it is
    /// not known or one of both is used up.
    #[must_use]
    pub fn take(&mut self, call_key: u64, messages: u32, rate_per_s: f64, now: Nanos) -> bool {
        let together = Allowance { per_s: ALL_CALLS_SHARE * rate_per_s, burst_ns: ALL_CALLS_BURST_NS };
        call_key != 0
            && self.together.has(ALL_CALLS, messages, together, now)
            && self.calls.take_of_known(call_key, messages, PER_CALL, now)
            && self.together.take(ALL_CALLS, messages, together, now)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};

    use super::{ALL_CALLS_SHARE, AdmittedCalls, PER_CALL};
    use crate::NANOS_PER_S;

    /// A server so fast that only the call's own allowance counts.
    const FAST: f64 = 1e6;

    fn taken(calls: &mut AdmittedCalls, call_key: u64, now: u64) -> usize {
        (0..1000).take_while(|_| calls.take(call_key, 1, FAST, now)).count()
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
        assert!(!calls.take(7, 9, FAST, 0));
        assert!(calls.take(7, 8, FAST, 0));
        assert!(!calls.take(7, 1, FAST, 0));
    }

    #[test]
    fn all_calls_together_get_a_share_of_the_server_and_a_refusal_costs_a_call_nothing() {
        let mut calls = AdmittedCalls::default();
        (1..=1000).for_each(|call| calls.admit(call << 32 | 1, 0));
        let all = |calls: &mut AdmittedCalls, now: u64| {
            (1..=1000).filter(|call| calls.take(call << 32 | 1, 1, 200.0, now)).count()
        };
        // 60 a second, a quarter of a second's worth at once.
        assert_eq!(all(&mut calls, 0), 15);
        let second: usize = (1..=100).map(|step| all(&mut calls, step * NANOS_PER_S / 100)).sum();
        assert!((59..=61).contains(&second), "{second} of {}", ALL_CALLS_SHARE * 200.0);
        assert_eq!(taken(&mut calls, 1000 << 32 | 1, 2 * NANOS_PER_S), 8, "it had no turn");
    }

    #[test]
    fn what_has_no_call_id_is_no_call() {
        let mut calls = AdmittedCalls::default();
        calls.admit(0, 0);
        assert!(!calls.take(0, 1, FAST, 0));
    }

    #[test]
    fn in_a_full_table_the_call_that_was_silent_longest_is_forgotten() {
        let mut calls = AdmittedCalls::with_room_for(8);
        for call in 1..=8 {
            calls.admit(call, call);
        }
        assert!(calls.take(1, 1, FAST, 9));
        calls.admit(9, 10);
        let known: Vec<u64> = (1..=9).filter(|call| calls.take(*call, 1, FAST, 11)).collect();
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
                taken += u32::from(calls.take(key(u64::from(call % 64)), 1, FAST, now));
            }
            let each = 8.0 + PER_CALL.per_s * now as f64 / NANOS_PER_S as f64;
            prop_assert!(f64::from(taken) <= admitted as f64 * each, "{taken} of {admitted} calls");
        }
    }
}
