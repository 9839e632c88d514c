//! The first line of a message: status line or request line, method, Request-URI, retransmission marker.
//!
//! The rules are those of docs/marker.md and of RFC 3261 section 7, read as leniently as the servers behind
//! the front-end read them: a bare LF ends a line, blanks may trail it, methods ignore case, an unknown
//! method or scheme is no error. What decides whether a datagram is SIP is the version token at the end of
//! the line, never the method and never the port. Every step is one pass, so a hostile line costs its length.

use memchr::{memchr, memchr_iter, memchr2, memrchr, memrchr2};

use crate::class::{MarkerForm, Method};

/// A retransmission marker as it stands in a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Where it stands; never `MarkerForm::None`.
    pub form: MarkerForm,
    /// The N of `rtx=N`: 0 for an original, N for the Nth copy; at most 99.
    pub copy: u8,
    /// Offset in the datagram of its first byte, which is its space or semicolon.
    pub offset: u16,
    /// Bytes to remove, the space or semicolon included.
    pub len: u8,
}

/// What the start line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartLineKind<'a> {
    /// A status line.
    Status,
    /// A request line.
    Request {
        /// The method.
        method: Method,
        /// The bytes between the blanks behind the method and the blanks in front of the version.
        uri: &'a [u8],
        /// The marker, if there is one.
        marker: Option<Marker>,
    },
}

/// A start line that a SIP server would read as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartLine<'a> {
    /// Offset of its first byte, behind leading CR and LF.
    pub start: usize,
    /// Its length without the line end; trailing blanks are counted.
    pub len: usize,
    /// Offset of the first byte behind its line end.
    pub headers_offset: usize,
    /// What it says.
    pub kind: StartLineKind<'a>,
}

/// Offset of the first byte that is neither CR nor LF; the length if there is none.
///
/// RFC 3261 section 7.5 asks for this skipping on streams only, but servers do it for datagrams too, and
/// who does not can be walked around with one CRLF.
#[must_use]
pub fn skip_line_ends(datagram: &[u8]) -> usize {
    datagram.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(datagram.len())
}

impl<'a> StartLine<'a> {
    /// Reads the start line of a datagram; `None` if it is neither a status line nor a request line.
    ///
    /// Datagrams longer than 65,535 bytes do not exist; of a longer slice only that many bytes are looked at.
    #[must_use]
    pub fn scan(datagram: &'a [u8]) -> Option<Self> {
        let datagram = &datagram[..datagram.len().min(usize::from(u16::MAX))];
        let start = skip_line_ends(datagram);
        let line_feed = start + memchr(b'\n', &datagram[start..])?;
        let line = &datagram[start..line_feed];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = trim_blanks_end(line);
        let kind = if is_status_line(text) { StartLineKind::Status } else { scan_request(text, start)? };
        Some(Self { start, len: line.len(), headers_offset: line_feed + 1, kind })
    }
}

/// Reads a trimmed request line that begins at `start` in the datagram.
fn scan_request(text: &[u8], start: usize) -> Option<StartLineKind<'_>> {
    let field = find_field_marker(text, start);
    let versioned = match field {
        Some(marker) => &text[..usize::from(marker.offset) - start],
        None => text,
    };
    let before_version = split_version(versioned)?;
    let method_len = memchr2(b' ', b'\t', before_version).unwrap_or(before_version.len());
    let behind_method = &before_version[method_len..];
    let uri = trim_blanks_start(behind_method);
    let uri_offset = start + before_version.len() - uri.len();
    // Of a line without a method it could be all that makes it a request: what is left behind must be one, too.
    let uri_marker = || if method_len > 0 { find_uri_marker(uri, uri_offset) } else { None };
    Some(StartLineKind::Request {
        method: Method::from_token(&before_version[..method_len]),
        uri,
        marker: field.or_else(uri_marker),
    })
}

/// "SIP/", digits, ".", digits, spaces, exactly three digits, then a blank or the end (RFC 3261 section 7.2,
/// in any case, as servers compare).
fn is_status_line(text: &[u8]) -> bool {
    let Some(rest) = strip_version(text) else { return false };
    let code = trim_start(rest, |byte| byte == b' ');
    code.len() < rest.len()
        && code.len() >= 3
        && code[..3].iter().all(u8::is_ascii_digit)
        && code.get(3).is_none_or(|byte| is_blank(*byte))
}

