//! Against the kernel, in namespaces of their own; needs root.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::BindToDevice;
use proptest::prelude::*;
use rustix::net::sockopt::{
    set_ipv6_v6only, set_socket_recv_buffer_size, set_socket_reuseaddr, set_socket_reuseport,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use super::watch::EXACT_MAX;
use super::{Observation, Service, SockDiag, Watch, wire};
use crate::netdev::testing::{in_nested_namespace, in_new_namespace, run};

const PORT: u16 = 5060;
const SECOND_NS: u64 = 1_000_000_000;

fn service(address: &str) -> Service {
    let address = (address != "*").then(|| address.parse().unwrap());
    Service { address, port: PORT, device: 0 }
}

fn watch(address: &str) -> Watch {
    Watch::open(service(address), SECOND_NS).unwrap()
}

/// A server's socket; with `reuseport` and `v6_only` as its options.
fn server(address: &str, reuseport: bool, v6_only: bool) -> UdpSocket {
    let address: SocketAddr = address.parse().unwrap();
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None).unwrap();
    set_socket_reuseport(&fd, reuseport).unwrap();
    if address.is_ipv6() {
        set_ipv6_v6only(&fd, v6_only).unwrap();
    }
    bind(&fd, &address).unwrap();
    let socket = UdpSocket::from(fd);
    socket.set_nonblocking(true).unwrap();
    socket
}

fn send(count: usize, payload_len: usize, destination: &str) {
    let local = if destination.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(local).unwrap();
    for _ in 0..count {
        socket.send_to(&vec![b'x'; payload_len], destination).unwrap();
    }
}

fn drain(socket: &UdpSocket) -> usize {
    let mut buffer = [0; 2048];
    std::iter::from_fn(|| socket.recv(&mut buffer).ok()).count()
}

#[test]
fn waiting_datagrams_are_seen_growing_linearly_and_gone_once_read() {
    in_new_namespace(|| {
        let server = server("127.0.0.1:5060", false, false);
        let mut watch = watch("127.0.0.1");
        let empty = watch.receive_queue(0).unwrap();
        assert_eq!((empty.sockets, empty.bytes, empty.drops), (1, 0, 0));
        assert!(empty.limit_bytes > 0);
        let mut bytes = vec![0];
        for now_ns in 1..=10 {
            send(5, 600, "127.0.0.1:5060");
            bytes.push(watch.receive_queue(now_ns).unwrap().bytes);
        }
        assert!(bytes[1] >= 5 * 600, "{bytes:?}");
        assert!(bytes.windows(2).all(|pair| pair[1] - pair[0] == bytes[1]), "{bytes:?}");
        assert_eq!(drain(&server), 50);
        assert_eq!(watch.receive_queue(11).unwrap(), empty);
    });
}

#[test]
fn datagrams_beyond_the_buffer_are_counted_as_drops() {
    in_new_namespace(|| {
        let server = server("127.0.0.1:5060", false, false);
        set_socket_recv_buffer_size(&server, 8 * 1024).unwrap();
        let mut watch = watch("127.0.0.1");
        watch.receive_queue(0).unwrap();
        send(100, 600, "127.0.0.1:5060");
        let full = watch.receive_queue(1).unwrap();
        let waiting = drain(&server) as u64;
        assert!(waiting > 0 && full.bytes > 0 && full.bytes <= full.limit_bytes + 4096, "{full:?}");
        assert_eq!(full.drops, 100 - waiting);
        assert_eq!(
            watch.receive_queue(2 * SECOND_NS).unwrap().drops,
            full.drops,
            "a rescan counts none twice"
        );
    });
}

#[test]
fn sockets_that_share_the_port_are_summed_and_asked_one_by_one() {
    in_new_namespace(|| {
        for (members, exact) in
            [(2, true), (7, true), (EXACT_MAX, true), (EXACT_MAX + 1, false), (100, false)]
        {
            let servers: Vec<_> = (0..members).map(|_| server("127.0.0.1:5060", true, false)).collect();
            let mut watch = watch("127.0.0.1");
            assert_eq!(watch.receive_queue(0).unwrap().sockets as usize, members);
            assert!(watch.exact == exact, "{members} members: {:?}", watch.members);
            for _ in 0..200 {
                send(1, 100, "127.0.0.1:5060"); // from a new source port each time
            }
            let observation = watch.receive_queue(1).unwrap();
            assert_eq!(observation.bytes, watch.rescan().unwrap().bytes, "look-ups and a dump must agree");
            let read: Vec<_> = servers.iter().map(drain).collect();
            assert_eq!(read.iter().sum::<usize>(), 200);
            assert!(read.iter().filter(|&&count| count > 0).count() > 1, "{read:?}");
            assert_eq!(observation.bytes % 200, 0, "{members} members, {observation:?}");
            assert_eq!(watch.receive_queue(2).unwrap().bytes, 0);
        }
    });
}

