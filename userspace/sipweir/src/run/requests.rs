//! What a running instance answers on its control socket: one arm for each [`Request`].
//!
//! Called on the threads of the control socket, several at once; the workers are never waited for here.

use std::sync::Arc;

use super::view::View;
use crate::control::{Client, Request};

/// What the answers are made of.
pub(super) struct Requests {
    view: Arc<View>,
}

impl Requests {
    pub(super) fn new(view: Arc<View>) -> Self {
        Self { view }
    }

    /// Carries out a request and tells the client.
    ///
    /// # Errors
    ///
    /// When the client has gone or takes too long.
    pub(super) fn answer(&self, request: Request, mut client: Client) -> std::io::Result<()> {
        match request {
            Request::Status {} => client.tell(&self.view.read()),
        }
    }
}
