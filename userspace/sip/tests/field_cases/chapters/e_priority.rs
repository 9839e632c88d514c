//! E. ACK, CANCEL, BYE, PRACK and what belongs to a dialog; F. as far as one message shows it.

use sip::{Class, Method, NoReply, Seed, Verdict, call_key, is_ack_of_own_reply, verdict_of};

use super::{SEED, ack_to, class_of, hash_of, plain_invite, reply_to};
use crate::judge::classify;

#[test]
fn case_41_the_ack_to_our_own_refusal_is_known_and_nobody_elses_is() {
    let invite = plain_invite();
    let (reply, _) = reply_to(&invite, "198.51.100.4:5060").unwrap();
    let ack = ack_to(&invite, &reply);
    assert_eq!(class_of(ack.as_bytes()), Class::Ack);
    assert!(is_ack_of_own_reply(ack.as_bytes(), &SEED));
    assert!(is_ack_of_own_reply(ack.replace(";tag=", " ; TAG = ").as_bytes(), &SEED), "blanks and case");
    assert!(!is_ack_of_own_reply(ack.as_bytes(), &Seed([9, 8, 7, 5])), "of a node with another secret");
    assert!(!is_ack_of_own_reply(ack.replace("bKp1", "bKp2").as_bytes(), &SEED), "of another request");
    assert!(!is_ack_of_own_reply(ack.replace("ACK", "BYE").as_bytes(), &SEED), "only ACK");
}

#[test]
fn case_41_the_ack_is_known_however_broken_the_to_of_its_request() {
    for to in
        ["<sip:desk@pbx.example", "\"desk <sip:desk@pbx.example>", "<<>", "a;x=\"", "<sip:a;tag=1", ";;"]
    {
        let invite = plain_invite().replace("To: <sip:desk@pbx.example>", &format!("To: {to}"));
        let (reply, _) = reply_to(&invite, "198.51.100.4:5060").unwrap();
        assert!(reply.contains(&format!("To: {to};tag=")), "{reply}");
        assert!(is_ack_of_own_reply(ack_to(&invite, &reply).as_bytes(), &SEED), "{to}");
    }
}

#[test]
fn case_42_an_ack_to_the_servers_answer_goes_to_the_server_and_is_never_answered() {
    let invite = plain_invite();
    let of_server = "SIP/2.0 486 Busy Here\r\nTo: <sip:desk@pbx.example>;tag=server1\r\n\r\n";
    let same_branch = ack_to(&invite, of_server);
    let new_branch = same_branch.replace("bKp1", "bKnew");
    let marked = same_branch.replace("SIP/2.0\r\nVia", "SIP/2.0 rtx=1\r\nVia");
    for ack in [same_branch, new_branch, marked] {
        assert_eq!(class_of(ack.as_bytes()), Class::Ack);
        assert!(!is_ack_of_own_reply(ack.as_bytes(), &SEED));
        assert_eq!(reply_to(&ack, "198.51.100.4:5060").unwrap_err(), NoReply::UnansweredMethod);
    }
    assert_eq!(verdict_of(Class::Ack), Verdict::RingControl);
}

#[test]
fn case_43_a_cancel_is_its_own_transaction_of_its_invites_call() {
    let invite = plain_invite();
    let cancel = invite.replace("INVITE", "CANCEL");
    assert_eq!(class_of(cancel.as_bytes()), Class::Cancel);
    assert_eq!(verdict_of(Class::Cancel), Verdict::RingControl);
    assert_ne!(hash_of(&cancel), hash_of(&invite));
    assert_eq!(call_key(&SEED, cancel.as_bytes()), call_key(&SEED, invite.as_bytes()));
    assert_eq!(reply_to(&cancel, "198.51.100.4:5060").unwrap_err(), NoReply::UnansweredMethod);
}

#[test]
fn case_44_requests_inside_a_dialog_are_not_for_the_gate() {
    let tagged = plain_invite().replace("To: <sip:desk@pbx.example>", "To: <sip:desk@pbx.example>;tag=d1");
    for method in ["INVITE", "UPDATE", "INFO", "NOTIFY", "REFER", "SUBSCRIBE", "MESSAGE", "OPTIONS"] {
        let request = tagged.replace("INVITE", method);
        assert_eq!(class_of(request.as_bytes()), Class::InDialog, "{method}");
    }
    for method in ["BYE", "PRACK"] {
        let request = plain_invite().replace("INVITE", method);
        assert_eq!(class_of(request.as_bytes()), Class::InDialog, "{method} even without a tag");
    }
    assert_eq!(verdict_of(Class::InDialog), Verdict::RingControl);
}

#[test]
fn case_45_what_only_looks_like_a_to_tag_gains_no_priority() {
    for to in [
        "\"x;tag=1\" <sip:a@b>",
        "<sip:a@b;tag=1>",
        "<sip:a@b>;x=\";tag=1\"",
        "<sip:a@b>;xtag=1",
        "<sip:a@b>;tagx=1",
        "<sip:a@b?tag=1>",
        "<sip:a@b>\r\nFrom: <sip:c@d>;tag=1",
        "<sip:a@b>\r\n\r\nTo: <sip:a@b>;tag=1",
    ] {
        let request = format!("INVITE sip:a@b SIP/2.0\r\nTo: {to}\r\n\r\n");
        assert_eq!(class_of(request.as_bytes()), Class::Original, "{to}");
    }
}

#[test]
fn case_49_a_notify_outside_of_any_dialog_is_an_original() {
    let message = classify(plain_invite().replace("INVITE", "NOTIFY").as_bytes());
    assert_eq!((message.class, message.method), (Class::Original, Method::Notify));
    let probe = classify(plain_invite().replace("INVITE", "OPTIONS").as_bytes());
    assert_eq!((probe.class, probe.method), (Class::Original, Method::Options));
}