#[test]
fn drops_of_a_group_are_counted_whether_it_is_small_or_large() {
    in_new_namespace(|| {
        for members in [3, EXACT_MAX + 4] {
            let servers: Vec<_> = (0..members).map(|_| server("127.0.0.1:5060", true, false)).collect();
            for server in &servers {
                set_socket_recv_buffer_size(server, 2048).unwrap();
            }
            let mut watch = watch("127.0.0.1");
            watch.receive_queue(0).unwrap();
            for _ in 0..400 {
                send(1, 600, "127.0.0.1:5060");
            }
            let drops = watch.receive_queue(1).unwrap().drops;
            assert_eq!(drops, 400 - servers.iter().map(drain).sum::<usize>() as u64, "{members} members");
            assert_eq!(watch.receive_queue(2 * SECOND_NS).unwrap().drops, drops);
        }
    });
}

#[test]
fn sockets_that_no_look_up_reaches_are_summed_by_dumps() {
    in_new_namespace(|| {
        // Shared by SO_REUSEADDR alone: the kernel gives everything to one of them.
        let servers: Vec<_> = (0..3)
            .map(|_| {
                let fd =
                    socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).unwrap();
                set_socket_reuseaddr(&fd, true).unwrap();
                bind(&fd, &"127.0.0.1:5060".parse::<SocketAddr>().unwrap()).unwrap();
                UdpSocket::from(fd)
            })
            .collect();
        let mut watch = watch("127.0.0.1");
        watch.receive_queue(0).unwrap();
        send(3, 600, "127.0.0.1:5060");
        let observation = watch.receive_queue(1).unwrap();
        assert!(!watch.exact && observation.sockets as usize == servers.len());
        assert!(observation.bytes >= 3 * 600, "{observation:?}");
    });
}

#[test]
fn a_member_that_leaves_or_joins_a_group_is_noticed() {
    in_new_namespace(|| {
        let mut servers: Vec<_> = (0..4).map(|_| server("127.0.0.1:5060", true, false)).collect();
        let mut watch = watch("127.0.0.1");
        assert_eq!(watch.receive_queue(0).unwrap().sockets, 4);
        servers.pop();
        assert_eq!(watch.receive_queue(1).unwrap().sockets, 3);
        servers.push(server("127.0.0.1:5060", true, false));
        assert_eq!(watch.receive_queue(SECOND_NS + 1).unwrap().sockets, 4);
        assert!(watch.exact);
    });
}

#[test]
fn a_server_that_stops_is_zero_sockets_at_once_and_its_return_is_seen_at_once() {
    in_new_namespace(|| {
        for address in ["127.0.0.1", "*"] {
            let first = server("0.0.0.0:5060", false, false);
            let mut watch = watch(address);
            assert_eq!(watch.receive_queue(0).unwrap().sockets, 1);
            drop(first);
            assert_eq!(watch.receive_queue(1).unwrap(), Observation::default());
            assert_eq!(watch.receive_queue(2).unwrap(), Observation::default());
            let _second = server("0.0.0.0:5060", false, false);
            assert_eq!(watch.receive_queue(3).unwrap().sockets, 1);
        }
    });
}

#[test]
fn a_server_on_one_address_is_seen_at_once_by_a_service_on_any() {
    in_new_namespace(|| {
        let mut watch = watch("*");
        for (now_ns, address) in (0..).step_by(2).zip(["127.0.0.1:5060", "127.0.0.2:5060", "[::1]:5060"]) {
            assert_eq!(watch.receive_queue(now_ns).unwrap(), Observation::default());
            let _server = server(address, false, false);
            assert_eq!(watch.receive_queue(now_ns + 1).unwrap().sockets, 1, "{address}");
        }
    });
}

