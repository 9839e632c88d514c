//! A configuration that changes under a running sipweir: all of it or nothing, without a lost packet or state; and the control
//! socket by which it is told, when others flood it.

use std::io::{Read as _, Write as _};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sipweir_tests::command::run;
use sipweir_tests::{
    CallLoad, Flood, Kamailio, KamailioPlan, LinkPlan, Sipweir, SlowServer, message, sipweir, turn,
    wait_until,
};

use crate::guard::{configuration, end, guard, sum_of_workers};
use crate::topology::Topology;

/// [`configuration`] with nearly everything changed that can change live.
fn other_configuration() -> String {
    configuration()
        + "max_wait = \"300ms\"\ninitial_rate = 700\nreply.code = 480\nreply.rate = 20000\nserver.queue_target = 24\n\
           [service.main.gate]\nlow = \"100ms\"\nhigh = \"150ms\"\nbuffer = \"200ms\"\nadmit = 0.3\n\
           [service.main.limits]\nprober_per_source = 20\n[service.main.limits.peers]\n\"10.77.0.1\" = \"off\"\n\
           [privileges]\nemergency_numbers = [\"112\", \"911\"]\nprobers = [\"10.77.0.0/30\"]\n"
}

/// Everything that a lane received found its end, or waits.
#[track_caller]
fn assert_conserved(status: &Value) {
    let service = &status["services"]["main"];
    let received = service["received"].as_object().unwrap_or_else(|| panic!("nothing received: {status:#}"));
    let received: u64 = received.values().filter_map(Value::as_u64).sum();
    let outcomes = service["outcomes"].as_object().unwrap_or_else(|| panic!("no outcomes: {status:#}"));
    let ended: u64 = outcomes
        .values()
        .filter_map(Value::as_object)
        .flat_map(|class| class.values())
        .filter_map(Value::as_u64)
        .sum();
    let waiting = service["waiting"].as_u64().unwrap_or(0);
    assert_eq!(received, ended + waiting, "{status:#}");
}

/// KiB that are resident, of the process and all its threads.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number")
}

/// Reloads, and wants that it was applied.
#[track_caller]
fn reload(sipweir: &mut Sipweir, configuration: &str) -> Value {
    sipweir.rewrite(configuration);
    let answer = sipweir.request("reload").unwrap_or_else(|| panic!("no answer: {}", sipweir.describe()));
    assert_eq!(answer["outcome"], "applied", "{answer:#}");
    answer
}

#[test]
fn reloads_below_capacity_cost_no_call_and_not_even_a_copy() {
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let mut sipweir = guard(&topology);
    let mut calls = topology.call(&CallLoad::at(50).ending_after(300));
    let mut changed = 0;
    for round in 0..60 {
        let next = if round % 2 == 0 { other_configuration() } else { configuration() };
        let answer = reload(&mut sipweir, &next);
        changed += answer["changed"].as_array().map_or(0, Vec::len);
        calls.run_for(Duration::from_millis(100));
    }
    let totals = calls.finish(Duration::from_secs(20)).totals();
    assert_eq!(
        (totals.completed, totals.failed, totals.copies),
        (300, 0, 0),
        "{totals:?}\n{}",
        sipweir.log()
    );
    assert!(changed == 60 * 13, "{changed}");
    assert_conserved(&sipweir.status());
    end(sipweir, &topology);
}

#[test]
fn a_thousand_reloads_under_overload_lose_nothing_and_leave_nothing_behind() {
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan { queues: 2, ..LinkPlan::default() });
    let server = SlowServer::start(&topology.server, topology.service(), Duration::from_millis(2));
    let mut sipweir = Sipweir::start_with_one_heap(&topology.server, &configuration());
    let (from, to) = (topology.caller(5070), topology.service());
    let invite = move |number| message::request("INVITE", from, to, number, "", 300);
    let flood = Flood::start(&topology.callers, from, to, 3000, invite);
    wait_until("the gate sheds", Duration::from_secs(10), || {
        sipweir.number("/services/main/gate/transitions") > 0
    });
    let (files, mut transitions) = ([configuration(), other_configuration()], 0);
    let mut round = |sipweir: &mut Sipweir, rounds: usize| {
        for round in 0..rounds {
            reload(sipweir, &files[(round + 1) % 2]);
            if round % 100 == 0 {
                let now = sipweir.number("/services/main/gate/transitions");
                assert!(now >= transitions, "a count that falls: {transitions}, then {now}");
                transitions = now;
            }
        }
    };
    // Heaps, tables and logs have their size by then.
    round(&mut sipweir, 200);
    let before = resident_kib(sipweir.id());
    let begun = Instant::now();
    round(&mut sipweir, 1000);
    let took = begun.elapsed();
    let after = resident_kib(sipweir.id());
    let sent = flood.stop();
    println!(
        "1000 reloads in {took:?}, {sent} requests meanwhile, resident {before} KiB and then {after} KiB"
    );
    assert!(after <= before + 512, "{before} KiB resident, and {after} KiB after 1000 reloads");
    assert!(server.read() > 0);
    wait_until("nothing waits", Duration::from_secs(10), || sipweir.number("/services/main/waiting") == 0);
    let status = sipweir.status();
    assert_conserved(&status);
    assert_eq!(sum_of_workers(&status, "/fill_ring_empty"), 0, "{status:#}");
    assert_eq!(sum_of_workers(&status, "/bad_descriptors"), 0, "{status:#}");
    assert!(
        !sipweir.log().contains("does not turn") && !sipweir.log().contains("ERROR"),
        "{}",
        sipweir.log()
    );
    end(sipweir, &topology);
}

