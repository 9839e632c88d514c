//! Header fields as slices of the datagram: folding, compact names, any case, any line end.
//!
//! Nothing is copied and nothing is interpreted beyond name and value (RFC 3261 section 7.3). A line that
//! begins with a blank continues the one before; the headers end at the first empty line or with the
//! datagram. One pass over the bytes, whatever they are.

use memchr::{Memchr, memchr, memchr_iter};

use crate::class::Method;
use crate::params::trim_space;
use crate::start_line::{is_blank, skip_line_ends, trim_blanks_end, trim_blanks_start};
use crate::txn::{Seed, hash_call_id};

/// A header name with its compact form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderName {
    /// The full name; compared without case.
    pub long: &'static str,
    /// The compact form (RFC 3261 section 7.3.3), lower case.
    pub compact: Option<u8>,
}

impl HeaderName {
    /// Via.
    pub const VIA: Self = Self { long: "Via", compact: Some(b'v') };
    /// From.
    pub const FROM: Self = Self { long: "From", compact: Some(b'f') };
    /// To.
    pub const TO: Self = Self { long: "To", compact: Some(b't') };
    /// Call-ID.
    pub const CALL_ID: Self = Self { long: "Call-ID", compact: Some(b'i') };
    /// CSeq.
    pub const CSEQ: Self = Self { long: "CSeq", compact: None };
    /// Resource-Priority (RFC 4412).
    pub const RESOURCE_PRIORITY: Self = Self { long: "Resource-Priority", compact: None };
    /// Authorization: credentials for a registrar or user agent server.
    pub const AUTHORIZATION: Self = Self { long: "Authorization", compact: None };
    /// Proxy-Authorization: credentials for a proxy.
    pub const PROXY_AUTHORIZATION: Self = Self { long: "Proxy-Authorization", compact: None };

    /// Whether a name in a message is this one. Never by prefix. For tests, as [`Header::split`].
    #[must_use]
    pub fn matches(self, name: &[u8]) -> bool {
        match name {
            [letter] => self.compact == Some(letter.to_ascii_lowercase()),
            _ => name.eq_ignore_ascii_case(self.long.as_bytes()),
        }
    }

    /// The field on a header line, if it has this name: as [`Header::split`] and [`Header::is`], without a search for
    /// the colon. Most lines are done with after their first letter.
    #[must_use]
    // Inlined with the walk over the lines: what is passed through memory is waited for at every line.
    #[inline(always)]
    pub fn field_on(self, line: &[u8]) -> Option<Header<'_>> {
        let field_behind = |name_len: usize| {
            let (name, rest) = line.split_at_checked(name_len)?;
            let value = trim_blanks_start(rest).strip_prefix(b":")?;
            Some(Header { name, value: trim_space(value) })
        };
        let long = self.long.as_bytes();
        let letter = line.first()?.to_ascii_lowercase();
        if self.compact == Some(letter)
            && let Some(field) = field_behind(1)
        {
            return Some(field);
        }
        let is_long =
            letter == long[0].to_ascii_lowercase() && line.get(..long.len())?.eq_ignore_ascii_case(long);
        if is_long { field_behind(long.len()) } else { None }
    }
}

/// One header field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// The name as it stands, without blanks behind it.
    pub name: &'a [u8],
    /// The value without blanks around it; folds inside are still there.
    pub value: &'a [u8],
}

impl<'a> Header<'a> {
    /// Splits a header line; `None` if it has no colon. The packet path has no use for it: it is what tests and fuzz
    /// targets hold [`HeaderName::field_on`] against.
    #[must_use]
    pub fn split(line: &'a [u8]) -> Option<Self> {
        let colon = memchr(b':', line)?;
        Some(Self { name: trim_blanks_end(&line[..colon]), value: trim_space(&line[colon + 1..]) })
    }

    /// Whether the field has this name.
    #[must_use]
    pub fn is(&self, name: HeaderName) -> bool {
        name.matches(self.name)
    }
}

/// The header lines of a message, each with the lines that continue it.
#[derive(Clone, Debug)]
pub struct HeaderLines<'a> {
    bytes: &'a [u8],
    /// Offset of the next line; behind the last byte when nothing is left.
    at: usize,
    line_feeds: Memchr<'a>,
}

