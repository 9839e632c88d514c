use super::*;

fn request(line: &[u8]) -> (Method, &[u8], Option<Marker>) {
    match StartLine::scan(line).map(|scanned| scanned.kind) {
        Some(StartLineKind::Request { method, uri, marker }) => (method, uri, marker),
        other => panic!("{:?} is {other:?}", line.escape_ascii().to_string()),
    }
}

fn marker(form: MarkerForm, copy: u8, offset: u16, len: u8) -> Option<Marker> {
    Some(Marker { form, copy, offset, len })
}

fn is_status(line: &[u8]) -> bool {
    StartLine::scan(line).is_some_and(|scanned| scanned.kind == StartLineKind::Status)
}

#[test]
fn a_request_line_falls_into_method_uri_and_version() {
    let scanned = StartLine::scan(b"\r\nINVITE sip:bob@example.com SIP/2.0 \r\nTo: x\r\n").unwrap();
    assert_eq!((scanned.start, scanned.len, scanned.headers_offset), (2, 35, 39));
    let kind = StartLineKind::Request { method: Method::Invite, uri: b"sip:bob@example.com", marker: None };
    assert_eq!(scanned.kind, kind);
}

#[test]
fn blanks_of_any_number_may_separate_and_trail() {
    assert_eq!(request(b"BYE \t sip:a@b\t\t SIP/2.0 \t\n"), (Method::Bye, &b"sip:a@b"[..], None));
}

#[test]
fn a_line_without_version_or_without_line_end_is_no_start_line() {
    let lines: [&[u8]; 12] = [
        b"INVITE sip:a@b\r\n",
        b"INVITE sip:a@b SIP/2.0",
        b"GET / HTTP/1.1\r\n",
        b"SIP/2.0\r\n",
        b"  SIP/2.0\r\n",
        b"INVITE sip:a@bSIP/2.0\r\n",
        b"INVITE sip:a@b SIP/2\r\n",
        b"INVITE sip:a@b SIP/.0\r\n",
        b"INVITE sip:a@b SIP/2.0x\r\n",
        b"INVITE sip:a@b SIP/2.0\r \r\n",
        b"\r\n\r\n",
        b"",
    ];
    for line in lines {
        assert_eq!(StartLine::scan(line), None, "{}", line.escape_ascii());
    }
}

#[test]
fn versions_of_any_number_and_case_are_versions() {
    for line in [&b"A b sIp/2.0\r\n"[..], b"A b SIP/7.0\r\n", b"A b SIP/12.345\r\n", b"A SIP/2.0\r\n"] {
        assert_eq!(request(line).0, Method::Other);
    }
}

#[test]
fn a_status_line_has_three_digits_and_then_a_blank_or_nothing() {
    for line in [&b"SIP/2.0 200 OK\r\n"[..], b"sip/2.0  100\n", b"SIP/2.0 100 \r\n", b"SIP/10.1 603\tNo\r\n"]
    {
        assert!(is_status(line), "{}", line.escape_ascii());
    }
    for line in
        [&b"SIP/2.0 4294967301 x\r\n"[..], b"SIP/2.0\t200 x\r\n", b"SIP/2.0 20 OK\r\n", b"SIP/2.0 200OK\n"]
    {
        assert!(StartLine::scan(line).is_none(), "{}", line.escape_ascii());
    }
}

#[test]
fn the_field_marker_stands_one_space_behind_the_version() {
    let line = b"INVITE sip:a@b SIP/2.0 rtx=1\r\n";
    assert_eq!(request(line), (Method::Invite, &b"sip:a@b"[..], marker(MarkerForm::Field, 1, 22, 6)));
    assert_eq!(request(b"\nINVITE sip:a@b SIP/2.0 rtx=42 \r\n").2, marker(MarkerForm::Field, 42, 23, 7));
    assert_eq!(request(b"INVITE sip:a@b SIP/2.0 rtx=0\n").2, marker(MarkerForm::Field, 0, 22, 6));
}

