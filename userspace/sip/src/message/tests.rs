use proptest::prelude::*;

use super::*;
use crate::class::MarkerForm;

fn class_of(datagram: &[u8]) -> (Class, Reason) {
    let message = classify(datagram);
    (message.class, message.reason)
}

const ORIGINAL: (Class, Reason) = (Class::Original, Reason::NewRequest);

fn findings(message: &Message) -> KernelFindings {
    KernelFindings { start_line_len: message.start_line_len, method: message.method, marker: message.marker }
}

#[test]
fn an_invite_is_an_original_and_its_parts_are_where_they_are() {
    let message = classify(b"\r\nINVITE sip:bob@example.com SIP/2.0 rtx=0\r\nTo: <sip:b@h>\r\n\r\n");
    assert_eq!(
        message,
        Message {
            class: Class::Original,
            reason: Reason::NewRequest,
            method: Method::Invite,
            marker: Some(Marker { form: MarkerForm::Field, copy: 0, offset: 36, len: 6 }),
            start: 2,
            start_line_len: 40,
        }
    );
}

#[test]
fn resource_priority_counts_more_than_a_to_tag_in_either_order() {
    let tag_first = b"UPDATE sip:b@h SIP/2.0\r\nTo: <sip:b@h>;tag=1\r\nresource-priority : esnet.0\r\n\r\n";
    let tag_last = b"UPDATE sip:b@h SIP/2.0\r\nResource-Priority: q735.1\r\nTo: <sip:b@h>;tag=1\r\n\r\n";
    assert_eq!(class_of(tag_first), (Class::Emergency, Reason::EmergencyCall));
    assert_eq!(class_of(tag_last), (Class::Emergency, Reason::EmergencyCall));
}

#[test]
fn credentials_are_told_by_their_header_and_count_less_than_all_else() {
    let class_with = |headers: &str| class_of(format!("REGISTER sip:h SIP/2.0\r\n{headers}\r\n").as_bytes());
    let credentials = (Class::Original, Reason::Credentials);
    assert_eq!(class_with("Authorization: Digest x\r\n"), credentials);
    assert_eq!(class_with("PROXY-authorization : Digest x\r\n"), credentials);
    assert_eq!(class_with("To: a;tag=1\r\nAuthorization: x\r\n"), (Class::InDialog, Reason::ToTag));
    assert_eq!(class_with("Authorization: x\r\nTo: a;tag=1\r\n"), (Class::InDialog, Reason::ToTag));
    for other in
        ["Proxy-Authenticate", "Authorizations", "Authentication-Info", "Accept", "P-Asserted-Identity"]
    {
        assert_eq!(class_with(&format!("{other}: Digest x\r\n")), ORIGINAL, "{other}");
    }
    assert_eq!(class_with("\r\nAuthorization: x\r\n"), ORIGINAL, "in the body");
}

#[test]
fn a_header_in_the_body_is_none() {
    assert_eq!(
        class_of(b"INVITE a SIP/2.0\r\n\r\nTo: <sip:b@h>;tag=1\r\nResource-Priority: x\r\n"),
        ORIGINAL
    );
}

#[test]
fn a_request_without_headers_or_without_an_empty_line_is_an_original() {
    assert_eq!(class_of(b"INVITE sip:b@h SIP/2.0\r\n"), ORIGINAL);
    assert_eq!(class_of(b"INVITE sip:b@h SIP/2.0\r\nVia"), ORIGINAL);
    assert_eq!(class_of(b"INVITE sip:b@h SIP/2.0\r\nTo: x;tag=1").0, Class::InDialog);
}

#[test]
fn a_marked_copy_is_a_copy_whatever_its_headers_say() {
    let line = b"INVITE sip:b@h;rtx=2 SIP/2.0\r\nTo: x;tag=1\r\nResource-Priority: y\r\n\r\n";
    assert_eq!(class_of(line), (Class::Copy, Reason::Marker));
}

#[test]
fn method_and_emergency_urn_count_more_than_the_marker() {
    assert_eq!(class_of(b"ACK sip:b@h;rtx=2 SIP/2.0\r\n"), (Class::Ack, Reason::Method));
    assert_eq!(class_of(b"CANCEL sip:b@h SIP/2.0 rtx=2\r\n"), (Class::Cancel, Reason::Method));
    assert_eq!(class_of(b"BYE sip:b@h;rtx=2 SIP/2.0\r\n"), (Class::InDialog, Reason::Method));
    assert_eq!(class_of(b"PRACK sip:b@h SIP/2.0\r\n"), (Class::InDialog, Reason::Method));
    let emergency = (Class::Emergency, Reason::EmergencyCall);
    for line in [
        &b"INVITE urn:service:sos SIP/2.0\r\n"[..],
        b"INVITE URN:Service:SOS SIP/2.0 rtx=3\r\n",
        b"INVITE urn:service:sos;rtx=3 SIP/2.0\r\n",
        b"INVITE urn:service:sos.fire SIP/2.0\r\n",
    ] {
        assert_eq!(class_of(line), emergency, "{}", line.escape_ascii());
    }
    for line in [&b"INVITE urn:service:sosx SIP/2.0\r\n"[..], b"INVITE urn:service:so SIP/2.0\r\n"] {
        assert_eq!(class_of(line), ORIGINAL, "{}", line.escape_ascii());
    }
}

