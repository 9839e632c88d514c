//! The field cases that are about load rather than about bytes: storms, probes, bursts and failover, by the worker's
//! turn over paired rings. Those about bytes are in `userspace/sip/tests/field_cases`, with the XDP program as a second
//! judge.
//!
//! Not here: cases 37 and 39, which are about copies (`copies.rs`); case 47, about caps (`limits.rs`); case 63, the
//! kernel's SIP helper (`src/sip_helper.rs`); and case 65, the export (`capture.rs`).

mod support;

use overload::{GateConfig, GateState, HystereticConfig, Threshold};
use sip::{Class, Method};
use sipweir::config::Reply;
use sipweir::counters::Outcome;
use sipweir::limits::{Cap, Caps};
use support::{Bench, CONTROL, MS, NEW, REJECT, Setup, request};

const URI: &str = "sip:b@example.com";
/// One message, and the next after as many seconds as no test lasts.
const ONE: Cap = Cap::PerSecond(0.01);

fn hysteretic(low: u32, high: u32, buffer: u32, share: f64) -> GateConfig {
    GateConfig::Hysteretic(HystereticConfig {
        admit_below: Threshold::Messages(low),
        shed_at: Threshold::Messages(high),
        discard_at: Threshold::Messages(buffer),
        share,
    })
}

/// A worker whose server takes nothing yet, and whose gate is in overload after `waiting` originals.
fn in_overload(gate: GateConfig, waiting: usize) -> Bench {
    let mut bench = Bench::new(&Setup { gate, queue_target: 1, ..Setup::default() });
    bench.server.set_waiting(1);
    bench.turn_after(MS);
    for n in 0..waiting {
        bench.deliver(&request("INVITE", URI, &format!("before{n}"))).expect("delivered");
    }
    bench.turn_after(MS);
    assert_ne!(bench.lane.gate_state.get(), GateState::Normal as u64);
    // Of those that were shed on the way there.
    bench.replies();
    bench
}

/// A request without decision, as the XDP program hands over what it has not read to the end.
fn deliver_unread(bench: &mut Bench, message: &str) {
    bench.deliver_as(NEW, message.as_bytes(), Class::Undecided, Method::Invite, None).expect("delivered");
}

#[test]
fn case_25_an_ack_whose_cseq_says_invite_waits_behind_everybody() {
    let mut bench = in_overload(hysteretic(1, 2, 50, 1.0), 2);
    bench.deliver(&request("ACK", "sip:liar", "c1").replace("1 ACK", "1 INVITE")).expect("delivered");
    bench.deliver(&request("INVITE", "sip:new", "c2")).expect("delivered");
    bench.deliver(&request("ACK", "sip:honest", "c3")).expect("delivered");
    bench.turn_after(MS);
    let order = bench.order_of_service();
    assert_eq!(order.first().map(String::as_str), Some("ACK sip:honest"));
    assert_eq!(order.last().map(String::as_str), Some("ACK sip:liar"));
    assert_eq!(bench.lane.above_cap_of(Class::Ack), 1);
    bench.assert_conserved();
}

#[test]
fn case_36_a_request_with_credentials_is_inside_twice_the_share_and_nothing_is_while_the_gate_discards() {
    let mut bench = in_overload(hysteretic(1, 2, 600, 0.25), 2);
    let mut refused = [0, 0];
    for n in 0..400 {
        let plain = request("REGISTER", URI, &format!("plain{n}"));
        let header = ["Authorization", "Proxy-Authorization"][n % 2];
        let answered = request("REGISTER", URI, &format!("answered{n}"))
            .replace("Contact:", &format!("{header}: Digest username=\"a\"\r\nContact:"));
        deliver_unread(&mut bench, &plain);
        deliver_unread(&mut bench, &answered);
        bench.turn_after(MS / 10);
        for reply in bench.replies() {
            refused[usize::from(reply.contains("answered"))] += 1;
        }
    }
    assert!((270..330).contains(&refused[0]), "{refused:?}: three quarters of 400 without credentials");
    assert!((165..235).contains(&refused[1]), "{refused:?}: half of 400 with credentials");

    let mut bench = in_overload(hysteretic(1, 2, 3, 1.0), 3);
    assert_eq!(bench.lane.gate_state.get(), GateState::Discard as u64);
    let late = request("INVITE", URI, "late").replace("Contact:", "Authorization: x\r\nContact:");
    deliver_unread(&mut bench, &late);
    bench.turn_after(MS);
    assert!(bench.replies().remove(0).contains("Call-ID: late"));
}

