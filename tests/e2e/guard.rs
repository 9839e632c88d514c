//! sipweir in front of the server, as most of the tests start it.

use serde_json::Value;
use sipweir_tests::{Sipweir, wait_until};
use std::time::Duration;

use crate::topology::Topology;

/// Interface, one service `main` on the SIP port of any address, the kernel hand-off. All load comes from one address, as
/// from a trunk, so that its cap is that of a trunk; everything else by default.
pub(crate) fn configuration() -> String {
    "interface = \"eth0\"\n[service.main]\nlisten = \"*:5060\"\nhandoff = \"kernel\"\n\
     reply.per_destination = 100000\n"
        .to_owned()
}

/// sipweir with [`configuration`] in the server's namespace.
#[track_caller]
pub(crate) fn guard(topology: &Topology) -> Sipweir {
    Sipweir::start(&topology.server, &configuration())
}

/// The sum of the numbers at `/workers/*/KEY`.
#[track_caller]
pub(crate) fn sum_of_workers(status: &Value, key: &str) -> u64 {
    let workers = status["workers"].as_array().unwrap_or_else(|| panic!("no workers in {status}"));
    workers.iter().map(|worker| worker.pointer(key).and_then(Value::as_u64).unwrap_or(0)).sum()
}

/// Packets that the XDP program counted, of one class or of all.
pub(crate) fn kernel_packets(status: &Value, class: Option<&str>) -> u64 {
    let rows = status["kernel"].as_array().unwrap_or_else(|| panic!("no kernel counters in {status}"));
    rows.iter()
        .filter(|row| class.is_none_or(|class| row["class"] == class))
        .map(|row| row["packets"].as_u64().unwrap_or(0))
        .sum()
}

/// ACKs to sipweir's own answers that ended at sipweir: in a worker or, as a drop of that class, in the XDP program.
pub(crate) fn absorbed_acks(status: &Value) -> u64 {
    let outcomes = status.pointer("/services/main/outcomes").and_then(Value::as_object);
    let outcomes = outcomes.unwrap_or_else(|| panic!("no outcomes in {status}"));
    let workers: u64 = outcomes.values().filter_map(|class| class["ack_absorbed"].as_u64()).sum();
    let rows = status["kernel"].as_array().unwrap_or_else(|| panic!("no kernel counters in {status}"));
    let kernel: u64 = rows
        .iter()
        .filter(|row| row["class"] == "ack" && row["verdict"] == "drop")
        .filter_map(|row| row["packets"].as_u64())
        .sum();
    workers + kernel
}

/// Ends sipweir in an orderly way and looks that nothing of it is left: exit 0 (it checks its frames itself), no program on
/// the interface, no hand-off device.
#[track_caller]
pub(crate) fn end(mut sipweir: Sipweir, topology: &Topology) {
    wait_until("no frame is held", Duration::from_secs(5), || {
        sum_of_workers(&sipweir.status(), "/frames_outstanding") == 0
    });
    let status = sipweir.terminate();
    assert!(status.success(), "{}", sipweir.describe());
    assert_nothing_left(topology);
}

/// No program on the interface, no device but those of the test, no control socket that anybody trips over.
#[track_caller]
pub(crate) fn assert_nothing_left(topology: &Topology) {
    assert!(!has_program(topology), "{}", topology.server.ip(&["link", "show", "dev", "eth0"]));
    let links: Value = serde_json::from_str(&topology.server.ip(&["-j", "link"])).expect("JSON of ip");
    let names: Vec<&str> =
        links.as_array().expect("links").iter().filter_map(|link| link["ifname"].as_str()).collect();
    assert_eq!(names, ["lo", "eth0"]);
}

/// Whether an XDP program is attached to the server's interface.
#[track_caller]
pub(crate) fn has_program(topology: &Topology) -> bool {
    let links: Value = serde_json::from_str(&topology.server.ip(&["-j", "link", "show", "dev", "eth0"]))
        .expect("JSON of ip");
    links[0].get("xdp").is_some()
}
