//! What a device has to do with XDP: what its driver can, and which programs are on it.

use netlink_packet_core::DefaultNla;
use netlink_packet_route::link::{LinkAttribute, LinkXdp};

use super::Error;
use super::generic::Family;
use super::link::{Links, attribute};

// `linux/netdev.h`.
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_FAMILY_VERSION: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;

/// What a driver says that it can (`enum netdev_xdp_act`), as it is set up now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpFeatures(pub u64);

impl XdpFeatures {
    /// Native programs that pass, drop and send back.
    pub const BASIC: u64 = 1;
    /// Redirecting, also into AF_XDP sockets.
    pub const REDIRECT: u64 = 2;
    /// AF_XDP without copying.
    pub const ZERO_COPY: u64 = 8;

    /// Whether all of these are there.
    #[must_use]
    pub const fn has(self, features: u64) -> bool {
        self.0 & features == features
    }

    /// Asks the kernel; `None` if it is too old to say (before 6.3).
    ///
    /// # Errors
    ///
    /// When the kernel refuses or does not answer.
    pub fn of(index: u32) -> Result<Option<Self>, Error> {
        let Some(mut family) = Family::open("netdev", NETDEV_FAMILY_VERSION)? else { return Ok(None) };
        let device = DefaultNla::new(NETDEV_A_DEV_IFINDEX, index.to_ne_bytes().to_vec());
        let answer = family.ask("ask what the device's driver can", NETDEV_CMD_DEV_GET, vec![device])?;
        let features = answer.and_then(|answer| answer.number(NETDEV_A_DEV_XDP_FEATURES));
        Ok(features.map(|bytes| Self(u64::from_ne_bytes(bytes))))
    }
}

/// The identifiers of the XDP programs on a device: native, generic, in hardware.
///
/// # Errors
///
/// When the kernel does not answer.
pub fn xdp_programs(index: u32) -> Result<Vec<u32>, Error> {
    let link = Links::open()?.by_index(index)?;
    let found = link.as_ref().and_then(|link| {
        attribute(link, |attribute| match attribute {
            LinkAttribute::Xdp(found) => Some(found),
            _ => None,
        })
    });
    let mut programs: Vec<u32> = found
        .into_iter()
        .flatten()
        .filter_map(|found| match found {
            LinkXdp::ProgId(id) | LinkXdp::DrvProgId(id) | LinkXdp::SkbProgId(id) | LinkXdp::HwProgId(id) => {
                Some(*id)
            }
            _ => None,
        })
        .filter(|&id| id != 0)
        .collect();
    programs.sort_unstable();
    programs.dedup();
    Ok(programs)
}
