//! Against the kernel, in namespaces of their own; needs root.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use etherparse::PacketBuilder;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, bind, send, socket};

use super::testing::{in_nested_namespace, in_new_namespace, run};
use super::{Endpoint, Error, Handoff, Interface, Stack, addresses_of_host};

/// A served device `nic0` with two receive queues, a peer, addresses and default routes.
fn with_nic(test: impl FnOnce(Interface) + Send + 'static) {
    in_new_namespace(move || {
        run("ip link add nic0 mtu 1400 numrxqueues 2 numtxqueues 2 type veth peer name peer0");
        for command in [
            "ip link set peer0 up",
            "ip link set nic0 up",
            "ip address add 192.0.2.1/24 dev nic0",
            "ip address add 2001:db8::1/64 dev nic0 nodad",
            "ip route add default via 192.0.2.254",
            "ip route add default via 2001:db8::fe",
        ] {
            run(command);
        }
        test(Interface::find("nic0").unwrap());
    });
}

fn wait_until(description: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {description}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn names() -> Vec<String> {
    let listing = run("ip -brief link show");
    listing.lines().filter_map(|line| line.split(['@', ' ']).next()).map(str::to_owned).collect()
}

fn setting(path: &str) -> String {
    std::fs::read_to_string(format!("/proc/sys/net/{path}")).unwrap().trim().to_owned()
}

#[test]
fn an_interface_is_described_as_the_kernel_sees_it() {
    with_nic(|nic| {
        assert_eq!((nic.name.as_str(), nic.mtu, nic.rx_queues), ("nic0", 1400, 2));
        assert!(nic.up && nic.carrier);
        assert_eq!(nic.driver.as_deref(), Some("veth"));
        assert!(run("ip link show nic0").contains(&nic.mac.map(|byte| format!("{byte:02x}")).join(":")));
        assert!(run("ip link show nic0").starts_with(&format!("{}: ", nic.index)));
        assert!(nic.addresses.contains(&Ipv4Addr::new(192, 0, 2, 1).into()));
        assert!(nic.addresses.contains(&"2001:db8::1".parse().unwrap()));
        nic.require_up().unwrap();
    });
}

#[test]
fn the_addresses_of_the_host_are_those_of_all_devices_and_the_broadcast_addresses_of_their_subnets() {
    with_nic(|_| {
        run("ip address add 203.0.113.5/30 brd 203.0.113.9 dev peer0");
        run("ip address add 198.51.100.1 peer 198.51.100.2/32 dev peer0");
        let found = addresses_of_host().unwrap();
        for address in [
            "192.0.2.1",
            "192.0.2.255",
            "2001:db8::1",
            "203.0.113.5",
            "203.0.113.7",
            "203.0.113.9",
            "198.51.100.1",
        ] {
            assert!(found.contains(&address.parse().unwrap()), "{address} in {found:?}");
        }
        for address in
            ["192.0.2.0", "192.0.2.2", "192.0.2.254", "203.0.113.6", "198.51.100.2", "255.255.255.255"]
        {
            assert!(!found.contains(&address.parse().unwrap()), "{address} in {found:?}");
        }
    });
}

#[test]
fn the_frames_of_a_plain_interface_are_those_for_its_own_address_without_a_tag() {
    with_nic(|nic| {
        let stack = Stack::on(nic.index).unwrap();
        assert_eq!((stack.link_addresses, stack.vlans), (vec![nic.mac], [].into()));
    });
}

#[test]
fn only_queues_in_use_are_counted() {
    with_nic(|_| {
        run("ethtool -L nic0 rx 1 tx 1");
        assert_eq!(Interface::find("nic0").unwrap().rx_queues, 1);
    });
}

#[test]
fn a_missing_interface_is_answered_with_those_that_exist() {
    with_nic(|_| {
        for name in ["nic7", "", "a-name-that-is-too-long-for-a-device"] {
            let error = Interface::find(name).unwrap_err();
            assert!(matches!(error, Error::NoSuchInterface { .. }), "{name}: {error}");
            assert!(error.to_string().contains("nic0") && error.to_string().contains("peer0"), "{error}");
        }
    });
}

#[test]
fn an_interface_that_is_down_is_refused_with_the_command_that_helps() {
    with_nic(|_| {
        run("ip link set nic0 down");
        let nic = Interface::find("nic0").unwrap();
        let message = nic.require_up().unwrap_err().to_string();
        assert!(message.contains("ip link set nic0 up"), "{message}");
    });
}

#[test]
fn the_pair_comes_up_with_the_settings_it_needs() {
    with_nic(|nic| {
        let handoff = Handoff::create(&nic, 3).unwrap();
        let [transmit, receive] = [handoff.transmit(), handoff.receive()];
        assert_eq!(transmit.name, format!("swt{}", nic.index));
        assert_eq!(receive.name, format!("swr{}", nic.index));
        assert!(!handoff.taken_over());
        assert_eq!(handoff.queues(), 3);
        for end in [transmit, receive] {
            let seen = Interface::find(&end.name).unwrap();
            assert_eq!((seen.index, seen.mac, seen.mtu, seen.rx_queues), (end.index, end.mac, 65_535, 3));
            assert!(seen.up && seen.carrier);
            let shown = run(&format!("ip -details link show {}", end.name));
            assert!(shown.contains("alias sipweir hand-off for nic0"), "{shown}");
            assert!(shown.contains("addrgenmode none"), "{shown}");
            assert!(shown.contains("numtxqueues 3 numrxqueues 3"), "{shown}");
            assert!(shown.contains("qdisc noqueue"), "{shown}");
            assert!(
                run(&format!("ethtool -k {}", end.name)).contains("generic-receive-offload: off"),
                "GRO is on by default on this kernel"
            );
        }
        assert!(run(&format!("ip link show {}", transmit.name)).contains("NOARP"));
        assert_eq!(setting(&format!("ipv4/conf/{}/rp_filter", receive.name)), "2");
        assert_eq!(setting(&format!("ipv6/conf/{}/disable_ipv6", receive.name)), "0");
        assert_eq!(setting(&format!("ipv6/conf/{}/accept_ra", receive.name)), "0");
        assert_eq!(setting(&format!("ipv6/conf/{}/disable_ipv6", transmit.name)), "1");
        assert_eq!(run(&format!("ip -6 address show dev {}", receive.name)), "");
        assert_eq!(run(&format!("ip address show dev {} scope global", receive.name)), "");
    });
}

#[test]
fn the_stack_of_a_device_is_what_is_made_on_it_and_its_bridge_and_not_its_peer() {
    with_nic(|nic| {
        // A macvlan names its device as a VLAN does, and is there on kernels without VLANs.
        run("ip link add link nic0 name upper0 type macvlan");
        run("ip link add bridge0 type bridge");
        run("ip link set upper0 master bridge0");
        let indexes = |names: &[&str]| {
            let mut indexes: Vec<u32> =
                names.iter().map(|name| Interface::find(name).unwrap().index).collect();
            indexes.sort_unstable();
            indexes
        };
        let stack_of = |index: u32| {
            let mut stack = Stack::on(index).unwrap().indexes;
            stack.sort_unstable();
            stack
        };
        assert_eq!(stack_of(nic.index), indexes(&["nic0", "upper0", "bridge0"]));
        assert_eq!(stack_of(Interface::find("peer0").unwrap().index), indexes(&["peer0"]));
    });
}

#[test]
fn a_host_without_ipv6_gets_a_pair_too_and_ipv6_is_on_at_the_receive_end() {
    with_nic(|nic| {
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
        let handoff = Handoff::create(&nic, 1).unwrap();
        assert_eq!(setting(&format!("ipv6/conf/{}/disable_ipv6", handoff.receive().name)), "0");
    });
}

#[test]
fn dropping_and_removing_both_delete_the_pair() {
    with_nic(|nic| {
        let before = names();
        drop(Handoff::create(&nic, 1).unwrap());
        assert_eq!(names(), before);
        Handoff::create(&nic, 2).unwrap().remove().unwrap();
        assert_eq!(names(), before);
    });
}

#[test]
fn a_pair_that_is_gone_already_is_removed_without_complaint() {
    with_nic(|nic| {
        let handoff = Handoff::create(&nic, 1).unwrap();
        run(&format!("ip link delete {}", handoff.receive().name));
        handoff.remove().unwrap();
    });
}

#[test]
fn a_pair_is_removed_from_a_thread_that_lives_in_another_namespace() {
    with_nic(|nic| {
        let before = names();
        let handoff = Handoff::create(&nic, 1).unwrap();
        in_nested_namespace(move || handoff.remove().unwrap());
        assert_eq!(names(), before);
    });
}

#[test]
fn a_left_over_pair_is_taken_over() {
    with_nic(|nic| {
        let first = Handoff::create(&nic, 1).unwrap();
        let old_index = first.transmit().index;
        first.crash();
        assert!(names().contains(&format!("swt{}", nic.index)));
        let second = Handoff::create(&nic, 2).unwrap();
        assert!(second.taken_over());
        assert_ne!(second.transmit().index, old_index);
        assert_eq!(Interface::find(&second.receive().name).unwrap().rx_queues, 2);
    });
}

#[test]
fn a_second_process_is_told_that_the_device_is_served() {
    with_nic(|nic| {
        let first = Handoff::create(&nic, 1).unwrap();
        let error = Handoff::create(&nic, 1).unwrap_err();
        assert!(matches!(error, Error::InUse { .. }), "{error}");
        assert!(names().contains(&first.transmit().name), "the first pair must survive");
    });
}

#[test]
fn a_foreign_device_of_that_name_is_left_alone() {
    with_nic(|nic| {
        for name in [format!("swt{}", nic.index), format!("swr{}", nic.index)] {
            run(&format!("ip link add {name} type veth peer name other0"));
            run(&format!("ip link set {name} alias mine"));
            let message = Handoff::create(&nic, 1).unwrap_err().to_string();
            assert!(
                message.contains(&format!("ip link delete {name}")) && message.contains("mine"),
                "{message}"
            );
            assert!(names().contains(&name));
            run(&format!("ip link delete {name}"));
        }
    });
}

#[test]
fn impossible_queue_counts_are_refused_before_anything_is_made() {
    with_nic(|nic| {
        let before = names();
        for queues in [0, 4097] {
            assert!(matches!(Handoff::create(&nic, queues).unwrap_err(), Error::Queues { .. }));
        }
        assert_eq!(names(), before);
        assert_eq!(
            Interface::find(&Handoff::create(&nic, 64).unwrap().receive().name).unwrap().rx_queues,
            64
        );
    });
}

#[test]
fn handed_over_packets_reach_a_socket_on_an_address_of_another_device_under_every_host_filter() {
    with_nic(|nic| {
        // The kernel delivers to an IPv6 address only once it has seen the carrier of the address's device.
        wait_until("the IPv6 address is usable", || {
            !run("ip -6 address show dev nic0").contains("tentative")
        });
        for host_filter in ["0", "1", "2"] {
            std::fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", host_filter).unwrap();
            std::fs::write("/proc/sys/net/ipv4/conf/default/rp_filter", host_filter).unwrap();
            let handoff = Handoff::create(&nic, 2).unwrap();
            let wire = Wire::on(&handoff);
            // A neighbour on the device's network and a stranger behind the default route.
            for (server, peers) in [
                ("192.0.2.1:5060", ["192.0.2.77:5071", "203.0.113.9:5072"]),
                ("[2001:db8::1]:5060", ["[2001:db8::77]:5073", "[2001:db8:ffff::9]:5074"]),
            ] {
                let server: SocketAddr = server.parse().unwrap();
                let socket = UdpSocket::bind(server).unwrap();
                socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
                for peer in peers {
                    let peer: SocketAddr = peer.parse().unwrap();
                    wire.send(peer, server, b"OPTIONS sip:x SIP/2.0\r\n");
                    let mut buffer = [0; 64];
                    let (received_len, source) = socket
                        .recv_from(&mut buffer)
                        .unwrap_or_else(|error| panic!("rp_filter {host_filter}, from {peer}: {error}"));
                    assert_eq!((&buffer[..received_len], source), (&b"OPTIONS sip:x SIP/2.0\r\n"[..], peer));
                }
            }
        }
    });
}

#[test]
fn the_longest_datagram_passes_in_one_packet() {
    with_nic(|nic| {
        let handoff = Handoff::create(&nic, 1).unwrap();
        let server: SocketAddr = "192.0.2.1:5060".parse().unwrap();
        let socket = UdpSocket::bind(server).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        // The longest that UDP over IPv4 has.
        let payload = vec![b'x'; 65_507];
        Wire::on(&handoff).send("192.0.2.77:5060".parse().unwrap(), server, &payload);
        assert_eq!(socket.recv(&mut vec![0; 65_536]).unwrap(), payload.len());
    });
}

#[test]
fn an_idle_pair_is_silent() {
    with_nic(|nic| {
        let handoff = Handoff::create(&nic, 1).unwrap();
        // Everything that IPv6 sends on a device that comes up (joins, solicitations) is due within two seconds.
        std::thread::sleep(Duration::from_millis(2_500));
        for end in [handoff.transmit(), handoff.receive()] {
            let shown = run(&format!("cat /proc/net/dev_snmp6/{}", end.name));
            let sent: u64 = shown
                .lines()
                .filter_map(|line| line.strip_prefix("Ip6OutRequests"))
                .map(|count| count.trim().parse::<u64>().unwrap())
                .sum();
            assert_eq!(sent, 0, "{}: {shown}", end.name);
        }
    });
}

/// A packet socket on the transmit end, in the place of AF_XDP.
struct Wire {
    socket: OwnedFd,
    destination_mac: [u8; 6],
    source_mac: [u8; 6],
}

impl Wire {
    fn on(handoff: &Handoff) -> Self {
        let Endpoint { name, mac, .. } = handoff.transmit();
        let address = getifaddrs()
            .unwrap()
            .filter(|entry| entry.interface_name == *name)
            .find_map(|entry| entry.address?.as_link_addr().copied())
            .unwrap();
        let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(socket.as_raw_fd(), &address).unwrap();
        Self { socket, destination_mac: handoff.receive().mac, source_mac: *mac }
    }

    fn send(&self, source: SocketAddr, destination: SocketAddr, payload: &[u8]) {
        let ethernet = PacketBuilder::ethernet2(self.source_mac, self.destination_mac);
        let ip = match (source.ip(), destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                ethernet.ipv4(source.octets(), destination.octets(), 64)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                ethernet.ipv6(source.octets(), destination.octets(), 64)
            }
            _ => panic!("{source} and {destination} are of different families"),
        };
        let mut packet = Vec::new();
        ip.udp(source.port(), destination.port()).write(&mut packet, payload).unwrap();
        assert_eq!(send(self.socket.as_raw_fd(), &packet, MsgFlags::empty()).unwrap(), packet.len());
    }
}
