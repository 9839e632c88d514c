//! B. Start lines.

use sip::headers::HeaderLines;
use sip::{Class, Method, call_id, call_key, is_ack_of_own_reply};

use super::{SEED, ack_to, class_of, plain_invite, reply_to};
use crate::judge::classify;

#[test]
fn case_10_bare_line_feeds_end_lines_and_any_mixture_ends() {
    let request = b"INVITE sip:a@b SIP/2.0\nTo: <sip:a@b>\n ;tag=1\r\nCall-ID: 5\n\nTo: body\n";
    assert_eq!(class_of(request), Class::InDialog);
    assert_eq!(call_id(request), Some(&b"5"[..]));
    assert_eq!(HeaderLines::of(request).count(), 2);
}

#[test]
fn case_10_a_request_with_bare_line_feeds_is_refused_like_others_and_its_ack_known() {
    let request = plain_invite().replace("\r\n", "\n");
    let (text, destination) = reply_to(&request, "198.51.100.4:6000").unwrap();
    assert_eq!(destination.port(), 6000);
    let (ours, _) = reply_to(&plain_invite(), "198.51.100.4:6000").unwrap();
    assert_eq!(text, ours, "with line ends of RFC 3261, whatever the client's");
    for ack in [ack_to(&plain_invite(), &text), ack_to(&plain_invite(), &text).replace("\r\n", "\n")] {
        assert!(is_ack_of_own_reply(ack.as_bytes(), &SEED), "{ack}");
    }
    assert_eq!(call_key(&SEED, request.as_bytes()), call_key(&SEED, plain_invite().as_bytes()));
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
