//! The recommendation in simulation: the gate and the waiting line that run live, callers with the timers of RFC 3261, a
//! server that writes its refusals itself where they cost something, and `max_wait`.
//!
//! So what the models leave out is in it: clients that send again, originals that are refused since they have waited too long,
//! refusals that come one by one.

use overload::{GateConfig, HystereticConfig, QueueCapacity, Threshold};

use super::{Demand, Recommendation, Tuning};
use crate::parameter::ParameterError;
use crate::service::ServiceLaw;
use crate::simulate::{
    Estimate, Law, NANOS_PER_S, Node, NodeOutcome, Outcome, Phase, Rate, Scenario, Timers, replicate,
};

/// How much is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Replications.
    pub seeds: usize,
    /// Originals, in all replications together.
    pub calls: u64,
    /// Replications at a time.
    pub threads: usize,
}

/// What was seen; none where nothing was, such as a return time without overload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verified {
    /// P0, P1, P2.
    pub states: [Option<Estimate>; 3],
    /// The share of originals refused, by the gate or for waiting too long.
    pub rejected: Option<Estimate>,
    /// Mean wait of what was served, in seconds.
    pub mean_wait_s: Option<Estimate>,
    /// Waiting and service, exceeded by one in a hundred, in seconds.
    pub answer_p99_s: Option<Estimate>,
    /// R in seconds.
    pub return_time_s: Option<Estimate>,
    /// τ in seconds.
    pub cycle_s: Option<Estimate>,
    /// Copies that clients sent for each original.
    pub copies: Option<Estimate>,
    /// Seconds measured, in all replications.
    pub seconds: f64,
}

/// Long lines, rare cycles and long phases: a replication has at least so many of each.
const CYCLES_MIN: f64 = 10.0;
/// The most that a replication takes to see that many, as a multiple of its share of the calls.
const STRETCH_MAX: f64 = 5.0;
/// What is not measured before, since the line begins empty, as a part of what is.
const WARM_UP: f64 = 0.1;
/// Refusals that wait while a long service ends. One that finds no room is not sent, and its caller sends again, which is no
/// matter of the settings: sipweir's refusals do not wait for the server.
const REFUSALS_WAITING: u32 = 100_000;
/// Calls sent after this before the end have no answer yet.
const COOL_DOWN_S: f64 = 1.0;

impl Tuning {
    /// Simulates a recommendation. The same effort gives the same numbers, on any number of threads.
    ///
    /// # Errors
    /// When a replication of so many calls would not fit into the memory, or take days.
    pub fn verify(&self, chosen: &Recommendation, effort: Effort) -> Result<Verified, ParameterError> {
        let scenario = scenario(&self.demand, chosen, effort);
        let outcomes = replicate(&scenario, effort.seeds, effort.threads, || {}).map_err(|error| {
            let what: Vec<_> = error.problems.iter().map(|problem| problem.message.as_str()).collect();
            let range = format!("fewer, or spread over more seeds: the simulation {}", what.join(", and "));
            ParameterError::new("calls", effort.calls, range)
        })?;
        Ok(Verified::of(&outcomes, self.demand.service_rate_per_s))
    }
}

fn scenario(demand: &Demand, chosen: &Recommendation, effort: Effort) -> Scenario {
    let (low, high, buffer) = chosen.levels.as_tuple();
    let gate = GateConfig::Hysteretic(HystereticConfig {
        admit_below: Threshold::Messages(low),
        shed_at: Threshold::Messages(high),
        discard_at: Threshold::Messages(buffer),
        share: chosen.share,
    });
    let law = match demand.service {
        ServiceLaw::Exponential => Law::Exponential,
        ServiceLaw::Deterministic => Law::Deterministic,
        // A hyperexponential law is refused by `Demand::check`: the simulation does not draw from it.
        ServiceLaw::Gamma(cv2) | ServiceLaw::Hyperexponential(cv2) => Law::Gamma { cv2 },
    };
    let phases: Vec<Phase> = demand.phases().map_or_else(
        |_| Vec::new(),
        |mmpp| {
            let phase = |phase: &crate::mmpp::Phase| Phase {
                rate_per_s: phase.rate_per_s,
                sojourn_s: phase.sojourn_s,
            };
            mmpp.phases().iter().map(phase).collect()
        },
    );
    let turn_s: f64 =
        if demand.has_bursts() { phases.iter().map(|phase| phase.sojourn_s).sum() } else { 0.0 };
    let rate =
        if demand.has_bursts() { Rate::Modulated(phases) } else { Rate::Constant(demand.peak_rate_per_s()) };
    let share_s = effort.calls as f64 / effort.seeds as f64 / rate.guess_per_s();
    let cycle_s = if chosen.model.cycle_s.is_finite() { chosen.model.cycle_s } else { 0.0 };
    let wanted_s = CYCLES_MIN * cycle_s.max(turn_s).max(demand.max_wait_s);
    let measured_s = share_s.max(wanted_s.min(STRETCH_MAX * share_s));
    let warm_up_s = WARM_UP * measured_s;
    let duration_s = warm_up_s + measured_s + COOL_DOWN_S;
    let node = Node {
        max_wait_ns: Some((demand.max_wait_s * NANOS_PER_S) as u64),
        capacity: QueueCapacity { control: REFUSALS_WAITING, new: buffer, copy: buffer },
        refusal_ns: (demand.refusal_services() / demand.service_rate_per_s * NANOS_PER_S).round() as u64,
        ..Node::server("server", Rate::Constant(demand.service_rate_per_s), law, gate, buffer)
    };
    Scenario {
        warm_up_ns: (warm_up_s * NANOS_PER_S) as u64,
        cool_down_ns: (COOL_DOWN_S * NANOS_PER_S) as u64,
        ..Scenario::single(rate, Timers::Invite, node, (duration_s * NANOS_PER_S) as u64)
    }
}

impl Verified {
    fn of(outcomes: &[Outcome], service_rate_per_s: f64) -> Self {
        let of = |measure: &dyn Fn(&Outcome) -> f64| Estimate::of(outcomes.iter().map(measure));
        let of_node = |measure: &dyn Fn(&NodeOutcome) -> f64| of(&|outcome| measure(&outcome.nodes[0]));
        let measured_ns = outcomes.iter().map(|outcome| outcome.nodes[0].measured_ns as f64);
        Self {
            states: [0, 1, 2].map(|state| of_node(&|node| node.state_shares()[state])),
            rejected: of(&|outcome| outcome.calls().rejected as f64 / outcome.calls().offered as f64),
            mean_wait_s: of(&|outcome| outcome.calls().mean_delay_s() - 1.0 / service_rate_per_s),
            answer_p99_s: of(&|outcome| outcome.delay_quantile_s(0.99)),
            return_time_s: of_node(&|node| node.returns.mean_s()),
            cycle_s: of_node(&|node| node.cycles.mean_s()),
            copies: of(&|outcome| outcome.calls().copies as f64 / outcome.calls().offered as f64),
            seconds: measured_ns.sum::<f64>() / NANOS_PER_S,
        }
    }
}
