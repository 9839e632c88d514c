//! Nodes behind nodes: forwarding, hop delays, and overload that moves upstream.

use super::{SECOND, assert_near, estimate, fifo, hysteretic, invites, of_calls, outcomes, priority, server};
use crate::simulate::{Calls, Law, Node, Outcome, Rate, Route, Scenario, Source, State, Timers, run};

const MS: u64 = 1_000_000;

fn node(name: &str, speed: &str, room: u32) -> Node {
    Node { name: name.to_owned(), ..server(speed, fifo(room), room) }
}

/// Callers of this rate before an edge before a core.
fn tandem(rate: &str, state: State, edge: Node, core: Node, hop_ms: u64, seconds: u64) -> Scenario {
    let mut scenario = invites(rate, edge, seconds);
    scenario.sources[0].routes[0].delay_ns = hop_ms * MS;
    scenario.nodes[0].state = state;
    scenario.nodes[0].routes = vec![Route { to: 1, probability: 1.0, delay_ns: hop_ms * MS }];
    scenario.nodes.push(core);
    scenario
}

#[test]
fn delays_add_up_over_hops_and_servers_and_responses_come_back_the_same_way() {
    // Deterministic throughout and never a queue: 2 + 2 hops of 7 ms, services of 10 ms and 5 ms.
    for state in [State::Stateless, State::Stateful] {
        let mut scenario = tandem("10", state, node("edge", "100", 100), node("core", "200", 100), 7, 100);
        scenario.sources[0].law = Law::Deterministic;
        scenario.nodes.iter_mut().for_each(|node| node.law = Law::Deterministic);
        scenario.cool_down_ns = SECOND;
        let calls = run(&scenario).unwrap().calls();
        assert_eq!(calls.answered, calls.offered);
        assert!((calls.mean_delay_s() - 0.043).abs() < 1e-9, "{state:?}: {}", calls.mean_delay_s());
    }
}

#[test]
fn two_exponential_servers_in_a_row_are_two_independent_queues() {
    // Burke: the departures of an M|M|1 queue are Poisson. Sojourns 1/(μ−λ) each.
    let mut scenario =
        tandem("60", State::Stateless, node("edge", "100", 9999), node("core", "80", 9999), 0, 1020);
    scenario.sources[0].timers = Timers::Once;
    scenario.warm_up_ns = 20 * SECOND;
    let runs = outcomes(&scenario, 8);
    assert_near("delay", of_calls(&runs, Calls::mean_delay_s), 1.0 / 40.0 + 1.0 / 20.0);
    assert_near("edge", estimate(&runs, |o| o.nodes[0].mean_in_system()), 1.5);
    assert_near("core", estimate(&runs, |o| o.nodes[1].mean_in_system()), 3.0);
}

#[test]
fn a_stateless_server_forwards_every_copy_and_a_stateful_one_each_call_once() {
    // The core stands still for 40 s: every client of the first seconds sends all 7 messages to a stateless edge; a stateful one
    // says 100 Trying, so the client sends one and the edge the 7.
    let scenario = |state| {
        tandem("20", state, node("edge", "1000", 1000), node("core", "steps 0:0, 40:10000", 9999), 0, 60)
    };
    let seen = |state| {
        let outcome = run(&Scenario { cool_down_ns: 55 * SECOND, ..scenario(state) }).unwrap();
        (outcome.calls(), outcome.nodes[0], outcome.nodes[1])
    };
    let (calls, edge, core) = seen(State::Stateless);
    assert_eq!((calls.copies, calls.failed, edge.resent), (6 * calls.offered, calls.offered, 0));
    assert_eq!(edge.served, core.arrived);
    let (calls, edge, core) = seen(State::Stateful);
    assert_eq!(calls.copies, 0, "100 Trying has silenced the clients");
    assert!(edge.resent > 5 * calls.offered);
    assert_eq!(edge.served + edge.resent, core.arrived);
    assert_eq!(calls.failed, calls.offered);
}

#[test]
fn other_requests_are_not_silenced_and_their_copies_end_at_the_stateful_server() {
    let mut scenario = tandem(
        "20",
        State::Stateful,
        node("edge", "1000", 1000),
        node("core", "steps 0:0, 40:10000", 9999),
        0,
        60,
    );
    scenario.sources[0].timers = Timers::Other;
    scenario.cool_down_ns = 55 * SECOND;
    let outcome = run(&scenario).unwrap();
    let calls = outcome.calls();
    assert_eq!(calls.copies, 10 * calls.offered);
    let edge = outcome.nodes[0];
    assert!(edge.useless > 9 * calls.offered, "{edge:?}");
    assert_eq!(edge.served - edge.useless + edge.resent, outcome.nodes[1].arrived);
}

