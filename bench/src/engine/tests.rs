use super::*;
use crate::clock::SECOND_NS;
use crate::config::{Arrival, Hold, Marker, Mix};
use crate::report::MethodCounts;

const MS: u64 = 1_000_000;
/// Not zero, so that a forgotten start shows.
const START: Nanos = 77 * SECOND_NS + 123;
/// Timers fire at most one tick of the wheel late.
const TICK: u64 = 1 << crate::wheel::TICK_SHIFT;

/// Engine, clock and wire of a test.
struct Stage {
    engine: Engine,
    now: Nanos,
    sent: Vec<(Nanos, String)>,
}

struct Wire<'a>(Nanos, &'a mut Vec<(Nanos, String)>);

impl Outbox for Wire<'_> {
    fn send(&mut self, _: usize, datagram: &[u8]) -> Sent {
        self.1.push((self.0, String::from_utf8(datagram.to_vec()).unwrap()));
        Sent::Yes
    }
}

impl Stage {
    fn new(config: &CallerConfig) -> Self {
        config.check().unwrap();
        let locals = ["192.0.2.1:4000".parse().unwrap(), "192.0.2.2:4001".parse().unwrap()];
        Self { engine: Engine::new(config, &locals, START), now: START, sent: Vec::new() }
    }

    /// Lets time pass, turn by turn, until `offset` after the start.
    fn run_to(&mut self, offset: Nanos) {
        let end = START + offset;
        loop {
            while self.engine.turn(self.now, &mut Wire(self.now, &mut self.sent)) {}
            if self.now >= end {
                return;
            }
            self.now = self.engine.next_wake(end).clamp(self.now + 1, end);
        }
    }

    /// Time passes without the engine being run.
    fn stall_to(&mut self, offset: Nanos) {
        self.now = START + offset;
    }

    /// Answers request number `index` of those sent.
    fn answer(&mut self, index: usize, status: u16) {
        let text = response_to(&self.sent[index].1, status);
        self.receive(&text);
    }

    fn receive(&mut self, text: &str) {
        self.engine.receive(self.now, text.as_bytes(), &mut Wire(self.now, &mut self.sent));
    }

    fn offsets(&self) -> Vec<u64> {
        self.sent.iter().map(|(at, _)| at - START).collect()
    }

    fn report(self) -> Report {
        self.engine.into_report(self.now, 0)
    }
}

fn header<'a>(message: &'a str, name: &str) -> &'a str {
    message.split("\r\n").find_map(|l| l.strip_prefix(name)?.strip_prefix(": ")).unwrap()
}

fn response_to(request: &str, status: u16) -> String {
    let h = |name| header(request, name);
    let (via, from, to, call_id, cseq) = (h("Via"), h("From"), h("To"), h("Call-ID"), h("CSeq"));
    let tag = if to.contains(";tag=") { "" } else { ";tag=server" };
    format!(
        "SIP/2.0 {status} X\r\nVia: {via}\r\nFrom: {from}\r\nTo: {to}{tag}\r\nCall-ID: {call_id}\r\nCSeq: {cseq}\r\n\
         Contact: <sip:s@10.9.9.9:5062>\r\nContent-Length: 0\r\n\r\n"
    )
}

/// One call, one second after the start, in ten.
fn one_call(mix: Mix) -> CallerConfig {
    CallerConfig {
        arrival: Arrival::Constant,
        rate_per_s: 1.0,
        duration_ns: 1_500 * MS,
        max_live_calls: 16,
        mix,
        ..Default::default()
    }
}

const INVITE: Mix = Mix { invite: 1.0, register: 0.0, options: 0.0 };
const OPTIONS: Mix = Mix { invite: 0.0, register: 0.0, options: 1.0 };
const REGISTER: Mix = Mix { invite: 0.0, register: 1.0, options: 0.0 };

fn assert_schedule(offsets: &[u64], expected_ms: &[u64]) {
    assert_eq!(offsets.len(), expected_ms.len(), "{offsets:?}");
    for (at, ms) in offsets.iter().zip(expected_ms) {
        let expected = (1_000 + ms) * MS;
        assert!((expected..expected + TICK + 1).contains(at), "{at} rather than {expected}");
    }
}

