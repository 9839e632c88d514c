//! Caps on what a source may send, for all sources and for those of one network.

mod change;

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

pub use change::LimitKey;

use super::Rate;
use crate::limits::{Cap, CapTable, Caps, SourceBits};
use crate::prefix::Prefix;

/// Caps on what a source may send, at each worker: a count per second (`200`), a share of the messages that the server is
/// measured to serve (`"70%"`), or `"off"`. Of messages with privilege, what is above is handed over last, and never refused;
/// below capacity nothing is lost by it. Originals above their cap are refused with an answer.
#[derive(Debug, Clone, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Limits {
    /// BYE, PRACK and requests with a To tag. Default 60 % of the rate, above which those of calls that were admitted
    /// lately keep their privilege: so one peer may carry all calls.
    pub in_dialog_per_source: Rate,
    /// ACK and CANCEL. Default as above.
    pub control_per_source: Rate,
    /// Responses to the server's own requests. Default off: before a server that calls out, or notifies, they may be
    /// nearly all that one peer sends, and belong to calls that sipweir has not seen begin.
    pub responses_per_source: Rate,
    /// Emergency calls. Default half of the rate.
    pub emergency_per_source: Rate,
    /// Probes of configured probers. Default 10 a second; probers send one every few seconds.
    pub prober_per_source: Rate,
    /// All of these together, as far as they have a cap. Default 60 % of the rate.
    pub total_per_source: Rate,
    /// Originals: requests that begin something, each counted once however often it is sent. Above it they get the answer of
    /// `reply`, and their copies the same. A count, or a share of the originals that the server is measured to serve; a second's
    /// worth at once. Default off: a proxy, a trunk or a NAT is one source and may carry all calls.
    pub original_per_source: Rate,
    /// Bits of an IPv4 address that make a source, up to 32, the default.
    pub ipv4_source_bits: u8,
    /// The same of IPv6, up to 64, the default: a host may take any address within.
    pub ipv6_source_bits: u8,
    /// Other caps for the sources of some networks, such as a PBX that asks for each of its extensions; the longest
    /// prefix wins. None by default. IPv6 networks longer than
    /// `ipv6_source_bits` are one source each.
    pub peers: BTreeMap<String, PeerLimits>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_dialog_per_source: Rate(Cap::Share(0.6)),
            control_per_source: Rate(Cap::Share(0.6)),
            responses_per_source: Rate(Cap::Off),
            emergency_per_source: Rate(Cap::Share(0.5)),
            prober_per_source: Rate(Cap::PerSecond(10.0)),
            total_per_source: Rate(Cap::Share(0.6)),
            original_per_source: Rate(Cap::Off),
            ipv4_source_bits: 32,
            ipv6_source_bits: 64,
            peers: BTreeMap::new(),
        }
    }
}

impl Limits {
    /// The caps of those who are not under `peers`, by their kinds.
    #[must_use]
    pub const fn caps(&self) -> Caps {
        Caps {
            in_dialog: self.in_dialog_per_source.0,
            control: self.control_per_source.0,
            responses: self.responses_per_source.0,
            emergency: self.emergency_per_source.0,
            prober: self.prober_per_source.0,
            total: self.total_per_source.0,
            original: self.original_per_source.0,
        }
    }

    /// What the workers go by.
    #[must_use]
    pub fn table(&self) -> CapTable {
        let bits = SourceBits { ipv4: self.ipv4_source_bits, ipv6: self.ipv6_source_bits };
        CapTable::new(self.caps(), self.caps_of_peers(), bits)
    }

    /// All caps of those who are, by network. Prefixes that are none, which `check` has reported, are left out.
    pub fn caps_of_peers(&self) -> impl Iterator<Item = (Prefix, Caps)> {
        let caps = self.caps();
        self.peers.iter().filter_map(move |(text, peer)| Some((text.parse().ok()?, peer.over(caps))))
    }
}

/// What differs for the sources of one network; what is `None` is as for all others. The table is read by what `remote`
/// derives, and the word `"off"` by hand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, Serialize)]
#[serde(remote = "Self", default)]
pub struct PeerLimits {
    /// As in [`Limits`], and so are the others.
    pub in_dialog_per_source: Option<Rate>,
    /// ACK and CANCEL.
    pub control_per_source: Option<Rate>,
    /// Responses.
    pub responses_per_source: Option<Rate>,
    /// Emergency calls.
    pub emergency_per_source: Option<Rate>,
    /// Probes; only configured probers send such.
    pub prober_per_source: Option<Rate>,
    /// All together.
    pub total_per_source: Option<Rate>,
    /// Originals.
    pub original_per_source: Option<Rate>,
}

impl PeerLimits {
    /// No cap at all.
    const OFF: Self = {
        let off = Some(Rate(Cap::Off));
        Self {
            in_dialog_per_source: off,
            control_per_source: off,
            responses_per_source: off,
            emergency_per_source: off,
            prober_per_source: off,
            total_per_source: off,
            original_per_source: off,
        }
    };

    /// The caps that these make of those of all others.
    #[must_use]
    pub fn over(&self, others: Caps) -> Caps {
        let cap = |own: Option<Rate>, other: Cap| own.map_or(other, |rate| rate.0);
        Caps {
            in_dialog: cap(self.in_dialog_per_source, others.in_dialog),
            control: cap(self.control_per_source, others.control),
            responses: cap(self.responses_per_source, others.responses),
            emergency: cap(self.emergency_per_source, others.emergency),
            prober: cap(self.prober_per_source, others.prober),
            total: cap(self.total_per_source, others.total),
            original: cap(self.original_per_source, others.original),
        }
    }
}

