//! Hand-off: how a message that is served reaches the SIP processor.
//!
//! - [`kernel`]: an unmodified server on this host; the packet re-enters the host's IP stack through a veth
//!   pair whose transmit end is fed by AF_XDP.
//! - [`embedded`]: a [`Processor`](crate::processor::Processor) in this process, behind a bounded queue.
//!
//! Both answer the same question before each message, how many more the server may get (its credit), and
//! both take a message whose marker is already removed. Nothing here decides who is served.

pub mod embedded;
pub mod kernel;

use overload::{Credit, Look};

/// The way to the server of one lane.
#[derive(Debug)]
pub enum Handoff {
    /// Through the worker's [`kernel::Egress`]; this part watches the server's receive queue.
    Kernel(kernel::Server),
    /// Into a processor of this process.
    Embedded(embedded::Exchange),
}

impl Handoff {
    /// Looks at the server and updates its credit. `in_flight` is what the hand-off device has not delivered yet.
    pub fn look(&mut self, credit: &mut Credit, in_flight: u32, now_ns: u64) -> Look {
        match self {
            Self::Kernel(server) => credit.look_kernel(now_ns, server.receive_queue(now_ns), in_flight),
            Self::Embedded(exchange) => credit.look_embedded(now_ns, exchange.places()),
        }
    }
}
