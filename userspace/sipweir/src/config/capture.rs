//! Where refused messages are exported to.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};

/// Export of refused messages in HEP; without the table there is none.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema, Serialize)]
pub struct Capture {
    /// Address and UDP port of the collector.
    pub collector: Collector,
    /// The number by which the collector knows this agent. Default 1.
    #[serde(default = "default_agent_id")]
    pub agent_id: u32,
    /// Messages that can wait for the sending thread, per worker, each in a buffer of 4.1 KiB that is resident from the
    /// start. Fewer: more are lost in bursts. Default 1024.
    #[serde(default = "default_messages")]
    pub messages: u32,
}

const fn default_agent_id() -> u32 {
    1
}

const fn default_messages() -> u32 {
    1024
}

/// An address and a port, never a name, that one host can have. An IPv6 address keeps its scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collector(pub SocketAddr);

impl FromStr for Collector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Ok(mut address) = text.parse::<SocketAddr>() else {
            return Err(format!(
                "{text:?} is no address and port such as \"192.0.2.9:9060\" or \"[2001:db8::9]:9060\"; a host name is not \
                 possible, since sipweir must never wait for a name server"
            ));
        };
        // Not a new one: an IPv6 address that stays one keeps its scope.
        address.set_ip(address.ip().to_canonical());
        if address.port() == 0 || is_no_host(address.ip()) {
            return Err(format!("{text:?} is nowhere; write the collector's own address and port"));
        }
        if let SocketAddr::V6(v6) = address
            && v6.ip().is_unicast_link_local()
            && v6.scope_id() == 0
        {
            return Err(format!(
                "{text:?} is behind every interface; write the number of the right one (`ip link` shows it) behind the \
                 address, as in \"[fe80::9%2]:9060\""
            ));
        }
        Ok(Self(address))
    }
}

/// Whether no single host has this address: a group would get every refused message, and the kernel sends nothing to
/// everybody for a socket that was not allowed to (`ip4_datagram_connect` in net/ipv4/datagram.c).
fn is_no_host(ip: IpAddr) -> bool {
    ip.is_unspecified() || ip.is_multicast() || ip == Ipv4Addr::BROADCAST
}

impl<'de> Deserialize<'de> for Collector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::config::tests::{LEAST, keys, problems};

    fn capture(lines: &str) -> String {
        format!("{LEAST}[capture]\n{lines}\n")
    }

    #[test]
    fn a_collector_is_an_address_and_there_is_none_by_default() {
        assert!(Config::parse("test.toml", LEAST).expect("valid").capture.is_none());
        for (text, address) in [
            ("192.0.2.9:9060", "192.0.2.9:9060"),
            ("[2001:db8::9]:9060", "[2001:db8::9]:9060"),
            ("[::ffff:192.0.2.9]:9060", "192.0.2.9:9060"),
            ("[fe80::9%2]:9060", "[fe80::9%2]:9060"),
        ] {
            let text = capture(&format!("collector = \"{text}\""));
            let capture = Config::parse("test.toml", &text).expect("valid").capture.expect("on");
            assert_eq!(capture.collector.0.to_string(), address);
            assert_eq!((capture.agent_id, capture.messages), (1, 1024));
        }
        let text = capture("collector = \"192.0.2.9:9060\"\nagent_id = 4294967295\nmessages = 8");
        let capture = Config::parse("test.toml", &text).expect("valid").capture.expect("on");
        assert_eq!((capture.agent_id, capture.messages), (u32::MAX, 8));
    }

    #[test]
    fn a_collector_by_name_is_refused_and_told_why() {
        for name in ["homer.example.com:9060", "localhost:9060", "192.0.2.9", ""] {
            let found = problems(&capture(&format!("collector = \"{name}\"")));
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].key, "capture.collector");
            assert!(found[0].message.contains("must never wait for a name server"), "{}", found[0]);
        }
        for nowhere in [
            "0.0.0.0:9060",
            "[::]:9060",
            "[::ffff:0.0.0.0]:9060",
            "192.0.2.9:0",
            "255.255.255.255:9060",
            "[::ffff:255.255.255.255]:9060",
            "233.252.0.9:9060",
            "[ff02::9%2]:9060",
        ] {
            let found = problems(&capture(&format!("collector = \"{nowhere}\"")));
            assert!(found.len() == 1 && found[0].message.contains("is nowhere"), "{nowhere}: {found:?}");
        }
        let found = problems(&capture("collector = \"[fe80::9]:9060\""));
        assert!(found.len() == 1 && found[0].message.contains("\"[fe80::9%2]:9060\""), "{found:?}");
    }

    #[test]
    fn everything_that_is_wrong_with_the_capture_is_named() {
        let found = keys(&capture("agent_id = -1\nmessages = 0\nname = \"homer\""));
        assert_eq!(found, ["capture", "capture.agent_id", "capture.messages", "capture.name"]);
        assert_eq!(keys(&capture("collector = \"192.0.2.9:9060\"\nmessages = 65537")), ["capture.messages"]);
    }
}
