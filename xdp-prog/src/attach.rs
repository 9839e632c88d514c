//! Putting the program on an interface, and what stands in the way.
//!
//! Always by a BPF link: it goes with its descriptor, so that a killed process leaves nothing behind. Only the default
//! of [`AttachMode::Auto`] changes its mind, and only about the mode; that another program is there is an error in every
//! mode, because taking its place would be somebody else's outage.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libbpf_rs::{Xdp, XdpFlags};

use crate::error::{EBUSY, EEXIST, ENODEV, EPERM};
use crate::link::create_xdp_link;
use crate::{Classifier, Error, program_name};

/// The mode to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AttachMode {
    /// Native if the driver can, else generic.
    #[default]
    Auto,
    /// In the driver, before a socket buffer exists; an error if the driver cannot.
    Native,
    /// In the network stack, behind the socket buffer: works with every driver, and costs that buffer.
    Generic,
}

/// The mode obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the driver.
    Native,
    /// In the network stack.
    Generic,
}

impl Mode {
    /// The name in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }

    fn flags(self) -> XdpFlags {
        match self {
            Self::Native => XdpFlags::DRV_MODE,
            Self::Generic => XdpFlags::SKB_MODE,
        }
    }
}

/// The program on an interface. Dropping it takes the program off.
#[derive(Debug)]
#[must_use = "dropping it detaches the program"]
pub struct Attached {
    link: OwnedFd,
    ifindex: i32,
    mode: Mode,
    native_refusal: Option<io::Error>,
}

impl Attached {
    /// The mode obtained.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The interface.
    #[must_use]
    pub fn ifindex(&self) -> i32 {
        self.ifindex
    }

    /// Why [`AttachMode::Auto`] did not become native. Worth a warning: generic mode costs several times as much.
    #[must_use]
    pub fn native_refusal(&self) -> Option<&io::Error> {
        self.native_refusal.as_ref()
    }

    /// The link, for those who keep it elsewhere (pinning, passing to another process).
    #[must_use]
    pub fn link(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

impl Classifier {
    /// Attaches the program to an interface.
    ///
    /// # Errors
    ///
    /// [`Error::OtherProgram`], [`Error::NoInterface`], [`Error::ModeRefused`], [`Error::NotPermitted`]; anything else
    /// as the kernel says it.
    pub fn attach(&self, ifindex: i32, mode: AttachMode) -> Result<Attached, Error> {
        self.test_runs.are_no_longer_alone();
        let program = self.program_fd();
        let attach = |mode: Mode| create_xdp_link(program, ifindex, mode.flags().bits());
        let attached = |link, mode, native_refusal| Attached { link, ifindex, mode, native_refusal };
        let explain = |mode: Mode, source: io::Error| explain(program, ifindex, mode, source);
        match mode {
            AttachMode::Native => attach(Mode::Native)
                .map(|link| attached(link, Mode::Native, None))
                .map_err(|source| explain(Mode::Native, source)),
            AttachMode::Generic => attach(Mode::Generic)
                .map(|link| attached(link, Mode::Generic, None))
                .map_err(|source| explain(Mode::Generic, source)),
            AttachMode::Auto => match attach(Mode::Native) {
                Ok(link) => Ok(attached(link, Mode::Native, None)),
                Err(refusal) if is_about_mode(&refusal) => attach(Mode::Generic)
                    .map(|link| attached(link, Mode::Generic, Some(refusal)))
                    .map_err(|source| explain(Mode::Generic, source)),
                Err(source) => Err(explain(Mode::Native, source)),
            },
        }
    }
}

/// Whether another mode could help: not where somebody is in the way, or something is missing.
fn is_about_mode(error: &io::Error) -> bool {
    !matches!(error.raw_os_error(), Some(EPERM | EBUSY | EEXIST | ENODEV))
}

fn explain(program: BorrowedFd<'_>, ifindex: i32, mode: Mode, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(EBUSY | EEXIST) => Error::OtherProgram { ifindex, program: program_on(program, ifindex) },
        Some(ENODEV) => Error::NoInterface { ifindex },
        Some(EPERM) => {
            Error::from_kernel(format!("attaching to interface {ifindex} in {} mode", mode.name()), source)
        }
        // The kernel says EINVAL, EOPNOTSUPP, ERANGE, … for one and the same reason, depending on the driver.
        _ if !does_interface_exist(program, ifindex) => Error::NoInterface { ifindex },
        _ => Error::ModeRefused { ifindex, mode: mode.name(), source },
    }
}

fn does_interface_exist(program: BorrowedFd<'_>, ifindex: i32) -> bool {
    ifindex > 0 && Xdp::new(program).query(ifindex, XdpFlags::NONE).is_ok()
}

/// Identifier and name of the program on an interface.
fn program_on(program: BorrowedFd<'_>, ifindex: i32) -> String {
    let Ok(found) = Xdp::new(program).query(ifindex, XdpFlags::NONE) else {
        return "which one, the kernel does not say".to_owned();
    };
    let ids = [found.prog_id, found.drv_prog_id, found.skb_prog_id, found.hw_prog_id];
    let Some(id) = ids.into_iter().find(|&id| id != 0) else {
        return "which is already gone".to_owned();
    };
    program_name(id).map_or_else(|| format!("id {id}"), |name| format!("id {id}, `{name}`"))
}
