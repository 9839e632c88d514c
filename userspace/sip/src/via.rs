//! The top Via value: who sent the request and where its reply goes.
//!
//! RFC 3261 sections 18.2.1, 18.2.2 and 20.42, RFC 3581. Parsed only for a refusal; everything else treats
//! Via values as opaque bytes.

use std::net::{IpAddr, Ipv6Addr};

use memchr::memchr;

use crate::params::{Params, find_unquoted, is_space, trim_space};

/// Where a reply goes if sent-by names no port (RFC 3261 section 18.2.2).
const DEFAULT_PORT: u16 = 5060;

/// The first value of the first Via header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopVia<'a> {
    /// Protocol and sent-by as they stand, up to the first semicolon.
    pub(crate) head: &'a [u8],
    /// From the first semicolon to the end of this value.
    params: &'a [u8],
    /// From the comma behind this value on; empty if it is the header's only one.
    pub(crate) rest: &'a [u8],
    /// The host of sent-by, if it is an address and no name.
    pub(crate) host: Option<IpAddr>,
    /// The port of sent-by.
    pub(crate) port: u16,
}

impl<'a> TopVia<'a> {
    /// Parses a Via header's value; `None` if it has no protocol, no sent-by, no usable port, or a quote that
    /// never closes.
    pub(crate) fn parse(value: &'a [u8]) -> Option<Self> {
        let (first, rest) = value.split_at(find_unquoted(value, 0, b',')?);
        let (head, params) = first.split_at(find_unquoted(first, 0, b';')?);
        let (host, port) = parse_sent_by(skip_protocol(trim_space(head))?)?;
        Some(Self { head, params, rest, host, port })
    }

    /// The parameters in order.
    pub(crate) fn params(&self) -> Params<'a> {
        Params(self.params)
    }

    /// The value of the first parameter with this name: `None` if there is none, an empty one without value.
    pub(crate) fn param(&self, name: &str) -> Option<&'a [u8]> {
        self.params()
            .find(|param| param.name.eq_ignore_ascii_case(name.as_bytes()))
            .map(|param| param.value.unwrap_or(&[]))
    }

    /// The branch; empty if there is none.
    pub(crate) fn branch(&self) -> &'a [u8] {
        self.param("branch").unwrap_or(&[])
    }
}

/// What follows "SIP / 2.0 / UDP" and the blanks behind it.
fn skip_protocol(head: &[u8]) -> Option<&[u8]> {
    let mut rest = head;
    for _ in 0..2 {
        rest = &rest[memchr(b'/', rest)? + 1..];
    }
    let rest = trim_space(rest);
    let blank = rest.iter().position(|byte| is_space(*byte))?;
    Some(trim_space(&rest[blank..]))
}

/// The host, if it is an address, and the port.
fn parse_sent_by(sent_by: &[u8]) -> Option<(Option<IpAddr>, u16)> {
    if let Some(reference) = sent_by.strip_prefix(b"[") {
        let close = memchr(b']', reference)?;
        let address = parse_text::<Ipv6Addr>(&reference[..close])?;
        return Some((Some(address.into()), parse_port(&reference[close + 1..])?));
    }
    // Some peers write an IPv6 address without its brackets; then no port can follow it.
    if let Some(address) = parse_text::<Ipv6Addr>(sent_by) {
        return Some((Some(address.into()), DEFAULT_PORT));
    }
    let (host, port) = sent_by.split_at(memchr(b':', sent_by).unwrap_or(sent_by.len()));
    let host = trim_space(host);
    if host.is_empty() || host.iter().any(|byte| is_space(*byte)) {
        return None;
    }
    Some((parse_text(host), parse_port(port)?))
}

/// The port behind a host: a colon and a number from 1 to 65,535, or nothing.
fn parse_port(text: &[u8]) -> Option<u16> {
    let text = trim_space(text);
    if text.is_empty() {
        return Some(DEFAULT_PORT);
    }
    let digits = trim_space(text.strip_prefix(b":")?);
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    parse_text(digits).filter(|port| *port != 0)
}

/// An address as it stands in a Via parameter, with or without brackets.
pub(crate) fn parse_address(text: &[u8]) -> Option<IpAddr> {
    let bare = text.strip_prefix(b"[").and_then(|text| text.strip_suffix(b"]")).unwrap_or(text);
    parse_text::<IpAddr>(bare).map(|address| address.to_canonical())
}

fn parse_text<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent_by(value: &str) -> Option<(Option<IpAddr>, u16)> {
        TopVia::parse(value.as_bytes()).map(|via| (via.host, via.port))
    }

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn sent_by_is_read_in_all_its_forms() {
        assert_eq!(sent_by("SIP/2.0/UDP 192.0.2.1:5070;branch=x"), Some((address("192.0.2.1"), 5070)));
        assert_eq!(sent_by("SIP/2.0/UDP pc33.example.com"), Some((None, 5060)));
        assert_eq!(
            sent_by("SIP / 2.0\t/ UDP   192.0.2.1 : 5070 ; branch=x"),
            Some((address("192.0.2.1"), 5070))
        );
        assert_eq!(sent_by("SIP/2.0/UDP\r\n  192.0.2.1\r\n\t;branch=x"), Some((address("192.0.2.1"), 5060)));
        assert_eq!(sent_by("SIP/2.0/UDP [2001:db8::1]:5070"), Some((address("2001:db8::1"), 5070)));
        assert_eq!(sent_by("SIP/2.0/UDP [2001:db8::1]"), Some((address("2001:db8::1"), 5060)));
        assert_eq!(sent_by("SIP/2.0/UDP 2001:db8::1;branch=0"), Some((address("2001:db8::1"), 5060)));
        assert_eq!(sent_by("SIP/2.0/TCP host"), Some((None, 5060)));
    }

    #[test]
    fn what_names_no_sender_or_no_usable_port_is_refused() {
        for value in [
            "",
            "SIP/2.0",
            "SIP/2.0/UDP",
            "SIP/2.0/UDP ;branch=x",
            "SIP/2.0/UDP :5060",
            "SIP/2.0/UDP host:0",
            "SIP/2.0/UDP host:65536",
            "SIP/2.0/UDP host:+5060",
            "SIP/2.0/UDP host:",
            "SIP/2.0/UDP host:12x",
            "SIP/2.0/UDP two hosts",
            "SIP/2.0/UDP [2001:db8::1",
            "SIP/2.0/UDP [2001:db8::1]5060",
            "SIP/2.0/UDP [pc33]:5060",
            "SIP/2.0/UDP host;x=\"y",
        ] {
            assert_eq!(sent_by(value), None, "{value}");
        }
    }

    #[test]
    fn a_comma_in_quotes_does_not_end_the_value() {
        let via = TopVia::parse(b"SIP/2.0/UDP a ;oc-algo=\"loss,A\";Branch = b1 , SIP/2.0/UDP b").unwrap();
        assert_eq!(via.head, b"SIP/2.0/UDP a ");
        assert_eq!(via.branch(), b"b1");
        assert_eq!(via.param("oc-algo"), Some(&b"\"loss,A\""[..]));
        assert_eq!(via.param("rport"), None);
        assert_eq!(via.rest, b", SIP/2.0/UDP b");
    }

    #[test]
    fn addresses_are_read_with_and_without_brackets() {
        assert_eq!(parse_address(b"[2001:db8::1]"), address("2001:db8::1"));
        assert_eq!(parse_address(b"::ffff:192.0.2.1"), address("192.0.2.1"));
        assert_eq!(parse_address(b"example.com"), None);
    }
}
