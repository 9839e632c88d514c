//! What only the kernel can put together passes the gate too: fragments, IP options, stacked devices.
//!
//! The server is a plain socket, so that every byte and every copy is seen.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};
use sipweir_tests::{LinkPlan, Sipweir, message, wait_until};

use crate::guard::{assert_nothing_left, configuration, end, guard, has_program, kernel_packets};
use crate::topology::{SIP_PORT, Topology};

/// Where the callers send from.
const CALLER_PORT: u16 = 5071;

/// An INVITE of exactly `len` bytes.
fn invite(from: SocketAddr, to: SocketAddr, number: u64, len: usize) -> Vec<u8> {
    let of = |padding: usize| message::request("INVITE", from, to, number, "", padding);
    let padding = (0..).find(|padding| of(len - of(0).len() - padding).len() == len).expect("a padding");
    of(len - of(0).len() - padding)
}

/// A server's socket and a caller's, at these addresses.
struct Ends {
    server: UdpSocket,
    caller: UdpSocket,
    from: SocketAddr,
    to: SocketAddr,
}

impl Ends {
    #[track_caller]
    fn at(topology: &Topology, near: IpAddr, far: IpAddr) -> Self {
        let (from, to) = (SocketAddr::new(near, CALLER_PORT), SocketAddr::new(far, SIP_PORT));
        let bound = |address: SocketAddr| {
            let socket = UdpSocket::bind(address).unwrap_or_else(|error| panic!("bind {address}: {error}"));
            socket.set_read_timeout(Some(Duration::from_secs(5))).expect("time-out");
            socket
        };
        Self {
            server: topology.server.inside(|| bound(to)),
            caller: topology.callers.inside(|| bound(from)),
            from,
            to,
        }
    }

    #[track_caller]
    fn ipv4(topology: &Topology) -> Self {
        Self::at(topology, topology.link.near.ipv4, topology.link.far.ipv4)
    }

    #[track_caller]
    fn send(&self, datagram: &[u8]) {
        assert_eq!(self.caller.send_to(datagram, self.to).expect("send"), datagram.len());
    }

    /// The next datagram at the server is this one, from the caller.
    #[track_caller]
    fn arrives(&self, datagram: &[u8]) {
        let mut buffer = vec![0; 1 << 16];
        let (len, source) = self.server.recv_from(&mut buffer).expect("a datagram at the server");
        assert_eq!(source, self.from);
        assert!(
            buffer[..len] == *datagram,
            "{len} bytes: {}",
            String::from_utf8_lossy(&buffer[..len.min(300)])
        );
    }

    /// An INVITE of each length, and each arrives once.
    #[track_caller]
    fn arrive_whole(&self, lengths: &[usize]) {
        for (number, len) in (0..).zip(lengths) {
            let datagram = invite(self.from, self.to, number, *len);
            self.send(&datagram);
            self.arrives(&datagram);
        }
    }
}

#[track_caller]
fn originals(sipweir: &mut Sipweir) -> (u64, u64) {
    let received = sipweir.number("/services/main/received/original");
    (received, sipweir.number("/services/main/outcomes/original/handed_over"))
}

#[test]
fn a_fragmented_invite_passes_the_gate_and_arrives_whole_with_its_source() {
    let topology = Topology::new(&LinkPlan::default().with_ipv6());
    let link = &topology.link;
    let pairs = [
        (link.near.ipv4, link.far.ipv4),
        (link.near.ipv6.expect("address"), link.far.ipv6.expect("address")),
    ];
    let ends = pairs.map(|(near, far)| Ends::at(&topology, near, far));
    let mut sipweir = guard(&topology);
    // Between two that come by the rings; the frame is 2048 bytes.
    let lengths = [600, 2800, 1400, 1600, 60_000, 2800, 600];
    for ends in &ends {
        ends.arrive_whole(&lengths);
    }
    let many = 2 * lengths.len() as u64;
    wait_until("all are counted", Duration::from_secs(5), || originals(&mut sipweir) == (many, many));
    let status = sipweir.status();
    // 1600 is a fragment on this wire as well.
    assert_eq!(
        status.pointer("/side_door/received").and_then(serde_json::Value::as_u64),
        Some(8),
        "{status:#}"
    );
    assert_eq!(
        status.pointer("/side_door/assigned").and_then(serde_json::Value::as_u64),
        Some(8),
        "{status:#}"
    );
    // Two packets each, but 41 and 42 for the long one: 1480 bytes fit into a fragment of IPv4, 1448 into one of IPv6.
    assert_eq!(kernel_packets(&status, Some("fragment")), (3 * 2 + 41) + (3 * 2 + 42), "{status:#}");
    end(sipweir, &topology);
    // After the end the kernel delivers them, as before the start.
    ends[0].arrive_whole(&[2800]);
}

