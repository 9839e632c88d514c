//! C. Where headers are and how they are written.

use std::net::SocketAddr;

use sip::{Class, Method, NoReply, call_id};

use super::{class_of, hash_of, invite, plain_invite, reply_bytes, reply_to};
use crate::judge::classify;

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
fn case_25_a_cseq_of_another_method_raises_no_request_and_makes_no_copy() {
    let honest = plain_invite();
    for method in ["ACK", "CANCEL", "BYE", "PRACK"] {
        let lying = honest.replace("CSeq: 2 INVITE", &format!("CSeq: 2 {method}"));
        let message = classify(lying.as_bytes());
        assert_eq!((message.class, message.method), (Class::Original, Method::Invite), "{method}");
        assert_ne!(hash_of(&lying), hash_of(&honest), "{method}");
    }
}

#[test]
fn case_25_a_cseq_of_another_method_comes_back_as_it_is_unless_nobody_answers_that_method() {
    let with = |method: &str| plain_invite().replace("2 INVITE", &format!("2 {method}"));
    let (text, _) = reply_to(&with("OPTIONS"), "192.0.2.7:6000").unwrap();
    assert!(text.contains("\r\nCSeq: 2 OPTIONS\r\n"), "{text}");
    // Peers match a response by CSeq, and nobody answers an ACK; a stateless server ignores CANCEL.
    for method in ["ACK", "ack", "CANCEL", "\r\n  ACK"] {
        assert_eq!(reply_to(&with(method), "192.0.2.7:6000").unwrap_err(), NoReply::UnansweredMethod);
    }
}

#[test]
fn case_26_a_content_length_beyond_the_datagram_changes_nothing() {
    for length in ["9999", "2000000000", "2147483648", "99999999999999999999", "-1", "x"] {
        let request = plain_invite().replace("\r\n\r\n", &format!("\r\nContent-Length: {length}\r\n\r\nv=0"));
        assert_eq!(class_of(request.as_bytes()), Class::Original, "{length}");
        let (text, _) = reply_to(&request, "198.51.100.4:5060").unwrap();
        assert!(text.ends_with("\r\nContent-Length: 0\r\n\r\n"), "{text}");
    }
}

#[test]
fn case_27_only_the_first_of_two_messages_in_a_datagram_counts() {
    let second =
        "BYE sip:desk@pbx.example SIP/2.0 rtx=1\r\nTo: <sip:a@b>;tag=9\r\nResource-Priority: ets.0\r\n\r\n";
    for body in ["", "v=0\r\n", "\r\n\r\n"] {
        let both = format!("{}{body}{second}", plain_invite());
        let message = classify(both.as_bytes());
        assert_eq!((message.class, message.method, message.marker), (Class::Original, Method::Invite, None));
        let (text, _) = reply_to(&both, "198.51.100.4:5060").unwrap();
        assert!(text.contains("\r\nCSeq: 2 INVITE\r\n") && !text.contains("tag=9"), "{text}");
    }
    assert_ne!(hash_of(&plain_invite()), hash_of(&format!("{}\r\n", plain_invite())), "trailing bytes count");
}

#[test]
fn case_28_without_a_content_length_a_message_ends_with_its_datagram() {
    let request = format!("{}v=0\r\nTo: not a header;tag=1\r\n", plain_invite());
    assert!(!request.contains("Content-Length"));
    assert_eq!(class_of(request.as_bytes()), Class::Original);
    assert!(reply_to(&request, "198.51.100.4:5060").is_ok());
}

#[test]
fn case_29_bytes_that_are_no_text_are_carried_as_they_are() {
    let name = b"From: \"J\xfcrgen \x80\xff\" <sip:x@y.example>;tag=q1";
    let text = plain_invite();
    let (before, rest) = text.split_once("From: <sip:x@y.example>;tag=q1").unwrap();
    let request = [before.as_bytes(), name, rest.as_bytes(), b"\0\x01\xfe\xff body\0"].concat();
    assert_eq!(class_of(&request), Class::Original);
    let (reply, _) = reply_bytes(&request, "198.51.100.4:5060").unwrap();
    assert!(reply.windows(name.len()).any(|window| window == name), "{}", reply.escape_ascii());
    let quoted = b"INVITE sip:a@b SIP/2.0\r\nTo: \"\x80;tag=1\xff\" <sip:a@b>\r\n\r\n\0";
    assert_eq!(class_of(quoted), Class::Original);
    let tagged = b"INVITE sip:a@b SIP/2.0\r\nTo: \"\x80\xff\" <sip:a@b>;tag=\xe9\r\n\r\n\0";
    assert_eq!(class_of(tagged), Class::InDialog);
}
