//! Values with a notation of their own: time spans, thresholds, listen addresses, the seed.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use overload::Threshold;
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use crate::limits::Cap;
use crate::prefix::Prefix;

/// A time span as `"400ms"`, `"1.5s"`, `"200us"`; in nanoseconds inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(u64);

impl Span {
    /// A span of whole milliseconds.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// A span of nanoseconds.
    #[must_use]
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// The span in nanoseconds.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ns if ns % 1_000_000_000 == 0 => write!(f, "{}s", ns / 1_000_000_000),
            ns if ns % 1_000_000 == 0 => write!(f, "{}ms", ns / 1_000_000),
            ns if ns % 1_000 == 0 => write!(f, "{}us", ns / 1_000),
            ns => write!(f, "{ns}ns"),
        }
    }
}

impl FromStr for Span {
    type Err = String;

    /// A span is written like a threshold in time, so it is read by the same rules.
    fn from_str(text: &str) -> Result<Self, String> {
        match Threshold::from_str(text) {
            Ok(Threshold::Time(ns)) => Ok(Self(ns)),
            Ok(Threshold::Messages(_)) | Err(_) => Err(format!("{text:?} is no time span such as \"400ms\"")),
        }
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A threshold: a count of messages (`700`) or a time (`"350ms"`) at the measured service rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(pub Threshold);

impl Limit {
    /// That many milliseconds of the measured service rate.
    #[must_use]
    pub const fn time_ms(ms: u64) -> Self {
        Self(Threshold::Time(ms * 1_000_000))
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LimitVisitor;
        impl Visitor<'_> for LimitVisitor {
            type Value = Limit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a count of messages such as 700 or a time such as \"350ms\"")
            }

            fn visit_i64<E: de::Error>(self, count: i64) -> Result<Limit, E> {
                u32::try_from(count)
                    .map(|count| Limit(Threshold::Messages(count)))
                    .map_err(|_parse| E::invalid_value(de::Unexpected::Signed(count), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Limit, E> {
                text.parse().map(Limit).map_err(|_parse| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(LimitVisitor)
    }
}

/// A cap: a count per second (`200`), a share of the measured rate (`"50%"`), or `"off"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate(pub Cap);

/// As on a command line: a count is written as it is.
impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let value = text.parse().map_or_else(|_text| toml::Value::from(text), toml::Value::Integer);
        value.try_into().map_err(|error: toml::de::Error| error.message().to_owned())
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RateVisitor;
        impl Visitor<'_> for RateVisitor {
            type Value = Rate;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a count per second such as 200, a share of the server's rate such as \"50%\", or \"off\"",
                )
            }

            fn visit_i64<E: de::Error>(self, count: i64) -> Result<Rate, E> {
                u32::try_from(count)
                    .ok()
                    .filter(|count| *count > 0)
                    .map(|count| Rate(Cap::PerSecond(f64::from(count))))
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Signed(count), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Rate, E> {
                let share =
                    || text.strip_suffix('%')?.parse::<f64>().ok().filter(|p| *p > 0.0 && *p <= 100.0);
                match (text, share()) {
                    ("off", _) => Ok(Rate(Cap::Off)),
                    (_, Some(percent)) => Ok(Rate(Cap::Share(percent / 100.0))),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(RateVisitor)
    }
}

/// Which frames are taken: those of the host, any, or those listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Taken<T> {
    /// What the host's own devices say.
    #[default]
    Host,
    /// All.
    Any,
    /// These.
    Listed(Vec<T>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Taken<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TakenVisitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for TakenVisitor<T> {
            type Value = Taken<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"host\", \"any\", or a list")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Taken<T>, E> {
                match text {
                    "host" => Ok(Taken::Host),
                    "any" => Ok(Taken::Any),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Taken<T>, A::Error> {
                let mut listed = Vec::new();
                while let Some(item) = items.next_element()? {
                    listed.push(item);
                }
                Ok(Taken::Listed(listed))
            }
        }
        deserializer.deserialize_any(TakenVisitor(std::marker::PhantomData))
    }
}

/// An Ethernet address as `"00:00:5e:00:01:07"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkAddress(pub [u8; 6]);

impl FromStr for LinkAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no Ethernet address such as \"00:00:5e:00:01:07\"");
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2).ok_or_else(wrong)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_parse| wrong())?;
        }
        match parts.next() {
            None if bytes[0] & 1 == 0 => Ok(Self(bytes)),
            None => Err(format!("{text:?} is a group address; frames to one always pass")),
            Some(_) => Err(wrong()),
        }
    }
}

