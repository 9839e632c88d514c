//! What goes wrong around sipweir: it says what to change, and the server stays reachable.

use std::time::{Duration, Instant};

use sipweir_tests::command::run;
use sipweir_tests::{CallLoad, Kamailio, KamailioPlan, LinkPlan, Sipweir, sipweir, turn, wait_until};

use crate::guard::{assert_nothing_left, configuration, end, guard, has_program, kernel_packets};
use crate::topology::Topology;

/// Writes a configuration with a control socket of its own; the file goes with the folder.
#[track_caller]
fn written(configuration: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("temporary folder");
    let file = folder.path().join("sipweir.toml");
    let control = format!("\n[control]\nsocket = \"{}\"\n", folder.path().join("control.sock").display());
    std::fs::write(&file, format!("{configuration}{control}")).expect("write sipweir.toml");
    let file = file.to_str().expect("a path in UTF-8").to_owned();
    (folder, file)
}

/// Runs `sipweir run` with a configuration that it must refuse; exit status and standard error.
#[track_caller]
fn refused(topology: &Topology, configuration: &str) -> (Option<i32>, String) {
    let (_folder, file) = written(configuration);
    let finished = sipweir::finish_in(&topology.server, &["run", "--config", &file]);
    (finished.status.code(), finished.stderr)
}

#[test]
fn a_wrong_configuration_is_refused_with_all_of_its_problems() {
    let topology = Topology::new(&LinkPlan::default());
    let wrong = configuration().replace("handoff", "hand_off") + "max_wait = \"soon\"\n";
    let (code, said) = refused(&topology, &wrong);
    assert_eq!(code, Some(2), "{said}");
    for key in ["service.main.hand_off", "service.main.max_wait"] {
        assert!(said.contains(key), "{key} is missing in: {said}");
    }
    assert_nothing_left(&topology);
}

#[test]
fn a_missing_interface_is_named() {
    let topology = Topology::new(&LinkPlan::default());
    let (code, said) = refused(&topology, &configuration().replace("eth0", "eth7"));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("eth7"), "{said}");
    assert_nothing_left(&topology);
}

#[test]
fn another_program_on_the_interface_is_named_and_left_alone() {
    let topology = Topology::new(&LinkPlan::default());
    let folder = tempfile::tempdir().expect("temporary folder");
    let (source, object) = (folder.path().join("pass.c"), folder.path().join("pass.o"));
    std::fs::write(&source, "__attribute__((section(\"xdp\"), used)) int pass(void *ctx) { return 2; }\n")
        .expect("write");
    let (source, object) = (source.to_str().expect("UTF-8"), object.to_str().expect("UTF-8"));
    run(&["clang", "-O2", "-target", "bpf", "-c", source, "-o", object]);
    topology.server.ip(&["link", "set", "dev", "eth0", "xdp", "obj", object, "sec", "xdp"]);
    let (code, said) = refused(&topology, &configuration());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("eth0") && said.contains("XDP program"), "{said}");
    assert!(has_program(&topology), "the other program was removed");
}

#[test]
fn a_second_instance_is_refused_and_the_first_goes_on() {
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let first = guard(&topology);
    let (code, said) = refused(&topology, &configuration());
    assert_eq!(code, Some(1), "{said}");
    let totals = topology.call(&CallLoad::at(50).ending_after(25)).finish(Duration::from_secs(20)).totals();
    assert_eq!((totals.completed, totals.copies), (25, 0), "{totals:?}");
    end(first, &topology);
}

#[test]
fn without_privileges_it_says_what_is_missing() {
    let topology = Topology::new(&LinkPlan::default());
    let (_folder, file) = written(&configuration());
    let binary = sipweir::binary().to_str().expect("a path in UTF-8");
    // Root without capabilities: it can read its files and nothing else.
    let drop_all = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", binary, "run", "--config"];
    let finished = topology.server.finish(&[&drop_all[..], &[&file]].concat());
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    assert!(finished.stderr.contains("CAP_"), "{finished}");
    assert_nothing_left(&topology);
}

