//! What a source may send with privilege, and copies that nobody waits for any more: the worker's turn over paired
//! rings.

mod support;

use overload::{GateConfig, HystereticConfig};
use sip::{Class, Method};
use sipweir::counters::Outcome;
use sipweir::limits::{Cap, Caps};
use sipweir::local::LocalAddresses;
use support::{Bench, CONTROL, MS, Setup, packet_from, request};

const URI: &str = "sip:b@example.com";
const OFF: Caps = Caps::of_each_kind(Cap::Off);
/// One at a time, and a second one after as many seconds as no test lasts.
const ONE: Cap = Cap::PerSecond(0.01);

/// A server of 245 messages a second, 98 INVITE/s of many callers, and 950 BYE/s of one source, for 5 s. Answers the
/// INVITEs offered and handed over, and the BYEs handed over.
fn flood(caps: Caps) -> [u64; 3] {
    let gate = GateConfig::Hysteretic(HystereticConfig::default());
    let mut bench = Bench::new(&Setup { gate, rate_per_s: 245.0, caps, ..Setup::default() });
    let (mut offered, mut backlog, mut served, mut byes) = (0, 0, 0.0, 0.0);
    for ms in 0..5000 {
        if ms % 10 == 0 {
            offered += 1;
            let source = [203, 0, (ms / 2550) as u8, (ms / 10 % 255) as u8];
            bench.deliver_from(source, &request("INVITE", URI, &format!("c{ms}"))).expect("room in the ring");
        }
        byes += 0.95;
        while byes >= 1.0 {
            byes -= 1.0;
            bench.deliver(&request("BYE", URI, &format!("b{ms}{byes}"))).expect("room in the ring");
        }
        served = if backlog == 0 { 0.0 } else { served + 0.245 };
        if served >= 1.0 {
            served -= 1.0;
            backlog -= 1;
        }
        bench.server.set_waiting(backlog);
        bench.turn_after(MS);
        backlog += bench.at_server().len() as u64;
        bench.replies();
    }
    bench.assert_conserved();
    let handed = |class| bench.lane.outcome_of(class, Outcome::HandedOver);
    [offered, handed(Class::Original), handed(Class::InDialog)]
}

#[test]
fn a_flood_of_byes_of_one_source_takes_nothing_from_originals_beyond_its_cap() {
    let [offered, without_cap, _] = flood(OFF);
    assert!(without_cap * 20 < offered, "the flood is none: {without_cap} of {offered} without a cap");
    let [offered, invites, byes] = flood(Caps { in_dialog: Cap::Share(0.5), ..OFF });
    // The cap leaves half of the server, which is more than the INVITEs need.
    assert!(invites * 100 >= offered * 95, "{invites} of {offered} INVITEs, {byes} BYEs");
    assert!(byes >= 245 * 5 * 45 / 100, "{byes}: what is within the cap keeps its privilege");
}

#[test]
fn below_capacity_nothing_is_lost_above_a_cap() {
    let caps = Caps::of_each_kind(ONE);
    let mut bench = Bench::new(&Setup { caps, ..Setup::default() });
    let messages = ["BYE", "ACK", "CANCEL", "PRACK", "INVITE"];
    let mut given = 0;
    for n in 0..500 {
        let method = messages[n % messages.len()];
        let uri = if method == "INVITE" { "urn:service:sos" } else { URI };
        bench.deliver(&request(method, uri, &format!("c{n}"))).expect("delivered");
        bench.turn_after(2 * MS);
        given += bench.at_server().len();
    }
    assert_eq!(given, 500);
    assert_eq!(bench.lane.above_cap_of(Class::InDialog), 199);
    assert_eq!(bench.lane.above_cap_of(Class::Ack) + bench.lane.above_cap_of(Class::Cancel), 199);
    assert_eq!(bench.lane.above_cap_of(Class::Emergency), 99);
    bench.turn_after(MS);
    bench.assert_conserved();
}

