//! The scanner on any bytes: class, start line, marker, header lines, Call-ID, hash.

use std::sync::LazyLock;

use sip::headers::{Header, HeaderLines};
use sip::{
    Class, KernelFindings, Marker, MarkerForm, Message, Method, Reason, Seed, TransactionKey, call_id,
    call_key, classify, classify_rest, transaction_hash,
};

const SEED: Seed = Seed([0x1111_2222_3333_4444, 5, 6, 0x7777_8888_9999_aaaa]);

/// Offsets in a message are 16 bits wide, and no datagram is longer.
const LEN_MAX: usize = 65_535;

/// Reads a datagram in every way that the data path does.
///
/// # Panics
///
/// If a promise is broken.
pub fn scanner(datagram: &[u8]) {
    let datagram = &datagram[..datagram.len().min(LEN_MAX)];
    let message = classify(datagram);
    assert_ne!(message.class, Class::Undecided, "user space always decides");
    let line = usize::from(message.start)..usize::from(message.start) + usize::from(message.start_line_len);
    assert!(line.end <= datagram.len(), "the start line ends within the datagram");
    if let Some(marker) = message.marker {
        check_marker(datagram, &message, marker);
    }
    check_leading_line_ends(datagram, &message);
    check_finishing(datagram, &message);
    check_header_lines(datagram, &message);
}

fn hash(datagram: &[u8], message: &Message) -> u64 {
    static KEY: LazyLock<TransactionKey> = LazyLock::new(|| TransactionKey::new(&SEED));
    let hash =
        transaction_hash(&KEY, [192, 0, 2, 7].into(), 0, datagram, message.start.into(), message.marker);
    assert_ne!(hash, 0, "0 means that there is none");
    hash
}

/// A marker lies in the start line, says what it says, and leaves no trace but the class when it is cut out.
fn check_marker(datagram: &[u8], message: &Message, marker: Marker) {
    let place = usize::from(marker.offset)..usize::from(marker.offset) + usize::from(marker.len);
    let line_end = usize::from(message.start) + usize::from(message.start_line_len);
    assert!(
        usize::from(message.start) < place.start && place.end <= line_end,
        "a marker outside of its line"
    );
    let text = &datagram[place.clone()];
    let digits = match marker.form {
        MarkerForm::Field => text.strip_prefix(b" rtx="),
        MarkerForm::Uri => text.strip_prefix(b";rtx="),
        MarkerForm::None => None,
    };
    let number: Option<u8> = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    assert_eq!(number, Some(marker.copy), "{}", text.escape_ascii());

    let plain = [&datagram[..place.start], &datagram[place.end..]].concat();
    let without = classify(&plain);
    // A second marker is a marker of its own.
    if without.marker.is_none() {
        assert_eq!(without.method, message.method);
        assert_eq!(hash(&plain, &without), hash(datagram, message), "a copy is another transaction");
        if message.class != Class::Copy {
            assert_eq!((without.class, without.reason), (message.class, message.reason));
        }
    }
}

/// Line ends in front of a message change nothing.
fn check_leading_line_ends(datagram: &[u8], message: &Message) {
    if matches!(message.class, Class::Keepalive | Class::Stun) || datagram.len() + 2 > LEN_MAX {
        return;
    }
    let glued = [b"\r\n", datagram].concat();
    let again = classify(&glued);
    // Two bytes further on, the cookie may be where STUN has it.
    if again.class == Class::Stun {
        return;
    }
    assert_eq!((again.class, again.reason, again.method), (message.class, message.reason, message.method));
    assert_eq!(again.start, message.start + 2);
    assert_eq!(hash(&glued, &again), hash(datagram, message));
}

/// What the kernel leaves undecided is finished to the same end, and no findings can make it panic.
fn check_finishing(datagram: &[u8], message: &Message) {
    let findings = KernelFindings {
        start_line_len: message.start_line_len,
        method: message.method,
        marker: message.marker,
    };
    let by_start_line =
        matches!(message.reason, Reason::EmergencyCall | Reason::LinePing | Reason::StunMessage);
    if !by_start_line {
        assert_eq!(classify_rest(datagram, &findings), *message);
    }
    let nothing = KernelFindings { start_line_len: 0, method: Method::Other, marker: None };
    assert_eq!(classify_rest(datagram, &nothing), *message);
    for method in [Method::Invite, Method::Bye] {
        for start_line_len in [0, 3, u16::MAX] {
            let nonsense = KernelFindings { start_line_len, method, marker: message.marker };
            assert_ne!(classify_rest(datagram, &nonsense).class, Class::Undecided);
        }
    }
}

/// The header lines are those that a slow and obvious reading finds, and Call-ID is one of theirs.
fn check_header_lines(datagram: &[u8], message: &Message) {
    let slow = slow_header_lines(datagram);
    let lines: Vec<&[u8]> = HeaderLines::of(datagram).collect();
    assert_eq!(lines, slow);
    if message.start_line_len > 0 {
        assert_eq!(message.header_lines(datagram).collect::<Vec<_>>(), slow);
    }
    let mut call_ids = slow.iter().filter_map(|line| Header::split(line)).filter(|header| {
        header.name.eq_ignore_ascii_case(b"call-id") || header.name.eq_ignore_ascii_case(b"i")
    });
    let first = call_ids.next().map(|header| header.value).filter(|value| !value.is_empty());
    assert_eq!(call_id(datagram), first);
    assert_eq!(call_key(&SEED, datagram) != 0, first.is_some());
}

/// Splits at every line feed, then joins what begins with a blank to what stands before it.
fn slow_header_lines(datagram: &[u8]) -> Vec<&[u8]> {
    let start = datagram.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let mut ends = Vec::new();
    let mut at = start;
    for line in datagram[start..].split_inclusive(|byte| *byte == b'\n') {
        ends.push((at, at + line.len()));
        at += line.len();
    }
    let mut lines: Vec<(usize, usize)> = Vec::new();
    let mut continues_start_line = true;
    for (from, to) in ends.into_iter().skip(1) {
        match datagram[from] {
            b' ' | b'\t' => {
                if let (Some(last), false) = (lines.last_mut(), continues_start_line) {
                    last.1 = to;
                }
                continue;
            }
            b'\n' => break,
            b'\r' if datagram.get(from + 1) == Some(&b'\n') => break,
            _ => {}
        }
        continues_start_line = false;
        lines.push((from, to));
    }
    lines
        .into_iter()
        .map(|(from, to)| datagram[from..to].strip_suffix(b"\n").unwrap_or(&datagram[from..to]))
        .collect()
}
