use super::*;
use crate::identity::Identities;
use crate::response;

fn render(config: &CallerConfig, method: Method, copy: u8, dialog: &Dialog) -> String {
    let ids = Identities::new(config);
    let templates = Templates::new(config);
    let local = templates.local("192.0.2.7:4711".parse().unwrap());
    let mut out = Vec::new();
    let call = ids.text(ids.token(5));
    templates.request(method, &Fill { call: &call, local: &local, copy, dialog }, &mut out);
    String::from_utf8(out).unwrap()
}

fn dialog() -> Dialog {
    let answer = b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nRecord-Route: <sip:near;lr>\r\n\
        Record-Route: <sip:far;lr>\r\nTo: <sip:c@d>;tag=abc\r\nContact: <sip:c@10.0.0.2;x=1?h=v>\r\nCSeq: 1 INVITE\r\n\r\n";
    let mut dialog = Dialog::EMPTY;
    dialog.set(&response::parse(answer).unwrap(), &[]).unwrap();
    dialog
}

#[test]
fn an_invite_is_complete_and_its_length_is_right() {
    let text = render(&CallerConfig::default(), Method::Invite, 0, &Dialog::EMPTY);
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let lines: Vec<_> = head.split("\r\n").collect();
    assert!(
        lines[0].starts_with("INVITE sip:000") && lines[0].ends_with("@127.0.0.1:5060 SIP/2.0"),
        "{}",
        lines[0]
    );
    assert!(
        lines[1].starts_with("Via: SIP/2.0/UDP 192.0.2.7:4711;branch=z9hG4bK")
            && lines[1].ends_with("f;rport")
    );
    for name in ["Max-Forwards", "From", "To", "Call-ID", "CSeq", "Contact", "Content-Type"] {
        assert_eq!(
            lines.iter().filter(|l| l.starts_with(&format!("{name}: "))).count(),
            1,
            "{name} in {head}"
        );
    }
    assert!(lines.contains(&format!("Content-Length: {}", body.len()).as_str()), "{head}");
    assert!(body.contains("c=IN IP4 192.0.2.7\r\n") && text.len() < 800 && !text.contains('{'));
    assert!(lines.iter().any(|l| l.starts_with("To: <sip:") && l.ends_with('>')), "no To tag yet");
}

#[test]
fn every_marker_form_is_spelled_as_defined() {
    let first_line = |marker, method, copy| {
        let config = CallerConfig { marker, domain: Some("example.com".into()), ..Default::default() };
        render(&config, method, copy, &dialog()).lines().next().unwrap().to_owned()
    };
    assert_eq!(first_line(Marker::Off, Method::Options, 3), "OPTIONS sip:example.com SIP/2.0");
    assert_eq!(first_line(Marker::Field, Method::Options, 0), "OPTIONS sip:example.com SIP/2.0 rtx=0");
    assert_eq!(first_line(Marker::Field, Method::Register, 10), "REGISTER sip:example.com SIP/2.0 rtx=10");
    assert_eq!(first_line(Marker::Uri, Method::Options, 9), "OPTIONS sip:example.com;rtx=9 SIP/2.0");
    assert_eq!(first_line(Marker::Uri, Method::Bye, 1), "BYE sip:c@10.0.0.2;x=1;rtx=1?h=v SIP/2.0");
    assert_eq!(first_line(Marker::Off, Method::Bye, 1), "BYE sip:c@10.0.0.2;x=1?h=v SIP/2.0");
}

#[test]
fn copies_differ_in_nothing_but_the_marker() {
    for marker in [Marker::Off, Marker::Field, Marker::Uri] {
        let config = CallerConfig { marker, ..Default::default() };
        for method in Method::ALL {
            let original = render(&config, method, 0, &dialog());
            let copy = render(&config, method, 7, &dialog());
            assert_eq!(original == copy, marker == Marker::Off);
            assert_eq!(copy.replace("rtx=7", "rtx=0"), original);
        }
    }
}

#[test]
fn requests_in_a_dialog_carry_tag_target_and_reversed_routes() {
    let text = render(&CallerConfig::default(), Method::Bye, 0, &dialog());
    assert!(text.contains(">;tag=abc\r\n"), "{text}");
    assert!(text.contains("Route: <sip:far;lr>\r\nRoute: <sip:near;lr>\r\n"), "{text}");
    assert!(text.contains("CSeq: 2 BYE\r\n") && text.ends_with("Content-Length: 0\r\n\r\n"));
}

#[test]
fn both_acks_follow_their_rules() {
    let config = CallerConfig { marker: Marker::Uri, ..Default::default() };
    let (ids, templates) = (Identities::new(&config), Templates::new(&config));
    let local = templates.local("192.0.2.7:4711".parse().unwrap());
    let call = ids.text(ids.token(5));
    let dialog = dialog();
    let fill = Fill { call: &call, local: &local, copy: 0, dialog: &dialog };
    let [mut invite, mut refusal, mut answer] = [const { Vec::new() }; 3];
    templates.request(Method::Invite, &fill, &mut invite);
    templates.ack_refusal(&fill, &mut refusal);
    templates.ack_answer(&fill, &mut answer);
    let [invite, refusal, answer] = [invite, refusal, answer].map(|b| String::from_utf8(b).unwrap());
    let line = |text: &str, n| text.split("\r\n").nth(n).unwrap().to_owned();
    assert_eq!(line(&refusal, 0), line(&invite, 0).replace("INVITE", "ACK"), "Request-URI of the INVITE");
    assert_eq!(line(&refusal, 1), line(&invite, 1), "Via of the INVITE");
    assert!(refusal.contains(">;tag=abc\r\n") && refusal.contains("CSeq: 1 ACK"));
    assert_eq!(line(&answer, 0), "ACK sip:c@10.0.0.2;x=1?h=v SIP/2.0", "Contact of the answer, no marker");
    assert_ne!(line(&answer, 1), line(&invite, 1), "a branch of its own");
    assert!(answer.contains("Route: <sip:far;lr>\r\n") && answer.contains("CSeq: 1 ACK"));
}

#[test]
fn an_answer_with_a_huge_contact_is_refused_rather_than_cut() {
    let contact = "a".repeat(600);
    let answer = format!(
        "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nContact: <sip:{contact}>\r\nCSeq: 1 INVITE\r\n\r\n"
    );
    let mut dialog = Dialog::EMPTY;
    assert!(dialog.set(&response::parse(answer.as_bytes()).unwrap(), &[]).is_none());
}
