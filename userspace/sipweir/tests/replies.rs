//! What the worker answers to whom, and why it keeps silent: over paired rings, as in `turn`.

mod support;

use overload::{GateConfig, HystereticConfig, Threshold};
use sip::{Class, Method};
use sipweir::config::{Peer, Reply};
use sipweir::counters::Outcome;
use support::{Bench, MS, REJECT, Setup, packet, request};

const URI: &str = "sip:b@example.com";

fn setup(reply: Reply) -> Setup {
    Setup { reply, ..Setup::default() }
}

fn uncapped() -> Reply {
    Setup::default().reply
}

fn peer(code: u16) -> Peer {
    Peer { code: Some(code), ..Peer::default() }
}

/// Delivers a request that the XDP program shed, from an address, and takes a turn; the replies.
fn shed_from(bench: &mut Bench, source: [u8; 4], message: &str) -> Vec<String> {
    let method = if message.starts_with("REGISTER") { Method::Register } else { Method::Invite };
    let mut packet = Vec::new();
    etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4(source, [192, 0, 2, 1], 64)
        .udp(5062, 5060)
        .write(&mut packet, message.as_bytes())
        .expect("packet");
    let meta = support::meta(bench.now_ns, message.as_bytes(), Class::Original, method, None);
    bench.wire.deliver(REJECT, &packet, &meta).expect("delivered");
    bench.turn_after(MS);
    bench.replies()
}

fn shed(bench: &mut Bench, message: &str) -> Vec<String> {
    shed_from(bench, [198, 51, 100, 7], message)
}

fn count(bench: &Bench, outcome: Outcome) -> u64 {
    bench.lane.outcome_of(Class::Original, outcome)
}

#[test]
fn silence_is_kept_when_it_is_configured() {
    let mut bench = Bench::new(&setup(Reply { code: 0, ..uncapped() }));
    assert!(shed(&mut bench, &request("INVITE", URI, "c1")).is_empty());
    assert_eq!(count(&bench, Outcome::SilentByChoice), 1);
    bench.assert_conserved();
}

#[test]
fn a_peer_is_told_its_own_code_or_nothing() {
    let peers = [("10.0.0.0/8", peer(480)), ("10.9.0.0/16", peer(0)), ("10.9.0.7", peer(500))];
    let peers = peers.map(|(text, peer)| (text.to_owned(), peer)).into();
    let mut bench = Bench::new(&setup(Reply { peers, ..uncapped() }));
    let mut code = |source| {
        let replies = shed_from(&mut bench, source, &request("INVITE", URI, "c1"));
        replies.first().map(|reply| reply[8..11].to_owned())
    };
    assert_eq!(code([198, 51, 100, 7]).as_deref(), Some("503"));
    assert_eq!(code([10, 1, 1, 1]).as_deref(), Some("480"));
    assert_eq!(code([10, 9, 1, 1]), None);
    assert_eq!(code([10, 9, 0, 7]).as_deref(), Some("500"));
    assert_eq!(count(&bench, Outcome::SilentByChoice), 1);
    assert_eq!(count(&bench, Outcome::Rejected), 3);
    bench.assert_conserved();
}

#[test]
fn each_reason_for_silence_is_counted_as_itself() {
    let whole = request("INVITE", URI, "c1");
    let without = |line: &str, other: &str| whole.replace(line, other);
    let cases = [
        (without("Call-ID", "X-Call"), Outcome::SilentMissingHeader),
        (without("198.51.100.7:5062;", ":0;"), Outcome::SilentNoDestination),
        (without(";rport", ";maddr=203.0.113.1"), Outcome::SilentNoDestination),
        (
            without("Max-Forwards: 70\r\n", "").replace("Contact: <sip:a@198.51.100.7:5062>\r\n", ""),
            Outcome::SilentLongerThanRequest,
        ),
        (without("CSeq: 1 INVITE", "CSeq: 1 ACK"), Outcome::SilentUnanswerable),
        (without("Call-ID: c1", "Call-ID: c\r1"), Outcome::SilentUnanswerable),
    ];
    for (message, outcome) in cases {
        let mut bench = Bench::new(&Setup::default());
        assert!(shed(&mut bench, &message).is_empty(), "{message}");
        assert_eq!(count(&bench, outcome), 1, "{}: {message}", outcome.name());
        bench.assert_conserved();
    }
}

#[test]
fn a_destination_over_its_cap_gets_silence_and_others_their_answers() {
    let mut bench = Bench::new(&setup(Reply { per_destination: 20, ..uncapped() }));
    let mut answered = 0;
    for call in 0..50 {
        answered += shed(&mut bench, &request("INVITE", URI, &format!("c{call}"))).len();
    }
    // 20 at once; the 49 ms that it took are worth less than one more.
    assert_eq!((answered, count(&bench, Outcome::SilentOverDestinationCap)), (20, 30));
    assert_eq!(shed_from(&mut bench, [198, 51, 100, 8], &request("INVITE", URI, "other")).len(), 1);
    bench.now_ns += 1000 * MS;
    assert_eq!(shed(&mut bench, &request("INVITE", URI, "later")).len(), 1);
    bench.assert_conserved();
}

#[test]
fn the_budget_for_all_replies_is_not_spent_on_what_cannot_be_answered() {
    let mut bench = Bench::new(&setup(Reply { rate: 20, ..uncapped() }));
    let whole = request("INVITE", URI, "c1");
    for _ in 0..10 {
        shed(&mut bench, &whole.replace("Call-ID", "X-Call"));
    }
    assert_eq!(count(&bench, Outcome::SilentMissingHeader), 10);
    assert_eq!(shed(&mut bench, &whole).len(), 1);
    assert!(shed_from(&mut bench, [198, 51, 100, 8], &whole).is_empty());
    assert_eq!(count(&bench, Outcome::SilentOverBudget), 1);
    bench.assert_conserved();
}

