//! What monitoring sees of a running sipweir: the scrape, read by the reference parser of OpenMetrics.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use sipweir_tests::command::run;
use sipweir_tests::{LinkPlan, Peer, Sipweir, message, wait_until};

use crate::guard::end;
use crate::topology::Topology;

/// Where Debian's package python3-prometheus-client is found; other interpreters of the machine need not have it.
const PYTHON: &str = "/usr/bin/python3";

/// Prints what the strict parser reads in a file as JSON, one list [name, labels, value] per sample. It raises on whatever
/// OpenMetrics forbids.
const PARSE: &str = "
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
text = open(sys.argv[1]).read()
print(json.dumps([[s.name, s.labels, s.value] for f in text_string_to_metric_families(text) for s in f.samples]))
";

/// Calls of a test.
const CALLS: u64 = 40;

/// A scrape, read.
struct Scrape(Vec<(String, Value, f64)>);

impl Scrape {
    fn of(socket: &Path) -> Self {
        let mut stream = UnixStream::connect(socket).expect("somebody serves metrics");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("send");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, text) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        std::fs::write(file.path(), text).expect("write");
        let samples = run(&[PYTHON, "-c", PARSE, file.path().to_str().expect("UTF-8")]);
        let samples: Value = serde_json::from_str(&samples).expect("JSON");
        let read = |sample: &Value| {
            let name = sample[0].as_str().expect("a name").to_owned();
            (name, sample[1].clone(), sample[2].as_f64().unwrap_or_else(|| panic!("{sample}")))
        };
        Self(samples.as_array().expect("samples").iter().map(read).collect())
    }

    /// The sum of the samples of that name whose labels have these values.
    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |of: &Value| labels.iter().all(|(label, value)| of[label] == *value);
        let found = self.0.iter().filter(|(of, has, _)| of == name && fits(has));
        found.map(|(.., value)| value).sum()
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(of, ..)| of == name)
    }
}

/// sipweir with an embedded processor, its metrics at `socket`.
fn start(topology: &Topology, socket: &Path) -> Sipweir {
    let socket = socket.display();
    Sipweir::start(
        &topology.server,
        &format!(
            "interface = \"eth0\"\n[service.main]\nlisten = \"*:5060\"\nhandoff = \"embedded\"\n\
             [metrics]\nlisten = \"unix:{socket}\"\n"
        ),
    )
}

/// Sends calls and waits until the processor has them all.
fn call(topology: &Topology, sipweir: &mut Sipweir) {
    let peer = Peer::bind(&topology.callers, topology.caller(5070));
    for number in 0..CALLS {
        let invite = message::request("INVITE", peer.address(), topology.service(), number, "", 0);
        peer.send(&invite, topology.service());
    }
    wait_until("the workers have counted every call", Duration::from_secs(5), || {
        sipweir.number("/services/main/outcomes/original/handed_over") == CALLS
    });
}

#[test]
fn a_scrape_is_openmetrics_and_counts_what_passed() {
    let topology = Topology::new(&LinkPlan::default());
    let folder = tempfile::tempdir().expect("temporary folder");
    let socket = folder.path().join("metrics.sock");
    let mut sipweir = start(&topology, &socket);
    call(&topology, &mut sipweir);

    let scrape = Scrape::of(&socket);
    let calls = CALLS as f64;
    let original = [("service", "main"), ("class", "original")];
    assert_eq!(scrape.sum("sipweir_messages_received_total", &original), calls);
    assert_eq!(scrape.sum("sipweir_wait_seconds_count", &original), calls);
    let infinite = [("service", "main"), ("class", "original"), ("le", "+Inf")];
    assert_eq!(scrape.sum("sipweir_wait_seconds_bucket", &infinite), calls);
    let handed_over = [("class", "original"), ("outcome", "handed_over")];
    assert_eq!(scrape.sum("sipweir_messages_finished_total", &handed_over), calls);
    // Received = finished + waiting, over everything.
    let finished = scrape.sum("sipweir_messages_finished_total", &[]);
    let waiting = scrape.sum("sipweir_messages_waiting", &[]);
    assert_eq!(scrape.sum("sipweir_messages_received_total", &[]), finished + waiting);
    assert!(scrape.sum("sipweir_xdp_packets_total", &[("verdict", "ring_new")]) >= calls);
    assert!(scrape.sum("sipweir_interface_packets_total", &[("direction", "receive")]) >= calls);
    assert_eq!(scrape.sum("sipweir_gate_state", &[("state", "normal")]), 1.0);
    assert_eq!(scrape.sum("sipweir_af_xdp_rx_ring_full_total", &[]), 0.0);
    assert!(scrape.has("sipweir_af_xdp_rx_fill_ring_empty_total"));
    assert!(!scrape.has("sipweir_capture_messages_total"), "there is no [capture]");

    end(sipweir, &topology);
    assert!(!socket.exists(), "the socket's file is left over");
}

#[test]
fn the_programs_cost_is_there_while_the_kernel_measures_it() {
    let topology = Topology::new(&LinkPlan::default());
    let folder = tempfile::tempdir().expect("temporary folder");
    let socket = folder.path().join("metrics.sock");
    let mut sipweir = start(&topology, &socket);
    let measuring = Measuring::start();
    call(&topology, &mut sipweir);
    let scrape = Scrape::of(&socket);
    drop(measuring);
    let xdp = [("program", "xdp")];
    let (runs, time_s) = (
        scrape.sum("sipweir_program_runs_total", &xdp),
        scrape.sum("sipweir_program_run_seconds_total", &xdp),
    );
    assert!(runs >= CALLS as f64, "{runs} runs");
    let ns = time_s / runs * 1e9;
    assert!(ns > 10.0 && ns < 1e6, "{ns} ns a run");
    end(sipweir, &topology);
}

/// The kernel times BPF programs while this lives. The switch is one for the whole host.
struct Measuring {
    before: String,
}

const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";

impl Measuring {
    fn start() -> Self {
        let before = std::fs::read_to_string(SWITCH).expect("the switch");
        std::fs::write(SWITCH, "1").expect("switch on");
        Self { before }
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        let _switched_back = std::fs::write(SWITCH, self.before.trim());
    }
}
