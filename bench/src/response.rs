//! What an answer says, as far as a caller cares. Borrowed from the datagram, nothing allocated.
//!
//! Written apart from the product's parser on purpose (see the crate's header).

use arrayvec::ArrayVec;
use memchr::{memchr, memmem};

/// More proxies than this between caller and server are not followed: the answer is not understood.
const RECORD_ROUTES_MAX: usize = 8;
/// RFC 3261 8.1.1.7: every branch of this age starts so.
const COOKIE: &[u8] = b"z9hG4bK";

/// A SIP response.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    /// 100 to 699.
    pub(crate) code: u16,
    /// Branch of the top Via, behind the cookie.
    pub(crate) branch: &'a [u8],
    /// Method of CSeq.
    pub(crate) method: &'a [u8],
    pub(crate) to_tag: Option<&'a [u8]>,
    /// URI of the first Contact.
    pub(crate) contact: Option<&'a [u8]>,
    /// Record-Route values `<…>`, in the order of the message.
    pub(crate) record_routes: ArrayVec<&'a [u8], RECORD_ROUTES_MAX>,
}

impl Response<'_> {
    pub(crate) fn is_provisional(&self) -> bool {
        self.code < 200
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

/// Reads a response; `None` for requests and for what cannot be matched to a transaction.
pub(crate) fn parse(datagram: &[u8]) -> Option<Response<'_>> {
    let (line, mut rest) = next_line(datagram)?;
    let code = status_code(line)?;
    let mut branch = None;
    let mut method = None;
    let mut response = Response {
        code,
        branch: b"",
        method: b"",
        to_tag: None,
        contact: None,
        record_routes: ArrayVec::new(),
    };
    while let Some((line, after)) = next_line(rest) {
        rest = after;
        let Some(colon) = memchr(b':', line) else { break };
        let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
        let is = |long: &str, short: &str| {
            name.eq_ignore_ascii_case(long.as_bytes()) || name.eq_ignore_ascii_case(short.as_bytes())
        };
        match name.first().map(u8::to_ascii_lowercase) {
            Some(b'v') if branch.is_none() && is("via", "v") => branch = Some(via_branch(value)?),
            Some(b't') if is("to", "t") => response.to_tag = parameter(after_address(value), b"tag"),
            Some(b'c') if is("cseq", "cseq") => method = value.rsplit(u8::is_ascii_whitespace).next(),
            Some(b'c' | b'm') if response.contact.is_none() && is("contact", "m") => {
                response.contact = Some(address(value));
            }
            Some(b'r') if is("record-route", "record-route") => {
                for route in bracketed(value) {
                    response.record_routes.try_push(route).ok()?;
                }
            }
            _ => {}
        }
    }
    Some(Response { branch: branch?, method: method?, ..response })
}

/// The next header line without its end, continuation lines included, and what follows; `None` at the end of headers.
fn next_line(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut end = memchr(b'\n', text)?;
    while matches!(text.get(end + 1), Some(b' ' | b'\t')) {
        end += 1 + memchr(b'\n', &text[end + 1..])?;
    }
    let line = text[..end].trim_ascii_end();
    (!line.is_empty()).then_some((line, &text[end + 1..]))
}

/// The three digits of `SIP/2.0 200 OK`.
fn status_code(line: &[u8]) -> Option<u16> {
    let digits = line.strip_prefix(b"SIP/2.0 ")?.get(..3)?;
    let code = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (100..700).contains(&code).then_some(code)
}

fn via_branch(value: &[u8]) -> Option<&[u8]> {
    let first = value.split(|b| *b == b',').next()?;
    parameter(first, b"branch")?.strip_prefix(COOKIE)
}

/// The part of a name-addr or addr-spec that holds the header's parameters.
fn after_address(value: &[u8]) -> &[u8] {
    let bare = skip_quoted(value);
    match memchr(b'<', bare) {
        Some(open) => memchr(b'>', &bare[open..]).map_or(b"", |close| &bare[open + close..]),
        None => memchr(b';', bare).map_or(b"", |at| &bare[at..]),
    }
}

