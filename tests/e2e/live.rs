//! What an operator sees of a running sipweir: its status against the schema, and `sipweir top`.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sipweir_tests::command::run;
use sipweir_tests::{Flood, LinkPlan, Process, Sipweir, message, sipweir, wait_until};

use crate::guard::end;
use crate::topology::Topology;

/// Where Debian's package python3-jsonschema is found; other interpreters of the machine need not have it.
const PYTHON: &str = "/usr/bin/python3";

/// Holds the document in the second file against the schema in the first, and raises where they differ. Every key must be known, so
/// that one which the schema forgot is found.
const VALIDATE: &str = "
import json, sys, jsonschema
schema, document = (json.load(open(path)) for path in sys.argv[1:])
jsonschema.Draft202012Validator.check_schema(schema)
def close(node):
    if isinstance(node, dict):
        if 'properties' in node: node['additionalProperties'] = False
        for inner in node.values(): close(inner)
    elif isinstance(node, list):
        for inner in node: close(inner)
close(schema)
jsonschema.Draft202012Validator(schema).validate(document)
";

/// Originals a second, far more than the server of these tests answers.
const FLOOD_PER_S: u32 = 2000;

/// sipweir in front of an embedded server that is slower than the flood.
fn guarded(topology: &Topology) -> Sipweir {
    Sipweir::start(
        &topology.server,
        "interface = \"eth0\"\n[service.main]\nlisten = \"*:5060\"\nhandoff = \"embedded\"\n\
         embedded.capacity = 200.0\n",
    )
}

/// A flood of calls from one source.
fn flood(topology: &Topology) -> Flood {
    let (from, to) = (topology.caller(5070), topology.service());
    Flood::start(&topology.callers, from, to, FLOOD_PER_S, move |number| {
        message::request("INVITE", from, to, number, "", 0)
    })
}

fn top(topology: &Topology, sipweir: &Sipweir, more: &[&str]) -> String {
    let socket = sipweir.socket().to_str().expect("UTF-8");
    sipweir::finish_in(&topology.server, &[&["top", "--socket", socket], more].concat()).expect_success()
}

#[test]
fn the_status_under_load_is_as_its_schema_says() {
    let topology = Topology::new(&LinkPlan::default());
    let mut sipweir = guarded(&topology);
    let flood = flood(&topology);
    wait_until("requests are refused and sources known", Duration::from_secs(30), || {
        let status = sipweir.status();
        let refused = status.pointer("/services/main/outcomes/original/rejected");
        let busiest = status.pointer("/sources/busiest/0/address");
        refused.and_then(serde_json::Value::as_u64) > Some(0) && busiest.is_some()
    });
    let status = sipweir.status();
    drop(flood);
    let source = &status["sources"]["busiest"][0];
    assert_eq!(source["address"], topology.caller(0).ip().to_string(), "{source}");
    let per_s = source["messages_per_s"].as_f64().expect("a rate");
    assert!((200.0..1.5 * f64::from(FLOOD_PER_S)).contains(&per_s), "{source}");
    assert!(source["refused_per_s"].as_f64() > Some(0.2 * per_s), "{source}");

    let folder = tempfile::tempdir().expect("temporary folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("write");
        path.to_str().expect("UTF-8").to_owned()
    };
    let schema = sipweir::finish_in(&topology.server, &["status", "--schema"]).expect_success();
    let schema = file("schema.json", &schema);
    run(&[PYTHON, "-c", VALIDATE, &schema, &file("status.json", &status.to_string())]);
    // The validator does find what is wrong.
    let mut wrong = status;
    wrong["services"]["main"]["waiting"] = "many".into();
    let wrong = file("wrong.json", &wrong.to_string());
    let refused = sipweir_tests::command::finish(&[PYTHON, "-c", VALIDATE, &schema, &wrong]);
    assert!(!refused.status.success() && refused.stderr.contains("'many'"), "{refused}");
    end(sipweir, &topology);
}

