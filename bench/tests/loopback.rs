//! The caller's I/O loop against the answerer on loopback: the schedule on a real clock, both ACKs, refusals, loss.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bench::{
    Answerer, AnswererConfig, Arrival, CallerConfig, Captured, Hold, Marker, Method, Mix, Progress, Report,
    Sources, run,
};

const MS: u64 = 1_000_000;
/// Test machines are busy: a wake-up may be this late.
const SLACK_NS: u64 = 60 * MS;

fn answering() -> AnswererConfig {
    AnswererConfig::new("127.0.0.1:0".parse().unwrap())
}

/// Some calls in a second, with timers 10 times faster than RFC 3261's (T1 = 50 ms).
fn calls(answerer: &Answerer, mix: Mix) -> CallerConfig {
    CallerConfig {
        arrival: Arrival::Constant,
        rate_per_s: 20.0,
        duration_ns: 1_000 * MS,
        drain_ns: 4_000 * MS,
        t1_ns: 50 * MS,
        t2_ns: 400 * MS,
        hold: Hold { mean_ns: 20 * MS, exponential: false },
        mix,
        max_live_calls: 10_000,
        ..CallerConfig::new(answerer.address())
    }
}

fn invites() -> Mix {
    Mix { invite: 1.0, register: 0.0, options: 0.0 }
}

fn offer(config: &CallerConfig) -> Report {
    run(config, &AtomicBool::new(false), &Progress::default()).unwrap()
}

fn header<'a>(message: &'a str, name: &str) -> &'a str {
    message.split("\r\n").find_map(|l| l.strip_prefix(name)?.strip_prefix(": ")).unwrap()
}

/// What arrived, by Call-ID.
fn by_call(captured: impl Iterator<Item = Captured>) -> BTreeMap<String, Vec<(u64, String)>> {
    let mut calls = BTreeMap::<_, Vec<_>>::new();
    for c in captured {
        let text = String::from_utf8(c.datagram).unwrap();
        calls.entry(header(&text, "Call-ID").to_owned()).or_default().push((c.at, text));
    }
    calls
}

#[test]
fn silence_is_met_with_the_exact_schedule() {
    // T1 = 20 ms: everything is over 1.28 s after the first send.
    for (mix, sends_ms) in [
        (invites(), vec![0, 20, 60, 140, 300, 620, 1_260]),
        (
            Mix { invite: 0.0, register: 1.0, options: 1.0 },
            vec![0, 20, 60, 140, 300, 460, 620, 780, 940, 1_100, 1_260],
        ),
    ] {
        let config = AnswererConfig { silent: true, ..answering() };
        let (answerer, captured) = Answerer::start_capturing(&config).unwrap();
        let (t1_ns, t2_ns) = (20 * MS, 160 * MS);
        let config = CallerConfig { t1_ns, t2_ns, marker: Marker::Field, ..calls(&answerer, mix) };
        let report = offer(&config);
        assert_eq!(answerer.stop().answered, 0);
        let calls = by_call(captured.try_iter());
        assert_eq!(calls.len(), report.methods.iter().map(|m| m.total.failed as usize).sum::<usize>());
        for sends in calls.values() {
            assert_eq!(sends.len(), sends_ms.len());
            for (n, (at, text)) in sends.iter().enumerate() {
                let line = text.lines().next().unwrap();
                assert!(line.ends_with(&format!(" SIP/2.0 rtx={n}")), "{line}");
                assert_eq!(
                    text.replacen(&format!(" rtx={n}\r\n"), " rtx=0\r\n", 1),
                    sends[0].1,
                    "same bytes"
                );
                let (after_ns, due_ns) = (at - sends[0].0, sends_ms[n] * MS);
                assert!(
                    after_ns.abs_diff(due_ns) < SLACK_NS,
                    "copy {n} after {after_ns} rather than {due_ns} ns"
                );
            }
        }
    }
}

