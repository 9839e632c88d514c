//! The reply builder on any request: what is written keeps the rules, whatever it was made from.

use std::net::{IpAddr, SocketAddr};

use sip::headers::{Header, HeaderLines, HeaderName};
use sip::{
    Checksum, Class, Message, Method, NoReply, Reason, Reply, ReplyLine, Seed, Services, classify,
    is_ack_of_own_reply, parse_packet, verify_udp, write_reply, write_reply_packet, write_response,
};

use super::bytes::Bytes;

const SEED: Seed = Seed([0xaaaa, 0xbbbb_0000_cccc, 3, 0xdddd_eeee_ffff_0000]);
const CODES: [u16; 6] = [503, 480, 486, 500, 600, 603];
/// Room for a reply; a request of the data path fits into a frame.
const ROOM: usize = 8192;

/// A request, then four bytes that choose its source and the code. They stand behind it, so that any message can be a
/// seed.
///
/// # Panics
///
/// If a promise is broken.
pub fn reply(data: &[u8]) {
    let (request, choices) = data.split_at(data.len().saturating_sub(4));
    let mut bytes = Bytes(choices);
    let (kind, low, port) = (bytes.byte(), bytes.byte(), bytes.byte());
    let line = ReplyLine::of_code(CODES[bytes.below(CODES.len())]).unwrap_or_default();
    let ip = match kind % 8 {
        0 => IpAddr::from([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, low]),
        1 => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, low]),
        2 => IpAddr::from([low, 255, 255, 255]),
        _ => IpAddr::from([198, 51, 100, low]),
    };
    let source = SocketAddr::new(ip, u16::from(port) << 8 | u16::from(low));
    let request = &request[..request.len().min(ROOM)];

    let mut out = [0; ROOM];
    if let Ok(written) = write_reply(request, source, &SEED, line, &mut out) {
        let text = out[..written.len].to_vec();
        check_reply(request, source, line, &written, &text);
        check_sameness(request, source, line, &text);
        check_packet(request, source, line, &text);
    }
    // A processor's own response obeys the same rules but for its length, and CANCEL may have one.
    if let Ok(written) = write_response(request, source, &SEED, line, b"X-Extra: 1\r\n", &mut out) {
        let text = &out[..written.len];
        check_lines(text);
        check_copied(request, source, text);
        assert!(text.windows(14).any(|window| window == b"\r\nX-Extra: 1\r\n"));
    }
}

fn check_reply(request: &[u8], source: SocketAddr, line: ReplyLine, written: &Reply, text: &[u8]) {
    let asked = classify(request);
    assert!(text.len() <= request.len(), "longer than the request");
    assert!(!matches!(asked.class, Class::Response | Class::NotSip | Class::Keepalive | Class::Stun));
    assert!(!matches!(asked.method, Method::Ack | Method::Cancel), "never answered");
    assert_eq!(written.destination.ip(), source.ip().to_canonical(), "to where the request came from");
    assert_ne!(written.destination.port(), 0);
    assert!(text.starts_with(format!("SIP/2.0 {} {}\r\n", line.code, line.phrase).as_bytes()));
    check_lines(text);
    check_copied(request, source, text);
    check_ack(request, &asked, text);
}

/// Every line ends with CRLF, none is empty but the last, nothing follows it.
fn check_lines(text: &[u8]) {
    assert_eq!(classify(text).class, Class::Response, "{}", text.escape_ascii());
    let head = text.strip_suffix(b"\r\n\r\n").unwrap_or_else(|| panic!("no end: {}", text.escape_ascii()));
    for line in head.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        assert!(!line.is_empty() && !line.contains(&b'\r'), "{}", text.escape_ascii());
    }
    let feeds = text.iter().filter(|byte| **byte == b'\n').count();
    let returns = text.windows(2).filter(|pair| *pair == b"\r\n").count();
    assert_eq!(feeds, returns, "a bare line feed: {}", text.escape_ascii());
    assert!(head.ends_with(b"Content-Length: 0") || head.ends_with(b"\r\nl: 0"), "{}", text.escape_ascii());
}

fn fields(message: &[u8], name: HeaderName) -> Vec<Header<'_>> {
    HeaderLines::of(message).fields().filter(|header| header.is(name)).collect()
}

/// A value with its folds as single spaces, the slow way.
fn unfolded(value: &[u8]) -> Vec<u8> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let mut out = Vec::new();
    let mut at = 0;
    while at < value.len() {
        let run = value[at..].iter().take_while(|byte| is_space(byte)).count();
        if value[at..at + run].contains(&b'\n') {
            out.push(b' ');
            at += run;
        } else {
            out.extend_from_slice(&value[at..at + run.max(1)]);
            at += run.max(1);
        }
    }
    out
}

