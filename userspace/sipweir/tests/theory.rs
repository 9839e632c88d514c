//! The worker's turn against M|M|1|⟨L,H⟩|B: Poisson requests, an exponential server, one event a turn, over paired rings.
//!
//! With a given seed the run is always the same; the tolerance is that of some thousand control cycles.

mod support;

use model::hysteresis::Hysteresis;
use overload::{GateConfig, HystereticConfig, Levels, Threshold};
use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64;
use sip::{Class, Method};
use support::{Bench, Setup, request};

const LOW: u32 = 12;
const HIGH: u32 = 18;
const BUFFER: u32 = 24;
const SHARE: f64 = 0.5;
/// So slow that the worker looks at the server at every event.
const SERVICE_PER_S: f64 = 10.0;
const EVENTS: u32 = 600_000;

#[test]
fn the_gate_of_a_worker_behaves_as_the_closed_form_says() {
    for rho in [1.2, 1.5] {
        let gate = GateConfig::Hysteretic(HystereticConfig {
            admit_below: Threshold::Messages(LOW),
            shed_at: Threshold::Messages(HIGH),
            discard_at: Threshold::Messages(BUFFER),
            share: SHARE,
        });
        let mut bench =
            Bench::new(&Setup { gate, queue_target: 4, max_wait_ns: u64::MAX, ..Setup::default() });
        let mut random = Pcg64::seed_from_u64(3);
        let mut after_ns = |rate_per_s: f64| -> u64 {
            let unit: f64 = Exp1.sample(&mut random);
            (unit / rate_per_s * 1e9) as u64
        };
        let arrival_per_s = rho * SERVICE_PER_S;
        let (mut next_arrival_ns, mut next_departure_ns) = (bench.now_ns, u64::MAX);
        let (mut at_server, mut offered) = (0, 0u64);
        for _ in 0..EVENTS {
            if next_arrival_ns <= next_departure_ns {
                bench.now_ns = next_arrival_ns;
                next_arrival_ns += after_ns(arrival_per_s);
                // As long as what the fake server takes a message to be.
                let padding = format!("X: {:500}\r\nContact:", "");
                let message = request("OPTIONS", "sip:a", &offered.to_string()).replace("Contact:", &padding);
                offered += 1;
                bench
                    .deliver_as(support::NEW, message.as_bytes(), Class::Undecided, Method::Options, None)
                    .expect("room");
            } else {
                bench.now_ns = next_departure_ns;
                at_server -= 1;
                bench.server.set_waiting(at_server);
                next_departure_ns = u64::MAX;
            }
            bench.turn_after(0);
            at_server += bench.at_server().len() as u64;
            bench.replies();
            bench.server.set_waiting(at_server);
            if at_server > 0 && next_departure_ns == u64::MAX {
                next_departure_ns = bench.now_ns + after_ns(SERVICE_PER_S);
            }
        }
        let levels = Levels::new(LOW, HIGH, BUFFER).expect("levels");
        let theory =
            Hysteresis::new(levels, arrival_per_s, SERVICE_PER_S, SHARE).expect("parameters").solve();
        let times: Vec<f64> = bench.lane.gate_state_ns.iter().map(|count| count.get() as f64 / 1e9).collect();
        let total: f64 = times.iter().sum();
        let returns = bench.lane.gate_returns.get() as f64;
        let rejected =
            offered - bench.lane.outcome_of(Class::Original, sipweir::counters::Outcome::HandedOver);
        for (name, measured, expected) in [
            ("P0", times[0] / total, theory.states[0]),
            ("E[R]", bench.lane.gate_return_ns.get() as f64 / 1e9 / returns, theory.return_time_s),
            ("cycle", total / returns, theory.cycle_s),
            ("rejected", rejected as f64 / offered as f64, theory.rejected),
            ("E[N]", bench.lane.in_system_us.get() as f64 / 1e6 / total, theory.mean_in_system),
        ] {
            let ratio = measured / expected;
            assert!((0.95..=1.05).contains(&ratio), "load {rho}, {name}: {measured:.5} of {expected:.5}");
        }
    }
}
