//! The table against itself, and the text against the table.

use std::collections::BTreeSet;

use super::{Kind, Label, PREFIX, Value, Values, metrics, text};
use crate::counters::{LaneCounters, Outcome, WorkerCounters, wait_bounds_s};
use crate::status::{self, Service, Status, Worker};
use sip::Class;
use std::sync::Arc;

/// A status in which every family has a sample.
fn full() -> Status {
    let lanes: Vec<Arc<LaneCounters>> = (0..2).map(|_| Arc::new(LaneCounters::default())).collect();
    for (class, outcome) in [(Class::Original, Outcome::HandedOver), (Class::Copy, Outcome::CopyStale)] {
        lanes[1].received(class);
        lanes[1].outcome(class, outcome);
    }
    lanes[0].waited(Class::Original, 7_000_000);
    lanes[1].waited(Class::Original, 9_000_000_000);
    lanes[1].gate_state.set(2);
    lanes[1].server_limit_milli.set(12_500);
    let counters = WorkerCounters::default();
    counters.turns.add(3);
    let row = |class: &str, verdict: &str, reason: &str, packets| status::KernelRow {
        class: class.into(),
        verdict: verdict.into(),
        reason: reason.into(),
        packets,
    };
    let mut answered =
        xdp_prog::AnswerCounters { classes: [0, 3, 2, 0, 0, 1, 0], unavailable: 1, ..Default::default() };
    answered.times[1] = 4;
    answered.time_us = 320;
    let mut watched = Service::read(Vec::new(), "enforce", "kernel", "hysteretic", &lanes);
    watched.answers = Some(status::Answers::of(&answered));
    Status {
        version: "0.0.1".into(),
        uptime_s: 1.5,
        interface: "eth0".into(),
        mode: status::Mode { xdp: "native".into(), af_xdp: "copy".into(), ..status::Mode::default() },
        services: [
            ("main".to_owned(), watched),
            ("a \"b\\c".to_owned(), Service::read(Vec::new(), "enforce", "kernel", "fifo", &lanes[..1])),
        ]
        .into(),
        wait_bounds_s: wait_bounds_s().into(),
        answer_bounds_s: xdp_prog::answer_bounds_s().into(),
        workers: vec![Worker::read(0, 1, &counters), Worker::read(1, 0, &counters)],
        capture: Some(status::Capture::default()),
        programs: [("xdp".to_owned(), status::ProgramCost { runs: 4, run_s: 1e-6 })].into(),
        monitored: vec![row("original", "drop", "gate_discard", 1)],
        kernel: vec![row("original", "ring_new", "new_request", 5), row("copy", "drop", "original_waits", 2)],
        ..Status::default()
    }
}

#[test]
fn names_are_those_of_a_scraper_and_none_is_given_twice() {
    let mut seen = BTreeSet::new();
    for metric in metrics() {
        let family = metric.family();
        assert!(family.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{family}");
        for suffix in ["_total", "_bucket", "_count", "_sum", "_info", "_created"] {
            assert!(!metric.name.ends_with(suffix), "{family}: OpenMetrics adds {suffix} itself");
        }
        for name in metric.sample_names() {
            assert!(seen.insert(name.clone()), "{name} is there twice");
        }
        let labels: BTreeSet<_> = metric.labels.iter().map(|label| label.name()).collect();
        assert_eq!(labels.len(), metric.labels.len(), "{family} has two labels of one name");
        let sentence = metric.sentence;
        assert!(
            sentence.ends_with('.') && !sentence.contains(['\n', '"', '|', '\\']),
            "{family}: {sentence}"
        );
    }
}

/// Whether a value is one that the label can have.
fn is_allowed(label: Label, value: &str) -> bool {
    match label.values() {
        Values::Closed(values) => values.contains(&value),
        Values::Open(_) => !value.is_empty(),
    }
}

#[test]
fn every_metric_has_samples_with_allowed_values_of_its_kind_and_none_twice() {
    let status = full();
    for metric in metrics() {
        let samples = metric.samples(&status);
        assert!(!samples.is_empty(), "{}", metric.family());
        let mut seen = BTreeSet::new();
        for sample in samples {
            assert!(seen.insert(sample.values.clone()), "{} {:?}", metric.family(), sample.values);
            for (label, value) in metric.labels.iter().zip(&sample.values) {
                assert!(is_allowed(*label, value), "{}: {label:?} {value:?}", metric.family());
            }
            let fits = match sample.value {
                Value::Whole(one) if metric.kind == Kind::Info => one == 1,
                Value::Whole(_) | Value::Real(_) => matches!(metric.kind, Kind::Counter | Kind::Gauge),
                Value::Waits { .. } => metric.kind == Kind::Histogram,
            };
            assert!(fits, "{} {:?}", metric.family(), sample.value);
        }
    }
}

/// The lines of a text that begin so.
fn lines<'t>(text: &'t str, begin: &str) -> Vec<&'t str> {
    text.lines().filter(|line| line.starts_with(begin)).collect()
}

