use proptest::prelude::*;

use super::*;

const SEED: Seed = Seed([11, 22, 33, 44]);
const SOURCE: &str = "192.0.2.7:6000";

/// A request with this top Via header line (and whatever header lines follow it), long enough for a reply.
fn request_with(via: &str) -> String {
    format!(
        "INVITE sip:bob@example.com SIP/2.0\r\n{via}\r\nFrom: \"A\" <sip:a@example.net>;tag=77\r\n\
         To: <sip:bob@example.com>\r\nCall-ID: 1@example.net\r\nCSeq: 314 INVITE\r\nMax-Forwards: 70\r\n\
         Contact: <sip:a@192.0.2.7>\r\nContent-Type: application/sdp\r\nContent-Length: 0\r\n\r\n"
    )
}

fn reply_from(request: &[u8], source: &str) -> Result<(String, SocketAddr), NoReply> {
    let mut out = [0; 4096];
    let reply = write_reply(request, source.parse().unwrap(), &SEED, ReplyLine::default(), &mut out)?;
    Ok((String::from_utf8_lossy(&out[..reply.len]).into_owned(), reply.destination))
}

fn reply_to(request: &str) -> Result<(String, SocketAddr), NoReply> {
    reply_from(request.as_bytes(), SOURCE)
}

/// The first Via line of the reply, and where the reply goes.
fn via_and_destination(via: &str, source: &str) -> (String, String) {
    let (text, destination) = reply_from(request_with(via).as_bytes(), source).unwrap();
    (text.lines().nth(1).unwrap().to_owned(), destination.to_string())
}

fn refusal(via: &str) -> NoReply {
    reply_to(&request_with(via)).unwrap_err()
}

#[test]
fn the_reply_has_what_rfc_3261_8_2_6_2_asks_for_and_nothing_else() {
    let (text, destination) =
        reply_to(&request_with("Via: SIP/2.0/UDP 192.0.2.7:5070;branch=z9hG4bK1")).unwrap();
    let to = text.lines().nth(3).unwrap();
    let tag = to.strip_prefix("To: <sip:bob@example.com>;tag=").unwrap();
    assert_eq!(tag.len(), 13);
    assert_eq!(
        text,
        format!(
            "SIP/2.0 503 Service Unavailable\r\nVia: SIP/2.0/UDP 192.0.2.7:5070;branch=z9hG4bK1\r\n\
             From: \"A\" <sip:a@example.net>;tag=77\r\n{to}\r\nCall-ID: 1@example.net\r\nCSeq: 314 INVITE\r\n\
             Content-Length: 0\r\n\r\n"
        )
    );
    assert_eq!(destination, "192.0.2.7:5070".parse().unwrap());
}

#[test]
fn received_is_added_when_sent_by_is_a_name_or_another_address_or_rport_asks() {
    let cases = [
        ("Via: SIP/2.0/UDP pc;branch=b", "Via: SIP/2.0/UDP pc;branch=b;received=192.0.2.7", "192.0.2.7:5060"),
        (
            "Via: SIP/2.0/UDP 10.0.0.1:5070",
            "Via: SIP/2.0/UDP 10.0.0.1:5070;received=192.0.2.7",
            "192.0.2.7:5070",
        ),
        ("Via: SIP/2.0/UDP 192.0.2.7", "Via: SIP/2.0/UDP 192.0.2.7", "192.0.2.7:5060"),
        (
            "Via: SIP/2.0/UDP 192.0.2.7;rport;branch=b",
            "Via: SIP/2.0/UDP 192.0.2.7;rport=6000;branch=b;received=192.0.2.7",
            "192.0.2.7:6000",
        ),
        ("Via: SIP/2.0/UDP pc;RPORT", "Via: SIP/2.0/UDP pc;rport=6000;received=192.0.2.7", "192.0.2.7:6000"),
    ];
    for (via, expected, destination) in cases {
        assert_eq!(via_and_destination(via, SOURCE), (expected.to_owned(), destination.to_owned()));
    }
}

#[test]
fn what_the_client_claims_of_its_own_address_is_replaced_and_not_doubled() {
    let via = "Via: SIP/2.0/UDP pc;received=203.0.113.9;branch=b;rport=1;Received=10.1.1.1;rport";
    let expected = "Via: SIP/2.0/UDP pc;branch=b;rport=6000;received=192.0.2.7";
    assert_eq!(via_and_destination(via, SOURCE), (expected.to_owned(), "192.0.2.7:6000".to_owned()));
    let via = "Via: SIP/2.0/UDP 192.0.2.7;received=203.0.113.9";
    assert_eq!(via_and_destination(via, SOURCE).0, "Via: SIP/2.0/UDP 192.0.2.7");
}