#[test]
fn in_overload_a_fragmented_invite_is_refused_and_does_not_reach_the_server() {
    let topology = Topology::new(&LinkPlan::default().with_ipv6());
    let link = &topology.link;
    let v4 = Ends::ipv4(&topology);
    let v6 = Ends::at(&topology, link.near.ipv6.expect("address"), link.far.ipv6.expect("address"));
    // The server never takes anything out of its sockets, so what it has been given stays there.
    let gate = "[service.main.gate]\nlow = 1\nhigh = 2\nbuffer = 40\nadmit = 0.0\n";
    let mut sipweir = Sipweir::start(&topology.server, &format!("{}{gate}", configuration()));
    for number in 100..140 {
        v4.send(&invite(v4.from, v4.to, number, 600));
    }
    wait_until("the gate is closed", Duration::from_secs(5), || {
        sipweir.status().pointer("/services/main/gate/state").is_some_and(|state| state == "overload")
    });
    let (_, handed_over) = originals(&mut sipweir);
    for ends in [&v4, &v6] {
        for (number, len) in [(1, 2800), (2, 60_000)] {
            ends.send(&invite(ends.from, ends.to, number, len));
            let branch = format!("branch=z9hG4bK-{CALLER_PORT}-{number}");
            // The answers to those before come first.
            let answer = loop {
                let mut buffer = [0; 2048];
                let (len, source) = ends.caller.recv_from(&mut buffer).expect("an answer");
                assert_eq!(source, ends.to);
                let text = String::from_utf8_lossy(&buffer[..len]).into_owned();
                if text.lines().any(|line| line.ends_with(&branch) || line.contains(&format!("{branch};"))) {
                    break text;
                }
            };
            assert!(answer.starts_with("SIP/2.0 503 "), "{answer}");
        }
    }
    assert_eq!(originals(&mut sipweir).1, handed_over, "{:#}", sipweir.status());
    assert_eq!(sipweir.number("/side_door/received"), 4);
    // What lies at the server is short.
    for ends in [&v4, &v6] {
        ends.server.set_nonblocking(true).expect("flag");
        let mut buffer = vec![0; 1 << 16];
        while let Ok(len) = ends.server.recv(&mut buffer) {
            assert_eq!(len, 600);
        }
    }
    end(sipweir, &topology);
}

#[test]
fn after_kill_9_fragmented_invites_reach_the_server_and_a_new_start_guards_them_again() {
    let topology = Topology::new(&LinkPlan::default());
    let ends = Ends::ipv4(&topology);
    let mut sipweir = guard(&topology);
    ends.arrive_whole(&[2800]);
    assert_eq!(sipweir.number("/side_door/received"), 1);
    sipweir.kill();
    wait_until("nothing is attached", Duration::from_secs(1), || !has_program(&topology));
    ends.arrive_whole(&[2800, 60_000, 600]);
    let mut again = guard(&topology);
    ends.arrive_whole(&[2800, 60_000, 600]);
    assert_eq!(again.number("/side_door/received"), 2);
    end(again, &topology);
    assert_nothing_left(&topology);
}

