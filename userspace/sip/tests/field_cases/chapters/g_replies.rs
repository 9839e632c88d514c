//! G. Replies of our own.

use sip::{NoReply, ReplyLine, is_ack_of_own_reply, write_reply};

use super::{SEED, ack_to, invite, plain_invite, reply_to};

#[test]
fn case_56_a_refusal_that_is_never_acknowledged_is_repeated_only_when_asked_again() {
    let request = plain_invite();
    let first = reply_to(&request, "198.51.100.4:5060").unwrap();
    assert_eq!(reply_to(&request, "198.51.100.4:5060").unwrap(), first, "nothing is remembered");
    assert!(
        is_ack_of_own_reply(ack_to(&request, &first.0).as_bytes(), &SEED),
        "an ACK of any time ends here"
    );
}

#[test]
fn case_57_another_code_than_503_can_be_said() {
    for code in [480, 486, 500, 503, 600, 603] {
        let mut out = [0; 2048];
        let line = ReplyLine::of_code(code).unwrap();
        let source = "198.51.100.4:5060".parse().unwrap();
        let reply = write_reply(plain_invite().as_bytes(), source, &SEED, line, &mut out).unwrap();
        assert!(out[..reply.len].starts_with(format!("SIP/2.0 {code} ").as_bytes()));
    }
}

#[test]
fn case_58_a_refusal_names_no_time_to_retry() {
    let (text, _) = reply_to(&invite("Via: SIP/2.0/UDP a"), "192.0.2.7:6000").unwrap();
    assert!(text.starts_with("SIP/2.0 503 "));
    assert!(!text.to_ascii_lowercase().contains("retry-after"), "{text}");
}

#[test]
fn case_59_the_reply_goes_to_the_source_address_and_the_port_that_via_and_rport_say() {
    let port =
        |via: &str| reply_to(&invite(via), "192.0.2.7:40000").map(|(_, destination)| destination.to_string());
    assert_eq!(port("Via: SIP/2.0/UDP 10.1.1.1:5080"), Ok("192.0.2.7:5080".to_owned()));
    assert_eq!(port("Via: SIP/2.0/UDP 10.1.1.1"), Ok("192.0.2.7:5060".to_owned()));
    assert_eq!(port("Via: SIP/2.0/UDP 10.1.1.1:5080;rport"), Ok("192.0.2.7:40000".to_owned()));
    assert_eq!(port("Via: SIP/2.0/UDP 10.1.1.1:5080;maddr=192.0.2.7;rport"), Ok("192.0.2.7:5080".to_owned()));
    assert_eq!(port("Via: SIP/2.0/UDP a;maddr=203.0.113.1"), Err(NoReply::ForeignMaddr));
    assert_eq!(port("Via: SIP/2.0/UDP a;maddr=224.0.1.75;ttl=1"), Err(NoReply::ForeignMaddr));
}

#[test]
fn case_60_a_reply_is_never_longer_than_its_request() {
    let mut request = invite("Via: SIP/2.0/UDP a");
    let mut answered = 0;
    // Take the optional headers away byte by byte.
    let spare = request.find("Max-Forwards").unwrap();
    while request.len() > spare + 6 {
        match reply_to(&request, "192.0.2.7:6000") {
            Ok((text, _)) => {
                answered += 1;
                assert!(text.len() <= request.len());
            }
            Err(reason) => assert_eq!(reason, NoReply::LongerThanRequest),
        }
        request.remove(spare + 2);
    }
    assert!(answered > 0);
    assert_eq!(reply_to(&request, "192.0.2.7:6000").unwrap_err(), NoReply::LongerThanRequest);
}