#[test]
fn each_missing_capability_is_named() {
    let topology = Topology::new(&LinkPlan::default());
    let (_folder, file) = written(&configuration());
    let binary = sipweir::binary().to_str().expect("a path in UTF-8");
    // CAP_SYS_ADMIN contains CAP_BPF and CAP_PERFMON.
    for (dropped, named) in [
        ("-net_admin", "CAP_NET_ADMIN"),
        ("-net_raw", "CAP_NET_RAW"),
        ("-bpf,-sys_admin", "CAP_BPF"),
        ("-perfmon,-sys_admin", "CAP_PERFMON"),
    ] {
        let command =
            ["setpriv", "--bounding-set", dropped, "--inh-caps", dropped, binary, "run", "--config", &file];
        let finished = topology.server.finish(&command);
        assert_eq!(finished.status.code(), Some(1), "{dropped}: {finished}");
        assert!(finished.stderr.contains(named), "{dropped}: {finished}");
        assert_nothing_left(&topology);
    }
}

#[test]
fn the_mode_that_was_obtained_is_said() {
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    for (mode, obtained) in [("auto", "native"), ("native", "native"), ("generic", "generic")] {
        let configuration = format!("{}[xdp]\nmode = \"{mode}\"\n", configuration());
        let mut sipweir = Sipweir::start(&topology.server, &configuration);
        let status = sipweir.status();
        assert_eq!(status["mode"]["xdp"], obtained, "{mode}: {status}");
        assert_eq!(status["mode"]["af_xdp"], "copy", "{mode}: {status}");
        let link = topology.server.ip(&["-j", "link", "show", "dev", "eth0"]);
        let link: serde_json::Value = serde_json::from_str(&link).expect("JSON of ip");
        // What iproute2 calls them: 1 the driver's, 2 the stack's.
        let number = if obtained == "native" { 1 } else { 2 };
        assert_eq!(link[0]["xdp"]["mode"], number, "{link}");
        let totals =
            topology.call(&CallLoad::at(50).ending_after(25)).finish(Duration::from_secs(20)).totals();
        assert_eq!((totals.completed, totals.copies), (25, 0), "{mode}: {totals:?}");
        end(sipweir, &topology);
    }
}

#[test]
fn too_little_memory_is_named_with_the_key_that_takes_it() {
    let topology = Topology::new(&LinkPlan::default());
    let (_folder, file) = written(&format!("{}[frames]\ncount = 1048576\n", configuration()));
    let binary = sipweir::binary().to_str().expect("a path in UTF-8");
    // 1 GiB of address space for 2 GiB of frames.
    let finished = topology.server.finish(&["prlimit", "--as=1073741824", binary, "run", "--config", &file]);
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    assert!(finished.stderr.contains("frames.count"), "{finished}");
    assert_eq!(finished.stderr.matches("Cannot allocate memory").count(), 1, "{finished}");
    assert_nothing_left(&topology);
}

#[test]
fn status_without_an_instance_says_so() {
    let topology = Topology::new(&LinkPlan::default());
    let finished =
        sipweir::finish_in(&topology.server, &["status", "--json", "--socket", "/tmp/swt-nobody.sock"]);
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    assert!(finished.stderr.contains("/tmp/swt-nobody.sock"), "{finished}");
}

#[test]
fn status_of_the_command_line_is_the_document_of_the_socket() {
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let sipweir = guard(&topology);
    let socket = sipweir.socket().to_str().expect("UTF-8");
    let said =
        sipweir::finish_in(&topology.server, &["status", "--json", "--socket", socket]).expect_success();
    let status: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(status["interface"], "eth0");
    assert_eq!(status.pointer("/services/main/gate/state").and_then(|state| state.as_str()), Some("normal"));
    end(sipweir, &topology);
}

#[test]
fn after_kill_9_under_load_calls_go_on_within_a_second_and_a_new_start_takes_over() {
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let mut sipweir = guard(&topology);
    let mut callers = topology.call(&CallLoad::at(300).ending_after(3000));
    callers.run_for(Duration::from_secs(2));
    sipweir.kill();
    let killed = Instant::now();
    wait_until("nothing is attached", Duration::from_secs(1), || !has_program(&topology));

    // Statistics come once a second, so the proof that calls went on is in the end: a second of silence would leave 300
    // copies, and nothing that was answered is lost.
    callers.run_for(Duration::from_secs(5));
    let again = Sipweir::start(&topology.server, &configuration());
    println!("started again {:?} after the kill", killed.elapsed());
    let totals = callers.finish(Duration::from_secs(60)).totals();
    println!("{totals:?}");
    assert_eq!((totals.completed, totals.failed), (3000, 0), "{totals:?}");
    assert!(totals.copies < 300, "{totals:?}");
    end(again, &topology);
}

