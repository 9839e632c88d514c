//! The number that a Request-URI dials, to be compared with configured emergency numbers.
//!
//! It is the user part of a `sip` or `sips` URI or the number of a `tel` URI, up to the first '@', ';', ':' or blank.
//! Only up to seven characters count, as many as the XDP program compares in one word (`xdp-prog/request_uri.h`, the
//! same rules). Not here: what makes a number special, which is the configuration's business, and the emergency URN
//! (`message`).

/// Most characters of a number.
const LEN_MAX: usize = 7;

/// A dialled number: characters from the lowest byte on, their count in the highest byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Number(u64);

impl Number {
    /// A number as it is configured: 1 to 7 of the characters that numbers are dialled with.
    #[must_use]
    pub fn of_text(text: &str) -> Option<Self> {
        let dialled = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'*' | b'#');
        let fits = (1..=LEN_MAX).contains(&text.len()) && text.as_bytes().iter().all(dialled);
        fits.then(|| Self::of_bytes(text.as_bytes().iter().copied())).flatten()
    }

    /// As the XDP program compares it.
    #[must_use]
    pub const fn key(self) -> u64 {
        self.0
    }

    fn of_bytes(bytes: impl Iterator<Item = u8>) -> Option<Self> {
        let mut word = [0; 8];
        let mut len = 0;
        for byte in bytes {
            *word.get_mut(len).filter(|_| len < LEN_MAX)? = byte;
            len += 1;
        }
        // At most seven.
        word[LEN_MAX] = len as u8;
        (len > 0).then_some(Self(u64::from_le_bytes(word)))
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.0.to_le_bytes();
        let len = usize::from(bytes[LEN_MAX]).min(LEN_MAX);
        f.write_str(&String::from_utf8_lossy(&bytes[..len]))
    }
}

/// The number that a Request-URI dials; none if it has no scheme that dials, or more than seven characters.
#[must_use]
pub fn dialled_number(uri: &[u8]) -> Option<Number> {
    let colon = uri.iter().take(5).position(|byte| *byte == b':')?;
    let (scheme, rest) = (&uri[..colon], &uri[colon + 1..]);
    if !["sip", "sips", "tel"].iter().any(|known| scheme.eq_ignore_ascii_case(known.as_bytes())) {
        return None;
    }
    let end = rest.iter().position(|byte| matches!(byte, b'@' | b';' | b':' | b' ' | b'\t'));
    Number::of_bytes(Unescaped(&rest[..end.unwrap_or(rest.len())]))
}

/// Decodes `%XX` (RFC 3261 section 19.1.2); what is no escape stands for itself.
struct Unescaped<'a>(&'a [u8]);

impl Iterator for Unescaped<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let (byte, rest) = match *self.0 {
            [b'%', high, low, ref rest @ ..] => match (digit(high), digit(low)) {
                (Some(high), Some(low)) => (high << 4 | low, rest),
                _ => (b'%', &self.0[1..]),
            },
            [byte, ref rest @ ..] => (byte, rest),
            [] => return None,
        };
        self.0 = rest;
        Some(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::{Number, dialled_number};

    #[test]
    fn a_number_is_shown_as_it_is_configured() {
        for text in ["1", "112", "+123456", "*#1"] {
            assert_eq!(Number::of_text(text).expect(text).to_string(), text);
        }
    }

    #[test]
    fn a_number_is_found_in_every_form_of_uri_that_dials() {
        let number = Number::of_text("112");
        assert!(number.is_some());
        for uri in [
            "sip:112@example.com",
            "SIP:112@example.com;user=phone",
            "sips:112@example.com",
            "tel:112",
            "TEL:112;phone-context=example.com",
            "sip:112;phone-context=+49@example.com",
            "sip:112:password@example.com",
            "sip:%311%32@example.com",
            "sip:112",
        ] {
            assert_eq!(dialled_number(uri.as_bytes()), number, "{uri}");
        }
        for uri in
            ["sip:1120@example.com", "sip:11@example.com", "112@example.com", "urn:112", "sip:", "", "x:112"]
        {
            assert_ne!(dialled_number(uri.as_bytes()), number, "{uri}");
        }
        assert_eq!(dialled_number(b"sip:12345678@example.com"), None);
        assert_eq!(dialled_number(b"sip:@example.com"), None);
    }

    #[test]
    fn only_what_can_be_dialled_is_a_number() {
        for wrong in ["", "12345678", "11a", "1 1", "ä"] {
            assert_eq!(Number::of_text(wrong), None, "{wrong}");
        }
        assert_eq!(Number::of_text("112").map(Number::key), Some(0x0300_0000_0032_3131));
        assert!(Number::of_text("+1*2#").is_some());
    }
}