#[test]
fn top_once_prints_what_happens_as_plain_text() {
    let topology = Topology::new(&LinkPlan::default());
    let sipweir = guarded(&topology);
    let flood = flood(&topology);
    let mut text = String::new();
    wait_until("it shows the overload and its source", Duration::from_secs(60), || {
        text = top(&topology, &sipweir, &["--once", "--interval", "0.5"]);
        text.contains(" rejected ") && text.contains("10.77.0.")
    });
    drop(flood);
    assert!(!text.contains('\x1b'), "{text:?}");
    assert!(text.lines().all(|line| line.chars().count() <= 80) && text.lines().count() <= 24, "{text}");
    let of = |first: &str| {
        let line = text.lines().find(|line| line.trim_start_matches(['>', ' ']).starts_with(first));
        let line = line.unwrap_or_else(|| panic!("no {first}: {text}"));
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(["overload", "discard", "normal"].contains(&of("main")[1].as_str()), "{text}");
    let received: f64 = of("original")[1].parse().expect("a rate");
    let per_s = f64::from(FLOOD_PER_S);
    assert!((0.2 * per_s..2.0 * per_s).contains(&received), "{text}");
    let served: f64 = of("original")[2].parse().expect("a rate");
    assert!((20.0..400.0).contains(&served), "the server answers 200 a second: {text}");
    end(sipweir, &topology);
}

/// `sipweir top` at a terminal of its own, which `script` makes.
fn at_a_terminal(topology: &Topology, sipweir: &Sipweir, variables: &str, folder: &Path) -> Process {
    let program = sipweir::binary().display();
    let socket = sipweir.socket().display();
    let command =
        format!("stty rows 24 cols 80; exec env {variables} {program} top --interval 0.2 --socket {socket}");
    topology.server.start(
        "top",
        &["script", "--quiet", "--return", "--command", &command, "/dev/null"],
        folder,
    )
}

/// The process that `script` has started.
fn child_of(process: &Process) -> Pid {
    let children = format!("/proc/{0}/task/{0}/children", process.id());
    let children = std::fs::read_to_string(children).expect("children");
    let child = children.split_whitespace().next().and_then(|child| child.parse().ok()).expect("a child");
    Pid::from_raw(child).expect("a process id")
}

const ENTERS: &str = "\x1b[?1049h";
const LEAVES: &str = "\x1b[?1049l";

#[test]
fn the_terminal_is_given_back_after_a_signal_and_a_server_that_is_gone_is_named() {
    let topology = Topology::new(&LinkPlan::default());
    let mut sipweir = guarded(&topology);
    let folder = tempfile::tempdir().expect("temporary folder");
    let mut top = at_a_terminal(&topology, &sipweir, "TERM=xterm NO_COLOR=1", folder.path());
    wait_until("it is drawn", Duration::from_secs(10), || top.stdout().contains("admits"));
    sipweir.kill();
    wait_until("it says who does not answer", Duration::from_secs(10), || {
        top.stdout().contains("no sipweir answers")
    });
    assert!(top.ended().is_none(), "{}", top.describe());
    kill_process(child_of(&top), Signal::TERM).expect("signal");
    assert!(top.wait(Duration::from_secs(10)).success(), "{}", top.describe());
    let drawn = top.stdout();
    assert!(drawn.contains(ENTERS), "{drawn:?}");
    assert!(drawn.rfind(LEAVES) > drawn.rfind("admits"), "the page is left at the end: {drawn:?}");
    // Escape sequences of colours: 30 to 37, 90 to 97, 38 and the like for the ground.
    for colour in ["\x1b[3", "\x1b[9", "\x1b[4"] {
        let mut coloured = drawn.match_indices(colour).filter(|(at, _)| {
            let rest = &drawn[at + 2..];
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(rest.len());
            rest[end..].starts_with('m') && !["39", "49"].contains(&&rest[..end])
        });
        assert_eq!(coloured.next(), None, "{drawn:?}");
    }
}

#[test]
fn a_dumb_terminal_gets_frames_of_plain_text() {
    let topology = Topology::new(&LinkPlan::default());
    let sipweir = guarded(&topology);
    let folder = tempfile::tempdir().expect("temporary folder");
    let mut top = at_a_terminal(&topology, &sipweir, "TERM=dumb", folder.path());
    wait_until("two frames are there", Duration::from_secs(10), || {
        top.stdout().matches("admits").count() >= 2
    });
    kill_process(child_of(&top), Signal::TERM).expect("signal");
    assert!(top.wait(Duration::from_secs(10)).success(), "{}", top.describe());
    assert!(!top.stdout().contains('\x1b'), "{:?}", top.stdout());
    end(sipweir, &topology);
}