/// What stands in front of the version token and its blanks, if the line ends in one and something does.
fn split_version(text: &[u8]) -> Option<&[u8]> {
    let blank = memrchr2(b' ', b'\t', text)?;
    if !is_version(&text[blank + 1..]) {
        return None;
    }
    let before = trim_blanks_end(&text[..blank]);
    (!before.is_empty()).then_some(before)
}

/// Whether a token is a SIP-Version of any number (RFC 3261 section 25.1).
fn is_version(token: &[u8]) -> bool {
    strip_version(token).is_some_and(<[u8]>::is_empty)
}

/// What follows a leading SIP-Version.
fn strip_version(text: &[u8]) -> Option<&[u8]> {
    let (name, numbers) = text.split_at_checked(4)?;
    if !name.eq_ignore_ascii_case(b"SIP/") {
        return None;
    }
    let fraction = strip_digits(numbers)?.strip_prefix(b".")?;
    strip_digits(fraction)
}

/// What follows one or more leading digits.
fn strip_digits(text: &[u8]) -> Option<&[u8]> {
    let rest = trim_start(text, |byte| byte.is_ascii_digit());
    (rest.len() < text.len()).then_some(rest)
}

/// The `field` form: the last token, one space behind the version token.
fn find_field_marker(text: &[u8], start: usize) -> Option<Marker> {
    let space = memrchr2(b' ', b'\t', text)?;
    let copy = whole_marker(&text[space + 1..])?;
    split_version(&text[..space]).filter(|_| text[space] == b' ')?;
    new_marker(MarkerForm::Field, copy, start + space, text.len() - space)
}

/// The `uri` form: the first `;rtx=N` behind the last `@` and in front of the first `?` that follows it.
fn find_uri_marker(uri: &[u8], uri_offset: usize) -> Option<Marker> {
    let host = memrchr(b'@', uri).map_or(0, |at| at + 1);
    let parameters_end = memchr(b'?', &uri[host..]).map_or(uri.len(), |question| host + question);
    let region = &uri[host..parameters_end];
    memchr_iter(b';', region).find_map(|semicolon| {
        let rest = &region[semicolon + 1..];
        let parameter = &rest[..memchr(b';', &rest[..rest.len().min(MARKER_LEN_MAX)]).unwrap_or(rest.len())];
        let copy = whole_marker(parameter)?;
        new_marker(MarkerForm::Uri, copy, uri_offset + host + semicolon, 1 + parameter.len())
    })
}

/// Bytes of `rtx=99;`: a parameter whose end is not within them is no marker, which keeps the search for
/// its end from costing more than the line is long.
const MARKER_LEN_MAX: usize = 7;

fn new_marker(form: MarkerForm, copy: u8, offset: usize, len: usize) -> Option<Marker> {
    Some(Marker { form, copy, offset: u16::try_from(offset).ok()?, len: u8::try_from(len).ok()? })
}

/// The N of a token that is `rtx=N` with one or two digits and nothing else.
fn whole_marker(token: &[u8]) -> Option<u8> {
    match token.strip_prefix(b"rtx=")? {
        [digit] if digit.is_ascii_digit() => Some(digit - b'0'),
        [tens, digit] if tens.is_ascii_digit() && digit.is_ascii_digit() => {
            Some((tens - b'0') * 10 + (digit - b'0'))
        }
        _ => None,
    }
}

pub(crate) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn trim_start(text: &[u8], cut: impl Fn(u8) -> bool) -> &[u8] {
    let keep = text.iter().position(|byte| !cut(*byte)).unwrap_or(text.len());
    &text[keep..]
}

pub(crate) fn trim_blanks_start(text: &[u8]) -> &[u8] {
    trim_start(text, is_blank)
}

pub(crate) fn trim_blanks_end(text: &[u8]) -> &[u8] {
    let keep = text.iter().rposition(|byte| !is_blank(*byte)).map_or(0, |last| last + 1);
    &text[..keep]
}

#[cfg(test)]
mod tests;