#[test]
fn what_is_not_exactly_a_field_marker_makes_the_line_no_request() {
    let lines: [&[u8]; 9] = [
        b"INVITE sip:a@b SIP/2.0 rtx=100\r\n",
        b"INVITE sip:a@b SIP/2.0 rtx=\r\n",
        b"INVITE sip:a@b SIP/2.0 RTX=1\r\n",
        b"INVITE sip:a@b SIP/2.0 rtx=1x\r\n",
        b"INVITE sip:a@b SIP/2.0  rtx=1\r\n",
        b"INVITE sip:a@b SIP/2.0\trtx=1\r\n",
        b"INVITE sip:a@b SIP/2.0 rtx=1 rtx=2\r\n",
        b"INVITE sip:a@b rtx=1\r\n",
        b"SIP/2.0 rtx=1\r\n",
    ];
    for line in lines {
        assert_eq!(StartLine::scan(line), None, "{}", line.escape_ascii());
    }
}

#[test]
fn the_uri_marker_is_a_whole_parameter_behind_the_last_at_sign() {
    let line = b"ACK sip:b@h;rtx=3 SIP/2.0\r\n";
    assert_eq!(request(line), (Method::Ack, &b"sip:b@h;rtx=3"[..], marker(MarkerForm::Uri, 3, 11, 6)));
    assert_eq!(request(b"ACK sip:b@h;rtx=33;lr SIP/2.0\r\n").2, marker(MarkerForm::Uri, 33, 11, 7));
    assert_eq!(request(b"ACK sip:b@h;rtx=3?x=y SIP/2.0\r\n").2, marker(MarkerForm::Uri, 3, 11, 6));
    assert_eq!(request(b"ACK sip:h;a=b;rtx=3 SIP/2.0\r\n").2, marker(MarkerForm::Uri, 3, 13, 6));
    assert_eq!(request(b"ACK sip:b@h;rtx=1;rtx=2 SIP/2.0\r\n").2, marker(MarkerForm::Uri, 1, 11, 6));
    assert_eq!(request(b"ACK sip:b@h;rtx=123;rtx=2 SIP/2.0\r\n").2, marker(MarkerForm::Uri, 2, 19, 6));
}

#[test]
fn a_user_part_or_a_uri_header_that_looks_like_a_marker_is_none() {
    let lines: [&[u8]; 7] = [
        b"INVITE sip:bob;rtx=1@h SIP/2.0\r\n",
        b"INVITE sip:bob@h?x=;rtx=1 SIP/2.0\r\n",
        b"INVITE sip:bob@h;rtx=1?a=b@c SIP/2.0\r\n",
        b"INVITE sip:bob@h;RTX=1 SIP/2.0\r\n",
        b"INVITE sip:bob@h;xrtx=1 SIP/2.0\r\n",
        b"INVITE sip:bob@h;rtx=1 x SIP/2.0\r\n",
        b"INVITE <sip:bob@h;rtx=1> SIP/2.0\r\n",
    ];
    for line in lines {
        assert_eq!(request(line).2, None, "{}", line.escape_ascii());
    }
}

#[test]
fn a_line_without_a_method_has_no_marker_in_its_uri() {
    assert_eq!(request(b"\t;rtx=0 SIP/1.0  \r\n"), (Method::Other, &b";rtx=0"[..], None));
    assert_eq!(request(b"x ;rtx=0 SIP/1.0\r\n").2, marker(MarkerForm::Uri, 0, 2, 6));
}

#[test]
fn of_two_markers_the_field_counts() {
    let line = b"INVITE sip:b@h;rtx=5 SIP/2.0 rtx=1\r\n";
    assert_eq!(request(line).2, marker(MarkerForm::Field, 1, 28, 6));
}

#[test]
fn a_start_line_of_sixty_thousand_bytes_is_read_to_its_end() {
    let mut line = b"INVITE sip:".to_vec();
    line.resize(60_000, b'x');
    line.extend_from_slice(b";rtx=7 SIP/2.0\r\n");
    assert_eq!(request(&line).2, marker(MarkerForm::Uri, 7, 60_000, 6));
}
