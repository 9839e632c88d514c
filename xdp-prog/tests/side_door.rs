//! The side door's verdicts by test run, and its life in a network namespace. Needs root.

mod support;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;

use support::{ANY_PORT, CALLER_V4, CALLER_V6, PORT, SERVICE_V4, SERVICE_V6, settings};
use xdp_prog::{Family, List, ServiceAddress, Settings, SideDoor, SideDoorCounters, SourceLists};

/// A door for these settings, with one socket a family, and the cookies of the two.
struct Door {
    door: SideDoor,
    lists: SourceLists,
    sockets: [UdpSocket; 2],
    cookies: [u64; 2],
}

/// `devices` are what test runs come from, which is device 0.
fn door(settings: &Settings, devices: &[u32]) -> Door {
    let mut classifier = support::load(settings);
    let lists = classifier.take_source_lists().expect("the lists");
    let door = SideDoor::load(settings, devices, &lists)
        .unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)));
    let bound = |ip: IpAddr| UdpSocket::bind((ip, 0)).expect("bind");
    let sockets = [bound(Ipv4Addr::UNSPECIFIED.into()), bound(Ipv6Addr::UNSPECIFIED.into())];
    for (family, socket) in [Family::Ipv4, Family::Ipv6].into_iter().zip(&sockets) {
        door.set_socket(family, socket.as_fd()).expect("a bound socket");
    }
    let cookies = [0, 1].map(|family| {
        rustix::net::sockopt::socket_cookie(&sockets[family]).expect("every socket has a cookie")
    });
    Door { door, lists, sockets, cookies }
}

impl Door {
    #[track_caller]
    fn chosen(&self, destination: (IpAddr, u16)) -> Option<u64> {
        let source = match destination.0 {
            IpAddr::V4(_) => SocketAddr::new(CALLER_V4.into(), 40_000),
            IpAddr::V6(_) => SocketAddr::new(CALLER_V6.into(), 40_000),
        };
        self.door.test_run(source, destination.into()).expect("a test run")
    }

    fn counters(&self) -> SideDoorCounters {
        self.door.counter_reader().expect("a descriptor").read().expect("counters")
    }
}

const OTHER_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 11));
const OTHER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x11));

#[test]
fn what_is_for_a_service_gets_the_socket_of_its_family_and_nothing_else_does() {
    let door = door(&settings(), &[0]);
    let [v4, v6] = door.cookies;
    assert_eq!(door.chosen((SERVICE_V4.into(), PORT)), Some(v4));
    assert_eq!(door.chosen((SERVICE_V6.into(), PORT)), Some(v6));
    for (address, cookie) in [(OTHER_V4, v4), (OTHER_V6, v6)] {
        assert_eq!(door.chosen((address, ANY_PORT)), Some(cookie), "any address");
        assert_eq!(door.chosen((address, PORT)), None, "not this address");
    }
    assert_eq!(door.counters(), SideDoorCounters { assigned: 4, ..Default::default() });
}

#[test]
fn every_port_is_told_apart() {
    let door = door(&settings(), &[0]);
    let [v4, _] = door.cookies;
    for port in 1..=u16::MAX {
        let expected = (port == PORT || port == ANY_PORT).then_some(v4);
        assert_eq!(door.chosen((SERVICE_V4.into(), port)), expected, "port {port}");
    }
}

#[test]
fn every_address_bit_counts() {
    let door = door(&settings(), &[0]);
    for bit in 0..32 {
        let other = Ipv4Addr::from_bits(SERVICE_V4.to_bits() ^ (1 << bit));
        assert_eq!(door.chosen((other.into(), PORT)), None, "{other}");
    }
    for bit in 0..128 {
        let other = Ipv6Addr::from_bits(SERVICE_V6.to_bits() ^ (1 << bit));
        assert_eq!(door.chosen((other.into(), PORT)), None, "{other}");
    }
}

#[test]
fn an_ipv6_address_with_the_bits_of_an_ipv4_service_is_another() {
    let door = door(&settings(), &[0]);
    assert_eq!(door.chosen((SERVICE_V4.to_ipv6_mapped().into(), PORT)), None);
}

#[test]
fn what_comes_by_another_device_goes_on_to_the_server_uncounted() {
    let door = door(&settings(), &[7]);
    assert_eq!(door.chosen((SERVICE_V4.into(), PORT)), None);
    assert_eq!(door.counters(), SideDoorCounters::default());
}

