//! The stateless refusal: a final response made of the request alone.
//!
//! RFC 3261 section 8.2.7 (stateless), 8.2.6.2 (which headers), 18.2.1 and 18.2.2 (`received`, where to), and
//! RFC 3581 (`rport`). Same request, same bytes: the tag is a MAC (`tag`), nothing is random. The sender of a
//! UDP packet may be forged, so a refusal is never longer than the request and goes to no other address than
//! the one that the request came from.
//!
//! Two additions are optional, and left out where the reply would get longer than the request: Retry-After for
//! REGISTER, and overload control for clients that offer it. The first is a function of the request, the second of
//! the moment; whether the first is there never depends on the second.
//!
//! Not here: whether to reply at all and how often (`overload`'s budgets), what is said to whom (the caller), and
//! provisional responses, which a stateless server must not send.

use std::net::{IpAddr, SocketAddr};

use crate::class::Method;
use crate::headers::{Header, HeaderLines, HeaderName};
use crate::overload_control::OverloadControl;
use crate::params::{find_tag, trim_space};
use crate::refusal::{ControlGiven, NoReply, Refusal, Reply, ReplyLine};
use crate::reply_writer::Writer;
use crate::start_line::{StartLine, StartLineKind};
use crate::tag::{TAG_LEN, TagInput, tag_of};
use crate::txn::{Seed, canonical_parts};
use crate::via::{TopVia, parse_address};

/// The headers without which nothing can be answered, each where it stands first.
struct Essentials<'a> {
    via: TopVia<'a>,
    from: Header<'a>,
    to: Header<'a>,
    call_id: Header<'a>,
    cseq: Header<'a>,
    cseq_number: &'a [u8],
    /// Via headers in all.
    via_count: usize,
}

impl<'a> Essentials<'a> {
    fn find(lines: HeaderLines<'a>) -> Result<Self, NoReply> {
        let (mut via, mut from, mut to, mut call_id, mut cseq) = (None, None, None, None, None);
        let mut via_count = 0;
        for line in lines {
            if let Some(header) = HeaderName::VIA.field_on(line) {
                via_count += 1;
                via.get_or_insert(header);
            } else if let Some(header) = HeaderName::FROM.field_on(line) {
                from.get_or_insert(header);
            } else if let Some(header) = HeaderName::TO.field_on(line) {
                to.get_or_insert(header);
            } else if let Some(header) = HeaderName::CALL_ID.field_on(line) {
                call_id.get_or_insert(header);
            } else if let Some(header) = HeaderName::CSEQ.field_on(line) {
                cseq.get_or_insert(header);
            }
        }
        let (Some(via), Some(from), Some(to), Some(call_id), Some(cseq)) = (via, from, to, call_id, cseq)
        else {
            return Err(NoReply::MissingHeader);
        };
        let digits = cseq.value.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let cseq_number = &cseq.value[..digits];
        if [from.value, to.value, call_id.value, cseq_number].iter().any(|value| value.is_empty()) {
            return Err(NoReply::MissingHeader);
        }
        let via = TopVia::parse(via.value).ok_or(NoReply::BadVia)?;
        Ok(Self { via, from, to, call_id, cseq, cseq_number, via_count })
    }

    /// The method behind the number, by which peers match a response (RFC 3261 section 17.1.3).
    fn cseq_method(&self) -> Method {
        Method::from_token(trim_space(&self.cseq.value[self.cseq_number.len()..]))
    }

