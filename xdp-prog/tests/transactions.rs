//! The transaction table: what the program makes of requests that user space has entered, and what it enters itself,
//! against the same table in Rust over the same memory. Needs root.

mod support;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::Ordering;

use afxdp::MappedWords;
use overload::TransactionState::{self, HandedOver, Queued, Shed};
use overload::{GENERATIONS, GateState, GateWord, Known, SLOTS, ServedFilter, TransactionTable};
use sip::class::{Class, Reason, Verdict};
use sip::{beginning_hash, transaction_hash};
use support::{
    ANY_PORT, CALLER_V4, DISCARD, INVITE, Ip, OVERLOAD, Packet, Random, decide, gate, key, set_gates,
};
use xdp_prog::{Classifier, Settings};

const WAITS: support::Decision = (Class::Copy, Reason::OriginalWaits, Verdict::Drop);
const REFUSED: support::Decision = (Class::Copy, Reason::OriginalShed, Verdict::RingReject);
const SERVED: support::Decision = (Class::Copy, Reason::OriginalServed, Verdict::RingRetransmission);
const EXCESS: support::Decision = (Class::Copy, Reason::CopyExcess, Verdict::Drop);
const UNREAD: support::Decision = (Class::Undecided, Reason::HeadersUnread, Verdict::RingNew);

/// A program with a table, and the table's memory.
fn with_table(buckets: u32) -> (Classifier, MappedWords) {
    let classifier = support::load(&Settings { transaction_buckets: buckets, ..support::settings() });
    let words = MappedWords::map(classifier.transactions_fd(), buckets as usize * SLOTS).expect("mapped");
    (classifier, words)
}

fn table(words: &MappedWords) -> TransactionTable<'_> {
    TransactionTable::new(words.words()).expect("a power of two of buckets")
}

/// `CLOCK_MONOTONIC`, as the program reads it.
fn now(classifier: &Classifier) -> u64 {
    let run = classifier.test_run(&Packet::with("ACK sip:b@x SIP/2.0\r\n\r\n").bytes()).expect("a run");
    run.meta.expect("a ring").arrival_ns
}

/// Of the services of `support::settings`.
fn service_of(packet: &Packet) -> u8 {
    match packet {
        Packet { destination_port: ANY_PORT, .. } => 2,
        Packet { ip: Ip::V6, .. } => 1,
        _ => 0,
    }
}

fn hash_of(packet: &Packet) -> u64 {
    let message = sip::classify(&packet.datagram);
    let start = usize::from(message.start);
    transaction_hash(&key(), packet.source(), service_of(packet), &packet.datagram, start, message.marker)
}

fn invite(call: u64) -> Packet {
    let text = String::from_utf8_lossy(INVITE).replace("a84b4c76e66710", &format!("call-{call}"));
    Packet::with(text)
}

#[test]
fn a_copy_gets_what_became_of_its_original() {
    let (mut classifier, words) = with_table(64);
    let now = now(&classifier);
    for (call, state, expected) in [(1, Queued, WAITS), (2, Shed, REFUSED), (3, HandedOver, SERVED)] {
        let packet = invite(call);
        assert_eq!(decide(&classifier, &packet), UNREAD, "unknown");
        table(&words).settle(hash_of(&packet), state, now);
        assert_eq!(decide(&classifier, &packet), expected);
        let silent = Packet { destination_port: ANY_PORT, ..packet.clone() };
        table(&words).settle(hash_of(&silent), state, now);
        let expected_there =
            if state == Shed { (Class::Copy, Reason::OriginalShed, Verdict::Drop) } else { expected };
        assert_eq!(decide(&classifier, &silent), expected_there);
        for closed in [gate(OVERLOAD, 0), gate(DISCARD, 0)] {
            set_gates(&mut classifier, closed);
            assert_eq!(decide(&classifier, &packet), expected, "whatever the gate says");
        }
        set_gates(&mut classifier, 0);
    }
}

#[test]
fn the_worker_may_ask_the_table_alone_while_the_gate_is_normal() {
    let (mut classifier, words) = with_table(64);
    let packet = invite(1);
    table(&words).settle(hash_of(&packet), Queued, now(&classifier));
    set_gates(&mut classifier, GateWord::OPEN.with_table_unasked(true).bits());
    assert_eq!(decide(&classifier, &packet), UNREAD);
    for state in [GateState::Overload, GateState::Discard] {
        set_gates(&mut classifier, GateWord::new(state, 0).with_table_unasked(true).bits());
        assert_eq!(decide(&classifier, &packet), WAITS, "{state:?}");
    }
}

