//! Who is served first, and that no message overtakes an older one of its call.

use super::*;

#[test]
fn the_order_is_control_then_originals_then_copies() {
    let mut bench = Bench::new(&Setup { queue_target: 1, ..Setup::default() });
    // The server has one message: no credit, so everything waits.
    bench.server.set_waiting(1);
    bench.turn_after(MS);
    bench.deliver(&request("INVITE", "sip:copy@example.com;rtx=1", "c1")).expect("delivered");
    bench.deliver(&request("INVITE", "sip:new@example.com", "c2")).expect("delivered");
    bench.deliver(&request("BYE", "sip:bye@example.com", "c3")).expect("delivered");
    bench.turn_after(MS);
    assert!(bench.at_server().is_empty());
    let order = bench.order_of_service();
    assert_eq!(
        order,
        ["BYE sip:bye@example.com", "INVITE sip:new@example.com", "INVITE sip:copy@example.com"]
    );
    bench.assert_conserved();
}

#[test]
fn a_cancel_waits_for_its_invite_and_takes_it_past_nobody() {
    let mut bench = Bench::new(&Setup { queue_target: 1, ..Setup::default() });
    bench.server.set_waiting(1);
    bench.turn_after(MS);
    for call in ["c1", "c2", "c3"] {
        bench.deliver(&request("INVITE", &format!("sip:{call}@example.com"), call)).expect("delivered");
    }
    bench.turn_after(MS);
    bench.deliver(&request("CANCEL", "sip:c2@example.com", "c2")).expect("delivered");
    bench.turn_after(MS);
    let order = bench.order_of_service();
    let expected = ["INVITE sip:c1", "INVITE sip:c2", "INVITE sip:c3", "CANCEL sip:c2"]
        .map(|name| format!("{name}@example.com"));
    assert_eq!(order, expected);
}

#[test]
fn a_cancel_in_the_same_turn_does_not_overtake_its_invite() {
    let mut bench = Bench::new(&Setup::default());
    bench.deliver(&request("INVITE", "sip:c1@example.com", "c1")).expect("delivered");
    bench.deliver(&request("CANCEL", "sip:c1@example.com", "c1")).expect("delivered");
    bench.turn_after(MS);
    assert_eq!(names(&bench.at_server()), ["INVITE sip:c1@example.com", "CANCEL sip:c1@example.com"]);
}

#[test]
fn a_reinvite_raised_from_the_new_ring_does_not_overtake_the_ack_before_it() {
    let mut bench = Bench::new(&Setup::default());
    let tagged = |method| {
        request(method, "sip:b@example.com", "c1")
            .replace("b@example.com>\r\nCall", "b@example.com>;tag=t\r\nCall")
    };
    bench.deliver(&tagged("ACK")).expect("delivered");
    bench.now_ns += MS / 10;
    let reinvite = tagged("INVITE");
    bench.deliver_as(NEW, reinvite.as_bytes(), Class::Undecided, Method::Invite, None).expect("delivered");
    bench.now_ns += MS / 10;
    bench.deliver(&tagged("BYE")).expect("delivered");
    bench.turn_after(MS);
    let methods: Vec<String> =
        bench.at_server().iter().map(|m| m.split(' ').next().unwrap_or("").to_owned()).collect();
    assert_eq!(methods, ["ACK", "INVITE", "BYE"]);
    bench.assert_conserved();
}

#[test]
fn an_invite_with_credentials_does_not_overtake_the_ack_to_its_challenge() {
    let mut bench = Bench::new(&Setup { queue_target: 1, ..Setup::default() });
    // Whether it waits or not.
    for waiting in [0, 1] {
        bench.server.set_waiting(waiting);
        bench.turn_after(MS);
        bench.deliver(&request("ACK", "sip:ack", "c1")).expect("delivered");
        bench.now_ns += MS / 10;
        let again = request("INVITE", &format!("sip:again{waiting}"), "c1");
        bench.deliver_as(NEW, again.as_bytes(), Class::Undecided, Method::Invite, None).expect("delivered");
        bench.turn_after(MS);
        assert_eq!(
            bench.order_of_service(),
            ["ACK sip:ack".to_owned(), format!("INVITE sip:again{waiting}")]
        );
    }
}

#[test]
fn a_cancel_behind_a_backlog_of_both_rings_does_not_overtake_its_invite() {
    let mut bench = Bench::new(&Setup { queue_target: 1000, ..Setup::default() });
    let deliver = |bench: &mut Bench, method: &str, call: &str| {
        bench.now_ns += 1000;
        bench.deliver(&request(method, &format!("sip:{call}"), call)).expect("delivered");
    };
    (0..300).for_each(|n| deliver(&mut bench, "OPTIONS", &format!("o{n}")));
    deliver(&mut bench, "INVITE", "call");
    deliver(&mut bench, "CANCEL", "call");
    (0..80).for_each(|n| deliver(&mut bench, "ACK", &format!("a{n}")));
    let mut order = Vec::new();
    for _ in 0..10 {
        bench.turn_after(MS);
        order.extend(names(&bench.at_server()));
    }
    let place = |name: &str| order.iter().position(|served| served == name).expect(name);
    assert!(place("INVITE sip:call") < place("CANCEL sip:call"));
    assert_eq!(order.len(), 382);
}

#[test]
fn control_that_its_sender_has_sent_again_is_let_go() {
    let mut bench = Bench::new(&Setup { queue_target: 4, ..Setup::default() });
    bench.server.set_waiting(4);
    bench.turn_after(MS);
    bench.deliver(&request("BYE", URI, "old")).expect("delivered");
    bench.turn_after(3900 * MS);
    assert_eq!(bench.lane.outcome_of(Class::InDialog, Outcome::ControlStale), 0);
    bench.turn_after(200 * MS);
    assert_eq!(bench.lane.outcome_of(Class::InDialog, Outcome::ControlStale), 1);
    bench.assert_conserved();
}