#[test]
fn what_the_host_sends_to_itself_goes_on_to_the_server_until_the_address_is_gone() {
    let mut door = door(&settings(), &[0]);
    let [v4, v6] = door.cookies;
    let services = [(IpAddr::from(SERVICE_V4), PORT), (IpAddr::from(SERVICE_V6), PORT)];
    door.door.set_local_addresses([CALLER_V4.into(), CALLER_V6.into()].into()).expect("room");
    assert_eq!(services.map(|service| door.chosen(service)), [None, None]);
    door.door.set_local_addresses([OTHER_V4, OTHER_V6].into()).expect("room");
    assert_eq!(services.map(|service| door.chosen(service)), [Some(v4), Some(v6)]);
    let loopback = SocketAddr::from((Ipv4Addr::new(127, 3, 2, 1), 40_000));
    assert_eq!(door.door.test_run(loopback, services[0].into()).expect("a test run"), None);
    assert_eq!(door.counters(), SideDoorCounters { assigned: 2, ..Default::default() });
}

#[test]
fn a_closed_socket_lets_its_family_through_and_the_other_stays() {
    let mut door = door(&settings(), &[0]);
    let [v4, v6] = door.cookies;
    assert_eq!(door.chosen((SERVICE_V4.into(), PORT)), Some(v4));
    door.sockets[0] = UdpSocket::bind("127.0.0.1:0").expect("bind");
    assert_eq!(door.chosen((SERVICE_V4.into(), PORT)), None);
    assert_eq!(door.chosen((SERVICE_V6.into(), PORT)), Some(v6));
    assert_eq!(door.counters(), SideDoorCounters { assigned: 2, no_socket: 1, ..Default::default() });
}

#[test]
fn a_service_without_exact_addresses_is_found_at_any() {
    let services = vec![ServiceAddress { ip: None, port: PORT, reply_owed: true }];
    let door = door(&Settings { services, ..settings() }, &[0]);
    assert_eq!(door.chosen((OTHER_V4, PORT)), Some(door.cookies[0]));
    assert_eq!(door.chosen((OTHER_V6, PORT)), Some(door.cookies[1]));
}

#[test]
fn more_devices_than_the_table_holds_are_refused() {
    let many: Vec<u32> = (0..=4096).collect();
    let lists = support::classifier().take_source_lists().expect("the lists");
    let error = SideDoor::load(&settings(), &many, &lists).expect_err("more than the table");
    assert!(error.to_string().contains("4096"), "{error}");
    SideDoor::load(&settings(), &many[..4096], &lists).expect("as many as the table holds");
}

#[test]
fn datagrams_of_denied_sources_end_at_a_socket_that_nobody_reads_unless_the_service_is_partly_watched() {
    let mut door = door(&settings(), &[0]);
    let [v4, v6] = door.cookies;
    let sinks = ["127.0.0.1:0", "[::1]:0"].map(|address| UdpSocket::bind(address).expect("bind"));
    for (family, sink) in [Family::Ipv4, Family::Ipv6].into_iter().zip(&sinks) {
        door.door.set_sink(family, sink.as_fd()).expect("a bound socket");
    }
    let cookie = |sink| rustix::net::sockopt::socket_cookie(sink).expect("every socket has a cookie");
    let services = [(SERVICE_V4.into(), PORT), (SERVICE_V6.into(), PORT)];
    door.lists.enter(List::Deny, CALLER_V4.into(), 32).expect("entered");
    assert_eq!(services.map(|service| door.chosen(service)), [Some(cookie(&sinks[0])), Some(v6)]);
    door.lists.enter(List::Deny, CALLER_V6.into(), 128).expect("entered");
    assert_eq!(services.map(|service| door.chosen(service)), [0, 1].map(|at| Some(cookie(&sinks[at]))));
    assert_eq!(door.chosen((OTHER_V4, PORT)), None, "no service");
    door.lists.enter(List::Allow, Ipv4Addr::UNSPECIFIED.into(), 0).expect("entered");
    assert_eq!(door.chosen(services[0]), Some(v4));
    assert_eq!(door.counters(), SideDoorCounters { assigned: 2, denied: 3, ..Default::default() });
    let partly = self::door(&Settings { monitored_partly: 1, ..settings() }, &[0]);
    let mut partly_lists = partly.lists;
    partly_lists.enter(List::Deny, CALLER_V4.into(), 32).expect("entered");
    let source = SocketAddr::new(CALLER_V4.into(), 40_000);
    let chosen = partly.door.test_run(source, services[0].into()).expect("a test run");
    assert_eq!(chosen, Some(partly.cookies[0]));
}

#[test]
fn a_service_that_is_only_watched_from_now_on_is_left_alone_and_so_back() {
    let mut door = door(&Settings { monitored: 0b1, ..settings() }, &[0]);
    let [v4, v6] = door.cookies;
    let (first, second) = ((SERVICE_V4.into(), PORT), (SERVICE_V6.into(), PORT));
    for (monitored, expected) in [(0b1, [None, Some(v6)]), (0b0, [Some(v4), Some(v6)]), (0b11, [None, None])]
    {
        door.door.change(&Settings { monitored, ..settings() }).expect("changes");
        assert_eq!([door.chosen(first), door.chosen(second)], expected, "{monitored:#b}");
    }
}
