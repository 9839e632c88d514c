//! The C classifier against the Rust one: wherever C decides, both say the same, to the byte offset and the hash.
//! Corpora, grammar-made messages, mutations of them, and random bytes; gate open, in overload, and shut. Needs root.

mod support;

use std::net::Ipv4Addr;
use std::path::Path;

use sip::class::{Class, Reason, Verdict};
use sip::{Services, classify, parse_packet, share_hash, transaction_hash, verdict_of};
use support::{
    DISCARD, INVITE, Ip, OVERLOAD, Packet, Random, classifier, decision, gate, key, set_gates, settings,
};
use xdp_prog::Classifier;

/// Longest frame of the default settings.
const FRAME_LEN: usize = 2048;

/// How often C decided, of how many: an agreement about nothing would be worthless.
#[derive(Debug, Default)]
struct Tally {
    messages: usize,
    undecided: usize,
}

/// Runs one packet and compares every word that C said with what Rust says.
fn compare(classifier: &Classifier, packet: &Packet, word: u64, tally: &mut Tally) {
    let bytes = packet.bytes();
    let run = classifier.test_run(&bytes).expect("a run");
    let said = decision(&run);
    let text = || format!("{:?}\nC: {said:?} {:?}", packet.datagram.escape_ascii().to_string(), run.meta);
    assert_eq!(run.packet_out, bytes, "{}", text());
    let services = Services::new(settings().services.iter().map(|service| (service.ip, service.port)));
    let (datagram, service) = match parse_packet(&bytes, &services, FRAME_LEN) {
        Ok(found) => found,
        Err((class, reason)) => return assert_eq!(said, (class, reason, Verdict::Pass), "{}", text()),
    };
    let payload = datagram.payload(&bytes);
    let message = classify(payload);
    tally.messages += 1;

    if let Some(meta) = run.meta {
        assert_eq!(meta.service, service, "{}", text());
        assert_eq!(usize::from(meta.payload_offset), datagram.payload_offset, "{}", text());
        assert_eq!(usize::from(meta.payload_len), datagram.payload_len, "{}", text());
    }
    let is_open = word == 0;
    match said {
        (Class::Undecided, Reason::HeadersUnread, verdict) => {
            assert!(is_open, "{}", text());
            assert_eq!(verdict, Verdict::RingNew, "{}", text());
            let by_headers = [Reason::EmergencyCall, Reason::ToTag, Reason::NewRequest, Reason::Credentials];
            assert!(by_headers.contains(&message.reason), "{}: {message:?}", text());
        }
        (Class::Undecided, reason, verdict) => {
            tally.undecided += 1;
            assert!(matches!(reason, Reason::ScanBound | Reason::HeaderUnclear), "{}", text());
            assert_eq!(verdict, Verdict::RingNew, "{}", text());
        }
        (Class::Original, reason, verdict) => {
            assert!(!is_open, "{}", text());
            assert_eq!(message.class, Class::Original, "{}: {message:?}", text());
            let hash = transaction_hash(
                &key(),
                packet.source(),
                service,
                payload,
                usize::from(message.start),
                message.marker,
            );
            let share = u64::from(share_hash(hash, service));
            let expected = if word >> 32 == DISCARD {
                (Reason::GateDiscard, Verdict::RingReject)
            } else if message.reason == Reason::Credentials && share >> 1 < word & 0xffff_ffff {
                (Reason::Credentials, Verdict::RingNew)
            } else if message.reason != Reason::Credentials && share < word & 0xffff_ffff {
                (Reason::ShareInside, Verdict::RingNew)
            } else {
                (Reason::ShareOutside, Verdict::RingReject)
            };
            assert_eq!((reason, verdict), expected, "{}: {share:#x}", text());
            let expected = if word >> 32 == DISCARD { 0 } else { hash };
            assert_eq!(run.meta.map(|meta| meta.txn_hash), Some(expected), "{}", text());
        }
        (class, reason, verdict) => {
            assert_eq!((class, reason), (message.class, message.reason), "{}: {message:?}", text());
            assert_eq!(verdict, verdict_of(class), "{}", text());
        }
    }

    let Some(meta) = run.meta else { return };
    if said.0 == Class::Undecided && said.1 != Reason::HeadersUnread {
        return;
    }
    assert_eq!(meta.start_line_len, message.start_line_len, "{}: {message:?}", text());
    assert_eq!(meta.method, message.method as u8, "{}: {message:?}", text());
    let marker = message.marker.map(|marker| {
        let offset = usize::from(marker.offset) + datagram.payload_offset;
        (marker.form as u8, marker.copy, offset, marker.len)
    });
    let expected = marker.unwrap_or_default();
    let found = (meta.marker_form, meta.marker_copy, usize::from(meta.marker_offset), meta.marker_len);
    assert_eq!(found, expected, "{}: {message:?}", text());
}

