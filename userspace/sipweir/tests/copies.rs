//! Copies without a marker, at the worker: what the transaction table makes of them, over paired rings without a
//! kernel.

mod support;

use overload::{
    GateConfig, GateState, HystereticConfig, Known, ServedFilter, Threshold, TransactionState,
    TransactionTable,
};
use sip::{Class, Method, Seed, TransactionKey};
use sipweir::counters::Outcome;
use support::{Bench, CONTROL, MS, NEW, Setup, request};

const URI: &str = "sip:b@example.com";
const CALLER: [u8; 4] = [198, 51, 100, 7];

fn hash_of(message: &str) -> u64 {
    let key = TransactionKey::new(&Seed([1, 2, 3, 4]));
    sip::transaction_hash(&key, CALLER.into(), 0, message.as_bytes(), 0, None)
}

/// What the table knows of a message, without counting a copy.
fn known(bench: &Bench, message: &str) -> Option<TransactionState> {
    let copied =
        bench.table.words().iter().map(|word| word.load(std::sync::atomic::Ordering::Relaxed).into());
    let memory: Vec<std::sync::atomic::AtomicU64> = copied.collect();
    let table = TransactionTable::new(&memory).expect("a table");
    table.recall(hash_of(message), bench.now_ns).map(|Known { state, .. }| state)
}

/// A worker whose server takes nothing for now.
fn busy() -> Bench {
    let mut bench = Bench::new(&Setup { queue_target: 1, ..Setup::default() });
    bench.server.set_waiting(1);
    bench.turn_after(MS);
    bench
}

#[test]
fn the_kernel_learns_which_requests_the_server_has_got() {
    let mut bench = Bench::new(&Setup::default());
    let key = TransactionKey::new(&Seed([1, 2, 3, 4]));
    let is_there = |bench: &Bench, message: &str| {
        let hash = sip::beginning_hash(&key, CALLER.into(), message.as_bytes()).expect("long enough");
        ServedFilter::new(bench.served.words()).expect("lines").may_contain(hash)
    };
    let (served, refused, marked, ack) = (
        request("INVITE", URI, "c1"),
        request("INVITE", URI, "c2"),
        request("INVITE", URI, "c3"),
        request("ACK", URI, "c4"),
    );
    let with_field = marked.replacen("SIP/2.0\r\n", "SIP/2.0 rtx=0\r\n", 1);
    bench.deliver_rejected_from(CALLER, &refused).expect("delivered");
    for message in [&served, &with_field, &ack] {
        bench.deliver(message).expect("delivered");
    }
    bench.turn_after(MS);
    assert_eq!(bench.at_server().len(), 3);
    assert!(is_there(&bench, &served));
    assert!(is_there(&bench, &marked), "with a marker, which was cut out");
    assert!(!is_there(&bench, &refused));
    assert!(!is_there(&bench, &ack), "nobody asks the table about it");
    bench.assert_conserved();
}

#[test]
fn a_copy_of_a_waiting_request_is_absorbed_and_one_answer_serves_both() {
    let mut bench = busy();
    let invite = request("INVITE", URI, "c1");
    for _ in 0..3 {
        bench.deliver(&invite).expect("delivered");
        bench.turn_after(MS);
    }
    assert_eq!(known(&bench, &invite), Some(TransactionState::Queued));
    assert_eq!(bench.lane.outcome_of(Class::Copy, Outcome::CopyAbsorbed), 2);
    bench.server.set_waiting(0);
    bench.turn_after(MS);
    assert_eq!(bench.at_server(), [invite.as_str()], "the server sees it once");
    assert_eq!(known(&bench, &invite), Some(TransactionState::HandedOver));
    bench.assert_conserved();
}

#[test]
fn a_copy_of_a_served_request_reaches_the_server_after_all_originals() {
    let mut bench = Bench::new(&Setup::default());
    let invite = request("INVITE", URI, "c1");
    bench.deliver(&invite).expect("delivered");
    bench.turn_after(MS);
    assert_eq!(bench.at_server().len(), 1);
    let other = request("INVITE", URI, "c2");
    bench.deliver(&invite).expect("delivered");
    bench.deliver(&other).expect("delivered");
    bench.turn_after(MS);
    assert_eq!(bench.at_server(), [other, invite]);
    assert_eq!(bench.lane.outcome_of(Class::Copy, Outcome::HandedOver), 1);
    bench.assert_conserved();
}

