//! Ports on real sockets: veth pairs in a network namespace of each test's own. Sending, completions, and
//! what happens when a queue is busy, a device goes down, or goes away. Receiving needs an XDP program and is
//! tested where there is one, in the workspace's `tests`.
//!
//! ```text
//!   nic0 (QueuePort) ═ veth ═ nic1 10.77.0.2        hand0 (EgressPort) ═ veth ═ hand1 10.78.0.2
//! ```

use std::net::UdpSocket;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use afxdp::{EgressPort, Frame, Kick, QueuePort};

/// A network namespace that is deleted, with everything in it, when the test ends.
struct Namespace {
    name: String,
}

impl Namespace {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let namespace = Self { name: format!("swtest-afxdp-{}-{number}", std::process::id()) };
        ip(&["netns", "add", &namespace.name]);
        for (near, far, address) in [("nic0", "nic1", "10.77.0.2/24"), ("hand0", "hand1", "10.78.0.2/24")] {
            namespace.ip(&["link", "add", near, "type", "veth", "peer", "name", far]);
            namespace.ip(&["link", "set", far, "address", "02:00:00:00:00:01"]);
            namespace.ip(&["address", "add", address, "dev", far]);
            namespace.ip(&["link", "set", near, "up"]);
            namespace.ip(&["link", "set", far, "up"]);
        }
        namespace
    }

    fn ip(&self, arguments: &[&str]) {
        ip(&[&["-n", &self.name], arguments].concat());
    }

    /// Runs the test's body on a thread inside the namespace; threads that it starts are inside too.
    fn inside(&self, body: impl FnOnce(&Self) + Send) {
        use std::os::fd::AsFd;

        let file = std::fs::File::open(format!("/run/netns/{}", self.name)).expect("a namespace just made");
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                rustix::thread::move_into_link_name_space(file.as_fd(), None).expect("root may enter");
                body(self);
            });
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        });
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.name]);
    }
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().expect("iproute2 is installed");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || std::thread::panicking(), "ip {arguments:?}: {complaint}");
}

/// Index of a device in the namespace of the calling thread.
fn ifindex(name: &str) -> u32 {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("any port");
    rustix::net::netdevice::name_to_index(&socket, name).expect("a device of the namespace")
}

/// A UDP datagram from 10.x.0.7 to the far end of a veth pair, in Ethernet.
fn packet(network: u8, port: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 7, 8, 0];
    let total_len = (20 + 8 + payload.len()) as u16;
    let mut header = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, network, 0, 7, 10, network, 0, 2];
    header[2..4].copy_from_slice(&total_len.to_be_bytes());
    let mut sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    sum = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    packet.extend(header);
    for word in [5060, port, total_len - 20, 0] {
        packet.extend(word.to_be_bytes());
    }
    packet.extend(payload);
    packet
}

fn frame_with(port: &mut QueuePort, bytes: &[u8]) -> Frame {
    let mut frame = port.take().expect("a free frame");
    port.umem().buffer_mut(&mut frame)[..bytes.len()].copy_from_slice(bytes);
    port.umem().set_range(&mut frame, 0..bytes.len());
    frame
}

/// Kicks until everything is sent; returns how often the kernel wanted to be asked again.
fn kick_out(mut kick: impl FnMut() -> Result<Kick, afxdp::Errno>) -> usize {
    for again in 0..1000 {
        if kick().expect("the device is up") != Kick::Again {
            return again;
        }
    }
    panic!("the kernel doesn't take the packets");
}

/// A socket that receives what is sent to the far end of a pair.
fn receiver(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).expect("an address of the namespace");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a time-out");
    socket
}

/// Receives so many datagrams and checks that they are numbered from 0.
fn expect_numbered(socket: &UdpSocket, count: u32) {
    let mut buffer = [0; 2048];
    for number in 0..count {
        let (len, _) = socket.recv_from(&mut buffer).expect("a datagram within five seconds");
        assert_eq!(buffer[..len], number.to_ne_bytes());
    }
}

/// Sends numbered datagrams by an egress port and takes the frames back.
fn hand_over(port: &mut QueuePort, egress: &mut EgressPort, count: u32) {
    for number in 0..count {
        let frame = frame_with(port, &packet(78, 5060, &number.to_ne_bytes()));
        egress.transmit(port, frame).expect("room in the TX ring");
    }
    kick_out(|| egress.kick());
    wait_until("all frames are completed", || {
        egress.reap(port);
        port.umem().places().tx_egress == 0
    });
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..5000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("waited for five seconds until {what}");
}

