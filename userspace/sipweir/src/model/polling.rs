//! `sipweir model polling`: two queues that one server visits in turn.

use ::model::parameter::ParameterError;
use ::model::polling::{PolledQueue, Polling, TimeMoments, VisitDiscipline};
use clap::ValueEnum;
use serde::Serialize;

use super::table::Table;
use super::{Answer, ModelError};

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Args {
    /// When a visit to a queue ends.
    #[arg(long)]
    discipline: Discipline,
    /// A queue: arrivals per second, mean service time in seconds, and its squared coefficient of variation (1:
    /// exponential, which is taken where none is given). Twice.
    #[arg(long, value_name = "RATE:MEAN[:SCV]", allow_hyphen_values = true, required = true)]
    queue: Vec<String>,
    /// The time to change queues: mean in seconds, and its squared coefficient of variation (0: fixed, which is taken
    /// where none is given). Once for both ways, or twice: after the first queue, after the second.
    #[arg(long, value_name = "MEAN[:SCV]", allow_hyphen_values = true, required = true)]
    switch: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Discipline {
    /// When the queue is empty.
    Exhaustive,
    /// When those have been served that were there at its beginning.
    Gated,
}

/// The keys of the JSON.
#[derive(Debug, Serialize)]
pub(super) struct PollingAnswer {
    /// By queue, in the order given.
    waits: [f64; 2],
}

impl Args {
    pub(super) fn solve(&self) -> Result<PollingAnswer, ModelError> {
        let [first, second] = &self.queue[..] else {
            return Err(count_error("queue", self.queue.len(), "given twice"));
        };
        let switches = match &self.switch[..] {
            [both] => [switch(both)?; 2],
            [first, second] => [switch(first)?, switch(second)?],
            more => return Err(count_error("switch", more.len(), "given once or twice")),
        };
        let discipline = match self.discipline {
            Discipline::Exhaustive => VisitDiscipline::Exhaustive,
            Discipline::Gated => VisitDiscipline::Gated,
        };
        let polling = Polling::new(discipline, [queue(first)?, queue(second)?], switches)?;
        Ok(PollingAnswer { waits: polling.waits_s() })
    }
}

fn count_error(name: &'static str, count: usize, range: &str) -> ModelError {
    ParameterError { name, value: format!("given {count} times"), range: range.into() }.into()
}

fn queue(text: &str) -> Result<PolledQueue, ParameterError> {
    let (arrival_rate_per_s, mean_s, scv) = match numbers(text).as_deref() {
        Some(&[rate, mean]) => (rate, mean, 1.0),
        Some(&[rate, mean, scv]) => (rate, mean, scv),
        _ => return Err(form_error("queue", text, "RATE:MEAN or RATE:MEAN:SCV, in 1/s and s")),
    };
    Ok(PolledQueue { arrival_rate_per_s, service: TimeMoments { mean_s, scv } })
}

fn switch(text: &str) -> Result<TimeMoments, ParameterError> {
    let (mean_s, scv) = match numbers(text).as_deref() {
        Some(&[mean]) => (mean, 0.0),
        Some(&[mean, scv]) => (mean, scv),
        _ => return Err(form_error("switch", text, "MEAN or MEAN:SCV, in s")),
    };
    Ok(TimeMoments { mean_s, scv })
}

/// The numbers between colons.
fn numbers(text: &str) -> Option<Vec<f64>> {
    text.split(':').map(|number| number.trim().parse().ok()).collect()
}

fn form_error(name: &'static str, text: &str, form: &str) -> ParameterError {
    ParameterError { name, value: format!("\"{text}\""), range: form.into() }
}

impl Answer for PollingAnswer {
    fn table(&self) -> Table {
        Table::default()
            .time("wait of the first queue", Some(self.waits[0]), "until service begins, mean")
            .time("wait of the second queue", Some(self.waits[1]), "until service begins, mean")
    }
}