#[track_caller]
fn assert_conserved(c: &MethodCounts) {
    assert_eq!(c.offered, c.answered + c.rejected + c.failed + c.not_started + c.unresolved);
}

#[test]
fn an_unanswered_invite_is_sent_seven_times_and_fails_after_64_t1() {
    let mut stage = Stage::new(&one_call(INVITE));
    stage.run_to(32_900 * MS);
    assert_schedule(&stage.offsets(), &[0, 500, 1_500, 3_500, 7_500, 15_500, 31_500]);
    assert!(!stage.engine.finished(stage.now));
    stage.run_to(33_100 * MS);
    assert!(stage.engine.finished(stage.now));
    assert!(stage.sent.iter().all(|(_, text)| *text == stage.sent[0].1), "copies are the same bytes");
    let report = stage.report();
    let total = &report.of(Method::Invite).unwrap().total;
    assert_eq!((total.offered, total.failed, total.copies, total.unresolved), (1, 1, 6, 0));
}

#[test]
fn other_requests_are_sent_eleven_times_with_intervals_up_to_t2() {
    for mix in [OPTIONS, REGISTER] {
        let mut stage = Stage::new(&one_call(mix));
        stage.run_to(40 * SECOND_NS);
        let expected = [0, 500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500];
        assert_schedule(&stage.offsets(), &expected);
        assert_eq!(stage.report().methods[0].total.failed, 1);
    }
}

#[test]
fn markers_number_the_copies_from_zero() {
    for (marker, end) in [(Marker::Field, " SIP/2.0 rtx="), (Marker::Uri, ";rtx=")] {
        let mut stage = Stage::new(&CallerConfig { marker, ..one_call(OPTIONS) });
        stage.run_to(40 * SECOND_NS);
        for (n, (_, text)) in stage.sent.iter().enumerate() {
            let line = text.lines().next().unwrap();
            assert!(line.contains(&format!("{end}{n}")), "{line}");
            assert_eq!(text.replace(&format!("rtx={n}"), "rtx=0"), stage.sent[0].1);
        }
    }
}

#[test]
fn a_provisional_answer_stops_the_copies_of_an_invite_and_its_timer_b() {
    let mut stage = Stage::new(&one_call(INVITE));
    stage.run_to(1_700 * MS);
    stage.answer(0, 100);
    stage.run_to(60 * SECOND_NS);
    assert_eq!(stage.sent.len(), 2);
    stage.answer(0, 200);
    assert!(stage.sent[2].1.starts_with("ACK "));
    let total = stage.report().methods[0].total.clone();
    assert_eq!((total.answered, total.answered_in_t1, total.answered_late, total.failed), (1, 0, 1, 0));
    let us = total.delay_to_provisional.max_us;
    assert!((699_000..702_000).contains(&us), "{us}");
}

#[test]
fn a_provisional_answer_slows_other_requests_to_t2() {
    let mut stage = Stage::new(&one_call(OPTIONS));
    stage.run_to(1_600 * MS);
    stage.answer(0, 100);
    stage.run_to(40 * SECOND_NS);
    // The timer that runs goes on to 1.5 s; then T2.
    let expected = [0, 500, 1_500, 5_500, 9_500, 13_500, 17_500, 21_500, 25_500, 29_500];
    assert_schedule(&stage.offsets(), &expected);
    assert_eq!(stage.report().methods[0].total.failed, 1);
}

