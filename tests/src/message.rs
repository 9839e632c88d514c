//! Messages written by hand, for what SIPp cannot send.

use std::net::SocketAddr;

/// A request outside a dialog. `marker` goes behind the version, as in `" rtx=1"`; `padding` bytes go into the body.
#[must_use]
pub fn request(
    method: &str,
    from: SocketAddr,
    to: SocketAddr,
    number: u64,
    marker: &str,
    padding: usize,
) -> Vec<u8> {
    let lines = [
        format!("{method} sip:service@{to} SIP/2.0{marker}"),
        format!("Via: SIP/2.0/UDP {from};rport;branch=z9hG4bK-{}-{number}", from.port()),
        format!("From: <sip:caller@{from}>;tag={number}"),
        format!("To: <sip:service@{to}>"),
        format!("Call-ID: {number}@{from}"),
        format!("CSeq: 1 {method}"),
        format!("Contact: <sip:caller@{from}>"),
        "Max-Forwards: 70".to_owned(),
        format!("Content-Length: {padding}"),
        String::new(),
        "x".repeat(padding),
    ];
    lines.join("\r\n").into_bytes()
}

/// A request within a dialog: it has a To tag.
#[must_use]
pub fn in_dialog(method: &str, from: SocketAddr, to: SocketAddr, number: u64) -> Vec<u8> {
    let message = text(&request(method, from, to, number, "", 0));
    message
        .replacen(&format!("To: <sip:service@{to}>"), &format!("To: <sip:service@{to}>;tag=there"), 1)
        .into()
}

/// The ACK to a refusal: Request-URI, Via, From, Call-ID and CSeq number of the INVITE, To of the refusal (RFC 3261
/// section 17.1.1.3).
///
/// # Panics
/// If one of these is missing.
#[must_use]
pub fn ack(invite: &[u8], refusal: &[u8]) -> Vec<u8> {
    let (invite, refusal) = (text(invite), text(refusal));
    let uri = invite.split(' ').nth(1).expect("a Request-URI");
    let number = header(&invite, "CSeq").split(' ').next().expect("a CSeq number").to_owned();
    let copied = |name| format!("{name}: {}", header(&invite, name));
    let lines = [
        format!("ACK {uri} SIP/2.0"),
        copied("Via"),
        copied("From"),
        format!("To: {}", header(&refusal, "To")),
        copied("Call-ID"),
        format!("CSeq: {number} ACK"),
        "Max-Forwards: 70".to_owned(),
        "Content-Length: 0\r\n\r\n".to_owned(),
    ];
    lines.join("\r\n").into_bytes()
}

/// A final response as a server makes it. The same request gives the same bytes.
///
/// # Panics
/// If a header that it must repeat is missing.
#[must_use]
pub fn response(request: &[u8], status: &str) -> Vec<u8> {
    let request = text(request);
    let to = header(&request, "To");
    let tag = if to.contains(";tag=") { "" } else { ";tag=there" };
    let mut lines = vec![format!("SIP/2.0 {status}")];
    for name in ["Via", "From", "Call-ID", "CSeq"] {
        lines.push(format!("{name}: {}", header(&request, name)));
    }
    lines.push(format!("To: {to}{tag}"));
    lines.push("Content-Length: 0\r\n\r\n".to_owned());
    lines.join("\r\n").into_bytes()
}

/// Method or version: what the start line begins with.
#[must_use]
pub fn first_word(message: &[u8]) -> &[u8] {
    message.split(|byte| *byte == b' ').next().unwrap_or_default()
}

fn text(message: &[u8]) -> String {
    String::from_utf8(message.to_vec()).expect("a message in UTF-8")
}

#[track_caller]
fn header<'a>(message: &'a str, name: &str) -> &'a str {
    let value = message.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    value.unwrap_or_else(|| panic!("no {name} in {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_stands_behind_the_version_and_the_body_has_its_length() {
        let address = SocketAddr::from(([192, 0, 2, 1], 5060));
        let message = String::from_utf8(request("INVITE", address, address, 7, " rtx=2", 10)).expect("ASCII");
        assert!(message.starts_with("INVITE sip:service@192.0.2.1:5060 SIP/2.0 rtx=2\r\nVia: "), "{message}");
        let (head, body) = message.split_once("\r\n\r\n").expect("an empty line");
        assert!(head.contains("Content-Length: 10"), "{head}");
        assert_eq!(body, "xxxxxxxxxx");
    }

    #[test]
    fn an_ack_has_the_request_uri_and_branch_of_its_invite_and_the_to_tag_of_the_refusal() {
        let address = SocketAddr::from(([192, 0, 2, 1], 5060));
        let invite = request("INVITE", address, address, 7, "", 0);
        let refusal = response(&invite, "503 Service Unavailable");
        assert!(refusal.starts_with(b"SIP/2.0 503 Service Unavailable\r\nVia: SIP/2.0/UDP 192.0.2.1:5060;"));
        let ack = text(&ack(&invite, &refusal));
        assert!(
            ack.starts_with("ACK sip:service@192.0.2.1:5060 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:5060;"),
            "{ack}"
        );
        assert!(ack.contains("branch=z9hG4bK-5060-7\r\n") && ack.contains("\r\nCSeq: 1 ACK\r\n"), "{ack}");
        assert_eq!(header(&ack, "To"), "<sip:service@192.0.2.1:5060>;tag=there");
    }

    #[test]
    fn a_request_within_a_dialog_has_one_to_tag_and_so_has_its_answer() {
        let address = SocketAddr::from(([192, 0, 2, 1], 5060));
        let bye = in_dialog("BYE", address, address, 7);
        assert_eq!(first_word(&bye), b"BYE");
        assert_eq!(header(&text(&bye), "To"), "<sip:service@192.0.2.1:5060>;tag=there");
        assert_eq!(header(&text(&response(&bye, "200 OK")), "To"), header(&text(&bye), "To"));
    }
}