#[test]
fn unmarked_copies_are_the_same_bytes_from_the_same_address() {
    let config = AnswererConfig { drop_first: 2, ..answering() };
    let (answerer, captured) = Answerer::start_capturing(&config).unwrap();
    let report = offer(&calls(&answerer, invites()));
    assert_eq!(answerer.stop().send_errors, 0);
    let captured: Vec<_> = captured.try_iter().collect();
    let is = |c: &Captured, method: &[u8]| c.datagram.starts_with(method);
    for invite in captured.iter().filter(|c| is(c, b"INVITE")) {
        let copies = captured.iter().filter(|c| c.datagram == invite.datagram && c.source == invite.source);
        assert!(copies.count() >= 3, "two dropped, one answered");
    }
    let total = &report.of(Method::Invite).unwrap().total;
    assert_eq!((total.answered, total.answered_in_t1), (total.offered, 0), "each needed two copies");
    assert!(total.copies_per_request >= 2.0);
    let p50_us = total.delay_to_answer.p50_us;
    assert!((150_000..250_000).contains(&p50_us), "copies at 50 and 150 ms, answered at {p50_us} us");
}

#[test]
fn answered_calls_are_acknowledged_and_ended_inside_their_dialog() {
    let config = AnswererConfig { ringing: true, ..answering() };
    let (answerer, captured) = Answerer::start_capturing(&config).unwrap();
    let report = offer(&CallerConfig { marker: Marker::Uri, ..calls(&answerer, invites()) });
    let counts = answerer.stop();
    let total = &report.of(Method::Invite).unwrap().total;
    assert_eq!(
        (total.offered, total.answered, total.delay_to_provisional.count),
        (total.offered, total.offered, total.offered)
    );
    assert!(total.offered >= 19);
    assert_eq!((report.calls.bye_answered, report.calls.answered_then_lost), (total.offered, 0));
    assert_eq!((counts.ack, counts.bye), (total.offered, total.offered));
    for messages in by_call(captured.try_iter()).values() {
        let [invite, ack, bye] = messages.as_slice() else { panic!("{messages:?}") };
        assert!(
            invite.1.starts_with("INVITE sip:")
                && invite.1.lines().next().unwrap().contains(";rtx=0 SIP/2.0")
        );
        assert!(ack.1.starts_with("ACK sip:answerer@127.0.0.1:"), "{}", ack.1);
        assert!(bye.1.starts_with("BYE sip:answerer@127.0.0.1:"), "{}", bye.1);
        assert!(header(&ack.1, "To").contains(";tag=") && header(&ack.1, "To") == header(&bye.1, "To"));
        assert_ne!(header(&ack.1, "Via"), header(&invite.1, "Via"));
    }
}

#[test]
fn refusals_are_counted_by_code_and_acknowledged_in_their_transaction() {
    let config = AnswererConfig { status: 503, ..answering() };
    let (answerer, captured) = Answerer::start_capturing(&config).unwrap();
    let report = offer(&calls(&answerer, Mix { invite: 1.0, register: 1.0, options: 0.0 }));
    let counts = answerer.stop();
    for counts in &report.methods {
        let total = &counts.total;
        assert_eq!(
            (total.answered, total.rejected, total.rejected_by_code[&503]),
            (0, total.offered, total.offered)
        );
    }
    assert_eq!(counts.ack, report.of(Method::Invite).unwrap().total.offered, "none for REGISTER");
    for messages in by_call(captured.try_iter()).values() {
        if let [invite, ack] = messages.as_slice() {
            assert_eq!(header(&ack.1, "Via"), header(&invite.1, "Via"));
            assert!(header(&ack.1, "To").starts_with(header(&invite.1, "To")));
            assert!(header(&ack.1, "To").contains(";tag="));
        } else {
            assert!(messages[0].1.starts_with("REGISTER ") && messages.len() == 1, "{messages:?}");
        }
    }
}

