//! Seeing what the servers answer: the program on the way out, the table of picked requests, and who reads what is counted.
//!
//! None of it is needed to guard a service: where it cannot be had, the log says why, and the run goes on.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use afxdp::MappedWords;
use anyhow::Context as _;
use xdp_prog::{AWAITED_PLACES, AnswersAttached, Settings};

use super::plan::Plan;
use crate::config::{Config, HandoffKind, Service};
use crate::netdev;
use crate::picks::Picks;
use crate::side_door::SideDoor;

/// What sees the answers of an instance.
#[derive(Debug)]
pub(super) struct Answers {
    /// Detached before the program is let go.
    attached: AnswersAttached,
    program: xdp_prog::Answers,
    awaited: Arc<MappedWords>,
    branch_seed: u64,
}

/// Whether the answers of a service's server leave by the kernel, and are wanted.
pub(super) fn is_watched(service: &Service) -> bool {
    service.handoff == HandoffKind::Kernel && service.server.watch_answers
}

impl Answers {
    /// Puts the program onto the guarded interface. `None`: no service wants it, or it cannot be had, which is said.
    pub(super) fn start(
        config: &Config,
        plan: &Plan,
        settings: &Settings,
        interface: &netdev::Interface,
    ) -> Option<Self> {
        let wanted: Vec<bool> = config.service.values().map(is_watched).collect();
        let watched = (0_u32..).zip(&plan.lane_of_service);
        let watched =
            watched.filter(|(_, lane)| wanted[usize::from(**lane)]).fold(0, |bits, (n, _)| bits | 1 << n);
        if watched == 0 {
            return None;
        }
        match Self::attach(settings, watched, interface) {
            Ok(answers) => Some(answers),
            Err(error) => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "the servers' answers are not seen; all else goes on. With server.watch_answers = false it is not tried"
                );
                None
            }
        }
    }

    fn attach(settings: &Settings, watched: u64, interface: &netdev::Interface) -> anyhow::Result<Self> {
        let branch_seed = rand::random();
        let program = xdp_prog::Answers::load(settings, watched, branch_seed)?;
        let awaited = MappedWords::map(program.awaited_fd(), AWAITED_PLACES);
        let awaited = Arc::new(awaited.context("cannot map the table of picked requests")?);
        let attached = program.attach(interface.index.cast_signed())?;
        Ok(Self { attached, program, awaited, branch_seed })
    }

    /// What sipweir sends itself by the side door is no server's answer.
    pub(super) fn leave_out(&mut self, door: &SideDoor) -> anyhow::Result<()> {
        Ok(self.program.set_own_sockets(door.sending_sockets()?)?)
    }

    /// The picks of one of `workers`.
    pub(super) fn picks(&self, workers: u32) -> Picks {
        Picks::new(Arc::clone(&self.awaited), self.branch_seed, workers)
    }

    /// `tcx` or `clsact`.
    pub(super) const fn way(&self) -> &'static str {
        self.attached.way()
    }

    pub(super) const fn attached_mut(&mut self) -> &mut AnswersAttached {
        &mut self.attached
    }

    pub(super) fn program_fd(&self) -> BorrowedFd<'_> {
        self.program.program_fd()
    }

    pub(super) fn reader(&self) -> anyhow::Result<xdp_prog::AnswerReader> {
        self.program.counter_reader().context("cannot read what is counted of answers")
    }
}
