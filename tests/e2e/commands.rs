//! The commands that need no running instance, as a user calls them.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use sipweir_tests::{LinkPlan, sipweir, turn, wait_until};

use crate::topology::Topology;

fn corpus() -> Vec<String> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus/rfc4475");
    let mut files = Vec::new();
    for folder in ["valid", "invalid"] {
        for entry in std::fs::read_dir(root.join(folder)).expect("corpus") {
            let path = entry.expect("entry").path();
            if path.extension().is_some_and(|extension| extension == "dat") {
                files.push(path.to_str().expect("UTF-8").to_owned());
            }
        }
    }
    files.sort();
    assert_eq!(files.len(), 50);
    files
}

fn rows(output: &str) -> Vec<Value> {
    output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[test]
fn classify_agrees_with_itself_on_every_torture_message() {
    let topology = Topology::new(&LinkPlan::default());
    let files = corpus();
    let arguments: Vec<&str> =
        ["classify", "--json"].into_iter().chain(files.iter().map(String::as_str)).collect();
    let rows = rows(&sipweir::finish_in(&topology.server, &arguments).expect_success());
    assert_eq!(rows.len(), 50);
    let mut decided = 0;
    for (row, file) in rows.iter().zip(&files) {
        assert_eq!(row["source"], *file);
        assert_eq!(row["index"], 0);
        // A message larger than a frame is too large for a test run of the program as well.
        let Some(class) = row["kernel"]["class"].as_str() else {
            assert_eq!(row["user"]["class"], "oversize", "{row}");
            continue;
        };
        if class != "undecided" {
            assert_eq!(row["user"]["class"], class, "{row}");
            decided += 1;
        }
    }
    assert!(decided >= 40, "the kernel decided {decided} of 50 only");
}

#[test]
fn classify_reads_the_others_when_a_file_is_bad() {
    let topology = Topology::new(&LinkPlan::default());
    let good = &corpus()[0];
    let finished =
        sipweir::finish_in(&topology.server, &["classify", "--json", "/nowhere.pcap", good, "/etc/hostname"]);
    assert_eq!(finished.status.code(), Some(2), "{finished}");
    assert_eq!(rows(&finished.stdout).len(), 1, "{finished}");
    for name in ["/nowhere.pcap", "/etc/hostname"] {
        assert!(finished.stderr.contains(name), "{finished}");
    }
}

#[test]
fn classify_without_privileges_leaves_the_kernel_out() {
    let topology = Topology::new(&LinkPlan::default());
    let binary = sipweir::binary().to_str().expect("a path in UTF-8");
    let good = &corpus()[0];
    let said = topology
        .server
        .finish(&[
            "setpriv",
            "--bounding-set",
            "-all",
            "--inh-caps",
            "-all",
            binary,
            "classify",
            "--json",
            good,
        ])
        .expect_success();
    let rows = rows(&said);
    assert_eq!(rows.len(), 1);
    assert!(rows[0]["kernel"].is_null() && rows[0]["user"]["class"].is_string(), "{said}");
}

#[test]
fn check_accepts_the_example_and_names_every_problem() {
    let topology = Topology::new(&LinkPlan::default());
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/example.toml");
    let said = sipweir::finish_in(&topology.server, &["check", example]).expect_success();
    assert!(said.contains("no problems"), "{said}");
    let folder = tempfile::tempdir().expect("temporary folder");
    let file = folder.path().join("wrong.toml");
    std::fs::write(&file, "interface = 7\ncolour = 1\n[frames]\nsize = 1\n").expect("write");
    let finished = sipweir::finish_in(&topology.server, &["check", file.to_str().expect("UTF-8")]);
    assert_eq!(finished.status.code(), Some(2), "{finished}");
    for key in ["interface", "colour"] {
        assert!(finished.stderr.contains(key), "{finished}");
    }
}

/// The promise of the README on any machine: goodput near capacity within T1, where one queue collapses.
#[test]
fn the_demo_shows_the_collapse_and_the_cure() {
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan::default());
    let folder = tempfile::tempdir().expect("temporary folder");
    let (json, html) = (folder.path().join("demo.json"), folder.path().join("demo.html"));
    let (json_path, html_path) = (json.to_str().expect("UTF-8"), html.to_str().expect("UTF-8"));
    let arguments =
        ["demo", "--quick", "--service-time", "constant", "--json", json_path, "--html", html_path];
    let said = sipweir::finish_in(&topology.server, &arguments).expect_success();
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(&json).expect("JSON file")).expect("JSON");
    let capacity = report["capacity_per_s"].as_f64().expect("capacity");
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 9);
    for row in rows {
        let (policy, load) = (row["policy"].as_str().expect("policy"), row["load"].as_f64().expect("load"));
        let answered = row["answered_per_s"].as_f64().expect("answered");
        let in_t1 = row["answered_within_t1_per_s"].as_f64().expect("within T1");
        match policy {
            "priority_hysteresis" if load > 1.0 => {
                assert!(answered >= 0.95 * capacity && in_t1 >= 0.95 * answered, "{row}\n{said}");
            }
            // `answered` counts until the end of the short run; nearly all of it comes after T1.
            "fifo" if load == 2.0 => assert!(in_t1 < 0.5 * answered, "{row}\n{said}"),
            _ => {}
        }
    }
    assert!(std::fs::read_to_string(&html).expect("HTML file").contains("<svg"));
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan::default());
    let folder = tempfile::tempdir().expect("temporary folder");
    let html = folder.path().join("demo.html");
    let binary = sipweir::binary().to_str().expect("UTF-8");
    let arguments = [binary, "demo", "--quick", "--html", html.to_str().expect("UTF-8")];
    let mut demo = topology.server.start("demo", &arguments, folder.path());
    let ours = format!("-{}", demo.id());
    let namespaces = || {
        let all = sipweir_tests::command::run(&["ip", "netns", "list"]);
        all.lines().filter(|line| line.starts_with("swdemo-")).map(str::to_owned).collect::<Vec<_>>()
    };
    wait_until("the demo has made its namespaces", Duration::from_secs(20), || {
        namespaces().iter().filter(|name| name.contains(&ours)).count() == 2
    });
    demo.signal(rustix::process::Signal::INT);
    wait_until("the demo has ended", Duration::from_secs(10), || demo.ended().is_some());
    assert!(namespaces().iter().all(|name| !name.contains(&ours)), "{:?}", namespaces());
    assert!(!html.exists());
}
