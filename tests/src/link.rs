//! A veth pair between two namespaces: the wire of the tests.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::netns::NetNs;

/// How the wire and its ends are to be.
#[derive(Debug, Clone)]
pub struct LinkPlan {
    /// Name of the device at both ends.
    pub device: &'static str,
    /// Address of each end, in one /24.
    pub ipv4: [Ipv4Addr; 2],
    /// Address of each end, in one /64, if the link has IPv6 too.
    pub ipv6: Option<[Ipv6Addr; 2]>,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// RX and TX queues at both ends: XDP needs as many RX queues as the other end has TX queues.
    pub queues: u32,
}

impl Default for LinkPlan {
    fn default() -> Self {
        Self {
            device: "eth0",
            ipv4: [Ipv4Addr::new(10, 77, 0, 1), Ipv4Addr::new(10, 77, 0, 2)],
            ipv6: None,
            mtu: 1500,
            queues: 1,
        }
    }
}

impl LinkPlan {
    /// The same with IPv6 addresses too.
    #[must_use]
    pub fn with_ipv6(self) -> Self {
        let end = |number| Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, number);
        Self { ipv6: Some([end(1), end(2)]), ..self }
    }
}

/// One end of the wire.
#[derive(Debug, Clone)]
pub struct End {
    /// The device.
    pub device: &'static str,
    /// Its hardware address, as `ip` writes it.
    pub mac: String,
    /// Its IPv4 address.
    pub ipv4: IpAddr,
    /// Its IPv6 address, if asked for.
    pub ipv6: Option<IpAddr>,
}

/// A wire between two namespaces; it goes with them.
#[derive(Debug, Clone)]
pub struct Link {
    /// The callers' end.
    pub near: End,
    /// The server's end, where sipweir sits.
    pub far: End,
}

impl Link {
    /// Lays the wire: both ends up, addressed, and usable at once.
    ///
    /// # Panics
    /// If any `ip` command fails.
    #[track_caller]
    #[must_use]
    pub fn between(near: &NetNs, far: &NetNs, plan: &LinkPlan) -> Self {
        let (queues, mtu) = (plan.queues.to_string(), plan.mtu.to_string());
        let shape = ["mtu", &mtu, "numrxqueues", &queues, "numtxqueues", &queues];
        let add = [&["link", "add", plan.device], &shape[..], &["type", "veth", "peer", "name", plan.device]]
            .concat();
        near.ip(&[&add[..], &shape[..], &["netns", far.name()]].concat());
        Self { near: Self::set_up(near, plan, 0), far: Self::set_up(far, plan, 1) }
    }

    #[track_caller]
    fn set_up(namespace: &NetNs, plan: &LinkPlan, end: usize) -> End {
        let device = plan.device;
        namespace.ip(&["addr", "add", &format!("{}/24", plan.ipv4[end]), "dev", device]);
        if let Some(ipv6) = plan.ipv6 {
            // Without duplicate address detection, or the address is unusable for a second.
            namespace.ip(&["-6", "addr", "add", &format!("{}/64", ipv6[end]), "dev", device, "nodad"]);
        }
        namespace.ip(&["link", "set", device, "up"]);
        let mac = namespace.run(&["cat", &format!("/sys/class/net/{device}/address")]);
        End {
            device,
            mac: mac.trim().to_owned(),
            ipv4: plan.ipv4[end].into(),
            ipv6: plan.ipv6.map(|addresses| addresses[end].into()),
        }
    }
}
