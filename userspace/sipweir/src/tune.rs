//! `sipweir tune`: settings of the gate for a server, the peak that it has to expect, and what callers put up with.
//!
//! ```text
//!   options, or the rate that a running instance has measured
//!      └─▶ model::tune ──▶ B, L, H, q ──▶ simulated beside the model ──▶ TOML lines
//!                └─▶ impossible: what must give way, and how far
//! ```
//!
//! Here are the options; `settings` makes TOML of what was chosen, `answer` what is printed. Nothing here computes.
//! docs/tune.md explains it. Exit status: 0 settings; 1 the instance gives no rate; 2 a wrong option, with nothing on standard
//! output, or impossible wishes, with `--json` as an object with `"possible": false`.

mod answer;
mod settings;

use std::path::PathBuf;
use std::process::ExitCode;

use ::model::parameter::ParameterError;
use ::model::tune::{Burst, Cost, Demand, Effort, Peak, Settled, TuneError, Tuning};
use anyhow::Context;
use overload::Threshold;

use crate::cli;
use crate::config::Control;
use crate::control;
use crate::model::{ModelError, read_phases};

/// What `sipweir tune` is called with.
#[derive(Debug, Clone, clap::Args)]
#[command(group = clap::ArgGroup::new("rate").required(true), group = clap::ArgGroup::new("peak").required(true))]
pub struct Args {
    /// Originals that the server can serve per second.
    #[arg(long, value_name = "PER_SECOND", allow_hyphen_values = true, group = "rate")]
    service_rate: Option<f64>,
    /// Take the service rate that a running instance has measured. Default socket: that of `sipweir status`.
    #[arg(long, value_name = "SOCKET", num_args = 0..=1, group = "rate")]
    instance: Option<Option<PathBuf>>,
    /// Name of the service in the configuration. Default: main, or the instance's only one.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Law of the service time: exponential, deterministic or gamma:CV2.
    #[arg(long, value_name = "LAW", default_value = "exponential")]
    service: String,
    /// Highest load to expect, as a multiple of the service rate.
    #[arg(long, value_name = "TIMES", allow_hyphen_values = true, group = "peak")]
    peak_load: Option<f64>,
    /// Highest load to expect, in originals per second.
    #[arg(long, value_name = "PER_SECOND", allow_hyphen_values = true, group = "peak")]
    peak_rate: Option<f64>,
    /// Load that changes: phases as rate:sojourn,rate:sojourn,… in 1/s and s, or a file with one phase a line.
    #[arg(long, value_name = "FILE|PHASES", allow_hyphen_values = true, group = "peak")]
    mmpp: Option<String>,
    /// Peaks last for so long on average. Default: the peak lasts, which is the worst case.
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true, conflicts_with = "mmpp")]
    burst: Option<f64>,
    /// Mean time between two peaks. Default: as long as the peaks.
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true, requires = "burst")]
    pause: Option<f64>,
    /// Load between two peaks, as a multiple of the service rate. Default 0.5, or the peak's if that is lower.
    #[arg(long, value_name = "TIMES", allow_hyphen_values = true, requires = "burst")]
    base_load: Option<f64>,
    /// Share of originals that bring credentials, which overload admits by twice the share.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, allow_hyphen_values = true)]
    credentials: f64,
    /// What refusing one costs the server: a part of a service (0.02), or a time (20us).
    #[arg(long, value_name = "COST", default_value = "0", allow_hyphen_values = true)]
    reply_cost: String,
    /// Longest wait of a caller until service begins, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.4, allow_hyphen_values = true)]
    max_wait: f64,
    /// Greatest share of time in which none is admitted.
    #[arg(long, value_name = "SHARE", default_value_t = 0.001, allow_hyphen_values = true)]
    max_discard: f64,
    /// Least mean time from one entry into overload to the next, in seconds. Default: 0.5, or half of what is possible.
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    min_cycle: Option<f64>,
    /// Replications of the simulation.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    seeds: u32,
    /// Originals that are simulated, all replications together.
    #[arg(long, value_name = "N", default_value_t = 3_000_000, value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    calls: u64,
    /// As JSON, times in seconds; what is not known is null.
    #[arg(long)]
    json: bool,
}

/// The server whose rate is known.
struct Server {
    name: String,
    rate_per_s: f64,
    /// What is to be said about the rate.
    note: Option<String>,
}

