//! Putting the program that sees answers onto the way out of an interface, and taking it off again.
//!
//! Since Linux 6.6 by a BPF link (TCX): it goes with its descriptor, so that a killed process leaves nothing behind, and
//! it stands beside whatever else is there. Before, as a filter of the queueing discipline `clsact`, which outlives the
//! process; whoever removes it for a dead one needs to know its [`Filter`] alone. The discipline itself stays, since
//! others may have put filters there; without any it does nothing.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libbpf_rs::{TC_EGRESS, TcHook, TcHookBuilder};

use crate::error::ENODEV;
use crate::link::create_egress_link;
use crate::{Answers, Error, program_name};

/// Priority and handle of the filter. Fixed, so that one that was left behind is found. The priority is out of the way of
/// what tc(8) gives by itself, which counts down from 49152.
const PRIORITY: u32 = 50_771;
const HANDLE: u32 = 1;

/// As in `answers.bpf.c`; the kernel keeps 15 characters.
const PROGRAM_NAME: &str = "answers";

/// Where a filter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Index of the interface.
    pub ifindex: i32,
}

impl Filter {
    /// Removes the filter; it may be gone already.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn remove(self) -> Result<(), Error> {
        // Whose descriptor, does not matter to a removal; there must be one.
        let anything = io::stderr();
        let mut hook = hook(anything.as_fd(), self.ifindex);
        let Ok(id) = hook.query() else { return Ok(()) };
        if is_others(id) {
            return Ok(());
        }
        let action = format!("removing the filter from the way out of interface {}", self.ifindex);
        hook.detach().map_err(|error| Error::from_libbpf(action, &error))
    }
}

fn hook(program: BorrowedFd<'_>, ifindex: i32) -> TcHook {
    TcHookBuilder::new(program)
        .ifindex(ifindex)
        .replace(true)
        .handle(HANDLE)
        .priority(PRIORITY)
        .hook(TC_EGRESS)
}

/// Whether the program at our place is known to be another's.
fn is_others(id: u32) -> bool {
    program_name(id).is_some_and(|name| name != PROGRAM_NAME)
}

#[derive(Debug)]
enum Way {
    Link { _held: OwnedFd },
    Filter { is_left: bool },
}

/// The program on the way out of an interface. Dropping it takes the program off, unless that was left to another process.
#[derive(Debug)]
#[must_use = "dropping it detaches the program"]
pub struct AnswersAttached {
    way: Way,
    filter: Filter,
}

impl AnswersAttached {
    /// `tcx` or `clsact`.
    #[must_use]
    pub const fn way(&self) -> &'static str {
        match self.way {
            Way::Link { .. } => "tcx",
            Way::Filter { .. } => "clsact",
        }
    }

    /// What must be removed by somebody when this process dies: nothing if it is a link.
    #[must_use]
    pub const fn outlives_process(&self) -> Option<Filter> {
        match self.way {
            Way::Link { .. } => None,
            Way::Filter { .. } => Some(self.filter),
        }
    }

    /// Somebody else removes the filter.
    pub const fn leave_removal(&mut self) {
        if let Way::Filter { is_left } = &mut self.way {
            *is_left = true;
        }
    }
}

impl Drop for AnswersAttached {
    fn drop(&mut self) {
        if let Way::Filter { is_left: false } = self.way {
            // The interface may be gone, and the filter with it.
            let _gone = self.filter.remove();
        }
    }
}

impl Answers {
    /// Attaches the program to an interface's way out: by a link, or where the kernel has none there, as a filter.
    ///
    /// # Errors
    ///
    /// [`Error::NoInterface`], [`Error::NotPermitted`]; anything else as the kernel says it.
    pub fn attach(&self, ifindex: i32) -> Result<AnswersAttached, Error> {
        match create_egress_link(self.program_fd(), ifindex) {
            Ok(link) => Ok(AnswersAttached { way: Way::Link { _held: link }, filter: Filter { ifindex } }),
            Err(error) if error.raw_os_error() == Some(ENODEV) => Err(Error::NoInterface { ifindex }),
            // EINVAL from a kernel without TCX. Whatever else it is, the filter meets it, too, and says so.
            Err(_) => self.attach_filter(ifindex),
        }
    }

    /// Attaches the program as a filter, as [`Self::attach`] does where there is no other way.
    ///
    /// # Errors
    ///
    /// As [`Self::attach`]; [`Error::System`] if another program's filter has the place.
    pub fn attach_filter(&self, ifindex: i32) -> Result<AnswersAttached, Error> {
        let action = format!("attaching a filter to the way out of interface {ifindex}");
        let mut hook = hook(self.program_fd(), ifindex);
        hook.create().map_err(|error| Error::from_libbpf(&action, &error))?;
        if let Ok(id) = hook.query()
            && is_others(id)
        {
            let source = io::Error::from(io::ErrorKind::AddrInUse);
            return Err(Error::System { action: format!("{action}: priority {PRIORITY} is taken"), source });
        }
        hook.attach().map_err(|error| Error::from_libbpf(&action, &error))?;
        Ok(AnswersAttached { way: Way::Filter { is_left: false }, filter: Filter { ifindex } })
    }
}