#[test]
fn a_replaced_socket_is_not_mistaken_for_the_old_one() {
    in_new_namespace(|| {
        let mut watch = watch("127.0.0.1");
        for now_ns in 0..4 {
            let server = server("127.0.0.1:5060", false, false);
            set_socket_recv_buffer_size(&server, 2048).unwrap();
            assert_eq!(watch.receive_queue(2 * now_ns).unwrap().bytes, 0);
            send(20, 600, "127.0.0.1:5060");
            let observation = watch.receive_queue(2 * now_ns + 1).unwrap();
            assert!(
                observation.drops > 10 * (now_ns + 1),
                "drops of all generations add up: {observation:?}"
            );
        }
    });
}

#[test]
fn only_sockets_that_serve_the_address_count() {
    in_new_namespace(|| {
        run("ip address add 2001:db8::1/128 dev lo nodad");
        // (sockets: bound address and v6-only, service address, sockets that count)
        for (bound, address, counted) in [
            (&[("127.0.0.1:5060", false)][..], "127.0.0.1", 1),
            (&[("127.0.0.2:5060", false)], "127.0.0.1", 0),
            (&[("127.0.0.1:5061", false)], "127.0.0.1", 0),
            (&[("0.0.0.0:5060", false)], "127.0.0.1", 1),
            (&[("0.0.0.0:5060", false)], "2001:db8::1", 0),
            (&[("[::]:5060", false)], "127.0.0.1", 1),
            (&[("[::]:5060", true)], "127.0.0.1", 0),
            (&[("[::]:5060", true)], "2001:db8::1", 1),
            (&[("[::ffff:127.0.0.1]:5060", false)], "127.0.0.1", 1),
            (&[("[2001:db8::1]:5060", false)], "2001:db8::1", 1),
            (&[("[::1]:5060", false)], "2001:db8::1", 0),
            (&[("0.0.0.0:5060", false), ("[::]:5060", true)], "*", 2),
            (&[("0.0.0.0:5060", false), ("[::]:5060", true)], "127.0.0.1", 1),
            (&[("127.0.0.1:5060", false), ("127.0.0.2:5060", false), ("[::1]:5060", false)], "*", 3),
        ] {
            let servers: Vec<_> =
                bound.iter().map(|&(bound, v6_only)| server(bound, false, v6_only)).collect();
            let mut watch = watch(address);
            for now_ns in [0, 1, SECOND_NS] {
                let observation = watch.receive_queue(now_ns).unwrap();
                assert_eq!(observation.sockets, counted, "{bound:?} for {address} at {now_ns}");
            }
            assert!(watch.exact || counted == 0, "{bound:?} for {address}");
            drop(servers);
        }
    });
}

#[test]
fn a_dual_stack_socket_counts_what_it_holds_for_ipv4() {
    in_new_namespace(|| {
        let server = server("[::]:5060", false, false);
        let mut watch = watch("127.0.0.1");
        watch.receive_queue(0).unwrap();
        send(3, 600, "127.0.0.1:5060");
        assert!(watch.receive_queue(1).unwrap().bytes >= 3 * 600);
        assert_eq!(drain(&server), 3);
    });
}

#[test]
fn a_more_specific_socket_hides_the_wildcard_one_as_it_does_in_the_kernel() {
    in_new_namespace(|| {
        let wildcard = server("0.0.0.0:5060", true, false);
        let specific = server("127.0.0.1:5060", true, false);
        send(2, 600, "127.0.0.2:5060");
        let mut watch = watch("127.0.0.1");
        for now_ns in [0, 1] {
            let observation = watch.receive_queue(now_ns).unwrap();
            assert_eq!((observation.sockets, observation.bytes), (1, 0));
        }
        assert_eq!((drain(&wildcard), drain(&specific)), (2, 0));
    });
}

#[test]
fn a_connected_socket_is_one_peers_affair() {
    in_new_namespace(|| {
        let _server = server("127.0.0.1:5060", true, false);
        let connected = server("127.0.0.1:5060", true, false);
        connected.connect("127.0.0.1:7000").unwrap();
        let peer = UdpSocket::bind("127.0.0.1:7000").unwrap();
        peer.send_to(&[b'x'; 600], "127.0.0.1:5060").unwrap();
        assert!(connected.peek(&mut [0; 8]).is_ok(), "the datagram must be in the connected socket");
        let mut watch = watch("127.0.0.1");
        for now_ns in [0, 1] {
            let observation = watch.receive_queue(now_ns).unwrap();
            assert_eq!((observation.sockets, observation.bytes), (1, 0));
        }
        assert!(watch.exact);
    });
}

