//! The stateless refusal: a final response made of the request alone.
//!
//! RFC 3261 section 8.2.7 (stateless), 8.2.6.2 (which headers), 18.2.1 and 18.2.2 (`received`, where to), and
//! RFC 3581 (`rport`). Same request, same bytes: the tag is a MAC (`tag`), nothing is random. The sender of a
//! UDP packet may be forged, so a refusal is never longer than the request and goes to no other address than
//! the one that the request came from.
//!
//! Not here: whether to reply at all and how often (`overload`'s budget), Retry-After, which has taken whole
//! platforms out (RFC 7339 section 5.10.2), and provisional responses, which a stateless server must not send.

use std::net::{IpAddr, SocketAddr};

use crate::class::Method;
use crate::headers::{Header, HeaderLines, HeaderName};
use crate::params::find_tag;
use crate::reply_writer::Writer;
use crate::start_line::{StartLine, StartLineKind};
use crate::tag::TagInput;
use crate::txn::{Seed, canonical_parts};
use crate::via::{TopVia, parse_address};

/// Code and phrase of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLine {
    /// The status code, 400 to 699.
    pub code: u16,
    /// The reason phrase, which only people read.
    pub phrase: &'static str,
}

impl ReplyLine {
    /// The codes that an overloaded element may want to say; 503 makes most peers try the next server, 480 and
    /// 500 end the hunt. `None` for any other.
    #[must_use]
    pub const fn of_code(code: u16) -> Option<Self> {
        let phrase = match code {
            480 => "Temporarily Unavailable",
            486 => "Busy Here",
            500 => "Server Internal Error",
            503 => "Service Unavailable",
            600 => "Busy Everywhere",
            603 => "Decline",
            _ => return None,
        };
        Some(Self { code, phrase })
    }
}

impl Default for ReplyLine {
    fn default() -> Self {
        Self { code: 503, phrase: "Service Unavailable" }
    }
}

/// A reply that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its bytes in the buffer.
    pub len: usize,
    /// Where it must be sent; the address is always the request's source.
    pub destination: SocketAddr,
}

/// Why a request gets no reply. One byte, to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoReply {
    /// It is a response or no SIP.
    NotARequest,
    /// ACK is never answered; a stateless server must ignore CANCEL too (RFC 3261 section 8.2.7).
    UnansweredMethod,
    /// Via, From, To, Call-ID or CSeq is missing, so no client could match the reply.
    MissingHeader,
    /// The top Via names no sender or no usable port.
    BadVia,
    /// The top Via's `maddr` is not the address that the request came from.
    ForeignMaddr,
    /// The request's source is no address or port that one replies to.
    BadSource,
    /// A value to be copied has a carriage return within a line, which might end a line for others.
    StrayReturn,
    /// The reply would be longer than the request.
    LongerThanRequest,
    /// The buffer is too small.
    NoRoom,
}

impl NoReply {
    /// The name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotARequest => "not_a_request",
            Self::UnansweredMethod => "unanswered_method",
            Self::MissingHeader => "missing_header",
            Self::BadVia => "bad_via",
            Self::ForeignMaddr => "foreign_maddr",
            Self::BadSource => "bad_source",
            Self::StrayReturn => "stray_return",
            Self::LongerThanRequest => "longer_than_request",
            Self::NoRoom => "no_room",
        }
    }
}

/// The headers without which nothing can be answered, each where it stands first.
struct Essentials<'a> {
    via: TopVia<'a>,
    from: Header<'a>,
    to: Header<'a>,
    call_id: Header<'a>,
    cseq: Header<'a>,
    cseq_number: &'a [u8],
}

impl<'a> Essentials<'a> {
    fn find(lines: HeaderLines<'a>) -> Result<Self, NoReply> {
        let names =
            [HeaderName::VIA, HeaderName::FROM, HeaderName::TO, HeaderName::CALL_ID, HeaderName::CSEQ];
        let mut found = [None; 5];
        for header in lines.fields() {
            if let Some(i) = names.iter().position(|name| header.is(*name)) {
                found[i].get_or_insert(header);
            }
        }
        let [Some(via), Some(from), Some(to), Some(call_id), Some(cseq)] = found else {
            return Err(NoReply::MissingHeader);
        };
        let digits = cseq.value.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let cseq_number = &cseq.value[..digits];
        if [from.value, to.value, call_id.value, cseq_number].iter().any(|value| value.is_empty()) {
            return Err(NoReply::MissingHeader);
        }
        let via = TopVia::parse(via.value).ok_or(NoReply::BadVia)?;
        Ok(Self { via, from, to, call_id, cseq, cseq_number })
    }

    fn tag_input(&self) -> TagInput<'a> {
        TagInput {
            call_id: self.call_id.value,
            from_tag: find_tag(self.from.value).unwrap_or(&[]),
            cseq_number: self.cseq_number,
            branch: self.via.branch(),
        }
    }
}

/// Writes the refusal of a request.
///
/// `request` is the datagram as it came, `source` where it came from.
///
/// # Errors
///
/// The reason why the request gets no reply; `out` may have been written to.
pub fn write_reply(
    request: &[u8],
    source: SocketAddr,
    seed: &Seed,
    line: ReplyLine,
    out: &mut [u8],
) -> Result<Reply, NoReply> {
    write(request, source, seed, line, &[], true, out)
}

/// Writes any final response to a request, with `extra` header lines (each with its CRLF) of the caller's; for
/// processors that serve requests themselves, which may answer CANCEL and at any length.
///
/// # Errors
///
/// The reason why the request gets no response; `out` may have been written to.
pub fn write_response(
    request: &[u8],
    source: SocketAddr,
    seed: &Seed,
    line: ReplyLine,
    extra: &[u8],
    out: &mut [u8],
) -> Result<Reply, NoReply> {
    write(request, source, seed, line, extra, false, out)
}

