//! What a running sipweir may do: nothing that any user may not, and it works all the same; also as its unit file starts it.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use serde_json::Value;
use sipweir_tests::command::run;
use sipweir_tests::sandbox::Sandbox;
use sipweir_tests::{CallLoad, Kamailio, KamailioPlan, LinkPlan, Sipweir, sipweir, wait_until};

use crate::guard::{assert_nothing_left, configuration, end, guard, has_program, kernel_packets};
use crate::topology::Topology;

const UNIT: &str = include_str!("../../packaging/sipweir.service");

/// One value of a `/proc/…/status` file.
fn status_of(file: &Path, key: &str) -> String {
    let status = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let value = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {key} in {status}")).trim().to_owned()
}

/// The threads of a process by their names.
fn threads_of(pid: u32) -> Vec<(String, PathBuf)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
    let files = tasks.map(|task| task.expect("thread").path().join("status"));
    files.map(|file| (status_of(&file, "Name"), file)).collect()
}

/// All threads of a process: no capability, and none to be had.
#[track_caller]
fn assert_no_thread_has_capabilities(pid: u32) {
    // A thread gives itself its name, a moment after it was made.
    wait_until("all threads are there", Duration::from_secs(5), || {
        let threads = threads_of(pid);
        ["worker-q0", "control", "log"].iter().all(|name| threads.iter().any(|(found, _)| found == name))
    });
    for (name, file) in threads_of(pid) {
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(status_of(&file, set), "0000000000000000", "{set} of thread {name}");
        }
        assert_eq!(status_of(&file, "NoNewPrivs"), "1", "thread {name}");
    }
}

/// Whether a log warns of anything but a server that is missing: the log is written four times a second, and whether it finds the
/// server missing, or down already, is chance.
fn warns(log: &str) -> bool {
    log.lines().any(|line| line.contains("WARN") && !line.contains("no socket on the guarded port"))
}

/// The process that removes the hand-off device of the instance.
#[track_caller]
fn janitor_of(pid: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("children");
    children.trim().parse().unwrap_or_else(|error| panic!("{error}: children {children:?}"))
}

#[test]
fn no_thread_has_a_capability_and_traffic_flows_through_restart_and_link_down() {
    let topology = Topology::new(&LinkPlan::default());
    let plan = KamailioPlan::new(topology.service());
    let kamailio = Kamailio::start(&topology.server, &plan);
    let mut sipweir = guard(&topology);
    assert_no_thread_has_capabilities(sipweir.id());
    let calls = CallLoad::at(50).ending_after(25);
    let completed =
        |topology: &Topology| topology.call(&calls).finish(Duration::from_secs(20)).totals().completed;
    assert_eq!(completed(&topology), 25);

    let state = |sipweir: &mut Sipweir, wanted: &str| {
        let status = sipweir.status();
        status.pointer("/services/main/server/state").is_some_and(|state| state == wanted)
    };
    kamailio.terminate();
    wait_until("the server is gone", Duration::from_secs(5), || state(&mut sipweir, "down"));
    let _kamailio = Kamailio::start(&topology.server, &plan);
    wait_until("the server is back", Duration::from_secs(5), || state(&mut sipweir, "up"));
    assert_eq!(completed(&topology), 25);

    topology.server.ip(&["link", "set", "eth0", "down"]);
    topology.server.ip(&["link", "set", "eth0", "up"]);
    // A new address of the host has to reach the BPF maps.
    topology.server.ip(&["addr", "add", "10.77.0.9/24", "dev", "eth0"]);
    let before = kernel_packets(&sipweir.status(), Some("undecided"));
    assert_eq!(completed(&topology), 25);
    assert!(kernel_packets(&sipweir.status(), Some("undecided")) >= before + 25);
    assert_no_thread_has_capabilities(sipweir.id());
    assert!(!warns(&sipweir.log()), "{}", sipweir.log());
    end(sipweir, &topology);
}

/// What the descriptors of a process lead to.
fn descriptors_of(pid: u32) -> Vec<String> {
    let folder = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("descriptors");
    let targets = folder.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.map(|target| target.to_string_lossy().into_owned()).collect()
}