/// The URI of the first address in `value`.
fn address(value: &[u8]) -> &[u8] {
    let bare = skip_quoted(value);
    bracketed(bare).next().map_or_else(
        || bare.split(|b| matches!(b, b';' | b',')).next().unwrap_or_default().trim_ascii(),
        |uri| &uri[1..uri.len() - 1],
    )
}

/// All `<…>` of `value`.
fn bracketed(mut value: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let open = memchr(b'<', value)?;
        let close = open + memchr(b'>', &value[open..])?;
        let found = &value[open..=close];
        value = &value[close + 1..];
        Some(found)
    })
}

/// Steps over a quoted display name, which may hold any of the characters looked for.
fn skip_quoted(value: &[u8]) -> &[u8] {
    if value.first() != Some(&b'"') {
        return value;
    }
    let mut escaped = false;
    for (at, byte) in value.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return &value[at + 1..],
            _ => {}
        }
    }
    b""
}

/// Value of the parameter `name` among `…;name=value;…`.
fn parameter<'a>(parameters: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    parameters.split(|b| *b == b';').skip(1).find_map(|parameter| {
        let equals = memmem::find(parameter, b"=")?;
        let found = parameter[..equals].trim_ascii().eq_ignore_ascii_case(name);
        found.then(|| parameter[equals + 1..].trim_ascii())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OK: &[u8] = b"SIP/2.0 200 OK\r\n\
        Via: SIP/2.0/UDP 10.0.0.1:4000;rport=4000;branch=z9hG4bKabc;received=10.0.0.1\r\n\
        v: SIP/2.0/UDP 10.0.0.9;branch=z9hG4bKother\r\n\
        Record-Route: <sip:p2;lr>, <sip:p1;lr>\r\n\
        From: \"a;tag=no\" <sip:a@b>;tag=1\r\n\
        t: \"x <;tag=no\\\">\" <sip:c@d;tag=no>\r\n ;x=y;TAG = t-1\r\n\
        CSeq: 1 INVITE\r\n\
        m: \"<q>\" <sip:c@10.0.0.2:5070;transport=udp>;expires=5, <sip:z>\r\n\
        Content-Length: 0\r\n\r\n\
        To: <sip:x>;tag=body\r\n";

    #[test]
    fn an_answer_with_every_trap_is_read() {
        let response = parse(OK).unwrap();
        assert_eq!((response.code, response.branch, response.method), (200, &b"abc"[..], &b"INVITE"[..]));
        assert_eq!(response.to_tag, Some(&b"t-1"[..]));
        assert_eq!(response.contact, Some(&b"sip:c@10.0.0.2:5070;transport=udp"[..]));
        assert_eq!(response.record_routes.as_slice(), [&b"<sip:p2;lr>"[..], &b"<sip:p1;lr>"[..]]);
        assert!(response.is_success() && !response.is_provisional());
    }

    #[test]
    fn addresses_without_brackets_are_read() {
        let text = b"SIP/2.0 180 Ringing\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\nTo: sip:c@d;tag=9\nContact: sip:e@f;q=1\nCSeq: 1 INVITE\n\n";
        let response = parse(text).unwrap();
        assert_eq!(response.to_tag, Some(&b"9"[..]));
        assert_eq!(response.contact, Some(&b"sip:e@f"[..]));
        assert!(response.is_provisional());
    }

    #[test]
    fn what_cannot_be_matched_is_no_answer() {
        assert!(
            parse(b"INVITE sip:a SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nCSeq: 1 INVITE\r\n\r\n")
                .is_none()
        );
        assert!(
            parse(b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP h;branch=old\r\nCSeq: 1 INVITE\r\n\r\n").is_none()
        );
        assert!(parse(b"SIP/2.0 200 OK\r\nCSeq: 1 INVITE\r\n\r\n").is_none());
        assert!(parse(b"SIP/2.0 20 OK\r\n\r\n").is_none());
        assert!(parse(b"").is_none());
    }

    proptest! {
        #[test]
        fn damaged_answers_never_panic(cut in 0..OK.len(), at in 0..OK.len(), byte: u8) {
            let mut text = OK.to_vec();
            text[at] = byte;
            drop(parse(&text));
            drop(parse(&text[..cut]));
        }
    }
}