impl<'de> Deserialize<'de> for PeerLimits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PeerVisitor;
        impl<'de> Visitor<'de> for PeerVisitor {
            type Value = PeerLimits;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"off\" for no cap at all, or a table such as { prober_per_source = 200 }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<PeerLimits, E> {
                match text {
                    "off" => Ok(PeerLimits::OFF),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PeerLimits, A::Error> {
                // Not this trait's: the function that `remote` has made.
                PeerLimits::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_any(PeerVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::PeerLimits;
    use crate::config::tests::{LEAST, keys, problems};
    use crate::config::{Config, Rate};
    use crate::limits::{Cap, Caps};
    use crate::prefix::PrefixTable;

    #[test]
    fn the_sources_of_a_network_have_caps_of_their_own_or_none() {
        let text = format!(
            "{LEAST}[service.main.limits]\ncontrol_per_source = 300\n[service.main.limits.peers]\n\
             \"192.0.2.16/28\" = {{ prober_per_source = 200, in_dialog_per_source = \"90%\" }}\n\
             \"2001:db8::7\" = \"off\"\n"
        );
        let limits = Config::parse("test.toml", &text).expect("valid").service["main"].limits.clone();
        let expected = PeerLimits {
            prober_per_source: Some(Rate(Cap::PerSecond(200.0))),
            in_dialog_per_source: Some(Rate(Cap::Share(0.9))),
            ..PeerLimits::default()
        };
        assert_eq!(limits.peers["192.0.2.16/28"], expected);
        let peers = PrefixTable::new(limits.caps_of_peers());
        let caps = peers.find([192, 0, 2, 17].into()).expect("a peer");
        assert_eq!((caps.prober, caps.in_dialog), (Cap::PerSecond(200.0), Cap::Share(0.9)));
        assert_eq!((caps.control, caps.total), (Cap::PerSecond(300.0), Cap::Share(0.6)), "as all others");
        let off = peers.find("2001:db8::7".parse().expect("address")).expect("a peer");
        let Caps { in_dialog, control, responses, emergency, prober, total, original } = off;
        assert_eq!([in_dialog, control, responses, emergency, prober, total, original], [Cap::Off; 7]);
        assert_eq!(peers.find([192, 0, 2, 15].into()), None);
    }

    #[test]
    fn originals_have_no_cap_unless_it_is_set_and_a_source_has_its_bits() {
        let limits = |lines: &str| {
            let text = format!("{LEAST}[service.main.limits]\n{lines}");
            Config::parse("test.toml", &text).expect("valid").service["main"].limits.clone()
        };
        assert_eq!(limits("").caps().original, Cap::Off);
        let set = limits("original_per_source = 20\nipv4_source_bits = 24\n");
        assert_eq!((set.caps().original, set.ipv4_source_bits), (Cap::PerSecond(20.0), 24));
        let text = format!("{LEAST}[service.main.limits]\nipv4_source_bits = 33\nipv6_source_bits = 65\n");
        let expected = ["ipv4_source_bits", "ipv6_source_bits"];
        assert_eq!(keys(&text), expected.map(|key| format!("service.main.limits.{key}")));
    }

    #[test]
    fn everything_that_is_wrong_with_the_networks_that_have_caps_is_named() {
        let text = format!(
            "{LEAST}[service.main.limits.peers]\n\"10.1.0.0/8\" = \"off\"\n\"pbx.example.com\" = \"off\"\n\
             \"192.0.2.1\" = {{}}\n\"192.0.2.2\" = \"off\"\n\"192.0.2.2/32\" = {{ prober_per_source = 5 }}\n"
        );
        let expected = ["10.1.0.0/8", "192.0.2.1", "192.0.2.2/32", "pbx.example.com"];
        let found = problems(&text);
        let found_keys: Vec<_> = found.iter().map(|problem| problem.key.as_str()).collect();
        assert_eq!(found_keys, expected.map(|network| format!("service.main.limits.peers.\"{network}\"")));
        assert!(found[1].message.contains("nothing differs"));
        assert!(found[2].message.contains("the same network as \"192.0.2.2\""));
    }

    #[test]
    fn caps_of_networks_of_the_wrong_type_or_name_hide_no_other_problem() {
        let text = format!(
            "{LEAST}[service.main.gate]\nadmit = 7.0\n[service.main.limits.peers]\n\"192.0.2.3\" = 200\n\
             \"192.0.2.4\" = \"on\"\n\"192.0.2.5\" = {{ prober_per_source = 0 }}\n\
             \"192.0.2.6\" = {{ options_per_source = 5 }}\n"
        );
        let expected = [
            "gate.admit",
            "limits.peers.192.0.2.3",
            "limits.peers.192.0.2.4",
            "limits.peers.192.0.2.5.prober_per_source",
            "limits.peers.192.0.2.6.options_per_source",
        ];
        assert_eq!(keys(&text), expected.map(|key| format!("service.main.{key}")));
        let message = &problems(&text)[1].message;
        assert!(message.contains("\"off\" for no cap at all, or a table"), "{message}");
    }
}