#[test]
fn ipv6_is_named_without_brackets_in_received() {
    let source = "[2001:db8::7]:6000";
    let cases = [
        (
            "Via: SIP/2.0/UDP [2001:DB8:0::7]:5070",
            "Via: SIP/2.0/UDP [2001:DB8:0::7]:5070",
            "[2001:db8::7]:5070",
        ),
        (
            "Via: SIP/2.0/UDP 2001:db8::7;branch=0",
            "Via: SIP/2.0/UDP 2001:db8::7;branch=0",
            "[2001:db8::7]:5060",
        ),
        (
            "Via: SIP/2.0/UDP [2001:db8::8];rport",
            "Via: SIP/2.0/UDP [2001:db8::8];rport=6000;received=2001:db8::7",
            "[2001:db8::7]:6000",
        ),
    ];
    for (via, expected, destination) in cases {
        assert_eq!(via_and_destination(via, source), (expected.to_owned(), destination.to_owned()));
    }
}

#[test]
fn an_ipv4_mapped_source_is_its_ipv4_address() {
    let found = via_and_destination("Via: SIP/2.0/UDP pc", "[::ffff:192.0.2.7]:6000");
    assert_eq!(found.0, "Via: SIP/2.0/UDP pc;received=192.0.2.7");
    assert_eq!(found.1, "192.0.2.7:5060");
    let mapped = "Via: SIP/2.0/UDP [::ffff:192.0.2.7]";
    assert_eq!(via_and_destination(mapped, SOURCE).0, mapped, "sent-by is the source");
}

#[test]
fn maddr_is_obeyed_only_if_it_is_the_source() {
    let via = "Via: SIP/2.0/UDP pc:5070;maddr=192.0.2.7;rport";
    let expected = "Via: SIP/2.0/UDP pc:5070;maddr=192.0.2.7;rport=6000;received=192.0.2.7";
    assert_eq!(via_and_destination(via, SOURCE), (expected.to_owned(), "192.0.2.7:5070".to_owned()));
    assert_eq!(refusal("Via: SIP/2.0/UDP pc;maddr=192.0.2.8"), NoReply::ForeignMaddr);
    assert_eq!(refusal("Via: SIP/2.0/UDP pc;maddr=example.com"), NoReply::ForeignMaddr);
    assert_eq!(refusal("Via: SIP/2.0/UDP pc;maddr"), NoReply::ForeignMaddr);
}

#[test]
fn all_via_values_come_back_in_order_joined_or_not() {
    let vias = "v: SIP/2.0/UDP a;oc-algo=\"loss,A\";oc, SIP/2.0/UDP b;rport\r\nMax-Breadth: 60\r\nVIA : SIP / 2.0 / UDP c\r\n ;x , d\r\nVia: e;received=1";
    let (text, _) = reply_to(&request_with(vias)).unwrap();
    let found: Vec<_> = text.lines().skip(1).take(3).collect();
    assert_eq!(
        found,
        [
            "v: SIP/2.0/UDP a;oc-algo=\"loss,A\";oc;received=192.0.2.7, SIP/2.0/UDP b;rport",
            "VIA: SIP / 2.0 / UDP c ;x , d",
            "Via: e;received=1",
        ]
    );
}

#[test]
fn folded_and_compact_requests_get_compact_and_unfolded_replies() {
    let request = "OPTIONS sip:a@b SIP/2.0\nl: 0\nv:\n SIP/2.0/UDP\n\t192.0.2.7\n ;branch=1\nf: a\n ;tag=5\nt: b;\n\ttag=7\ni: 1\nCSeq: 0009\n OPTIONS\nm: <sip:someone@somewhere>\n\n";
    let (text, _) = reply_to(request).unwrap();
    assert_eq!(
        text,
        "SIP/2.0 503 Service Unavailable\r\nv: SIP/2.0/UDP 192.0.2.7 ;branch=1\r\nf: a ;tag=5\r\nt: b; tag=7\r\n\
         i: 1\r\nCSeq: 0009 OPTIONS\r\nl: 0\r\n\r\n"
    );
}

#[test]
fn responses_acks_cancels_and_what_is_no_sip_get_no_reply() {
    let request = request_with("Via: SIP/2.0/UDP 192.0.2.7");
    let with =
        |line: &str| reply_to(&request.replacen("INVITE sip:bob@example.com SIP/2.0", line, 1)).unwrap_err();
    assert_eq!(with("SIP/2.0 200 OK"), NoReply::NotARequest);
    assert_eq!(with("GET / HTTP/1.1"), NoReply::NotARequest);
    assert_eq!(with("ACK sip:bob@example.com SIP/2.0"), NoReply::UnansweredMethod);
    assert_eq!(with("ack sip:bob@example.com SIP/2.0 rtx=1"), NoReply::UnansweredMethod);
    assert_eq!(with("CANCEL sip:bob@example.com SIP/2.0"), NoReply::UnansweredMethod);
}

