//! The topology of all tests: callers and a server, one wire between them.

use std::net::{IpAddr, SocketAddr};

use sipweir_tests::{CallLoad, Link, LinkPlan, NetNs, Sipp};

/// Where the server listens, and the port from which SIPp calls.
pub(crate) const SIP_PORT: u16 = 5060;

/// Two namespaces with a wire.
#[derive(Debug)]
pub(crate) struct Topology {
    pub(crate) callers: NetNs,
    pub(crate) server: NetNs,
    pub(crate) link: Link,
}

impl Topology {
    #[track_caller]
    pub(crate) fn new(plan: &LinkPlan) -> Self {
        let (callers, server) = (NetNs::new("callers"), NetNs::new("server"));
        let link = Link::between(&callers, &server, plan);
        Self { callers, server, link }
    }

    /// The server's IPv4 address and SIP port.
    pub(crate) fn service(&self) -> SocketAddr {
        SocketAddr::new(self.link.far.ipv4, SIP_PORT)
    }

    /// SIPp in the callers' namespace.
    #[track_caller]
    pub(crate) fn call(&self, load: &CallLoad) -> Sipp {
        Sipp::start(&self.callers, SocketAddr::new(self.link.near.ipv4, SIP_PORT), self.service(), load)
    }

    /// SIPp over IPv6; the link must have been planned with it.
    #[track_caller]
    pub(crate) fn call_ipv6(&self, load: &CallLoad) -> Sipp {
        let address = |ip: Option<IpAddr>| SocketAddr::new(ip.expect("a link with IPv6"), SIP_PORT);
        Sipp::start(&self.callers, address(self.link.near.ipv6), address(self.link.far.ipv6), load)
    }
}
