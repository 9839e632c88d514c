//! What the gate word does to originals, and to nothing else. Needs root.

mod support;

use std::net::IpAddr;

use sip::class::{Class, Reason, Verdict};
use sip::{share_hash, transaction_hash};
use support::{ANY_PORT, CALLER_V4, DISCARD, OVERLOAD, Packet, classifier, decide, gate, key, set_gates};

fn request(first: &str, headers: &str) -> Packet {
    Packet::with(format!("{first}\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\n{headers}\r\nbody"))
}

fn invite(headers: &str) -> Packet {
    request("INVITE sip:b@x SIP/2.0", headers)
}

const DISCARDED: support::Decision = (Class::Original, Reason::GateDiscard, Verdict::RingReject);

#[test]
fn only_originals_are_shed() {
    let tag = (Class::InDialog, Reason::ToTag, Verdict::RingControl);
    let emergency = (Class::Emergency, Reason::EmergencyCall, Verdict::RingControl);
    let unclear = (Class::Undecided, Reason::HeaderUnclear, Verdict::RingNew);
    let table = [
        ("plain", invite("To: <sip:b@x>\r\n"), DISCARDED),
        ("no headers", Packet::with("INVITE sip:b@x SIP/2.0\r\n\r\n"), DISCARDED),
        ("no empty line", Packet::with("INVITE sip:b@x SIP/2.0\r\nA: b\r\nTo: <sip:b@x>\r\n"), DISCARDED),
        (
            "line feeds only",
            Packet::with("INVITE sip:b@x SIP/2.0\nTo: <sip:b@x>\n\nTo: <a>;tag=1\n"),
            DISCARDED,
        ),
        ("To tag", invite("To: <sip:b@x>;tag=1\r\n"), tag),
        ("compact To tag", invite("t:<sip:b@x>;TAG=1;x=y\r\n"), tag),
        ("blank before the colon", invite("TO :<sip:b@x>;tag=1\r\n"), tag),
        ("tag of a URI", invite("To: <sip:b@x;tag=1>\r\n"), unclear),
        ("tag of a bare address", invite("To: sip:b@x;tag=1\r\n"), unclear),
        ("quoted name", invite("To: \"B\" <sip:b@x>;tag=1\r\n"), unclear),
        ("folded To", invite("To: <sip:b@x>\r\n ;tag=1\r\n"), unclear),
        ("blank before the tag", invite("To: <sip:b@x>; tag=1\r\n"), unclear),
        ("two To", invite("To: <sip:b@x>;tag=1\r\nt: <sip:b@x>\r\n"), unclear),
        ("other parameter", invite("To: <sip:b@x>;x=tag\r\n"), DISCARDED),
        ("another header", invite("Topic: <sip:b@x>;tag=1\r\n"), DISCARDED),
        ("tag in From", invite("From: <sip:b@x>;tag=1\r\n"), DISCARDED),
        ("tag in the body", invite("\r\nTo: <sip:b@x>;tag=1\r\n"), DISCARDED),
        ("priority", invite("Resource-Priority: esnet.0\r\n"), emergency),
        ("priority behind a tag", invite("To: <a>;tag=1\r\nRESOURCE-priority: esnet.0\r\n"), emergency),
        ("priority with a blank", invite("Resource-Priority : esnet.0\r\n"), unclear),
        ("credentials", invite("Authorization: Digest x\r\n"), DISCARDED),
        ("credentials with a blank", invite("Authorization : Digest x\r\n"), unclear),
        ("credentials behind a tag", invite("To: <a>;tag=1\r\nProxy-Authorization: x\r\n"), tag),
        ("another priority", invite("Resource-Priority-X: esnet.0\r\n"), DISCARDED),
        ("folded start line", Packet::with("INVITE sip:b@x SIP/2.0\r\n x\r\n\r\n"), unclear),
        ("REGISTER", request("REGISTER sip:x SIP/2.0", ""), DISCARDED),
        ("original by marker", request("INVITE sip:b@x SIP/2.0 rtx=0", ""), DISCARDED),
        (
            "copy",
            request("INVITE sip:b@x SIP/2.0 rtx=1", ""),
            (Class::Copy, Reason::Marker, Verdict::RingRetransmission),
        ),
        ("ACK", request("ACK sip:b@x SIP/2.0", ""), (Class::Ack, Reason::Method, Verdict::RingControl)),
        (
            "response",
            request("SIP/2.0 200 OK", ""),
            (Class::Response, Reason::StatusLine, Verdict::RingControl),
        ),
        (
            "too many lines",
            invite(&"A: b\r\n".repeat(300)),
            (Class::Undecided, Reason::ScanBound, Verdict::RingNew),
        ),
    ];
    let mut classifier = classifier();
    set_gates(&mut classifier, gate(DISCARD, 0));
    for (name, packet, expected) in table {
        assert_eq!(decide(&classifier, &packet), expected, "{name}");
    }
}