impl<'a> HeaderLines<'a> {
    /// The lines of `bytes`, which begin right behind the start line's line end.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, line_feeds: memchr_iter(b'\n', bytes) }
    }

    /// The lines of a datagram, whatever its start line says.
    #[must_use]
    pub fn of(datagram: &'a [u8]) -> Self {
        let from_start = &datagram[skip_line_ends(datagram)..];
        let headers = memchr(b'\n', from_start).map_or(from_start.len(), |line_feed| line_feed + 1);
        Self::new(&from_start[headers..])
    }

    /// The fields on these lines; lines without a colon are left out. For tests, as [`Header::split`].
    pub fn fields(self) -> impl Iterator<Item = Header<'a>> {
        self.filter_map(Header::split)
    }
}

impl<'a> Iterator for HeaderLines<'a> {
    type Item = &'a [u8];

    // Inlined for the same reason as `HeaderName::field_on`.
    #[inline(always)]
    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let start = self.at;
            let first = *self.bytes.get(start)?;
            let mut end = self.line_feeds.next();
            if matches!(self.bytes[start..], [b'\n', ..] | [b'\r', b'\n', ..]) {
                self.at = self.bytes.len();
                return None;
            }
            while let Some(line_feed) = end {
                if !self.bytes.get(line_feed + 1).is_some_and(|byte| is_blank(*byte)) {
                    break;
                }
                end = self.line_feeds.next();
            }
            self.at = end.map_or(self.bytes.len(), |line_feed| line_feed + 1);
            // Only the very first line can begin with a blank; it continues the start line.
            if !is_blank(first) {
                return Some(&self.bytes[start..end.unwrap_or(self.bytes.len())]);
            }
        }
    }
}

/// The value of the first Call-ID; `None` if there is none or it is empty.
#[must_use]
pub fn call_id(datagram: &[u8]) -> Option<&[u8]> {
    HeaderLines::of(datagram)
        .find_map(|line| HeaderName::CALL_ID.field_on(line))
        .map(|header| header.value)
        .filter(|value| !value.is_empty())
}

/// A keyed hash of the Call-ID, which keeps the messages of one call in order; 0 if there is none.
#[must_use]
pub fn call_key(seed: &Seed, datagram: &[u8]) -> u64 {
    call_id(datagram).map_or(0, |value| hash_call_id(seed, value))
}

/// What a message says about its call and itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallLines {
    /// As [`call_key`].
    pub key: u64,
    /// The method that the CSeq names; `None` if it names none.
    pub cseq_method: Option<Method>,
}

/// Call-ID and the method of the CSeq, by one walk over the headers; the first of each counts.
#[must_use]
pub fn call_lines(seed: &Seed, datagram: &[u8]) -> CallLines {
    let (mut call_id, mut cseq) = (None, None);
    for line in HeaderLines::of(datagram) {
        if let Some(header) = HeaderName::CALL_ID.field_on(line) {
            call_id.get_or_insert(header.value);
        } else if let Some(header) = HeaderName::CSEQ.field_on(line) {
            cseq.get_or_insert(header.value);
        }
        if call_id.is_some() && cseq.is_some() {
            break;
        }
    }
    CallLines {
        key: call_id.filter(|value| !value.is_empty()).map_or(0, |value| hash_call_id(seed, value)),
        cseq_method: cseq.and_then(method_of_cseq),
    }
}