#[test]
fn a_request_with_ip_options_passes_the_gate() {
    let topology = Topology::new(&LinkPlan::default());
    let ends = Ends::ipv4(&topology);
    let mut sipweir = guard(&topology);
    let datagram = invite(ends.from, ends.to, 1, 700);
    let (IpAddr::V4(from), IpAddr::V4(to)) = (ends.from.ip(), ends.to.ip()) else { panic!("no IPv4") };
    let packet = with_options(from, to, &datagram);
    let raw = topology
        .callers
        .inside(|| socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::RAW)).expect("a raw socket"));
    sendto(&raw, &packet, SendFlags::empty(), &SocketAddr::new(to.into(), 0)).expect("send");
    ends.arrives(&datagram);
    wait_until("it is counted", Duration::from_secs(5), || originals(&mut sipweir) == (1, 1));
    assert_eq!(sipweir.number("/side_door/received"), 1);
    assert_eq!(kernel_packets(&sipweir.status(), Some("exotic")), 1);
    end(sipweir, &topology);
}

/// An IPv4 packet with four bytes of options (three NOPs and the end, RFC 791 section 3.1) and no UDP checksum. The
/// kernel fills in length, identification and header checksum.
fn with_options(from: Ipv4Addr, to: Ipv4Addr, datagram: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x46, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend([1, 1, 1, 0]);
    packet.extend(CALLER_PORT.to_be_bytes());
    packet.extend(SIP_PORT.to_be_bytes());
    packet.extend((8 + datagram.len() as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(datagram);
    packet
}

#[test]
fn fragments_to_a_stacked_device_pass_the_gate_and_what_comes_by_loopback_does_not() {
    let topology = Topology::new(&LinkPlan::default());
    // A macvlan is to the side door what a VLAN is, and is there on kernels without VLANs.
    topology.server.ip(&["link", "add", "link", "eth0", "name", "upper0", "type", "macvlan"]);
    topology.server.ip(&["link", "set", "upper0", "up"]);
    let addresses = [Ipv4Addr::new(10, 78, 0, 1), Ipv4Addr::new(10, 78, 0, 2)];
    let places = [(&topology.callers, "eth0"), (&topology.server, "upper0")];
    for ((namespace, device), address) in places.into_iter().zip(addresses) {
        namespace.ip(&["addr", "add", &format!("{address}/24"), "dev", device]);
    }
    let ends = Ends::at(&topology, addresses[0].into(), addresses[1].into());
    let mut sipweir = guard(&topology);
    ends.arrive_whole(&[600, 2800]);
    assert_eq!(sipweir.number("/side_door/received"), 1);
    let local = topology.server.inside(|| UdpSocket::bind((addresses[1], CALLER_PORT)).expect("bind"));
    local.send_to(b"by loopback", ends.to).expect("send");
    let mut buffer = [0; 64];
    let (len, _) = ends.server.recv_from(&mut buffer).expect("a datagram");
    assert_eq!(&buffer[..len], b"by loopback");
    assert_eq!(sipweir.number("/side_door/received"), 1);
    let status = sipweir.terminate();
    assert!(status.success(), "{}", sipweir.describe());
}

#[test]
fn an_embedded_processor_answers_a_fragmented_request() {
    let topology = Topology::new(&LinkPlan::default().with_ipv6());
    let link = &topology.link;
    let embedded = configuration().replace("\"kernel\"", "\"embedded\"");
    let sipweir = Sipweir::start(&topology.server, &embedded);
    for (near, far) in
        [(link.near.ipv4, link.far.ipv4), (link.near.ipv6.expect("address"), link.far.ipv6.expect("address"))]
    {
        let (from, to) = (SocketAddr::new(near, CALLER_PORT), SocketAddr::new(far, SIP_PORT));
        let caller = topology.callers.inside(|| UdpSocket::bind(from).expect("bind"));
        caller.set_read_timeout(Some(Duration::from_secs(5))).expect("time-out");
        for (number, len) in [(1, 600), (2, 2800), (3, 60_000)] {
            caller.send_to(&invite(from, to, number, len), to).expect("send");
            let mut buffer = [0; 2048];
            let (length, source) = caller
                .recv_from(&mut buffer)
                .unwrap_or_else(|error| panic!("{len} bytes from {from}: {error}"));
            assert_eq!(source, to);
            assert!(
                buffer[..length].starts_with(b"SIP/2.0 200 "),
                "{}",
                String::from_utf8_lossy(&buffer[..length])
            );
        }
    }
    end(sipweir, &topology);
}