#[test]
fn the_janitor_has_one_capability_and_nothing_of_the_instance_and_cleans_up_after_kill_9() {
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let sipweir = guard(&topology);
    let janitor = janitor_of(sipweir.id());
    let status = format!("/proc/{janitor}/status");
    // CAP_NET_ADMIN is bit 12.
    wait_until("the janitor has one capability", Duration::from_secs(5), || {
        ["CapPrm", "CapEff"].map(|set| status_of(Path::new(&status), set)) == ["0000000000001000"; 2]
    });
    // A link of XDP or a socket with a ring would outlive the instance in it. What it shares is the claim on the device.
    let (its, ours) = (descriptors_of(janitor), descriptors_of(sipweir.id()));
    assert!(ours.iter().any(|target| target.starts_with("anon_inode:bpf")), "{ours:?}");
    assert!(its.iter().all(|target| !target.starts_with("anon_inode:bpf")), "{its:?}");
    let shared = its.iter().filter(|target| target.starts_with("socket:") && ours.contains(target));
    assert_eq!(shared.count(), 1, "{its:?} of {ours:?}");
    // Asked to end as by a service manager, it stays.
    run(&["kill", "-TERM", &janitor.to_string()]);
    run(&["kill", "-KILL", &sipweir.id().to_string()]);
    wait_until("the device is gone", Duration::from_secs(5), || {
        !topology.server.ip(&["-br", "link"]).contains("sw")
    });
    wait_until("nothing is attached", Duration::from_secs(1), || !has_program(&topology));
    assert_nothing_left(&topology);
}

#[test]
fn a_start_right_after_kill_9_waits_for_the_janitor() {
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    for _ in 0..3 {
        let sipweir = guard(&topology);
        run(&["kill", "-KILL", &sipweir.id().to_string()]);
        let again = guard(&topology);
        let totals =
            topology.call(&CallLoad::at(50).ending_after(25)).finish(Duration::from_secs(20)).totals();
        assert_eq!((totals.completed, totals.copies), (25, 0), "{totals:?}");
        end(again, &topology);
    }
}

/// The program by the unit file, and what it tells the service manager.
struct AsUnit {
    child: Child,
    folder: tempfile::TempDir,
    manager: UnixDatagram,
}

impl AsUnit {
    #[track_caller]
    fn start(topology: &Topology, sandbox: &Sandbox) -> Self {
        // Not below /tmp's own rights: its user must be able to make the control socket here.
        let folder = tempfile::tempdir().expect("temporary folder");
        run(&["chmod", "0777", folder.path().to_str().expect("UTF-8")]);
        let [config, control, notify] =
            ["sipweir.toml", "control.sock", "notify"].map(|name| folder.path().join(name));
        let text = format!("{}\n[control]\nsocket = \"{}\"\n", configuration(), control.display());
        std::fs::write(&config, text).expect("write");
        let manager = UnixDatagram::bind(&notify).expect("the manager's socket");
        run(&["chmod", "0777", notify.to_str().expect("UTF-8")]);
        manager.set_read_timeout(Some(Duration::from_secs(20))).expect("time-out");
        // Where it was built its user may not be able to go.
        let binary = folder.path().join("sipweir");
        std::fs::copy(sipweir::binary(), &binary).expect("a copy of the program");
        let argv = [binary.to_str().expect("UTF-8"), "run", "--config", config.to_str().expect("UTF-8")];
        let environment = [("NOTIFY_SOCKET", notify.to_str().expect("UTF-8")), ("WATCHDOG_USEC", "15000000")];
        let child = sandbox.start(&topology.server, &argv, folder.path(), &environment);
        Self { child, folder, manager }
    }

    #[track_caller]
    fn hear(&self) -> String {
        let mut bytes = [0; 512];
        match self.manager.recv(&mut bytes) {
            Ok(len) => String::from_utf8_lossy(&bytes[..len]).into_owned(),
            Err(error) => panic!("{error}: {}", self.said()),
        }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("sandboxed.stderr")).unwrap_or_default()
    }

    fn status(&self) -> Value {
        let binary = sipweir::binary().to_str().expect("UTF-8");
        let socket = self.folder.path().join("control.sock");
        let said = run(&[binary, "status", "--json", "--socket", socket.to_str().expect("UTF-8")]);
        serde_json::from_str(&said).expect("JSON")
    }
}