#[test]
fn an_answered_call_is_acknowledged_held_and_ended() {
    let hold = Hold { mean_ns: 2 * SECOND_NS, exponential: false };
    let mut stage = Stage::new(&CallerConfig { hold, ..one_call(INVITE) });
    stage.run_to(1_100 * MS);
    stage.answer(0, 200);
    stage.run_to(3_200 * MS);
    stage.answer(2, 200);
    stage.run_to(3_300 * MS);
    assert!(stage.engine.finished(stage.now));
    let [invite, ack, bye] = [0, 1, 2].map(|n| stage.sent[n].1.clone());
    assert_eq!(stage.sent.len(), 3);
    assert!(ack.starts_with("ACK sip:s@10.9.9.9:5062 SIP/2.0\r\n"), "{ack}");
    assert!(bye.starts_with("BYE sip:s@10.9.9.9:5062 SIP/2.0\r\n"), "{bye}");
    for message in [&ack, &bye] {
        assert!(header(message, "To").ends_with(";tag=server"));
        assert_eq!(header(message, "From"), header(&invite, "From"));
        assert_eq!(header(message, "Call-ID"), header(&invite, "Call-ID"));
        assert_ne!(header(message, "Via"), header(&invite, "Via"), "a branch of its own");
    }
    assert_ne!(header(&ack, "Via"), header(&bye, "Via"));
    let bye_at = stage.sent[2].0 - START;
    assert!((3_100 * MS..3_100 * MS + 2 * TICK).contains(&bye_at));
    let report = stage.report();
    assert_eq!(
        (report.calls.answered, report.calls.bye_answered, report.calls.answered_then_lost),
        (1, 1, 0)
    );
    assert_eq!(report.methods[0].total.answered_in_t1, 1);
}

#[test]
fn a_refusal_is_acknowledged_in_the_invite_transaction() {
    let mut stage = Stage::new(&one_call(INVITE));
    stage.run_to(1_050 * MS);
    stage.answer(0, 503);
    stage.run_to(40 * SECOND_NS);
    let [invite, ack] = [&stage.sent[0].1, &stage.sent[1].1];
    assert_eq!(stage.sent.len(), 2, "no copy after the final answer");
    assert_eq!(header(ack, "Via"), header(invite, "Via"), "the same branch");
    assert_eq!(header(ack, "To"), format!("{};tag=server", header(invite, "To")));
    assert_eq!(header(ack, "CSeq"), "1 ACK");
    assert_eq!(ack.split(' ').nth(1), invite.split(' ').nth(1), "the same Request-URI");
    let report = stage.report();
    let total = &report.methods[0].total;
    assert_eq!((total.rejected, total.answered, total.failed), (1, 0, 0));
    assert_eq!(total.rejected_by_code.iter().collect::<Vec<_>>(), [(&503, &1)]);
    assert_eq!(report.window.goodput_per_s, 0.0);
}

#[test]
fn late_duplicates_are_acknowledged_again_and_counted() {
    let mut stage = Stage::new(&one_call(INVITE));
    stage.run_to(1_900 * MS);
    stage.answer(0, 200);
    stage.answer(0, 200);
    stage.answer(0, 503);
    stage.stall_to(2_500 * MS);
    stage.answer(0, 200);
    let acks = stage.sent.iter().filter(|(_, text)| text.starts_with("ACK ")).count();
    assert_eq!(acks, 4);
    let report = stage.report();
    assert_eq!((report.responses.duplicates, report.responses.contradictions), (3, 1));
    assert_eq!(report.calls.ack_unheard, 1);
    assert_eq!(report.methods[0].total.answered, 1, "counted once");
}

#[test]
fn duplicates_to_other_requests_are_only_counted() {
    let mut stage = Stage::new(&one_call(OPTIONS));
    stage.run_to(1_100 * MS);
    stage.answer(0, 200);
    stage.answer(0, 200);
    assert_eq!(stage.sent.len(), 1);
    assert_eq!(stage.report().responses.duplicates, 1);
}

#[test]
fn an_answer_after_the_failure_does_not_count_as_one() {
    let mut stage = Stage::new(&one_call(INVITE));
    stage.run_to(34 * SECOND_NS);
    stage.answer(0, 200);
    let report = stage.report();
    assert_eq!(report.responses.after_failure, 1);
    assert_eq!((report.methods[0].total.answered, report.methods[0].total.failed), (0, 1));
}

#[test]
fn a_forgotten_call_is_still_acknowledged() {
    let mut stage = Stage::new(&CallerConfig { duration_ns: 100 * SECOND_NS, ..one_call(INVITE) });
    stage.run_to(1_100 * MS);
    stage.answer(0, 503);
    let ack = stage.sent[1].1.clone();
    stage.run_to(70 * SECOND_NS);
    stage.answer(0, 503);
    assert_eq!(stage.sent.last().unwrap().1, ack);
    assert_eq!(stage.report().responses.forgotten, 1);
}

