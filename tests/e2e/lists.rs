//! Lists of sources: what is denied gets nothing through, by whichever way it comes; what is allowed does; and both end.
//!
//! The server is a plain socket, so that every datagram is seen.

use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use sipweir_tests::sipweir::finish_in;
use sipweir_tests::{Flood, LinkPlan, Sipweir, message, wait_until};

use crate::guard::{configuration, end, sum_of_workers};
use crate::topology::Topology;

/// Longer than a start with a hundred thousand networks on a busy machine.
const UNTIL: Duration = Duration::from_secs(20);

/// Files of lists, and what names them in the configuration.
struct Lists(tempfile::TempDir);

impl Lists {
    fn new(deny: &str, allow: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("deny"), deny).expect("a file");
        std::fs::write(folder.path().join("allow"), allow).expect("a file");
        Self(folder)
    }

    fn configuration(&self) -> String {
        let at = self.0.path().display();
        format!("{}[lists]\ndeny = [\"{at}/deny\"]\nallow = [\"{at}/allow\"]\n", configuration())
    }
}

fn after(wait: Duration) -> String {
    let time = jiff::Timestamp::try_from(SystemTime::now() + wait).expect("a time");
    format!("{time:.0}")
}

/// Packets that the XDP program has dropped since their source is denied.
fn denied(status: &Value) -> u64 {
    let rows = status["kernel"].as_array().expect("rows");
    let of_denied = rows.iter().filter(|row| row["reason"] == "source_denied" && row["verdict"] == "drop");
    of_denied.filter_map(|row| row["packets"].as_u64()).sum()
}

struct Caller<'a> {
    socket: UdpSocket,
    from: SocketAddr,
    to: SocketAddr,
    server: &'a UdpSocket,
}

impl<'a> Caller<'a> {
    fn at(topology: &Topology, from: SocketAddr, server: &'a UdpSocket) -> Self {
        let socket = topology.callers.inside(|| UdpSocket::bind(from).expect("bind"));
        Self { socket, from, to: topology.service(), server }
    }

    fn send(&self, number: u64, padding: usize) -> Vec<u8> {
        let datagram = message::request("INVITE", self.from, self.to, number, "", padding);
        self.socket.send_to(&datagram, self.to).expect("sent");
        datagram
    }

    /// It arrives, and nothing that was sent before.
    #[track_caller]
    fn gets_through(&self, number: u64, padding: usize) {
        let datagram = self.send(number, padding);
        let mut buffer = vec![0; 1 << 16];
        let (len, source) = self.server.recv_from(&mut buffer).expect("a datagram at the server");
        assert_eq!(source, self.from);
        assert!(buffer[..len] == datagram[..], "{}", String::from_utf8_lossy(&buffer[..len.min(300)]));
    }
}

fn server(topology: &Topology) -> UdpSocket {
    let server = topology.server.inside(|| UdpSocket::bind(topology.service()).expect("bind"));
    server.set_read_timeout(Some(Duration::from_secs(5))).expect("time-out");
    server
}

