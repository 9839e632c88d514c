//! `sipweir model`: what queueing theory expects, from the formulas of the `model` room.
//!
//! ```text
//!  hysteresis      what a gate ⟨L,H⟩|B will do
//!  thresholds      which L and H to take
//!  polling         two queues served in turn
//!  random          the gate of two thresholds that refuses at random
//!  fluid           clients that send again, as a flow
//!  notifications   presence notifications through a token bucket
//! ```
//!
//! Each prints a small table, or with `--json` one object; times are in seconds. Nothing here computes: a file per
//! command says which options there are and how the answer is shown. docs/model.md explains the models.

mod fluid;
mod hysteresis;
mod notifications;
mod polling;
mod random;
mod table;
mod thresholds;

use ::model::mmpp::Mmpp;
use ::model::parameter::ParameterError;
use ::model::thresholds::OutOfReach;
use clap::Subcommand;
use serde::Serialize;

use self::table::Table;

/// What `sipweir model` is called with.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    model: Model,
    /// As JSON, times in seconds; what is beyond the range of a number, or not known, is null.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Clone, Subcommand)]
enum Model {
    /// The hysteretic gate: how often it refuses, and how long overload lasts.
    Hysteresis(hysteresis::Args),
    /// The thresholds of the shortest overload within limits on discarding and on the cycle.
    Thresholds(thresholds::Args),
    /// Two queues that one server visits in turn.
    Polling(polling::Args),
    /// The random gate of two thresholds.
    Random(random::Args),
    /// Clients that send again before one server or two, as a flow without chance.
    Fluid(fluid::Args),
    /// Presence notifications through a token bucket.
    Notifications(notifications::Args),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A parameter is outside its range, or an option's text is not understood.
    #[error("--{0}")]
    Parameter(#[from] ParameterError),
    /// No thresholds satisfy both limits.
    #[error("--{0}")]
    OutOfReach(#[from] OutOfReach),
    /// A scenario that the fluid model does not know.
    #[error("--scenario {text}: {message}")]
    Scenario {
        /// The option's text.
        text: String,
        /// Why.
        message: String,
    },
    /// What is no list of phases is no readable file either.
    #[error(
        "--mmpp {text} must be phases, rate:sojourn,rate:sojourn,… in 1/s and s, or a file of them: {source}"
    )]
    Mmpp {
        /// The option's text.
        text: String,
        /// Why.
        source: std::io::Error,
    },
}

/// What a command found, as JSON and as a table.
trait Answer: Serialize {
    fn table(&self) -> Table;
}

/// Reads phases where the text begins as one, otherwise a file.
pub(crate) fn read_phases(text: &str) -> Result<Mmpp, ModelError> {
    if text.contains(':') && !std::path::Path::new(text).exists() {
        return Ok(text.parse()?);
    }
    let content =
        std::fs::read_to_string(text).map_err(|source| ModelError::Mmpp { text: text.into(), source })?;
    Ok(content.parse().map_err(|error: ParameterError| ParameterError {
        value: format!("{text}: {}", error.value),
        ..error
    })?)
}

/// Runs the command: the text to print.
///
/// # Errors
/// The parameter that is outside its range, or the limit that cannot be met.
pub fn main(args: &Args) -> Result<String, ModelError> {
    match &args.model {
        Model::Hysteresis(model) => Ok(show(&model.solve()?, args.json)),
        Model::Thresholds(model) => Ok(show(&model.solve()?, args.json)),
        Model::Polling(model) => Ok(show(&model.solve()?, args.json)),
        Model::Random(model) => Ok(show(&model.solve()?, args.json)),
        Model::Fluid(model) => Ok(show(&model.solve()?, args.json)),
        Model::Notifications(model) => Ok(show(&model.solve()?, args.json)),
    }
}

fn show(answer: &impl Answer, json: bool) -> String {
    if !json {
        return answer.table().to_string();
    }
    // serde_json writes what is no finite number as null. Writing numbers and lists cannot fail.
    let mut text = serde_json::to_string_pretty(answer).unwrap_or_default();
    text.push('\n');
    text
}
