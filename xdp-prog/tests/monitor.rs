//! What is only watched: every packet passes, and what would have been done is counted apart. Needs root.

mod support;

use std::net::IpAddr;

use afxdp::MappedWords;
use overload::{GateState, GateWord, SLOTS, TransactionTable};
use sip::class::{Class, Reason, Verdict};
use support::{CALLER_V6, INVITE, Packet, decide, set_gates};
use xdp_prog::{Classifier, Settings};

const BUCKETS: u32 = 64;
const ALL: u16 = u16::MAX;

fn classifier() -> Classifier {
    support::load(&Settings { transaction_buckets: BUCKETS, ..support::settings() })
}

fn word(state: GateState, classes: &[Class]) -> u64 {
    let bits = classes.iter().fold(0, |bits, class| bits | 1 << *class as u16);
    GateWord::new(state, 0).with_monitored(bits).bits()
}

fn invite(call: u64) -> Packet {
    Packet::with(String::from_utf8_lossy(INVITE).replace("a84b4c76e66710", &format!("call-{call}")))
}

fn with_first_line(line: &str) -> Packet {
    let text = String::from_utf8_lossy(INVITE);
    let (_, headers) = text.split_once("\r\n").expect("a start line");
    Packet::with(format!("{line}\r\n{headers}"))
}

/// Class and reason by which it passes, and what was counted as if.
fn watch(classifier: &Classifier, packet: &Packet) -> (support::Decision, Vec<support::Decision>) {
    let rows = || {
        let counters = classifier.monitored_reader().expect("a reader").read().expect("read");
        counters.iter().collect::<Vec<_>>()
    };
    let before = rows();
    let decision = decide(classifier, packet);
    let is_new = |row: &(u8, u8, u8, u64)| !before.contains(row);
    let named = |(class, verdict, reason, _): (u8, u8, u8, u64)| {
        let class = Class::from_u8(class).expect("a class");
        (class, Reason::from_u8(reason).expect("a reason"), Verdict::from_u8(verdict).expect("a verdict"))
    };
    (decision, rows().into_iter().filter(is_new).map(named).collect())
}

fn passes(class: Class) -> support::Decision {
    (class, Reason::Monitored, Verdict::Pass)
}

#[test]
fn every_packet_of_a_service_that_is_watched_passes_and_what_would_be_done_is_counted() {
    let mut classifier = classifier();
    for state in [GateState::Normal, GateState::Discard] {
        set_gates(&mut classifier, GateWord::new(state, 0).with_monitored(ALL).bits());
        let call = state as u64;
        let text = String::from_utf8_lossy(INVITE).replace("a84b4c76e66710", &format!("tagged-{call}"));
        let tagged = text.replace("<sip:bob@example.com>\r\n", "<sip:bob@example.com>;tag=1\r\n");
        let original = if state == GateState::Normal {
            (Class::Original, Reason::NewRequest, Verdict::RingNew)
        } else {
            (Class::Original, Reason::GateDiscard, Verdict::RingReject)
        };
        for (packet, expected) in [
            (invite(call), original),
            (Packet::with(tagged), (Class::InDialog, Reason::ToTag, Verdict::RingControl)),
            (
                with_first_line("ACK sip:bob@example.com SIP/2.0"),
                (Class::Ack, Reason::Method, Verdict::RingControl),
            ),
            (with_first_line("SIP/2.0 200 OK"), (Class::Response, Reason::StatusLine, Verdict::RingControl)),
            (Packet::with("\r\n\r\n"), (Class::Keepalive, Reason::LinePing, Verdict::RingRetransmission)),
            (
                Packet::with("nonsense that is long enough\r\n\r\n"),
                (Class::NotSip, Reason::BadStartLine, Verdict::RingRetransmission),
            ),
        ] {
            let (decision, as_if) = watch(&classifier, &packet);
            assert_eq!(decision, passes(expected.0), "{state:?}");
            assert_eq!(as_if, [expected], "{state:?}");
        }
    }
    let counters = classifier.counters().expect("counters");
    assert_eq!(counters.without_metadata(), 0, "they pass because they are watched");
    let as_if = classifier.monitored_reader().expect("a reader").read().expect("read");
    assert_eq!(as_if.total(), counters.total(), "each in both");
}

#[test]
fn copies_are_known_although_no_worker_enters_their_original() {
    let mut classifier = classifier();
    let words = MappedWords::map(classifier.transactions_fd(), BUCKETS as usize * SLOTS).expect("mapped");
    set_gates(&mut classifier, GateWord::OPEN.with_monitored(ALL).bits());
    let (_, first) = watch(&classifier, &invite(1));
    assert_eq!(first, [(Class::Original, Reason::NewRequest, Verdict::RingNew)]);
    let served = (Class::Copy, Reason::OriginalServed, Verdict::RingRetransmission);
    for copy in 1..=6 {
        let (decision, as_if) = watch(&classifier, &invite(1));
        assert_eq!(decision, passes(Class::Copy), "copy {copy}");
        assert_eq!(as_if, [served], "copy {copy}");
    }
    let (decision, as_if) = watch(&classifier, &invite(1));
    assert_eq!(
        (decision, as_if),
        (passes(Class::Copy), vec![(Class::Copy, Reason::CopyExcess, Verdict::Drop)])
    );
    let packet = invite(1);
    let hash = sip::transaction_hash(&support::key(), packet.source(), 0, &packet.datagram, 0, None);
    assert_eq!(TransactionTable::new(words.words()).expect("a table").slots_of(hash).count(), 1);
}

#[test]
fn what_claims_to_be_from_the_host_itself_passes_too_where_everything_is_only_watched() {
    let fragment = Packet { protocol: 44, ..Packet::v6() };
    for (monitored, reason, verdict) in
        [(0b111, Reason::IpFragment, Verdict::Pass), (0b110, Reason::SourceLocal, Verdict::Drop)]
    {
        let mut classifier = support::load(&Settings { monitored, ..support::settings() });
        classifier.set_local_addresses([IpAddr::V6(CALLER_V6)].into()).expect("room");
        assert_eq!(decide(&classifier, &fragment), (Class::Fragment, reason, verdict), "{monitored:#b}");
    }
}

#[test]
fn only_the_classes_that_are_named_pass() {
    let mut classifier = classifier();
    let discard = |classes: &[Class]| word(GateState::Discard, classes);
    let refused = (Class::Original, Reason::GateDiscard, Verdict::RingReject);
    set_gates(&mut classifier, discard(&[Class::Copy]));
    assert_eq!(decide(&classifier, &invite(1)), refused);
    assert_eq!(decide(&classifier, &invite(1)), passes(Class::Copy), "it would have been answered again");
    set_gates(&mut classifier, discard(&[Class::Original, Class::Undecided]));
    assert_eq!(decide(&classifier, &invite(2)), passes(Class::Original));
    let ack = with_first_line("ACK sip:bob@example.com SIP/2.0");
    assert_eq!(decide(&classifier, &ack), (Class::Ack, Reason::Method, Verdict::RingControl));
}
