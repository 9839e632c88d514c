//! One request, one answer: what is refused stays refused and ends at sipweir, what was handed over is the server's.
//!
//! Client and server are sockets whose every byte the test decides, or a real stack where that is what repairs. None of
//! the tests sends faster than the other side looks, so nothing here depends on rates.

use std::time::Duration;

use serde_json::Value;
use sipweir_tests::{LinkPlan, Peer, Sipweir, Sofia, SofiaPlan, message, wait_until};

use crate::guard::{absorbed_acks, configuration, end, kernel_packets};
use crate::topology::{SIP_PORT, Topology};

/// For one answer, on a busy machine.
const SOON: Duration = Duration::from_secs(10);

/// The gate closes to all originals when two are at the server, and opens when none is.
const TWO_ARE_TOO_MANY: &str = "[service.main.gate]\nlow = 1\nhigh = 2\nbuffer = 100\nadmit = 0.0\n[service.main.server]\nqueue_target = 4\n";

/// Nothing is refused, and what waits has time.
const PATIENT: &str = "max_wait = \"60s\"\n[service.main.gate]\nkind = \"tail_drop\"\nbuffer = 100\n[service.main.server]\nqueue_target = 4\n";

/// Copies of one INVITE that a client sends in 32 s (RFC 3261 section 17.1.1.2).
const COPIES_MAX: u64 = 6;

/// sipweir before a server that reads only when told to, and a client.
#[derive(Debug)]
struct Stage {
    server: Peer,
    client: Peer,
    sipweir: Sipweir,
    topology: Topology,
}

impl Stage {
    #[track_caller]
    fn new() -> Self {
        Self::with(TWO_ARE_TOO_MANY)
    }

    #[track_caller]
    fn with(limits: &str) -> Self {
        let topology = Topology::new(&LinkPlan::default());
        let server = Peer::bind(&topology.server, topology.service());
        let client = Peer::bind(&topology.callers, topology.caller(SIP_PORT));
        let sipweir = Sipweir::start(&topology.server, &format!("{}{limits}", configuration()));
        Self { server, client, sipweir, topology }
    }

    fn invite(&self, number: u64) -> Vec<u8> {
        message::request("INVITE", self.client.address(), self.topology.service(), number, "", 300)
    }

    #[track_caller]
    fn send(&self, datagram: &[u8]) {
        self.client.send(datagram, self.topology.service());
    }

    /// The client's next answer.
    #[track_caller]
    fn answer(&self) -> Vec<u8> {
        self.client.receive("an answer", SOON).0
    }

    /// Two calls that the server does not read: the gate is closed from now on. They are of numbers 1 and 2.
    #[track_caller]
    fn close_the_gate(&mut self) {
        for number in [1, 2] {
            self.send(&self.invite(number));
        }
        self.wait_for_gate("overload");
    }

    #[track_caller]
    fn wait_for_gate(&mut self, state: &str) {
        wait_until(&format!("the gate's state is {state}"), SOON, || {
            self.sipweir.status().pointer("/services/main/gate/state").is_some_and(|now| now == state)
        });
    }

    /// An INVITE, of number 10, that comes when the gate is closed, and the refusal that it gets.
    #[track_caller]
    fn refused_invite(&mut self) -> (Vec<u8>, Vec<u8>) {
        self.close_the_gate();
        let invite = self.invite(10);
        self.send(&invite);
        let refusal = self.answer();
        assert_is_503(&refusal);
        (invite, refusal)
    }

    /// Sends the ACK to a refusal, which must end at sipweir.
    #[track_caller]
    fn acknowledge(&mut self, invite: &[u8], refusal: &[u8]) {
        self.send(&message::ack(invite, refusal));
        wait_until("the ACK has ended at sipweir", SOON, || absorbed_acks(&self.sipweir.status()) == 1);
    }

    /// The server reads all that was handed to it so far, which is then proven by a request that must arrive last.
    #[track_caller]
    fn read_all(&self) -> Vec<Vec<u8>> {
        let last = message::in_dialog("BYE", self.client.address(), self.topology.service(), 999);
        self.send(&last);
        let mut read = Vec::new();
        loop {
            let (datagram, _) = self.server.receive("the last request", SOON);
            if datagram == last {
                return read;
            }
            read.push(datagram);
        }
    }

