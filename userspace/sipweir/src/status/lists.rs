//! The lists of sources, as the status shows them.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lists::keeper::Counts;

/// Both lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lists {
    /// Whose packets are dropped; how many were is in `kernel`, by the reason `source_denied`.
    pub deny: List,
    /// Whose are not all the same.
    pub allow: List,
    /// Reloads of their files.
    pub reloads: u64,
    /// Reloads that were refused, and have changed nothing.
    pub reloads_refused: u64,
}

/// One of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct List {
    /// Networks on it.
    pub networks: u64,
    /// Networks whose time was over.
    pub expired: u64,
}

impl Lists {
    /// From what their keeper counts.
    #[must_use]
    pub fn read(counts: &Counts) -> Self {
        let list = |list| List { networks: counts.networks(list), expired: counts.expired(list) };
        Self {
            deny: list(xdp_prog::List::Deny),
            allow: list(xdp_prog::List::Allow),
            reloads: counts.reloads.get(),
            reloads_refused: counts.refused.get(),
        }
    }

    /// A line for people, if there is anything to say.
    pub(super) fn write_text(&self, out: &mut String) -> std::fmt::Result {
        if *self == Self::default() {
            return Ok(());
        }
        let Self { deny, allow, reloads, reloads_refused } = self;
        writeln!(
            out,
            "\nlists: {} networks denied, {} expired; {} allowed, {} expired; {reloads} reloads, {reloads_refused} refused",
            deny.networks, deny.expired, allow.networks, allow.expired
        )
    }
}
