//! `sipweir model hysteresis`: the gate ⟨L,H⟩|B under a given load.

use ::model::hysteresis::{Equilibrium, Hysteresis, ModulatedHysteresis, ReturnTime};
use ::model::mmpp::Mmpp;
use ::model::parameter::{ParameterError, levels};
use ::model::service::ServiceLaw;
use serde::Serialize;

use super::table::Table;
use super::{Answer, ModelError, read_phases};

/// How far `--arrival-rate` may be from the mean rate of `--mmpp`, relatively, when both are given.
const MEAN_TOLERANCE: f64 = 0.01;

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Args {
    /// Originals offered per second; with --mmpp it may be left out.
    #[arg(long, value_name = "PER_SECOND", allow_hyphen_values = true, required_unless_present = "mmpp")]
    arrival_rate: Option<f64>,
    /// Originals that the server can serve per second.
    #[arg(long, value_name = "PER_SECOND", allow_hyphen_values = true)]
    service_rate: f64,
    /// Overload ends when fewer than this are in the system.
    #[arg(long, value_name = "L", allow_hyphen_values = true)]
    low: u32,
    /// Overload begins when this many are in the system.
    #[arg(long, value_name = "H", allow_hyphen_values = true)]
    high: u32,
    /// All are refused from this many in the system until H.
    #[arg(long, value_name = "B", allow_hyphen_values = true)]
    buffer: u32,
    /// Share admitted in overload, 0 to 1.
    #[arg(long, value_name = "q", allow_hyphen_values = true)]
    admit: f64,
    /// Law of the service time: exponential, deterministic, gamma:CV2 or hyperexponential:CV2.
    #[arg(long, value_name = "LAW", default_value = "exponential")]
    service: String,
    /// Bursty arrivals: phases as rate:sojourn,rate:sojourn,… in 1/s and s, or a file with one phase a line.
    #[arg(long, value_name = "FILE|PHASES", allow_hyphen_values = true)]
    mmpp: Option<String>,
}

/// The keys of the JSON.
#[derive(Debug, Serialize)]
pub(super) struct HysteresisAnswer {
    p_normal: f64,
    p_overload: f64,
    p_discard: f64,
    reject_probability: f64,
    return_time: f64,
    return_time_sd: Option<f64>,
    return_time_p50: Option<f64>,
    return_time_p99: Option<f64>,
    cycle_time: f64,
    mean_in_system: f64,
    mean_wait: f64,
}

impl Args {
    pub(super) fn solve(&self) -> Result<HysteresisAnswer, ModelError> {
        let levels = levels(self.low, self.high, self.buffer)?;
        let law: ServiceLaw = self.service.parse()?;
        if let Some(mmpp) = &self.mmpp {
            if law != ServiceLaw::Exponential {
                return Err(ParameterError {
                    name: "service",
                    value: law.to_string(),
                    range: "exponential together with --mmpp".into(),
                }
                .into());
            }
            let arrivals = self.arrivals(mmpp)?;
            let model = ModulatedHysteresis::new(levels, arrivals, self.service_rate, self.admit)?;
            let (equilibrium, law) = model.solve();
            return Ok(HysteresisAnswer::new(&equilibrium, law));
        }
        // The option is required without --mmpp.
        let arrival_rate = self.arrival_rate.unwrap_or(f64::NAN);
        let model = Hysteresis::new(levels, arrival_rate, self.service_rate, self.admit)?;
        Ok(match law {
            ServiceLaw::Exponential => HysteresisAnswer::new(&model.solve(), Some(model.return_time())),
            law => {
                let (equilibrium, returns) = model.solve_with_return_time(law)?;
                HysteresisAnswer::new(&equilibrium, Some(returns))
            }
        })
    }

    fn arrivals(&self, text: &str) -> Result<Mmpp, ModelError> {
        let phases = read_phases(text)?;
        let mean = phases.mean_rate_per_s();
        if let Some(rate) = self.arrival_rate {
            // What is no number agrees with nothing.
            let agrees = (rate / mean - 1.0).abs() <= MEAN_TOLERANCE;
            if !agrees {
                return Err(ParameterError {
                    name: "arrival-rate",
                    value: rate.to_string(),
                    range: format!("left out, or {mean}, which is the mean of --mmpp"),
                }
                .into());
            }
        }
        Ok(phases)
    }
}

impl HysteresisAnswer {
    fn new(equilibrium: &Equilibrium, law: Option<ReturnTime>) -> Self {
        let [p_normal, p_overload, p_discard] = equilibrium.states;
        Self {
            p_normal,
            p_overload,
            p_discard,
            reject_probability: equilibrium.rejected,
            return_time: equilibrium.return_time_s,
            return_time_sd: law.map(|law| law.sd_s),
            return_time_p50: law.map(|law| law.p50_s),
            return_time_p99: law.map(|law| law.p99_s),
            cycle_time: equilibrium.cycle_s,
            mean_in_system: equilibrium.mean_in_system,
            mean_wait: equilibrium.mean_wait_s,
        }
    }
}

impl Answer for HysteresisAnswer {
    fn table(&self) -> Table {
        Table::default()
            .number("p_normal", self.p_normal, "share of time in which all are admitted")
            .number("p_overload", self.p_overload, "share of time in which the share q is admitted")
            .number("p_discard", self.p_discard, "share of time in which none is admitted")
            .number("reject_probability", self.reject_probability, "share of originals that is refused")
            .time("return_time", Some(self.return_time), "from entering overload until normal, mean")
            .time("return_time_sd", self.return_time_sd, "its standard deviation")
            .time("return_time_p50", self.return_time_p50, "its median")
            .time("return_time_p99", self.return_time_p99, "exceeded by one return in a hundred")
            .time("cycle_time", Some(self.cycle_time), "from one entry into overload to the next, mean")
            .number("mean_in_system", self.mean_in_system, "waiting and in service, mean")
            .time("mean_wait", Some(self.mean_wait), "until service begins, of those admitted, mean")
    }
}
