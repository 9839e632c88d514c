//! Small and not so small changes to messages that exist. Not here: making one from nothing (`grammar`).

use crate::grammar::TOKENS;
use crate::random::Random;

/// Bytes that mean something to a scanner.
const MEANT: &[u8] = b"\r\n \t;:@?=<>\"\\,/tagTAGrtxRTX0159.\0\x80\xff";

/// Changes a message in up to six places. `other` is one that pieces may be taken from.
pub fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len());
        match random.below(16) {
            0 if !random.once_in(3) => bytes.truncate(at),
            1 => set(bytes, at, random.byte()),
            2 | 3 => set(bytes, at, MEANT[random.below(MEANT.len())]),
            4 | 5 => bytes.insert(at, MEANT[random.below(MEANT.len())]),
            6 | 7 => drop(bytes.drain(at..(at + 1 + random.below(3)).min(bytes.len()))),
            8 => flip(bytes, at, 0x20),
            9 => flip(bytes, at, 1 << random.below(8)),
            10 | 11 => insert(bytes, at, random.pick(&TOKENS).as_bytes()),
            12 => overwrite(bytes, at, random.pick(&TOKENS).as_bytes()),
            13 => splice(bytes, at, other, random),
            14 => {
                let piece = bytes[at..(at + random.below(24)).min(bytes.len())].to_vec();
                let to = random.below(bytes.len());
                insert(bytes, to, &piece);
            }
            _ => move_line_end(bytes, at, random),
        }
    }
}

fn set(bytes: &mut [u8], at: usize, byte: u8) {
    if let Some(place) = bytes.get_mut(at) {
        *place = byte;
    }
}

fn flip(bytes: &mut [u8], at: usize, bits: u8) {
    if let Some(place) = bytes.get_mut(at) {
        *place ^= bits;
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    bytes.splice(at..at, piece.iter().copied());
}

fn overwrite(bytes: &mut [u8], at: usize, piece: &[u8]) {
    for (place, byte) in bytes.iter_mut().skip(at).zip(piece) {
        *place = *byte;
    }
}

/// The front of one message and the back of another.
fn splice(bytes: &mut Vec<u8>, at: usize, other: &[u8], random: &mut Random) {
    bytes.truncate(at);
    bytes.extend_from_slice(&other[random.below(other.len())..]);
}

/// Makes the next line end at or behind `at` one of the others, or takes it away.
fn move_line_end(bytes: &mut Vec<u8>, at: usize, random: &mut Random) {
    let Some(feed) = bytes[at..].iter().position(|byte| *byte == b'\n').map(|offset| at + offset) else {
        return;
    };
    let start = if feed > 0 && bytes[feed - 1] == b'\r' { feed - 1 } else { feed };
    let end: &[u8] = random.pick(&[&b"\n"[..], b"\r", b"", b"\r\n ", b"\r\r\n", b"\n\n"]);
    bytes.splice(start..=feed, end.iter().copied());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_can_be_mutated_also_nothing() {
        for (index, start) in (0..20_000).map(|i| (i, &b"INVITE sip:a SIP/2.0\r\n\r\n"[..i as usize % 25])) {
            let mut bytes = start.to_vec();
            mutate(&mut bytes, if index % 2 == 0 { b"" } else { b"other\r\n" }, &mut Random::of(5, index));
        }
    }

    #[test]
    fn a_mutation_nearly_always_changes_something_and_leaves_much() {
        let message = b"OPTIONS sip:bob@example.com SIP/2.0\r\nTo: <sip:b@x>\r\nCall-ID: 1\r\n\r\n";
        let (mut same, mut kept) = (0, 0);
        for index in 0..1000 {
            let mut bytes = message.to_vec();
            mutate(&mut bytes, b"x", &mut Random::of(6, index));
            same += usize::from(bytes == message);
            kept += usize::from(bytes.len() > message.len() / 2);
        }
        assert!(same < 50, "{same} unchanged");
        assert!(kept > 600, "{kept} long ones");
    }
}
