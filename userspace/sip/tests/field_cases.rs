//! SIP over UDP as it really arrives: one test for each kind of report from people who run servers.
//!
//! The numbers group the cases as the project's list of field reports does: what is no request yet (1-9),
//! start lines (10-15), headers (16-25), transactions (30, 31), replies (41, 56-60). Inputs are of our own making.

use std::net::SocketAddr;

use sip::headers::HeaderLines;
use sip::{Class, Method, NoReply, Reason, ReplyLine, Seed, Services, Verdict};
use sip::{call_id, classify, is_ack_of_own_reply, parse_packet, verdict_of, write_reply};

const SEED: Seed = Seed([9, 8, 7, 6]);

fn class_of(datagram: &[u8]) -> Class {
    classify(datagram).class
}

fn reply_to(request: &str, source: &str) -> Result<(String, SocketAddr), NoReply> {
    let mut out = [0; 2048];
    let line = ReplyLine::default();
    let reply = write_reply(request.as_bytes(), source.parse().unwrap(), &SEED, line, &mut out)?;
    Ok((String::from_utf8(out[..reply.len].to_vec()).unwrap(), reply.destination))
}

/// A request with these header lines where Via belongs, and room for a reply.
fn invite(via: &str) -> String {
    format!(
        "INVITE sip:desk@pbx.example SIP/2.0\r\n{via}\r\nFrom: <sip:x@y.example>;tag=q1\r\n\
         To: <sip:desk@pbx.example>\r\nCall-ID: f81d4fae\r\nCSeq: 2 INVITE\r\nMax-Forwards: 70\r\n\
         Contact: <sip:x@198.51.100.4>\r\nUser-Agent: a phone on a desk\r\n\r\n"
    )
}

#[test]
fn case_01_a_keepalive_of_line_ends_is_no_message() {
    for ping in [&b"\r\n"[..], b"\r\n\r\n", b"\n", b"\r", b"\n\n\n\n"] {
        let message = classify(ping);
        assert_eq!((message.class, message.reason), (Class::Keepalive, Reason::LinePing));
    }
    assert_eq!(verdict_of(Class::Keepalive), Verdict::RingRetransmission);
    assert_eq!(class_of(b"\r\n\r\n\r\n"), Class::NotSip, "longer than a ping");
}

#[test]
fn case_02_a_request_glued_to_a_keepalive_is_a_request() {
    let message = classify(b"\r\n\r\nOPTIONS sip:ping@pbx.example SIP/2.0\r\nTo: a\r\n\r\n");
    assert_eq!((message.class, message.method, message.start), (Class::Original, Method::Options, 4));
}

#[test]
fn case_03_four_zero_bytes_are_a_keepalive() {
    assert_eq!(class_of(&[0; 4]), Class::Keepalive);
    assert_eq!(class_of(&[0; 5]), Class::NotSip);
}

#[test]
fn case_04_an_empty_datagram_is_a_keepalive_and_a_short_one_never_panics() {
    assert_eq!(class_of(b""), Class::Keepalive);
    for len in 1..32 {
        assert_eq!(class_of(&vec![b'x'; len]), Class::NotSip);
    }
}

#[test]
fn case_05_a_stun_binding_request_is_stun_and_a_short_or_cookieless_one_is_not() {
    let mut binding = vec![0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42];
    binding.extend_from_slice(&[7; 12]);
    assert_eq!(class_of(&binding), Class::Stun);
    assert_eq!(verdict_of(Class::Stun), Verdict::RingRetransmission);
    assert_eq!(class_of(&binding[..19]), Class::NotSip);
    binding[0] = 0x40;
    assert_eq!(class_of(&binding), Class::NotSip);
    binding[0] = 0;
    binding[4] = 0x22;
    assert_eq!(class_of(&binding), Class::NotSip);
}

#[test]
fn case_06_binary_noise_is_not_sip() {
    for first in 0..=255 {
        let noise: Vec<u8> = (0..64u8).map(|i| i.wrapping_mul(37) ^ first).collect();
        assert_eq!(class_of(&noise), Class::NotSip, "{first}");
    }
}

