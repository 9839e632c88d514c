//! Control at the edge: what a controller is asked and told, and what its decisions do.

use std::sync::{Arc, Mutex};

use super::tandem::network;
use super::{assert_near, of_calls, outcomes};
use crate::simulate::{
    Announces, Controller, FixedCap, MakeController, Request, Response, Scenario, State, run,
};

/// Notes everything; lets in what its number allows.
#[derive(Debug, Clone)]
struct Witness {
    seen: Arc<Mutex<Vec<Seen>>>,
    admits: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Seen {
    Asked(Request),
    Told(Response),
}

impl MakeController for Witness {
    fn make(&self, _seed: u64) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

impl Controller for Witness {
    fn admit(&mut self, request: &Request) -> bool {
        self.seen.lock().unwrap().push(Seen::Asked(*request));
        self.admits
    }

    fn respond(&mut self, response: &Response) {
        self.seen.lock().unwrap().push(Seen::Told(*response));
    }
}

fn witnessed(admits: bool, change: impl Fn(&mut Scenario)) -> (Vec<Seen>, crate::simulate::Outcome) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut scenario = network("1000", "1000");
    scenario.nodes[1].controller = Some(Arc::new(Witness { seen: Arc::clone(&seen), admits }));
    change(&mut scenario);
    let outcome = run(&scenario).unwrap();
    let seen = seen.lock().unwrap().clone();
    (seen, outcome)
}

#[test]
fn a_controller_is_asked_once_for_each_call_and_told_each_final_response() {
    let (seen, outcome) = witnessed(true, |_| {});
    let asked = seen.iter().filter(|seen| matches!(seen, Seen::Asked(_))).count();
    let told: Vec<Response> = seen
        .iter()
        .filter_map(|seen| match seen {
            Seen::Told(response) => Some(*response),
            Seen::Asked(_) => None,
        })
        .collect();
    assert_eq!(asked as u64, outcome.nodes[1].arrived);
    assert!(told.len() >= asked - 10, "only the last calls are still open: {} of {asked}", told.len());
    assert!(told.iter().all(|response| response.code == 200 && [3, 4].contains(&response.next)));
    // Two hops of 10 ms and a service.
    assert!(told.iter().all(|response| response.delay_ns > 20_000_000 && response.delay_ns < 100_000_000));
    assert!(told.iter().all(|response| response.announcement.is_none()));
    let times: Vec<u64> = seen
        .iter()
        .map(|seen| match seen {
            Seen::Asked(request) => request.now,
            Seen::Told(response) => response.now,
        })
        .collect();
    assert!(times.is_sorted());
}

#[test]
fn what_a_controller_holds_back_is_refused_without_service() {
    let (seen, outcome) = witnessed(false, |_| {});
    assert!(seen.iter().all(|seen| matches!(seen, Seen::Asked(_))));
    let held = outcome.sources[1];
    assert_eq!((held.answered, held.rejected), (0, held.offered));
    assert_eq!((outcome.nodes[1].served, outcome.nodes[1].refused), (0, outcome.nodes[1].arrived));
    assert_eq!(outcome.sources[0].rejected, 0);
}

#[test]
fn refusals_time_outs_and_announcements_of_the_next_node_are_told() {
    let (seen, _) = witnessed(true, |scenario| {
        for core in &mut scenario.nodes[3..] {
            core.rate = "100".parse().unwrap();
            core.gate = super::hysteretic(5, 10, 20, 0.4);
            core.capacity = overload::QueueCapacity { control: 0, new: 20, copy: 20 };
            core.announces = Some(Announces::Loss { validity_ms: 500 });
        }
    });
    let advised = |percent: u32, code: u16| {
        seen.iter().any(|seen| {
            matches!(seen, Seen::Told(Response { code: found, announcement: Some(announcement), .. })
                if *found == code && announcement.value == percent)
        })
    };
    // In overload 60 % are to be kept back; what is refused in normal state there is none.
    assert!(advised(60, 503) && advised(0, 200) && !advised(0, 503));
    let (seen, _) = witnessed(true, |scenario| {
        scenario.nodes[3].rate = "0".parse().unwrap();
    });
    let timed_out = |seen: &&Seen| {
        matches!(seen, Seen::Told(response)
            if response.code == 408 && response.delay_ns == 32_000_000_000 && response.next == 3)
    };
    assert!(seen.iter().find(timed_out).is_some());
}

/// Probes each node every 100 ms and notes the answers.
#[derive(Debug, Clone)]
struct Prober {
    answers: Arc<Mutex<Vec<Response>>>,
    next: std::collections::BTreeMap<usize, u64>,
}

const PROBE_PERIOD_NS: u64 = 100_000_000;

impl MakeController for Prober {
    fn make(&self, _seed: u64) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn probe_period_ns(&self) -> Option<u64> {
        Some(PROBE_PERIOD_NS)
    }
}

impl Controller for Prober {
    fn admit(&mut self, _request: &Request) -> bool {
        true
    }