    fn tag_input(&self) -> TagInput<'a> {
        TagInput {
            call_id: self.call_id.value,
            from_tag: find_tag(self.from.value).unwrap_or(&[]),
            cseq_number: self.cseq_number,
            branch: self.via.known.branch,
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
    refusal: impl Into<Refusal>,
    out: &mut [u8],
) -> Result<Reply, NoReply> {
    write(request, source, seed, &Kind::Refusal(refusal.into()), out)
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
    write(request, source, seed, &Kind::Response(line, extra), out)
}

/// What is to be written.
enum Kind<'a> {
    Refusal(Refusal),
    Response(ReplyLine, &'a [u8]),
}

fn write(
    request: &[u8],
    source: SocketAddr,
    seed: &Seed,
    kind: &Kind<'_>,
    out: &mut [u8],
) -> Result<Reply, NoReply> {
    let start_line = StartLine::scan(request).ok_or(NoReply::NotARequest)?;
    let StartLineKind::Request { method, marker, .. } = start_line.kind else {
        return Err(NoReply::NotARequest);
    };
    let is_refusal = matches!(kind, Kind::Refusal(_));
    let is_unanswered = |method| method == Method::Ack || (is_refusal && method == Method::Cancel);
    if is_unanswered(method) {
        return Err(NoReply::UnansweredMethod);
    }
    let source = SocketAddr::new(source.ip().to_canonical(), source.port());
    if !can_be_replied_to(source) {
        return Err(NoReply::BadSource);
    }
    let lines = HeaderLines::new(&request[start_line.headers_offset..]);
    let essentials = &Essentials::find(lines.clone())?;
    if is_unanswered(essentials.cseq_method()) {
        return Err(NoReply::UnansweredMethod);
    }
    let destination = destination_of(&essentials.via, source)?;

    // Measured without marker and leading line ends, so that every copy gets the answer that the original got.
    let (front, back) = canonical_parts(request, start_line.start, marker);
    let len_max = if is_refusal { front.len() + back.len() } else { usize::MAX };
    let mac = essentials.tag_input().mac(seed);
    let reply = Composition { lines, essentials, method, source, mac, kind, len_max };

    let offered = match kind {
        Kind::Refusal(Refusal { control: Some(control), .. }) => {
            Some(control).filter(|_| reply.essentials.via.known.offers_control)
        }
        _ => None,
    };
    let (len, control) = match offered {
        None => (reply.write(None, out)?, ControlGiven::NotOffered),
        Some(control) => match reply.write(Some(control), out) {
            Ok(len) => (len, ControlGiven::Given),
            Err(NoReply::LongerThanRequest) => (reply.write(None, out)?, ControlGiven::LongerThanRequest),
            Err(reason) => return Err(reason),
        },
    };
    Ok(Reply { len, destination, control })
}

/// Everything that a reply is made of.
struct Composition<'a> {
    lines: HeaderLines<'a>,
    essentials: &'a Essentials<'a>,
    method: Method,
    source: SocketAddr,
    mac: u64,
    kind: &'a Kind<'a>,
    len_max: usize,
}

/// Bytes of the top Via that have to do with overload control.
struct ControlBytes {
    /// In the request.
    read: usize,
    /// In the reply.
    written: usize,
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
        let own = tag_of(essentials.tag_input().mac(seed));
        let tag = find_tag(essentials.to.value).or_else(|| last_tag(essentials.to.value));
        tag.is_some_and(|tag| tag.eq_ignore_ascii_case(&own))
    })
}

/// The tag as `write_to` appends it, for a value so broken that no tag is found in it, before or after: an address
/// whose `<` never closes takes all that follows for its own.
fn last_tag(to: &[u8]) -> Option<&[u8]> {
    to.last_chunk::<{ TAG_LEN + 5 }>().and_then(|end| end.strip_prefix(b";tag="))
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
    let port = match (via.known.maddr, via.known.has_rport) {
        (Some(maddr), _) if parse_address(maddr) != Some(source.ip()) => return Err(NoReply::ForeignMaddr),
        (None, true) => source.port(),
        _ => via.port,
    };
    Ok(SocketAddr::new(source.ip(), port))
}

