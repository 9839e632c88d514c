//! `sipweir doctor` on a wire of the test's own: one thing made wrong at a time, found by its name, and mended by the command
//! that it prints.

use serde_json::Value;
use sipweir_tests::command::{Finished, run};
use sipweir_tests::{LinkPlan, NetNs, sipweir};

use crate::topology::Topology;

/// A report and the exit status that it came with.
struct Report {
    status: Option<i32>,
    document: Value,
}

impl Report {
    #[track_caller]
    fn of(finished: &Finished) -> Self {
        let document =
            serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished}"));
        Self { status: finished.status.code(), document }
    }

    /// The level of a check; the worst if it has several findings.
    #[track_caller]
    fn level(&self, check: &str) -> &str {
        self.finding(check)["level"].as_str().expect("a level")
    }

    #[track_caller]
    fn finding(&self, check: &str) -> &Value {
        let findings = self.document["findings"].as_array().expect("findings");
        let found = findings.iter().find(|finding| finding["check"] == check);
        found.unwrap_or_else(|| panic!("no {check} in {:#}", self.document))
    }

    /// The commands that a finding gives.
    #[track_caller]
    fn commands(&self, check: &str) -> Vec<String> {
        let change = self.finding(check)["change"].as_array().expect("changes");
        change.iter().filter_map(|change| change["command"].as_str().map(str::to_owned)).collect()
    }

    /// The checks that are not fine.
    fn troubles(&self) -> Vec<&str> {
        let findings = self.document["findings"].as_array().expect("findings");
        let bad = findings.iter().filter(|finding| finding["level"] != "fine");
        bad.filter_map(|finding| finding["check"].as_str()).collect()
    }
}

#[track_caller]
fn examine(namespace: &NetNs) -> Report {
    Report::of(&sipweir::finish_in(namespace, &["doctor", "--interface", "eth0", "--json"]))
}

/// Runs a printed command in the namespace by a shell, as an operator would.
#[track_caller]
fn obey(namespace: &NetNs, command: &str) {
    namespace.run(&["sh", "-c", command]);
}

#[test]
fn what_is_wrong_is_found_and_mended_by_the_command_that_is_printed() {
    let topology = Topology::new(&LinkPlan::default());
    let server = &topology.server;
    let before = examine(server);
    assert_eq!(before.document["version"], 1);
    assert_eq!(before.document["interface"], "eth0");
    assert_eq!(before.document["exit_status"].as_i64(), before.status.map(i64::from));
    // What the test's machine is like itself is not of this test.
    let of_machine = before.troubles();
    let is_of_machine =
        |check: &&str| ["kernel.", "host.", "stack.backlog"].iter().any(|begin| check.starts_with(begin));
    assert!(of_machine.iter().all(is_of_machine), "{of_machine:?}");

    for (check, wrong) in [
        ("stack.rp_filter", "sysctl -qw net.ipv4.conf.eth0.rp_filter=1"),
        ("interface.mtu", "ip link set eth0 mtu 1000"),
        ("interface.state", "ip link set eth0 down"),
    ] {
        server.run(&["sh", "-c", wrong]);
        let found = examine(server);
        assert_ne!(found.level(check), "fine", "{wrong}");
        assert_ne!(found.status, Some(0), "{wrong}");
        obey(server, &found.commands(check)[0]);
        assert_eq!(examine(server).level(check), "fine", "after {:?}", found.commands(check));
    }
}

#[test]
fn too_many_queues_for_the_cores_and_too_few_for_the_driver_are_told_apart() {
    let queues = std::thread::available_parallelism().map_or(1, usize::from) as u32 + 1;
    let topology = Topology::new(&LinkPlan { queues, ..LinkPlan::default() });
    let found = examine(&topology.server);
    assert_eq!(found.level("interface.queues"), "warning");
    assert_eq!(found.level("interface.native_xdp"), "fine");
    // The other end sends on more queues than this one receives on: veth refuses native XDP then.
    obey(&topology.server, &found.commands("interface.queues")[0].replace("combined", "rx"));
    let found = examine(&topology.server);
    assert_eq!(found.level("interface.queues"), "fine");
    assert_eq!(found.level("interface.native_xdp"), "warning");
    assert_eq!(found.status, Some(1));
}

