//! Steps of a decision: gate, waiting queue, transaction table. Named action/class.

use std::hint::black_box;
use std::sync::atomic::AtomicU64;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use overload::{
    CallQueue, Discipline, Gate, GateConfig, HystereticConfig, Lane, QueueCapacity, SLOTS, Threshold,
    TransactionState, TransactionTable,
};

/// Messages in the system at which the gate below is normal, in overload, and discards.
const STATES: [(&str, usize); 3] = [("normal", 10), ("overload", 300), ("discard", 600)];
const NOW: u64 = 1_000_000_000;
const CAPACITY: u32 = 2000;

/// Spreads counted numbers as a hash does.
fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn gate(c: &mut Criterion) {
    let config = GateConfig::Hysteretic(HystereticConfig {
        admit_below: Threshold::Messages(200),
        shed_at: Threshold::Messages(250),
        discard_at: Threshold::Messages(500),
        share: 0.5,
    });
    let mut group = c.benchmark_group("gate");
    for (state, in_system) in STATES {
        let mut gate = overload::AnyGate::new(&config, CAPACITY, 1000.0).expect("a gate");
        // It has reached its state before it is timed.
        gate.depart(NOW, in_system);
        assert_eq!(gate.state().name(), state);
        let mut number = 0;
        group.bench_function(BenchmarkId::from_parameter(state), |b| {
            b.iter(|| {
                number += 1;
                gate.arrive(NOW, (spread(number) >> 32) as u32, black_box(in_system))
            });
        });
    }
}

/// In and out again, behind as many that wait as the name's second part says.
fn queue(c: &mut Criterion) {
    let mut group = c.benchmark_group("queue");
    for (class, lane) in [("control", Lane::Control), ("original", Lane::New), ("copy", Lane::Copy)] {
        for waiting in [0_u64, 1000] {
            let capacity = QueueCapacity { control: CAPACITY, new: CAPACITY, copy: CAPACITY };
            let mut queue = CallQueue::new(Discipline::Priority, capacity);
            let mut number = 0;
            let mut push = |queue: &mut CallQueue<u64>| {
                number += 1;
                queue.push(lane, spread(number), NOW, number).expect("there is room");
            };
            (0..waiting).for_each(|_| push(&mut queue));
            group.bench_function(BenchmarkId::new(class, waiting), |b| {
                b.iter(|| {
                    push(&mut queue);
                    queue.pop(NOW)
                });
            });
        }
    }
}

/// A table of 16 MiB, a quarter full: look-ups are as far from the cache as they are in a running instance.
fn table(c: &mut Criterion) {
    const BUCKETS: usize = 1 << 18;
    const REQUESTS: u64 = (BUCKETS * SLOTS / 4) as u64;
    let words: Vec<AtomicU64> = (0..BUCKETS * SLOTS).map(|_| AtomicU64::new(0)).collect();
    let table = TransactionTable::new(&words).expect("a power of two of buckets");
    for request in 0..REQUESTS {
        let _entered = table.settle(spread(request), TransactionState::HandedOver, NOW);
    }
    assert!(table.recall(spread(1), NOW).is_some() && table.recall(spread(REQUESTS + 1), NOW).is_none());
    let mut group = c.benchmark_group("table");
    let mut number = 0;
    group.bench_function("recall_hit", |b| {
        b.iter(|| {
            number += 1;
            table.recall(spread(number % REQUESTS), NOW)
        });
    });
    group.bench_function("recall_miss", |b| {
        b.iter(|| {
            number += 1;
            table.recall(spread(REQUESTS + number), NOW)
        });
    });
    group.bench_function("settle_known", |b| {
        b.iter(|| {
            number += 1;
            table.settle(spread(number % REQUESTS), TransactionState::HandedOver, NOW)
        });
    });
    // Fills the table up and then evicts, as under a flood of originals.
    let mut fresh = REQUESTS;
    group.bench_function("settle_new", |b| {
        b.iter(|| {
            fresh += 1;
            table.settle(spread(fresh), TransactionState::Shed, NOW)
        });
    });
}

criterion_group!(benches, gate, queue, table);
criterion_main!(benches);