    fn respond(&mut self, response: &Response) {
        self.answers.lock().unwrap().push(*response);
    }

    fn next_probe(&mut self, next: usize) -> Option<u64> {
        Some(self.next.get(&next).copied().unwrap_or(0))
    }

    fn probe(&mut self, now: u64, next: usize) -> bool {
        self.next.insert(next, now + PROBE_PERIOD_NS);
        true
    }
}

#[test]
fn probes_are_served_by_the_node_that_they_are_for_and_count_for_nobody() {
    let answers = Arc::new(Mutex::new(Vec::new()));
    let mut scenario = network("5000", "1000");
    let without = run(&scenario).unwrap();
    let prober = Prober { answers: Arc::clone(&answers), next: std::collections::BTreeMap::new() };
    scenario.nodes[0].controller = Some(Arc::new(prober));
    let outcome = run(&scenario).unwrap();
    let answers = answers.lock().unwrap();
    let due = scenario.duration_ns / PROBE_PERIOD_NS;
    for core in [3, 4] {
        let probes: Vec<&Response> =
            answers.iter().filter(|answer| answer.is_probe && answer.next == core).collect();
        assert!(probes.len() as u64 >= due - 2 && probes.len() as u64 <= due, "{} of {due}", probes.len());
        // Two hops of 10 ms and a service.
        assert!(probes.iter().all(|probe| probe.code == 200 && probe.delay_ns > 20_000_000));
        assert!(outcome.nodes[core].served >= without.nodes[core].served + due - 20);
    }
    let calls = outcome.calls();
    assert_eq!(calls.offered, without.calls().offered, "the callers are the same");
    assert_eq!((calls.failed, calls.rejected), (0, 0));
}

#[test]
fn a_fixed_cap_at_three_edges_keeps_two_cores_below_their_capacity() {
    let mut scenario = network("5000", "100");
    for edge in &mut scenario.nodes[..3] {
        edge.controller = Some(Arc::new(FixedCap { rate_per_s: 50, burst: 10 }));
    }
    let capped = outcomes(&scenario, 4);
    // 150 of 300 calls a second for cores of 200.
    assert_near("capped", of_calls(&capped, |c| c.answered as f64 / 28.0), 150.0);
    assert!(capped.iter().all(|outcome| outcome.calls().failed == 0));
    for edge in &mut scenario.nodes[..3] {
        edge.controller = None;
    }
    let free = outcomes(&scenario, 4);
    let in_time = |outcomes: &[crate::simulate::Outcome]| {
        of_calls(outcomes, |c| c.answered_within_t1 as f64 / 28.0).mean
    };
    assert!(in_time(&free) < 0.5 * in_time(&capped), "{} {}", in_time(&free), in_time(&capped));
}

#[test]
fn a_controller_needs_a_stateful_node_with_a_way_on() {
    for node in [0, 3] {
        let mut scenario = network("1", "1");
        scenario.nodes[node].state = State::Stateless;
        scenario.nodes[node].controller = Some(Arc::new(FixedCap { rate_per_s: 1, burst: 1 }));
        let error = run(&scenario).unwrap_err();
        assert_eq!(error.problems.len(), 1);
        assert!(error.to_string().contains("control needs state = \"stateful\""), "{error}");
    }
}
