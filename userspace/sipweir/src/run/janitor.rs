//! Who removes the hand-off device, and before Linux 6.6 the filter that sees answers: a process of its own, since a running
//! instance has no right to any more.
//!
//! ```text
//!   sipweir run (no capability) ── pipe ──▶ sipweir janitor --device swt<N> (CAP_NET_ADMIN)
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
use xdp_prog::{AnswersAttached, Filter};

use crate::{capabilities, netdev};

/// The hidden command of the command line.
pub(crate) const COMMAND: &str = "janitor";

/// What is left to a janitor.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub(crate) struct Left {
    /// Transmit end of a hand-off device.
    #[arg(long)]
    device: Option<String>,
    /// A filter on the way out of an interface, as INDEX:PROGRAM.
    #[arg(long)]
    filter: Option<Filter>,
}

impl Left {
    fn arguments(&self) -> Vec<String> {
        let filter = self.filter.map(|filter| filter.to_string());
        let both = [("--device", self.device.clone()), ("--filter", filter)];
        both.into_iter().filter_map(|(key, value)| Some([key.to_owned(), value?])).flatten().collect()
    }
}

/// A janitor; dropping it has all removed that was left to it, and waits for that.
#[derive(Debug)]
pub(super) struct Janitor {
    child: Child,
    left: Left,
}

impl Janitor {
    /// Starts the process and leaves to it what outlives this one. `None`: nothing does.
    pub(super) fn start(
        device: Option<&mut netdev::Handoff>,
        answers: Option<&mut AnswersAttached>,
    ) -> anyhow::Result<Option<Self>> {
        let filter = answers.as_deref().and_then(AnswersAttached::outlives_process);
        let left = Left { device: device.as_ref().map(|device| device.transmit().name.clone()), filter };
        let arguments = left.arguments();
        if arguments.is_empty() {
            return Ok(None);
        }
        // Not to be written to: it is how a descriptor is handed to another program.
        let stdout = match &device {
            Some(device) => {
                let claim = device.claim().try_clone_to_owned();
                claim.context("cannot duplicate the claim on the hand-off device")?.into()
            }
            None => Stdio::null(),
        };
        let child = Command::new("/proc/self/exe")
            .arg(COMMAND)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(stdout)
            .process_group(0)
            .spawn()
            .context("cannot start the process that removes what outlives this one")?;
        if let Some(device) = device {
            device.leave_removal();
        }
        if let Some(answers) = answers {
            answers.leave_removal();
        }
        Ok(Some(Self { child, left }))
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // Its time is bounded by those of its requests to the kernel.
        let ended = self.child.wait();
        if !ended.as_ref().is_ok_and(std::process::ExitStatus::success) {
            let left = self.left.arguments().join(" ");
            tracing::warn!(left, ?ended, "what was to be removed stays behind");
        }
    }
}

/// `sipweir janitor`: waits until the instance has ended, and removes what it leaves behind.
///
/// # Errors
///
/// When something cannot be removed.
pub(crate) fn main(left: &Left) -> anyhow::Result<()> {
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ignored)).context("cannot catch signals")?;
    }
    capabilities::renounce_all_but(Capability::CAP_NET_ADMIN)?;
    // Nothing is ever sent: this returns when the other end is closed.
    std::io::stdin().read_to_end(&mut Vec::new()).context("cannot wait for the end of sipweir")?;
    let filter = left.filter.map(Filter::remove);
    if let Some(device) = &left.device {
        netdev::Handoff::remove_left(device)?;
    }
    Ok(filter.unwrap_or(Ok(()))?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use xdp_prog::Filter;

    use super::Left;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        left: Left,
    }

    #[test]
    fn what_is_left_to_a_janitor_reaches_it() {
        let four = Some(Filter { ifindex: 4, program: 77 });
        for (device, filter) in [(Some("swt4"), four), (Some("swt4"), None), (None, four), (None, None)] {
            let left = Left { device: device.map(str::to_owned), filter };
            let arguments = std::iter::once("janitor".to_owned()).chain(left.arguments());
            assert_eq!(Command::try_parse_from(arguments).expect("arguments").left, left);
        }
        for wrong in ["4", "4:", ":4", "4:-1", "4:7:7"] {
            assert!(Command::try_parse_from(["janitor", "--filter", wrong]).is_err(), "{wrong}");
        }
    }
}
