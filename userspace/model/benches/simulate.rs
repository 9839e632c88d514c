//! How many events a second the simulation takes on one core: the scenarios of `docs/model-simulation.md`.
//!
//! Run with `cargo bench -p sipweir-model`; "thrpt" is events a second.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use model::simulate::{Law, Node, Rate, Scenario, Timers, run};
use overload::{GateConfig, HystereticConfig, Threshold};

const SECOND: u64 = 1_000_000_000;

fn scenario(rate_per_s: f64, service_per_s: f64, gate: GateConfig, room: u32, seconds: u64) -> Scenario {
    let node = Node::server("server", Rate::Constant(service_per_s), Law::Exponential, gate, room);
    Scenario::single(Rate::Constant(rate_per_s), Timers::Invite, node, seconds * SECOND)
}

fn simulate(c: &mut Criterion) {
    let messages = Threshold::Messages;
    let hysteretic = GateConfig::Hysteretic(HystereticConfig {
        admit_below: messages(74),
        shed_at: messages(85),
        discard_at: messages(100),
        share: 0.5,
    });
    let scenarios = [
        (
            "simulate/below_capacity",
            scenario(800.0, 1000.0, GateConfig::Fifo { buffer: messages(1000) }, 1000, 100),
        ),
        ("simulate/hysteretic_overload", scenario(2000.0, 1000.0, hysteretic, 100, 100)),
        (
            "simulate/priority_overload",
            scenario(2000.0, 1000.0, GateConfig::TailDrop { buffer: messages(500) }, 500, 100),
        ),
        (
            "simulate/fifo_collapse",
            scenario(2000.0, 1000.0, GateConfig::Fifo { buffer: messages(20_000) }, 20_000, 100),
        ),
    ];
    for (name, scenario) in scenarios {
        let Ok(outcome) = run(&scenario) else { continue };
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Elements(outcome.events)).sample_size(10);
        group.bench_function("events", |b| b.iter(|| run(black_box(&scenario))));
        group.finish();
    }
}

criterion_group!(benches, simulate);
criterion_main!(benches);
