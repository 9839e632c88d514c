//! What the driver counted: an account that neither sipweir nor a rival has written.

use anyhow::Context as _;
use sipweir_tests::NetNs;

/// Packets that a veth device has received, by what its XDP program did with them (`ethtool -S`), summed over queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    /// Seen by the XDP program.
    pub(crate) packets: u64,
    pub(crate) dropped: u64,
    /// To an AF_XDP socket.
    pub(crate) redirected: u64,
    /// For an AF_XDP socket, and lost at its full ring.
    pub(crate) lost: u64,
}

/// Packets of a namespace's own that may cross a wire during a round: neighbour and multicast messages of IPv6.
const STRAYS_MAX: u64 = 16;

/// Packets that the ring of a veth pair holds (`VETH_RING_SIZE` in the kernel's drivers/net/veth.c).
const WIRE_RING: u64 = 256;

impl Received {
    pub(crate) fn of(namespace: &NetNs, device: &str) -> anyhow::Result<Self> {
        parse(&namespace.run(&["ethtool", "-S", device]))
    }

    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            packets: self.packets - earlier.packets,
            dropped: self.dropped - earlier.dropped,
            redirected: self.redirected - earlier.redirected,
            lost: self.lost - earlier.lost,
        }
    }

    /// Whether so many packets were sent, and what is here has arrived of them. The last may still be in the wire's ring,
    /// and strays may have come besides.
    pub(crate) fn is_of(&self, sent: u64) -> bool {
        (sent.saturating_sub(WIRE_RING)..=sent + STRAYS_MAX).contains(&self.packets)
    }
}

fn parse(text: &str) -> anyhow::Result<Received> {
    let sum = |name: &str| sum_over_queues(text, "rx_queue_", name);
    Ok(Received {
        packets: sum("xdp_packets")?,
        dropped: sum("xdp_drops")?,
        redirected: sum("xdp_redirect")?,
        lost: sum("drops")?,
    })
}

/// Frames that were redirected to a device of the calling thread's namespace and did not fit into its peer's ring.
pub(crate) fn refused(device: &str) -> anyhow::Result<u64> {
    let text = sipweir_tests::command::run(&["ethtool", "-S", device]);
    sum_over_queues(&text, "tx_queue_", "xdp_xmit_errors")
}

/// Lines like `rx_queue_0_xdp_packets: 10`.
fn sum_over_queues(text: &str, prefix: &str, name: &str) -> anyhow::Result<u64> {
    let values = text.lines().filter_map(|line| {
        let (key, value) = line.trim().split_once(": ")?;
        let (_queue, key) = key.strip_prefix(prefix)?.split_once('_')?;
        (key == name)
            .then(|| value.trim().parse::<u64>().with_context(|| format!("`ethtool -S` says {line:?}")))
    });
    let values = values.collect::<anyhow::Result<Vec<u64>>>()?;
    anyhow::ensure!(!values.is_empty(), "`ethtool -S` does not name {prefix}…{name}: {text}");
    Ok(values.iter().sum())
}

/// Packets that have arrived at a device without an XDP program: answers to the callers.
pub(crate) fn arrived(namespace: &NetNs, device: &str) -> anyhow::Result<u64> {
    let text = namespace.ip(&["-s", "-j", "link", "show", "dev", device]);
    let links: serde_json::Value = serde_json::from_str(&text).context("`ip -j` writes no JSON")?;
    links
        .pointer("/0/stats64/rx/packets")
        .and_then(serde_json::Value::as_u64)
        .context("`ip -s` names no packets")
}

/// UDP datagrams of a namespace: read by programs, and lost at full sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Datagrams {
    pub(crate) read: u64,
    pub(crate) lost: u64,
}

impl Datagrams {
    pub(crate) fn of(namespace: &NetNs) -> anyhow::Result<Self> {
        parse_snmp(&namespace.run(&["cat", "/proc/net/snmp"]))
    }
}

/// Two lines a protocol: names, and values in their order.
fn parse_snmp(text: &str) -> anyhow::Result<Datagrams> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) =
        (lines.next().context("no UDP counters")?, lines.next().context("no UDP counters")?);
    let value_of = |wanted: &str| {
        let found = names.split(' ').zip(values.split(' ')).find(|(name, _)| *name == wanted);
        found.and_then(|(_, value)| value.parse().ok()).with_context(|| format!("no UDP counter {wanted}"))
    };
    Ok(Datagrams { read: value_of("InDatagrams")?, lost: value_of("RcvbufErrors")? })
}

#[cfg(test)]
mod tests {
    use super::{Datagrams, Received, parse, parse_snmp, sum_over_queues};

    #[test]
    fn queues_are_summed_and_transmission_is_left_out() {
        let text = "NIC statistics:\n     peer_ifindex: 2\n     rx_queue_0_xdp_packets: 10\n     rx_queue_0_bytes: 99\n\
             \x20    rx_queue_0_drops: 1\n     rx_queue_0_xdp_redirect: 4\n     rx_queue_0_xdp_drops: 6\n\
             \x20    rx_queue_1_xdp_packets: 5\n     rx_queue_1_xdp_drops: 5\n     tx_queue_0_xdp_xmit: 7\n";
        let expected = Received { packets: 15, dropped: 11, redirected: 4, lost: 1 };
        assert_eq!(parse(text).expect("counters"), expected);
        assert_eq!(sum_over_queues(text, "tx_queue_", "xdp_xmit").expect("a counter"), 7);
        assert!(parse("no stats available\n").is_err());
    }

    #[test]
    fn datagrams_are_found_by_name() {
        let text = "Ip: Forwarding\nIp: 1\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\n\
             Udp: 12 1 2 3 9\nUdpLite: InDatagrams\nUdpLite: 0\n";
        assert_eq!(parse_snmp(text).expect("counters"), Datagrams { read: 12, lost: 9 });
        assert!(parse_snmp("Tcp: a\nTcp: 1\n").is_err());
    }
}