#[test]
fn an_ack_above_the_cap_waits_behind_everybody_but_its_call_does_not_overtake_it() {
    let caps = Caps { control: ONE, ..OFF };
    let mut bench = Bench::new(&Setup { queue_target: 1, caps, ..Setup::default() });
    bench.server.set_waiting(1);
    bench.turn_after(MS);
    for (method, call) in
        [("ACK", "c1"), ("ACK", "c2"), ("ACK", "c3"), ("INVITE", "c4"), ("BYE", "c2"), ("BYE", "c5")]
    {
        bench.deliver(&request(method, &format!("sip:{call}"), call)).expect("delivered");
        bench.turn_after(MS);
    }
    let order = bench.order_of_service();
    assert_eq!(
        order,
        ["ACK sip:c1", "ACK sip:c2", "BYE sip:c2", "BYE sip:c5", "INVITE sip:c4", "ACK sip:c3"]
    );
    bench.assert_conserved();
}

#[test]
fn messages_of_calls_that_the_server_has_keep_their_privilege_above_the_cap_of_their_source() {
    let caps = Caps { in_dialog: ONE, control: ONE, ..OFF };
    let mut bench = Bench::new(&Setup { queue_target: 1, caps, ..Setup::default() });
    bench.deliver(&request("INVITE", "sip:c1", "c1")).expect("delivered");
    bench.turn_after(MS);
    assert_eq!(bench.at_server().len(), 1);
    bench.server.set_waiting(1);
    bench.turn_after(MS);
    for (method, call) in [
        ("BYE", "c2"),
        ("ACK", "c3"),
        ("INVITE", "c4"),
        ("BYE", "c5"),
        ("ACK", "c1"),
        ("BYE", "c1"),
        ("ACK", "c4"),
    ] {
        bench.deliver(&request(method, &format!("sip:{call}"), call)).expect("delivered");
        bench.turn_after(MS);
    }
    let expected = ["BYE c2", "ACK c3", "ACK c1", "BYE c1", "INVITE c4", "BYE c5", "ACK c4"];
    assert_eq!(bench.order_of_service(), expected.map(|name| name.replace(' ', " sip:")));
    assert_eq!(bench.lane.above_cap_of(Class::InDialog), 1);
    // Its call has not reached the server yet.
    assert_eq!(bench.lane.above_cap_of(Class::Ack), 1);
    bench.assert_conserved();
}

#[test]
fn a_registration_earns_nothing_for_forged_messages_of_its_call_id() {
    let caps = Caps { in_dialog: ONE, ..OFF };
    let mut bench = Bench::new(&Setup { caps, ..Setup::default() });
    bench.deliver(&request("REGISTER", URI, "c1")).expect("delivered");
    for number in 1..=3 {
        bench.turn_after(MS);
        let bye = request("BYE", URI, "c1").replace("CSeq: 1", &format!("CSeq: {number}"));
        bench.deliver(&bye).expect("delivered");
    }
    bench.turn_after(MS);
    assert_eq!(bench.lane.above_cap_of(Class::InDialog), 2);
}

#[test]
fn what_is_above_a_cap_is_never_refused() {
    let caps = Caps { in_dialog: ONE, control: ONE, ..OFF };
    let mut bench = Bench::new(&Setup { queue_target: 1, caps, ..Setup::default() });
    bench.server.set_waiting(1);
    bench.turn_after(MS);
    for (method, call) in [("BYE", "c1"), ("BYE", "c2"), ("ACK", "c3"), ("ACK", "c4")] {
        bench.deliver(&request(method, URI, call)).expect("delivered");
    }
    bench.turn_after(MS);
    bench.turn_after(401 * MS);
    assert!(bench.replies().is_empty());
    assert_eq!(bench.lane.outcome_of(Class::InDialog, Outcome::ControlStale), 1);
    assert_eq!(bench.lane.outcome_of(Class::Ack, Outcome::ControlStale), 1);
    assert_eq!(bench.lane.waiting.get(), 2, "what is within the cap still waits");
    bench.assert_conserved();
}