#[test]
fn overload_moves_upstream_through_a_stateless_server_only() {
    // The core slows down below the load. Its clients' copies pass the stateless edge, whose own load multiplies; the
    // stateful edge keeps its clients quiet.
    let longest = |state| {
        let core = node("core", "steps 0:1000, 10:50", 100_000);
        let outcome = run(&tandem("200", state, node("edge", "600", 100_000), core, 0, 60)).unwrap();
        outcome.nodes[0].longest_line
    };
    let (stateless, stateful) = (longest(State::Stateless), longest(State::Stateful));
    assert!(stateless > 2_000 && stateful < 50, "{stateless} {stateful}");
}

#[test]
fn a_refusal_downstream_reaches_the_client_and_ends_its_copies() {
    for state in [State::Stateless, State::Stateful] {
        let core = Node { gate: hysteretic(5, 10, 20, 0.5), ..node("core", "100", 20) };
        let core = Node { capacity: overload::QueueCapacity { control: 0, new: 20, copy: 20 }, ..core };
        let scenario = tandem("300", state, node("edge", "5000", 100), core, 5, 60);
        let outcome = run(&Scenario { cool_down_ns: 32 * SECOND, ..scenario }).unwrap();
        let calls = outcome.calls();
        assert_eq!(calls.offered, calls.answered + calls.rejected, "{state:?}: {calls:?}");
        assert!(calls.rejected > calls.offered / 2);
        assert_eq!(calls.copies, 0);
    }
}

#[test]
fn refusals_that_cost_service_take_it_from_answers() {
    // At 4 times the capacity and 1 ms for a refusal where an answer takes 10: λ·(1 − P)/100 + λ·P/1000 = 1 at full use.
    let refusing = |refusal_ns| {
        let node = Node { refusal_ns, ..server("100", hysteretic(5, 10, 20, 0.0), 20) };
        let runs = outcomes(&Scenario { cool_down_ns: 32 * SECOND, ..invites("400", node, 232) }, 4);
        of_calls(&runs, |c| c.answered as f64 / 200.0)
    };
    assert_near("free", refusing(0), 100.0);
    assert_near("paid", refusing(MS), (1000.0 - 400.0) / 9.0);
}

#[test]
fn what_has_waited_too_long_is_refused_and_not_served() {
    let node = Node { max_wait_ns: Some(400 * MS), ..server("100", priority(1000), 1000) };
    let outcome = run(&Scenario { cool_down_ns: 2 * SECOND, ..invites("300", node, 60) }).unwrap();
    let calls = outcome.calls();
    assert!(outcome.nodes[0].longest_line < 300);
    assert_eq!(calls.offered, calls.answered + calls.rejected);
    assert!(calls.answered_within_t1 as f64 > 0.98 * calls.answered as f64, "{calls:?}");
}

/// Three edges with their callers before two cores.
pub(super) fn network(edge_speed: &str, core_speed: &str) -> Scenario {
    let rate: Rate = "100".parse().unwrap();
    let edges = 0..3;
    let cores = [3, 4].map(|to| Route { to, probability: 0.5, delay_ns: 10 * MS });
    let source = |to: usize| Source {
        name: format!("callers{to}"),
        rate: rate.clone(),
        law: Law::Exponential,
        timers: Timers::Invite,
        routes: vec![Route { to, probability: 1.0, delay_ns: 5 * MS }],
    };
    let mut scenario = invites("1", node("edge", edge_speed, 1000), 60);
    scenario.sources = edges.clone().map(source).collect();
    let edge = |number: usize| Node {
        state: State::Stateful,
        routes: cores.to_vec(),
        ..node(&format!("edge{number}"), edge_speed, 1000)
    };
    let core = |number: usize| node(&format!("core{number}"), core_speed, 1000);
    scenario.nodes = edges.map(edge).chain((0..2).map(core)).collect();
    scenario.cool_down_ns = 32 * SECOND;
    scenario
}

#[test]
fn calls_of_three_edges_spread_over_two_cores_and_all_their_messages_stay_together() {
    let outcome: Outcome = run(&network("1000", "1000")).unwrap();
    let calls = outcome.calls();
    assert_eq!((calls.answered, calls.copies), (calls.offered, 0));
    let [first, second] = [outcome.nodes[3].served, outcome.nodes[4].served].map(|served| served as f64);
    // A fair coin for about 18,000 calls: within 5 standard deviations.
    assert!((first - second).abs() < 5.0 * (first + second).sqrt(), "{first} {second}");
    // Cores so slow that copies come: each copy finds the core of its original, which then knows it as useless.
    let slow = run(&network("1000", "100")).unwrap();
    assert!(slow.calls().failed > 0 && slow.fairness() > 0.95);
    assert_eq!(slow.nodes.iter().take(3).map(|edge| edge.useless).sum::<u64>(), 0);
}

#[test]
fn memory_follows_what_waits_and_not_the_length_of_the_run() {
    let most =
        |seconds| run(&invites("500", server("1000", fifo(100), 100), seconds)).unwrap().transactions_most;
    let (short, long) = (most(20), most(200));
    // A call is remembered until its first timer at T1 fires: 250 on average.
    assert!(short > 200 && long < 400, "{short} {long}");
}
