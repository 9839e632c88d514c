//! The embedded hand-off: a processor on its own thread, its replies, and its end.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use sip::{ReplyLine, Seed};
use sipweir::handoff::Handoff;
use sipweir::handoff::embedded::{Exchange, PacketBytes};
use sipweir::processor::{Processor, Replies, Request};
use sipweir::wake::Wake;
use support::{Bench, MS, Setup, request};

#[track_caller]
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(10), "waited in vain until {what}");
        std::thread::yield_now();
    }
}

/// Answers each request with 200; panics at a REGISTER.
struct Answers;

impl Processor for Answers {
    fn process(&mut self, request: &Request<'_>, replies: &mut Replies<'_>) {
        assert!(!request.message().starts_with(b"REGISTER"), "told to panic");
        let mut out = [0; 2048];
        let line = ReplyLine { code: 200, phrase: "OK" };
        let reply =
            sip::write_response(request.message(), request.source(), &Seed([0; 4]), line, b"", &mut out)
                .expect("a reply");
        assert!(replies.send(request, reply.destination, &out[..reply.len]));
    }
}

fn bench_with(processor: Box<dyn Processor>) -> Bench {
    let wake = Arc::new(Wake::new().expect("eventfd"));
    let exchange = Exchange::start("test", processor, 8, PacketBytes { request: 2048, reply: 2048 }, wake)
        .expect("thread");
    Bench::with_handoff(&Setup { queue_target: 8, ..Setup::default() }, Handoff::Embedded(exchange))
}

#[test]
fn a_processor_gets_the_request_without_marker_and_its_reply_leaves_by_the_nic() {
    let mut bench = bench_with(Box::new(Answers));
    bench.deliver(&request("INVITE", "sip:b@example.com;rtx=0", "c1")).expect("delivered");
    let mut replies = Vec::new();
    wait_until("the reply is there", || {
        bench.turn_after(MS / 10);
        replies.extend(bench.replies());
        !replies.is_empty()
    });
    assert!(replies[0].starts_with("SIP/2.0 200 OK\r\n"), "{}", replies[0]);
    wait_until("everything is at rest", || {
        bench.turn_after(MS / 10);
        bench.counters.frames_outstanding.get() == 0
    });
    bench.assert_conserved();
}

#[test]
fn many_requests_are_all_answered_although_few_fit_the_queue() {
    let mut bench = bench_with(Box::new(Answers));
    let mut answered = 0;
    for call in 0..500 {
        bench.deliver(&request("OPTIONS", "sip:b@example.com", &format!("c{call}"))).expect("delivered");
        bench.turn_after(MS / 10);
        answered += bench.replies().len();
    }
    wait_until("all are answered", || {
        bench.turn_after(MS / 1000);
        answered += bench.replies().len();
        answered == 500
    });
    bench.assert_conserved();
}

#[test]
fn a_processor_that_panicked_is_reported_as_gone() {
    let mut bench = bench_with(Box::new(Answers));
    bench.deliver(&request("REGISTER", "sip:example.com", "c1")).expect("delivered");
    wait_until("the processor is known to be gone", || {
        bench.turn_after(MS / 10);
        bench.lane.processor_gone.get() == 1
    });
}