#[test]
fn an_ack_that_a_shed_request_takes_along_is_never_answered() {
    let caps = Caps { control: ONE, ..OFF };
    let mut bench = Bench::new(&Setup { queue_target: 1, caps, ..Setup::default() });
    bench.server.set_waiting(1);
    bench.turn_after(MS);
    for (method, call) in [("ACK", "c1"), ("ACK", "c2")] {
        bench.deliver(&request(method, URI, call)).expect("delivered");
        bench.turn_after(MS);
    }
    bench.deliver(&request("INVITE", URI, "c2")).expect("delivered");
    bench.turn_after(MS);
    bench.turn_after(401 * MS);
    assert_eq!(bench.replies().len(), 1);
    assert_eq!(bench.lane.outcome_of(Class::Original, Outcome::RejectedLate), 1);
    assert_eq!(bench.lane.outcome_of(Class::Ack, Outcome::ControlStale), 1);
    bench.assert_conserved();
}

#[test]
fn a_source_above_its_cap_takes_no_privilege_from_another() {
    let caps = Caps { in_dialog: ONE, ..OFF };
    let mut bench = Bench::new(&Setup { caps, ..Setup::default() });
    for n in 0..10 {
        bench.deliver(&request("BYE", URI, &format!("c{n}"))).expect("delivered");
    }
    bench.deliver_from([203, 0, 113, 1], &request("BYE", URI, "other")).expect("delivered");
    bench.turn_after(MS);
    assert_eq!(bench.lane.above_cap_of(Class::InDialog), 9);
}

#[test]
fn what_claims_to_come_from_this_host_or_a_broadcast_address_is_neither_served_nor_answered() {
    let local =
        LocalAddresses::new(vec!["192.0.2.1".parse().expect("IP"), "198.51.100.255".parse().expect("IP")]);
    let mut bench = Bench::new(&Setup { local, ..Setup::default() });
    let message = request("INVITE", URI, "c1");
    for (number, source) in [[192, 0, 2, 1], [198, 51, 100, 255]].into_iter().enumerate() {
        bench.deliver_from(source, &message).expect("delivered");
        bench.deliver_from(source, &request("BYE", URI, "c2")).expect("delivered");
        bench.deliver_rejected_from(source, &message).expect("delivered");
        bench.turn_after(MS);
        bench.turn_after(MS);
        let expected = 2 * (number as u64 + 1);
        assert_eq!(bench.lane.outcome_of(Class::Original, Outcome::SourceLocal), expected);
    }
    assert_eq!(bench.lane.outcome_of(Class::InDialog, Outcome::SourceLocal), 2);
    assert!(bench.at_server().is_empty() && bench.replies().is_empty());
    bench.deliver_from([192, 0, 2, 2], &message).expect("delivered");
    bench.turn_after(MS);
    assert_eq!(bench.at_server().len(), 1);
    bench.turn_after(MS);
    bench.assert_conserved();
}

#[test]
fn on_a_stop_signal_all_originals_that_wait_are_answered_and_no_frame_is_left() {
    let setup = Setup { queue_target: 1, max_wait_ns: 60_000 * MS, ..Setup::default() };
    let mut bench = Bench::new(&setup);
    // The server reads nothing any more.
    bench.server.set_waiting(1);
    bench.now_ns = sipweir::clock::now();
    bench.turn_after(0);
    for n in 0..300 {
        bench.deliver(&request("INVITE", URI, &format!("c{n}"))).expect("delivered");
        if n % 10 == 0 {
            bench.deliver(&request("BYE", URI, &format!("b{n}"))).expect("delivered");
        }
    }
    bench.turn_after(0);
    assert_eq!(bench.lane.waiting.get(), 330);
    bench.stop.store(true, std::sync::atomic::Ordering::Release);
    let Bench { worker, mut wire, lane, counters, .. } = bench;
    assert_eq!(worker.run(), 0, "frames are left");
    assert_eq!(lane.outcome_of(Class::Original, Outcome::Rejected), 300);
    assert_eq!(lane.outcome_of(Class::InDialog, Outcome::NoRoom), 30);
    assert_eq!((lane.received_total(), lane.outcomes_total()), (330, 330));
    assert_eq!(counters.replies_sent.get(), 300);
    assert_eq!(wire.sent().len(), 300);
}