#[test]
fn another_program_is_a_failure_by_name_and_a_failed_start_says_the_same() {
    let topology = Topology::new(&LinkPlan::default());
    let server = &topology.server;
    let folder = tempfile::tempdir().expect("temporary folder");
    let (source, object) = (folder.path().join("pass.c"), folder.path().join("pass.o"));
    std::fs::write(
        &source,
        "__attribute__((section(\"xdp\"), used)) int stranger(void *ctx) { return 2; }\n",
    )
    .expect("write");
    let (source, object) = (source.to_str().expect("UTF-8"), object.to_str().expect("UTF-8"));
    run(&["clang", "-O2", "-target", "bpf", "-c", source, "-o", object]);
    server.ip(&["link", "set", "dev", "eth0", "xdp", "obj", object, "sec", "xdp"]);

    let found = examine(server);
    assert_eq!((found.status, found.level("interface.xdp_program")), (Some(2), "failure"));
    let what = found.finding("interface.xdp_program")["what"].as_str().expect("text").to_owned();
    let why = found.finding("interface.xdp_program")["why"].as_str().expect("text").to_owned();
    assert!(what.contains("id "), "{what}");

    let text = sipweir::finish_in(server, &["doctor", "--interface", "eth0"]);
    assert_eq!(text.status.code(), Some(2), "{text}");
    let head = format!("failure  interface.xdp_program\n         {what}\n");
    assert!(text.stdout.contains(&head), "{text}");
    assert!(text.stdout.contains("         # ip link set dev eth0 xdp off\n"), "{text}");
    assert!(text.stdout.contains("\neth0: sipweir will not work as it is (failures: 1, "), "{text}");

    let configuration = folder.path().join("sipweir.toml");
    let socket = folder.path().join("control.sock");
    let lines = format!("{}[control]\nsocket = \"{}\"\n", crate::guard::configuration(), socket.display());
    std::fs::write(&configuration, lines).expect("write");
    let configuration = configuration.to_str().expect("UTF-8");
    let start = sipweir::finish_in(server, &["run", "--config", configuration]);
    assert_eq!(start.status.code(), Some(1), "{start}");
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [&what, &why] {
        assert!(flat(&start.stderr).contains(&flat(said)), "{said} is missing in {start}");
    }

    obey(server, &found.commands("interface.xdp_program")[0]);
    assert_eq!(examine(server).level("interface.xdp_program"), "fine");
}

#[test]
fn a_running_sipweir_is_not_another_program() {
    let topology = Topology::new(&LinkPlan::default());
    let sipweir = crate::guard::guard(&topology);
    let found = examine(&topology.server);
    assert_eq!(found.level("interface.xdp_program"), "fine");
    assert_eq!(found.level("stack.handoff_rp_filter"), "fine");
    let hand_off = found.finding("stack.handoff_rp_filter")["what"].as_str().expect("text").to_owned();
    assert!(hand_off.contains("lets sources of every route in"), "{hand_off}");
    let device = hand_off.split(' ').next().expect("a device").to_owned();
    topology.server.run(&["sysctl", "-qw", &format!("net.ipv4.conf.{device}.rp_filter=1")]);
    let found = examine(&topology.server);
    assert_eq!((found.status, found.level("stack.handoff_rp_filter")), (Some(2), "failure"));
    obey(&topology.server, &found.commands("stack.handoff_rp_filter")[0]);
    assert_eq!(examine(&topology.server).level("stack.handoff_rp_filter"), "fine");
    crate::guard::end(sipweir, &topology);
}

