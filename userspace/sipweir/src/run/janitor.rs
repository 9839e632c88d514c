//! Who removes the hand-off device: a process of its own, since a running instance has no right to any more.
//!
//! ```text
//!   sipweir run (no capability) ── pipe ──▶ sipweir janitor swt<N> (CAP_NET_ADMIN)
//!     ends, in any way          ── end of file ──▶ deletes the device, and ends
//! ```
//!
//! It is this program again, under a hidden command. It holds the end of a pipe, standard error, and the claim on the
//! device, which it lets go when the device is gone; nothing else, so that XDP program and sockets belong to the instance
//! alone. Signals that ask to end do not concern it: they reach the instance too, and the device must outlive that.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use caps::Capability;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::{capabilities, netdev};

/// The hidden command of the command line.
pub(crate) const COMMAND: &str = "janitor";

/// The janitor of a hand-off device; dropping it has the device removed, and waits for that.
#[derive(Debug)]
pub(super) struct Janitor {
    child: Child,
    device: String,
}

impl Janitor {
    /// Starts the process and leaves the device to it.
    pub(super) fn start(device: &mut netdev::Handoff) -> anyhow::Result<Self> {
        let name = device.transmit().name.clone();
        let claim = device
            .claim()
            .try_clone_to_owned()
            .context("cannot duplicate the claim on the hand-off device")?;
        let child = Command::new("/proc/self/exe")
            .args([COMMAND, &name])
            .stdin(Stdio::piped())
            // Not to be written to: it is how a descriptor is handed to another program.
            .stdout(claim)
            .process_group(0)
            .spawn()
            .context("cannot start the process that removes the hand-off device")?;
        device.leave_removal();
        Ok(Self { child, device: name })
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // Its time is bounded by those of its requests to the kernel.
        let ended = self.child.wait();
        if !ended.as_ref().is_ok_and(std::process::ExitStatus::success) {
            tracing::warn!(device = self.device, ?ended, "the hand-off device stays behind");
        }
    }
}

/// `sipweir janitor DEVICE`: waits until the instance has ended, and removes its device.
///
/// # Errors
///
/// When the device cannot be removed.
pub(crate) fn main(device: &str) -> anyhow::Result<()> {
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ignored)).context("cannot catch signals")?;
    }
    capabilities::renounce_all_but(Capability::CAP_NET_ADMIN)?;
    // Nothing is ever sent: this returns when the other end is closed.
    std::io::stdin().read_to_end(&mut Vec::new()).context("cannot wait for the end of sipweir")?;
    netdev::Handoff::remove_left(device)?;
    Ok(())
}
