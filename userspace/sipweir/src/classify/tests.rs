use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use sip::{Seed, Services, TransactionKey};

use super::reply::Replies;
use super::source::{SourceError, packets};
use super::{MarkerAnswer, SEED, user_space};
use crate::config::Config;
use crate::privileged::Privileged;

const ENDPOINTS: [(Option<std::net::IpAddr>, u16); 1] = [(None, 5060)];
const INVITE: &[u8] = b"INVITE sip:bob@example.com SIP/2.0 rtx=2\r\nTo: <sip:bob@example.com>\r\n\r\n";

fn key() -> TransactionKey {
    TransactionKey::new(&Seed(SEED))
}

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("sipweir-classify-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).expect("write");
    path
}

fn collect(path: &std::path::Path) -> Result<Vec<Vec<u8>>, SourceError> {
    let mut found = Vec::new();
    packets(path, &ENDPOINTS, &mut |recorded| {
        assert_eq!(recorded.index, found.len());
        found.push(recorded.packet.to_vec());
    })?;
    Ok(found)
}

/// A little-endian pcap file of one link type.
fn pcap(link_type: u32, frames: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, link_type] {
        bytes.extend(word.to_le_bytes());
    }
    for frame in frames {
        for word in [1, 2, frame.len() as u32, frame.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(*frame);
    }
    bytes
}

#[test]
fn a_raw_message_is_answered_as_a_datagram_to_the_service() {
    let path = file("raw.sip", INVITE);
    let found = collect(&path).expect("read");
    let answer = user_space(&found[0], &Services::new(ENDPOINTS), &Privileged::default(), &key());
    assert_eq!(
        (answer.answer.class, answer.answer.verdict, answer.answer.reason),
        ("copy", "ring_retransmission", "marker")
    );
    assert_eq!(answer.method, Some("invite"));
    assert_eq!(answer.marker, Some(MarkerAnswer { form: "field", copy: 2 }));
    std::fs::remove_file(path).expect("remove");
}

#[test]
fn packets_of_a_capture_come_in_order_with_their_tags() {
    let raw = file("inner.dat", INVITE);
    let plain = collect(&raw).expect("read").remove(0);
    let mut tagged = plain.clone();
    tagged.splice(12..12, [0x81, 0x00, 0x00, 0x07]);
    let path = file("two.pcap", &pcap(1, &[&plain, &tagged, &[0; 20]]));
    let found = collect(&path).expect("read");
    assert_eq!(found, [plain, tagged.clone(), vec![0; 20]]);
    assert_eq!(
        user_space(&tagged, &Services::new(ENDPOINTS), &Privileged::default(), &key()).answer.class,
        "copy"
    );
    assert_eq!(
        user_space(&found[2], &Services::new(ENDPOINTS), &Privileged::default(), &key()).answer.reason,
        "not_ip"
    );
    for path in [raw, path] {
        std::fs::remove_file(path).expect("remove");
    }
}

/// A little-endian pcapng file: a section, an interface of one link type, enhanced packets.
fn pcapng(link_type: u16, frames: &[&[u8]]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let len = 12 + body.len() as u32;
        [&kind.to_le_bytes()[..], &len.to_le_bytes(), body, &len.to_le_bytes()].concat()
    };
    let section = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    let interface = [&link_type.to_le_bytes()[..], &[0, 0], &65_535_u32.to_le_bytes()].concat();
    let mut bytes = [block(0x0a0d_0d0a, &section), block(1, &interface)].concat();
    for frame in frames {
        let mut body = Vec::new();
        for word in [0, 0, 1, frame.len() as u32, frame.len() as u32] {
            body.extend(word.to_le_bytes());
        }
        body.extend(*frame);
        body.resize(body.len().next_multiple_of(4), 0);
        bytes.extend(block(6, &body));
    }
    bytes
}

#[test]
fn pcapng_captures_with_two_tags_are_read() {
    let raw = file("inner-ng.dat", INVITE);
    let plain = collect(&raw).expect("read").remove(0);
    let mut tagged = plain.clone();
    tagged.splice(12..12, [0x88, 0xa8, 0x00, 0x05, 0x81, 0x00, 0x00, 0x07]);
    let path = file("two.pcapng", &pcapng(1, &[&plain, &tagged]));
    assert_eq!(collect(&path).expect("read"), [plain, tagged.clone()]);
    assert_eq!(
        user_space(&tagged, &Services::new(ENDPOINTS), &Privileged::default(), &key()).answer.class,
        "copy"
    );
    let cooked = file("cooked.pcapng", &pcapng(113, &[&[0; 60]]));
    assert!(matches!(collect(&cooked).expect_err("link type"), SourceError::LinkType(113)));
    for path in [raw, path, cooked] {
        std::fs::remove_file(path).expect("remove");
    }
}