#[test]
fn a_copy_of_a_refused_request_is_refused_alike_although_the_server_is_free_again() {
    let mut bench = busy();
    let invite = request("INVITE", URI, "c1");
    bench.deliver(&invite).expect("delivered");
    bench.turn_after(MS);
    bench.turn_after(401 * MS);
    let first = bench.replies();
    assert_eq!((first.len(), bench.lane.outcome_of(Class::Original, Outcome::RejectedLate)), (1, 1));
    bench.server.set_waiting(0);
    bench.deliver(&invite).expect("delivered");
    bench.turn_after(MS);
    assert_eq!(bench.replies(), first, "byte for byte");
    assert!(bench.at_server().is_empty());
    assert_eq!(bench.lane.outcome_of(Class::Copy, Outcome::Rejected), 1);
    bench.assert_conserved();
}

#[test]
fn the_same_bytes_to_another_listen_address_are_an_original_there() {
    let mut bench = Bench::new(&Setup::default());
    let invite = request("INVITE", URI, "c1");
    bench.deliver(&invite).expect("delivered");
    bench.deliver_at_second_address(&invite).expect("delivered");
    bench.turn_after(MS);
    assert_eq!(bench.at_server().len(), 2);
    assert_eq!(bench.lane.outcome_of(Class::Original, Outcome::HandedOver), 2);
    bench.deliver_at_second_address(&invite).expect("delivered");
    bench.turn_after(MS);
    assert_eq!(bench.lane.outcome_of(Class::Copy, Outcome::HandedOver), 1, "of the second");
    bench.assert_conserved();
}

#[test]
fn more_copies_than_a_client_makes_are_dropped() {
    let mut bench = Bench::new(&Setup::default());
    let invite = request("INVITE", URI, "c1");
    for _ in 0..20 {
        bench.deliver(&invite).expect("delivered");
        bench.turn_after(MS);
    }
    assert_eq!(bench.at_server().len(), 1 + 6);
    assert_eq!(bench.lane.outcome_of(Class::Copy, Outcome::CopyExcess), 13);
    bench.assert_conserved();
}

#[test]
fn a_request_that_was_lost_here_is_an_original_again() {
    let mut bench = Bench::new(&Setup::default());
    let bye = request("BYE", URI, "c1");
    // A wrong checksum ends it at hand-over.
    let mut packet = support::packet(bye.as_bytes());
    packet[40] ^= 0x55;
    let meta = support::meta(bench.now_ns, bye.as_bytes(), Class::InDialog, Method::Bye, None);
    bench.wire.deliver(CONTROL, &packet, &meta).expect("delivered");
    bench.turn_after(MS);
    assert_eq!(bench.lane.outcome_of(Class::InDialog, Outcome::ChecksumWrong), 1);
    assert_eq!(known(&bench, &bye), None);
    bench.deliver(&bye).expect("delivered");
    bench.turn_after(MS);
    assert_eq!(bench.at_server(), [bye]);
    bench.assert_conserved();
}

#[test]
fn what_user_space_finds_is_known_as_well_as_what_the_program_found() {
    let mut bench = busy();
    let invite = request("INVITE", URI, "c1");
    bench.deliver_as(NEW, invite.as_bytes(), Class::Undecided, Method::Other, None).expect("delivered");
    bench.turn_after(MS);
    bench.deliver_as(NEW, invite.as_bytes(), Class::Undecided, Method::Other, None).expect("delivered");
    bench.turn_after(MS);
    assert_eq!(bench.lane.outcome_of(Class::Copy, Outcome::CopyAbsorbed), 1);
    bench.assert_conserved();
}

#[test]
fn acks_cancels_and_emergency_calls_are_never_taken_for_copies() {
    let mut bench = Bench::new(&Setup::default());
    for message in [
        request("ACK", URI, "c1"),
        request("CANCEL", URI, "c1"),
        request("INVITE", "urn:service:sos", "c2"),
        request("INVITE", URI, "c3").replace("Max-Forwards", "Resource-Priority: esnet.0\r\nMax-Forwards"),
    ] {
        for _ in 0..20 {
            bench.deliver(&message).expect("delivered");
            bench.turn_after(MS);
            assert_eq!(bench.at_server(), [message.as_str()]);
        }
        assert_eq!(known(&bench, &message), None);
    }
    bench.assert_conserved();
}

