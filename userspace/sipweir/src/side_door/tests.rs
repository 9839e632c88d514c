use std::net::UdpSocket;
use std::time::{Duration, Instant};

use super::*;
use crate::body::LARGE_LEN;

/// A door whose own sockets' addresses are the services, so that no program is needed: service 0 is IPv4, 1 IPv6.
fn door(large: usize) -> (SideDoor, [SocketAddr; 2]) {
    let door = SideDoor::open(large, 1).expect("needs CAP_NET_RAW");
    let addresses = addresses_of(&door);
    let services = Services::new(addresses.map(|address| (Some(address.ip()), address.port())));
    (door.serving(services), addresses)
}

fn addresses_of(door: &SideDoor) -> [SocketAddr; 2] {
    let mut addresses = door.sockets().map(|(_, socket)| {
        let address = rustix::net::getsockname(socket).expect("a bound socket");
        SocketAddr::try_from(address).expect("an Internet address")
    });
    [addresses.next().expect("IPv4"), addresses.next().expect("IPv6")]
}

/// What the next datagram is; loopback delivers within the send.
#[track_caller]
fn next(door: &mut SideDoor, family: usize, large: &mut Large) -> Received {
    match door.look(family, large, 0) {
        Look::Datagram(received) => received,
        other => panic!("{other:?}"),
    }
}

fn sender_to(address: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((address.ip(), 0)).expect("bind");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("time-out");
    socket
}

#[test]
fn a_datagram_comes_with_source_destination_service_and_time() {
    let (mut door, addresses) = door(1);
    let mut large = door.pool.take().expect("a buffer");
    for (family, address) in addresses.into_iter().enumerate() {
        for len in [0, 1, 2800, 60_000] {
            let sender = sender_to(address);
            let before_ns = clock::now();
            sender.send_to(&vec![b'x'; len], address).expect("send");
            let received = next(&mut door, family, &mut large);
            assert_eq!(received.datagram.payload(large.packet()), vec![b'x'; len]);
            assert_eq!(received.datagram.source, sender.local_addr().expect("address"));
            assert_eq!(received.datagram.destination, address);
            assert_eq!(usize::from(received.service), family);
            // The two clocks are read one after the other.
            let slack_ns = 1_000_000;
            let window = before_ns - slack_ns..=clock::now();
            assert!(window.contains(&received.arrival_ns), "{} is not in {window:?}", received.arrival_ns);
        }
    }
    door.pool.give_back(large);
}

#[test]
fn a_time_of_arrival_is_the_kernel_s_and_not_that_of_the_look() {
    let (mut door, [address, _]) = door(1);
    let mut large = door.pool.take().expect("a buffer");
    let begin = Instant::now();
    // The kernel begins to take times some time after the socket has asked for them.
    loop {
        sender_to(address).send_to(b"x", address).expect("send");
        let sent = Instant::now();
        while sent.elapsed() < Duration::from_millis(20) {
            std::thread::yield_now();
        }
        let received = next(&mut door, 0, &mut large);
        let age_ns = clock::now() - received.arrival_ns;
        if age_ns >= 19_000_000 {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(5), "{age_ns} ns ago");
    }
    door.pool.give_back(large);
}

#[test]
fn what_is_for_no_service_is_foreign() {
    let (mut door, [address, _]) = door(1);
    door.services = Services::new([(Some(address.ip()), address.port() ^ 1)]);
    let mut large = door.pool.take().expect("a buffer");
    sender_to(address).send_to(b"x", address).expect("send");
    assert!(matches!(door.look(0, &mut large, 0), Look::Foreign));
    door.pool.give_back(large);
}

#[test]
fn after_a_vain_look_the_next_is_due_later_unless_asked_for() {
    let (mut door, _) = door(1);
    let mut large = door.pool.take().expect("a buffer");
    assert!(door.is_due(0, 1) && door.is_due(1, 1));
    assert!(matches!(door.look(0, &mut large, 1), Look::Empty));
    assert!(!door.is_due(0, LOOK_INTERVAL_NS) && door.is_due(1, 1));
    assert!(door.is_due(0, 1 + LOOK_INTERVAL_NS));
    door.look_soon();
    assert!(door.is_due(0, 1));
    door.pool.give_back(large);
}

#[test]
fn a_full_receive_buffer_is_counted() {
    let (mut door, [address, _]) = door(1);
    rustix::net::sockopt::set_socket_recv_buffer_size(&door.doors[0].socket, 0).expect("the least there is");
    let mut large = door.pool.take().expect("a buffer");
    let sender = sender_to(address);
    for _ in 0..100 {
        sender.send_to(&[b'x'; 1000], address).expect("send");
    }
    let mut taken = 0;
    while let Look::Datagram(_) = door.look(0, &mut large, 0) {
        taken += 1;
    }
    // The count comes with a datagram.
    sender.send_to(b"x", address).expect("send");
    next(&mut door, 0, &mut large);
    assert!(taken < 100, "{taken} fitted");
    assert_eq!(door.lost(), 100 - taken);
    door.pool.give_back(large);
}

/// IPv4 only: loopback has one IPv6 address, and nobody is answered who claims the service's. IPv6 is tested end to end.
#[test]
fn a_reply_leaves_from_the_address_and_port_of_the_service() {
    let (door, [address, _]) = door(1);
    let peer = sender_to(address);
    let to = peer.local_addr().expect("address");
    let service = SocketAddr::from(([127, 0, 0, 2], 5060));
    let mut packet = vec![b'r'; sip::rebuilt_headers_len(service) + 100];
    let datagram = sip::write_datagram_headers(&mut packet, to, service).expect("headers");
    // The reply packet is the request turned around.
    let mut reply = vec![0; LARGE_LEN];
    let len = sip::write_answer_packet(&packet, &datagram, to, b"SIP/2.0 503", &mut reply).expect("a reply");
    assert!(door.send(&reply[..len]));
    let mut buffer = [0; 64];
    let (len, from) = peer.recv_from(&mut buffer).expect("the reply");
    assert_eq!((&buffer[..len], from), (&b"SIP/2.0 503"[..], service));
}

#[test]
fn what_is_no_packet_is_not_sent() {
    let (door, _) = door(1);
    assert!(!door.send(b""));
    assert!(!door.send(&[0; 100]));
}
