//! `sipweir capture`: the file as tshark reads it, a client that never reads, a full disk.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use sipweir_tests::command::{Finished, run};
use sipweir_tests::{Flood, LinkPlan, Peer, Sipweir, message, sipweir, wait_until};

use crate::guard::end;
use crate::topology::Topology;

/// Originals a second, ten times what the server of these tests answers.
const FLOOD_PER_S: u32 = 2000;

/// sipweir in front of an embedded server of 200 requests a second.
fn guarded(topology: &Topology, more: &str) -> Sipweir {
    let configuration = format!(
        "interface = \"eth0\"\n[service.main]\nlisten = \"*:5060\"\nhandoff = \"embedded\"\n\
         embedded.capacity = 200.0\n{more}"
    );
    Sipweir::start(&topology.server, &configuration)
}

fn flood(topology: &Topology) -> Flood {
    let (from, to) = (topology.caller(5070), topology.service());
    Flood::start(&topology.callers, from, to, FLOOD_PER_S, move |number| {
        message::request("INVITE", from, to, number, "", 0)
    })
}

/// `sipweir capture` to its end.
fn capture(topology: &Topology, sipweir: &Sipweir, out: &Path, more: &[&str]) -> Finished {
    let socket = sipweir.socket().to_str().expect("UTF-8");
    let out = out.to_str().expect("UTF-8");
    let arguments = [&["capture", "--socket", socket, "--out", out], more].concat();
    sipweir::finish_in(&topology.server, &arguments)
}

/// Comment, method and time of each packet, as tshark reads them.
fn read(file: &Path) -> Vec<(String, String, f64)> {
    let fields = ["-T", "fields", "-e", "frame.comment", "-e", "sip.Method", "-e", "frame.time_epoch"];
    let text = run(&[&["tshark", "-n", "-r", file.to_str().expect("UTF-8")][..], &fields].concat());
    let rows = text.lines().map(|line| {
        let mut fields = line.split('\t').map(str::to_owned);
        let mut next = || fields.next().unwrap_or_else(|| panic!("three fields in {line:?}"));
        (next(), next(), next().parse().expect("seconds"))
    });
    rows.collect()
}

fn refuses(sipweir: &mut Sipweir) {
    wait_until("requests are refused", Duration::from_secs(20), || {
        sipweir.number("/services/main/outcomes/original/rejected") > 0
    });
}

#[test]
fn refused_calls_are_in_the_file_with_verdict_and_reason_as_comments() {
    let topology = Topology::new(&LinkPlan::default());
    let mut sipweir = guarded(&topology, "");
    let flood = flood(&topology);
    refuses(&mut sipweir);
    let folder = tempfile::tempdir().expect("temporary folder");
    let file = folder.path().join("shed.pcapng");
    let finished = capture(&topology, &sipweir, &file, &["--verdict", "shed", "--count", "50"]);
    assert!(finished.status.success(), "{finished}");
    assert!(finished.stderr.contains("50 packets in "), "{finished}");
    let packets = read(&file);
    assert_eq!(packets.len(), 50);
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs_f64();
    for (comment, method, at) in &packets {
        assert!(comment.starts_with("shed: "), "{comment}");
        assert!(comment.contains("; class original, service main, by "), "{comment}");
        assert_eq!(method, "INVITE");
        assert!((now - at).abs() < 60.0, "{at} at {now}");
    }
    assert!(packets.iter().any(|(comment, ..)| comment.starts_with("shed: rejected; ")), "{packets:?}");

    // What the server gets, as it came: with the marker, which is not handed over.
    drop(flood);
    let peer = Peer::bind(&topology.callers, topology.caller(5071));
    let marked = message::request("REGISTER", peer.address(), topology.service(), 7, " rtx=0", 0);
    let served = folder.path().join("served.pcapng");
    let more = ["--verdict", "served", "--class", "original", "--count", "1", "--duration", "20"];
    std::thread::scope(|scope| {
        let capturing = scope.spawn(|| capture(&topology, &sipweir, &served, &more));
        let begun = || std::fs::metadata(&served).is_ok_and(|file| file.len() > 0);
        wait_until("the capture has begun", Duration::from_secs(10), begun);
        // The line of the flood may still wait.
        wait_until("it is served", Duration::from_secs(10), || {
            peer.send(&marked, topology.service());
            capturing.is_finished()
        });
        let finished = capturing.join().expect("no panic");
        assert!(finished.status.success() && finished.stderr.contains("1 packets in"), "{finished}");
    });
    let bytes = std::fs::read(&served).expect("the file");
    if read(&served)[0].1 == "REGISTER" {
        assert!(bytes.windows(marked.len()).any(|window| window == marked), "as it came");
    }
    end(sipweir, &topology);
}

#[test]
fn what_the_xdp_program_drops_by_itself_is_captured_too() {
    let topology = Topology::new(&LinkPlan::default());
    let mut sipweir = guarded(&topology, "reply.code = 0\n");
    let flood = flood(&topology);
    let folder = tempfile::tempdir().expect("temporary folder");
    wait_until("the XDP program sheds", Duration::from_secs(20), || {
        let status = sipweir.status();
        let rows = status["kernel"].as_array().cloned().unwrap_or_default();
        rows.iter().any(|row| row["verdict"] == "drop" && row["class"] == "original")
    });
    let file = folder.path().join("xdp.pcapng");
    let finished = capture(&topology, &sipweir, &file, &["--count", "200", "--sample", "1/2"]);
    assert!(finished.status.success(), "{finished}");
    let packets = read(&file);
    assert_eq!(packets.len(), 200);
    let by_xdp = packets.iter().filter(|(comment, ..)| comment.ends_with("service main, by xdp"));
    assert!(by_xdp.clone().count() > 50, "{packets:?}");
    for (comment, method, _) in by_xdp {
        let why = ["shed: gate_discard; class original", "shed: share_outside; class original"];
        assert!(why.iter().any(|why| comment.starts_with(why)), "{comment}");
        assert_eq!(method, "INVITE");
    }
    // It is over: nothing is sampled, and the next one may begin. This one gets nothing, for want of copies.
    let file = folder.path().join("none.pcapng");
    let more = ["--reason", "copy_excess", "--duration", "0.5"];
    let finished = capture(&topology, &sipweir, &file, &more);
    assert!(finished.status.success() && finished.stderr.contains("0 packets in"), "{finished}");
    assert!(read(&file).is_empty());
    drop(flood);
    end(sipweir, &topology);
}