/// Gate words under which each message is tried.
fn words() -> [u64; 4] {
    [0, gate(OVERLOAD, 0x8000_0000), gate(OVERLOAD, 0), gate(DISCARD, 0)]
}

/// Every datagram under every gate word.
fn compare_all(datagrams: &mut dyn Iterator<Item = Vec<u8>>) -> Tally {
    let mut classifier = classifier();
    let mut tally = Tally::default();
    let mut random = Random(77);
    let words = words();
    let mut current = 0;
    set_gates(&mut classifier, 0);
    for datagram in datagrams {
        if datagram.len() + 70 > FRAME_LEN {
            continue;
        }
        let word = words[random.below(words.len())];
        if word != current {
            set_gates(&mut classifier, word);
            current = word;
        }
        let ip = if random.below(2) == 0 { Ip::V4 } else { Ip::V6 };
        let padding = vec![b'\n'; random.below(3) * 9];
        compare(&classifier, &Packet { ip, padding, ..Packet::with(datagram) }, word, &mut tally);
    }
    tally
}

const METHODS: [&str; 20] = [
    "INVITE",
    "ACK",
    "CANCEL",
    "BYE",
    "PRACK",
    "REGISTER",
    "OPTIONS",
    "SUBSCRIBE",
    "NOTIFY",
    "PUBLISH",
    "INFO",
    "REFER",
    "MESSAGE",
    "UPDATE",
    "invite",
    "Subscribe",
    "X",
    "SUBSCRIBER",
    "!interesting-Method0123456789_*+`.%",
    "INVIT\u{45}\u{7f}",
];
const SEPARATORS: [&str; 6] = [" ", " ", " ", "\t", "  ", "          "];
const URIS: [&str; 22] = [
    "sip:bob@example.com",
    "sip:bob@example.com;transport=udp;lr",
    "sip:bob@example.com;rtx=0",
    "sip:bob@example.com;rtx=1",
    "sip:bob@example.com;rtx=12;x=y",
    "sip:bob@example.com;rtx=123",
    "sip:bob@example.com;rtx=3?subject=x",
    "sip:bob;rtx=4@example.com",
    "sip:bob;rtx=4@example.com;rtx=5;rtx=6",
    "sip:bob@example.com?a=b;rtx=7",
    "sip:a?b;rtx=1@example.com;x;rtx=8",
    "sip:bob@example.com;rtx=",
    "sip:bob@example.com;RTX=1",
    "<sip:bob@example.com>;rtx=2",
    "sip:b b@example.com;rtx=9",
    "urn:service:sos",
    "URN:service:sos.police",
    "urn:service:sos;rtx=1",
    "urn:service:sosa",
    "tel:+15551234;rtx=1",
    "",
    ";rtx=1",
];
const VERSIONS: [&str; 14] = [
    "SIP/2.0",
    "SIP/2.0",
    "SIP/2.0",
    "SIP/2.0",
    "sip/2.0",
    "SIP/7.1",
    "SIP/12.0",
    "SIP/2.",
    "SIP/2.0 rtx=1",
    "SIP/2.0 rtx=0",
    "SIP/2.0 rtx=42",
    "SIP/2.0  rtx=1",
    "HTTP/1.1",
    "SIP/2.0 rtx=1 rtx=2",
];
const LINE_ENDS: [&str; 6] = ["\r\n", "\r\n", "\r\n", "\n", " \r\n", "\t\t\n"];
const LEADING: [&str; 6] = ["", "", "", "\r\n", "\r\n\r\n", "\r\n\n\r\n\r\n\r\n"];
const STATUS_LINES: [&str; 8] = [
    "SIP/2.0 200 OK",
    "sip/2.0 180",
    "SIP/2.0 1000 x",
    "SIP/2.0 20",
    "SIP/2.0  100 x",
    "SIP/1.0 100 x",
    "SIP/2.0 200\t",
    "SIP/2.0 SIP/2.0",
];
/// The first of the headers.
const USUAL_HEADERS: usize = 8;
const HEADERS: [&str; 33] = [
    "Via: SIP/2.0/UDP 198.51.100.7;branch=z9hG4bK776",
    "v: SIP/2.0/UDP a;branch=z9hG4bK1;tag=1",
    "Max-Forwards: 70",
    "From: <sip:a@b>;tag=1",
    "f:<sip:a@b>;tag=1",
    "Call-ID: 1@x",
    "CSeq: 1 INVITE",
    "Subject: a longer line that fills some words and says nothing at all about tags",
    "To: <sip:b@x>",
    "To: <sip:b@x>",
    "To: <sip:b@x>;tag=abc",
    "t: <sip:b@x>;tag=abc",
    "t:<sip:b@x>;TAG=abc;x",
    "TO :sip:b@x;tag=abc",
    "To  : sip:b@x;tag=abc",
    "To: \"tag=1;tag=2\" <sip:b@x>",
    "To: \"x\" <sip:b@x>;tag=1",
    "To: <sip:b@x;tag=1>",
    "To: <sip:b@x>;x=\">;tag=1\"",
    "To: <sip:b@x>;tagged=1",
    "To: sip:b@x",
    "To: <sip:b@x>\r\n\t;tag=1",
    "To:\r\n <sip:b@x>;tag=1",
    "Topic: <x>;tag=1",
    "Timestamp: 1",
    "Resource-Priority: esnet.1",
    "resource-priority : esnet.1",
    "Resource-Priority",
    "Resource-Prioritx: 1",
    "Authorization: Digest x",
    "proxy-authorization: y",
    "Authorization-Info: z",
    "Route: <sip:p;lr>;tag=1",
];