impl Composition<'_> {
    /// Writes it all; returns its length.
    fn write(&self, control: Option<&OverloadControl>, out: &mut [u8]) -> Result<usize, NoReply> {
        let writer = &mut Writer::new(out, self.len_max);
        let (line, extra) = match self.kind {
            Kind::Refusal(refusal) => (refusal.line, &[][..]),
            Kind::Response(line, extra) => (*line, *extra),
        };
        writer.bytes(b"SIP/2.0 ")?;
        writer.number(line.code)?;
        writer.bytes(b" ")?;
        writer.bytes(line.phrase.as_bytes())?;
        writer.bytes(b"\r\n")?;
        let control_bytes = self.write_vias(writer, control)?;
        let Essentials { from, call_id, cseq, .. } = self.essentials;
        writer.header(from)?;
        self.write_to(writer)?;
        writer.header(call_id)?;
        writer.header(cseq)?;
        writer.bytes(extra)?;
        let end: &[u8] = if call_id.name.len() == 1 { b"l: 0\r\n\r\n" } else { b"Content-Length: 0\r\n\r\n" };
        // As long as it is, or would be, with the parameters of the request: the same for every copy.
        let len = writer.len() - control_bytes.written + control_bytes.read + end.len();
        self.write_retry_after(writer, self.len_max.saturating_sub(len))?;
        writer.bytes(end)?;
        Ok(writer.len())
    }

    /// All Via values in order. Only the top one changes.
    fn write_vias(
        &self,
        writer: &mut Writer<'_>,
        control: Option<&OverloadControl>,
    ) -> Result<ControlBytes, NoReply> {
        let mut control_bytes = None;
        let vias = self.lines.clone().filter_map(|line| HeaderName::VIA.field_on(line));
        for header in vias.take(self.essentials.via_count) {
            if control_bytes.is_none() {
                writer.header_name(&header)?;
                control_bytes = Some(self.write_top_via(writer, control)?);
                writer.unfolded(self.essentials.via.rest)?;
                writer.bytes(b"\r\n")?;
            } else {
                writer.header(&header)?;
            }
        }
        // The essentials have a Via, so there is one.
        control_bytes.ok_or(NoReply::MissingHeader)
    }

    /// The top Via says what we saw of its sender; what the sender claims that we saw is left out.
    fn write_top_via(
        &self,
        writer: &mut Writer<'_>,
        control: Option<&OverloadControl>,
    ) -> Result<ControlBytes, NoReply> {
        let (top, source) = (&self.essentials.via, self.source);
        let mut has_rport = false;
        let mut control_bytes = ControlBytes { read: 0, written: 0 };
        // What stays is copied in as few pieces as possible: `copied` and `at` are offsets in the value.
        let (mut copied, mut at) = (0, top.head_len);
        for param in top.params() {
            let start = at;
            at += param.whole.len();
            let is = |name: &[u8]| param.name.eq_ignore_ascii_case(name);
            let is_control = OverloadControl::replaces(param.name);
            if !(is(b"received") || is(b"rport") || is_control) {
                continue;
            }
            writer.unfolded(&top.value[copied..start])?;
            copied = at;
            if is(b"rport") && !std::mem::replace(&mut has_rport, true) {
                writer.bytes(b";rport=")?;
                writer.number(source.port())?;
            }
            if is_control {
                let before = writer.len();
                if control.is_none() {
                    writer.unfolded(param.whole)?;
                }
                control_bytes.read += param.whole.len();
                control_bytes.written += writer.len() - before;
            }
        }
        writer.unfolded(&top.value[copied..])?;
        let as_sent = top.host.is_some_and(|host| host.to_canonical() == source.ip());
        if has_rport || !as_sent {
            writer.bytes(b";received=")?;
            writer.address(source.ip())?;
        }
        if let Some(control) = control {
            let before = writer.len();
            control.write(writer)?;
            control_bytes.written += writer.len() - before;
        }
        Ok(control_bytes)
    }

    fn write_to(&self, writer: &mut Writer<'_>) -> Result<(), NoReply> {
        let to = &self.essentials.to;
        writer.header_name(to)?;
        writer.unfolded(to.value)?;
        if find_tag(to.value).is_none() {
            writer.bytes(b";tag=")?;
            writer.bytes(&tag_of(self.mac))?;
        }
        writer.bytes(b"\r\n")
    }

    /// Retry-After, if one is wanted and there is `room` for it.
    fn write_retry_after(&self, writer: &mut Writer<'_>, room: usize) -> Result<(), NoReply> {
        let Kind::Refusal(Refusal { retry_after_register: Some(range), .. }) = self.kind else {
            return Ok(());
        };
        let seconds = range.seconds(self.mac);
        let digits = seconds.checked_ilog10().unwrap_or(0) as usize + 1;
        if self.method != Method::Register || "Retry-After: \r\n".len() + digits > room {
            return Ok(());
        }
        writer.bytes(b"Retry-After: ")?;
        writer.number(seconds)?;
        writer.bytes(b"\r\n")
    }
}

#[cfg(test)]
mod optional_tests;
#[cfg(test)]
mod tests;