#[test]
fn a_request_that_lacks_a_header_that_a_client_matches_by_gets_no_reply() {
    let request = request_with("Via: SIP/2.0/UDP 192.0.2.7");
    for name in ["Via", "From", "To", "Call-ID", "CSeq"] {
        let without = request.replacen(&format!("\r\n{name}: "), "\r\nX-Other: ", 1);
        assert_eq!(reply_to(&without).unwrap_err(), NoReply::MissingHeader, "{name}");
        let empty: Vec<_> =
            request
                .split("\r\n")
                .map(|line| {
                    if line.starts_with(&format!("{name}:")) { format!("{name}: ") } else { line.to_owned() }
                })
                .collect();
        let expected = if name == "Via" { NoReply::BadVia } else { NoReply::MissingHeader };
        assert_eq!(reply_to(&empty.join("\r\n")).unwrap_err(), expected, "{name}");
    }
    let words = request.replacen("CSeq: 314", "CSeq: INVITE", 1);
    assert_eq!(reply_to(&words).unwrap_err(), NoReply::MissingHeader);
}

#[test]
fn sources_that_nobody_replies_to_get_no_reply() {
    let request = request_with("Via: SIP/2.0/UDP 192.0.2.7");
    for source in [
        "192.0.2.7:0",
        "0.0.0.0:5060",
        "255.255.255.255:5060",
        "224.0.0.1:5060",
        "240.0.0.1:5060",
        "127.0.0.1:5060",
        "[::1]:5060",
        "[ff02::1]:5060",
        "[::]:5060",
    ] {
        assert_eq!(reply_from(request.as_bytes(), source).unwrap_err(), NoReply::BadSource, "{source}");
    }
    assert_eq!(refusal("Via: SIP/2.0/UDP 192.0.2.7:0"), NoReply::BadVia);
}

#[test]
fn a_carriage_return_within_a_copied_value_gets_no_reply() {
    let request = request_with("Via: SIP/2.0/UDP 192.0.2.7");
    let smuggled = request.replacen("1@example.net", "1\rVia: x", 1);
    assert_eq!(reply_to(&smuggled).unwrap_err(), NoReply::StrayReturn);
}

#[test]
fn a_minimal_request_gets_no_reply_because_it_would_be_longer() {
    let minimal = "INVITE a SIP/2.0\r\nv: SIP/2.0/UDP pc\r\nf: a\r\nt: b\r\ni: 1\r\nCSeq: 1 INVITE\r\n\r\n";
    assert_eq!(reply_to(minimal).unwrap_err(), NoReply::LongerThanRequest);
}

#[test]
fn every_copy_gets_the_same_answer_even_where_the_marker_would_make_room() {
    // Grow the request byte by byte: at each length original and copies must fare alike.
    for padding in 0..120 {
        let plain = format!(
            "INVITE sip:b@h SIP/2.0\r\nv: SIP/2.0/UDP pc\r\nf: a\r\nt: b\r\ni: 1\r\nCSeq: 1 INVITE\r\nX: {}\r\n\r\n",
            "x".repeat(padding)
        );
        let expected = reply_to(&plain);
        for copy in 0..3 {
            let field = plain.replacen("SIP/2.0", &format!("SIP/2.0 rtx={copy}"), 1);
            let uri = plain.replacen("@h", &format!("@h;rtx={copy}"), 1);
            assert_eq!(reply_to(&field), expected);
            assert_eq!(reply_to(&format!("\r\n\r\n{uri}")), expected);
        }
    }
}