#[test]
fn too_many_headers_reach_the_bound_and_are_not_shed() {
    let mut settings = support::settings();
    settings.max_frame_len = 4096;
    let mut classifier = support::load(&settings);
    set_gates(&mut classifier, gate(DISCARD, 0));
    let long = invite(&format!("X: {}\r\n", "x".repeat(2700)));
    assert_eq!(decide(&classifier, &long), (Class::Original, Reason::GateDiscard, Verdict::RingReject));
    let long = invite(&"X: x\r\n".repeat(400));
    let bound = (Class::Undecided, Reason::ScanBound, Verdict::RingNew);
    assert_eq!(decide(&classifier, &long), bound);
}

#[test]
fn who_is_owed_no_reply_is_dropped() {
    let mut classifier = classifier();
    set_gates(&mut classifier, gate(DISCARD, 0));
    let silent = Packet { destination_port: ANY_PORT, ..invite("") };
    assert_eq!(decide(&classifier, &silent), (Class::Original, Reason::GateDiscard, Verdict::Drop));
    set_gates(&mut classifier, gate(OVERLOAD, 0));
    assert_eq!(decide(&classifier, &silent), (Class::Original, Reason::ShareOutside, Verdict::Drop));
}

#[test]
fn the_threshold_is_exact() {
    let mut classifier = classifier();
    for number in 0..200 {
        let packet = invite(&format!("Call-ID: {number}\r\n"));
        let hash = transaction_hash(&key(), IpAddr::V4(CALLER_V4), 0, &packet.datagram, 0, None);
        let share = share_hash(hash, 0);
        set_gates(&mut classifier, gate(OVERLOAD, share));
        let outside = (Class::Original, Reason::ShareOutside, Verdict::RingReject);
        assert_eq!(decide(&classifier, &packet), outside, "{number}");
        if let Some(above) = share.checked_add(1) {
            set_gates(&mut classifier, gate(OVERLOAD, above));
            let inside = (Class::Original, Reason::ShareInside, Verdict::RingNew);
            assert_eq!(decide(&classifier, &packet), inside, "{number}");
        }
    }
}

#[test]
fn what_brings_credentials_is_inside_twice_the_share() {
    let mut classifier = classifier();
    let preferred_inside = (Class::Original, Reason::Credentials, Verdict::RingNew);
    let inside = (Class::Original, Reason::ShareInside, Verdict::RingNew);
    let outside = (Class::Original, Reason::ShareOutside, Verdict::RingReject);
    for (header, preferred) in [
        ("Authorization: Digest x", true),
        ("aUTHORIZATIOn:x", true),
        ("Proxy-Authorization: Digest x", true),
        ("PROXY-AUTHORIZATION:", true),
        ("Authorizatiom: x", false),
        ("Authorizations: x", false),
        ("Proxy-Authenticate: Digest x", false),
        ("Proxy\rAuthorization: x", false),
        ("Proxy_Authorization: x", false),
        ("Authentication-Info: x", false),
        ("Accept: application/sdp", false),
    ] {
        let packet = invite(&format!("{header}\r\nCall-ID: 1\r\n"));
        let hash = transaction_hash(&key(), IpAddr::V4(CALLER_V4), 0, &packet.datagram, 0, None);
        let share = share_hash(hash, 0) >> u32::from(preferred);
        let inside = if preferred { preferred_inside } else { inside };
        set_gates(&mut classifier, gate(OVERLOAD, share + 1));
        assert_eq!(decide(&classifier, &packet), inside, "{header}");
        set_gates(&mut classifier, gate(OVERLOAD, share));
        assert_eq!(decide(&classifier, &packet), outside, "{header}");
    }
}

#[test]
fn a_gate_belongs_to_one_service_and_one_queue() {
    let mut classifier = classifier();
    classifier.publish_gate(0, 1, gate(DISCARD, 0)).expect("inside of the table");
    classifier.publish_gate(1, 0, gate(DISCARD, 0)).expect("inside of the table");
    assert_eq!(decide(&classifier, &invite("")).0, Class::Undecided);
    assert_eq!(decide(&classifier, &Packet { ip: support::Ip::V6, ..invite("") }), DISCARDED);
    assert!(classifier.publish_gate(64, 0, 0).is_err() && classifier.publish_gate(0, 64, 0).is_err());
}

#[test]
fn a_word_that_nobody_could_have_written_opens_the_gate() {
    let mut classifier = classifier();
    for word in [gate(3, 0), u64::MAX >> 16, gate(0, 17)] {
        set_gates(&mut classifier, word);
        assert_eq!(decide(&classifier, &invite("")).1, Reason::HeadersUnread, "{word:#x}");
    }
}

