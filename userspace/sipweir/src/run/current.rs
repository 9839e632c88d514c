//! The configuration that holds, for everybody who asks but the workers.

use std::sync::{Arc, PoisonError, RwLock};

use crate::config::Config;

/// Replaced as a whole by a reload.
#[derive(Debug)]
pub(super) struct Current(RwLock<Arc<Config>>);

impl Current {
    pub(super) fn new(config: &Config) -> Self {
        Self(RwLock::new(Arc::new(config.clone())))
    }

    pub(super) fn get(&self) -> Arc<Config> {
        // Nobody can panic between the two steps of an assignment.
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set(&self, config: Config) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }
}