#[test]
fn case_44_nothing_but_originals_is_refused_while_the_gate_discards_and_all_else_reaches_the_server() {
    let mut bench = in_overload(hysteretic(1, 2, 3, 1.0), 3);
    assert_eq!(bench.lane.gate_state.get(), GateState::Discard as u64);
    let in_dialog = |method: &str, name: &str| {
        let message = request(method, &format!("sip:{name}"), name);
        message.replace("To: <sip:b@example.com>", "To: <sip:b@example.com>;tag=there")
    };
    for (name, message) in [
        ("ack", request("ACK", "sip:ack", "ack")),
        ("cancel", request("CANCEL", "sip:cancel", "cancel")),
        ("bye", request("BYE", "sip:bye", "bye")),
        ("prack", request("PRACK", "sip:prack", "prack")),
        ("reinvite", in_dialog("INVITE", "reinvite")),
        ("info", in_dialog("INFO", "info")),
        ("refresh", in_dialog("UPDATE", "refresh")),
        ("sos", request("INVITE", "urn:service:sos", "sos")),
        (
            "preempts",
            request("INVITE", "sip:preempts", "preempts")
                .replace("Contact", "Resource-Priority: ets.0\r\nContact"),
        ),
        (
            "answer",
            request("INVITE", URI, "answer").replacen(&format!("INVITE {URI} SIP/2.0"), "SIP/2.0 200 OK", 1),
        ),
    ] {
        let found = sip::classify(message.as_bytes());
        if found.class == Class::InDialog {
            // As the XDP program leaves those whose headers it has no bounds to read.
            let undecided = Class::Undecided;
            bench.deliver_as(NEW, message.as_bytes(), undecided, found.method, None).expect("delivered");
        } else {
            bench.deliver(&message).expect("delivered");
        }
        bench.turn_after(MS);
        assert!(bench.replies().is_empty(), "{name} was refused");
    }
    deliver_unread(&mut bench, &request("INVITE", "sip:original", "original"));
    bench.turn_after(MS);
    assert_eq!(bench.replies().len(), 1, "only the original is");
    let order = bench.serve_all();
    let expected = [
        "ACK sip:ack",
        "CANCEL sip:cancel",
        "BYE sip:bye",
        "PRACK sip:prack",
        "INVITE sip:reinvite",
        "INFO sip:info",
        "UPDATE sip:refresh",
        "INVITE urn:service:sos",
        "INVITE sip:preempts",
        "SIP/2.0 200",
    ];
    assert_eq!(order[..10], expected, "before the originals that wait");
    bench.assert_conserved();
}

#[test]
fn case_45_forged_to_tags_wait_behind_originals_while_calls_that_were_admitted_go_on() {
    let caps = Caps { in_dialog: ONE, ..Caps::of_each_kind(Cap::Off) };
    let mut bench = Bench::new(&Setup { queue_target: 1, caps, ..Setup::default() });
    bench.deliver(&request("INVITE", "sip:call", "call")).expect("delivered");
    bench.turn_after(MS);
    bench.at_server();
    bench.server.set_waiting(1);
    bench.turn_after(MS);
    bench.deliver(&request("INVITE", "sip:new", "new")).expect("delivered");
    for n in 0..5 {
        let forged = request("INFO", "sip:forged", &format!("forged{n}"))
            .replace("To: <sip:b@example.com>", "To: <sip:b@example.com>;tag=x");
        bench.deliver(&forged).expect("delivered");
    }
    bench.deliver(&request("BYE", "sip:call", "call")).expect("delivered");
    bench.turn_after(MS);
    let order = bench.order_of_service();
    assert_eq!(&order[..3], ["INFO sip:forged", "BYE sip:call", "INVITE sip:new"]);
    assert_eq!(order[3..], ["INFO sip:forged"; 4]);
}

#[test]
fn case_46_registrations_behind_one_address_are_refused_one_by_one_and_nobody_is_banned() {
    let mut bench = Bench::new(&Setup { gate: hysteretic(40, 50, 60, 0.5), ..Setup::default() });
    bench.server.set_waiting(8);
    bench.turn_after(MS);
    for n in 0..200 {
        deliver_unread(&mut bench, &request("REGISTER", URI, &format!("c{n}")));
        // Each is sent again: a copy is no second request, and is not held against its sender.
        deliver_unread(&mut bench, &request("REGISTER", URI, &format!("c{n}")));
        bench.turn_after(MS / 10);
    }
    let refused = bench.lane.outcome_of(Class::Original, Outcome::Rejected);
    assert_eq!(bench.lane.waiting.get() + refused, 200);
    assert_eq!(bench.lane.outcome_of(Class::Copy, Outcome::CopyAbsorbed), bench.lane.waiting.get());
    let answers = bench.replies();
    assert!(answers.iter().all(|answer| answer.starts_with("SIP/2.0 503 ")));
    assert_eq!(answers.len() as u64, 2 * refused, "each copy gets the answer of its original");
    bench.order_of_service();
    deliver_unread(&mut bench, &request("REGISTER", URI, "after"));
    bench.turn_after(MS);
    assert_eq!(bench.at_server().len(), 1, "the same address is served as soon as there is room");
}

