//! What is configured for the peers of one network: a code, or a table.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

/// What differs for a peer; what is `None` is as for all others. The table is read by what `remote` derives, and a mere
/// code by hand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(remote = "Self", default)]
pub struct Peer {
    /// Status code, or 0 for silence.
    pub code: Option<u16>,
    /// Most replies per second and worker to one address.
    pub per_destination: Option<u32>,
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
                // Not this trait's: the function that `remote` has made.
                Peer::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_any(PeerVisitor)
    }
}