#[test]
fn nobody_is_answered_in_a_silence_and_who_was_not_told_no_is_not_remembered() {
    let (mut classifier, words) = with_table(64);
    let (refused, unheard) = (invite(1), invite(2));
    set_gates(&mut classifier, gate(DISCARD, 0));
    assert_eq!(decide(&classifier, &refused).2, Verdict::RingReject);
    set_gates(&mut classifier, GateWord::new(GateState::Discard, 0).with_silence(true).bits());
    for packet in [&unheard, &refused] {
        assert_eq!(decide(&classifier, packet), (Class::Original, Reason::GateDiscard, Verdict::Drop));
    }
    assert!(table(&words).recall(hash_of(&unheard), now(&classifier)).is_none());
    set_gates(&mut classifier, 0);
    assert_eq!(decide(&classifier, &refused), REFUSED);
    assert_eq!(decide(&classifier, &unheard), UNREAD);
}

#[test]
fn in_a_silence_the_table_is_asked_about_what_the_server_may_have_got() {
    let (mut classifier, words) = with_table(64);
    let served = MappedWords::map(classifier.served_fd(), 128 * GENERATIONS).expect("mapped");
    let filter = ServedFilter::new(served.words()).expect("a power of two of lines");
    let silence = GateWord::new(GateState::Discard, 0).with_silence(true).bits();
    set_gates(&mut classifier, silence);
    let shed = (Class::Original, Reason::GateDiscard, Verdict::Drop);
    // Nothing but the branch, in the topmost Via, tells the one from the other.
    let packet = |call: u64, ip: Ip| {
        let text = String::from_utf8_lossy(INVITE).replace("z9hG4bK776", &format!("z9hG4bK{call}"));
        Packet { ip, ..Packet::with(text) }
    };
    let now = now(&classifier);
    // The filter's time goes faster than the table's.
    let mut filled = now;
    for call in 0..300 {
        let ip = if call % 2 == 0 { Ip::V4 } else { Ip::V6 };
        let (packet, other) = (packet(call, ip), packet(call + 1000, ip));
        table(&words).settle(hash_of(&packet), HandedOver, now);
        let beginning = beginning_hash(&key(), packet.source(), &packet.datagram).expect("long enough");
        assert_eq!(decide(&classifier, &packet), shed, "{call}: not in the filter");
        filter.insert(beginning, filled);
        assert_eq!(decide(&classifier, &packet), SERVED, "{call}: in the filter and in the table");
        assert_eq!(decide(&classifier, &other), shed, "{call}: in neither");
        // In whichever generation.
        filled += 1 << 34;
        filter.clear_next(filled);
        assert_eq!(decide(&classifier, &packet), SERVED, "{call}: a generation later");
        served.words().iter().for_each(|word| word.store(0, Ordering::Relaxed));
        table(&words).forget(hash_of(&packet), now);
    }
}

#[test]
fn the_copy_is_known_whatever_may_differ_between_copies() {
    let (classifier, words) = with_table(64);
    let original = Packet { source_port: 5062, ..invite(1) };
    table(&words).settle(hash_of(&original), HandedOver, now(&classifier));
    let bytes = |datagram: &[u8]| Packet { datagram: datagram.to_vec(), ..original.clone() };
    let text = String::from_utf8(original.datagram.clone()).expect("text");
    let same = [
        ("port", Packet { source_port: 40_000, ..original.clone() }),
        ("leading line ends", bytes(&[b"\r\n\r\n", &original.datagram[..]].concat())),
        ("claim to be an original", bytes(text.replacen("SIP/2.0\r\n", "SIP/2.0 rtx=0\r\n", 1).as_bytes())),
        (
            "the same claim in the URI",
            bytes(text.replacen("example.com SIP", "example.com;rtx=0 SIP", 1).as_bytes()),
        ),
        ("tags of the link", Packet { tags: vec![0x8100], ..original.clone() }),
    ];
    for (name, packet) in same {
        assert_eq!(decide(&classifier, &packet), SERVED, "{name}");
    }
    let other = [
        ("address", Packet { source_v4: Ipv4Addr::new(198, 51, 100, 8), ..original.clone() }),
        ("a byte of the body", bytes(&[&original.datagram[..], b"x"].concat())),
        ("case of the method", bytes(text.replacen("INVITE", "invite", 1).as_bytes())),
        ("branch", bytes(text.replace("z9hG4bK776", "z9hG4bK777").as_bytes())),
    ];
    for (name, packet) in other {
        assert_eq!(decide(&classifier, &packet), UNREAD, "{name}");
    }
}