/// Via, From, To, Call-ID and CSeq are those of the request (RFC 3261 section 8.2.6.2).
fn check_copied(request: &[u8], source: SocketAddr, text: &[u8]) {
    for name in [HeaderName::FROM, HeaderName::CALL_ID, HeaderName::CSEQ] {
        let (asked, said) = (fields(request, name), fields(text, name));
        assert_eq!(said.len(), 1, "{}", text.escape_ascii());
        assert_eq!(said[0].value, unfolded(asked[0].value), "{}", name.long);
        assert_eq!(said[0].name, asked[0].name, "names stay as compact as they were");
    }
    let (asked, said) = (fields(request, HeaderName::TO), fields(text, HeaderName::TO));
    assert_eq!(said.len(), 1);
    let rest = said[0].value.strip_prefix(unfolded(asked[0].value).as_slice());
    let rest = rest.unwrap_or_else(|| panic!("another To: {}", text.escape_ascii()));
    assert!(rest.is_empty() || (rest.starts_with(b";tag=") && rest.len() == 18), "{}", text.escape_ascii());

    let (asked, said) = (fields(request, HeaderName::VIA), fields(text, HeaderName::VIA));
    assert_eq!(asked.len(), said.len(), "as many Via lines: {}", text.escape_ascii());
    for (asked, said) in asked.iter().zip(&said).skip(1) {
        assert_eq!(said.value, unfolded(asked.value), "Via lines below the first stay as they are");
    }
    let protocol_and_sender =
        unfolded(asked[0].value.split(|byte| *byte == b';' || *byte == b',').next().unwrap_or(&[]));
    if !protocol_and_sender.contains(&b'"') {
        assert!(said[0].value.starts_with(protocol_and_sender.trim_ascii_end()), "{}", text.escape_ascii());
    }
    let received = format!(";received={}", source.ip().to_canonical());
    let count = said[0].value.windows(9).filter(|window| window.eq_ignore_ascii_case(b"received=")).count();
    let ours = said[0].value.windows(received.len()).any(|window| window == received.as_bytes());
    assert!(ours || count == 0 || asked[0].value.len() >= said[0].value.len() - received.len());
}

/// The ACK that a client must send to this reply is known again, and only that one.
fn check_ack(request: &[u8], asked: &Message, text: &[u8]) {
    let headers = asked.header_lines(request);
    let to = fields(text, HeaderName::TO)[0].value;
    let own_tag = to.len() != unfolded(fields(request, HeaderName::TO)[0].value).len();
    let mut ack = b"ACK sip:x SIP/2.0\r\n".to_vec();
    for line in headers.filter(|line| Header::split(line).is_some_and(|header| !header.is(HeaderName::TO))) {
        ack.extend_from_slice(line);
        ack.push(b'\n');
    }
    ack.extend_from_slice(b"To: ");
    ack.extend_from_slice(to);
    ack.extend_from_slice(b"\r\n\r\n");
    assert_eq!(is_ack_of_own_reply(&ack, &SEED), own_tag, "{}", ack.escape_ascii());
    let Seed([a, b, c, d]) = SEED;
    assert!(!is_ack_of_own_reply(&ack, &Seed([a, b, c, d ^ 1])), "another node's secret");
}

/// The same bytes for every copy, marked or behind line ends.
fn check_sameness(request: &[u8], source: SocketAddr, line: ReplyLine, text: &[u8]) {
    let mut again = [0; ROOM];
    let glued = [b"\r\n\r\n", request].concat();
    let written = write_reply(&glued, source, &SEED, line, &mut again).expect("a reply to a glued request");
    assert_eq!(&again[..written.len], text);
    let Some(marker) = classify(request).marker else { return };
    let place = usize::from(marker.offset)..usize::from(marker.offset) + usize::from(marker.len);
    let plain = [&request[..place.start], &request[place.end..]].concat();
    if classify(&plain).marker.is_none() {
        let written = write_reply(&plain, source, &SEED, line, &mut again).expect("a reply to the original");
        assert_eq!(&again[..written.len], text);
    }
}

/// The same within its packet, which is sound and leads back.
fn check_packet(request: &[u8], source: SocketAddr, line: ReplyLine, text: &[u8]) {
    let builder = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 1]);
    let mut packet = Vec::new();
    let written = match source.ip().to_canonical() {
        IpAddr::V4(ip) => {
            builder.ipv4(ip.octets(), [192, 0, 2, 1], 9).udp(source.port(), 5060).write(&mut packet, request)
        }
        IpAddr::V6(ip) => {
            builder.ipv6(ip.octets(), [0x21; 16], 9).udp(source.port(), 5060).write(&mut packet, request)
        }
    };
    written.expect("a packet");
    let all = Services::new([(None, 5060)]);
    let (datagram, _) = match parse_packet(&packet, &all, usize::MAX) {
        Ok(found) => found,
        // No such packet reaches a worker: the kernel has it, and drops it.
        Err((_, Reason::SourceMartian)) => return,
        Err(passed) => panic!("its datagram: {passed:?}"),
    };
    let mut out = [0; ROOM + 128];
    let reply = match write_reply_packet(&packet, &datagram, &SEED, line, &mut out) {
        // Who claims to be the server is told nothing.
        Err(NoReply::BadSource) if datagram.source.ip() == datagram.destination.ip() => return,
        written => written.expect("a reply packet"),
    };
    let back = Services::new([(None, reply.destination.port())]);
    let (said, _) = parse_packet(&out[..reply.len], &back, usize::MAX).expect("a packet that can be parsed");
    assert_eq!(said.payload(&out[..reply.len]), text);
    assert_eq!((said.destination, said.source.port()), (reply.destination, 5060));
    assert_eq!(verify_udp(&out[..reply.len], &said), Checksum::Right);
}
