//! Monitor mode: the server gets everything by itself, and the status says what would have been done.

use std::net::UdpSocket;
use std::time::Duration;

use serde_json::Value;
use sipweir_tests::{CallLoad, Kamailio, KamailioPlan, LinkPlan, Sipweir, message, turn, wait_until};

use crate::guard::{assert_nothing_left, configuration, end, kernel_packets};
use crate::topology::Topology;
use crate::unguarded::best_completed_per_s;

/// Packets that would have met this end.
fn as_if(status: &Value, class: &str, verdicts: &[&str]) -> u64 {
    let rows = status["monitored"].as_array().unwrap_or_else(|| panic!("nothing was watched: {status}"));
    rows.iter()
        .filter(|row| row["class"] == class && verdicts.iter().any(|verdict| row["verdict"] == *verdict))
        .map(|row| row["packets"].as_u64().unwrap_or(0))
        .sum()
}

fn watch(topology: &Topology) -> Sipweir {
    let configuration = configuration().replace("handoff = ", "mode = \"monitor\"\nhandoff = ");
    Sipweir::start(&topology.server, &configuration)
}

#[test]
fn a_watched_server_collapses_as_without_sipweir_and_the_status_says_what_would_have_helped() {
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan::default());
    let kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let best = best_completed_per_s(&topology, Duration::from_secs(5));
    let mut sipweir = watch(&topology);
    let calm = topology.call(&CallLoad::at(100).ending_after(200)).finish(Duration::from_secs(20)).totals();
    assert_eq!((calm.completed, calm.failed), (200, 0), "{calm:?}");
    let status = sipweir.status();
    assert_eq!(as_if(&status, "original", &["ring_new"]), 200, "{status:#}");
    assert_eq!(as_if(&status, "copy", &["ring_retransmission", "drop"]), 0, "{status:#}");

    let mut callers = topology.call(&CallLoad::at((3.0 * best) as u32));
    callers.run_for(Duration::from_secs(8));
    let overload = callers.stop().after(Duration::from_secs(4));
    let status = sipweir.status();
    let completed = overload.completed_per_s();
    println!("3 x best {best:.0}/s: completed {completed:.0} calls/s\n{status:#}");
    assert!(completed < 0.8 * best, "nobody was to help: {completed:.0}/s of {best:.0}/s");
    assert!(kamailio.socket().drops > 0);
    assert!(as_if(&status, "original", &["ring_reject"]) > 1000, "{status:#}");
    assert!(as_if(&status, "copy", &["ring_retransmission", "ring_reject", "drop"]) > 1000, "{status:#}");
    assert_eq!(status["services"]["main"]["mode"], "monitor");
    assert!(status["services"]["main"]["gate"]["transitions"].as_u64() > Some(0), "{status:#}");
    assert_eq!(status["workers"][0]["replies_sent"], 0, "{status:#}");
    assert!(kernel_packets(&status, None) >= as_if(&status, "original", &["ring_new", "ring_reject"]));
    end(sipweir, &topology);
}

#[test]
fn what_is_watched_reaches_the_server_with_every_byte_and_by_no_other_way() {
    let topology = Topology::new(&LinkPlan::default());
    let server = topology.server.inside(|| UdpSocket::bind(topology.service()).expect("bind"));
    server.set_read_timeout(Some(Duration::from_secs(10))).expect("time-out");
    let mut sipweir = watch(&topology);
    let caller = topology.callers.inside(|| UdpSocket::bind(topology.caller(5070)).expect("bind"));
    let from = topology.caller(5070);
    // A marker, which would be cut out, and a fragmented datagram, for which there is the side door.
    let plain = message::request("INVITE", from, topology.service(), 1, "", 400);
    let marked =
        String::from_utf8(plain.clone()).expect("text").replacen("SIP/2.0\r\n", "SIP/2.0 rtx=0\r\n", 1);
    let large = message::request("INVITE", from, topology.service(), 2, "", 2800);
    for datagram in [&plain[..], marked.as_bytes(), &large, b"\r\n\r\n", b"what is no SIP at all"] {
        caller.send_to(datagram, topology.service()).expect("sent");
        let mut received = vec![0; 65_536];
        let (len, source) = server.recv_from(&mut received).expect("it passes");
        assert_eq!((&received[..len], source), (datagram, from));
    }
    wait_until("all are counted", Duration::from_secs(5), || kernel_packets(&sipweir.status(), None) >= 6);
    let status = sipweir.status();
    assert_eq!(status["side_door"]["received"], 0, "{status:#}");
    assert!(sipweir.terminate().success(), "{}", sipweir.describe());
    assert_nothing_left(&topology);
}