#[test]
fn sigterm_under_load_loses_no_call_and_undoes_everything() {
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let mut sipweir = guard(&topology);
    let mut callers = topology.call(&CallLoad::at(300).ending_after(1500));
    callers.run_for(Duration::from_secs(2));
    let status = sipweir.terminate();
    assert!(status.success(), "{}", sipweir.describe());
    assert_nothing_left(&topology);
    let totals = callers.finish(Duration::from_secs(60)).totals();
    assert_eq!((totals.completed, totals.failed), (1500, 0), "{totals:?}");
}

#[test]
fn an_interface_that_vanishes_ends_the_run_with_a_message() {
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let mut sipweir = guard(&topology);
    topology.callers.ip(&["link", "del", "eth0"]);
    wait_until("sipweir has ended", Duration::from_secs(5), || !sipweir.describe().contains(": running"));
    let said = sipweir.describe();
    assert!(said.contains("exit status: 1") && said.contains("eth0"), "{said}");
    let links = topology.server.ip(&["-br", "link"]);
    assert!(!links.contains("swt") && !links.contains("swr"), "{links}");
}

#[test]
fn a_hand_off_device_that_is_deleted_ends_the_run_and_calls_go_on_without_it() {
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let mut sipweir = guard(&topology);
    let device = sipweir.status()["mode"]["handoff_device"].as_str().expect("a hand-off device").to_owned();
    topology.server.ip(&["link", "del", &device]);
    wait_until("sipweir has ended", Duration::from_secs(5), || !sipweir.describe().contains(": running"));
    let said = sipweir.describe();
    assert!(said.contains("exit status: 1") && said.contains("hand-off device"), "{said}");
    assert_nothing_left(&topology);
    let totals = topology.call(&CallLoad::at(50).ending_after(25)).finish(Duration::from_secs(20)).totals();
    assert_eq!((totals.completed, totals.copies), (25, 0), "{totals:?}");
}

#[test]
fn a_port_with_no_server_is_said_and_callers_are_answered() {
    let topology = Topology::new(&LinkPlan::default());
    let mut sipweir = guard(&topology);
    wait_until("the missing server is known", Duration::from_secs(5), || {
        sipweir.status().pointer("/services/main/server/state").is_some_and(|state| state == "down")
    });
    let totals = topology.call(&CallLoad::at(50).ending_after(25)).finish(Duration::from_secs(20)).totals();
    assert_eq!((totals.refused, totals.failed), (25, 0), "{totals:?}");
    let said = sipweir.describe();
    assert!(said.contains("no socket on the guarded port"), "{said}");
    end(sipweir, &topology);
}

#[test]
fn an_interface_that_is_down_is_named_with_the_command_that_helps() {
    let topology = Topology::new(&LinkPlan::default());
    topology.server.ip(&["link", "set", "eth0", "down"]);
    let (code, said) = refused(&topology, &configuration());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("ip link set eth0 up"), "{said}");
    assert_nothing_left(&topology);
}

#[test]
fn after_the_interface_was_down_calls_are_guarded_again() {
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let mut sipweir = guard(&topology);
    let calls = CallLoad::at(50).ending_after(25);
    assert_eq!(topology.call(&calls).finish(Duration::from_secs(20)).totals().completed, 25);
    topology.server.ip(&["link", "set", "eth0", "down"]);
    topology.server.ip(&["link", "set", "eth0", "up"]);
    let before = kernel_packets(&sipweir.status(), Some("undecided"));
    assert_eq!(topology.call(&calls).finish(Duration::from_secs(20)).totals().completed, 25);
    assert!(kernel_packets(&sipweir.status(), Some("undecided")) >= before + 25);
    end(sipweir, &topology);
}

#[test]
fn too_few_frames_are_refused_with_the_sum() {
    let topology = Topology::new(&LinkPlan::default());
    let (code, said) = refused(&topology, &format!("{}[frames]\ncount = 1024\n", configuration()));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("frames.count") && said.contains("1024"), "{said}");
    assert_nothing_left(&topology);
}

#[test]
fn too_little_locked_memory_is_named() {
    let topology = Topology::new(&LinkPlan::default());
    let (_folder, file) = written(&configuration());
    let binary = sipweir::binary().to_str().expect("a path in UTF-8");
    let limited = ["prlimit", "--memlock=65536:65536", "setpriv", "--bounding-set", "-ipc_lock,-sys_admin"];
    let run = ["--inh-caps", "-ipc_lock,-sys_admin", binary, "run", "--config", &file];
    let finished = topology.server.finish(&[&limited[..], &run[..]].concat());
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    assert!(finished.stderr.contains("memlock") || finished.stderr.contains("CAP_IPC_LOCK"), "{finished}");
    assert_nothing_left(&topology);
}
