//! Everything that can keep a run from starting or from going on, by what the operator must change.

use std::io;
use std::net::SocketAddr;

/// Why a run of the caller or the answerer did not start or had to end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is out of its range or contradicts another one.
    #[error("{key}: {problem}")]
    Config {
        /// The setting, as spelled in the configuration.
        key: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// A client or server socket could not be opened.
    #[error(
        "cannot open a UDP socket on {address}: {source}; is the address on this host, the port free, `ulimit -n` high enough?"
    )]
    Socket {
        /// The local address asked for.
        address: SocketAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// There is no route to the target, or connecting to it is forbidden.
    #[error("cannot reach {target} from {address}: {source}")]
    Connect {
        /// The target of the load.
        target: SocketAddr,
        /// The local address of the socket.
        address: SocketAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The event loop lost its means of waiting.
    #[error("cannot wait for answers: {source}")]
    Wait {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The thread could not be bound to the core asked for.
    #[error("cannot pin the caller to core {core}: {source}")]
    Pin {
        /// The core asked for.
        core: usize,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A server thread could not be started.
    #[error("cannot start the answerer's thread: {source}")]
    Thread {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}
