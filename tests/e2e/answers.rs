//! What the server answers, as sipweir counts it and as the callers get it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use sipweir_tests::{Kamailio, KamailioPlan, LinkPlan, Peer, Sipweir, message, wait_until};

use crate::guard::{configuration, end};
use crate::topology::Topology;

/// What an INVITE costs the server.
const COST: Duration = Duration::from_millis(20);
const INVITES: u64 = 25;

/// sipweir in front of a server that is taken to be slow, so that each answer is timed from the start.
fn guard(topology: &Topology) -> Sipweir {
    Sipweir::start(&topology.server, &configuration().replace("handoff = ", "initial_rate = 50\nhandoff = "))
}

fn slow_server(topology: &Topology) -> Kamailio {
    Kamailio::start(
        &topology.server,
        &KamailioPlan { invite_cost: COST, ..KamailioPlan::new(topology.service()) },
    )
}

fn answers(status: &Value) -> &Value {
    &status["services"]["main"]["answers"]
}

/// Answers by status class as a caller counts them, and 503 once more.
#[derive(Debug, Default)]
struct Got {
    by_class: BTreeMap<String, u64>,
    unavailable: u64,
    /// Seconds.
    times: Vec<f64>,
}

impl Got {
    /// Sends a request and waits for its answer.
    fn ask(&mut self, peer: &Peer, topology: &Topology, request: &[u8]) {
        let sent = Instant::now();
        peer.send(request, topology.service());
        let (answer, _) = peer.receive("an answer", Duration::from_secs(5));
        self.times.push(sent.elapsed().as_secs_f64());
        let answer = String::from_utf8(answer).expect("text");
        let code = answer.split(' ').nth(1).expect("a status code").to_owned();
        *self.by_class.entry(format!("{}xx", &code[..1])).or_default() += 1;
        self.unavailable += u64::from(code == "503");
    }
}

#[test]
fn answers_are_counted_as_the_callers_get_them_and_their_times_are_the_server_s() {
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = slow_server(&topology);
    let mut sipweir = guard(&topology);
    assert_ne!(sipweir.status()["mode"]["answers"], "off", "{}", sipweir.log());
    let peer = Peer::bind(&topology.callers, topology.caller(5070));
    let request =
        |method: &str, number| message::request(method, peer.address(), topology.service(), number, "", 0);
    let mut got = Got::default();
    for number in 0..INVITES {
        got.ask(&peer, &topology, &request("INVITE", number));
    }
    let timed = sipweir.status();
    let time = &answers(&timed)["time"];
    let (count, sum_s) = (time["count"].as_u64(), time["sum_s"].as_f64().expect("a sum"));
    let callers_s: f64 = got.times.iter().sum();
    println!("server's {sum_s:.4} s, callers' {callers_s:.4} s: {time}");
    assert_eq!(count, Some(INVITES));
    assert!(COST.as_secs_f64() * INVITES as f64 <= sum_s && sum_s <= callers_s, "{sum_s} {callers_s}");
    let half_ms = time["p50_ms"].as_f64().expect("a quantile");
    let longest_ms = 1e3 * got.times.iter().copied().fold(0.0, f64::max);
    // A bucket is a third of an octave wide at most: its ends may be so far from what is in it.
    assert!((15.0..=1.5 * longest_ms.max(20.0)).contains(&half_ms), "{half_ms} {longest_ms}");

    // The server's own refusals, and what is answered in a dialog.
    for number in 100..130 {
        let busy = String::from_utf8(request("INVITE", number)).expect("text").replacen(
            "sip:service@",
            "sip:busy@",
            1,
        );
        got.ask(&peer, &topology, busy.as_bytes());
        got.ask(&peer, &topology, &request("OPTIONS", 1000 + number));
        let bye = message::in_dialog("BYE", peer.address(), topology.service(), 2000 + number);
        got.ask(&peer, &topology, &bye);
    }
    let status = sipweir.status();
    let seen = answers(&status);
    for (class, count) in &got.by_class {
        assert_eq!(seen["by_class"][class].as_u64(), Some(*count), "{class}: {seen} {got:?}");
    }
    let all: u64 = seen["by_class"].as_object().expect("classes").values().filter_map(Value::as_u64).sum();
    assert_eq!(all, got.times.len() as u64, "{seen}");
    assert_eq!((seen["unavailable"].as_u64(), got.unavailable), (Some(30), 30), "{seen}");
    end(sipweir, &topology);
}

#[test]
fn what_sipweir_answers_itself_is_no_answer_of_the_server() {
    let topology = Topology::new(&LinkPlan::default());
    let mut sipweir = guard(&topology);
    wait_until("there is no server", Duration::from_secs(5), || {
        sipweir.status()["services"]["main"]["server"]["state"] == "down"
    });
    let peer = Peer::bind(&topology.callers, topology.caller(5070));
    let mut got = Got::default();
    // The second comes in fragments, so its answer leaves by a socket and not by AF_XDP.
    for (number, padding) in [(1, 0), (2, 3000)] {
        let invite = message::request("INVITE", peer.address(), topology.service(), number, "", padding);
        got.ask(&peer, &topology, &invite);
    }
    assert_eq!(got.unavailable, 2);
    let status = sipweir.status();
    assert_eq!(status["side_door"]["received"], 1, "{status:#}");
    let seen = answers(&status);
    assert_eq!(seen["unavailable"], 0, "{seen}");
    assert!(seen["by_class"].as_object().expect("classes").values().all(|count| *count == 0), "{seen}");
    end(sipweir, &topology);
}

#[test]
fn where_answers_are_not_wanted_nothing_looks_at_what_leaves() {
    let topology = Topology::new(&LinkPlan::default());
    let _kamailio = slow_server(&topology);
    let mut sipweir =
        Sipweir::start(&topology.server, &format!("{}server.watch_answers = false\n", configuration()));
    let peer = Peer::bind(&topology.callers, topology.caller(5070));
    let invite = message::request("INVITE", peer.address(), topology.service(), 1, "", 0);
    Got::default().ask(&peer, &topology, &invite);
    let status = sipweir.status();
    assert_eq!(status["mode"]["answers"], "off");
    assert!(status["services"]["main"].get("answers").is_none(), "{status:#}");
    end(sipweir, &topology);
}
