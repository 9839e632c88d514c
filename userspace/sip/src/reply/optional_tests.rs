//! The parts of a refusal that not every client gets: overload control and Retry-After.

use proptest::prelude::*;

use super::*;
use crate::refusal::RetryAfter;

const SEED: Seed = Seed([11, 22, 33, 44]);
const SOURCE: &str = "192.0.2.7:6000";
const CONTROL: OverloadControl = OverloadControl { percent: 50, validity_ms: 500, seq: 170_000_000_000_001 };
const RETRY: RetryAfter = RetryAfter { min_s: 30, max_s: 90 };
const OFFER: &str = ";oc;oc-algo=\"loss,A\"";

/// A request with these parameters in its top Via, and `padding` bytes more than it needs.
fn request(method: &str, params: &str, padding: usize) -> String {
    format!(
        "{method} sip:b@h SIP/2.0\r\nv: SIP/2.0/UDP pc{params}\r\nf: <sip:a@h>;tag=7\r\nt: <sip:b@h>\r\ni: 1\r\n\
         CSeq: 9 {method}\r\nX: {}\r\n\r\n",
        "x".repeat(padding)
    )
}

fn reply_to(request: &str, refusal: Refusal) -> Result<(String, ControlGiven), NoReply> {
    let mut out = [0; 4096];
    let reply = write_reply(request.as_bytes(), SOURCE.parse().unwrap(), &SEED, refusal, &mut out)?;
    Ok((String::from_utf8(out[..reply.len].to_vec()).unwrap(), reply.control))
}

fn told() -> Refusal {
    Refusal { control: Some(CONTROL), ..Refusal::default() }
}

fn retry() -> Refusal {
    Refusal { retry_after_register: Some(RETRY), ..Refusal::default() }
}

fn line<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))
}

fn seconds(text: &str) -> Option<u32> {
    line(text, "Retry-After: ").map(|value| value.parse().unwrap())
}

#[test]
fn a_client_that_offers_control_is_told_in_its_own_via_only() {
    let next = ", SIP/2.0/UDP b;oc;oc-algo=\"loss\"\r\nv: c;oc=7";
    let offered = request("INVITE", &format!(";branch=1{OFFER};rport;oc-seq=1.1;oc-validity=9{next}"), 200);
    let (text, control) = reply_to(&offered, told()).unwrap();
    assert_eq!(control, ControlGiven::Given);
    let vias: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("v: ")).collect();
    assert_eq!(
        vias,
        [
            "SIP/2.0/UDP pc;branch=1;rport=6000;received=192.0.2.7;oc=50;oc-algo=\"loss\";oc-validity=500;\
             oc-seq=1700000000.00001, SIP/2.0/UDP b;oc;oc-algo=\"loss\"",
            "c;oc=7"
        ]
    );
}

#[test]
fn a_via_that_offers_nothing_or_other_algorithms_comes_back_as_it_is() {
    for params in ["", ";oc=20;oc-algo=\"loss\"", ";oc;oc-algo=\"rate\"", ";oc"] {
        let (text, control) = reply_to(&request("INVITE", params, 200), told()).unwrap();
        assert_eq!(control, ControlGiven::NotOffered);
        assert_eq!(line(&text, "v: "), Some(&*format!("SIP/2.0/UDP pc{params};received=192.0.2.7")));
    }
    let (text, control) = reply_to(&request("INVITE", OFFER, 200), Refusal::default()).unwrap();
    assert_eq!(control, ControlGiven::NotOffered, "nothing to tell");
    assert_eq!(line(&text, "v: "), Some(&*format!("SIP/2.0/UDP pc{OFFER};received=192.0.2.7")));
}

#[test]
fn control_that_would_make_the_reply_too_long_is_left_out_and_the_reply_stays() {
    let mut seen = Vec::new();
    for padding in 0..250 {
        let offered = request("INVITE", OFFER, padding);
        let found = reply_to(&offered, told());
        match &found {
            Err(reason) => assert_eq!(*reason, NoReply::LongerThanRequest),
            Ok((text, ControlGiven::Given)) => {
                assert!(text.contains(";oc=50;") && text.len() <= offered.len())
            }
            Ok((text, control)) => {
                assert_eq!(*control, ControlGiven::LongerThanRequest);
                assert!(text.contains(OFFER), "as it came: {text}");
            }
        }
        let kind = found.map(|(_, control)| control);
        if seen.last() != Some(&kind) {
            seen.push(kind);
        }
    }
    let order =
        [Err(NoReply::LongerThanRequest), Ok(ControlGiven::LongerThanRequest), Ok(ControlGiven::Given)];
    assert_eq!(seen, order);
}