#[test]
fn a_marked_copy_of_a_waiting_request_is_absorbed_and_of_a_refused_one_refused() {
    let mut bench = busy();
    let invite = request("INVITE", URI, "c1");
    bench.deliver(&invite.replacen("SIP/2.0\r\n", "SIP/2.0 rtx=0\r\n", 1)).expect("delivered");
    bench.turn_after(MS);
    let copy = invite.replacen("SIP/2.0\r\n", "SIP/2.0 rtx=1\r\n", 1);
    bench.deliver(&copy).expect("delivered");
    bench.turn_after(MS);
    assert_eq!(bench.lane.outcome_of(Class::Copy, Outcome::CopyAbsorbed), 1);
    bench.turn_after(401 * MS);
    assert_eq!(bench.replies().len(), 1);
    bench.deliver(&copy).expect("delivered");
    bench.turn_after(MS);
    assert_eq!(bench.replies().len(), 1);
    bench.assert_conserved();
}

#[test]
fn case_37_a_copy_by_another_port_at_another_worker_is_known_there_by_the_shared_table() {
    let mut here = Bench::new(&Setup { queue_target: 1, ..Setup::default() });
    let table = Some(std::sync::Arc::clone(&here.table));
    let mut there = Bench::new(&Setup { table, ..Setup::default() });
    here.server.set_waiting(1);
    here.turn_after(MS);
    let invite = request("INVITE", URI, "c1");
    here.deliver(&invite).expect("delivered");
    here.turn_after(MS);
    // A NAT has given the copy another source port, and the NIC another queue.
    let mut copy = support::packet(invite.as_bytes());
    copy[34..36].copy_from_slice(&40_001_u16.to_be_bytes());
    copy[40..42].fill(0);
    let deliver = |bench: &mut Bench| {
        let meta = support::meta(bench.now_ns, invite.as_bytes(), Class::Undecided, Method::Invite, None);
        bench.wire.deliver(NEW, &copy, &meta).expect("delivered");
        bench.turn_after(MS);
        bench.at_server().len()
    };
    assert_eq!(deliver(&mut there), 0);
    assert_eq!(there.lane.outcome_of(Class::Copy, Outcome::CopyAbsorbed), 1, "the original waits elsewhere");
    assert_eq!(here.order_of_service().len(), 1);
    assert_eq!(deliver(&mut there), 1, "only the server can repair a lost answer");
    assert_eq!(there.lane.outcome_of(Class::Copy, Outcome::HandedOver), 1);
}

#[test]
fn case_39_all_copies_of_a_refused_register_get_the_same_bytes_for_as_long_as_its_client_sends_them() {
    let gate = GateConfig::Hysteretic(HystereticConfig {
        admit_below: Threshold::Messages(1),
        shed_at: Threshold::Messages(2),
        discard_at: Threshold::Messages(3),
        share: 0.0,
    });
    let mut bench = Bench::new(&Setup { gate, queue_target: 1, ..Setup::default() });
    bench.server.set_waiting(1);
    bench.turn_after(MS);
    for n in 0..2 {
        bench.deliver(&request("INVITE", URI, &format!("before{n}"))).expect("delivered");
    }
    bench.turn_after(MS);
    // That of what was refused on the way to overload.
    bench.replies();
    let register = request("REGISTER", URI, "r1");
    let deliver = |bench: &mut Bench| {
        let sent = bench.deliver_as(NEW, register.as_bytes(), Class::Undecided, Method::Register, None);
        sent.expect("delivered");
    };
    deliver(&mut bench);
    bench.turn_after(MS);
    let refusal = bench.replies();
    assert_eq!(refusal.len(), 1);
    // The server has room again, so that an original would be served.
    bench.order_of_service();
    bench.turn_after(MS);
    // Timer E of RFC 3261 section 17.1.2.2: T1, then twice as long up to T2, until timer F ends it.
    let (mut interval_ms, mut at_ms, mut copies) = (500, 500, 0);
    while at_ms < 32_000 {
        deliver(&mut bench);
        bench.turn_after(interval_ms * MS);
        assert_eq!(bench.replies(), refusal, "after {at_ms} ms");
        copies += 1;
        interval_ms = (2 * interval_ms).min(4000);
        at_ms += interval_ms;
    }
    assert_eq!(copies, 10);
    assert!(bench.at_server().is_empty());
    assert_eq!(bench.lane.gate_state.get(), GateState::Normal as u64);
}