#[test]
fn a_server_at_twice_its_capacity_answers_late() {
    let config = AnswererConfig { service_ns: 2 * MS, ..answering() };
    let answerer = Answerer::start(&config).unwrap();
    let options = Mix { invite: 0.0, register: 0.0, options: 1.0 };
    let load = CallerConfig { rate_per_s: 1_000.0, ..calls(&answerer, options) };
    let load = CallerConfig { t1_ns: 500 * MS, t2_ns: 4_000 * MS, ..load };
    let report = offer(&load);
    let total = &report.methods[0].total;
    // 500 of 1,000 a second are served: the queue passes T1 and copies begin.
    assert!(total.answered_late > 100 && total.copies > 100, "{report}");
    let served = report.window.answers_received_per_s;
    assert!((300.0..520.0).contains(&served), "{served}");
}

#[test]
fn many_unconnected_clients_have_their_own_addresses() {
    let (answerer, captured) = Answerer::start_capturing(&answering()).unwrap();
    let addresses = ["127.0.0.2", "127.0.0.3"].map(|ip| ip.parse().unwrap()).to_vec();
    let sources = Sources { addresses, first_port: 0, sockets: 10, connected: false };
    let report = offer(&CallerConfig { sources, ..calls(&answerer, invites()) });
    drop(answerer);
    assert_eq!(report.responses.strays, 0);
    let mut seen = std::collections::BTreeSet::new();
    for c in captured.try_iter() {
        let text = String::from_utf8(c.datagram).unwrap();
        assert!(
            header(&text, "Via").contains(&format!("UDP {};", c.source)),
            "sent-by is the socket's address"
        );
        seen.insert(c.source);
    }
    assert_eq!(seen.len(), 10);
    assert!(seen.iter().any(|s| s.ip().to_string() == "127.0.0.3"));
}

#[test]
fn a_port_without_a_server_is_seen_and_the_calls_fail_by_themselves() {
    let address = Answerer::start(&answering()).unwrap().address();
    let mut config = CallerConfig::new(address);
    (config.t1_ns, config.t2_ns, config.duration_ns, config.rate_per_s) = (2 * MS, 16 * MS, 200 * MS, 200.0);
    let report = offer(&config);
    let total = &report.methods[0].total;
    assert_eq!(total.failed, total.offered);
    let t = report.transport;
    assert_eq!(t.sent + t.send_refused, total.offered + total.copies);
}

#[test]
fn a_stop_flag_ends_the_run_at_once_and_progress_can_be_watched() {
    let answerer = Answerer::start(&answering()).unwrap();
    let config = CallerConfig { duration_ns: 60_000 * MS, ..calls(&answerer, invites()) };
    let (stop, progress) = (AtomicBool::new(false), Progress::default());
    let start = Instant::now();
    let report = thread::scope(|scope| {
        let caller = scope.spawn(|| run(&config, &stop, &progress).unwrap());
        while progress.answered.load(Ordering::Relaxed) < 3 && start.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        caller.join().unwrap()
    });
    assert!(start.elapsed() < Duration::from_secs(10));
    assert!(report.methods[0].total.answered >= 3);
}

#[test]
fn ipv6_works_too() {
    let config = AnswererConfig::new("[::1]:0".parse().unwrap());
    let Ok(answerer) = Answerer::start(&config) else {
        eprintln!("no IPv6 on this machine's loopback; nothing to test");
        return;
    };
    let report = offer(&calls(&answerer, invites()));
    assert_eq!(report.calls.bye_answered, report.methods[0].total.offered);
}

#[test]
fn a_taken_port_is_named_in_the_error() {
    let answerer = Answerer::start(&answering()).unwrap();
    let config = AnswererConfig::new(answerer.address());
    let error = Answerer::start(&config).unwrap_err().to_string();
    assert!(error.contains(&answerer.address().to_string()), "{error}");
}
