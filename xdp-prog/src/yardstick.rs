//! The cost of a program that only redirects, to measure the classifier's by.

use std::time::Duration;

use libbpf_rs::ProgramInput;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};

use crate::Error;
use crate::services::object_place;
use crate::skeleton::yardstick::{YardstickSkel, YardstickSkelBuilder};

/// The bare redirect, loaded.
pub struct Yardstick(YardstickSkel<'static>);

impl std::fmt::Debug for Yardstick {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Yardstick")
    }
}

impl Yardstick {
    /// Loads it. As with [`crate::Classifier::load`], the place of libbpf's object is never freed.
    ///
    /// # Errors
    ///
    /// [`Error::NotPermitted`], [`Error::NoMemory`], [`Error::Kernel`].
    pub fn load() -> Result<Self, Error> {
        let open = YardstickSkelBuilder::default()
            .open(object_place())
            .map_err(|error| Error::from_libbpf("opening the yardstick", &error))?;
        let loaded = open.load().map_err(|error| Error::from_libbpf("loading the yardstick", &error))?;
        Ok(Self(loaded))
    }

    /// The mean time of a run, over `repeat` runs on the same packet within the kernel.
    ///
    /// # Errors
    ///
    /// [`Error::Kernel`].
    pub fn time_run(&self, packet: &[u8], repeat: u32) -> Result<Duration, Error> {
        let input = ProgramInput { data_in: Some(packet), repeat, ..Default::default() };
        let output = self.0.progs.bare_redirect.test_run(input);
        output
            .map(|output| output.duration)
            .map_err(|error| Error::from_libbpf("timing the yardstick", &error))
    }
}