#[test]
fn a_lost_bye_makes_the_call_lost() {
    let lost = |respond: bool| {
        let mut stage = Stage::new(&one_call(INVITE));
        stage.run_to(1_100 * MS);
        stage.answer(0, 200);
        stage.run_to(2_200 * MS);
        if respond {
            stage.answer(2, 481);
        }
        stage.run_to(40 * SECOND_NS);
        stage.report()
    };
    let report = lost(true);
    assert_eq!(
        (report.calls.bye_rejected, report.calls.bye_failed, report.calls.answered_then_lost),
        (1, 0, 1)
    );
    let report = lost(false);
    assert_eq!(
        (report.calls.bye_rejected, report.calls.bye_failed, report.calls.answered_then_lost),
        (0, 1, 1)
    );
    assert_eq!(report.of(Method::Bye).unwrap().total.copies, 10, "by timer E");
}

#[test]
fn a_late_send_counts_from_its_intended_time() {
    let mut stage = Stage::new(&one_call(INVITE));
    stage.run_to(900 * MS);
    stage.stall_to(1_400 * MS);
    stage.run_to(1_400 * MS);
    assert_eq!(stage.offsets(), [1_400 * MS], "due at 1,000 ms");
    stage.run_to(1_600 * MS);
    stage.answer(0, 200);
    let report = stage.report();
    let total = &report.methods[0].total;
    let us = total.delay_to_answer.max_us;
    assert!((599_000..602_000).contains(&us), "{us} us rather than 600 ms");
    assert_eq!(total.answered_in_t1, 0, "more than T1 after the intended time");
    assert!(report.send_lateness.max_us.abs_diff(400_000) < 500);
}

#[test]
fn late_timers_show_and_do_not_shift_the_schedule() {
    let mut stage = Stage::new(&one_call(INVITE));
    stage.run_to(1_400 * MS);
    stage.stall_to(1_900 * MS);
    stage.run_to(5_000 * MS);
    assert_schedule(&[stage.offsets()[0], stage.offsets()[2], stage.offsets()[3]], &[0, 1_500, 3_500]);
    assert_eq!(stage.offsets()[1], 1_900 * MS);
    assert!(stage.report().copy_lateness.max_us.abs_diff(400_000) < 1_000);
}

#[test]
fn a_stalled_caller_makes_up_for_every_call() {
    let config = CallerConfig { rate_per_s: 1_000.0, max_live_calls: 10_000, ..one_call(OPTIONS) };
    let mut stage = Stage::new(&config);
    stage.stall_to(1_400 * MS);
    stage.run_to(1_400 * MS);
    assert!((1_399..=1_400).contains(&stage.sent.len()), "{}", stage.sent.len());
}

#[test]
fn the_window_leaves_out_warm_up_and_tail() {
    let config = CallerConfig {
        rate_per_s: 10.0,
        duration_ns: 10 * SECOND_NS + 1,
        warm_up_ns: 2 * SECOND_NS,
        tail_ns: SECOND_NS,
        max_live_calls: 1_000,
        ..one_call(OPTIONS)
    };
    let mut stage = Stage::new(&config);
    for step in 1..=100 {
        stage.run_to(step * 100 * MS + 10 * MS);
        if stage.sent.len() as u64 >= step {
            stage.answer(stage.sent.len() - 1, 200);
        }
    }
    let report = stage.report();
    let counts = &report.methods[0];
    assert_eq!((counts.total.offered, counts.total.answered), (100, 100));
    // Starts at 2.0 s to 9.0 s, the first included, the last by the odd nanosecond too.
    assert!((70..=71).contains(&counts.window.offered), "{}", counts.window.offered);
    assert!((report.window.goodput_per_s - 10.0).abs() < 0.2, "{}", report.window.goodput_per_s);
    assert!((report.window.answers_received_per_s - 10.0).abs() < 0.2);
    assert_eq!(report.series.bins.iter().map(|b| b.offered).sum::<u32>(), 100);
    assert_eq!(report.series.bins.iter().map(|b| b.answered).sum::<u32>(), 100);
}