#[test]
fn what_the_kernel_did_not_finish_is_read_from_the_first_byte() {
    let nothing = KernelFindings { start_line_len: 0, method: Method::Other, marker: None };
    let line_only = KernelFindings { start_line_len: 24, ..nothing };
    let beyond = KernelFindings { start_line_len: 9999, method: Method::Invite, marker: None };
    for datagram in [
        &b"SIP/2.0  200 OK         \r\n\r\n"[..],
        b" x sip:a@b;rtx=1 SIP/2.0\r\n\r\n",
        b"BYE sip:a@bcdef SIP/2.00\r\n\r\n",
        b"INVITE urn:service:sos SIP/2.0\r\n\r\n",
        b"",
    ] {
        for findings in [nothing, line_only, beyond] {
            assert_eq!(classify_rest(datagram, &findings), classify(datagram), "{}", datagram.escape_ascii());
        }
    }
}

/// Pieces that meet in ways which random bytes never do.
fn any_datagram() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "INVITE",
        "ACK",
        "bye",
        "x",
        " ",
        "  ",
        "\t",
        "sip:a@b",
        "urn:service:sos",
        ";rtx=1",
        ";rtx=0",
        " rtx=2",
        "?",
        "@",
        ";",
        "SIP/2.0",
        "SIP/2.0 200",
        "SIP/12.0",
        "\r\n",
        "\n",
        "\r",
        "\r\n ",
        "To: ",
        "t:",
        "TO :",
        "<sip:a@b>",
        ";tag=1",
        "\"",
        "\\",
        "Resource-Priority: ",
        "Authorization: ",
        "Via: ",
        "\0",
        "\u{ff}",
    ]);
    prop_oneof![
        prop::collection::vec(piece.clone(), 0..24).prop_map(|pieces| pieces.concat().into_bytes()),
        prop::collection::vec(piece, 0..16).prop_map(|pieces| format!(
            "INVITE sip:a@b SIP/2.0\r\n{}",
            pieces.concat()
        )
        .into_bytes()),
        prop::collection::vec(any::<u8>(), 0..200),
    ]
}

/// Decides a To line as the rule is worded, on an unfolded copy, for balanced quotes.
fn naive_has_tag(value: &str) -> bool {
    let mut outside = String::new();
    let (mut quoted, mut angle, mut hidden) = (false, false, false);
    for c in value.chars() {
        match c {
            _ if hidden => hidden = false,
            '\\' if quoted => hidden = true,
            '"' if !angle => {
                quoted = !quoted;
                outside.push(c);
            }
            _ if quoted => {}
            '<' if !angle => {
                angle = true;
                outside.push(c);
            }
            '>' => angle = false,
            _ if angle => {}
            _ => outside.push(c),
        }
    }
    outside.split(';').skip(1).any(|parameter| {
        let name = parameter.split(['=', ',']).next().unwrap_or("").trim();
        name.eq_ignore_ascii_case("tag")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_datagram_has_a_class_and_its_parts_lie_inside(datagram in any_datagram()) {
        let message = classify(&datagram);
        prop_assert_ne!(message.class, Class::Undecided);
        prop_assert_ne!(message.reason, Reason::Unset);
        let line_end = usize::from(message.start) + usize::from(message.start_line_len);
        prop_assert!(line_end <= datagram.len());
        if let Some(marker) = message.marker {
            let offset = usize::from(marker.offset);
            let bytes = &datagram[offset..offset + usize::from(marker.len)];
            let lead = if marker.form == MarkerForm::Field { b' ' } else { b';' };
            prop_assert_eq!(bytes[0], lead);
            prop_assert!(bytes[1..].starts_with(b"rtx="));
            prop_assert!(offset + bytes.len() <= line_end);
        }
    }

    #[test]
    fn without_its_marker_a_marked_request_is_the_same_request(datagram in any_datagram()) {
        let message = classify(&datagram);
        if let Some(marker) = message.marker {
            let mut plain = datagram.clone();
            let offset = usize::from(marker.offset);
            plain.drain(offset..offset + usize::from(marker.len));
            let unmarked = classify(&plain);
            prop_assert_eq!(unmarked.method, message.method);
            prop_assert_ne!(unmarked.class, Class::NotSip);
            prop_assert_ne!(unmarked.class, Class::Response);
        }
    }

    #[test]
    fn finishing_from_the_headers_on_is_the_same_as_starting_over(datagram in any_datagram()) {
        let message = classify(&datagram);
        if message.class != Class::Response && message.reason != Reason::EmergencyCall {
            prop_assert_eq!(classify_rest(&datagram, &findings(&message)), message);
        }
    }

    #[test]
    fn the_headers_of_a_message_are_those_of_its_datagram(datagram in any_datagram()) {
        let message = classify(&datagram);
        if message.start_line_len > 0 {
            let behind: Vec<_> = message.header_lines(&datagram).collect();
            prop_assert_eq!(behind, HeaderLines::of(&datagram).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_to_tag_is_found_as_the_rule_is_worded(value in "(a|<sip:b;tag=2>|\"q;tag=3\"|\"\\\\\"\"|;tag=1|; Tag|;x|=| |,){0,6}") {
        let datagram = format!("INVITE sip:a@b SIP/2.0\r\nTo: {value}\r\n\r\n");
        let expected = naive_has_tag(&value);
        prop_assert_eq!(class_of(datagram.as_bytes()).0 == Class::InDialog, expected, "{}", value);
    }

    #[test]
    fn random_bytes_never_panic(datagram in prop::collection::vec(any::<u8>(), 0..600), len: u16, method in 0u8..15) {
        let _ = classify(&datagram);
        let method = Method::from_u8(method).unwrap();
        let marker = Some(Marker { form: MarkerForm::Field, copy: 0, offset: len, len: 9 });
        let _ = classify_rest(&datagram, &KernelFindings { start_line_len: len % 700, method, marker });
    }
}