#[test]
fn words_that_do_not_exist_are_refused_before_a_file_is_touched() {
    let topology = Topology::new(&LinkPlan::default());
    let sipweir = guarded(&topology, "");
    let folder = tempfile::tempdir().expect("temporary folder");
    let file = folder.path().join("old.pcapng");
    std::fs::write(&file, "an older capture").expect("write");
    for (more, said) in [
        (["--reason", "spite"], "there is no reason \"spite\""),
        (["--class", "invite"], "there is no class \"invite\"; there are response, ack"),
        (["--service", "other"], "there is no service \"other\"; there are main"),
    ] {
        let finished = capture(&topology, &sipweir, &file, &more);
        assert_eq!(finished.status.code(), Some(1), "{finished}");
        assert!(finished.stderr.contains(said), "{finished}");
    }
    assert_eq!(std::fs::read_to_string(&file).expect("read"), "an older capture");
    end(sipweir, &topology);
}

#[test]
fn a_client_that_never_reads_holds_up_nobody_and_is_cut_off() {
    let topology = Topology::new(&LinkPlan::default());
    let mut sipweir = guarded(&topology, "");
    let flood = flood(&topology);
    refuses(&mut sipweir);
    let mut client = UnixStream::connect(sipweir.socket()).expect("connect");
    let filter = r#"{"verdict":null,"reason":null,"class":null,"service":null,"one_in":1}"#;
    let request =
        format!("{{\"request\":\"capture\",\"filter\":{filter},\"count\":null,\"duration_ms\":null}}\n");
    client.write_all(request.as_bytes()).expect("send");
    let mut first = String::new();
    let mut reader = BufReader::new(&client);
    reader.read_line(&mut first).expect("it begins");
    assert!(first.contains("\"begun\""), "{first}");
    let capturing = |sipweir: &mut Sipweir| sipweir.status().get("capturing").cloned();
    wait_until("the status shows it", Duration::from_secs(10), || {
        capturing(&mut sipweir).is_some_and(|capture| capture["sent_so_far"].as_u64() > Some(0))
    });
    // Meanwhile there is no other.
    let folder = tempfile::tempdir().expect("temporary folder");
    let file = folder.path().join("second.pcapng");
    let second = capture(&topology, &sipweir, &file, &["--count", "1"]);
    assert!(!second.status.success() && second.stderr.contains("another capture is under way"), "{second}");
    let finished = |sipweir: &mut Sipweir| {
        let status = sipweir.status();
        let outcomes = status["services"]["main"]["outcomes"]["original"].as_object().cloned();
        outcomes.into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum::<u64>()
    };
    let before = finished(&mut sipweir);
    wait_until("messages go on being dealt with", Duration::from_secs(10), || {
        finished(&mut sipweir) > before + u64::from(FLOOD_PER_S)
    });
    // The socket is full by then or soon; afterwards there may be another.
    wait_until("it is cut off", Duration::from_secs(30), || {
        capture(&topology, &sipweir, &file, &["--count", "1"]).status.success()
    });
    assert_eq!(capturing(&mut sipweir), None);
    drop(flood);
    end(sipweir, &topology);
}

/// A file system of 64 KiB at a folder; unmounted when dropped.
struct Tiny<'a>(&'a Path);

impl<'a> Tiny<'a> {
    fn mount(folder: &'a Path) -> Self {
        run(&["mount", "-t", "tmpfs", "-o", "size=64k", "tiny", folder.to_str().expect("UTF-8")]);
        Self(folder)
    }
}

impl Drop for Tiny<'_> {
    fn drop(&mut self) {
        let _done = std::process::Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_ends_the_capture_and_nothing_else() {
    let topology = Topology::new(&LinkPlan::default());
    let mut sipweir = guarded(&topology, "");
    let flood = flood(&topology);
    refuses(&mut sipweir);
    let folder = tempfile::tempdir().expect("temporary folder");
    let tiny = Tiny::mount(folder.path());
    let file = folder.path().join("full.pcapng");
    let finished = capture(&topology, &sipweir, &file, &["--duration", "60"]);
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    assert!(finished.stderr.contains("full.pcapng"), "{finished}");
    assert!(finished.stderr.contains("No space left on device"), "{finished}");
    let before = sipweir.number("/services/main/outcomes/original/rejected");
    wait_until("the instance goes on", Duration::from_secs(10), || {
        sipweir.number("/services/main/outcomes/original/rejected") > before + 100
    });
    drop(tiny);
    // The capture has ended there, too.
    let file = folder.path().join("next.pcapng");
    wait_until("another one can begin", Duration::from_secs(10), || {
        capture(&topology, &sipweir, &file, &["--count", "5"]).status.success()
    });
    assert_eq!(read(&file).len(), 5);
    drop(flood);
    end(sipweir, &topology);
}