/// Runs the command.
#[must_use]
pub fn main(args: &Args) -> ExitCode {
    let server = match args.server() {
        Ok(server) => server,
        Err(error) => return cli::environment(Err(error)),
    };
    if let Err(error) = settings::check_name(&server.name) {
        return cli::fail(cli::USAGE, &ModelError::from(error));
    }
    let tuning = match args.tuning(server.rate_per_s) {
        Ok(tuning) => tuning,
        Err(error) => return cli::fail(cli::USAGE, &error),
    };
    match tuning.recommend(args.effort()) {
        Ok(settled) => cli::environment(args.answer(&server, &tuning, &settled)),
        Err(TuneError::Parameter(error)) => cli::fail(cli::USAGE, &ModelError::from(error)),
        Err(TuneError::Impossible(impossible)) => {
            if args.json
                && let Err(error) = cli::print_json(&answer::impossible(&impossible))
            {
                return cli::environment(Err(error));
            }
            cli::fail(cli::USAGE, &impossible)
        }
    }
}

impl Args {
    /// The server's rate, as given or as measured.
    fn server(&self) -> anyhow::Result<Server> {
        let Some(socket) = &self.instance else {
            let name = self.name.clone().unwrap_or_else(|| "main".into());
            // One of the two is required.
            return Ok(Server { name, rate_per_s: self.service_rate.unwrap_or(f64::NAN), note: None });
        };
        let status = control::ask_status(&socket.clone().unwrap_or_else(|| Control::default().socket))?;
        let names = || status.services.keys().cloned().collect::<Vec<_>>().join(", ");
        let (name, service) = match &self.name {
            Some(name) => status.services.get_key_value(name),
            None if status.services.len() == 1 => status.services.first_key_value(),
            None => anyhow::bail!("the instance has the services {}; choose one with --name", names()),
        }
        .with_context(|| format!("the instance has no such service; it has {}", names()))?;
        let served: u64 = service.outcomes.values().filter_map(|of_class| of_class.get("handed_over")).sum();
        let rate_per_s = service.service_rate_per_s;
        anyhow::ensure!(
            served > 0 && rate_per_s > 0.0,
            "service {name} has served nothing yet, so its rate is not measured; give --service-rate"
        );
        // The estimate forgets its first guess with a time constant of a second's work.
        let seconds = served as f64 / rate_per_s;
        let note = (seconds < 5.0).then(|| {
            format!(
                "the rate of {rate_per_s} per second rests on {served} messages only and still leans on initial_rate; \
                 measure under load"
            )
        });
        Ok(Server { name: name.clone(), rate_per_s, note })
    }

    fn tuning(&self, service_rate_per_s: f64) -> Result<Tuning, ModelError> {
        let peak = match (self.peak_load, self.peak_rate, &self.mmpp) {
            (Some(load), _, _) => Peak::Load(load),
            (_, Some(rate_per_s), _) => Peak::Rate(rate_per_s),
            // One of the three is required.
            (_, _, phases) => Peak::Phases(read_phases(phases.as_deref().unwrap_or_default())?),
        };
        let burst = self.burst.map(|length_s| Burst {
            length_s,
            pause_s: self.pause.unwrap_or(length_s),
            base_load: self.base_load,
        });
        Ok(Tuning::new(Demand {
            service_rate_per_s,
            service: self.service.parse()?,
            peak,
            burst,
            credentials: self.credentials,
            reply_cost: self.cost()?,
            max_wait_s: self.max_wait,
            max_discard: self.max_discard,
            min_cycle_s: self.min_cycle,
        })?)
    }

    /// The cost of a refusal.
    fn cost(&self) -> Result<Cost, ParameterError> {
        if let Ok(services) = self.reply_cost.parse() {
            return Ok(Cost::Services(services));
        }
        match self.reply_cost.parse() {
            Ok(Threshold::Time(span_ns)) => Ok(Cost::Seconds(span_ns as f64 / 1e9)),
            _ => Err(ParameterError {
                name: "reply-cost",
                value: self.reply_cost.clone(),
                range: "a part of a service such as 0.02, or a time such as 20us".into(),
            }),
        }
    }

    fn effort(&self) -> Effort {
        Effort { seeds: self.seeds as usize, calls: self.calls, threads: crate::cores::available().len() }
    }

    fn answer(&self, server: &Server, tuning: &Tuning, settled: &Settled) -> anyhow::Result<()> {
        let settings = settings::Settings::new(&server.name, tuning, &settled.chosen)?;
        let answer = answer::Answer::new(tuning, settled, settings, server.note.clone());
        if self.json { cli::print_json(&answer.json()) } else { cli::print_text(&answer.text()) }
    }
}