#[test]
fn a_socket_bound_to_a_device_counts_only_for_that_device() {
    in_new_namespace(|| {
        let server = server("0.0.0.0:5060", false, false);
        setsockopt(&server, BindToDevice, &"lo".into()).unwrap();
        let loopback = crate::netdev::Interface::find("lo").unwrap().index;
        assert_eq!(SockDiag::open().unwrap().sockets(PORT).unwrap()[0].device, loopback);
        for (device, counted) in [(0, 0), (loopback, 1), (loopback + 1, 0)] {
            let mut watch = Watch::open(Service { device, ..service("127.0.0.1") }, SECOND_NS).unwrap();
            for now_ns in [0, 1] {
                assert_eq!(watch.receive_queue(now_ns).unwrap().sockets, counted, "device {device}");
            }
        }
    });
}

#[test]
fn a_dump_lists_the_sockets_of_both_families_with_their_names() {
    in_new_namespace(|| {
        let _v4 = server("127.0.0.1:5060", false, false);
        let _v6 = server("[::1]:5060", false, true);
        let _other = server("127.0.0.1:5061", false, false);
        let sockets = SockDiag::open().unwrap().sockets(PORT).unwrap();
        let mut locals: Vec<_> = sockets.iter().map(|socket| socket.local.to_string()).collect();
        locals.sort();
        assert_eq!(locals, ["127.0.0.1:5060", "[::1]:5060"]);
        assert!(sockets.iter().all(|socket| socket.inode > 0 && socket.cookie > 0));
        assert_eq!(sockets.iter().filter(|socket| socket.v6_only).count(), 1);
    });
}

#[test]
fn a_dump_that_needs_several_reads_is_complete() {
    in_new_namespace(|| {
        let _servers: Vec<_> = (0..900).map(|_| server("127.0.0.1:5060", true, false)).collect();
        assert_eq!(SockDiag::open().unwrap().sockets(PORT).unwrap().len(), 900);
        assert_eq!(watch("127.0.0.1").receive_queue(0).unwrap().sockets, 900);
    });
}

#[test]
fn a_watch_asks_the_namespace_in_which_it_was_opened() {
    in_new_namespace(|| {
        let _server = server("127.0.0.1:5060", false, false);
        let mut watch = watch("127.0.0.1");
        in_nested_namespace(move || {
            assert_eq!(watch.receive_queue(0).unwrap().sockets, 1);
            assert_eq!(super::tests::watch("127.0.0.1").receive_queue(0).unwrap().sockets, 0);
        });
    });
}

/// The cost of one question in the best of 40 batches, which other load on the machine disturbs least.
fn cost_ns(watch: &mut Watch, batch: u32) -> u64 {
    watch.receive_queue(0).unwrap();
    let batches = (0..40).map(|_| {
        let start = Instant::now();
        for _ in 0..batch {
            black_box(watch.receive_queue(1).unwrap());
        }
        u64::try_from(start.elapsed().as_nanos()).unwrap() / u64::from(batch)
    });
    batches.min().unwrap()
}

#[test]
fn a_question_costs_microseconds_and_less_than_a_dump() {
    in_new_namespace(|| {
        let costs_ns = [0, 1, 4, EXACT_MAX, EXACT_MAX + 1].map(|members| {
            let servers: Vec<_> = (0..members).map(|_| server("0.0.0.0:5060", true, false)).collect();
            let cost_ns = cost_ns(&mut watch("127.0.0.1"), if members > 4 { 5 } else { 200 });
            println!("receive_queue with {} sockets: {cost_ns} ns", servers.len());
            cost_ns
        });
        let [none, one, four, _, dump] = costs_ns;
        // Generous: the machine may be slow, but a look-up must not cost what a dump does.
        assert!(one < 50_000 && none < dump && one < dump && four < dump, "{costs_ns:?}");
    });
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic_and_in_bounded_time(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(wire::messages(&bytes).count() <= bytes.len() / 4 + 1);
    }

    #[test]
    fn a_damaged_answer_is_read_without_panic(at in 0usize..100, to: u8, len in 0usize..140) {
        let mut answer = wire::look_up_request(7, IpAddr::V4(Ipv4Addr::LOCALHOST), PORT, 0, 1).to_vec();
        answer.resize(140, 0);
        answer[0] = 140;
        answer[88] = 8; // an attribute behind the fixed part
        answer[at] = to;
        answer.truncate(len);
        prop_assert!(wire::messages(&answer).count() <= 140 / 4);
    }
}
