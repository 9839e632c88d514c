//! What a running instance answers on its control socket: one arm for each [`Request`].
//!
//! Called on the threads of the control socket, several at once. What changes something is left to the owner of the instance:
//! `self.owner.carry_out(move |instance| instance.…)`, but for the lists of sources, which have a keeper of their own.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::current::Current;
use super::limit::LimitChange;
use super::owner::Owner;
use super::reload;
use super::view::View;
use crate::capture::{Capturing, Limits};
use crate::control::{Client, Request};
use crate::limit::rate_of;
use crate::list::{BothReloaded, Removed, Shown};
use crate::lists::file::parse_time;
use crate::lists::keeper::Handle;
use crate::lists::table::Until;
use crate::reload::Reloaded;

/// What the answers are made of.
pub(super) struct Requests {
    view: Arc<View>,
    current: Arc<Current>,
    owner: Owner,
    lists: Handle,
    capturing: Arc<Capturing>,
}

/// Tells the client what came of it, or why nothing did.
fn or_refuse<T: Serialize, E: Display>(mut client: Client, outcome: Result<T, E>) -> std::io::Result<()> {
    match outcome {
        Ok(document) => client.tell(&document),
        Err(why) => client.refuse(why),
    }
}

impl Requests {
    pub(super) const fn new(
        view: Arc<View>,
        current: Arc<Current>,
        owner: Owner,
        lists: Handle,
        capturing: Arc<Capturing>,
    ) -> Self {
        Self { view, current, owner, lists, capturing }
    }

    /// Carries out a request and tells the client.
    ///
    /// # Errors
    ///
    /// When the client has gone or takes too long.
    pub(super) fn answer(&self, request: Request, mut client: Client) -> std::io::Result<()> {
        match request {
            Request::Status {} => client.tell(&self.view.read()),
            Request::Reload { config, check } => self.reload(config, check, client),
            Request::LimitShow {} => {
                let current = self.current.get();
                let limits = current.service.iter().map(|(name, service)| (name, &service.limits));
                client.tell(&limits.collect::<BTreeMap<_, _>>())
            }
            Request::LimitSet { service, key, value, network } => match rate_of(&value) {
                Ok(rate) => {
                    let change = LimitChange { service, key, network, rate };
                    match self.owner.carry_out(move |instance| instance.set_limit(change)) {
                        // With its causes: what is not there has the names of what is.
                        Ok(outcome) => or_refuse(client, outcome.map_err(|error| format!("{error:#}"))),
                        Err(error) => client.refuse(error),
                    }
                }
                Err(wrong) => client.refuse(wrong),
            },
            Request::ListShow { list, after } => {
                or_refuse(client, self.lists.show(list.into(), after).map(Shown::from))
            }
            Request::ListAdd { list, network, until } => match until.as_deref().map(parse_time).transpose() {
                Ok(until) => {
                    let until = until.unwrap_or(Until::Ever);
                    or_refuse(client, self.lists.add(list.into(), network, until))
                }
                Err(wrong) => client.refuse(wrong),
            },
            Request::ListRemove { list, network } => {
                or_refuse(client, self.lists.remove(list.into(), network).map(|origin| Removed { origin }))
            }
            Request::ListReload {} => or_refuse(client, self.lists.reload(None).map(BothReloaded::from)),
            Request::Capture { filter, count, duration_ms } => {
                let limits = Limits { count, duration: duration_ms.map(Duration::from_millis) };
                self.capturing.start(&filter, limits, client)
            }
        }
    }

    fn reload(&self, file: Option<PathBuf>, check: bool, mut client: Client) -> std::io::Result<()> {
        let Some(file) = file.or_else(|| self.current.get().file.clone()) else {
            return client.refuse("this instance was configured by a program; name a file (--config)");
        };
        // Read here: the owner shall not wait for a disk.
        let next = match reload::read(&file) {
            Ok(next) => next,
            Err(problem) => return client.tell(&Reloaded::unusable(Some(file), problem)),
        };
        match self.owner.carry_out(move |instance| instance.reload(next, check)) {
            Ok(reloaded) => client.tell(&reloaded),
            Err(error) => client.refuse(error),
        }
    }
}