#[test]
fn calls_to_configured_numbers_and_probes_of_configured_probers_are_not_shed() {
    let number = |text: &str| sip::Number::of_text(text).expect("a number").key();
    let mut classifier = support::load(&xdp_prog::Settings {
        emergency_numbers: vec![number("112"), number("911")],
        probers: vec![(IpAddr::from([198, 51, 100, 0]), 28), (IpAddr::from(support::CALLER_V6), 64)],
        ..support::settings()
    });
    set_gates(&mut classifier, gate(DISCARD, 0));
    let emergency = (Class::Emergency, Reason::EmergencyCall, Verdict::RingControl);
    let prober = (Class::Prober, Reason::ProberSource, Verdict::RingControl);
    let escaped = (Class::Undecided, Reason::HeaderUnclear, Verdict::RingNew);
    for (first, expected) in [
        ("INVITE sip:112@example.com SIP/2.0", emergency),
        ("INVITE SIPS:911@x SIP/2.0", emergency),
        ("INVITE tel:112 SIP/2.0", emergency),
        ("MESSAGE tel:112;phone-context=x SIP/2.0", emergency),
        ("INVITE sip:1120@example.com SIP/2.0", DISCARDED),
        ("INVITE sip:11@example.com SIP/2.0", DISCARDED),
        ("INVITE sip:12345678@example.com SIP/2.0", DISCARDED),
        ("INVITE sip:@x SIP/2.0", DISCARDED),
        ("INVITE x:112 SIP/2.0", DISCARDED),
        ("INVITE sip:%31%312@x SIP/2.0", escaped),
        ("OPTIONS sip:x SIP/2.0", prober),
        ("OPTIONS sip:112@x SIP/2.0", emergency),
        ("INVITE sip:x SIP/2.0", DISCARDED),
    ] {
        assert_eq!(decide(&classifier, &request(first, "")), expected, "{first}");
    }
    let options = request("OPTIONS sip:x SIP/2.0", "");
    assert_eq!(decide(&classifier, &Packet { ip: support::Ip::V6, ..options.clone() }), prober);
    let stranger = Packet { source_v4: std::net::Ipv4Addr::new(198, 51, 100, 16), ..options };
    assert_eq!(decide(&classifier, &stranger), DISCARDED);
}

#[test]
fn numbers_probers_and_what_is_owed_change_under_the_running_program() {
    let number = |text: &str| sip::Number::of_text(text).expect("a number").key();
    let mut classifier = classifier();
    set_gates(&mut classifier, gate(DISCARD, 0));
    let emergency = (Class::Emergency, Reason::EmergencyCall, Verdict::RingControl);
    let prober = (Class::Prober, Reason::ProberSource, Verdict::RingControl);
    let (call, other) = (request("INVITE tel:112 SIP/2.0", ""), request("INVITE tel:911 SIP/2.0", ""));
    let probe = request("OPTIONS sip:x SIP/2.0", "");
    let noise = Packet::with("what is no SIP\r\n\r\n");
    for packet in [&call, &other, &probe] {
        assert_eq!(decide(&classifier, packet), DISCARDED);
    }
    assert_eq!(decide(&classifier, &noise).2, Verdict::RingRetransmission);

    let some = xdp_prog::Settings {
        emergency_numbers: vec![number("112")],
        probers: vec![(IpAddr::V4(CALLER_V4), 32)],
        not_sip_drop: true,
        ..support::settings()
    };
    classifier.change(&some).expect("changes");
    assert_eq!(
        [&call, &other, &probe].map(|packet| decide(&classifier, packet)),
        [emergency, DISCARDED, prober]
    );
    assert_eq!(decide(&classifier, &noise).2, Verdict::Drop);

    let mut owed_nothing = support::settings();
    owed_nothing.services.iter_mut().for_each(|service| service.reply_owed = false);
    let next = xdp_prog::Settings { emergency_numbers: vec![number("911")], ..owed_nothing };
    classifier.change(&next).expect("changes");
    let dropped = (Class::Original, Reason::GateDiscard, Verdict::Drop);
    assert_eq!(
        [&call, &other, &probe].map(|packet| decide(&classifier, packet)),
        [dropped, emergency, dropped]
    );
    assert_eq!(decide(&classifier, &noise).2, Verdict::RingRetransmission);

    // What cannot be meant changes nothing.
    let too_many = xdp_prog::Settings { emergency_numbers: vec![number("1"); 17], ..support::settings() };
    classifier.change(&too_many).expect_err("there are 16 places");
    assert_eq!(decide(&classifier, &other), emergency);
}
