//! What becomes of a run whose workers end otherwise than they should.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Running, finish};

fn worker(queue: u32, run: impl FnOnce() -> u32 + Send + 'static) -> Running {
    Running {
        thread: std::thread::spawn(run),
        wake: Arc::new(crate::wake::Wake::new().expect("eventfd")),
        letters: Arc::default(),
        changes: Arc::default(),
        queue,
        core: 0,
        counters: Arc::default(),
    }
}

#[test]
fn a_worker_that_panics_is_named_and_the_others_are_waited_for() {
    let others_end = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&others_end);
    let panicking = worker(3, || panic!("as the test wants it"));
    // Its panic is what supervision sees: the thread has finished.
    let deadline = Instant::now() + Duration::from_secs(5);
    while !panicking.thread.is_finished() {
        assert!(Instant::now() < deadline, "a panic ends the thread");
        std::thread::yield_now();
    }
    let other = worker(4, move || {
        ended.store(true, Ordering::Release);
        0
    });
    let error = finish(vec![panicking, other]).expect_err("a panic is an error");
    assert!(error.to_string().contains("worker-q3 panicked"), "{error}");
    assert!(others_end.load(Ordering::Acquire));
}

#[test]
fn frames_that_leaked_are_summed_and_said() {
    let error = finish(vec![worker(0, || 2), worker(1, || 0), worker(2, || 3)]).expect_err("a leak");
    assert!(error.to_string().contains("5 frames leaked"), "{error}");
    finish(vec![worker(0, || 0)]).expect("nothing leaked");
}