#[test]
fn the_same_bytes_to_another_service_are_another_request_with_the_same_share() {
    let (mut classifier, words) = with_table(64);
    let here = invite(1);
    let there = Packet { destination_port: ANY_PORT, ..here.clone() };
    table(&words).settle(hash_of(&here), HandedOver, now(&classifier));
    assert_eq!(decide(&classifier, &here), SERVED);
    assert_eq!(decide(&classifier, &there), UNREAD);
    table(&words).settle(hash_of(&there), Queued, now(&classifier));
    assert_eq!(decide(&classifier, &there), WAITS);
    assert_eq!(decide(&classifier, &here), SERVED);

    set_gates(&mut classifier, gate(OVERLOAD, 0x8000_0000));
    let mut inside = 0;
    for call in 100..200 {
        let packet = invite(call);
        let elsewhere = Packet { destination_port: ANY_PORT, ..packet.clone() };
        let reasons = [&packet, &elsewhere].map(|packet| decide(&classifier, packet).1);
        assert_eq!(reasons[0], reasons[1], "call {call}");
        inside += usize::from(reasons[0] == Reason::ShareInside);
    }
    assert!((20..80).contains(&inside), "{inside} of 100 in a share of one half");
}

#[test]
fn what_no_copy_may_be_made_of_is_not_looked_up() {
    let (classifier, words) = with_table(64);
    let now = now(&classifier);
    for first in
        ["ACK sip:b@x SIP/2.0", "CANCEL sip:b@x SIP/2.0", "SIP/2.0 200 OK", "INVITE urn:service:sos SIP/2.0"]
    {
        let packet = Packet::with(format!("{first}\r\nCall-ID: 1\r\n\r\n"));
        let before = decide(&classifier, &packet);
        for state in TransactionState::ALL {
            table(&words).settle(hash_of(&packet), state, now);
            assert_eq!(decide(&classifier, &packet), before, "{first}");
        }
    }
    let bye = Packet::with("BYE sip:b@x SIP/2.0\r\nCall-ID: 1\r\n\r\n");
    assert_eq!(decide(&classifier, &bye).0, Class::InDialog);
    table(&words).settle(hash_of(&bye), Queued, now);
    assert_eq!(decide(&classifier, &bye), WAITS);
}

#[test]
fn more_copies_than_a_client_makes_are_dropped_and_each_method_has_its_limit() {
    let (classifier, words) = with_table(64);
    let register = Packet::with("REGISTER sip:x SIP/2.0\r\nCall-ID: 1\r\n\r\n");
    for (packet, limit) in [(invite(1), 6), (register, 10)] {
        table(&words).settle(hash_of(&packet), HandedOver, now(&classifier));
        for copy in 1..=limit {
            assert_eq!(decide(&classifier, &packet), SERVED, "copy {copy}");
        }
        for copy in limit + 1..40 {
            assert_eq!(decide(&classifier, &packet), EXCESS, "copy {copy}");
        }
        let copies = table(&words).recall(hash_of(&packet), now(&classifier)).map(|known| known.copies);
        assert_eq!(copies, Some(15), "user space reads what the program has counted");
    }
}

#[test]
fn what_is_shed_here_stays_shed_when_the_gate_opens() {
    let (mut classifier, words) = with_table(64);
    for (call, closed, reason) in
        [(1, gate(OVERLOAD, 0), Reason::ShareOutside), (2, gate(DISCARD, 0), Reason::GateDiscard)]
    {
        let packet = invite(call);
        set_gates(&mut classifier, closed);
        assert_eq!(decide(&classifier, &packet), (Class::Original, reason, Verdict::RingReject));
        set_gates(&mut classifier, 0);
        assert_eq!(decide(&classifier, &packet), REFUSED);
        let known = table(&words).recall(hash_of(&packet), now(&classifier));
        assert_eq!(known, Some(Known { state: Shed, copies: 2 }));
    }
    set_gates(&mut classifier, gate(OVERLOAD, u32::MAX));
    assert_eq!(decide(&classifier, &invite(3)).1, Reason::ShareInside);
    assert_eq!(
        table(&words).recall(hash_of(&invite(3)), now(&classifier)),
        None,
        "a full ring may lose what is admitted"
    );
}

