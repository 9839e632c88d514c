//! The short differential run, which ordinary tests and CI make. Needs root.

use std::time::Duration;

use fuzz::case::Case;
use fuzz::corpus;
use fuzz::engine::Engine;
use fuzz::packet::Shape;
use fuzz::run::{Plan, run};

const MESSAGES: u64 = 120_000;

#[test]
fn kernel_and_user_space_agree_on_made_mutated_and_random_messages() {
    let corpus = corpus::load(&corpus::folder()).expect("the corpora");
    let plan = Plan { seed: 20_261_130, from: 0, messages: MESSAGES, time: Duration::MAX, threads: 2 };
    let outcome = run(&plan, &corpus, &|_| ()).expect("a run");
    let texts: Vec<String> = outcome.findings.iter().map(fuzz::report::Finding::text).collect();
    assert!(texts.is_empty(), "{}", texts.join("\n"));
    assert_eq!(outcome.messages, MESSAGES);
    assert_eq!(outcome.decided + outcome.undecided, 2 * MESSAGES, "each with the gate open and shedding");
    // An agreement about nothing would be worthless.
    assert!(outcome.undecided * 4 < outcome.decided, "{outcome:?}");
}

#[test]
fn kernel_and_user_space_agree_on_every_corpus_message_cut_at_every_length() {
    let corpus = corpus::load(&corpus::folder()).expect("the corpora");
    let mut engine = Engine::new().expect("the program");
    let mut cases = 0;
    for message in &corpus {
        for len in 0..=message.len().min(1900) {
            for ipv6 in [false, true] {
                let shape = Shape { ipv6, padding: 6, ..Shape::PLAIN };
                let case = Case { datagram: message[..len].to_vec(), shape, ..Case::default() };
                let found = engine.run(&case).expect("a run");
                assert!(found.is_none(), "{found:?}");
                cases += 1;
            }
        }
    }
    assert!(cases > 20_000, "{cases}");
    assert!(engine.counters_agree().expect("counters"));
}

#[test]
fn a_run_does_not_depend_on_the_number_of_threads() {
    let corpus = corpus::load(&corpus::folder()).expect("the corpora");
    let sums = [1, 2, 3].map(|threads| {
        let plan = Plan { seed: 7, from: 5000, messages: 5000, time: Duration::MAX, threads };
        let outcome = run(&plan, &corpus, &|_| ()).expect("a run");
        (outcome.messages, outcome.decided, outcome.undecided)
    });
    assert_eq!(sums[0], sums[1]);
    assert_eq!(sums[0], sums[2]);
}
