//! Network devices: finding the one to serve, and making the hand-off pair behind it.
//!
//! [`Interface`] answers what the set-up must know of a network device (index, MAC, MTU, queues in use). [`Handoff`]
//! makes the veth pair by which packets re-enter the kernel on their way to the server's own socket, with the
//! settings without which the kernel would drop them.
//!
//! Everything acts in the network namespace of the *calling thread*: sockets are opened there, and `/proc/sys/net`
//! follows the thread too. `/sys/class/net` does not (it shows the namespace of whoever mounted it) and is therefore
//! not used. Not in here: XDP programs, AF_XDP sockets, and anything that runs once packets flow.

mod error;
mod ethtool;
mod generic;
mod handoff;
mod interface;
mod link;
pub(crate) mod netlink;
mod nftables;
mod stack;
mod sysctl;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod traffic;
mod xdp;

pub use error::Error;
pub use ethtool::{Channels, Ethtool, Offloads, Rings};
pub use handoff::{Endpoint, Handoff};
pub use interface::{Interface, addresses_of_host, can_make_veth, has_ingress_filters};
pub use nftables::{ChainName, Firewall, InputRule, Pattern, Question};
pub use stack::Stack;
pub use traffic::Traffic;
pub use xdp::{XdpFeatures, xdp_programs};
