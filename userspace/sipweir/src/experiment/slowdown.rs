//! A server that is slow for thirty seconds, on the wire beside the simulation: one queue against strict priority.
//!
//! The scenario is S2 of the models (200 requests a second; the server does 100 a second until second 30, then 1000, five
//! times the load), for requests other than INVITE, whose answers need no ACK. On the wire everything is some times as
//! fast, T1 too, so that five minutes take one; delays are therefore given in T1. Copies say what they are by the marker,
//! and the transaction table is off: strict priority alone is what the model has. Both go on after the last request until
//! each is answered or given up.

use std::time::Duration;

use model::simulate::{Estimate, Law, Node, Outcome, Rate, Scenario, T1_NS, Timers, replicate};
use overload::{GateConfig, NANOS_PER_S, Threshold};

use super::comparison::{Case, Quantity, Value};
use super::live::{Found, Setup};

/// How much faster the wire is than the model, unless asked for. Faster: one machine cannot carry what the long queue brings
/// about; slower: more minutes, and less that sleeps of the server's thread add to its service.
pub(super) const SPEED: u32 = 5;
const ARRIVAL_PER_S: f64 = 200.0;
const SLOW_PER_S: f64 = 100.0;
const SERVICE_PER_S: f64 = 1000.0;
const SLOW_S: u32 = 30;
const DURATION_S: u32 = 300;
/// 64·T1 of the last request, and a little.
const DRAIN_S: u32 = 33;
const T1_S: f64 = T1_NS as f64 / NANOS_PER_S as f64;
/// Simulations of the same with other seeds.
const SEEDS: usize = 10;
/// Frames beside those that wait.
const FRAMES_BESIDE_BUFFER: u32 = 8192;

/// A discipline and its room.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    pub(super) name: &'static str,
    kind: &'static str,
    buffer: u32,
}

/// One queue, long and short, and priority.
pub(super) const POLICIES: [Policy; 3] = [
    Policy { name: "one queue of 20,000", kind: "fifo", buffer: 20_000 },
    Policy { name: "one queue of 500", kind: "fifo", buffer: 500 },
    Policy { name: "priority, 5,000 places", kind: "tail_drop", buffer: 5_000 },
];

impl Policy {
    fn gate(self) -> GateConfig {
        let buffer = Threshold::Messages(self.buffer);
        if self.kind == "fifo" { GateConfig::Fifo { buffer } } else { GateConfig::TailDrop { buffer } }
    }

    /// The run on the wire.
    pub(super) fn setup(self, speed: u32, seed: u64) -> Setup {
        let (duration_s, slow_s) =
            (f64::from(DURATION_S) / f64::from(speed), f64::from(SLOW_S) / f64::from(speed));
        let speed = f64::from(speed);
        let t1_ns = (T1_NS as f64 / speed) as u64;
        let duration = Duration::from_secs_f64(duration_s);
        let caller = bench::CallerConfig {
            t1_ns,
            t2_ns: 8 * t1_ns,
            marker: bench::Marker::Field,
            drain_ns: (f64::from(DRAIN_S) / speed * NANOS_PER_S as f64) as u64,
            ..Setup::caller(ARRIVAL_PER_S * speed, duration, seed)
        };
        Setup {
            capacity_per_s: SERVICE_PER_S * speed,
            embedded: format!(
                "slow_capacity = {:?}\nslow_for = \"{:.0}ms\"\n",
                SLOW_PER_S * speed,
                slow_s * 1e3
            ),
            // Copies wait as long as they like.
            service: "max_wait = \"3600s\"\n".to_owned(),
            gate: format!("kind = \"{}\"\nbuffer = {}\n", self.kind, self.buffer),
            transactions: false,
            frames: self.buffer + FRAMES_BESIDE_BUFFER,
            caller,
            warm_up: Duration::ZERO,
            batch: Duration::ZERO,
            batches: 0,
        }
    }

    /// The same in simulation.
    fn simulate(self) -> anyhow::Result<Vec<Outcome>> {
        let service = Rate::Steps(vec![(0.0, SLOW_PER_S), (f64::from(SLOW_S), SERVICE_PER_S)]);
        let server = Node::server("server", service, Law::Exponential, self.gate(), self.buffer);
        let arrivals = Rate::Steps(vec![(0.0, ARRIVAL_PER_S), (f64::from(DURATION_S), 0.0)]);
        let duration_ns = u64::from(DURATION_S + DRAIN_S) * NANOS_PER_S;
        let scenario = Scenario::single(arrivals, Timers::Other, server, duration_ns);
        Ok(replicate(&scenario, SEEDS, crate::cores::available().len(), || {})?)
    }

    /// What a run found, beside the simulation.
    ///
    /// # Errors
    /// If the caller offered nothing, or the scenario is refused.
    pub(super) fn compare(self, speed: u32, found: &Found) -> anyhow::Result<Case> {
        let outcomes = self.simulate()?;
        let simulated = |of: fn(&model::simulate::Calls) -> f64| {
            let estimate = Estimate::of(outcomes.iter().map(|outcome| of(&outcome.calls())));
            estimate.map_or(Value::plain(f64::NAN), |estimate| Value {
                value: estimate.mean,
                half_width: Some(estimate.half_width),
            })
        };
        let live = found.options()?;
        let offered = live.offered as f64;
        let t1_us = T1_S / f64::from(speed) * 1e6;
        let quantity = |name, unit, measured: f64, theory| Quantity {
            name,
            unit,
            measured: Value::plain(measured),
            theory,
        };
        Ok(Case {
            name: self.name.to_owned(),
            quantities: vec![
                quantity(
                    "copies per request",
                    "",
                    live.copies as f64 / offered,
                    simulated(|calls| calls.copies as f64 / calls.offered as f64),
                ),
                quantity(
                    "share without an answer",
                    "",
                    live.failed as f64 / offered,
                    simulated(|calls| calls.failed as f64 / calls.offered as f64),
                ),
                quantity(
                    "mean delay of answers",
                    "T1",
                    live.delay_to_answer.mean_us / t1_us,
                    simulated(|calls| calls.mean_delay_s() / T1_S),
                ),
            ],
        })
    }
}