#[test]
fn files_that_cannot_be_read_say_why() {
    let missing = collect("/nowhere/at/all.sip".as_ref()).expect_err("missing");
    assert!(matches!(missing, SourceError::Read(_)), "{missing}");

    let text = file("notes.md", b"no capture");
    assert!(matches!(collect(&text).expect_err("text"), SourceError::NoCapture));

    let cooked = file("cooked.pcap", &pcap(113, &[&[0; 60]]));
    assert!(matches!(collect(&cooked).expect_err("link type"), SourceError::LinkType(113)));

    let mut cut = pcap(1, &[&[0; 60], &[0; 60]]);
    cut.truncate(cut.len() - 10);
    let cut = file("cut.pcap", &cut);
    assert!(matches!(collect(&cut).expect_err("cut"), SourceError::Damaged(1)));

    let long = file("long.dat", &[b'x'; 65_508]);
    assert!(matches!(collect(&long).expect_err("long"), SourceError::TooLong));
    for path in [text, cooked, cut, long] {
        std::fs::remove_file(path).expect("remove");
    }
}

/// What `--reply` says to a message, with a configuration or without.
fn reply(message: &[u8], config: Option<&str>) -> serde_json::Value {
    // Tests run side by side.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let path = file(&format!("reply-{}.sip", NEXT.fetch_add(1, Ordering::Relaxed)), message);
    let packet = collect(&path).expect("read").remove(0);
    std::fs::remove_file(path).expect("remove");
    let config = config.map(|text| Config::parse("test.toml", text).expect("valid"));
    let answer = Replies::new(config.as_ref(), &ENDPOINTS, Seed(SEED)).answer(&packet);
    serde_json::to_value(&answer).expect("JSON")
}

/// Long enough for a reply with everything.
const REGISTER: &str = "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP pc;rport;oc;oc-algo=\"loss\"\r\n\
    From: <sip:a@example.com>;tag=1\r\nTo: <sip:a@example.com>\r\nCall-ID: 1\r\nCSeq: 1 REGISTER\r\n\
    User-Agent: a telephone with a very long name indeed\r\nContact: <sip:a@198.51.100.1>\r\n\
    Allow: INVITE, ACK, CANCEL, BYE, OPTIONS\r\n\r\n";

#[test]
fn the_reply_is_the_one_that_the_worker_would_send() {
    let answer = reply(REGISTER.as_bytes(), None);
    assert_eq!(answer["to"], "198.51.100.1:5060");
    let text = answer["text"].as_str().expect("text");
    assert!(text.starts_with("SIP/2.0 503 Service Unavailable\r\nVia: SIP/2.0/UDP pc;rport=5060;"), "{text}");
    assert!(text.contains(";oc=50;oc-algo=\"loss\";oc-validity=500;oc-seq=0.00001\r\n"), "{text}");
    assert!(answer.get("left_out").is_none(), "{answer}");
    let short =
        REGISTER.replace("Allow: INVITE, ACK, CANCEL, BYE, OPTIONS\r\n", "").replace(" very long", "");
    assert_eq!(reply(short.as_bytes(), None)["left_out"], "overload_control");
}

#[test]
fn the_reply_follows_the_configuration() {
    let config = "interface = \"eth0\"\n[service.main]\nlisten = \"*:5060\"\nhandoff = \"kernel\"\n\
                  [service.main.gate]\nadmit = 0.1\n[service.main.reply]\nretry_after_register = [40, 40]\n\
                  [service.main.reply.peers]\n\"198.51.100.0/24\" = 480\n";
    let answer = reply(REGISTER.as_bytes(), Some(config));
    let text = answer["text"].as_str().expect("text");
    assert!(text.starts_with("SIP/2.0 480 Temporarily Unavailable\r\n"), "{text}");
    assert!(text.contains(";oc=90;") && text.contains("\r\nRetry-After: 40\r\n"), "{text}");
    let silent = reply(REGISTER.as_bytes(), Some(&config.replace("= 480", "= 0")));
    assert_eq!(silent, serde_json::json!({ "none": "silent_by_choice" }));
}

#[test]
fn what_gets_no_reply_says_why() {
    let none = |message: &str| reply(message.as_bytes(), None)["none"].clone();
    assert_eq!(none(&REGISTER.replacen("REGISTER", "ACK", 1)), "never_shed");
    assert_eq!(
        none(&REGISTER.replace("To: <sip:a@example.com>", "To: <sip:a@example.com>;tag=2")),
        "never_shed"
    );
    assert_eq!(none("SIP/2.0 200 OK\r\n\r\n"), "not_a_request");
    assert_eq!(none("\r\n\r\n"), "not_a_request");
    assert_eq!(none("no SIP at all"), "not_a_request");
    assert_eq!(none(&REGISTER.replace("Call-ID", "X")), "missing_header");
    assert_eq!(none(&REGISTER.replace("pc;rport", "pc;maddr=192.0.2.99")), "foreign_maddr");
    assert_eq!(
        none("OPTIONS a SIP/2.0\r\nv: SIP/2.0/UDP b\r\nf: a\r\nt: b\r\ni: 1\r\nCSeq: 1 OPTIONS\r\n\r\n"),
        "longer_than_request"
    );
    let mut replies = Replies::new(None, &ENDPOINTS, Seed(SEED));
    let not_guarded = serde_json::to_value(replies.answer(&[0; 20])).expect("JSON");
    assert_eq!(not_guarded, serde_json::json!({ "none": "not_guarded" }));
}
