//! What the driver of a device was told, from the kernel's ethtool family: channels, rings, offloads.
//!
//! The route family knows only how many queues a device *may* have (`IFLA_NUM_RX_QUEUES`); packets arrive on those
//! that are switched on, `ethtool -l` in the operator's words.

use std::collections::BTreeMap;

use netlink_packet_core::{DefaultNla, Emitable, NLA_F_NESTED};

use super::Error;
use super::generic::{Attributes, Family, bytes_of, parse, text_of, value_of};

// `linux/ethtool_netlink.h`.
const ETHTOOL_MSG_FEATURES_GET: u8 = 11;
const ETHTOOL_MSG_RINGS_GET: u8 = 15;
const ETHTOOL_MSG_CHANNELS_GET: u8 = 17;
const ETHTOOL_GENL_VERSION: u8 = 1;
/// The header is the first attribute of every request and answer.
const ETHTOOL_A_HEADER: u16 = 1;
const ETHTOOL_A_HEADER_DEV_INDEX: u16 = 1;
const ETHTOOL_A_RINGS_RX_MAX: u16 = 2;
const ETHTOOL_A_RINGS_RX: u16 = 6;
const ETHTOOL_A_CHANNELS_RX_MAX: u16 = 2;
const ETHTOOL_A_CHANNELS_COMBINED_MAX: u16 = 5;
const ETHTOOL_A_CHANNELS_RX_COUNT: u16 = 6;
const ETHTOOL_A_CHANNELS_COMBINED_COUNT: u16 = 9;
const ETHTOOL_A_FEATURES_ACTIVE: u16 = 4;
const ETHTOOL_A_FEATURES_NOCHANGE: u16 = 5;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;

/// Channels of a device, in use and at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// Channels for receiving alone.
    pub rx: u32,
    /// Channels for both directions.
    pub combined: u32,
    /// The most for receiving alone.
    pub rx_max: u32,
    /// The most for both directions.
    pub combined_max: u32,
}

/// Entries of a device's receive rings, now and at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rings {
    /// Now.
    pub rx: u32,
    /// At most.
    pub rx_max: u32,
}

/// Offloads that are on, by the kernel's names (`rx-lro`), and whether each can be switched off.
pub type Offloads = BTreeMap<String, bool>;

/// The family, opened once and asked several times.
#[derive(Debug)]
pub struct Ethtool {
    /// `None` in a kernel that was built without.
    family: Option<Family>,
}

impl Ethtool {
    /// Opens it in the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// When the kernel refuses the socket or does not answer.
    pub fn open() -> Result<Self, Error> {
        Ok(Self { family: Family::open("ethtool", ETHTOOL_GENL_VERSION)? })
    }

    /// The channels; `None` if the driver has no notion of them.
    ///
    /// # Errors
    ///
    /// When the kernel refuses or does not answer.
    pub fn channels(&mut self, index: u32) -> Result<Option<Channels>, Error> {
        let answer = self.ask("ask for the channels of the device", ETHTOOL_MSG_CHANNELS_GET, index)?;
        Ok(answer.map(|answer| {
            let count = |kind| answer.u32(kind).unwrap_or(0);
            Channels {
                rx: count(ETHTOOL_A_CHANNELS_RX_COUNT),
                combined: count(ETHTOOL_A_CHANNELS_COMBINED_COUNT),
                rx_max: count(ETHTOOL_A_CHANNELS_RX_MAX),
                combined_max: count(ETHTOOL_A_CHANNELS_COMBINED_MAX),
            }
        }))
    }

    /// The receive rings; `None` if the driver has no notion of them.
    ///
    /// # Errors
    ///
    /// When the kernel refuses or does not answer.
    pub fn rings(&mut self, index: u32) -> Result<Option<Rings>, Error> {
        let answer = self.ask("ask for the rings of the device", ETHTOOL_MSG_RINGS_GET, index)?;
        Ok(answer.and_then(|answer| {
            Some(Rings { rx: answer.u32(ETHTOOL_A_RINGS_RX)?, rx_max: answer.u32(ETHTOOL_A_RINGS_RX_MAX)? })
        }))
    }

    /// The offloads that are on; `None` in a kernel without the ethtool family.
    ///
    /// # Errors
    ///
    /// When the kernel refuses or does not answer.
    pub fn offloads(&mut self, index: u32) -> Result<Option<Offloads>, Error> {
        let answer = self.ask("ask for the offloads of the device", ETHTOOL_MSG_FEATURES_GET, index)?;
        Ok(answer.map(|answer| {
            let fixed = bit_names(&answer, ETHTOOL_A_FEATURES_NOCHANGE);
            let active = bit_names(&answer, ETHTOOL_A_FEATURES_ACTIVE);
            active.into_iter().map(|name| (name.clone(), !fixed.contains(&name))).collect()
        }))
    }

    fn ask(&mut self, action: &str, command: u8, index: u32) -> Result<Option<Attributes>, Error> {
        let Some(family) = &mut self.family else { return Ok(None) };
        let header = DefaultNla::new(ETHTOOL_A_HEADER_DEV_INDEX, index.to_ne_bytes().to_vec());
        let mut bytes = vec![0; header.buffer_len()];
        header.emit(&mut bytes);
        family.ask(action, command, vec![DefaultNla::new(ETHTOOL_A_HEADER | NLA_F_NESTED, bytes)])
    }
}

/// The receive queues in use: combined channels and those for receiving alone. `None` if the driver has no notion of
/// channels, which means that the queues it was made with are all in use.
pub(super) fn rx_queues_in_use(index: u32) -> Result<Option<u32>, Error> {
    let channels = Ethtool::open()?.channels(index)?;
    Ok(channels.map(|channels| channels.rx + channels.combined).filter(|&queues| queues > 0))
}

/// The names of the bits that are set in a bit set without a mask, each bit an attribute of its own.
fn bit_names(answer: &Attributes, kind: u16) -> Vec<String> {
    let Some(bits) = bytes_of(&answer.nested(kind), ETHTOOL_A_BITSET_BITS) else { return Vec::new() };
    let bits = parse(&bits).unwrap_or_default();
    let name_of = |bit: &DefaultNla| -> Option<String> {
        let name = bytes_of(&parse(&value_of(bit)).ok()?, ETHTOOL_A_BITSET_BIT_NAME)?;
        Some(text_of(&name))
    };
    bits.iter().filter_map(name_of).collect()
}
