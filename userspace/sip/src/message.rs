//! The class of a message: what one datagram for a service is, before the gate has its say.
//!
//! ```text
//! datagram ─ keep-alive? ─ STUN? ─ start line ─┬─ none ──────────────────────────────→ not_sip
//!                                              ├─ status line ───────────────────────→ response
//!                                              └─ method ─ emergency URN ─ marker N≥1
//!                                                 └─ Resource-Priority ─ To tag ─ else → original
//!                                                    (with credentials or without)
//! ```
//!
//! The kernel walks the same way with bounds; here there are none but the datagram's end, and every step is
//! one pass. The rule behind every doubt: a false copy can kill a call, a false original costs a little
//! capacity. Not here: the gate (`overload`), the prober class, which is a matter of source addresses, and
//! anything a SIP server would check beyond these lines.

use memchr::memchr;

use crate::class::{Class, Method, Reason};
use crate::headers::{HeaderLines, HeaderName};
use crate::params::find_tag;
use crate::start_line::{Marker, StartLine, StartLineKind, skip_line_ends};

/// Longest datagram that is a keep-alive: CRLFCRLF or four zero bytes.
const KEEPALIVE_LEN_MAX: usize = 4;
/// Length of a STUN header (RFC 8489 section 5).
const STUN_HEADER_LEN: usize = 20;
/// The magic cookie at offset 4 of a STUN message (RFC 8489 section 5).
const STUN_MAGIC_COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];

/// What a datagram was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it is; never `undecided`.
    pub class: Class,
    /// Why.
    pub reason: Reason,
    /// The method; `other` if it is no request.
    pub method: Method,
    /// The retransmission marker, which is to be removed whatever its number.
    pub marker: Option<Marker>,
    /// Offset of the first byte that is neither CR nor LF.
    pub start: u16,
    /// Bytes of the start line without its line end; 0 if there is none.
    pub start_line_len: u16,
}

impl Message {
    /// The header lines, without looking at the start line again.
    #[must_use]
    pub fn header_lines<'a>(&self, datagram: &'a [u8]) -> HeaderLines<'a> {
        let line_end = usize::from(self.start) + usize::from(self.start_line_len);
        let behind = datagram.get(line_end..).unwrap_or(&[]);
        HeaderLines::new(memchr(b'\n', behind).map_or(&[], |line_feed| &behind[line_feed + 1..]))
    }
}

/// What the kernel found out before it left the headers to user space. A method other than `other` means that
/// it has read the whole start line and found that neither URN nor marker decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelFindings {
    /// Bytes of the start line without its line end.
    pub start_line_len: u16,
    /// The method; `other` also if the kernel did not finish the start line.
    pub method: Method,
    /// The marker, its offset counted in the datagram.
    pub marker: Option<Marker>,
}

/// The class of a datagram that belongs to a service, with the gate open.
#[must_use]
pub fn classify(datagram: &[u8]) -> Message {
    let found = |class, reason| Message {
        class,
        reason,
        method: Method::Other,
        marker: None,
        start: u16::try_from(skip_line_ends(datagram)).unwrap_or(u16::MAX),
        start_line_len: 0,
    };
    if is_keepalive(datagram) {
        return found(Class::Keepalive, Reason::LinePing);
    }
    if is_stun(datagram) {
        return found(Class::Stun, Reason::StunMessage);
    }
    let Some(line) = StartLine::scan(datagram) else {
        return found(Class::NotSip, Reason::BadStartLine);
    };
    let (class, reason, method, marker) = match line.kind {
        StartLineKind::Status => (Class::Response, Reason::StatusLine, Method::Other, None),
        StartLineKind::Request { method, uri, marker } => {
            let (class, reason) = class_of_method(method)
                .or_else(|| is_emergency_uri(uri).then_some((Class::Emergency, Reason::EmergencyCall)))
                .or_else(|| class_of_marker(marker))
                .unwrap_or_else(|| class_of_headers(HeaderLines::new(&datagram[line.headers_offset..])));
            (class, reason, method, marker)
        }
    };
    // `scan` looks at no more than 65,535 bytes, so both fit.
    let narrow = |offset: usize| u16::try_from(offset).unwrap_or(u16::MAX);
    Message { class, reason, method, marker, start: narrow(line.start), start_line_len: narrow(line.len) }
}