#[test]
fn a_copy_that_still_waits_when_its_call_goes_on_is_not_served() {
    let mut bench = Bench::new(&Setup { queue_target: 1, ..Setup::default() });
    bench.server.set_waiting(1);
    bench.turn_after(MS);
    bench.deliver(&request("INVITE", "sip:b@example.com;rtx=1", "c1")).expect("delivered");
    bench.deliver(&request("INVITE", "sip:b@example.com;rtx=1", "c2")).expect("delivered");
    // In the same turn, by a ring of higher priority.
    bench.now_ns += MS;
    bench.deliver(&request("BYE", URI, "c1")).expect("delivered");
    bench.turn_after(MS);
    let order = bench.order_of_service();
    assert_eq!(order, ["BYE sip:b@example.com", "INVITE sip:b@example.com"]);
    assert_eq!(bench.lane.outcome_of(Class::Copy, Outcome::CopyOutdated), 1);
    bench.assert_conserved();
}

#[test]
fn the_ack_to_a_refusal_outdates_the_copies_of_what_was_refused() {
    let stuck = || {
        let mut bench = Bench::new(&Setup { queue_target: 1, ..Setup::default() });
        bench.server.set_waiting(1);
        bench.turn_after(MS);
        bench
    };
    // Another node with the same seed refuses the INVITE.
    let mut other = stuck();
    let invite = request("INVITE", URI, "c1");
    other.deliver(&invite).expect("delivered");
    other.turn_after(MS);
    other.turn_after(401 * MS);
    let refusal = other.replies().pop().expect("a refusal");
    let to = refusal.lines().find(|line| line.starts_with("To:")).expect("a To");

    // A copy, which this node knows by its marker alone, waits when the ACK to the refusal comes.
    let mut bench = stuck();
    bench.deliver(&invite.replacen(URI, "sip:b@example.com;rtx=1", 1)).expect("delivered");
    bench.turn_after(MS);
    let ack = invite.replacen("INVITE", "ACK", 1).replace("1 INVITE", "1 ACK");
    let ack = ack.replace("To: <sip:b@example.com>", to);
    bench.deliver(&ack).expect("delivered");
    bench.turn_after(MS);
    assert_eq!(bench.lane.outcome_of(Class::Ack, Outcome::AckAbsorbed), 1);
    assert_eq!(bench.lane.outcome_of(Class::Copy, Outcome::CopyOutdated), 1);
    bench.assert_conserved();
}

#[test]
fn an_emergency_call_earns_privilege_for_its_ack_also_when_nobody_waited_before_it() {
    let caps = Caps { control: ONE, ..OFF };
    let mut bench = Bench::new(&Setup { queue_target: 1, caps, ..Setup::default() });
    bench.deliver(&request("INVITE", "urn:service:sos", "help")).expect("delivered");
    bench.turn_after(MS);
    assert_eq!(bench.at_server().len(), 1);
    bench.server.set_waiting(1);
    bench.turn_after(MS);
    for (method, call) in [("ACK", "other"), ("INVITE", "new"), ("ACK", "help")] {
        bench.deliver(&request(method, &format!("sip:{call}"), call)).expect("delivered");
        bench.turn_after(MS);
    }
    assert_eq!(bench.order_of_service(), ["ACK sip:other", "ACK sip:help", "INVITE sip:new"]);
}

