//! What a running instance says on standard error, and that it waits for no reader.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use serde_json::Value;
use sipweir_tests::command::run;
use sipweir_tests::{CallLoad, Kamailio, KamailioPlan, LinkPlan, Sipweir, wait_until};

use crate::guard::{configuration, end};
use crate::topology::Topology;

/// Makes the shell tell sipweir that standard error is the journal, as systemd does.
const AS_JOURNAL: [&str; 4] =
    ["sh", "-c", "JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec \"$@\"", "sh"];

/// Lets the server appear, and waits until that is in the log, too.
#[track_caller]
fn see_the_server_come(topology: &Topology, sipweir: &Sipweir) -> Kamailio {
    wait_until("its absence is in the log", Duration::from_secs(5), || {
        sipweir.log().contains("the server is down")
    });
    let kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    wait_until("its coming is in the log", Duration::from_secs(5), || {
        sipweir.log().contains("the server is there")
    });
    kamailio
}

#[test]
fn changes_of_the_server_s_state_are_json_with_numbers_if_asked_for() {
    let topology = Topology::new(&LinkPlan::default());
    let sipweir = Sipweir::start_by(&[], &topology.server, &configuration(), &["--log-format", "json"]);
    let _kamailio = see_the_server_come(&topology, &sipweir);
    let lines: Vec<Value> = sipweir
        .log()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let down =
        lines.iter().find(|line| line["server"] == "down").expect("a line about the server that is down");
    assert_eq!((&down["level"], &down["service"]), (&"ERROR".into(), &"main".into()), "{down}");
    assert!(down["timestamp"].is_string() && down["message"].is_string(), "{down}");
    assert!(down["changes"].is_u64() && down["waiting"].is_u64(), "{down}");
    end(sipweir, &topology);
}

#[test]
fn lines_for_the_journal_begin_with_their_priority_and_leave_the_time_to_it() {
    let topology = Topology::new(&LinkPlan::default());
    for (arguments, plain) in [(&[][..], true), (&["--log-format", "json"], false)] {
        let sipweir = Sipweir::start_by(&AS_JOURNAL, &topology.server, &configuration(), arguments);
        let kamailio = see_the_server_come(&topology, &sipweir);
        let log = sipweir.log();
        let priority_of = |said: &str| {
            let line =
                log.lines().find(|line| line.contains(said)).unwrap_or_else(|| panic!("{said}: {log}"));
            let (priority, rest) = line.split_once('>').unwrap_or_else(|| panic!("{line}"));
            assert_eq!(rest.starts_with('{'), !plain, "{line}");
            assert!(!plain || !rest.contains("20"), "a year in {line}");
            priority.to_owned()
        };
        assert_eq!(["the server is down", "the server is there"].map(priority_of), ["<3", "<6"]);
        drop(kamailio);
        end(sipweir, &topology);
    }
}

/// A reader of standard error that hangs, its pipe full: the worker must neither wait for it when the server goes, nor the
/// process when it ends.
#[test]
fn a_reader_of_the_log_that_hangs_holds_nobody_up() {
    let topology = Topology::new(&LinkPlan::default());
    let kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let folder = tempfile::tempdir().expect("temporary folder");
    let pipe = folder.path().join("pipe");
    run(&["mkfifo", pipe.to_str().expect("UTF-8")]);
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    // Open for both, so that opening waits for nobody; nothing is ever read.
    let mut hanging =
        OpenOptions::new().read(true).write(true).custom_flags(nonblocking).open(&pipe).expect("open");
    let full = loop {
        if let Err(error) = hanging.write(&[b'-'; 512]) {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);

    let redirected = ["sh", "-c", "exec \"$@\" 2>>\"$0\"", pipe.to_str().expect("UTF-8")];
    let mut sipweir = Sipweir::start_by(&redirected, &topology.server, &configuration(), &[]);
    kamailio.terminate();
    wait_until("the missing server is known", Duration::from_secs(5), || {
        sipweir.status().pointer("/services/main/server/state").is_some_and(|state| state == "down")
    });
    let totals = topology.call(&CallLoad::at(50).ending_after(25)).finish(Duration::from_secs(20)).totals();
    assert_eq!((totals.refused, totals.failed), (25, 0), "{totals:?}");
    end(sipweir, &topology);
}

/// A file on a full disk, as /dev/full is one (full(4)): each line is lost and counted, and nothing else.
#[test]
fn a_full_disk_costs_lines_of_the_log_and_nothing_else() {
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let redirected = ["sh", "-c", "exec \"$@\" 2>>/dev/full", "sh"];
    let mut sipweir = Sipweir::start_by(&redirected, &topology.server, &configuration(), &[]);
    let totals = topology.call(&CallLoad::at(50).ending_after(25)).finish(Duration::from_secs(20)).totals();
    assert_eq!((totals.completed, totals.copies), (25, 0), "{totals:?}");
    // That it guards, and that the server is there.
    assert!(sipweir.number("/log_lines_lost") >= 2, "{:#}", sipweir.status());
    end(sipweir, &topology);
}
