//! One cap of a running instance gets another value; everything else stays as it is, and no file is read.

use anyhow::Context as _;

use super::Instance;
use crate::config::keys::{self, Difference};
use crate::config::{Config, LimitKey, Rate};
use crate::prefix::Prefix;
use crate::reload::{Changed, Outcome, Reloaded};

/// Which cap, and what it shall be.
#[derive(Debug, Clone)]
pub(super) struct LimitChange {
    pub(super) service: String,
    pub(super) key: LimitKey,
    /// For the sources of this network; none: for all that have no cap of their own.
    pub(super) network: Option<Prefix>,
    /// None: that of all others.
    pub(super) rate: Option<Rate>,
}

impl Instance {
    /// Has the workers go by another cap.
    ///
    /// # Errors
    ///
    /// A service that is not there, a cap that must have a value: nothing has changed.
    pub(super) fn set_limit(&mut self, change: LimitChange) -> anyhow::Result<Reloaded> {
        let LimitChange { service, key, network, rate } = change;
        let before = self.current.get();
        let mut next = Config::clone(&before);
        let names = || before.service.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let of_service = next.service.get_mut(&service);
        let of_service =
            of_service.with_context(|| format!("there is no service {service:?}; there is: {}", names()))?;
        of_service.limits.set(key, network, rate).map_err(anyhow::Error::msg)?;
        let changed: Vec<Changed> = keys::differences(&before, &next)?
            .into_iter()
            .map(|Difference { key, from, to, .. }| Changed { key, from, to })
            .collect();
        if !changed.is_empty() {
            let changes = self.changes_of_workers(&next)?;
            self.tell_workers(next, changes);
            let keys: Vec<&str> = changed.iter().map(|changed| changed.key.as_str()).collect();
            tracing::info!(keys = keys.join(" "), "a cap was changed by command");
        }
        Ok(Reloaded { outcome: Outcome::Applied, changed, ..Reloaded::default() })
    }
}
