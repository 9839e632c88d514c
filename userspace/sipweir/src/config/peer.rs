//! What is configured for the peers of one network: a code, or a table.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};

/// What differs for a peer; what is `None` is as for all others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peer {
    /// Status code, or 0 for silence.
    pub code: Option<u16>,
    /// Most replies per second and worker to one address.
    pub per_destination: Option<u32>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct PeerTable {
    code: Option<u16>,
    per_destination: Option<u32>,
}

impl<'de> Deserialize<'de> for Peer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PeerVisitor;
        impl<'de> Visitor<'de> for PeerVisitor {
            type Value = Peer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a code such as 480 or a table such as { code = 480, per_destination = 5000 }")
            }

            fn visit_i64<E: de::Error>(self, code: i64) -> Result<Peer, E> {
                let code = u16::try_from(code)
                    .map_err(|_parse| E::invalid_value(de::Unexpected::Signed(code), &self))?;
                Ok(Peer { code: Some(code), ..Peer::default() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Peer, A::Error> {
                let PeerTable { code, per_destination } =
                    PeerTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Peer { code, per_destination })
            }
        }
        deserializer.deserialize_any(PeerVisitor)
    }
}