#[test]
fn answers_for_which_the_nic_has_no_room_are_counted() {
    let port = afxdp::PortConfig { tx_ring_size: 64, ..afxdp::PortConfig::default() };
    let mut bench = Bench::new(&Setup { port, ..Setup::default() });
    bench.server.set_gone(true);
    bench.turn_after(MS);
    bench.turn_after(200 * MS);
    // The server is down, so what comes by the ring of originals is shed at once, whatever the TX ring holds.
    for call in 0..100 {
        bench.deliver(&request("INVITE", URI, &format!("c{call}"))).expect("delivered");
    }
    bench.turn_after(MS);
    let answered = bench.replies().len() as u64;
    let silent = count(&bench, Outcome::SilentNoTxRoom);
    assert!(silent > 0);
    assert_eq!(answered + silent, 100);
    assert_eq!(count(&bench, Outcome::RejectedServerDown), answered);
    bench.assert_conserved();
}

/// A request whose client takes part in overload control, with room for what it is told.
fn offering(method: &str, call: &str) -> String {
    request(method, URI, call).replace(";rport", ";rport;oc;oc-algo=\"loss\"").replace(
        "Content-Length",
        "User-Agent: a telephone that takes part in overload control\r\nContent-Length",
    )
}

/// The overload control of a reply's top Via: percentage, validity, sequence.
fn control(reply: &str) -> (u32, u32, f64) {
    let value = |name: &str| {
        let (_, rest) = reply.split_once(name).unwrap_or_else(|| panic!("no {name} in {reply}"));
        rest.split([';', '\r']).next().unwrap_or_default().parse::<f64>().expect("a number")
    };
    (value(";oc=") as u32, value(";oc-validity=") as u32, value(";oc-seq="))
}

#[test]
fn clients_are_told_what_the_gate_sheds_and_each_time_with_a_larger_number() {
    let levels = HystereticConfig {
        admit_below: Threshold::Messages(5),
        shed_at: Threshold::Messages(10),
        discard_at: Threshold::Messages(20),
        share: 0.75,
    };
    let gate = GateConfig::Hysteretic(levels);
    let mut bench = Bench::new(&Setup { gate, queue_target: 1, max_wait_ns: u64::MAX, ..Setup::default() });
    bench.server.set_waiting(1);
    bench.turn_after(MS);
    let told = |bench: &mut Bench| control(&shed(bench, &offering("INVITE", "x"))[0]);
    let mut last = 0.0;
    let mut seen = Vec::new();
    for call in 0..60 {
        let (percent, validity, seq) = told(&mut bench);
        assert!(seq > last, "{seq} after {last}");
        last = seq;
        if seen.last() != Some(&(percent, validity)) {
            seen.push((percent, validity));
        }
        bench.deliver(&request("INVITE", URI, &format!("c{call}"))).expect("delivered");
        bench.turn_after(MS);
        bench.replies();
    }
    assert_eq!(seen, [(0, 0), (25, 500), (100, 500)]);
}

#[test]
fn a_copy_gets_the_same_answer_but_for_the_hop() {
    let reply = Reply { retry_after_register: Some([30, 90]), ..uncapped() };
    let mut bench = Bench::new(&setup(reply));
    for method in ["REGISTER", "INVITE"] {
        let message = offering(method, "c1");
        let first = shed(&mut bench, &message).remove(0);
        assert_eq!(first.contains("\r\nRetry-After: "), method == "REGISTER", "{first}");
        bench.now_ns += 500 * MS;
        let second = shed(&mut bench, &message).remove(0);
        assert!(control(&second).2 > control(&first).2);
        let sequence = |reply: &str| {
            let (head, rest) = reply.split_once(";oc-seq=").expect("sequence");
            format!("{head}{}", &rest[rest.find('\r').expect("line end")..])
        };
        assert_eq!(sequence(&first), sequence(&second));
        let plain = request(method, URI, "c2");
        assert_eq!(shed(&mut bench, &plain), shed(&mut bench, &plain), "byte for byte");
    }
}

#[test]
fn replies_without_room_for_overload_control_are_counted_and_sent() {
    let mut bench = Bench::new(&Setup::default());
    let tight = offering("INVITE", "c1")
        .replace("User-Agent: a telephone that takes part in overload control\r\n", "");
    let replies = shed(&mut bench, &tight);
    assert!(replies[0].contains(";oc;oc-algo=\"loss\""), "as it came: {}", replies[0]);
    assert_eq!(bench.lane.control_left_out.get(), 1);
    shed(&mut bench, &offering("INVITE", "c1"));
    shed(&mut bench, &request("INVITE", URI, "c1"));
    assert_eq!(bench.lane.control_left_out.get(), 1);
}

#[test]
fn a_damaged_datagram_is_not_answered_and_nothing_is_remembered_of_it() {
    let mut bench = Bench::new(&Setup::default());
    let message = request("INVITE", "sip:b@example.com", "c1");
    let mut damaged = packet(message.as_bytes());
    *damaged.last_mut().expect("a byte") ^= 1;
    let meta = support::meta(bench.now_ns, message.as_bytes(), Class::Original, Method::Invite, None);
    bench.wire.deliver(support::REJECT, &damaged, &meta).expect("delivered");
    bench.turn_after(MS);
    assert!(bench.replies().is_empty());
    assert_eq!(bench.lane.outcome_of(Class::Original, Outcome::ChecksumWrong), 1);
    bench.deliver(&message).expect("delivered");
    bench.turn_after(MS);
    assert_eq!(bench.at_server().len(), 1);
}