#[test]
fn case_07_other_protocols_on_the_port_are_told_by_their_version() {
    assert_eq!(class_of(b"GET /index.html HTTP/1.1\r\nHost: a\r\n\r\n"), Class::NotSip);
    assert_eq!(class_of(b"OPTIONS * HTTP/1.1\r\n\r\n"), Class::NotSip);
    assert_eq!(class_of(b"OPTIONS rtsp://a RTSP/1.0\r\nCSeq: 1\r\n\r\n"), Class::NotSip);
    assert_eq!(class_of(b"HTTP/1.1 200 OK\r\n\r\n"), Class::NotSip);
    assert_eq!(class_of(b"GET sip:a@b SIP/2.0\r\n\r\n"), Class::Original);
}

#[test]
fn case_08_an_invite_to_an_unguarded_port_is_foreign() {
    let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]);
    let builder = builder.ipv4([198, 51, 100, 4], [192, 0, 2, 1], 64).udp(5060, 8008);
    let mut packet = Vec::new();
    builder.write(&mut packet, invite("Via: SIP/2.0/UDP a").as_bytes()).unwrap();
    let services = Services::new([(Some([192, 0, 2, 1].into()), 5060)]);
    assert_eq!(parse_packet(&packet, &services, 2048), Err((Class::Foreign, Reason::NoService)));
}

#[test]
fn case_09_responses_are_served_first_and_never_answered() {
    for response in ["SIP/2.0 180 Ringing\r\n", "sip/2.0 486 Busy\r\n", "\r\nSIP/2.0 200\r\n"] {
        assert_eq!(class_of(response.as_bytes()), Class::Response, "{response}");
        let whole = invite("Via: SIP/2.0/UDP a");
        let (_, headers) = whole.split_once("\r\n").unwrap();
        let refused = reply_to(&format!("{response}{headers}"), "192.0.2.7:6000");
        assert_eq!(refused.unwrap_err(), NoReply::NotARequest);
    }
    assert_eq!(verdict_of(Class::Response), Verdict::RingControl);
}

#[test]
fn case_10_bare_line_feeds_end_lines_and_any_mixture_ends() {
    let request = b"INVITE sip:a@b SIP/2.0\nTo: <sip:a@b>\n ;tag=1\r\nCall-ID: 5\n\nTo: body\n";
    assert_eq!(class_of(request), Class::InDialog);
    assert_eq!(call_id(request), Some(&b"5"[..]));
    assert_eq!(HeaderLines::of(request).count(), 2);
}

#[test]
fn case_11_a_method_in_lower_case_is_no_way_around() {
    assert_eq!(classify(b"invite sip:a@b SIP/2.0\r\n").method, Method::Invite);
    assert_eq!(class_of(b"Ack sip:a@b SIP/2.0\r\n"), Class::Ack);
    assert_eq!(class_of(b"cancel sip:a@b SIP/2.0\r\n"), Class::Cancel);
}

#[test]
fn case_12_an_unknown_method_is_another_request() {
    for line in
        ["FEATURE sip:a@b SIP/2.0\r\n", "a.b-c!%*_+`'~ sip:a@b SIP/2.0\r\n", "INVITEX sip:a@b SIP/2.0\r\n"]
    {
        let message = classify(line.as_bytes());
        assert_eq!((message.class, message.method), (Class::Original, Method::Other), "{line}");
    }
}

#[test]
fn case_13_a_strange_request_uri_is_the_servers_business() {
    for uri in
        ["<sip:a@b>", "sip:a@b; lr", "sip:a@b?Route=%3Csip:c%3E", "sip:", "sip:@", "tel:+1;phone-context=x"]
    {
        assert_eq!(class_of(format!("INVITE {uri} SIP/2.0\r\n\r\n").as_bytes()), Class::Original, "{uri}");
    }
}

#[test]
fn case_14_a_start_line_of_any_length_is_read() {
    for len in [64, 128, 255, 512, 8192, 60_000] {
        let line = format!("INVITE sip:{} SIP/2.0\r\nTo: a;tag=1\r\n\r\n", "p".repeat(len));
        assert_eq!(class_of(line.as_bytes()), Class::InDialog, "{len}");
    }
}

