//! Putting the program that sees answers onto the way out of an interface, and taking it off again.
//!
//! Since Linux 6.6 by a BPF link (TCX): it goes with its descriptor, so that a killed process leaves nothing behind, and
//! it stands beside whatever else is there. Before, as a filter of the queueing discipline `clsact`, which outlives the
//! process; whoever removes it for a dead one needs to know its [`Filter`] alone, and no more removes one that has replaced it
//! since. The discipline itself stays, since others may have put filters there; without any it does nothing.

use std::fmt;
use std::io;
use std::num::ParseIntError;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::str::FromStr;

use libbpf_rs::{TC_EGRESS, TC_INGRESS, TcAttachPoint, TcHook, TcHookBuilder};

use crate::error::ENODEV;
use crate::link::create_egress_link;
use crate::{Answers, Error, program_name};

/// Priority and handle of the filter. Fixed, so that one that was left behind is found. The priority is out of the way of
/// what tc(8) gives by itself, which counts down from 49152.
const PRIORITY: u32 = 50_771;
const HANDLE: u32 = 1;

/// As in `answers.bpf.c`; the kernel keeps 15 characters.
const PROGRAM_NAME: &str = "answers";

/// A filter that was put there. As text: index of the interface, a colon, id of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Index of the interface.
    pub ifindex: i32,
    /// The kernel's id of the program, which it does not give again before two thousand million others.
    pub program: u32,
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.ifindex, self.program)
    }
}

impl FromStr for Filter {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let (ifindex, program) = text.split_once(':').unwrap_or((text, ""));
        Ok(Self { ifindex: ifindex.parse()?, program: program.parse()? })
    }
}

impl Filter {
    /// Removes the filter; it may be gone already, or replaced by one of a later run, which stays.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn remove(self) -> Result<(), Error> {
        // Whose descriptor, does not matter to a removal; there must be one.
        let anything = io::stderr();
        let mut hook = hook(anything.as_fd(), self.ifindex, TC_EGRESS);
        if hook.query().ok() != Some(self.program) {
            return Ok(());
        }
        let action = format!("removing the filter from the way out of interface {}", self.ifindex);
        hook.detach().map_err(|error| Error::from_libbpf(action, &error))
    }
}

fn hook(program: BorrowedFd<'_>, ifindex: i32, point: TcAttachPoint) -> TcHook {
    TcHookBuilder::new(program).ifindex(ifindex).replace(true).handle(HANDLE).priority(PRIORITY).hook(point)
}

/// Whether the program at our place is known to be another's.
fn is_others(id: u32) -> bool {
    program_name(id).is_some_and(|name| name != PROGRAM_NAME)
}

#[derive(Debug)]
enum Way {
    Link { _held: OwnedFd },
    Filter { filter: Filter, is_left: bool },
}

/// The program on the way out of an interface. Dropping it takes the program off, unless that was left to another process.
#[derive(Debug)]
#[must_use = "dropping it detaches the program"]
pub struct AnswersAttached(Way);

impl AnswersAttached {
    /// `tcx` or `clsact`.
    #[must_use]
    pub const fn way(&self) -> &'static str {
        match self.0 {
            Way::Link { .. } => "tcx",
            Way::Filter { .. } => "clsact",
        }
    }

    /// What must be removed by somebody when this process dies: nothing if it is a link.
    #[must_use]
    pub const fn outlives_process(&self) -> Option<Filter> {
        match self.0 {
            Way::Link { .. } => None,
            Way::Filter { filter, .. } => Some(filter),
        }
    }

    /// Somebody else removes the filter.
    pub const fn leave_removal(&mut self) {
        if let Way::Filter { is_left, .. } = &mut self.0 {
            *is_left = true;
        }
    }
}

impl Drop for AnswersAttached {
    fn drop(&mut self) {
        if let Way::Filter { filter, is_left: false } = self.0 {
            // The interface may be gone, and the filter with it.
            let _gone = filter.remove();
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
            Ok(link) => Ok(AnswersAttached(Way::Link { _held: link })),
            Err(error) if error.raw_os_error() == Some(ENODEV) => Err(Error::NoInterface { ifindex }),
            // EINVAL from a kernel without TCX. Whatever else it is, the filter meets it, too, and says so.
            Err(_) => self.attach_filter(ifindex),
        }
    }

    /// Attaches the program as a filter, as [`Self::attach`] does where there is no other way.
    ///
    /// # Errors
    ///
    /// As [`Self::attach`]; [`Error::System`] if another program's filter has the place, or the interface's discipline is
    /// `ingress`, which takes filters for the way out and puts them onto the way in.
    pub fn attach_filter(&self, ifindex: i32) -> Result<AnswersAttached, Error> {
        let action = format!("attaching a filter to the way out of interface {ifindex}");
        let mut hook_out = hook(self.program_fd(), ifindex, TC_EGRESS);
        hook_out.create().map_err(|error| Error::from_libbpf(&action, &error))?;
        if let Ok(id) = hook_out.query()
            && is_others(id)
        {
            let source = io::Error::from(io::ErrorKind::AddrInUse);
            return Err(Error::System { action: format!("{action}: priority {PRIORITY} is taken"), source });
        }
        hook_out.attach().map_err(|error| Error::from_libbpf(&action, &error))?;
        let program = hook_out.query().map_err(|error| Error::from_libbpf(&action, &error))?;
        let filter = Filter { ifindex, program };
        let attached = AnswersAttached(Way::Filter { filter, is_left: false });
        if hook(self.program_fd(), ifindex, TC_INGRESS).query().ok() == Some(program) {
            let source = io::Error::from(io::ErrorKind::Unsupported);
            let reason = "its queueing discipline is ingress; replace that by clsact, which has the same and a way out";
            return Err(Error::System { action: format!("{action}: {reason}"), source });
        }
        Ok(attached)
    }
}