#[test]
fn calls_that_find_no_room_are_counted_not_sent() {
    let config = CallerConfig {
        rate_per_s: 100.0,
        duration_ns: SECOND_NS,
        drain_ns: 0,
        max_live_calls: 10,
        ..one_call(INVITE)
    };
    let mut stage = Stage::new(&config);
    stage.run_to(SECOND_NS);
    assert!(stage.engine.finished(stage.now));
    let report = stage.report();
    let total = &report.methods[0].total;
    assert_conserved(total);
    assert_eq!((total.unresolved, total.not_started), (10, total.offered - 10));
    assert!(report.to_string().contains("SPOILT"));
}

#[test]
fn nonsense_from_the_wire_is_counted_and_harmless() {
    let mut stage = Stage::new(&one_call(INVITE));
    stage.run_to(1_100 * MS);
    let answer = response_to(&stage.sent[0].1, 200);
    stage.receive("");
    stage.receive("OPTIONS sip:x SIP/2.0\r\n\r\n");
    stage.receive(&answer.replace("z9hG4bK", "z9hG4bKff"));
    stage.receive(&answer.replace("CSeq: 1 INVITE", "CSeq: 1 OPTIONS"));
    stage.receive(&answer.replace("f;rport", "b;rport").replace("1 INVITE", "2 BYE"));
    let report = stage.report();
    assert_eq!((report.responses.not_understood, report.responses.strays), (2, 3));
    assert_eq!(report.methods[0].total.unresolved, 1);
    assert_eq!(report.transport.received, 5);
}

#[test]
fn clients_take_turns() {
    let config = CallerConfig { rate_per_s: 10.0, ..one_call(OPTIONS) };
    let mut stage = Stage::new(&config);
    stage.run_to(1_450 * MS);
    let from_first = stage.sent.iter().filter(|(_, t)| header(t, "Via").contains("192.0.2.1:4000")).count();
    assert!(from_first.abs_diff(stage.sent.len() - from_first) <= 3, "{from_first} of {}", stage.sent.len());
}

/// A server that answers, refuses, repeats or ignores at random: whatever happens, each request has one outcome.
#[test]
fn every_request_has_one_outcome_whatever_the_server_does() {
    let mix = Mix { invite: 2.0, register: 1.0, options: 1.0 };
    let config = CallerConfig {
        arrival: Arrival::Poisson,
        rate_per_s: 200.0,
        duration_ns: 20 * SECOND_NS,
        max_live_calls: 3_000,
        t1_ns: 50 * MS,
        t2_ns: 400 * MS,
        mix,
        ..Default::default()
    };
    let mut stage = Stage::new(&config);
    let mut answered = 0;
    let mut dice = 1_u64;
    for step in 1..2_300 {
        stage.run_to(step * 10 * MS);
        while answered < stage.sent.len() {
            dice = crate::identity::mix(dice + 1);
            let text = &stage.sent[answered].1;
            // One call in eight is never heard.
            if !text.starts_with("ACK") && header(text, "Call-ID").as_bytes()[0] > b'1' {
                match dice % 8 {
                    0..=2 => stage.answer(answered, 200),
                    3 => stage.answer(answered, 503),
                    4 => stage.answer(answered, 100),
                    5 => [200, 200, 503].into_iter().for_each(|status| stage.answer(answered, status)),
                    _ => {}
                }
            }
            answered += 1;
        }
    }
    let report = stage.report();
    for counts in &report.methods {
        assert_conserved(&counts.total);
        assert_conserved(&counts.window);
        let t = &counts.total;
        assert!(t.answered > 0 && t.rejected > 0, "{}", counts.method.name());
        assert!(t.failed > 0 || counts.method == Method::Bye, "{}", counts.method.name());
    }
    let calls = report.calls;
    assert_eq!(calls.answered, report.of(Method::Bye).unwrap().total.offered + calls.holding_at_end);
    assert!(report.responses.duplicates > 0 && report.responses.contradictions > 0);
}