/// A message from the grammar and from its neighbourhood.
fn message(random: &mut Random) -> Vec<u8> {
    let end = random.pick(&LINE_ENDS);
    let mut text = random.pick(&LEADING).to_owned();
    if random.below(8) == 0 {
        text += random.pick(&STATUS_LINES);
    } else {
        for part in
            [random.pick(&METHODS), random.pick(&SEPARATORS), random.pick(&URIS), random.pick(&SEPARATORS)]
        {
            text += part;
        }
        text += random.pick(&VERSIONS);
    }
    text += end;
    let end = if end.contains('\r') { "\r\n" } else { "\n" };
    for _ in 0..random.below(14) {
        // Mostly the usual ones, or hardly a message would be free of something unclear.
        let from = if random.below(4) == 0 { &HEADERS[..] } else { &HEADERS[..USUAL_HEADERS] };
        text += random.pick(from);
        text += end;
    }
    if random.below(8) != 0 {
        text += end;
    }
    if random.below(2) == 0 {
        text += "v=0\r\nt=0 0\r\nTo: <x>;tag=9\r\n";
    }
    text.into_bytes()
}

/// Changes a few bytes: flips, cuts, inserts, swaps for bytes that mean something.
fn mutate(mut bytes: Vec<u8>, random: &mut Random) -> Vec<u8> {
    const MEANT: &[u8] = b"\r\n \t;:@?=<>\"\\tagTAGrtx0159/.\0\xff";
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len().max(1));
        match random.below(6) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] = random.byte(),
            2 if at < bytes.len() => bytes[at] = MEANT[random.below(MEANT.len())],
            3 => bytes.insert(at.min(bytes.len()), MEANT[random.below(MEANT.len())]),
            4 if at < bytes.len() => drop(bytes.remove(at)),
            _ if at < bytes.len() => bytes[at] ^= 0x20,
            _ => {}
        }
    }
    bytes
}

#[test]
fn made_messages() {
    let mut random = Random(1);
    let tally = compare_all(&mut (0..110_000).map(|_| message(&mut random)));
    assert!(tally.undecided * 3 < tally.messages * 2, "C leaves too much undecided: {tally:?}");
}

#[test]
fn mutated_messages() {
    let mut random = Random(2);
    let tally = compare_all(&mut (0..110_000).map(|_| {
        let message = if random.below(3) == 0 { INVITE.to_vec() } else { message(&mut random) };
        mutate(message, &mut random)
    }));
    assert!(tally.undecided * 3 < tally.messages * 2, "C leaves too much undecided: {tally:?}");
}

#[test]
fn random_bytes() {
    let mut random = Random(3);
    let tally = compare_all(&mut (0..20_000).map(|_| {
        let len = random.below(700);
        (0..len).map(|_| random.byte()).collect()
    }));
    assert!(tally.messages == 20_000, "{tally:?}");
}

#[test]
fn packets_with_mutated_headers() {
    let classifier = classifier();
    let mut random = Random(4);
    let services = Services::new(settings().services.iter().map(|service| (service.ip, service.port)));
    for _ in 0..40_000 {
        let tags =
            vec![vec![], vec![0x8100], vec![0x88a8, 0x8100], vec![0x8100; 3]].swap_remove(random.below(4));
        let ip = if random.below(2) == 0 { Ip::V4 } else { Ip::V6 };
        let mut bytes = Packet { ip, tags, ..Packet::with("OPTIONS sip:x SIP/2.0\r\n\r\n") }.bytes();
        for _ in 0..=random.below(2) {
            let at = random.below(bytes.len());
            bytes[at] = random.byte();
        }
        let said = decision(&classifier.test_run(&bytes).expect("a run"));
        match parse_packet(&bytes, &services, FRAME_LEN) {
            Err((class, reason)) => assert_eq!(said, (class, reason, Verdict::Pass), "{bytes:02x?}"),
            Ok(_) => assert!(said.0 != Class::Foreign && said.0 != Class::Exotic, "{said:?} {bytes:02x?}"),
        }
    }
}