#[test]
fn a_request_is_forgotten_when_its_time_is_over() {
    let (classifier, words) = with_table(64);
    let now = now(&classifier);
    for (call, age_s, remembered) in [(1, 0, true), (2, 31, true), (3, 34, false), (4, 200, false)] {
        let packet = invite(call);
        table(&words).settle(hash_of(&packet), HandedOver, now.saturating_sub(age_s * 1_000_000_000));
        let expected = if remembered && now > age_s * 1_000_000_000 { SERVED } else { UNREAD };
        assert_eq!(decide(&classifier, &packet), expected, "{age_s} s");
    }
}

#[test]
fn a_refusal_ends_in_time_however_lately_it_was_repeated() {
    const SECOND: u64 = 1_000_000_000;
    let (classifier, words) = with_table(64);
    let now = now(&classifier);
    assert!(now > 60 * SECOND, "the clock counts from the start of the host, which has just started");
    for (call, state, age_s, expected) in
        [(1, Shed, 20, REFUSED), (2, Shed, 34, UNREAD), (3, HandedOver, 34, SERVED), (4, Queued, 34, WAITS)]
    {
        let packet = invite(call);
        table(&words).settle(hash_of(&packet), state, now - age_s * SECOND);
        let copy = table(&words).recall(hash_of(&packet), now - 10 * SECOND);
        assert_eq!(copy.map(|known| known.state), Some(state), "{state:?}, {age_s} s");
        assert_eq!(decide(&classifier, &packet), expected, "{state:?}, {age_s} s");
    }
}

/// Fingerprint and state of every slot: all but the times and counts.
fn contents(words: &MappedWords) -> Vec<u64> {
    (0..words.words().len()).map(|index| words.load(index) >> 20).collect()
}

#[test]
fn the_program_enters_and_evicts_exactly_as_user_space_does() {
    let mut random = Random(7);
    for buckets in [1, 2, 16] {
        // Ages are whole units of the table's clock; repeated if a unit ended meanwhile.
        let same = (0..20).any(|_| {
            let ((mut ours, program), (_, user)) = (with_table(buckets), with_table(buckets));
            set_gates(&mut ours, gate(DISCARD, 0));
            let began = now(&ours);
            for _ in 0..buckets * 12 {
                let packet = invite(random.next());
                // Some slots are old, so that age decides who goes.
                if random.below(3) == 0 {
                    let (hash, age) = (random.next(), random.next() % 60_000_000_000);
                    for words in [&program, &user] {
                        table(words).settle(hash, Queued, began.saturating_sub(age));
                    }
                    continue;
                }
                decide(&ours, &packet);
                table(&user).settle(hash_of(&packet), Shed, began);
            }
            began >> 30 == now(&ours) >> 30 && contents(&program) == contents(&user)
        });
        assert!(same, "{buckets} buckets");
    }
}

#[test]
fn the_program_and_user_space_write_the_same_slot_and_lose_no_hand_over() {
    let (classifier, words) = with_table(1);
    let now = now(&classifier);
    let packet = invite(1);
    let hash = hash_of(&packet);
    std::thread::scope(|scope| {
        let flips = scope.spawn(|| {
            for call in 0..200_000_u64 {
                table(&words).settle(((call % 3) + 1) << 22, Queued, now);
                table(&words).settle(hash, Queued, now);
            }
            while table(&words).settle(hash, HandedOver, now) == overload::Entered::Lost {}
        });
        while !flips.is_finished() {
            let (class, reason, _) = decide(&classifier, &packet);
            let known = matches!(reason, Reason::OriginalWaits | Reason::OriginalServed | Reason::CopyExcess);
            assert!(known || class == Class::Undecided, "{reason:?}");
        }
    });
    let state = table(&words).recall(hash, now).map(|known| known.state);
    assert_eq!(state, Some(HandedOver));
}

#[test]
fn equal_seeds_give_equal_answers_at_every_node() {
    let (classifier, words) = with_table(64);
    let (other, _) = with_table(64);
    for call in 0..50 {
        let meta = |classifier: &Classifier| {
            classifier.test_run(&invite(call).bytes()).expect("a run").meta.expect("a ring").txn_hash
        };
        let hash = meta(&classifier);
        assert_eq!(hash, meta(&other));
        assert_eq!(hash, transaction_hash(&key(), IpAddr::V4(CALLER_V4), 0, &invite(call).datagram, 0, None));
    }
    assert_eq!(table(&words).sweep(0..64, now(&classifier)), 0, "what is admitted leaves no trace here");
}