#[test]
fn what_cannot_be_taken_over_changes_nothing_and_says_why() {
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let mut sipweir = guard(&topology);
    let gate = |sipweir: &mut Sipweir| sipweir.status()["services"]["main"]["gate"].clone();
    let kind = |sipweir: &mut Sipweir| gate(sipweir)["kind"].clone();
    let random = "gate.kind = \"random\"\n";
    for (wrong, said) in [
        (configuration() + random + "max_wait = \"soon\"\n", "service.main.max_wait"),
        (configuration() + random + "gate.low = \"300ms\"\n", "service.main.gate"),
        (
            configuration() + random + "[frames]\ncount = 8192\n",
            "frames.count needs a restart: rings and frames",
        ),
        (configuration().replace("5060", "5061") + random, "service.main.listen needs a restart"),
        (
            configuration() + random + "[service.other]\nlisten = \"*:5070\"\nhandoff = \"kernel\"\n",
            "service.other needs a restart",
        ),
        (configuration() + "gate.kind = \"fifo\"\n", "service.main.gate.kind needs a restart: fifo"),
        ("interface = ".to_owned(), "is no TOML"),
    ] {
        sipweir.rewrite(&wrong);
        let finished = sipweir.reload(&[]);
        assert_eq!(finished.status.code(), Some(2), "{finished}");
        assert!(
            finished.stderr.contains("refused; nothing has changed") && finished.stderr.contains(said),
            "{finished}"
        );
        assert_eq!(kind(&mut sipweir), "hysteretic", "{finished}");
    }
    let finished = sipweir.reload(&["--config", "/nowhere/sipweir.toml"]);
    assert!(
        finished.status.code() == Some(2) && finished.stderr.contains("cannot read /nowhere"),
        "{finished}"
    );
    // The log of whoever looks later.
    assert!(sipweir.log().contains("the changed configuration was not taken over"), "{}", sipweir.log());

    sipweir.rewrite(&(configuration() + random));
    let finished = sipweir.reload(&["--check"]);
    let expected =
        "would be applied; would change: 1\n  service.main.gate.kind: \"hysteretic\" -> \"random\"\n";
    assert!(finished.status.success() && finished.stdout == expected, "{finished}");
    assert_eq!(kind(&mut sipweir), "hysteretic", "it was only asked");
    let finished = sipweir.reload(&["--json"]);
    let answer: Value = serde_json::from_str(&finished.stdout).expect("JSON");
    let change = json!([{ "key": "service.main.gate.kind", "from": "hysteretic", "to": "random" }]);
    assert_eq!((&answer["outcome"], &answer["changed"]), (&json!("applied"), &change), "{finished}");
    assert_eq!(kind(&mut sipweir), "random");
    let finished = sipweir.reload(&[]);
    assert_eq!(finished.stdout, "nothing differs from what holds\n", "{finished}");

    // Lists of sources are read again, whether their keys have changed or not.
    let folder = tempfile::tempdir().expect("temporary folder");
    let list = folder.path().join("deny.txt");
    let text = configuration() + random + &format!("[lists]\ndeny = [\"{}\"]\n", list.display());
    sipweir.rewrite(&text);
    let finished = sipweir.reload(&[]);
    assert!(finished.status.code() == Some(2) && finished.stderr.contains("deny.txt"), "{finished}");
    for (networks, said) in [
        ("203.0.113.0/24\n198.51.100.7\n", "list deny: 2 networks entered, 0 left; 2 are on it"),
        ("198.51.100.7\n", "list deny: 0 networks entered, 1 left; 1 are on it"),
    ] {
        std::fs::write(&list, networks).expect("write");
        let finished = sipweir.reload(&[]);
        assert!(finished.status.success() && finished.stdout.contains(said), "{finished}");
    }
    end(sipweir, &topology);
}

