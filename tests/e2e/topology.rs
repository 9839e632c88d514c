//! The topology of all tests: callers and a server, one wire between them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

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

    /// A port of the callers' IPv4 address.
    pub(crate) fn caller(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.link.near.ipv4, port)
    }

    /// SIPp in the callers' namespace.
    #[track_caller]
    pub(crate) fn call(&self, load: &CallLoad) -> Sipp {
        self.call_from(self.caller(SIP_PORT), load)
    }

    /// SIP port of another address on the callers' side, 10.77.0.N: another peer. Adds the address.
    #[track_caller]
    pub(crate) fn another_caller(&self, last: u8) -> SocketAddr {
        let address = Ipv4Addr::new(10, 77, 0, last);
        self.callers.ip(&["addr", "add", &format!("{address}/24"), "dev", self.link.near.device]);
        SocketAddr::new(address.into(), SIP_PORT)
    }

    /// SIPp from a given address of the callers' side.
    #[track_caller]
    pub(crate) fn call_from(&self, from: SocketAddr, load: &CallLoad) -> Sipp {
        Sipp::start(&self.callers, from, self.service(), load)
    }

    /// SIPp over IPv6; the link must have been planned with it.
    #[track_caller]
    pub(crate) fn call_ipv6(&self, load: &CallLoad) -> Sipp {
        let address = |ip: Option<IpAddr>| SocketAddr::new(ip.expect("a link with IPv6"), SIP_PORT);
        Sipp::start(&self.callers, address(self.link.near.ipv6), address(self.link.far.ipv6), load)
    }
}
