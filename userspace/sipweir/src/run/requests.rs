//! What a running instance answers on its control socket: one arm for each [`Request`].
//!
//! Called on the threads of the control socket, several at once. What changes something is left to the owner of the instance:
//! `self.owner.carry_out(move |instance| instance.…)`.

use std::path::PathBuf;
use std::sync::Arc;

use super::current::Current;
use super::owner::Owner;
use super::reload;
use super::view::View;
use crate::control::{Client, Request};
use crate::reload::Reloaded;

/// What the answers are made of.
pub(super) struct Requests {
    view: Arc<View>,
    current: Arc<Current>,
    owner: Owner,
}

impl Requests {
    pub(super) fn new(view: Arc<View>, current: Arc<Current>, owner: Owner) -> Self {
        Self { view, current, owner }
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