#[test]
fn sighup_reads_the_file_of_the_start_again() {
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let mut sipweir = guard(&topology);
    let hang_up = |sipweir: &Sipweir| {
        run(&["kill", "-HUP", &sipweir.id().to_string()]);
    };
    sipweir.rewrite("no TOML");
    hang_up(&sipweir);
    wait_until("the log says what is wrong", Duration::from_secs(5), || sipweir.log().contains("is no TOML"));
    sipweir.rewrite(&(configuration() + "gate.kind = \"random\"\n"));
    hang_up(&sipweir);
    wait_until("it holds", Duration::from_secs(5), || {
        sipweir.status()["services"]["main"]["gate"]["kind"] == "random"
    });
    assert!(sipweir.log().contains("took over the configuration"), "{}", sipweir.log());
    end(sipweir, &topology);
}

#[test]
fn numbers_and_answers_change_on_the_wire_at_once() {
    let topology = Topology::new(&LinkPlan::default());
    // Nobody reads: the socket exists, and everything beyond the first few waits or is shed.
    let server = topology.server.inside(|| UdpSocket::bind(topology.service()).expect("bind"));
    let gate = "[service.main.gate]\nlow = 1\nhigh = 2\nbuffer = 3\nadmit = 0.0\n";
    let strict = configuration() + "max_wait = \"100ms\"\nserver.queue_target = 1\n" + gate;
    let mut sipweir = Sipweir::start(&topology.server, &strict);
    let caller = topology.callers.inside(|| UdpSocket::bind(topology.caller(5070)).expect("bind"));
    caller.set_read_timeout(Some(Duration::from_secs(2))).expect("time-out");
    let (from, to) = (topology.caller(5070), topology.service());
    let mut number = 0;
    let mut send = |user: &str| {
        number += 1;
        let text = message::request("INVITE", from, to, number, "", 300);
        let text = String::from_utf8(text).expect("text");
        let at = text.find("INVITE sip:").expect("a Request-URI") + "INVITE sip:".len();
        let end = at + text[at..].find('@').unwrap_or_else(|| panic!("no user in {text}"));
        let text = format!("{}{user}{}", &text[..at], &text[end..]);
        caller.send_to(text.as_bytes(), to).expect("sent");
    };
    for _ in 0..40 {
        send("bob");
    }
    let answered = |caller: &UdpSocket| {
        let mut bytes = [0; 2048];
        let len = caller.recv(&mut bytes).expect("an answer");
        String::from_utf8_lossy(&bytes[..len]).split("\r\n").next().map(ToOwned::to_owned).expect("a line")
    };
    assert!(answered(&caller).starts_with("SIP/2.0 503"), "{}", sipweir.describe());
    let emergencies = |sipweir: &mut Sipweir| sipweir.number("/services/main/received/emergency");
    send("112");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(emergencies(&mut sipweir), 0, "a number like any other");

    let head = "interface = \"eth0\"\n[privileges]\nemergency_numbers = [\"112\"]\n";
    reload(
        &mut sipweir,
        &strict.replacen("interface = \"eth0\"\n", head, 1).replace("max_wait", "reply.code = 480\nmax_wait"),
    );
    // What was answered before is read away first.
    caller.set_read_timeout(Some(Duration::from_millis(300))).expect("time-out");
    while caller.recv(&mut [0; 2048]).is_ok() {}
    caller.set_read_timeout(Some(Duration::from_secs(2))).expect("time-out");
    send("112");
    wait_until("it is an emergency call now", Duration::from_secs(2), || emergencies(&mut sipweir) == 1);
    send("bob");
    assert!(answered(&caller).starts_with("SIP/2.0 480"), "{}", sipweir.describe());
    drop(server);
    let status = sipweir.terminate();
    assert!(status.success(), "{}", sipweir.describe());
}