    #[track_caller]
    fn end(self) {
        assert_eq!(self.client.take(), None, "an answer that nobody asked for");
        end(self.sipweir, &self.topology);
    }
}

#[track_caller]
fn assert_is_503(answer: &[u8]) {
    assert!(answer.starts_with(b"SIP/2.0 503 "), "{}", String::from_utf8_lossy(answer));
}

fn count(read: &[Vec<u8>], datagram: &[u8]) -> usize {
    read.iter().filter(|other| *other == datagram).count()
}

#[test]
fn a_refused_invite_takes_one_answer_and_one_ack_and_neither_reaches_the_server() {
    let mut stage = Stage::new();
    let (invite, refusal) = stage.refused_invite();
    stage.acknowledge(&invite, &refusal);
    assert_eq!(stage.read_all(), [stage.invite(1), stage.invite(2)]);
    stage.end();
}

#[test]
fn a_refused_invite_is_exported_to_the_collector_and_those_that_are_served_are_not() {
    let capture = "[capture]\ncollector = \"127.0.0.1:9060\"\nagent_id = 7\n";
    let mut stage = Stage::with(&format!("{TWO_ARE_TOO_MANY}{capture}"));
    let collector = Peer::bind(&stage.topology.server, ([127, 0, 0, 1], 9060).into());
    let (invite, refusal) = stage.refused_invite();
    let (exported, _) = collector.receive("the refused INVITE", SOON);
    assert!(exported.starts_with(b"HEP3"), "{}", String::from_utf8_lossy(&exported));
    assert!(exported.ends_with(&invite), "{}", String::from_utf8_lossy(&exported));
    stage.acknowledge(&invite, &refusal);
    wait_until("it is counted as sent", SOON, || stage.sipweir.number("/capture/sent") == 1);
    let status = stage.sipweir.status();
    let expected = serde_json::json!({
        "collector": "127.0.0.1:9060", "captured": 1, "cut": 0, "lost": 0, "sent": 1, "unsent": 0
    });
    assert_eq!(status["capture"], expected);
    assert!(collector.take().is_none());
    stage.end();
}

#[test]
fn copies_of_a_refused_invite_whose_answer_was_lost_get_the_same_answer() {
    let mut stage = Stage::new();
    let (invite, lost) = stage.refused_invite();
    for _ in 0..3 {
        stage.send(&invite);
        assert_eq!(stage.answer(), lost);
    }
    stage.acknowledge(&invite, &lost);
    assert_eq!(stage.read_all(), [stage.invite(1), stage.invite(2)]);
    stage.end();
}

#[test]
fn a_refused_invite_stays_refused_when_the_gate_has_opened_again() {
    let mut stage = Stage::new();
    let (invite, lost) = stage.refused_invite();
    assert_eq!(stage.read_all(), [stage.invite(1), stage.invite(2)]);
    stage.wait_for_gate("normal");

    // A new call is welcome, the copy of the refused one is not: its client may have had the answer.
    stage.send(&invite);
    assert_eq!(stage.answer(), lost);
    stage.send(&stage.invite(11));
    assert_eq!(stage.server.receive("a new INVITE", SOON).0, stage.invite(11));
    assert_eq!(stage.read_all(), Vec::<Vec<u8>>::new());
    stage.end();
}

#[test]
fn a_copy_of_what_was_handed_over_goes_to_the_server_while_originals_are_refused() {
    let mut stage = Stage::new();
    stage.close_the_gate();
    let handed_over = stage.invite(1);
    let copies = "/services/main/received/copy";
    // A copy that waits longer than max_wait is dropped, as it may on a busy machine: the client sends the next one.
    let mut read = Vec::new();
    for sent in 1..=COPIES_MAX {
        stage.send(&handed_over);
        wait_until("the copy has come", SOON, || stage.sipweir.number(copies) == sent);
        read.extend(stage.read_all());
        if count(&read, &handed_over) > 1 {
            break;
        }
    }
    assert!(count(&read, &handed_over) > 1, "no copy reached the server: {read:?}");
    assert_eq!(count(&read, &stage.invite(2)), 1);
    assert_eq!(count(&read, &handed_over) + 1, read.len(), "{read:?}");
    stage.end();
}

