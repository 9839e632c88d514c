//! What the rings cost per frame, without a kernel: refill, receive, hand over, reap, over paired rings.
//!
//! `cargo run --release -p sipweir-afxdp --example ring_cost`. Only the port's side is timed, in rounds of
//! one batch; the median round counts. The kernel's part (system calls, copies) is not in these numbers.

use std::time::Instant;

use afxdp::{BATCH, Batch, EgressConfig, PortConfig, testing};

/// Rounds timed. A round takes a few microseconds, so this is well below a second and its median is steady.
const ROUNDS: usize = 20_000;

fn main() {
    let (mut port, mut wire) = testing::pair(&PortConfig::default());
    let (mut egress, mut beyond) = testing::egress_pair(&mut port, &EgressConfig::default());
    let packet = [0x55; 600];
    let mut batch = Batch::new();
    let mut steps = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        for _ in 0..BATCH {
            wire.deliver(1, &packet, &[0; 32]).expect("a batch fits");
        }
        let start = Instant::now();
        let refilled = port.refill();
        let after_refill = Instant::now();
        let received = port.receive(1, &mut batch);
        let after_receive = Instant::now();
        for frame in batch.drain(..) {
            egress.transmit(&mut port, frame).expect("room for a batch");
        }
        egress.kick().expect("paired");
        let after_transmit = Instant::now();
        assert_eq!(beyond.sent().len(), received);
        let before_reap = Instant::now();
        let reaped = egress.reap(&mut port);
        let after_reap = Instant::now();
        assert_eq!((refilled, received, reaped), (BATCH as u32, BATCH, BATCH as u32));
        steps[0].push(after_refill - start);
        steps[1].push(after_receive - after_refill);
        steps[2].push(after_transmit - after_receive);
        steps[3].push(after_reap - before_reap);
    }
    println!("{ROUNDS} rounds of {BATCH} frames, median round, ns a frame:");
    for (name, mut times) in ["refill", "receive", "transmit", "reap"].into_iter().zip(steps) {
        times.sort_unstable();
        println!("{name:10} {:6.2}", times[ROUNDS / 2].as_nanos() as f64 / BATCH as f64);
    }
}
