//! The furniture itself: namespaces, wire, processes.

use std::net::UdpSocket;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use sipweir_tests::{LinkPlan, NetNs, wait_until};

use crate::topology::Topology;

#[test]
fn a_namespace_and_its_processes_are_gone_after_a_panic() {
    let (mut path, mut pid) = (None, None);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let folder = tempfile::tempdir().expect("temporary folder");
        let namespace = NetNs::new("panic");
        path = Some(namespace.path());
        let process = namespace.start("sleep", &["sleep", "60"], folder.path());
        pid = Some(process.id());
        assert!(namespace.path().exists());
        panic!("on purpose");
    }));
    assert!(outcome.is_err());
    assert!(!path.expect("the namespace was made").exists());
    let process = format!("/proc/{}", pid.expect("the process was started"));
    assert!(!std::path::Path::new(&process).exists(), "{process} is still there");
}

#[test]
fn datagrams_cross_the_wire_over_ipv4_and_ipv6_at_once() {
    let topology = Topology::new(&LinkPlan::default().with_ipv6());
    let link = &topology.link;
    for (near, far) in [(Some(link.near.ipv4), Some(link.far.ipv4)), (link.near.ipv6, link.far.ipv6)] {
        let (near, far) = (near.expect("address"), far.expect("address"));
        let receiver =
            topology.server.inside(|| UdpSocket::bind((far, 5060)).expect("bind in the server's namespace"));
        receiver.set_read_timeout(Some(Duration::from_secs(5))).expect("time-out");
        let sender =
            topology.callers.inside(|| UdpSocket::bind((near, 0)).expect("bind in the callers' namespace"));
        sender.send_to(b"across", (far, 5060)).expect("send");
        let mut buffer = [0; 16];
        let (length, source) = receiver.recv_from(&mut buffer).expect("receive");
        assert_eq!((&buffer[..length], source), (&b"across"[..], sender.local_addr().expect("address")));
    }
}

#[test]
fn a_link_has_the_queues_and_the_mtu_that_were_asked_for() {
    let topology = Topology::new(&LinkPlan { queues: 3, mtu: 1400, ..LinkPlan::default() });
    for namespace in [&topology.callers, &topology.server] {
        let queues = namespace.run(&["ls", "/sys/class/net/eth0/queues"]);
        assert_eq!(queues.lines().filter(|queue| queue.starts_with("rx-")).count(), 3, "{queues}");
        assert_eq!(namespace.run(&["cat", "/sys/class/net/eth0/mtu"]).trim(), "1400");
    }
    assert_ne!(topology.link.near.mac, topology.link.far.mac);
}

#[test]
fn a_command_that_fails_inside_shows_its_streams() {
    let namespace = NetNs::new("fails");
    let finished = namespace.finish(&["ip", "link", "show", "dev", "no-such-device"]);
    assert!(!finished.status.success());
    assert!(finished.to_string().contains("no-such-device"), "{finished}");
    wait_until("the namespace has its loopback", Duration::from_secs(1), || {
        namespace.ip(&["link"]).contains("lo:")
    });
}