#[test]
fn case_15_another_version_is_sip_and_no_version_is_not() {
    assert_eq!(class_of(b"OPTIONS sip:a@b SIP/3.1\r\n\r\n"), Class::Original);
    assert_eq!(class_of(b"OPTIONS sip:a@b\r\n\r\n"), Class::NotSip);
}

#[test]
fn case_16_compact_names_count_and_beginnings_of_names_do_not() {
    assert_eq!(class_of(b"INVITE sip:a@b SIP/2.0\r\nt:<sip:a@b>;tag=1\r\n\r\n"), Class::InDialog);
    assert_eq!(class_of(b"INVITE sip:a@b SIP/2.0\r\nT :a;tag=1\r\n\r\n"), Class::InDialog);
    assert_eq!(class_of(b"INVITE sip:a@b SIP/2.0\r\nTo-X: a;tag=1\r\n\r\n"), Class::Original);
    assert_eq!(class_of(b"INVITE sip:a@b SIP/2.0\r\nTimestamp: 1;tag=1\r\n\r\n"), Class::Original);
    assert_eq!(call_id(b"INVITE sip:a@b SIP/2.0\r\nCall-Info: x\r\nI: 77\r\n\r\n"), Some(&b"77"[..]));
}

#[test]
fn case_17_blanks_in_front_of_the_colon_and_any_case_are_allowed() {
    assert_eq!(class_of(b"INVITE sip:a@b SIP/2.0\r\ntO \t : a;tag=1\r\n\r\n"), Class::InDialog);
    let emergency = b"INVITE sip:a@b SIP/2.0\r\nRESOURCE-priority\t: ets.0\r\n\r\n";
    assert_eq!(class_of(emergency), Class::Emergency);
}

#[test]
fn case_18_folded_headers_are_one_header() {
    assert_eq!(
        class_of(b"INVITE sip:a@b SIP/2.0\r\nTo:\r\n\t<sip:a@b>\r\n ; tag\r\n = 1\r\n\r\n"),
        Class::InDialog
    );
    let folded = "Via: SIP/2.0/UDP\r\n 198.51.100.4:5062\r\n\t;branch=z9hG4bKf";
    let (text, destination) = reply_to(&invite(folded), "198.51.100.4:6000").unwrap();
    assert!(text.contains("\r\nVia: SIP/2.0/UDP 198.51.100.4:5062 ;branch=z9hG4bKf\r\n"), "{text}");
    assert_eq!(destination.port(), 5062);
}

