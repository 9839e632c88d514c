//! Opening a TAP device that is there: two system calls, one of which has no safe wrapper. Nothing else belongs here.

#![allow(unsafe_code, reason = "rustix has no TUNSETIFF")]

use std::fs::File;

use anyhow::{Context as _, ensure};
use rustix::ioctl::{Setter, ioctl, opcode};

/// `struct ifreq` of <linux/if.h>: the name, and a union whose first member here is the flags.
type InterfaceRequest = [u8; 40];
/// Bytes of a name, the closing zero included.
const NAME_LEN: usize = 16;
/// `TUNSETIFF` of <linux/if_tun.h>.
const TUNSETIFF: u32 = opcode::write::<i32>(b'T', 202);
/// Ethernet frames, without four bytes of flags in front (<linux/if_tun.h>).
const IFF_TAP_NO_PI: u16 = 0x0002 | 0x1000;

/// What is written to it, one packet a call, is received by the device.
pub(crate) fn open(device: &str) -> anyhow::Result<File> {
    ensure!(device.len() < NAME_LEN, "{device}: names of devices are shorter than {NAME_LEN} bytes");
    let mut request: InterfaceRequest = [0; 40];
    request[..device.len()].copy_from_slice(device.as_bytes());
    request[NAME_LEN..NAME_LEN + 2].copy_from_slice(&IFF_TAP_NO_PI.to_ne_bytes());
    let file =
        File::options().read(true).write(true).open("/dev/net/tun").context("cannot open /dev/net/tun")?;
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq`, whose size this type has, and keeps no reference to it.
    let setter = unsafe { Setter::<TUNSETIFF, InterfaceRequest>::new(request) };
    // SAFETY: as above; the setter holds the request for the length of the call.
    unsafe { ioctl(&file, setter) }.with_context(|| format!("cannot attach to the TAP device {device}"))?;
    Ok(file)
}