/// Finishes what the kernel left undecided, from the headers on: same result as `classify`, but the start
/// line is not scanned again. Where the kernel gave up within the start line, everything is.
#[must_use]
pub fn classify_rest(datagram: &[u8], findings: &KernelFindings) -> Message {
    let start = skip_line_ends(datagram);
    let behind = datagram.get(start + usize::from(findings.start_line_len)..).unwrap_or(&[]);
    let (true, Some(line_feed)) = (findings.method != Method::Other, memchr(b'\n', behind)) else {
        return classify(datagram);
    };
    let (class, reason) = class_of_method(findings.method)
        .or_else(|| class_of_marker(findings.marker))
        .unwrap_or_else(|| class_of_headers(HeaderLines::new(&behind[line_feed + 1..])));
    Message {
        class,
        reason,
        method: findings.method,
        marker: findings.marker,
        start: u16::try_from(start).unwrap_or(u16::MAX),
        start_line_len: findings.start_line_len,
    }
}

/// Up to four bytes, all of them CR, LF or zero (RFC 5626 section 3.5.1 and the pings of NAT helpers).
fn is_keepalive(datagram: &[u8]) -> bool {
    datagram.len() <= KEEPALIVE_LEN_MAX && datagram.iter().all(|byte| matches!(byte, b'\r' | b'\n' | 0))
}

fn is_stun(datagram: &[u8]) -> bool {
    datagram.len() >= STUN_HEADER_LEN && datagram[0] & 0xc0 == 0 && datagram[4..8] == STUN_MAGIC_COOKIE
}

/// Methods that decide alone.
const fn class_of_method(method: Method) -> Option<(Class, Reason)> {
    match method {
        Method::Ack => Some((Class::Ack, Reason::Method)),
        Method::Cancel => Some((Class::Cancel, Reason::Method)),
        Method::Bye | Method::Prack => Some((Class::InDialog, Reason::Method)),
        _ => None,
    }
}

/// `urn:service:sos` or a service below it (RFC 5031 section 4.2).
fn is_emergency_uri(uri: &[u8]) -> bool {
    const SOS: &[u8] = b"urn:service:sos";
    uri.split_at_checked(SOS.len()).is_some_and(|(service, rest)| {
        service.eq_ignore_ascii_case(SOS) && matches!(rest.first(), None | Some(b'.' | b';'))
    })
}

/// A claim to be a copy is believed; a claim to be an original is only a hint.
fn class_of_marker(marker: Option<Marker>) -> Option<(Class, Reason)> {
    marker.filter(|marker| marker.copy > 0).map(|_| (Class::Copy, Reason::Marker))
}

/// What the headers of a request say; Resource-Priority counts more than a To tag, and that more than credentials,
/// wherever they stand.
fn class_of_headers(lines: HeaderLines<'_>) -> (Class, Reason) {
    let mut class = (Class::Original, Reason::NewRequest);
    for line in lines {
        let is = |name: HeaderName| name.field_on(line).is_some();
        if is(HeaderName::RESOURCE_PRIORITY) {
            return (Class::Emergency, Reason::EmergencyCall);
        }
        if HeaderName::TO.field_on(line).is_some_and(|to| find_tag(to.value).is_some()) {
            class = (Class::InDialog, Reason::ToTag);
        }
        let is_credentials = is(HeaderName::AUTHORIZATION) || is(HeaderName::PROXY_AUTHORIZATION);
        if is_credentials && class.0 == Class::Original {
            class.1 = Reason::Credentials;
        }
    }
    class
}

#[cfg(test)]
mod tests;