impl Drop for AsUnit {
    fn drop(&mut self) {
        // Of a test that fails; otherwise it has ended.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[test]
fn as_its_unit_file_starts_it_everything_works_and_the_manager_is_told() {
    let topology = Topology::new(&LinkPlan::default());
    let plan = KamailioPlan::new(topology.service());
    let kamailio = Kamailio::start(&topology.server, &plan);
    let mut unit = AsUnit::start(&topology, &Sandbox::of_unit(UNIT));
    let ready = unit.hear();
    assert!(ready.contains("READY=1") && ready.contains("STATUS=guarding eth0"), "{ready}");
    // setpriv replaces itself.
    assert_no_thread_has_capabilities(unit.child.id());
    assert_eq!(status_of(Path::new(&format!("/proc/{}/status", unit.child.id())), "Seccomp"), "2");
    for _ in 0..3 {
        assert!(unit.hear().contains("WATCHDOG=1"), "the workers turn at least once a second");
    }
    let calls = CallLoad::at(100).ending_after(100);
    let totals = topology.call(&calls).finish(Duration::from_secs(20)).totals();
    assert_eq!((totals.completed, totals.copies), (100, 0), "{totals:?}\n{}", unit.said());
    assert!(kernel_packets(&unit.status(), Some("undecided")) >= 100);

    let config = unit.folder.path().join("sipweir.toml");
    let text = std::fs::read_to_string(&config).expect("its configuration");
    let changed = text.replace("handoff = ", "gate.kind = \"random\"\nhandoff = ");
    std::fs::write(&config, changed).expect("write");
    run(&["kill", "-HUP", &unit.child.id().to_string()]);
    wait_until("the manager hears of the reload", Duration::from_secs(5), || {
        let heard = unit.hear();
        heard.contains("RELOADING=1") && heard.contains("MONOTONIC_USEC=")
    });
    wait_until("the manager hears of its end", Duration::from_secs(5), || unit.hear().contains("READY=1"));
    assert_eq!(unit.status()["services"]["main"]["gate"]["kind"], "random");
    assert_eq!(topology.call(&calls).finish(Duration::from_secs(20)).totals().completed, 100);

    kamailio.terminate();
    let state = |unit: &AsUnit| unit.status().pointer("/services/main/server/state").cloned();
    wait_until("the server is gone", Duration::from_secs(5), || state(&unit) == Some("down".into()));
    let _kamailio = Kamailio::start(&topology.server, &plan);
    wait_until("the server is back", Duration::from_secs(5), || state(&unit) == Some("up".into()));
    assert_eq!(topology.call(&calls).finish(Duration::from_secs(20)).totals().completed, 100);

    run(&["kill", "-TERM", &unit.child.id().to_string()]);
    wait_until("the manager hears of the end", Duration::from_secs(5), || unit.hear().contains("STOPPING=1"));
    let status = unit.child.wait().expect("its end");
    assert!(status.success(), "{status}: {}", unit.said());
    assert!(!warns(&unit.said()), "{}", unit.said());
    assert_nothing_left(&topology);
}

/// The test above would prove nothing if the restrictions did not hold.
#[test]
fn a_unit_file_without_one_of_the_address_families_does_not_do() {
    for family in ["AF_XDP", "AF_NETLINK", "AF_PACKET"] {
        let topology = Topology::new(&LinkPlan::default());
        let mut unit = AsUnit::start(&topology, &Sandbox::of_unit(UNIT).without_family(family));
        let status = unit.child.wait().expect("its end");
        assert_eq!(status.code(), Some(1), "{family}: {}", unit.said());
        assert!(
            unit.said().contains("os error 97") || unit.said().contains("family"),
            "{family}: {}",
            unit.said()
        );
        assert_nothing_left(&topology);
    }
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit_file() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let file = folder.path().join("sipweir.service");
    // The program need not be installed here for that.
    std::fs::write(&file, UNIT.replace("/usr/bin/sipweir", "/bin/true")).expect("write");
    let file = file.to_str().expect("UTF-8");
    let finished = sipweir_tests::command::finish(&["systemd-analyze", "verify", "--man=no", file]);
    assert!(finished.status.success() && finished.stderr.is_empty(), "{finished}");
    // systemd.exec's own measure of exposure, in tenths: 100 is all of it; 26 was measured with systemd 252.
    let arguments = ["systemd-analyze", "security", "--offline=true", "--threshold=30", "--no-pager", file];
    let finished = sipweir_tests::command::finish(&arguments);
    assert!(finished.status.success(), "{finished}");
}
