//! What the tests of whole runs share.

mod edges;
mod equilibrium;
mod retransmission;
mod tandem;

use overload::{GateConfig, HystereticConfig, Threshold};

use super::{Calls, Estimate, Law, Node, Outcome, Rate, Scenario, Timers, replicate};

const SECOND: u64 = 1_000_000_000;

fn fifo(buffer: u32) -> GateConfig {
    GateConfig::Fifo { buffer: Threshold::Messages(buffer) }
}

fn priority(buffer: u32) -> GateConfig {
    GateConfig::TailDrop { buffer: Threshold::Messages(buffer) }
}

fn hysteretic(low: u32, high: u32, buffer: u32, share: f64) -> GateConfig {
    GateConfig::Hysteretic(HystereticConfig {
        admit_below: Threshold::Messages(low),
        shed_at: Threshold::Messages(high),
        discard_at: Threshold::Messages(buffer),
        share,
    })
}

/// An exponential server of this speed.
fn server(speed: &str, gate: GateConfig, room: u32) -> Node {
    Node::server("server", speed.parse().unwrap(), Law::Exponential, gate, room)
}

/// Poisson INVITE clients of this rate before one node.
fn invites(rate: &str, node: Node, seconds: u64) -> Scenario {
    Scenario::single(rate.parse::<Rate>().unwrap(), Timers::Invite, node, seconds * SECOND)
}

/// Replications on both cores.
fn outcomes(scenario: &Scenario, seeds: usize) -> Vec<Outcome> {
    replicate(scenario, seeds, 2, || {}).unwrap()
}

fn estimate(outcomes: &[Outcome], measure: impl Fn(&Outcome) -> f64) -> Estimate {
    Estimate::of(outcomes.iter().map(measure)).unwrap()
}

fn of_calls(outcomes: &[Outcome], measure: impl Fn(&Calls) -> f64) -> Estimate {
    estimate(outcomes, |outcome| measure(&outcome.calls()))
}

/// The rule for simulated values: within 4 standard errors plus 2 %.
#[track_caller]
fn assert_near(what: &str, found: Estimate, expected: f64) {
    let tolerance = 4.0f64.mul_add(found.standard_error, 0.02 * expected);
    let Estimate { mean, standard_error, .. } = found;
    assert!((mean - expected).abs() <= tolerance, "{what}: {mean} ± {standard_error}, expected {expected}");
}
