//! Caps on what a source may send, changed while it sends: nobody is banned, and every packet is counted once.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use sipweir_tests::sipweir::finish_in;
use sipweir_tests::{Flood, LinkPlan, Sipweir, message, wait_until};

use crate::guard::{configuration, end};
use crate::topology::Topology;

fn outcome(sipweir: &mut Sipweir, name: &str) -> u64 {
    sipweir.number(&format!("/services/main/outcomes/original/{name}"))
}

/// `sipweir limit …`: what it prints.
#[track_caller]
fn limit(topology: &Topology, sipweir: &Sipweir, arguments: &[&str]) -> String {
    let socket = sipweir.socket().to_str().expect("a path");
    let finished = finish_in(&topology.server, &[&["limit"], arguments, &["--socket", socket]].concat());
    assert!(finished.status.success(), "{finished:?}");
    finished.stdout
}

#[test]
fn a_cap_on_originals_is_set_and_taken_back_under_load() {
    let topology = Topology::new(&LinkPlan::default());
    let mut sipweir =
        Sipweir::start(&topology.server, &configuration().replace("\"kernel\"", "\"embedded\""));
    let to = topology.service();
    let invites = |from: SocketAddr| move |number| message::request("INVITE", from, to, number, "", 300);
    let (wild, calm) = (topology.caller(5070), topology.another_caller(9));
    let flood = Flood::start(&topology.callers, wild, to, 200, invites(wild));
    let calls = Flood::start(&topology.callers, calm, to, 5, invites(calm));
    wait_until("all are admitted", Duration::from_secs(5), || outcome(&mut sipweir, "handed_over") > 100);
    assert_eq!(outcome(&mut sipweir, "rejected_above_cap"), 0);

    let said = limit(&topology, &sipweir, &["set", "main", "original_per_source", "20"]);
    assert!(said.contains("service.main.limits.original_per_source: \"off\" -> 20"), "{said}");
    assert!(limit(&topology, &sipweir, &["show"]).contains("main original_per_source 20\n"));
    std::thread::sleep(Duration::from_secs(2));
    let before = [outcome(&mut sipweir, "handed_over"), outcome(&mut sipweir, "rejected_above_cap")];
    std::thread::sleep(Duration::from_secs(3));
    let after = [outcome(&mut sipweir, "handed_over"), outcome(&mut sipweir, "rejected_above_cap")];
    let [admitted, refused] = [after[0] - before[0], after[1] - before[1]];
    // 20 a second of the one and all 5 of the other; the machine may be slow, so time is known to a half.
    assert!((60..=120).contains(&admitted), "{admitted} admitted, {refused} refused");
    assert!(refused > 300, "{admitted} admitted, {refused} refused");

    let network = ["--network", "10.77.0.1"];
    limit(&topology, &sipweir, &[&["set", "main", "original_per_source", "off"], &network[..]].concat());
    let refused = outcome(&mut sipweir, "rejected_above_cap");
    let admitted = outcome(&mut sipweir, "handed_over");
    wait_until("it is admitted again", Duration::from_secs(10), || {
        outcome(&mut sipweir, "handed_over") > admitted + 300
    });
    assert_eq!(outcome(&mut sipweir, "rejected_above_cap"), refused, "and nobody is refused");

    let socket = sipweir.socket().to_str().expect("a path").to_owned();
    for wrong in
        [["set", "other", "original_per_source", "20"], ["set", "main", "original_per_source", "default"]]
    {
        let finished =
            finish_in(&topology.server, &[&["limit"], &wrong[..], &["--socket", &socket]].concat());
        assert_eq!(finished.status.code(), Some(2), "{finished:?}");
    }
    let sent = flood.stop() + calls.stop();
    wait_until("all have come", Duration::from_secs(5), || {
        sipweir.number("/services/main/received/original") == sent
    });
    let status = sipweir.status();
    let outcomes = status["services"]["main"]["outcomes"]["original"].as_object().expect("outcomes");
    let ended: u64 = outcomes.values().filter_map(Value::as_u64).sum();
    assert_eq!(ended + status["services"]["main"]["waiting"].as_u64().expect("a number"), sent, "{status:#}");
    end(sipweir, &topology);
}
