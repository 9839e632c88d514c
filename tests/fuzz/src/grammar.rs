//! Messages of every kind that comes by UDP to a SIP port: requests and responses as RFC 3261 has them, as phones
//! write them, and as nobody should.
//!
//! Each place of the grammar has its usual form most of the time, so that what is odd in a message is one or two
//! things and not all of them. Not here: changing a message that exists (`mutate`), the packet around it (`packet`).

mod words;

use crate::random::Random;

pub(crate) use words::TOKENS;

/// Writes a message into `out`, which is emptied first.
pub fn write_message(random: &mut Random, out: &mut Vec<u8>) {
    out.clear();
    if random.once_in(8) {
        put(out, random.pick(&words::LEADING));
    }
    let end = if random.once_in(3) { random.pick(&words::LINE_ENDS) } else { "\r\n" };
    if random.once_in(12) {
        put(out, random.pick(&words::STATUS_LINES));
    } else {
        write_request_line(random, out);
    }
    put(out, end);
    // The blanks of a line end belong to the start line; headers have their own.
    let end = if end.contains('\r') { "\r\n" } else { "\n" };
    write_headers(random, out, end);
    if !random.once_in(10) {
        put(out, end);
        if random.once_in(2) {
            put(out, random.pick(&words::BODIES));
        }
    }
}

/// Random bytes of random length, now and then with line ends or with the head of a STUN message.
pub fn write_noise(random: &mut Random, out: &mut Vec<u8>, len_max: usize) {
    out.clear();
    let len = if random.once_in(3) { random.below(24) } else { random.below(len_max) };
    let kind = random.below(4);
    for _ in 0..len {
        let byte = random.byte();
        out.push(match kind {
            0 => byte,
            1 => b"\r\n \t;:@SIP/2.0tag=rtx"[usize::from(byte) % 21],
            2 => byte & 0x7f,
            _ => b"\r\n\0A"[usize::from(byte) % 4],
        });
    }
    if random.once_in(8) && out.len() >= 8 {
        out[0] &= 0x3f;
        out[4..8].copy_from_slice(&[0x21, 0x12, 0xa4, 0x42]);
    }
}

fn write_request_line(random: &mut Random, out: &mut Vec<u8>) {
    put(out, random.pick(&words::METHODS));
    put(out, random.pick(&words::SEPARATORS));
    if random.once_in(12) {
        put(out, random.pick(&words::URNS));
    } else {
        write_uri(random, out);
    }
    put(out, random.pick(&words::SEPARATORS));
    put(out, if random.once_in(4) { random.pick(&words::VERSIONS) } else { "SIP/2.0" });
}

fn write_uri(random: &mut Random, out: &mut Vec<u8>) {
    put(out, random.pick(&words::SCHEMES));
    put(out, random.pick(&words::USERS));
    if random.once_in(24) {
        // Around the kernel's bound for start lines.
        let len = 400 + random.below(160);
        out.extend(std::iter::repeat_n(b'p', len));
    }
    put(out, random.pick(&words::HOSTS));
    for _ in 0..[0, 0, 0, 1, 1, 2, 3, 40][random.below(8)] {
        put(out, random.pick(&words::URI_PARAMETERS));
    }
    if random.once_in(12) {
        put(out, random.pick(&words::URI_HEADERS));
    }
}

fn write_headers(random: &mut Random, out: &mut Vec<u8>, end: &str) {
    let lines = match random.below(16) {
        0 => 0,
        1 => 60 + random.below(20),
        _ => 4 + random.below(14),
    };
    let to_at = random.below(lines.max(1));
    for line in 0..lines {
        if line == to_at && !random.once_in(16) {
            write_to(random, out);
        } else if random.once_in(20) {
            put(out, random.pick(&words::NEAR_HEADERS));
        } else if random.once_in(8) {
            put(out, if random.once_in(4) { "v:" } else { "Via: " });
            put(out, random.pick(&words::VIAS));
        } else if random.once_in(64) {
            // Nothing of interest, and long: the next line begins at another place of its word, or behind the bound.
            put(out, "X: ");
            let limit = if random.once_in(4) { 1500 } else { 64 };
            let len = random.below(limit);
            out.extend(std::iter::repeat_n(b'x', len));
        } else {
            put(out, random.pick(&words::PLAIN_HEADERS));
        }
        if random.once_in(40) {
            put(out, end);
            put(out, if random.once_in(2) { " ;tag=2" } else { "\tfolded" });
        }
        put(out, if random.once_in(64) { random.pick(&words::LINE_ENDS) } else { end });
    }
    if random.once_in(40) {
        write_to(random, out);
        put(out, end);
    }
}

fn write_to(random: &mut Random, out: &mut Vec<u8>) {
    put(out, random.pick(&words::TO_NAMES));
    put(out, ":");
    put(out, random.pick(&words::TOS));
}

/// The words are text, but what they stand for is bytes: U+0080 to U+00FF are written as one byte each.
fn put(out: &mut Vec<u8>, text: &str) {
    if text.is_ascii() {
        out.extend_from_slice(text.as_bytes());
    } else {
        out.extend(text.chars().map(|letter| u8::try_from(u32::from(letter)).unwrap_or(b'?')));
    }
}

#[cfg(test)]
mod tests {
    use sip::{Class, classify};

    use super::*;

    #[test]
    fn made_messages_are_of_every_class_and_mostly_requests() {
        let mut counts = [0; 16];
        let mut out = Vec::new();
        for index in 0..20_000 {
            write_message(&mut Random::of(1, index), &mut out);
            counts[classify(&out).class as usize] += 1;
        }
        let of = |class: Class| counts[class as usize];
        for class in [
            Class::Response,
            Class::Ack,
            Class::Cancel,
            Class::InDialog,
            Class::Emergency,
            Class::Copy,
            Class::NotSip,
        ] {
            assert!(of(class) > 200, "{class:?}: {counts:?}");
        }
        assert!(of(Class::Original) > 5000, "{counts:?}");
    }

    #[test]
    fn noise_is_of_every_length_and_is_never_a_request() {
        let mut out = Vec::new();
        let mut longest = 0;
        for index in 0..5000 {
            write_noise(&mut Random::of(2, index), &mut out, 900);
            longest = longest.max(out.len());
            assert!(
                matches!(classify(&out).class, Class::NotSip | Class::Keepalive | Class::Stun),
                "{}",
                out.escape_ascii()
            );
        }
        assert!(longest > 800, "{longest}");
    }
}
