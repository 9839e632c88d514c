//! The top Via value: who sent the request and where its reply goes.
//!
//! RFC 3261 sections 18.2.1, 18.2.2 and 20.42, RFC 3581. Parsed only for a refusal; everything else treats
//! Via values as opaque bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use memchr::memchr;

use crate::overload_control::OverloadControl;
use crate::params::{Params, find_unquoted, is_space, trim_space};

/// Where a reply goes if sent-by names no port (RFC 3261 section 18.2.2).
const DEFAULT_PORT: u16 = 5060;

/// The first value of the first Via header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopVia<'a> {
    /// The value as it stands, up to the comma behind it.
    pub(crate) value: &'a [u8],
    /// Bytes of protocol and sent-by, up to the first semicolon.
    pub(crate) head_len: usize,
    /// From the comma behind this value on; empty if it is the header's only one.
    pub(crate) rest: &'a [u8],
    /// The host of sent-by, if it is an address and no name.
    pub(crate) host: Option<IpAddr>,
    /// The port of sent-by.
    pub(crate) port: u16,
    /// The parameters that mean something to us.
    pub(crate) known: KnownParams<'a>,
}

/// Values of parameters, of each name the first; empty where a parameter has none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KnownParams<'a> {
    /// Empty also if there is no branch.
    pub(crate) branch: &'a [u8],
    /// Where the sender wants the reply instead (RFC 3261 section 18.2.2).
    pub(crate) maddr: Option<&'a [u8]>,
    /// Whether there is an `rport`, with a value or without.
    pub(crate) has_rport: bool,
    /// Whether the client offers overload control.
    pub(crate) offers_control: bool,
}

impl<'a> KnownParams<'a> {
    /// All of them by one walk.
    fn of(params: Params<'a>) -> Self {
        let (mut branch, mut maddr, mut has_rport) = (None, None, false);
        let (mut oc, mut oc_algo) = (None, None);
        for param in params {
            let is = |name: &[u8]| param.name.eq_ignore_ascii_case(name);
            if is(b"branch") {
                branch.get_or_insert(param.value_or_empty());
            } else if is(b"rport") {
                has_rport = true;
            } else if is(b"maddr") {
                maddr.get_or_insert(param.value_or_empty());
            } else if is(b"oc") {
                oc.get_or_insert(param);
            } else if is(b"oc-algo") {
                oc_algo.get_or_insert(param.value_or_empty());
            }
        }
        let offers_control = oc.zip(oc_algo).is_some_and(|(oc, algo)| OverloadControl::is_offer(&oc, algo));
        Self { branch: branch.unwrap_or(&[]), maddr, has_rport, offers_control }
    }
}

impl<'a> TopVia<'a> {
    /// Parses a Via header's value; `None` if it has no protocol, no sent-by, no usable port, or a quote that
    /// never closes.
    pub(crate) fn parse(value: &'a [u8]) -> Option<Self> {
        let (value, rest) = value.split_at(find_unquoted(value, 0, b',')?);
        let head_len = find_unquoted(value, 0, b';')?;
        let (head, params) = value.split_at(head_len);
        let (host, port) = parse_sent_by(skip_protocol(trim_space(head))?)?;
        Some(Self { value, head_len, rest, host, port, known: KnownParams::of(Params(params)) })
    }

    /// The parameters in order.
    pub(crate) fn params(&self) -> Params<'a> {
        Params(&self.value[self.head_len..])
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
    let (host, port) = sent_by.split_at(memchr(b':', sent_by).unwrap_or(sent_by.len()));
    // Some peers write an IPv6 address without its brackets; then no port can follow it. It has two colons at least.
    if port.get(1..).is_some_and(|rest| rest.contains(&b':'))
        && let Some(address) = parse_text::<Ipv6Addr>(sent_by)
    {
        return Some((Some(address.into()), DEFAULT_PORT));
    }
    let host = trim_space(host);
    if host.is_empty() || host.iter().any(|byte| is_space(*byte)) {
        return None;
    }
    Some((parse_ipv4(host).map(IpAddr::V4), parse_port(port)?))
}

/// The port behind a host: a colon and a number from 1 to 65,535, or nothing.
fn parse_port(text: &[u8]) -> Option<u16> {
    let text = trim_space(text);
    if text.is_empty() {
        return Some(DEFAULT_PORT);
    }
    let digits = trim_space(text.strip_prefix(b":")?);
    parse_decimal(digits).filter(|port| *port != 0)
}

/// A number of digits alone, zeros in front of it included; 0 if there are none, `None` if it is too large.
fn parse_decimal(digits: &[u8]) -> Option<u16> {
    digits.iter().try_fold(0_u16, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u16::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// An IPv4 address as the standard library reads it: four numbers up to 255, without zeros in front.
fn parse_ipv4(text: &[u8]) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut numbers = text.split(|byte| *byte == b'.');
    for octet in &mut octets {
        let digits = numbers.next().filter(|digits| matches!(digits, [_] | [b'1'..=b'9', ..]))?;
        *octet = u8::try_from(parse_decimal(digits)?).ok()?;
    }
    numbers.next().is_none().then(|| octets.into())
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
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn addresses_and_ports_are_read_as_by_the_standard_library(
            // Nearly right ones, and what only looks like one.
            text in prop_oneof![
                "(0|1|25|255|256|300|01|1000|\\+1|){1}(\\.(0|9|19|255|256|007|1000|)){2,4}",
                "[0-9.:a]{0,16}",
                any::<Ipv4Addr>().prop_map(|address| address.to_string()),
                any::<Ipv6Addr>().prop_map(|address| address.to_string()),
            ],
            digits in prop_oneof!["0{0,3}[0-9]{1,6}", any::<u16>().prop_map(|port| port.to_string())],
        ) {
            prop_assert_eq!(parse_ipv4(text.as_bytes()), text.parse().ok(), "{}", text);
            let port = digits.parse().ok().filter(|port| *port != 0);
            prop_assert_eq!(parse_port(format!(":{digits}").as_bytes()), port, "{}", digits);
            let unbracketed = sent_by(&format!("SIP/2.0/UDP {text}"));
            if let Ok(address) = text.parse::<IpAddr>() {
                prop_assert_eq!(unbracketed, Some((Some(address), DEFAULT_PORT)));
            } else {
                prop_assert_eq!(unbracketed.and_then(|(host, _)| host.filter(IpAddr::is_ipv6)), None);
            }
        }
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
        assert_eq!(&via.value[..via.head_len], b"SIP/2.0/UDP a ");
        assert_eq!(via.known.branch, b"b1");
        assert!(!via.known.has_rport);
        assert_eq!(via.rest, b", SIP/2.0/UDP b");
    }

    #[test]
    fn addresses_are_read_with_and_without_brackets() {
        assert_eq!(parse_address(b"[2001:db8::1]"), address("2001:db8::1"));
        assert_eq!(parse_address(b"::ffff:192.0.2.1"), address("192.0.2.1"));
        assert_eq!(parse_address(b"example.com"), None);
    }
}