#[test]
fn case_48_a_probers_options_reaches_the_server_while_every_original_is_shed() {
    let mut bench = in_overload(hysteretic(1, 2, 3, 0.0), 3);
    let probe = request("OPTIONS", "sip:probe", "p1");
    bench.deliver_as(CONTROL, probe.as_bytes(), Class::Prober, Method::Options, None).expect("delivered");
    deliver_unread(&mut bench, &request("OPTIONS", "sip:other", "p2"));
    bench.turn_after(MS);
    assert_eq!(bench.replies().len(), 1);
    assert_eq!(bench.order_of_service().first().map(String::as_str), Some("OPTIONS sip:probe"));
}

/// The messages that reach the server within `seconds`. What goes to the network meanwhile must be an answer, to the
/// client's own address; it is added to `answers`.
fn run_for(bench: &mut Bench, seconds: u64, answers: &mut Vec<String>) -> Vec<String> {
    let mut at_server = Vec::new();
    for _ in 0..seconds * 10 {
        bench.turn_after(100 * MS);
        at_server.extend(bench.at_server());
        for packet in bench.wire.sent() {
            assert_eq!(
                (&packet[30..34], &packet[36..38]),
                (&[198, 51, 100, 7][..], &5062_u16.to_be_bytes()[..])
            );
            let text = String::from_utf8_lossy(&packet[42..]).into_owned();
            assert!(text.starts_with("SIP/2.0 503 "), "{text}");
            answers.push(text);
        }
    }
    at_server
}

#[test]
fn case_50_nobody_gets_a_request_that_no_client_has_sent_and_nobody_two_of_one() {
    let gate = hysteretic(2, 4, 8, 0.5);
    let mut bench = Bench::new(&Setup { gate, queue_target: 4, ..Setup::default() });
    let (mut sent, mut served, mut answers) = (Vec::new(), Vec::new(), Vec::new());
    // Times at which others probe: nobody calls, the server reads nothing, it is gone, it is there again.
    for (phase, waiting, is_gone) in
        [("calm", 0, false), ("full", 50, false), ("gone", 0, true), ("back", 0, false)]
    {
        bench.server.set_waiting(waiting);
        bench.server.set_gone(is_gone);
        let quiet = run_for(&mut bench, 60, &mut answers);
        assert!(quiet.is_empty(), "{phase}: {quiet:?}");
        assert_eq!(answers.len() + served.len(), sent.len(), "{phase}: each has one answer, or is served");
        for n in 0..10 {
            let method = ["INVITE", "OPTIONS"][n % 2];
            let message = request(method, URI, &format!("{phase}{n}"));
            deliver_unread(&mut bench, &message);
            sent.push(message);
        }
        served.extend(run_for(&mut bench, 10, &mut answers));
    }
    assert_eq!((served.len() + answers.len(), sent.len()), (40, 40));
    assert!(served.len() >= 10 && answers.len() >= 20, "{} and {}", served.len(), answers.len());
    let call_of = |text: &str| text.lines().find(|line| line.starts_with("Call-ID:")).map(str::to_owned);
    for message in &sent {
        let as_it_came = served.iter().filter(|other| *other == message).count();
        let answered = answers.iter().filter(|answer| call_of(answer) == call_of(message)).count();
        assert_eq!(as_it_came + answered, 1, "{message}");
    }
}

#[test]
fn case_52_a_server_that_has_stopped_reading_is_given_no_more_and_its_callers_are_told() {
    let mut bench =
        Bench::new(&Setup { gate: hysteretic(40, 50, 60, 0.5), queue_target: 8, ..Setup::default() });
    let mut at_server = 0;
    for n in 0..500 {
        deliver_unread(&mut bench, &request("INVITE", URI, &format!("c{n}")));
        bench.turn_after(MS);
        at_server += bench.at_server().len();
        // It takes everything and never reads.
        bench.server.set_waiting(at_server as u64);
    }
    assert!(at_server <= 8, "{at_server} messages for a server that reads none");
    bench.turn_after(401 * MS);
    let told = bench.lane.outcome_of(Class::Original, Outcome::Rejected)
        + bench.lane.outcome_of(Class::Original, Outcome::RejectedLate);
    assert_eq!(told + at_server as u64, 500);
    assert_eq!(bench.replies().len() as u64, told);
}

