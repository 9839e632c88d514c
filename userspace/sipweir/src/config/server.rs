//! The server behind a service.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Span;

/// The local server of a `kernel` hand-off.
#[derive(Debug, Clone, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Server {
    /// Messages that may wait in the server's own receive queue. Too small: the server idles between two
    /// looks (one per 200 us). Too large: that queue is a second FIFO without priority, and the default
    /// socket buffer holds only about 90. Default 32.
    pub queue_target: u32,
    /// The server counts as down after its port had no socket for this long. Default 100 ms.
    pub down_after: Span,
    /// Count what the server answers, and how soon, as it leaves by the guarded interface. Default true; where the
    /// kernel cannot, the log says so and all else goes on.
    pub watch_answers: bool,
}

impl Default for Server {
    fn default() -> Self {
        Self { queue_target: 32, down_after: Span::from_millis(100), watch_answers: true }
    }
}