/// Tests that need root: they make namespaces, devices and AF_XDP sockets.
mod root {
    use afxdp::{
        BusyPoll, BusyPollConfig, CopyMode, EgressConfig, Errno, Error, Mode, PortConfig, SocketStatistics,
    };

    use super::*;

    /// Runs a test in a namespace. Without root it fails: a test that says "ok" and has not run hides what it is for.
    #[track_caller]
    fn test(body: impl FnOnce(&Namespace) + Send) {
        assert!(rustix::process::geteuid().is_root(), "run it as root: it makes a network namespace");
        Namespace::new().inside(body);
    }

    fn open(config: &PortConfig) -> QueuePort {
        QueuePort::open(ifindex("nic0"), 0, config).expect("a free queue").0
    }

    fn open_egress(port: &mut QueuePort) -> EgressPort {
        EgressPort::open(port, ifindex("hand0"), 0, &EgressConfig::default()).expect("a free queue")
    }

    #[test]
    fn packets_leave_by_both_devices_and_their_frames_come_back() {
        test(|_| {
            let (mut port, mode) =
                QueuePort::open(ifindex("nic0"), 0, &PortConfig::default()).expect("a free queue");
            assert_eq!(mode, Mode { copy_mode: CopyMode::Copy, need_wakeup: true, huge_pages: false });
            let mut egress = open_egress(&mut port);
            let receiving = port.umem().places().receiving;
            assert_eq!(receiving, 2048, "the fill ring is full from the start");

            let (at_nic, at_hand) = (receiver("10.77.0.2:6000"), receiver("10.78.0.2:5060"));
            for number in 0..100_u32 {
                let frame = frame_with(&mut port, &packet(77, 6000, &number.to_ne_bytes()));
                port.transmit(frame).expect("room in the TX ring");
            }
            assert_eq!(port.umem().places().tx_nic, 100);
            let again = kick_out(|| port.kick());
            assert!(again >= 1, "100 packets went out in one call");
            expect_numbered(&at_nic, 100);
            wait_until("all frames are completed", || {
                port.reap();
                port.umem().places().tx_nic == 0
            });

            for _ in 0..20 {
                hand_over(&mut port, &mut egress, 100);
                expect_numbered(&at_hand, 100);
            }
            assert_eq!(port.umem().places(), port.umem().recount());
            assert_eq!((port.umem().outstanding(), port.umem().bad_descriptors()), (0, 0));
            let quiet = SocketStatistics { tx_ring_empty_descs: 0, ..egress.statistics().expect("bound") };
            assert_eq!(quiet, SocketStatistics::default(), "no losses and no invalid descriptors");
            assert_eq!(egress.close(&mut port), 0);
        });
    }

    #[test]
    fn it_works_without_wake_up_flags_and_with_other_sizes() {
        test(|_| {
            let mut config = PortConfig { need_wakeup: false, tx_ring_size: 64, ..PortConfig::default() };
            config.umem.frame_size = 4096;
            config.umem.headroom = 128;
            let mut port = open(&config);
            let mut egress = open_egress(&mut port);
            let at_hand = receiver("10.78.0.2:5060");
            hand_over(&mut port, &mut egress, 100);
            expect_numbered(&at_hand, 100);
        });
    }

    #[test]
    fn a_busy_queue_is_named_and_taken_as_soon_as_it_is_free() {
        test(|_| {
            let first = open(&PortConfig::default());
            let impatient = PortConfig { busy_retry_ns: 50_000_000, ..PortConfig::default() };
            let error = QueuePort::open(ifindex("nic0"), 0, &impatient).expect_err("the queue is in use");
            assert!(matches!(&error, Error::QueueBusy { queue: 0, waited_ms: 50.., .. }), "{error:?}");
            assert!(error.to_string().contains("nic0"), "{error}");

            let patient = PortConfig { busy_retry_ns: 20_000_000_000, ..PortConfig::default() };
            std::thread::scope(|scope| {
                let second = scope.spawn(|| open(&patient));
                std::thread::sleep(Duration::from_millis(100));
                assert!(!second.is_finished());
                drop(first);
                second.join().expect("the queue is free now");
            });
        });
    }

    #[test]
    fn ports_open_again_and_again_after_drop_and_work() {
        test(|_| {
            let at_hand = receiver("10.78.0.2:5060");
            for _ in 0..5 {
                let mut port = open(&PortConfig::default());
                let mut egress = open_egress(&mut port);
                hand_over(&mut port, &mut egress, 40);
                expect_numbered(&at_hand, 40);
            }
        });
    }