#[test]
fn rules_that_ask_for_the_interface_are_named_by_chain_and_handle() {
    let topology = Topology::new(&LinkPlan::default());
    let server = &topology.server;
    let nft = |rules: &str| {
        server.run(&["nft", rules]);
    };
    nft("add table inet guard");
    nft("add chain inet guard input { type filter hook input priority 0 ; policy accept ; }");
    nft("add chain inet guard forward { type filter hook forward priority 0 ; policy accept ; }");
    // None of these tells eth0 from the hand-off device on the way to a local socket.
    nft("add rule inet guard input iifname \"lo\" accept");
    nft("add rule inet guard input udp dport 5060 accept");
    nft("add rule inet guard forward iifname \"eth0\" drop");
    let found = examine(server);
    for check in ["firewall.interface_rules", "firewall.reverse_path", "firewall.ingress"] {
        assert_eq!(found.level(check), "fine", "{}", found.finding(check));
    }
    for rule in [
        "iifname \"eth0\" udp dport 5060 accept",
        "iif eth0 counter",
        "iifname \"eth*\" drop",
        "iifname != { \"lo\", \"swr*\" } counter",
        "iifname { \"eth0\", \"eth1\" } udp dport 5060 drop",
    ] {
        nft(&format!("add rule inet guard input {rule}"));
        let found = examine(server);
        let finding = found.finding("firewall.interface_rules");
        assert_eq!(finding["level"], "warning", "{rule}: {finding}");
        assert!(
            finding["what"].as_str().is_some_and(|what| what.contains("inet guard input (handle ")),
            "{finding}"
        );
        // The printed command is one that nft takes.
        obey(server, &found.commands("firewall.interface_rules")[1]);
        nft("flush chain inet guard input");
    }
    // By a jump.
    nft("add chain inet guard lines");
    nft("add rule inet guard lines iifname \"eth0\" accept");
    nft("add rule inet guard forward jump lines");
    assert_eq!(examine(server).level("firewall.interface_rules"), "fine", "reached from forward alone");
    nft("add rule inet guard input jump lines");
    assert_eq!(examine(server).level("firewall.interface_rules"), "warning");

    nft("add chain inet guard pre { type filter hook prerouting priority raw ; policy accept ; }");
    nft("add rule inet guard pre fib saddr . iif oif missing drop");
    let found = examine(server);
    assert_eq!(found.level("firewall.reverse_path"), "warning");
    obey(server, &found.commands("firewall.reverse_path")[0]);

    nft("add table netdev entrance");
    nft(
        "add chain netdev entrance eth { type filter hook ingress device \"eth0\" priority 0 ; policy accept ; }",
    );
    assert_eq!(examine(server).commands("firewall.ingress"), ["nft list chain netdev entrance eth"]);
}

#[test]
fn filters_of_traffic_control_at_the_entrance_are_found() {
    let topology = Topology::new(&LinkPlan::default());
    let server = &topology.server;
    server.run(&["tc", "qdisc", "add", "dev", "eth0", "clsact"]);
    assert_eq!(examine(server).level("firewall.ingress"), "fine", "no filter yet");
    let filter = ["tc", "filter", "add", "dev", "eth0", "ingress", "protocol", "ip", "prio", "1"];
    server.run(&[&filter[..], &["u32", "match", "ip", "dport", "5060", "0xffff", "flowid", ":1"]].concat());
    let found = examine(server);
    assert_eq!(found.level("firewall.ingress"), "warning");
    assert_eq!(found.commands("firewall.ingress"), ["tc filter show dev eth0 ingress"]);
}

#[test]
fn without_rights_what_cannot_be_read_is_unknown() {
    let topology = Topology::new(&LinkPlan::default());
    let binary = sipweir::binary().to_str().expect("UTF-8");
    let drop_all =
        ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", binary, "doctor", "--interface", "eth0"];
    let finished = topology.server.finish(&[&drop_all[..], &["--json"]].concat());
    let found = Report::of(&finished);
    assert_eq!((found.status, found.level("process.capabilities")), (Some(2), "failure"));
    for check in ["kernel.af_xdp", "kernel.bpf", "kernel.programs", "kernel.veth"] {
        assert_eq!(found.level(check), "unknown", "{}", found.finding(check));
    }
    assert_eq!(found.level("process.memlock"), "failure", "{}", found.finding("process.memlock"));
    assert_eq!(found.level("interface.state"), "fine");
}

#[test]
fn the_host_alone_a_missing_interface_and_a_configuration() {
    let topology = Topology::new(&LinkPlan::default());
    let server = &topology.server;
    let host = Report::of(&sipweir::finish_in(server, &["doctor", "--json"]));
    assert_eq!(host.document["interface"], Value::Null);
    assert!(host.document["findings"].as_array().expect("findings").len() > 8);
    let missing = Report::of(&sipweir::finish_in(server, &["doctor", "--json", "--interface", "eth7"]));
    assert_eq!((missing.status, missing.level("interface.state")), (Some(2), "failure"));

    let folder = tempfile::tempdir().expect("temporary folder");
    let file = folder.path().join("sipweir.toml");
    let file_name = file.to_str().expect("UTF-8");
    std::fs::write(&file, format!("{}[workers]\ncores = [4095]\n", crate::guard::configuration()))
        .expect("write");
    let found = Report::of(&sipweir::finish_in(server, &["doctor", "--json", "--config", file_name]));
    assert_eq!((found.status, found.level("interface.queues")), (Some(2), "failure"));
    assert_eq!(found.document["interface"], "eth0", "that of the configuration");
    std::fs::write(&file, "interface = 3\n").expect("write");
    let wrong = sipweir::finish_in(server, &["doctor", "--config", file_name]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong}");
    assert!(wrong.stdout.is_empty() && wrong.stderr.contains("interface"), "{wrong}");
}