#[test]
fn sources_that_no_other_host_can_have_pass_to_the_kernel_which_drops_them() {
    let classifier = classifier();
    let services = Services::new(settings().services.iter().map(|service| (service.ip, service.port)));
    let good = || Packet::with("OPTIONS sip:x SIP/2.0\r\n\r\n");
    let mut packets = Vec::new();
    for first in 0..=255 {
        for rest in [[0, 0, 0], [0, 0, 1], [255, 255, 254], [255, 255, 255]] {
            let source_v4 = Ipv4Addr::new(first, rest[0], rest[1], rest[2]);
            packets.push((
                first == 0 || first == 127 || (224..240).contains(&first) || source_v4.is_broadcast(),
                Packet { source_v4, ..good() },
            ));
        }
    }
    for (source, martian) in [
        ("::1", true),
        ("ff02::1", true),
        ("ff0e::5", true),
        ("::ffff:198.51.100.7", true),
        ("::ffff:0.0.0.1", true),
        ("::", false),
        ("::2", false),
        ("::198.51.100.7", false),
        ("::fffe:198.51.100.7", false),
        ("::1:0:0:1", false),
        ("fe80::1", false),
        ("fdff::1", false),
        ("1::1", false),
        ("0:0:0:1:0:ffff:c633:6407", false),
    ] {
        let source_v6 = source.parse().expect("an address");
        packets.push((martian, Packet { source_v6, ip: Ip::V6, ..good() }));
    }
    for (martian, packet) in packets {
        let said = decision(&classifier.test_run(&packet.bytes()).expect("a run"));
        let by_user = parse_packet(&packet.bytes(), &services, FRAME_LEN).err();
        let expected = martian.then_some((Class::Exotic, Reason::SourceMartian));
        assert_eq!(by_user, expected, "{packet:?}");
        assert_eq!(said.1 == Reason::SourceMartian, martian, "{packet:?}");
        assert_eq!(martian, said == (Class::Exotic, Reason::SourceMartian, Verdict::Pass), "{packet:?}");
    }
}

#[test]
fn a_marker_at_any_place_leaves_the_hash_alone() {
    let mut classifier = classifier();
    let word = gate(OVERLOAD, 0x8000_0000);
    set_gates(&mut classifier, word);
    let mut tally = Tally::default();
    for pad in 0..40 {
        let user = "u".repeat(pad);
        for tail in 0..20 {
            let rest = format!("\r\nA: {}\r\n\r\n", "b".repeat(tail));
            let hash_of = |line: String| {
                let packet = Packet::with(line + &rest);
                let run = classifier.test_run(&packet.bytes()).expect("a run");
                run.meta.expect("a ring").txn_hash
            };
            let plain = hash_of(format!("INVITE sip:{user} SIP/2.0"));
            assert_ne!(plain, 0);
            assert_eq!(plain, hash_of(format!("INVITE sip:{user} SIP/2.0 rtx=0")));
            assert_eq!(plain, hash_of(format!("INVITE sip:{user} SIP/2.0 rtx=00")));
            assert_eq!(plain, hash_of(format!("INVITE sip:{user};rtx=0 SIP/2.0")));
            assert_eq!(plain, hash_of(format!("\r\n\r\nINVITE sip:{user};rtx=00 SIP/2.0")));
            let marked = format!("INVITE sip:{user};rtx=0 SIP/2.0{rest}");
            compare(&classifier, &Packet::with(marked), word, &mut tally);
        }
        // The shortest tail: the line feed alone stands behind the marker.
        compare(&classifier, &Packet::with(format!("INVITE sip:{user} SIP/2.0 rtx=0\n")), word, &mut tally);
    }
    assert_eq!(tally.undecided, 0);
}

#[test]
fn the_corpora() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus");
    let mut messages = vec![INVITE.to_vec()];
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for path in entries.map(|entry| entry.expect("a readable folder").path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                messages.push(std::fs::read(&path).expect("a readable file"));
            }
        }
    }
    assert!(messages.len() > 50, "{} messages in the corpora", messages.len());
    for word in words() {
        let mut classifier = classifier();
        set_gates(&mut classifier, word);
        let mut tally = Tally::default();
        for message in &messages {
            for cut in [message.len(), message.len() / 2, message.len().saturating_sub(3)] {
                let datagram = &message[..cut.min(FRAME_LEN - 70)];
                compare(&classifier, &Packet::with(datagram), word, &mut tally);
                compare(&classifier, &Packet { ip: Ip::V6, ..Packet::with(datagram) }, word, &mut tally);
            }
        }
        assert_eq!(tally.messages, messages.len() * 6);
    }
}
