//! Requests written by hand, for what SIPp cannot send.

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
}