fn write(
    request: &[u8],
    source: SocketAddr,
    seed: &Seed,
    line: ReplyLine,
    extra: &[u8],
    refusal: bool,
    out: &mut [u8],
) -> Result<Reply, NoReply> {
    let start_line = StartLine::scan(request).ok_or(NoReply::NotARequest)?;
    let StartLineKind::Request { method, marker, .. } = start_line.kind else {
        return Err(NoReply::NotARequest);
    };
    if method == Method::Ack || (refusal && method == Method::Cancel) {
        return Err(NoReply::UnansweredMethod);
    }
    let source = SocketAddr::new(source.ip().to_canonical(), source.port());
    if !can_be_replied_to(source) {
        return Err(NoReply::BadSource);
    }
    let lines = HeaderLines::new(&request[start_line.headers_offset..]);
    let essentials = Essentials::find(lines.clone())?;
    let destination = destination_of(&essentials.via, source)?;

    // Measured without marker and leading line ends, so that every copy gets the answer that the original got.
    let (front, back) = canonical_parts(request, start_line.start, marker);
    let len_max = if refusal { front.len() + back.len() } else { usize::MAX };
    let mut writer = Writer::new(out, len_max);
    writer.formatted(format_args!("SIP/2.0 {} {}\r\n", line.code, line.phrase))?;
    write_vias(&mut writer, lines, &essentials.via, source)?;
    writer.header(&essentials.from)?;
    write_to(&mut writer, &essentials, seed)?;
    writer.header(&essentials.call_id)?;
    writer.header(&essentials.cseq)?;
    writer.bytes(extra)?;
    let compact = essentials.call_id.name.len() == 1;
    writer.bytes(if compact { b"l: 0\r\n\r\n" } else { b"Content-Length: 0\r\n\r\n" })?;
    Ok(Reply { len: writer.len(), destination })
}

/// Whether a datagram is the ACK to a refusal that `write_reply` wrote with this seed; the server knows
/// nothing of that transaction, so such an ACK ends here.
#[must_use]
pub fn is_ack_of_own_reply(datagram: &[u8], seed: &Seed) -> bool {
    let Some(start_line) = StartLine::scan(datagram) else { return false };
    if !matches!(start_line.kind, StartLineKind::Request { method: Method::Ack, .. }) {
        return false;
    }
    let lines = HeaderLines::new(&datagram[start_line.headers_offset..]);
    Essentials::find(lines).is_ok_and(|essentials| {
        let own = essentials.tag_input().tag(seed);
        find_tag(essentials.to.value).is_some_and(|tag| tag.eq_ignore_ascii_case(&own))
    })
}

fn can_be_replied_to(source: SocketAddr) -> bool {
    // 240.0.0.0/4 is reserved (RFC 1112 section 4), its last address the broadcast. A loopback address never comes by
    // a wire.
    let reserved = matches!(source.ip(), IpAddr::V4(v4) if v4.octets()[0] >= 240);
    let ip = source.ip();
    source.port() != 0 && !reserved && !ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast()
}

/// RFC 3261 section 18.2.2 with RFC 3581 section 4. A `maddr` that leads elsewhere would let anyone aim our
/// replies at anyone.
fn destination_of(via: &TopVia<'_>, source: SocketAddr) -> Result<SocketAddr, NoReply> {
    let port = match (via.param("maddr"), via.param("rport")) {
        (Some(maddr), _) if parse_address(maddr) != Some(source.ip()) => return Err(NoReply::ForeignMaddr),
        (None, Some(_)) => source.port(),
        _ => via.port,
    };
    Ok(SocketAddr::new(source.ip(), port))
}

/// All Via values in order. Only the top one changes: it says what we saw of its sender, and what the sender
/// claims that we saw is left out.
fn write_vias(
    writer: &mut Writer<'_>,
    lines: HeaderLines<'_>,
    top: &TopVia<'_>,
    source: SocketAddr,
) -> Result<(), NoReply> {
    let mut is_top = true;
    for header in lines.fields().filter(|header| header.is(HeaderName::VIA)) {
        if std::mem::take(&mut is_top) {
            writer.header_name(&header)?;
            write_top_via(writer, top, source)?;
            writer.unfolded(top.rest)?;
            writer.bytes(b"\r\n")?;
        } else {
            writer.header(&header)?;
        }
    }
    Ok(())
}

fn write_top_via(writer: &mut Writer<'_>, top: &TopVia<'_>, source: SocketAddr) -> Result<(), NoReply> {
    let mut has_rport = false;
    writer.unfolded(top.head)?;
    for param in top.params() {
        if param.name.eq_ignore_ascii_case(b"received") {
            continue;
        }
        if param.name.eq_ignore_ascii_case(b"rport") {
            if !std::mem::replace(&mut has_rport, true) {
                writer.formatted(format_args!(";rport={}", source.port()))?;
            }
            continue;
        }
        writer.unfolded(param.whole)?;
    }
    let as_sent = top.host.is_some_and(|host| host.to_canonical() == source.ip());
    if has_rport || !as_sent {
        writer.formatted(format_args!(";received={}", source.ip()))?;
    }
    Ok(())
}

fn write_to(writer: &mut Writer<'_>, essentials: &Essentials<'_>, seed: &Seed) -> Result<(), NoReply> {
    writer.header_name(&essentials.to)?;
    writer.unfolded(essentials.to.value)?;
    if find_tag(essentials.to.value).is_none() {
        writer.bytes(b";tag=")?;
        writer.bytes(&essentials.tag_input().tag(seed))?;
    }
    writer.bytes(b"\r\n")
}

#[cfg(test)]
mod tests;