#[test]
fn case_53_a_burst_of_a_tenth_of_a_second_is_no_overload() {
    let gate = GateConfig::Hysteretic(HystereticConfig::default());
    let mut bench = Bench::new(&Setup { gate, rate_per_s: 1000.0, queue_target: 8, ..Setup::default() });
    for second in 0..3 {
        for n in 0..100 {
            deliver_unread(&mut bench, &request("INVITE", URI, &format!("c{second}-{n}")));
        }
        for ms in 0..1000u64 {
            // One message a millisecond leaves the server.
            bench.turn_after(MS);
            bench.server.set_waiting(u64::from(ms < 100) * 7);
            bench.at_server();
        }
    }
    assert_eq!(bench.lane.outcome_of(Class::Original, Outcome::HandedOver), 300);
    assert_eq!(bench.lane.gate_transitions.get(), 0);
}

#[test]
fn case_54_no_original_is_served_after_its_client_has_sent_a_copy() {
    let mut bench = Bench::new(&Setup { queue_target: 1, ..Setup::default() });
    bench.server.set_waiting(1);
    bench.turn_after(MS);
    for n in 0..20 {
        deliver_unread(&mut bench, &request("INVITE", URI, &format!("c{n}")));
        bench.turn_after(100 * MS);
    }
    let order = bench.order_of_service();
    assert!(order.len() <= 4, "{order:?}: all others have waited for more than 400 ms");
    assert_eq!(bench.lane.outcome_of(Class::Original, Outcome::RejectedLate), 20 - order.len() as u64);
    assert!(bench.lane.wait_ns_max.get() <= 500 * MS);
}

#[test]
fn case_55_overload_ends_with_the_burst_and_its_time_is_measured() {
    let mut bench = in_overload(hysteretic(5, 10, 20, 0.5), 30);
    let started_ns = Bench::new(&Setup::default()).now_ns;
    assert_eq!(bench.lane.gate_state.get(), GateState::Discard as u64);
    bench.serve_all();
    assert_eq!(bench.lane.gate_state.get(), GateState::Normal as u64);
    bench.replies();
    let mut served = 0;
    for n in 0..50 {
        deliver_unread(&mut bench, &request("INVITE", URI, &format!("after{n}")));
        bench.turn_after(5 * MS);
        served += bench.at_server().len();
    }
    assert_eq!((served, bench.replies().len()), (50, 0));
    // The gate was in discard, came back once, and all of its time is accounted for.
    let times = &bench.lane.gate_state_ns;
    assert_eq!(times.iter().map(sipweir::counters::Count::get).sum::<u64>(), bench.now_ns - started_ns);
    assert_eq!(bench.lane.gate_returns.get(), 1);
    assert_eq!(times[1].get() + times[2].get(), bench.lane.gate_return_ns.get());
    assert!(times[2].get() > 0 && bench.lane.in_system_us.get() > 0);
}

#[test]
fn case_66_any_node_with_the_same_seed_absorbs_the_ack_to_anothers_refusal() {
    let (mut here, mut there) = (Bench::new(&Setup::default()), Bench::new(&Setup::default()));
    let invite = request("INVITE", URI, "c1");
    here.deliver_as(REJECT, invite.as_bytes(), Class::Original, Method::Invite, None).expect("delivered");
    here.turn_after(MS);
    let refusal = here.replies().remove(0);
    let to = refusal.lines().find(|line| line.starts_with("To:")).expect("To");
    let ack = request("ACK", URI, "c1")
        .replace("branch=z9hG4bKc1ACK", "branch=z9hG4bKc1INVITE")
        .replace("To: <sip:b@example.com>", to);
    there.deliver(&ack).expect("delivered");
    there.turn_after(MS);
    assert_eq!(there.lane.outcome_of(Class::Ack, Outcome::AckAbsorbed), 1);
    assert!(there.at_server().is_empty());
}

#[test]
fn case_51_scanners_can_be_shed_in_silence() {
    let reply = Reply { code: 0, ..Reply::default() };
    let mut bench =
        Bench::new(&Setup { gate: hysteretic(1, 2, 3, 0.0), queue_target: 1, reply, ..Setup::default() });
    bench.server.set_waiting(1);
    bench.turn_after(MS);
    for n in 0..9 {
        deliver_unread(&mut bench, &request("INVITE", URI, &format!("c{n}")));
    }
    bench.turn_after(MS);
    assert!(bench.replies().is_empty());
    assert_eq!(bench.lane.outcome_of(Class::Original, Outcome::SilentByChoice), 9 - bench.lane.waiting.get());
}