#[test]
fn a_service_is_only_watched_and_guarded_again_without_a_lost_call() {
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let mut sipweir = guard(&topology);
    let watched = configuration().replace("handoff = ", "mode = \"monitor\"\nhandoff = ");
    let mut calls = topology.call(&CallLoad::at(50).ending_after(250));
    for round in 0..10 {
        let next = if round % 2 == 0 { &watched } else { &configuration() };
        reload(&mut sipweir, next);
        let expected = if round % 2 == 0 { "monitor" } else { "enforce" };
        assert_eq!(sipweir.status()["services"]["main"]["mode"], expected);
        calls.run_for(Duration::from_millis(500));
    }
    let totals = calls.finish(Duration::from_secs(20)).totals();
    assert_eq!(
        (totals.completed, totals.failed, totals.copies),
        (250, 0, 0),
        "{totals:?}\n{}",
        sipweir.log()
    );
    // Guarded: a fragmented datagram comes by the side door again.
    let side = sipweir.number("/side_door/received");
    let caller = topology.callers.inside(|| UdpSocket::bind(topology.caller(5075)).expect("bind"));
    let large = message::request("OPTIONS", topology.caller(5075), topology.service(), 1, "", 2800);
    caller.send_to(&large, topology.service()).expect("sent");
    wait_until("it came by the side door", Duration::from_secs(5), || {
        sipweir.number("/side_door/received") == side + 1
    });
    end(sipweir, &topology);

    // Where all is only watched from the start there is no device to hand over by.
    let mut sipweir = Sipweir::start(&topology.server, &watched);
    sipweir.rewrite(&configuration());
    let finished = sipweir.reload(&[]);
    let said = "service.main.mode needs a restart: no hand-off device was made";
    assert!(finished.status.code() == Some(2) && finished.stderr.contains(said), "{finished}");
    assert!(sipweir.terminate().success(), "{}", sipweir.describe());
}

/// Connections that say nothing, or nonsense, or go away in the middle; ends when dropped.
struct Nuisance {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<usize>>,
}

impl Nuisance {
    const THREADS: usize = 4;
    const EACH: usize = 50;

    fn start(socket: &std::path::Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let spawn = |number: usize| {
            let (stop, socket): (_, PathBuf) = (Arc::clone(&stop), socket.into());
            std::thread::spawn(move || {
                let mut made = 0;
                while !stop.load(Ordering::Relaxed) {
                    let clients: Vec<UnixStream> =
                        (0..Self::EACH).filter_map(|_| UnixStream::connect(&socket).ok()).collect();
                    made += clients.len();
                    for (client, mut stream) in clients.iter().enumerate() {
                        let garbage: &[u8] = match (client + number) % 5 {
                            0 => b"",
                            1 => b"\0\xff\xfe no request\n",
                            2 => &[b'{'; 5000],
                            3 => b"{\"request\":\"reload\",\"config\":\"/dev/null\"}\n",
                            _ => b"status\n",
                        };
                        let _hung_up = stream.write_all(garbage);
                    }
                    std::thread::sleep(Duration::from_millis(100));
                    if made % 3 == 0 {
                        for mut client in clients {
                            let _little = client.set_read_timeout(Some(Duration::from_millis(5)));
                            let _answer = client.read(&mut [0; 64]);
                        }
                    }
                }
                made
            })
        };
        Self { threads: (0..Self::THREADS).map(spawn).collect(), stop }
    }

    fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().map(|thread| thread.join().expect("its thread")).sum()
    }
}

#[test]
fn a_flooded_control_socket_goes_on_answering_and_calls_do_not_notice() {
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let sipweir = guard(&topology);
    let before = resident_kib(sipweir.id());
    let nuisance = Nuisance::start(sipweir.socket());
    let mut calls = topology.call(&CallLoad::at(50).ending_after(250));
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        let asked = Instant::now();
        let socket = sipweir.socket().to_str().expect("UTF-8");
        run(&[sipweir::binary().to_str().expect("UTF-8"), "status", "--json", "--socket", socket]);
        longest = longest.max(asked.elapsed());
        calls.run_for(Duration::from_millis(250));
    }
    let made = nuisance.end();
    let totals = calls.finish(Duration::from_secs(20)).totals();
    println!("{made} connections, status within {longest:?}");
    assert!(made > 1000, "{made}");
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    assert_eq!((totals.completed, totals.failed, totals.copies), (250, 0, 0), "{totals:?}");
    // 128 clients with 4 KiB each, and some answers that wait.
    let after = resident_kib(sipweir.id());
    assert!(after <= before + 8192, "{before} KiB resident, and {after} KiB after {made} connections");
    assert!(!sipweir.log().contains("ERROR"), "{}", sipweir.log());
    end(sipweir, &topology);
}