#[test]
fn case_47_a_pbx_that_asks_for_each_extension_keeps_its_privilege_under_caps_of_its_own() {
    const PBX: [u8; 4] = [192, 0, 2, 47];
    const PHONE: [u8; 4] = [203, 0, 113, 9];
    let caps = Caps { prober: ONE, in_dialog: ONE, ..OFF };
    let own = Caps { prober: Cap::PerSecond(400.0), in_dialog: Cap::Off, ..caps };
    let peer_caps = vec![("192.0.2.32/27".parse().expect("network"), own)];
    let mut bench = Bench::new(&Setup { queue_target: 1, caps, peer_caps, ..Setup::default() });
    bench.server.set_waiting(1);
    bench.turn_after(MS);
    bench.deliver(&request("INVITE", "sip:new", "new")).expect("delivered");
    for (source, name) in [(PBX, "pbx"), (PHONE, "phone")] {
        for extension in 0..60 {
            let probe = request("OPTIONS", &format!("sip:{name}"), &format!("{name}{extension}"));
            let meta = support::meta(bench.now_ns, probe.as_bytes(), Class::Prober, Method::Options, None);
            bench.wire.deliver(CONTROL, &packet_from(source, probe.as_bytes()), &meta).expect("delivered");
            let bye = request("BYE", &format!("sip:{name}"), &format!("bye-{name}{extension}"));
            bench.deliver_from(source, &bye).expect("delivered");
        }
        bench.turn_after(MS);
    }
    assert_eq!(bench.lane.above_cap_of(Class::Prober), 59, "of the phone only");
    assert_eq!(bench.lane.above_cap_of(Class::InDialog), 59);
    let order = bench.serve_all();
    let of_call = order.iter().position(|name| name == "INVITE sip:new").expect("the call is served");
    let before = |name: &str| order[..of_call].iter().filter(|served| *served == name).count();
    assert_eq!((before("OPTIONS sip:pbx"), before("BYE sip:pbx")), (60, 60));
    assert_eq!((before("OPTIONS sip:phone"), before("BYE sip:phone")), (1, 1));
    assert_eq!(order.len(), 241, "below capacity nobody loses anything");
    bench.assert_conserved();
}

#[test]
fn originals_above_the_cap_of_their_source_are_refused_and_a_copy_takes_and_loses_nothing() {
    let caps = Caps { original: Cap::PerSecond(2.0), ..OFF };
    let mut bench = Bench::new(&Setup { caps, ..Setup::default() });
    let outcome = |bench: &Bench, class, outcome| bench.lane.outcome_of(class, outcome);
    let send = |bench: &mut Bench, source, call: &str| {
        bench.deliver_from(source, &request("INVITE", URI, call)).expect("delivered");
        bench.turn_after(MS);
        (bench.at_server().len(), bench.replies())
    };
    let (one, other) = ([203, 0, 113, 1], [203, 0, 113, 2]);
    for call in ["c1", "c2"] {
        assert_eq!(send(&mut bench, one, call), (1, vec![]), "{call}");
    }
    let (at_server, refusals) = send(&mut bench, one, "c3");
    assert_eq!((at_server, refusals.len()), (0, 1));
    assert!(refusals[0].contains("SIP/2.0 503 "), "{}", refusals[0]);
    // The copies of an admitted one go to the server however many its source sends; those of a refused one get the same answer.
    for copy in 1..=3 {
        assert_eq!(send(&mut bench, one, "c1"), (1, vec![]), "copy {copy}");
        assert_eq!(send(&mut bench, one, "c3"), (0, refusals.clone()), "copy {copy}");
    }
    assert_eq!(send(&mut bench, other, "c4"), (1, vec![]), "another source");
    assert_eq!(outcome(&bench, Class::Original, Outcome::RejectedAboveCap), 1);
    assert_eq!(outcome(&bench, Class::Original, Outcome::HandedOver), 3);
    // Half a second later it has one again, for all that came in between.
    bench.turn_after(500 * MS);
    assert_eq!(send(&mut bench, one, "c5").0, 1);
    assert_eq!(send(&mut bench, one, "c6").0, 0);
    bench.turn_after(MS);
    bench.assert_conserved();
}

#[test]
fn what_is_no_original_knows_no_cap_of_originals() {
    let caps = Caps { original: ONE, ..OFF };
    let mut bench = Bench::new(&Setup { caps, ..Setup::default() });
    let mut given = 0;
    for n in 0..100 {
        let (method, uri) = [("BYE", URI), ("ACK", URI), ("INVITE", "urn:service:sos")][n % 3];
        bench.deliver(&request(method, uri, &format!("c{n}"))).expect("delivered");
        bench.turn_after(2 * MS);
        given += bench.at_server().len();
    }
    assert_eq!(given, 100);
    bench.assert_conserved();
}