impl<'de> Deserialize<'de> for LinkAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// One or more local endpoints; `None` as address means any local address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen(pub Vec<(Option<IpAddr>, u16)>);

impl Listen {
    fn endpoint(text: &str) -> Result<(Option<IpAddr>, u16), String> {
        let wrong = || format!("{text:?} is no address and port such as \"192.0.2.1:5060\" or \"*:5060\"");
        let (address, port) = match text.strip_prefix("*:") {
            Some(port) => (None, port.parse().map_err(|_parse| wrong())?),
            None => {
                let socket: SocketAddr = text.parse().map_err(|_parse| wrong())?;
                let any = socket.ip().is_unspecified();
                ((!any).then(|| socket.ip().to_canonical()), socket.port())
            }
        };
        if port == 0 {
            return Err(format!("{text:?}: port 0 is no port to guard"));
        }
        if address.is_some_and(|address| address.is_multicast()) {
            return Err(format!("{text:?}: a multicast address has no single server behind it"));
        }
        Ok((address, port))
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::endpoint(text).map(|endpoint| Self(vec![endpoint]))
    }
}

impl Listen {
    /// Each endpoint as it would be written in a configuration.
    #[must_use]
    pub fn to_strings(&self) -> Vec<String> {
        let text = |(address, port): &(Option<IpAddr>, u16)| match address {
            Some(address) => SocketAddr::new(*address, *port).to_string(),
            None => format!("*:{port}"),
        };
        self.0.iter().map(text).collect()
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "an address and port such as \"192.0.2.1:5060\", or a list of them")]
        enum OneOrMany {
            One(String),
            Many(Vec<String>),
        }
        let texts = match OneOrMany::deserialize(deserializer)? {
            OneOrMany::One(text) => vec![text],
            OneOrMany::Many(texts) => texts,
        };
        if texts.is_empty() {
            return Err(de::Error::custom("an empty list guards nothing"));
        }
        let (good, wrong): (Vec<_>, Vec<_>) =
            texts.iter().map(|text| Self::endpoint(text)).partition(Result::is_ok);
        let wrong: Vec<String> = wrong.into_iter().filter_map(Result::err).collect();
        if !wrong.is_empty() {
            return Err(de::Error::custom(wrong.join("; ")));
        }
        Ok(Self(good.into_iter().filter_map(Result::ok).collect()))
    }
}

/// The secret of the transaction hash: 64 hex digits. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed(pub [u64; 4]);

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(secret)")
    }
}

impl<'de> Deserialize<'de> for Seed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || de::Error::custom("the seed is 64 hex digits, e.g. from `openssl rand -hex 32`");
        if text.len() != 64 || !text.is_ascii() {
            return Err(wrong());
        }
        let mut words = [0; 4];
        for (word, digits) in words.iter_mut().zip(text.as_bytes().chunks(16)) {
            let digits = std::str::from_utf8(digits).map_err(de::Error::custom)?;
            *word = u64::from_str_radix(digits, 16).map_err(|_parse| wrong())?;
        }
        Ok(Self(words))
    }
}

/// Permissions of a file in octal digits, `"0660"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode(pub u32);

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_octal =
            (3..=4).contains(&text.len()) && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
        let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| is_octal && *mode <= 0o777);
        mode.map(Self).ok_or_else(|| {
            de::Error::custom(format!("{text:?} are no permissions in octal digits such as \"0660\""))
        })
    }
}

/// A number that makes a call an emergency call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmergencyNumber(pub sip::Number);

impl<'de> Deserialize<'de> for EmergencyNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        sip::Number::of_text(&text).map(Self).ok_or_else(|| {
            de::Error::custom(format!("{text:?} is no number of 1 to 7 digits (or +, *, #), such as \"112\""))
        })
    }
}

/// A network, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(pub Prefix);

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}