    #[test]
    fn an_egress_device_is_closed_and_opened_while_the_queue_stays() {
        test(|_| {
            let mut port = open(&PortConfig::default());
            let at_hand = receiver("10.78.0.2:5060");
            let mut egress = open_egress(&mut port);
            let impatient = EgressConfig { busy_retry_ns: 0, ..EgressConfig::default() };
            let error = EgressPort::open(&mut port, ifindex("hand0"), 0, &impatient).expect_err("in use");
            assert!(matches!(error, Error::QueueBusy { .. }), "{error:?}");
            for _ in 0..3 {
                let frame = frame_with(&mut port, &packet(78, 5060, b"never sent"));
                egress.transmit(&mut port, frame).expect("room");
                assert_eq!(egress.close(&mut port), 1, "a frame that was not kicked");
                egress = open_egress(&mut port);
                hand_over(&mut port, &mut egress, 10);
                expect_numbered(&at_hand, 10);
            }
        });
    }

    #[test]
    fn what_the_kernel_refuses_says_what_to_change() {
        test(|_| {
            let nic = ifindex("nic0");
            let open = |ifindex, queue, config: &PortConfig| {
                QueuePort::open(ifindex, queue, config).expect_err("refused")
            };
            let defaults = PortConfig::default();
            assert!(matches!(open(9999, 0, &defaults), Error::NoDevice { .. }));
            let error = open(nic, 7, &defaults);
            assert!(matches!(error, Error::NoQueue { queue: 7, .. }), "{error:?}");
            let zero_copy = PortConfig { copy_mode: CopyMode::ZeroCopy, ..PortConfig::default() };
            let error = open(nic, 0, &zero_copy);
            assert!(matches!(error, Error::NoZeroCopy { .. }), "{error:?}");
            assert!(
                error.to_string().contains("nic0") && error.to_string().contains("xdp.zero_copy"),
                "{error}"
            );
        });
    }

    #[test]
    fn busy_polling_is_reported_as_inactive_on_a_device_without_napi() {
        test(|_| {
            assert_eq!(open(&PortConfig::default()).busy_poll(), BusyPoll::Off);
            let busy_poll = Some(BusyPollConfig { time_us: 20, budget: 64 });
            let port = open(&PortConfig { busy_poll, ..PortConfig::default() });
            assert_eq!(port.busy_poll(), BusyPoll::Inactive);
        });
    }

    #[test]
    fn a_device_that_is_down_keeps_its_packets_until_it_is_up() {
        test(|namespace| {
            let mut port = open(&PortConfig::default());
            let at_nic = receiver("10.77.0.2:6000");
            assert_eq!(port.probe(), Ok(()));
            namespace.ip(&["link", "set", "nic0", "down"]);
            let frame = frame_with(&mut port, &packet(77, 6000, &0_u32.to_ne_bytes()));
            port.transmit(frame).expect("room");
            assert_eq!(port.kick(), Err(Errno::NETDOWN));
            assert_eq!(port.probe(), Err(Errno::NETDOWN));
            assert_eq!(port.umem().places().tx_nic, 1);
            namespace.ip(&["link", "set", "nic0", "up"]);
            assert_eq!(port.probe(), Ok(()));
            kick_out(|| port.kick());
            expect_numbered(&at_nic, 1);
        });
    }

    #[test]
    fn a_device_that_is_gone_is_noticed_and_loses_no_frame() {
        test(|namespace| {
            let mut port = open(&PortConfig::default());
            let mut egress = open_egress(&mut port);
            namespace.ip(&["link", "del", "hand0"]);
            let frame = frame_with(&mut port, &packet(78, 5060, b"too late"));
            egress.transmit(&mut port, frame).expect("room");
            assert_eq!(egress.kick(), Err(Errno::NXIO));
            assert_eq!(egress.close(&mut port), 1);
            assert_eq!(port.umem().places().tx_egress, 0);

            assert_eq!(port.probe(), Ok(()), "the other device is still there");
            namespace.ip(&["link", "del", "nic0"]);
            assert_eq!(port.probe(), Err(Errno::NXIO));
            assert_eq!(port.wait(&[], Some(0)), Ok(false));
        });
    }

    #[test]
    fn all_four_sockets_are_told_apart_and_counted() {
        test(|_| {
            use std::os::fd::AsRawFd;

            let mut port = open(&PortConfig::default());
            let mut fds: Vec<i32> = (0..afxdp::RINGS).map(|ring| port.rx_fd(ring).as_raw_fd()).collect();
            fds.sort_unstable();
            fds.dedup();
            assert_eq!(fds.len(), afxdp::RINGS);
            for ring in 0..afxdp::RINGS {
                assert_eq!(port.statistics(ring), Ok(SocketStatistics::default()));
                assert_eq!(port.waiting(ring), 0);
            }
        });
    }
}
