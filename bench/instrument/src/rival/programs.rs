//! The bare XDP programs, on an interface.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use anyhow::Context as _;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore as _, MapFlags, OpenObject};

use crate::skeleton::rivals::{RivalsSkel, RivalsSkelBuilder};

/// What is done with every packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bare {
    Drop,
    /// To the AF_XDP socket of the queue.
    Socket,
    /// To the kernel's stack, by NAPI.
    Pass,
}

/// The programs, loaded once.
pub(crate) struct Programs(RivalsSkel<'static>);

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Programs")
    }
}

impl Programs {
    pub(crate) fn load() -> anyhow::Result<Self> {
        let place: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let open = RivalsSkelBuilder::default().open(place).context("cannot open the rivals' programs")?;
        Ok(Self(open.load().context("cannot load the rivals' programs")?))
    }

    /// Attaches one; it is taken off when the link is dropped, or with the process. The device is one of the calling
    /// thread's namespace.
    pub(crate) fn attach(&self, what: Bare, ifindex: u32) -> anyhow::Result<Link> {
        let programs = &self.0.progs;
        let program = match what {
            Bare::Drop => &programs.bare_drop,
            Bare::Socket => &programs.bare_socket,
            Bare::Pass => &programs.bare_pass,
        };
        let link = program.attach_xdp(ifindex.cast_signed());
        link.with_context(|| format!("cannot attach {what:?} to interface {ifindex}"))
    }

    /// Where [`Bare::Socket`] sends the packets of queue 0.
    pub(crate) fn set_socket(&self, socket: BorrowedFd<'_>) -> anyhow::Result<()> {
        let value = socket.as_raw_fd().to_ne_bytes();
        let entered = self.0.maps.rival_sockets.update(&0_u32.to_ne_bytes(), &value, MapFlags::ANY);
        entered.context("cannot enter the rival's socket")
    }
}
