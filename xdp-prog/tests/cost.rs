//! What the program costs for a 600-byte INVITE, as a multiple of a bare redirect measured in the same run (of 12 ns at least). Needs
//! root.
//!
//! `cargo test -p sipweir-xdp-prog --test cost -- --nocapture` prints the ratios. The two programs take turns, and the
//! best of many short series counts, because a shared machine only ever adds time.

mod support;

use std::net::Ipv4Addr;
use std::time::Duration;

use support::{CALLER_V4, DISCARD, OVERLOAD, Packet, gate, set_gates};
use xdp_prog::{Classifier, List, Settings, Yardstick};

const SERIES: usize = 40;
const RUNS_A_SERIES: u32 = 20_000;
/// A bare redirect is nearly all calls and returns: 36 ns where each return is guarded against speculation (Safe RET), 7 ns on a CPU
/// that needs no such guard. The work of the program itself differs by a tenth between the two, so the smaller one is
/// no measure for it.
const REDIRECT_MIN: Duration = Duration::from_nanos(12);
/// 16 MiB, the default.
const BUCKETS: u32 = 1 << 18;

/// An INVITE of 600 bytes with a short body.
fn invite(first: &str) -> Packet {
    let head = String::from_utf8_lossy(support::INVITE)
        .replacen("INVITE sip:bob@example.com SIP/2.0", first, 1)
        .into_bytes();
    let mut datagram = head;
    datagram.resize(600, b'v');
    Packet::with(datagram)
}

/// Denies this many single addresses, and not the caller's.
fn with_denied(classifier: &mut Classifier, count: u32) {
    let mut lists = classifier.take_source_lists().expect("the lists");
    for number in 0..count {
        // Spread over the whole space, as scanners are: an odd factor makes no address twice.
        let address = Ipv4Addr::from_bits(number.wrapping_mul(0x9e37_79b1));
        if address != CALLER_V4 {
            lists.enter(List::Deny, address.into(), 32).expect("entered");
        }
    }
}

/// Against the empty list and not against a bare redirect, since it is the list that is looked at.
#[test]
fn a_list_of_denied_sources_costs_little_whatever_its_length_and_spares_the_rest() {
    const MARKED: &str = "INVITE sip:bob@example.com SIP/2.0 rtx=1";
    let mut cases = [
        case("0 denied", 1.0, MARKED, 0, BUCKETS),
        case("1 denied", 1.5, MARKED, 0, BUCKETS),
        case("1,000 denied", 3.0, MARKED, 0, BUCKETS),
        case("100,000 denied", 5.0, MARKED, 0, BUCKETS),
        case("of a denied source", 0.7, MARKED, 0, BUCKETS),
    ];
    for (case, count) in cases.iter_mut().zip([0, 1, 1000, 100_000]) {
        with_denied(&mut case.classifier, count);
    }
    let mut lists = cases[4].classifier.take_source_lists().expect("the lists");
    lists.enter(List::Deny, CALLER_V4.into(), 32).expect("entered");
    let (_, best) = best_of(&cases);
    assert_within(&cases, best, best[0]);
}

struct Case {
    name: &'static str,
    ratio_max: f64,
    packet: Packet,
    classifier: Classifier,
}

fn case(name: &'static str, ratio_max: f64, first: &str, word: u64, buckets: u32) -> Case {
    let settings = Settings { transaction_buckets: buckets, list_room: 1 << 17, ..support::settings() };
    let mut classifier = support::load(&settings);
    set_gates(&mut classifier, word);
    Case { name, ratio_max, packet: invite(first), classifier }
}

#[test]
fn the_cost_of_an_invite_stays_within_its_multiple_of_a_bare_redirect() {
    const PLAIN: &str = "INVITE sip:bob@example.com SIP/2.0";
    let cases = [
        case("marked copy", 12.0, "INVITE sip:bob@example.com SIP/2.0 rtx=1", 0, BUCKETS),
        // The first run enters it as shed, all others are its copies.
        case("copy from the table", 20.0, PLAIN, gate(DISCARD, 0), BUCKETS),
        case("unmarked original, gate normal", 40.0, PLAIN, 0, BUCKETS),
        case("unmarked original, gate sheds", 60.0, PLAIN, gate(OVERLOAD, 0), 0),
        case("unmarked original, gate admits by share", 60.0, PLAIN, gate(OVERLOAD, u32::MAX), BUCKETS),
    ];
    let (bare, best) = best_of(&cases);
    println!("bare redirect: {} ns", bare.as_nanos());
    assert_within(&cases, best, bare.max(REDIRECT_MIN));
}

/// Of a bare redirect, and of each case, which take turns.
fn best_of(cases: &[Case; 5]) -> (Duration, [Duration; 5]) {
    let yardstick = Yardstick::load().expect("loaded");
    let mut bare = Duration::MAX;
    let mut best = [Duration::MAX; 5];
    for _ in 0..SERIES {
        for (best, case) in best.iter_mut().zip(cases) {
            let bytes = case.packet.bytes();
            bare = bare.min(yardstick.time_run(&bytes, RUNS_A_SERIES).expect("timed"));
            *best = (*best).min(case.classifier.time_run(&bytes, RUNS_A_SERIES).expect("timed"));
        }
    }
    (bare, best)
}

fn assert_within(cases: &[Case; 5], best: [Duration; 5], unit: Duration) {
    for (best, case) in best.iter().zip(cases) {
        let ratio = best.as_secs_f64() / unit.as_secs_f64();
        println!("{}: {} ns, {ratio:.1} of at most {}", case.name, best.as_nanos(), case.ratio_max);
    }
    for (best, case) in best.iter().zip(cases) {
        let ratio = best.as_secs_f64() / unit.as_secs_f64();
        assert!(ratio <= case.ratio_max, "{}: {ratio:.1} times the unit", case.name);
    }
}
