//! What captures of a running instance need, gathered when it is set up.

use std::sync::Arc;

use anyhow::Context as _;

use super::Instance;
use crate::capture::{Capturing, Now, Samples};

impl Instance {
    /// What captures need. Its threads end with the instance.
    pub(super) fn capturing(&self) -> anyhow::Result<Arc<Capturing>> {
        let samples = Samples::of(&self.classifier).context("cannot hold on to the XDP program's samples")?;
        Ok(Arc::new(Capturing {
            interface: self.interface.name.clone(),
            services: self.lanes.iter().map(|(name, _)| name.clone()).collect(),
            lane_of_service: self.lane_of_service.clone(),
            workers: self.workers.iter().map(|worker| Arc::clone(&worker.counters)).collect(),
            samples,
            now: Now::default(),
            stop: Arc::clone(&self.stop),
        }))
    }
}