#[test]
fn the_text_has_each_family_once_in_one_piece_and_ends() {
    let text = text(&full());
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    for metric in metrics() {
        let family = metric.family();
        assert_eq!(lines(&text, &format!("# TYPE {family} {}", metric.kind.name())).len(), 1, "{family}");
        assert_eq!(lines(&text, &format!("# HELP {family} {}", metric.sentence)).len(), 1, "{family}");
        let units = lines(&text, &format!("# UNIT {family} "));
        assert_eq!(units.len(), usize::from(metric.unit.is_some()), "{family}");
    }
    // Between the description of a family and the next there are only its samples.
    let mut names = Vec::new();
    for line in text.lines() {
        if let Some(described) = line.strip_prefix("# TYPE ") {
            let family = described.split(' ').next().expect("a name");
            let metric = metrics().find(|metric| metric.family() == family).expect("of the table");
            names = metric.sample_names();
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().expect("a name");
            assert!(names.iter().any(|known| known == name), "{line}");
            assert!(name.starts_with(PREFIX));
        }
    }
}

#[test]
fn numbers_and_labels_arrive_as_they_are() {
    let text = text(&full());
    for line in [
        "sipweir_instance_info{version=\"0.0.1\",interface=\"eth0\",xdp=\"native\",af_xdp=\"copy\"} 1",
        "sipweir_service_info{service=\"main\",mode=\"enforce\",handoff=\"kernel\",gate=\"hysteretic\"} 1",
        "sipweir_uptime_seconds 1.5",
        "sipweir_xdp_packets_total{class=\"copy\",verdict=\"drop\",reason=\"original_waits\"} 2",
        "sipweir_messages_received_total{service=\"main\",class=\"original\"} 1",
        "sipweir_messages_received_total{service=\"main\",class=\"ack\"} 0",
        "sipweir_messages_finished_total{service=\"main\",class=\"copy\",outcome=\"copy_stale\"} 1",
        "sipweir_gate_state{service=\"main\",queue=\"1\",state=\"discard\"} 1",
        "sipweir_gate_state{service=\"main\",queue=\"0\",state=\"discard\"} 0",
        "sipweir_worker_turns_total{queue=\"1\"} 3",
        "sipweir_wait_seconds_bucket{le=\"0.005\",service=\"main\",class=\"original\"} 0",
        "sipweir_wait_seconds_bucket{le=\"0.01\",service=\"main\",class=\"original\"} 1",
        "sipweir_wait_seconds_bucket{le=\"2.0\",service=\"main\",class=\"original\"} 1",
        "sipweir_wait_seconds_bucket{le=\"+Inf\",service=\"main\",class=\"original\"} 2",
        "sipweir_wait_seconds_count{service=\"main\",class=\"original\"} 2",
        "sipweir_wait_seconds_sum{service=\"main\",class=\"original\"} 9.007",
        "sipweir_server_answers_total{service=\"main\",status=\"2xx\"} 2",
        "sipweir_server_answers_total{service=\"main\",status=\"6xx\"} 0",
        "sipweir_server_answers_unavailable_total{service=\"main\"} 1",
        "sipweir_server_answer_time_seconds_bucket{le=\"0.000064\",service=\"main\"} 0",
        "sipweir_server_answer_time_seconds_bucket{le=\"0.000096\",service=\"main\"} 4",
        "sipweir_server_answer_time_seconds_sum{service=\"main\"} 0.00032",
        "sipweir_server_limit_messages_per_second{service=\"main\"} 12.5",
        "sipweir_server_silent{service=\"main\"} 0",
        "sipweir_messages_waiting{service=\"a \\\"b\\\\c\",queue=\"0\"} 0.0",
    ] {
        assert_eq!(lines(&text, line), [line], "{text}");
    }
}

#[test]
fn what_is_not_measured_is_left_out() {
    let text = text(&Status::default());
    for absent in [
        "sipweir_program_",
        "sipweir_capture_",
        "sipweir_worker_",
        "sipweir_messages_",
        "sipweir_server_answer",
    ] {
        assert!(!text.contains(absent), "{absent}: {text}");
    }
    assert!(text.contains("\nsipweir_interface_missed_total 0\n") && text.ends_with("# EOF\n"));
}
