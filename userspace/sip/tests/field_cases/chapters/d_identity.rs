//! D. Which requests are one: copies have one hash, everything else has another.

use sip::{Class, Reason, ReplyLine, Verdict, call_key, is_ack_of_own_reply, verdict_of};

use super::{SEED, ack_to, class_of, ethernet, hash_from, hash_of, invite, ipv4, plain_invite, reply_to};
use crate::judge::{classify, parse};

#[test]
fn case_30_a_request_without_a_branch_is_known_by_all_its_bytes_and_its_ack_too() {
    let old = invite("Via: SIP/2.0/UDP 198.51.100.4:5060");
    assert_eq!(hash_of(&old), hash_of(&old.clone()));
    assert_ne!(hash_of(&old), hash_of(&old.replace("CSeq: 2", "CSeq: 3")));
    let (reply, _) = reply_to(&old, "198.51.100.4:5060").unwrap();
    assert!(is_ack_of_own_reply(ack_to(&old, &reply).as_bytes(), &SEED));
}

#[test]
fn case_31_a_constant_branch_or_a_bare_cookie_makes_no_two_requests_one() {
    for branch in ["0", "z9hG4bK", "1", ""] {
        let first = invite(&format!("Via: SIP/2.0/UDP 198.51.100.4;branch={branch}"));
        let second = first.replace("Call-ID: f81d4fae", "Call-ID: another1");
        assert_ne!(hash_of(&first), hash_of(&second), "branch={branch}");
        let tag = |request: &str| {
            let (text, _) = reply_to(request, "198.51.100.4:5060").unwrap();
            text.split("To: ").nth(1).unwrap().split("\r\n").next().unwrap().to_owned()
        };
        assert_ne!(tag(&first), tag(&second), "branch={branch}");
    }
}

#[test]
fn case_32_the_same_branch_from_another_sender_is_another_request() {
    let request = plain_invite();
    assert_ne!(hash_of(&request), hash_from("198.51.100.5", request.as_bytes()), "another address");
    let elsewhere = request.replace("UDP 198.51.100.4:5060", "UDP 198.51.100.9:5060");
    assert_ne!(hash_of(&request), hash_of(&elsewhere), "another sent-by");
}

#[test]
fn case_33_a_copy_through_another_source_port_is_still_a_copy() {
    let request = plain_invite();
    let hash = |port| {
        let packet = ethernet(&[], &ipv4(port, 0x4000, request.as_bytes()));
        let datagram = parse(&packet).unwrap();
        assert_eq!(datagram.source.port(), port);
        hash_from(&datagram.source.ip().to_string(), datagram.payload(&packet))
    };
    assert_eq!(hash(5060), hash(40_001));
}

#[test]
fn case_34_forked_invites_of_one_call_are_requests_of_their_own() {
    let branches = ["z9hG4bKf.1", "z9hG4bKf.2", "z9hG4bKf.11"];
    let forks =
        branches.map(|branch| hash_of(&invite(&format!("Via: SIP/2.0/UDP proxy.example;branch={branch}"))));
    assert!(forks[0] != forks[1] && forks[1] != forks[2] && forks[0] != forks[2]);
}

#[test]
fn case_35_a_merged_request_is_new_and_482_is_not_ours_to_say() {
    let later = invite("Via: SIP/2.0/UDP proxy.example;branch=z9hG4bKlater");
    assert_eq!(class_of(later.as_bytes()), Class::Original);
    assert_ne!(hash_of(&later), hash_of(&plain_invite()));
    assert_eq!(ReplyLine::of_code(482), None);
}

#[test]
fn case_36_a_request_sent_again_with_credentials_is_new_and_preferred() {
    let first = plain_invite();
    let again = first
        .replace("branch=z9hG4bKp1", "branch=z9hG4bKp2")
        .replace("CSeq: 2", "CSeq: 3")
        .replace("\r\n\r\n", "\r\nAuthorization: Digest username=\"x\", response=\"00\"\r\n\r\n");
    let message = classify(again.as_bytes());
    assert_eq!((message.class, message.reason), (Class::Original, Reason::Credentials));
    assert_ne!(hash_of(&again), hash_of(&first));
    assert_eq!(
        call_key(&SEED, again.as_bytes()),
        call_key(&SEED, first.as_bytes()),
        "and in order behind it"
    );
}

#[test]
fn case_37_identical_bytes_are_one_request_glued_or_marked_or_not() {
    let request = plain_invite();
    let copies = [
        request.clone(),
        format!("\r\n\r\n{request}"),
        request.replace("SIP/2.0\r\nVia", "SIP/2.0 rtx=1\r\nVia"),
        request.replace("pbx.example SIP", "pbx.example;rtx=12 SIP"),
    ];
    for copy in copies {
        assert_eq!(hash_of(&copy), hash_of(&request), "{copy}");
    }
    for at in 0..request.len() {
        let mut other = request.clone().into_bytes();
        other[at] ^= 1;
        assert_ne!(hash_from("198.51.100.4", &other), hash_of(&request), "byte {at}");
    }
}

#[test]
fn case_38_a_copy_still_goes_to_the_server_which_alone_can_repair_a_lost_reply() {
    let copy = plain_invite().replace("SIP/2.0\r\nVia", "SIP/2.0 rtx=3\r\nVia");
    assert_eq!(class_of(copy.as_bytes()), Class::Copy);
    assert_eq!(verdict_of(Class::Copy), Verdict::RingRetransmission);
}

#[test]
fn case_39_every_copy_of_a_register_gets_the_same_refusal() {
    let register = plain_invite().replace("INVITE", "REGISTER");
    let first = reply_to(&register, "198.51.100.4:5060").unwrap();
    for copy in 1..=11 {
        let marked = register.replace("SIP/2.0\r\nVia", &format!("SIP/2.0 rtx={copy}\r\nVia"));
        assert_eq!(reply_to(&register, "198.51.100.4:5060").unwrap(), first);
        assert_eq!(reply_to(&marked, "198.51.100.4:5060").unwrap(), first);
    }
}

#[test]
fn case_40_all_messages_of_a_call_have_one_key_however_they_write_it() {
    let invite = plain_invite();
    let key = call_key(&SEED, invite.as_bytes());
    assert_ne!(key, 0);
    let compact = invite.replace("Call-ID: f81d4fae", "i\t:  f81d4fae ");
    let folded = invite.replace("Call-ID: f81d4fae", "CALL-ID:\r\n f81d4fae");
    for other in [invite.replace("INVITE", "ACK"), invite.replace("INVITE", "CANCEL"), compact, folded] {
        assert_eq!(call_key(&SEED, other.as_bytes()), key, "{other}");
    }
    assert_ne!(call_key(&SEED, invite.replace("f81d4fae", "F81D4FAE").as_bytes()), key, "case matters");
}