#[test]
fn of_a_hundred_thousand_denied_sources_none_gets_through_but_the_allowed_one_and_when_its_time_is_over() {
    let topology = Topology::new(&LinkPlan::default());
    let server = server(&topology);
    let mut deny = format!("# an export\n10.77.0.0/24 {}\n", after(UNTIL));
    for number in 0..100_000_u32 {
        writeln!(deny, "100.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255).expect("text");
    }
    let lists = Lists::new(&deny, "10.77.0.9 # a trunk\n");
    let stranger = Caller::at(&topology, topology.caller(5070), &server);
    let trunk = Caller::at(&topology, topology.another_caller(9), &server);
    let mut sipweir = Sipweir::start(&topology.server, &lists.configuration());
    assert_eq!(sipweir.number("/lists/deny/networks"), 100_001);
    assert_eq!(sipweir.number("/lists/allow/networks"), 1);
    for number in 0..20 {
        stranger.send(number, 300);
    }
    // Two fragments, which only the kernel can put together.
    stranger.send(20, 2800);
    trunk.gets_through(1, 300);
    trunk.gets_through(2, 2800);
    wait_until("all are counted", Duration::from_secs(5), || denied(&sipweir.status()) == 20);
    let status = sipweir.status();
    assert_eq!(status["side_door"]["denied"], 1, "{status:#}");
    assert_eq!(status["side_door"]["received"], 1, "{status:#}");
    assert_eq!(status["services"]["main"]["received"]["original"], 2, "{status:#}");
    assert_eq!(status["services"]["main"]["outcomes"]["original"]["handed_over"], 2, "{status:#}");

    wait_until("its time is over", UNTIL + Duration::from_secs(5), || {
        sipweir.number("/lists/deny/expired") == 1
    });
    assert_eq!(sipweir.number("/lists/deny/networks"), 100_000);
    stranger.gets_through(30, 300);
    stranger.gets_through(31, 2800);
    wait_until("nobody waits", Duration::from_secs(5), || {
        sum_of_workers(&sipweir.status(), "/frames_outstanding") == 0
    });
    assert_eq!(denied(&sipweir.status()), 20);
    end(sipweir, &topology);
}

#[test]
fn in_monitor_mode_denied_sources_pass_and_are_counted_as_if() {
    let topology = Topology::new(&LinkPlan::default());
    let server = server(&topology);
    let lists = Lists::new("10.77.0.0/24\n", "");
    let watching = lists.configuration().replace("handoff = ", "mode = \"monitor\"\nhandoff = ");
    let mut sipweir = Sipweir::start(&topology.server, &watching);
    let caller = Caller::at(&topology, topology.caller(5070), &server);
    for number in 0..5 {
        caller.gets_through(number, 300);
    }
    caller.gets_through(5, 2800);
    let status = sipweir.status();
    let rows = status["monitored"].as_array().expect("rows");
    let as_if = rows.iter().find(|row| row["reason"] == "source_denied").expect("a row");
    assert_eq!(
        (&as_if["class"], &as_if["verdict"], &as_if["packets"]),
        (&"original".into(), &"drop".into(), &5.into())
    );
    assert_eq!(denied(&status), 0, "{status:#}");
    assert!(sipweir.terminate().success(), "{}", sipweir.describe());
}

#[test]
fn a_list_that_cannot_be_used_ends_the_start_with_its_line() {
    let topology = Topology::new(&LinkPlan::default());
    let lists = Lists::new("192.0.2.1\n192.0.2.1/24\n", "");
    let file = lists.0.path().join("sipweir.toml");
    let control = format!("[control]\nsocket = \"{}/control.sock\"\n", lists.0.path().display());
    std::fs::write(&file, lists.configuration() + &control).expect("a file");
    let file = file.to_str().expect("a path");
    for arguments in [&["check", file][..], &["run", "--config", file]] {
        let finished = finish_in(&topology.server, arguments);
        assert!(!finished.status.success(), "{finished:?}");
        let said = &finished.stderr;
        assert!(said.contains("line 2: \"192.0.2.1/24\" has bits set behind the first 24"), "{said}");
    }
}

/// `sipweir list …`: what it prints.
#[track_caller]
fn list(topology: &Topology, sipweir: &Sipweir, arguments: &[&str]) -> String {
    let socket = sipweir.socket().to_str().expect("a path");
    let finished = finish_in(&topology.server, &[&["list"], arguments, &["--socket", socket]].concat());
    assert!(finished.status.success(), "{finished:?}");
    finished.stdout
}

/// Originals that came to the worker, and those that were denied.
fn came(sipweir: &mut Sipweir) -> (u64, u64) {
    let status = sipweir.status();
    let received = status.pointer("/services/main/received/original").and_then(Value::as_u64).unwrap_or(0);
    (received, denied(&status))
}

#[test]
fn lists_change_under_load_and_every_packet_is_counted_once() {
    let topology = Topology::new(&LinkPlan::default());
    let lists = Lists::new("", "");
    let configuration = lists.configuration().replace("\"kernel\"", "\"embedded\"");
    let mut sipweir = Sipweir::start(&topology.server, &configuration);
    let to = topology.service();
    let invites = |from: SocketAddr| move |number| message::request("INVITE", from, to, number, "", 300);
    let (phone, scanner) = (topology.caller(5070), topology.another_caller(9));
    let honest = Flood::start(&topology.callers, phone, to, 200, invites(phone));
    let wanted = Flood::start(&topology.callers, scanner, to, 200, invites(scanner));
    for round in 0..10 {
        list(&topology, &sipweir, &["add", "deny", "10.77.0.9"]);
        let (_, before) = came(&mut sipweir);
        wait_until("the scanner is denied", Duration::from_secs(5), || came(&mut sipweir).1 > before);
        let shown = list(&topology, &sipweir, &["show", "deny"]);
        assert_eq!(shown, "10.77.0.9/32 # command\n", "round {round}");
        if round % 2 == 0 {
            list(&topology, &sipweir, &["add", "allow", "10.77.0.0/24", "--for", "600s"]);
        } else {
            list(&topology, &sipweir, &["remove", "deny", "10.77.0.9"]);
        }
        // Those that were on their way.
        std::thread::sleep(Duration::from_millis(50));
        let (_, before) = came(&mut sipweir);
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(came(&mut sipweir).1, before, "nobody is denied in round {round}");
        if round % 2 == 0 {
            list(&topology, &sipweir, &["remove", "allow", "10.77.0.0/24"]);
        }
    }
    // All of a hundred thousand in, and out again; a file with a wrong line changes nothing.
    let deny = lists.0.path().join("deny");
    let many: String =
        (0..100_000_u32).map(|n| format!("100.{}.{}.{}\n", n >> 16, n >> 8 & 255, n & 255)).collect();
    std::fs::write(&deny, many).expect("a file");
    let said = list(&topology, &sipweir, &["reload"]);
    assert!(said.starts_with("deny: 100000 networks, 100000 new, 0 gone\n"), "{said}");
    std::fs::write(&deny, "10.77.0.0/24\nno network\n").expect("a file");
    let socket = sipweir.socket().to_str().expect("a path");
    let refused = finish_in(&topology.server, &["list", "reload", "--socket", socket]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(refused.stderr.contains("line 2: \"no\" is no network"), "{refused:?}");
    assert_eq!(sipweir.number("/lists/deny/networks"), 100_000);
    assert_eq!(sipweir.number("/lists/reloads_refused"), 1);
    std::fs::write(&deny, "").expect("a file");
    list(&topology, &sipweir, &["reload"]);
    let sent = honest.stop() + wanted.stop();
    wait_until("all are counted", Duration::from_secs(5), || {
        let (received, denied) = came(&mut sipweir);
        received + denied == sent
    });
    let status = sipweir.status();
    let of_originals = status["services"]["main"]["outcomes"]["original"].as_object().expect("outcomes");
    let ended: u64 = of_originals.values().filter_map(Value::as_u64).sum();
    let waiting = status["services"]["main"]["waiting"].as_u64().expect("a number");
    assert_eq!(ended + waiting + denied(&status), sent, "{status:#}");
    assert_eq!(sum_of_workers(&status, "/fill_ring_empty"), 0, "{status:#}");
    end(sipweir, &topology);
}
