//! What the models say of one B and q, for any L and H.
//!
//! A peak that lasts and exponential service have the closed form of `hysteresis.rs`. Its weights have the flow into overload as unit
//! and each state has only its own rates in them, so a server that is slower in overload and discard only needs ρ = λ/μ0,
//! a = q λ/μ1, and each state's weights divided by its own rate. Bursts take the modulated chain; their cycle
//! must be long enough while the peak lasts, too, since pauses that make its mean long are no help to callers in the peak. Other laws of service take the
//! embedded chain, which knows one rate: the server then has that of overload always, which fills the line
//! faster than it is filled and so errs towards refusing more.

use overload::GateState;

use super::wait::p99;
use super::{Demand, Peak};
use crate::hysteresis::{ClosedForm, Equilibrium, Hysteresis, ModulatedHysteresis, StateProbability};
use crate::numeric::log_sum_exp;
use crate::parameter::{self, ParameterError};
use crate::service::ServiceLaw;

/// What a gate will do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// P0, P1, P2.
    pub states: [f64; 3],
    /// The share of offered originals that is refused.
    pub rejected: f64,
    /// Mean wait of what is admitted, in seconds.
    pub mean_wait_s: f64,
    /// Waiting and service of what is admitted, exceeded by one in a hundred, in seconds; known where the closed form holds.
    pub answer_p99_s: Option<f64>,
    /// E\[R\] in seconds.
    pub return_time_s: f64,
    /// τ in seconds.
    pub cycle_s: f64,
}

impl Prediction {
    fn new(found: &Equilibrium, answer_p99_s: Option<f64>) -> Self {
        Self {
            states: found.states,
            rejected: found.rejected,
            mean_wait_s: found.mean_wait_s,
            answer_p99_s,
            return_time_s: found.return_time_s,
            cycle_s: found.cycle_s,
        }
    }
}

/// The model for one B and q.
#[derive(Debug)]
pub(super) struct Model<'a> {
    demand: &'a Demand,
    buffer: u32,
    share: f64,
    rates_per_s: [f64; 3],
    /// The closed form for a peak that lasts, where it holds.
    form: Option<ClosedForm>,
}

impl<'a> Model<'a> {
    pub(super) fn new(demand: &'a Demand, buffer: u32, share: f64) -> Self {
        let peak_per_s = demand.peak_rate_per_s();
        let rates_per_s = demand.rates_per_s(share);
        let form = (demand.service == ServiceLaw::Exponential).then(|| {
            ClosedForm::new(peak_per_s / rates_per_s[0], share * peak_per_s / rates_per_s[1], buffer)
        });
        Self { demand, buffer, share, rates_per_s, form }
    }

    /// P2.
    pub(super) fn p_discard(&self, low: u32, high: u32) -> Result<f64, ParameterError> {
        let Some(form) = self.form.as_ref().filter(|_| !self.demand.has_bursts()) else {
            return Ok(self.equilibrium(low, high)?.states[2]);
        };
        let logs = self.log_times(form.log_totals((low, high, self.buffer)));
        Ok((logs[2] - log_sum_exp(&logs)).exp())
    }

    /// τ in seconds; of bursts, where it may be longer or shorter than while the peak lasts, the less of the two. What is not
    /// above `least_s` while the peak lasts is not looked at further.
    pub(super) fn cycle_s(&self, low: u32, high: u32, least_s: f64) -> Result<f64, ParameterError> {
        let Some(form) = &self.form else { return Ok(self.equilibrium(low, high)?.cycle_s) };
        let at_peak_s = log_sum_exp(&self.log_times(form.log_totals((low, high, self.buffer)))).exp();
        if !self.demand.has_bursts() || at_peak_s < least_s {
            return Ok(at_peak_s);
        }
        Ok(at_peak_s.min(self.equilibrium(low, high)?.cycle_s))
    }

    pub(super) fn predict(&self, low: u32, high: u32) -> Result<Prediction, ParameterError> {
        let Some(form) = self.form.as_ref().filter(|_| !self.demand.has_bursts()) else {
            return Ok(Prediction::new(&self.equilibrium(low, high)?, None));
        };
        let logs = self.log_times(form.log_totals((low, high, self.buffer)));
        let cycle = log_sum_exp(&logs);
        let states = logs.map(|log| (log - cycle).exp());
        let rejected = (1.0 - self.share).mul_add(states[1], states[2]);
        let admitted_per_s = self.demand.peak_rate_per_s() * (1.0 - rejected);
        let levels = parameter::levels(low, high, self.buffer)?;
        let weights = [form.normal_weights(levels), form.shed_weights(levels)].concat();
        let probability =
            |gate: GateState, log: f64| (log - self.rates_per_s[gate as usize].ln() - cycle).exp();
        let distribution: Vec<_> = weights
            .into_iter()
            .map(|(gate, n, log)| StateProbability {
                gate,
                in_system: n,
                probability: probability(gate, log),
            })
            .collect();
        // Poisson arrivals see the states as they are in time (PASTA). Who is admitted with n in the system is answered after
        // n + 1 services, of which the law is that of exponential ones at the mean rate of the peak.
        let admitted = [1.0, self.share, 0.0];
        let sums: Vec<_> = distribution
            .iter()
            .map(|state| (state.in_system + 1, admitted[state.gate as usize] * state.probability))
            .collect();
        let answer_p99_s = p99(&sums) / self.demand.peak_service_rate_per_s();
        let times_s = [log_sum_exp(&logs[1..]).exp(), cycle.exp()];
        let found = Equilibrium::new(states, times_s, rejected, admitted_per_s, distribution);
        Ok(Prediction::new(&found, Some(answer_p99_s)))
    }

    /// The logarithms of the mean stays of a cycle in each state, in seconds, from its weights.
    fn log_times(&self, log_weights: [f64; 3]) -> [f64; 3] {
        let [normal, overload, discard] = log_weights;
        let [in_normal, in_overload, in_discard] = self.rates_per_s.map(f64::ln);
        [normal - in_normal, overload - in_overload, discard - in_discard]
    }

    fn equilibrium(&self, low: u32, high: u32) -> Result<Equilibrium, ParameterError> {
        let levels = parameter::levels(low, high, self.buffer)?;
        if self.demand.has_bursts() {
            let arrivals = self.demand.phases()?;
            let model =
                ModulatedHysteresis::new(levels, arrivals, self.demand.service_rate_per_s, self.share)?;
            return Ok(model.with_refusal_cost(self.demand.refusal_services())?.equilibrium().0);
        }
        let model = Hysteresis::new(levels, self.demand.peak_rate_per_s(), self.rates_per_s[1], self.share)?;
        model.solve_with_service(self.demand.service)
    }
}

impl Demand {
    /// Whether the load changes.
    pub(super) const fn has_bursts(&self) -> bool {
        self.burst.is_some() || matches!(self.peak, Peak::Phases(_))
    }
}