#[test]
fn case_19_every_via_value_comes_back_in_order() {
    let vias = "Via: SIP/2.0/UDP a.example;branch=z9hG4bK1, SIP/2.0/UDP b.example;branch=z9hG4bK2\r\nv: SIP/2.0/TCP c.example";
    let (text, _) = reply_to(&invite(vias), "198.51.100.4:6000").unwrap();
    let expected = "Via: SIP/2.0/UDP a.example;branch=z9hG4bK1;received=198.51.100.4, SIP/2.0/UDP b.example;branch=z9hG4bK2\r\nv: SIP/2.0/TCP c.example\r\n";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn case_20_a_quoted_comma_in_via_separates_nothing() {
    let via = "Via: SIP/2.0/UDP a.example;oc;oc-algo=\"loss,A\";branch=z9hG4bK1";
    let (text, _) = reply_to(&invite(via), "198.51.100.4:6000").unwrap();
    assert!(text.contains(&format!("\r\n{via};received=198.51.100.4\r\n")), "{text}");
}

#[test]
fn case_21_blanks_around_every_separator_of_via_are_allowed() {
    let via = "Via : SIP / 2.0 / UDP\t198.51.100.4 : 5064 ; branch = z9hG4bK1 ; rport";
    let (text, destination) = reply_to(&invite(via), "198.51.100.4:6000").unwrap();
    let expected = "\r\nVia: SIP / 2.0 / UDP\t198.51.100.4 : 5064 ; branch = z9hG4bK1 ;rport=6000;received=198.51.100.4\r\n";
    assert!(text.contains(expected), "{text}");
    assert_eq!(destination.port(), 6000);
}

#[test]
fn case_22_the_headers_that_matter_may_stand_behind_thousands_of_bytes() {
    let padding = format!("X-Padding: {}\r\n", "z".repeat(90)).repeat(100);
    let request = format!("INVITE sip:a@b SIP/2.0\r\n{padding}Call-ID: late\r\nTo: a;tag=9\r\n\r\n");
    assert_eq!(class_of(request.as_bytes()), Class::InDialog);
    assert_eq!(call_id(request.as_bytes()), Some(&b"late"[..]));
}

#[test]
fn case_23_an_ipv6_reference_in_via_is_read_with_and_without_port_and_brackets() {
    for (sent_by, port) in [("[2001:db8::4]", 5060), ("[2001:db8::4]:5064", 5064), ("2001:db8::4", 5060)] {
        let (text, destination) =
            reply_to(&invite(&format!("Via: SIP/2.0/UDP {sent_by};branch=0")), "[2001:db8::4]:6000").unwrap();
        assert_eq!(destination, SocketAddr::new("2001:db8::4".parse().unwrap(), port));
        assert!(!text.contains("received"), "{text}");
    }
}

#[test]
fn case_24_without_the_headers_that_a_client_matches_by_there_is_no_reply() {
    let whole = invite("Via: SIP/2.0/UDP a");
    for name in ["CSeq", "To", "From", "Call-ID", "Via"] {
        let lacking: String =
            whole.split_inclusive("\r\n").filter(|line| !line.starts_with(&format!("{name}:"))).collect();
        assert_eq!(reply_to(&lacking, "192.0.2.7:6000").unwrap_err(), NoReply::MissingHeader, "{name}");
    }
}

#[test]
fn case_25_a_cseq_of_another_method_comes_back_as_it_is_unless_it_says_ack() {
    let with = |method: &str| invite("Via: SIP/2.0/UDP a").replace("2 INVITE", &format!("2 {method}"));
    let (text, _) = reply_to(&with("OPTIONS"), "192.0.2.7:6000").unwrap();
    assert!(text.contains("\r\nCSeq: 2 OPTIONS\r\n"), "{text}");
    // Peers match a response by CSeq, and nobody answers an ACK; a stateless server ignores CANCEL.
    for method in ["ACK", "ack", "CANCEL", "\r\n  ACK"] {
        assert_eq!(reply_to(&with(method), "192.0.2.7:6000").unwrap_err(), NoReply::UnansweredMethod);
    }
}

/// The ACK that a client of RFC 3261 section 17.1.1.3 makes of its INVITE and our reply.
fn ack_of(invite: &str, reply: &str) -> String {
    let to = |text: &str| text.lines().find(|line| line.starts_with("To: ")).unwrap().to_owned();
    invite.replacen("INVITE sip", "ACK sip", 1).replace("2 INVITE", "2 ACK").replace(&to(invite), &to(reply))
}

#[test]
fn case_30_a_client_without_branch_is_answered_and_its_ack_is_known() {
    let request = invite("Via: SIP/2.0/UDP old.example:5070");
    let (text, destination) = reply_to(&request, "192.0.2.7:6000").unwrap();
    assert_eq!(destination.port(), 5070);
    assert!(is_ack_of_own_reply(ack_of(&request, &text).as_bytes(), &SEED));
}

#[test]
fn case_31_a_branch_that_is_no_branch_does_not_make_requests_alike() {
    for branch in ["z9hG4bK", "0", "", "1234"] {
        let first = invite(&format!("Via: SIP/2.0/UDP a;branch={branch}"));
        let second = first.replace("f81d4fae", "another-call");
        let third = first.replace("CSeq: 2 ", "CSeq: 3 ");
        let tag = |request: &str| {
            let (text, _) = reply_to(request, "192.0.2.7:6000").unwrap();
            text.split_once("To: <sip:desk@pbx.example>;tag=").unwrap().1[..13].to_owned()
        };
        assert!(tag(&first) != tag(&second) && tag(&first) != tag(&third) && tag(&second) != tag(&third));
    }
}

#[test]
fn case_41_the_ack_to_a_refusal_is_known_and_that_of_a_call_is_not() {
    let request = invite("Via: SIP/2.0/UDP a;branch=z9hG4bK7");
    let (text, _) = reply_to(&request, "192.0.2.7:6000").unwrap();
    assert!(is_ack_of_own_reply(ack_of(&request, &text).as_bytes(), &SEED));
    let of_the_server = text.replace(";tag=", ";tag=server-");
    assert!(!is_ack_of_own_reply(ack_of(&request, &of_the_server).as_bytes(), &SEED));
}

#[test]
fn case_56_a_client_that_never_acknowledges_leaves_nothing_behind_and_its_copies_get_the_same() {
    let request = invite("Via: SIP/2.0/UDP a;branch=z9hG4bK7");
    let first = reply_to(&request, "192.0.2.7:6000");
    assert!(first.is_ok());
    for _ in 0..11 {
        assert_eq!(reply_to(&request, "192.0.2.7:6000"), first);
    }
}

#[test]
fn case_57_the_code_may_be_one_that_ends_the_hunt_for_the_next_server() {
    for (code, status_line) in [
        (503, "SIP/2.0 503 Service Unavailable"),
        (500, "SIP/2.0 500 Server Internal Error"),
        (480, "SIP/2.0 480 Temporarily Unavailable"),
    ] {
        let mut out = [0; 2048];
        let request = invite("Via: SIP/2.0/UDP a");
        let source = "192.0.2.7:6000".parse().unwrap();
        let line = ReplyLine::of_code(code).unwrap();
        let reply = write_reply(request.as_bytes(), source, &SEED, line, &mut out).unwrap();
        assert!(out[..reply.len].starts_with(status_line.as_bytes()));
    }
}

#[test]
fn case_58_a_refusal_names_no_time_to_retry() {
    let (text, _) = reply_to(&invite("Via: SIP/2.0/UDP a"), "192.0.2.7:6000").unwrap();
    assert!(text.starts_with("SIP/2.0 503 "));
    assert!(!text.to_ascii_lowercase().contains("retry-after"), "{text}");
}

#[test]
fn case_59_the_reply_goes_to_the_source_address_and_the_port_that_via_and_rport_say() {
    let port =
        |via: &str| reply_to(&invite(via), "192.0.2.7:40000").map(|(_, destination)| destination.to_string());
    assert_eq!(port("Via: SIP/2.0/UDP 10.1.1.1:5080"), Ok("192.0.2.7:5080".to_owned()));
    assert_eq!(port("Via: SIP/2.0/UDP 10.1.1.1"), Ok("192.0.2.7:5060".to_owned()));
    assert_eq!(port("Via: SIP/2.0/UDP 10.1.1.1:5080;rport"), Ok("192.0.2.7:40000".to_owned()));
    assert_eq!(port("Via: SIP/2.0/UDP 10.1.1.1:5080;maddr=192.0.2.7;rport"), Ok("192.0.2.7:5080".to_owned()));
    assert_eq!(port("Via: SIP/2.0/UDP a;maddr=203.0.113.1"), Err(NoReply::ForeignMaddr));
    assert_eq!(port("Via: SIP/2.0/UDP a;maddr=224.0.1.75;ttl=1"), Err(NoReply::ForeignMaddr));
}

#[test]
fn case_60_a_reply_is_never_longer_than_its_request() {
    let mut request = invite("Via: SIP/2.0/UDP a");
    let mut answered = 0;
    // Take the optional headers away byte by byte.
    let spare = request.find("Max-Forwards").unwrap();
    while request.len() > spare + 6 {
        match reply_to(&request, "192.0.2.7:6000") {
            Ok((text, _)) => {
                answered += 1;
                assert!(text.len() <= request.len());
            }
            Err(reason) => assert_eq!(reason, NoReply::LongerThanRequest),
        }
        request.remove(spare + 2);
    }
    assert!(answered > 0);
    assert_eq!(reply_to(&request, "192.0.2.7:6000").unwrap_err(), NoReply::LongerThanRequest);
}