#[test]
fn an_invite_that_still_waits_reaches_the_server_once_however_often_it_was_sent() {
    let calls = 8;
    let mut stage = Stage::with(PATIENT);
    for number in 1..=calls {
        stage.send(&stage.invite(number));
    }
    wait_until("all have come and some wait", SOON, || {
        let status = stage.sipweir.status();
        let received = status.pointer("/services/main/received").and_then(Value::as_object);
        let received: u64 = received.into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum();
        received == calls && status.pointer("/services/main/waiting").and_then(Value::as_u64) > Some(0)
    });
    // The last one waits.
    for _ in 0..COPIES_MAX {
        stage.send(&stage.invite(calls));
    }
    // Known in the XDP program or by the worker, whoever asks the table.
    wait_until("the copies have come", SOON, || {
        let status = stage.sipweir.status();
        let by_worker = status.pointer("/services/main/outcomes/copy/copy_absorbed").and_then(Value::as_u64);
        kernel_packets(&status, Some("copy")) + by_worker.unwrap_or(0) == COPIES_MAX
    });
    let mut read = Vec::new();
    while read.len() < calls as usize {
        read.push(stage.server.receive("the next INVITE", SOON).0);
    }
    assert_eq!(read, (1..=calls).map(|number| stage.invite(number)).collect::<Vec<_>>());
    assert_eq!(stage.read_all(), Vec::<Vec<u8>>::new());
    stage.end();
}

#[test]
fn an_invite_whose_200_was_lost_gets_it_again_from_the_server() {
    let mut stage = Stage::new();
    let invite = stage.invite(10);
    stage.send(&invite);
    let (first, client) = stage.server.receive("the INVITE", SOON);
    assert_eq!(first, invite);
    // The server sees the client itself, and answers past sipweir.
    assert_eq!(client, stage.client.address());
    let ok = message::response(&first, "200 OK");
    stage.server.send(&ok, client);
    assert_eq!(stage.answer(), ok);

    // That 200 counts as lost.
    stage.send(&invite);
    let (copy, client) = stage.server.receive("its copy", SOON);
    assert_eq!(copy, invite);
    assert_eq!(stage.sipweir.number("/services/main/outcomes/copy/handed_over"), 1);
    stage.server.send(&message::response(&copy, "200 OK"), client);
    assert_eq!(stage.answer(), ok);
    let ack = message::in_dialog("ACK", stage.client.address(), stage.topology.service(), 10);
    stage.send(&ack);
    assert_eq!(stage.server.receive("the ACK", SOON).0, ack);
    stage.end();
}

/// The stack knows its transactions: it answers a copy with what it has answered before, and its application sees none.
/// Neither answer is one that it would repeat by itself.
#[test]
fn a_real_stack_repairs_lost_answers_by_itself() {
    let topology = Topology::new(&LinkPlan::default());
    let server = Sofia::start(&topology.server, &SofiaPlan::phones(topology.service()));
    let client = Peer::bind(&topology.callers, topology.caller(SIP_PORT));
    let sipweir = Sipweir::start(&topology.server, &configuration());
    let requests = [("REGISTER", "SIP/2.0 200 OK\r\n"), ("INVITE", "SIP/2.0 180 Ringing\r\n")];
    for (number, (method, status)) in (1..).zip(requests) {
        let request = message::request(method, client.address(), topology.service(), number, "", 0);
        // A user that does not answer, and a content of no bytes, which needs no type.
        let request = String::from_utf8(request).expect("UTF-8").replace("sip:service@", "sip:ringer@");
        client.send(request.as_bytes(), topology.service());
        let mut lost = client.receive("an answer", SOON).0;
        if lost.starts_with(b"SIP/2.0 100 ") {
            lost = client.receive("an answer that says more than 100", SOON).0;
        }
        assert!(lost.starts_with(status.as_bytes()), "{}", String::from_utf8_lossy(&lost));
        client.send(request.as_bytes(), topology.service());
        let (again, _) = client.receive("the answer again", SOON);
        assert_eq!(String::from_utf8_lossy(&again), String::from_utf8_lossy(&lost));
    }
    end(sipweir, &topology);
    let counts = server.terminate();
    assert_eq!((counts.registered, counts.called), (1, 1), "{counts:?}");
}
