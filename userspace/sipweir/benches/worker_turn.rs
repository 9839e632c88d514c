//! One turn of the worker over a batch of 64 messages, on paired rings: everything but the kernel. Named action/class;
//! figures are of a whole batch, and as a rate of messages.

#[path = "../tests/support/mod.rs"]
mod support;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use overload::{GateConfig, Threshold};
use sip::{Class, Method};
use sipweir::config::Reply;
use sipweir::counters::Outcome;
use sipweir::sources::Sampler;
use support::{Bench, MS, NEW, REJECT, RETRANSMISSION, Setup, request, words};
use xdp_prog::AWAITED_PLACES;

/// `afxdp::BATCH`, and fewer than the smallest ring here holds.
const MESSAGES: u64 = 64;
/// Different requests: more than a table of 1 MiB remembers, so that each is new when it comes again.
const REQUESTS: usize = 1 << 16;

/// What comes in, by which ring, and what must become of it.
struct Load {
    ring: usize,
    class: Class,
    outcome: Outcome,
    method: Method,
    datagrams: Vec<String>,
}

impl Load {
    fn invites(ring: usize, class: Class, outcome: Outcome) -> Self {
        let datagram = |call: usize| request("INVITE", "sip:bob@example.com", &format!("c{call}"));
        Self {
            ring,
            class,
            outcome,
            method: Method::Invite,
            datagrams: (0..REQUESTS).map(datagram).collect(),
        }
    }
}

/// Times turns over full batches; what is delivered and what is taken away again is not timed.
fn turns(c: &mut Criterion, name: &str, setup: &Setup, waiting: u64, load: &Load) {
    let mut bench = Bench::new(setup);
    bench.server.set_waiting(waiting);
    bench.turn_after(MS);
    let mut next = load.datagrams.iter().cycle();
    let mut group = c.benchmark_group("worker_turn");
    group.throughput(Throughput::Elements(MESSAGES));
    group.bench_function(name, |b| {
        b.iter_custom(|turns| {
            let mut timed = Duration::ZERO;
            for _ in 0..turns {
                for datagram in next.by_ref().take(MESSAGES as usize) {
                    let delivered =
                        bench.deliver_as(load.ring, datagram.as_bytes(), load.class, load.method, None);
                    delivered.expect("the ring is empty");
                }
                bench.now_ns += MS;
                let begin = Instant::now();
                bench.worker.turn(bench.now_ns);
                timed += begin.elapsed();
                // Sent frames come home, and what is left is done, before the next batch.
                bench.at_server();
                bench.replies();
                bench.turn_after(MS);
            }
            timed
        });
    });
    bench.assert_conserved();
    let outcomes = Class::ALL.into_iter().map(|class| bench.lane.outcome_of(class, load.outcome));
    let (outcomes, received) = (outcomes.sum::<u64>(), bench.lane.received_total());
    // The first of all finds the gate as it was at the start.
    assert!(outcomes + 1 >= received, "{received} received, {outcomes} times {:?}", load.outcome);
}

fn worker_turn(c: &mut Criterion) {
    // More than is waiting anywhere, so that each message meets the same gate.
    let open = Setup { queue_target: 100_000, buckets: 1 << 14, rate_per_s: 1e6, ..Setup::default() };
    let shut = Setup { gate: GateConfig::TailDrop { buffer: Threshold::Messages(1) }, ..silent() };
    let invites = Load::invites(NEW, Class::Undecided, Outcome::HandedOver);
    turns(c, "hand_over", &open, 0, &invites);
    let watched = Setup { awaited: Some(words(AWAITED_PLACES)), ..open.clone() };
    turns(c, "hand_over_watched", &watched, 0, &invites);
    turns(c, "shed", &shut, 1000, &Load::invites(NEW, Class::Undecided, Outcome::SilentByChoice));
    turns(
        c,
        "reply",
        &Setup { buckets: 1 << 14, ..Setup::default() },
        1000,
        &Load::invites(REJECT, Class::Original, Outcome::Rejected),
    );
    turns(c, "copy", &open, 0, &Load::invites(RETRANSMISSION, Class::Copy, Outcome::HandedOver));
}

/// Nobody is answered.
fn silent() -> Setup {
    Setup { reply: Reply { code: 0, ..Reply::default() }, buckets: 1 << 14, ..Setup::default() }
}

fn idle(c: &mut Criterion) {
    let mut bench = Bench::new(&Setup::default());
    c.bench_function("worker_turn/idle", |b| b.iter(|| bench.turn_after(1)));
}

/// What the sample of sources adds to a batch, at a load under which few messages are looked at.
fn sources(c: &mut Criterion) {
    let (mut sampler, mut now_ns) = (Sampler::default(), 0);
    let addresses: Vec<IpAddr> = (0..MESSAGES as u8).map(|last| [192, 0, 2, last].into()).collect();
    c.bench_function("sources/note_64", |b| {
        b.iter(|| {
            // A million messages a second.
            now_ns += MESSAGES * 1000;
            for address in &addresses {
                sampler.note(std::hint::black_box(*address), false, now_ns);
            }
        });
    });
}

criterion_group!(benches, worker_turn, idle, sources);
criterion_main!(benches);
