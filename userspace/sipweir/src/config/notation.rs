//! How values with a notation of their own stand in the reference (`docs/configuration.md`) and in the JSON schema: what
//! one writes, and a default as one would write it.
//!
//! Everything else about them follows from their types.

use std::borrow::Cow;

use overload::Threshold;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use super::value::Seed;
use super::{
    Collector, EmergencyNumber, Limit, LinkAddress, Listen, MetricsListen, Mode, MonitorClasses, Network,
    Peer, PeerLimits, Rate, Span, Taken,
};
use crate::limits::Cap;

/// Says how a type is written.
macro_rules! written {
    ($type:ty, $name:literal, $how:literal) => {
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "title": $how })
            }
        }
    };
}

written!(Span, "Span", "time, such as `\"400ms\"`");
written!(Limit, "Limit", "messages, such as `700`, or time, such as `\"250ms\"`");
written!(
    Rate,
    "Rate",
    "per second, such as `200`; share of the server's rate, such as `\"60%\"`; or `\"off\"`"
);
written!(
    Taken<LinkAddress>,
    "LinkAddresses",
    "`\"host\"`, `\"any\"`, or a list such as `[\"00:00:5e:00:01:07\"]`"
);
written!(Taken<u16>, "Vlans", "`\"host\"`, `\"any\"`, or a list such as `[10, 20]`");
written!(
    Listen,
    "Listen",
    "`\"192.0.2.1:5060\"`, `\"[2001:db8::1]:5060\"`, `\"*:5060\"`, or a list of these"
);
written!(Seed, "Seed", "64 hex digits");
written!(EmergencyNumber, "EmergencyNumber", "a number such as `\"112\"`");
written!(Network, "Network", "a network such as `\"192.0.2.0/28\"`");
written!(Collector, "Collector", "address and port, such as `\"192.0.2.9:9060\"`");
written!(
    MetricsListen,
    "MetricsListen",
    "`\"127.0.0.1:9464\"`, `\"[::1]:9464\"` or `\"unix:/run/sipweir/metrics.sock\"`"
);
written!(Mode, "Mode", "octal digits such as `\"0660\"`");
written!(MonitorClasses, "MonitorClasses", "list of classes such as `[\"original\"]`");
written!(Peer, "Peer", "a code such as `480`, or a table of `code` and `per_destination`");
written!(PeerLimits, "PeerLimits", "`\"off\"`, or a table of the caps above that differ");

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Threshold::Messages(messages) => serializer.serialize_u32(messages),
            Threshold::Time(ns) => Span::from_nanos(ns).serialize(serializer),
        }
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Cap::Off => serializer.serialize_str("off"),
            // Only whole numbers can be configured.
            Cap::PerSecond(rate) => serializer.serialize_u64(rate as u64),
            // As it was written: 0.07 is no binary fraction.
            Cap::Share(share) => serializer.collect_str(&format_args!("{}%", (share * 1e10).round() / 1e8)),
        }
    }
}

impl<T: Serialize> Serialize for Taken<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Host => serializer.serialize_str("host"),
            Self::Any => serializer.serialize_str("any"),
            Self::Listed(listed) => listed.serialize(serializer),
        }
    }
}

impl Serialize for LinkAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0.map(|byte| format!("{byte:02x}")).join(":"))
    }
}

impl Serialize for Mode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:04o}", self.0))
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_strings().serialize(serializer)
    }
}

impl Serialize for EmergencyNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl Serialize for Collector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl Serialize for MetricsListen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for MonitorClasses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|class| class.name()))
    }
}

impl Serialize for Peer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Not this trait's: the function that `remote` has made.
        Self::serialize(self, serializer)
    }
}

impl Serialize for PeerLimits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}
