//! Setting up the side door: program, sockets, and the way back for what is larger than a frame.

use std::os::fd::BorrowedFd;

use anyhow::Context as _;
use sip::Services;
use xdp_prog::{Settings, SourceLists};

use crate::config::Config;
use crate::local::LocalAddresses;
use crate::netdev;
use crate::side_door::SideDoor;

/// The worker that has the side door. Any could; there always is a queue 0.
pub(super) const WORKER: u32 = 0;

/// The side door of an instance.
pub(super) struct Door {
    program: xdp_prog::SideDoor,
    /// Open while this is there.
    attached: Option<xdp_prog::SideDoorAttached>,
}

impl Door {
    /// Loads the program for the guarded interface and what is stacked on it now; it asks the classifier's lists.
    pub(super) fn load(settings: &Settings, devices: &[u32], lists: &SourceLists) -> anyhow::Result<Self> {
        let program = xdp_prog::SideDoor::load(settings, devices, lists)?;
        Ok(Self { program, attached: None })
    }

    /// Tells the program the host's addresses: what comes from them is not for us.
    pub(super) fn set_local_addresses(&mut self, addresses: &LocalAddresses) -> anyhow::Result<()> {
        Ok(self.program.set_local_addresses(addresses.iter().collect())?)
    }

    /// Tells the program which services are only watched: their datagrams are not for us.
    pub(super) fn change(&mut self, settings: &Settings) -> anyhow::Result<()> {
        Ok(self.program.change(settings)?)
    }

    /// Opens the sockets for the worker and enters them into the program's map.
    pub(super) fn sockets(
        &self,
        config: &Config,
        settings: &Settings,
        interface: &netdev::Interface,
    ) -> anyhow::Result<SideDoor> {
        let services = Services::new(settings.services.iter().map(|service| (service.ip, service.port)));
        let door = SideDoor::open(config.frames.large as usize, interface.index)?.serving(services);
        for (family, socket) in door.sockets() {
            self.program.set_socket(family, socket)?;
        }
        for (family, sink) in door.sinks() {
            self.program.set_sink(family, sink)?;
        }
        Ok(door)
    }

    /// Lets datagrams in.
    pub(super) fn open(&mut self) -> anyhow::Result<()> {
        self.attached = Some(self.program.attach()?);
        Ok(())
    }

    /// Lets no more datagrams in: the server gets them.
    pub(super) fn close(&mut self) {
        self.attached = None;
    }

    pub(super) fn program_fd(&self) -> BorrowedFd<'_> {
        self.program.program_fd()
    }

    pub(super) fn counter_reader(&self) -> anyhow::Result<xdp_prog::SideDoorCounterReader> {
        self.program.counter_reader().context("cannot read the side door's counters")
    }
}