#[test]
fn only_register_is_told_when_to_come_back() {
    let (text, _) = reply_to(&request("REGISTER", "", 200), retry()).unwrap();
    assert!((30..=90).contains(&seconds(&text).unwrap()), "{text}");
    assert!(text.ends_with("\r\nl: 0\r\n\r\n"));
    for method in ["INVITE", "OPTIONS", "SUBSCRIBE", "REGISTERS"] {
        let (text, _) = reply_to(&request(method, "", 200), retry()).unwrap();
        assert_eq!(seconds(&text), None, "{method}");
    }
    let (text, _) = reply_to(&request("REGISTER", "", 200), Refusal::default()).unwrap();
    assert_eq!(seconds(&text), None, "off by default");
}

#[test]
fn phones_that_register_at_once_are_told_different_times() {
    let at = |call: usize| {
        let register = request("REGISTER", "", 200).replace("i: 1\r\n", &format!("i: {call}\r\n"));
        seconds(&reply_to(&register, retry()).unwrap().0).unwrap()
    };
    let times: std::collections::BTreeSet<_> = (0..500).map(at).collect();
    assert_eq!(times.len(), 61, "all of 30 to 90");
}

#[test]
fn every_copy_is_told_the_same_but_for_the_hop_whatever_fits() {
    let sequence =
        |percent, seq| Refusal { control: Some(OverloadControl { percent, seq, ..CONTROL }), ..retry() };
    for padding in 0..250 {
        let original = request("REGISTER", OFFER, padding);
        let first = reply_to(&original, sequence(5, 7));
        for copy in 1..3 {
            let field = original.replacen("SIP/2.0", &format!("SIP/2.0 rtx={copy}"), 1);
            assert_eq!(reply_to(&field, sequence(5, 7)), first);
            // Later, in another state of the gate.
            let later = reply_to(&format!("\r\n{field}"), sequence(100, 170_000_000_000_000));
            let without_top_via = |found: &Result<(String, ControlGiven), NoReply>| {
                let text = found.clone().map(|(text, _)| text);
                text.map(|text| {
                    text.lines().filter(|line| !line.starts_with("v:")).collect::<Vec<_>>().join("\n")
                })
            };
            assert_eq!(without_top_via(&later), without_top_via(&first), "{padding}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Whatever the parts: never longer than the request, every Via value there and in order, the tag verifies.
    #[test]
    fn a_refusal_with_everything_keeps_the_promises_of_a_plain_one(
        method in prop::sample::select(vec!["INVITE", "REGISTER", "OPTIONS", "MESSAGE"]),
        params in prop::collection::vec(prop::sample::select(vec![
            ";oc", ";oc-algo=\"loss\"", ";oc-algo=\"rate,loss\"", ";oc=3", ";oc-validity=500", ";oc-seq=1.1", ";rport",
            ";branch=z9hG4bK7", ";x=\"a,b;oc\"", "\r\n ;oc \r\n ;y",
        ]), 0..6),
        others in prop::collection::vec("[a-z]{1,9}(;oc|;rport|;x=\"a,b\"){0,2}", 0..4),
        padding in 0usize..300,
        percent in 0u8..=100, validity_ms in any::<u32>(), seq in any::<u64>(),
        min_s in any::<u32>(), span in any::<u32>(),
    ) {
        let other_vias: String = others.iter().map(|via| format!(", SIP/2.0/UDP {via}")).collect();
        let text = request(method, &format!("{}{other_vias}", params.concat()), padding);
        let refusal = Refusal {
            control: Some(OverloadControl { percent, validity_ms, seq }),
            retry_after_register: Some(RetryAfter { min_s, max_s: min_s.saturating_add(span) }),
            ..Refusal::default()
        };
        match reply_to(&text, refusal) {
            Err(reason) => {
                prop_assert_eq!(reason, NoReply::LongerThanRequest);
                prop_assert_eq!(reply_to(&text, Refusal::default()).unwrap_err(), reason, "the rest is optional");
            }
            Ok((reply, control)) => {
                prop_assert!(reply.len() <= text.len());
                let via = line(&reply, "v: ").unwrap();
                prop_assert!(via.ends_with(&other_vias), "{}", via);
                let own = &via[..via.len() - other_vias.len()];
                let given = own.contains(&format!(";oc={percent};oc-algo=\"loss\";oc-validity={validity_ms};oc-seq="));
                if control == ControlGiven::Given {
                    prop_assert!(given);
                    prop_assert_eq!(own.matches(";oc-algo").count(), 1);
                } else {
                    for param in &params {
                        let unfolded = param.replace("\r\n ", " ").replace("  ", " ");
                        let kept = if *param == ";rport" { ";rport=6000" } else { unfolded.trim() };
                        prop_assert!(own.contains(kept), "{} in {}", kept, own);
                    }
                }
                prop_assert_eq!(seconds(&reply).is_some_and(|s| s < min_s), false);
                if method == "INVITE" {
                    let to = line(&reply, "t: ").unwrap();
                    let ack = text.replacen("INVITE", "ACK", 1).replace("9 INVITE", "9 ACK")
                        .replace("t: <sip:b@h>", &format!("t: {to}"));
                    prop_assert!(is_ack_of_own_reply(ack.as_bytes(), &SEED));
                }
            }
        }
    }
}