/// The method behind the number of a CSeq value: `1 INVITE`, with any white space between.
fn method_of_cseq(value: &[u8]) -> Option<Method> {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let method = trim_space(&value[digits..]);
    (digits > 0 && !method.is_empty()).then(|| Method::from_token(method))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAMES: &str = "(via|vIA|v|from|f|to|t|T|call-id|i|cseq|CSeq|c|tox|resource-priority|Resource-Prioritys|r|\
                         Authorization|authorizatioN|a|Proxy-Authorization|proxy-authorization|p|)";
    const REST: &str = "[ \t\r\n]{0,2}(:|x|\0|::){0,1}[ \t]{0,1}[a:]{0,2}[\r]{0,1}";

    proptest! {
        #[test]
        fn a_field_is_found_by_its_name_as_by_splitting_its_line((name, rest) in (NAMES, REST)) {
            let line = [name, rest].concat();
            for name in [
                HeaderName::VIA,
                HeaderName::FROM,
                HeaderName::TO,
                HeaderName::CALL_ID,
                HeaderName::CSEQ,
                HeaderName::RESOURCE_PRIORITY,
                HeaderName::AUTHORIZATION,
                HeaderName::PROXY_AUTHORIZATION,
            ] {
                let split = Header::split(line.as_bytes()).filter(|header| header.is(name));
                prop_assert_eq!(name.field_on(line.as_bytes()), split, "{:?}", line);
            }
        }
    }

    #[test]
    fn the_cseqs_method_is_found_with_the_call_by_one_walk() {
        let seed = Seed([1, 2, 3, 4]);
        let lines = |headers: &str| call_lines(&seed, format!("ACK a SIP/2.0\r\n{headers}\r\n").as_bytes());
        let key = call_key(&seed, b"A b SIP/2.0\ni: x\n");
        for (headers, method) in [
            ("CSeq: 1 INVITE\r\nCall-ID: x\r\n", Some(Method::Invite)),
            ("Call-ID: x\r\ncseq:7\t ack \r\nCSeq: 1 BYE\r\n", Some(Method::Ack)),
            ("i: x\r\nCSeq: 1\r\n INVITE\r\n", Some(Method::Invite)),
            ("i: x\r\nCSeq: 1 INVITED\r\n", Some(Method::Other)),
            ("i: x\r\nCSeq: INVITE\r\n", None),
            ("i: x\r\nCSeq: 1\r\n", None),
            ("i: x\r\nCSeqs: 1 INVITE\r\n", None),
        ] {
            assert_eq!(lines(headers), CallLines { key, cseq_method: method }, "{headers}");
        }
        assert_eq!(lines("CSeq: 1 ACK\r\nCall-ID: \r\nCall-ID: x\r\n").key, 0);
        assert_eq!(lines(""), CallLines::default());
    }

    fn fields(text: &[u8]) -> Vec<(&[u8], &[u8])> {
        HeaderLines::new(text).fields().map(|header| (header.name, header.value)).collect()
    }

    #[test]
    fn names_lose_the_blanks_in_front_of_the_colon_and_values_those_around() {
        let text = b"To :\r\n sip:a@b\r\nv:x\r\nCall-ID\t: 1 \r\n\r\nbody: no\r\n";
        let expected: [(&[u8], &[u8]); 3] = [(b"To", b"sip:a@b"), (b"v", b"x"), (b"Call-ID", b"1")];
        assert_eq!(fields(text), expected);
    }

    #[test]
    fn bare_line_feeds_end_lines_and_headers() {
        assert_eq!(fields(b"a:1\nb:2\n\nc:3\n"), [(&b"a"[..], &b"1"[..]), (b"b", b"2")]);
    }

    #[test]
    fn a_folded_value_keeps_its_folds_and_a_body_that_begins_blank_is_no_fold() {
        assert_eq!(fields(b"a:1\r\n 2\r\n\t3\r\n\r\n body"), [(&b"a"[..], &b"1\r\n 2\r\n\t3"[..])]);
    }

    #[test]
    fn a_first_line_that_begins_blank_belongs_to_the_start_line() {
        assert_eq!(fields(b" To: x\r\n more\r\na:1\r\n"), [(&b"a"[..], &b"1"[..])]);
    }

    #[test]
    fn headers_may_end_with_the_datagram() {
        assert_eq!(fields(b"a:1\r\nb:2"), [(&b"a"[..], &b"1"[..]), (b"b", b"2")]);
        assert_eq!(fields(b"a:1\r\n"), [(&b"a"[..], &b"1"[..])]);
        assert_eq!(fields(b"\r"), []);
        assert_eq!(fields(b""), []);
    }

    #[test]
    fn a_name_is_never_matched_by_its_beginning() {
        assert!(HeaderName::CALL_ID.matches(b"call-id"));
        assert!(HeaderName::CALL_ID.matches(b"I"));
        assert!(!HeaderName::CALL_ID.matches(b"Call-ID2"));
        assert!(!HeaderName::TO.matches(b"Tolerance"));
        assert!(!HeaderName::CSEQ.matches(b"c"));
        assert!(!HeaderName::VIA.matches(b""));
    }

    #[test]
    fn the_call_id_is_found_under_both_names_and_its_case_matters() {
        let seed = Seed([1, 2, 3, 4]);
        assert_eq!(call_id(b"\r\nBYE a SIP/2.0\r\nContact: c\r\ni : x@y \r\n\r\n"), Some(&b"x@y"[..]));
        assert_eq!(call_id(b"BYE a SIP/2.0\r\nCall-ID:\r\n\r\nCall-ID: body"), None);
        let lower = call_key(&seed, b"A b SIP/2.0\nCall-ID: x\n");
        assert_eq!(lower, call_key(&seed, b"C d SIP/2.0\r\nVia: 1\r\nI:x\r\n\r\n"));
        assert_ne!(lower, call_key(&seed, b"A b SIP/2.0\nCall-ID: X\n"));
        assert_eq!(call_key(&seed, b"A b SIP/2.0\nTo: X\n"), 0);
    }
}