#[test]
fn only_the_ack_to_our_own_refusal_is_known_again() {
    let invite =
        request_with("Via: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1;rport\r\nVia: SIP/2.0/UDP 10.0.0.1");
    let (text, _) = reply_to(&invite).unwrap();
    let to = text.lines().find(|line| line.starts_with("To: ")).unwrap();
    let ack = format!(
        "ACK sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.7;rport;branch=z9hG4bK1\r\nf: sip:a@example.net ;tag=77\r\n\
         {to}\r\nCall-ID: 1@example.net\r\nCSeq: 314 ACK\r\n\r\n"
    );
    assert!(is_ack_of_own_reply(ack.as_bytes(), &SEED));
    assert!(is_ack_of_own_reply(
        ack.replace("ACK sip:bob@example.com", "ACK sip:bob@example.com;rtx=1").as_bytes(),
        &SEED
    ));
    assert!(!is_ack_of_own_reply(ack.as_bytes(), &Seed([0; 4])), "another front-end's");
    assert!(!is_ack_of_own_reply(
        ack.replace(to, "To: <sip:bob@example.com>;tag=abcdefghijklm").as_bytes(),
        &SEED
    ));
    assert!(!is_ack_of_own_reply(ack.replace(to, "To: <sip:bob@example.com>").as_bytes(), &SEED));
    assert!(!is_ack_of_own_reply(ack.replace("314", "315").as_bytes(), &SEED));
    assert!(!is_ack_of_own_reply(ack.replace("ACK sip", "BYE sip").as_bytes(), &SEED));
    assert!(!is_ack_of_own_reply(b"ACK sip:b@h SIP/2.0\r\n\r\n", &SEED));
}

/// A Via value of random parts: head, parameters, and whether its sender is a name.
fn via_value() -> impl Strategy<Value = String> {
    let host =
        prop::sample::select(vec!["pc", "192.0.2.7", "10.0.0.1:5070", "[2001:db8::1]:5070", "2001:db8::1"]);
    let param = prop::sample::select(vec![
        ";branch=z9hG4bK1",
        ";rport",
        ";rport=7",
        ";received=1.2.3.4",
        ";oc-algo=\"loss,A;rport\"",
        "; x = y",
        ";lr",
    ]);
    (host, prop::collection::vec(param, 0..5))
        .prop_map(|(host, params)| format!("SIP/2.0/UDP {host}{}", params.concat()))
}

/// Splits a Via line's values at its commas outside quotes.
fn split_values(line: &str) -> Vec<String> {
    let (mut values, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        quoted ^= c == '"';
        match c {
            ',' if !quoted => values.push(String::new()),
            _ => values.last_mut().unwrap().push(c),
        }
    }
    values.into_iter().map(|value| value.trim().to_owned()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_reply_keeps_its_promises(
        lines in prop::collection::vec(prop::collection::vec(via_value(), 1..4), 1..4),
        padding in 0usize..200,
    ) {
        let headers: Vec<_> = lines.iter().map(|values| format!("Via: {}", values.join(" , "))).collect();
        let request = request_with(&format!("{}\r\nX: {}", headers.join("\r\n"), "x".repeat(padding)));
        let first = reply_to(&request);
        prop_assert_eq!(&first, &reply_to(&request), "same input, same bytes");
        match first {
            Err(reason) => prop_assert_eq!(reason, NoReply::LongerThanRequest),
            Ok((text, destination)) => {
                prop_assert!(text.len() <= request.len());
                prop_assert_eq!(destination.ip().to_string(), "192.0.2.7");
                let sent: Vec<_> = lines.concat();
                let answered: Vec<_> =
                    text.lines().filter_map(|line| line.strip_prefix("Via: ")).flat_map(split_values).collect();
                prop_assert_eq!(answered.len(), sent.len());
                prop_assert_eq!(&answered[1..], &sent[1..], "all but the top one are verbatim");
                let top: Vec<_> = answered[0].split(';').collect();
                let count = |name: &str| top.iter().filter(|param| param.starts_with(name)).count();
                prop_assert!(count("received=") <= 1);
                prop_assert_eq!(count("received=1.2.3.4"), 0);
            }
        }
    }

    #[test]
    fn random_requests_never_panic_and_never_grow(
        head in prop::sample::select(vec!["", "INVITE sip:a@b SIP/2.0\r\n", "ACK sip:a@b SIP/2.0\r\n"]),
        pieces in prop::collection::vec(prop::sample::select(vec![
            "Via: SIP/2.0/UDP a", "v:", "To: a\r\n", "t: b;tag=1\r\n", "From: c\r\n", "i: 1\r\n", "CSeq: 1 A\r\n",
            "\r\n", "\n ", ";", ",", "\"", "\\", "/", " ", ";rport", ";maddr=192.0.2.7", "=", ":5060", "[", "]", "\r", "\u{ff}",
        ]), 0..40),
        out_len in 0usize..600,
    ) {
        let request = format!("{head}{}", pieces.concat()).into_bytes();
        let mut out = vec![0; out_len];
        if let Ok(reply) = write_reply(&request, SOURCE.parse().unwrap(), &SEED, ReplyLine::default(), &mut out) {
            prop_assert!(reply.len <= request.len() && reply.len <= out_len);
            prop_assert_eq!(StartLine::scan(&out[..reply.len]).map(|line| line.kind), Some(StartLineKind::Status));
        }
        let _ = is_ack_of_own_reply(&request, &SEED);
    }
}
