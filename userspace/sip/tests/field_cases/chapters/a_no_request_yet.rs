//! A. Datagrams that are not (yet) a SIP request.

use sip::{Class, Method, NoReply, Reason, Verdict, verdict_of};

use super::{class_of, ethernet, invite, ipv4, reply_to};
use crate::judge::{classify, parse};

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
    let mut packet = ethernet(&[], &ipv4(5060, 0x4000, invite("Via: SIP/2.0/UDP a").as_bytes()));
    assert!(parse(&packet).is_ok());
    packet[36..38].copy_from_slice(&8008_u16.to_be_bytes());
    assert_eq!(parse(&packet), Err((Class::Foreign, Reason::NoService)));
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
