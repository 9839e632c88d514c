//! `sipweir model notifications`: presence notifications through a token bucket.

use ::model::notifications::Notifications;
use serde::Serialize;

use super::table::Table;
use super::{Answer, ModelError};

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Args {
    /// Updates of one presentity per second.
    #[arg(long, value_name = "PER_SECOND", allow_hyphen_values = true)]
    update_rate: f64,
    /// Tokens per second.
    #[arg(long, value_name = "PER_SECOND", allow_hyphen_values = true)]
    token_rate: f64,
    /// Tokens that the bucket holds.
    #[arg(long, value_name = "TOKENS", allow_hyphen_values = true)]
    depth: u32,
}

/// The keys of the JSON.
#[derive(Debug, Serialize)]
pub(super) struct NotificationsAnswer {
    valid_access_probability: f64,
    notification_rate: f64,
}

impl Args {
    pub(super) fn solve(&self) -> Result<NotificationsAnswer, ModelError> {
        let found = Notifications::new(self.update_rate, self.token_rate, self.depth)?.solve();
        Ok(NotificationsAnswer {
            valid_access_probability: found.valid_access_probability,
            notification_rate: found.notification_rate_per_s,
        })
    }
}

impl Answer for NotificationsAnswer {
    fn table(&self) -> Table {
        Table::default()
            .number(
                "valid_access_probability",
                self.valid_access_probability,
                "a watcher sees the newest update",
            )
            .rate("notification_rate", self.notification_rate, "notifications sent")
    }
}
