//! A plan as a whole: title, `[run]`, and the product of its choices. The other tables stand in `places` and
//! `mechanism`.

use std::collections::BTreeMap;

use overload::Nanos;
use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Table;

use super::PlanError;
use super::expand::{COMBINATIONS_MAX, Choice, choices};
use super::mechanism::MechanismTable;
use super::places::{NodeTable, SourceTable};
use crate::simulate::{EVENTS_MAX, Scenario};

/// Replications at most.
const SEEDS_MAX: usize = 100_000;

/// A plan, ready to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What it shows.
    pub title: String,
    /// More words about it.
    pub about: String,
    /// Replications of each run.
    pub seeds: usize,
    /// Whether the fluid model is asked as well, where it knows the scenario.
    pub fluid: bool,
    /// Every mechanism with every choice of values.
    pub runs: Vec<PlannedRun>,
}

/// One scenario under one mechanism.
#[derive(Debug, Clone)]
pub struct PlannedRun {
    /// The mechanism's name.
    pub mechanism: String,
    /// The values chosen from lists and ranges, by key. Keys of a mechanism are relative to it, so that mechanisms share them.
    pub parameters: Vec<(String, String)>,
    /// What is simulated.
    pub scenario: Scenario,
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// What is wrong, with the key.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let whole: Table =
            text.parse().map_err(|error: toml::de::Error| PlanError(not_toml(text, &error)))?;
        let Document { title, about, run, .. } = read("", whole.clone())?;
        let run = run.unwrap_or_default();
        run.check()?;
        let part = |name: &str| match whole.get(name) {
            Some(toml::Value::Table(table)) if !table.is_empty() => Ok(table),
            _ => Err(PlanError(format!("{name}: missing; a plan has at least one [{name}.NAME]"))),
        };
        let (sources, nodes) = (choices("source", part("source")?)?, choices("node", part("node")?)?);
        let mut runs = Vec::new();
        let networks = sources.len().saturating_mul(nodes.len());
        for (name, mechanism) in part("mechanism")? {
            let toml::Value::Table(mechanism) = mechanism else {
                return Err(PlanError(format!("mechanism.{name}: must be a table, [mechanism.{name}.gate]")));
            };
            let variants = choices("", mechanism)?;
            let all = networks.saturating_mul(variants.len()).saturating_add(runs.len());
            if all > COMBINATIONS_MAX {
                return Err(PlanError(format!(
                    "mechanism.{name}: the lists of the plan make {all} runs; shorten them to at most {COMBINATIONS_MAX}"
                )));
            }
            for sources in &sources {
                for nodes in &nodes {
                    for mechanism in &variants {
                        runs.push(planned(name, &run, sources, nodes, mechanism.clone())?);
                    }
                }
            }
        }
        let plan = Self { title, about: about.unwrap_or_default(), seeds: 1, fluid: run.fluid, runs };
        plan.with_seeds(run.seeds)
    }

    /// The plan with another number of replications.
    ///
    /// # Errors
    /// When they are none, or so many that all runs together would take days.
    pub fn with_seeds(self, seeds: usize) -> Result<Self, PlanError> {
        if !(1..=SEEDS_MAX).contains(&seeds) {
            return Err(PlanError(format!("run.seeds: {seeds} is out of range; give 1 to {SEEDS_MAX}")));
        }
        let of_one: f64 = self.runs.iter().map(|run| run.scenario.events()).sum();
        let events = of_one * seeds as f64;
        if events > EVENTS_MAX {
            let runs = self.runs.len();
            let most = (EVENTS_MAX / of_one).floor();
            let advice = if most >= 1.0 {
                format!("give at most {most:.0}")
            } else {
                "shorten the lists, duration_s or the rates".to_owned()
            };
            return Err(PlanError(format!(
                "run.seeds: {seeds} replications of {runs} runs come to about {events:.0e} events, of at most \
                 {EVENTS_MAX:.0e}; {advice}"
            )));
        }
        Ok(Self { seeds, ..self })
    }
}

/// One run from one choice of everything.
fn planned(
    name: &str,
    run: &RunTable,
    sources: &Choice,
    nodes: &Choice,
    mechanism: Choice,
) -> Result<PlannedRun, PlanError> {
    let source_tables: BTreeMap<String, SourceTable> = read("source", sources.table.clone())?;
    let node_tables: BTreeMap<String, NodeTable> = read("node", nodes.table.clone())?;
    let shared: MechanismTable = read(&format!("mechanism.{name}"), mechanism.table)?;
    let index: BTreeMap<&str, usize> =
        node_tables.keys().enumerate().map(|(index, name)| (name.as_str(), index)).collect();
    let seconds = |seconds: f64| (seconds * 1e9).round() as Nanos;
    let scenario = Scenario {
        sources: source_tables
            .iter()
            .map(|(name, table)| table.source(name, &index))
            .collect::<Result<_, _>>()?,
        nodes: node_tables
            .iter()
            .map(|(node, table)| table.node(node, &format!("mechanism.{name}"), &shared, &index))
            .collect::<Result<_, _>>()?,
        duration_ns: seconds(run.duration_s),
        warm_up_ns: seconds(run.warm_up_s),
        cool_down_ns: seconds(run.cool_down_s),
        sample_ns: run.sample_s.map(seconds),
        seed: run.first_seed,
    };
    if let Some(problem) = scenario.problems().into_iter().next() {
        return Err(PlanError(format!("{problem} (mechanism {name})")));
    }
    let parameters = [sources.chosen.clone(), nodes.chosen.clone(), mechanism.chosen].concat();
    Ok(PlannedRun { mechanism: name.to_owned(), parameters, scenario })
}

/// Reads a table; an error names the key's path.
pub(super) fn read<'de, T: Deserialize<'de>>(path: &str, table: Table) -> Result<T, PlanError> {
    serde_path_to_error::deserialize(table).map_err(|error| {
        let inner = error.path().to_string();
        let key = match (path, inner.as_str()) {
            ("", ".") => "the plan".to_owned(),
            ("", inner) => inner.to_owned(),
            (path, ".") => path.to_owned(),
            (path, inner) => format!("{path}.{inner}"),
        };
        let message = error.into_inner().message().replace('\n', " ");
        PlanError(format!("{key}: {}", shortened(&message)))
    })
}

/// Where a text stops being TOML, on one line.
fn not_toml(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    format!("no TOML in line {line}: {}", shortened(error.message()))
}

/// A message without the middle of what was written out in hundreds of digits.
fn shortened(message: &str) -> String {
    const WORD_MAX: usize = 60;
    let word = |word: &str| match word.char_indices().nth(WORD_MAX) {
        Some((end, _)) => format!("{}…", &word[..end]),
        None => word.to_owned(),
    };
    message.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// Takes the key out of a table that says of which kind it is.
pub(super) fn take_kind(
    path: &str,
    key: &str,
    table: &mut Table,
    kinds: &[&'static str],
) -> Result<&'static str, PlanError> {
    let all = || kinds.join(", ");
    let Some(value) = table.remove(key) else {
        return Err(PlanError(format!("{path}.{key}: missing; give one of {}", all())));
    };
    let known = kinds.iter().find(|kind| value.as_str() == Some(kind));
    known.copied().ok_or_else(|| {
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        PlanError(format!("{path}.{key}: unknown variant `{}`, expected one of {}", shortened(&shown), all()))
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    title: String,
    about: Option<String>,
    run: Option<RunTable>,
    /// Read after their lists and ranges have been resolved.
    #[serde(rename = "source")]
    _source: Option<IgnoredAny>,
    #[serde(rename = "node")]
    _node: Option<IgnoredAny>,
    #[serde(rename = "mechanism")]
    _mechanism: Option<IgnoredAny>,
}

/// `[run]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RunTable {
    /// How long callers call. Default 300.
    duration_s: f64,
    /// Time that is not measured at the start. Default 0.
    warm_up_s: f64,
    /// Calls of this last span do not count; 32 s let every counted call meet its fate. Default 32.
    cool_down_s: f64,
    /// How often lines are noted for the plots. Default never.
    sample_s: Option<f64>,
    /// Replications. Default 10.
    seeds: usize,
    /// Seed of the first one; the others follow. Default 1.
    first_seed: u64,
    /// Ask the fluid model as well, where it knows the scenario. Default false.
    fluid: bool,
}

impl Default for RunTable {
    fn default() -> Self {
        Self {
            duration_s: 300.0,
            warm_up_s: 0.0,
            cool_down_s: 32.0,
            sample_s: None,
            seeds: 10,
            first_seed: 1,
            fluid: false,
        }
    }
}

impl RunTable {
    fn check(&self) -> Result<(), PlanError> {
        let sample_s = self.sample_s.unwrap_or(1.0);
        let spans = [
            ("duration_s", self.duration_s),
            ("warm_up_s", self.warm_up_s),
            ("cool_down_s", self.cool_down_s),
            ("sample_s", sample_s),
        ];
        // Nanoseconds in 64 bits end after 584 years; a year is more than anybody waits for.
        let wrong = spans.into_iter().find(|(_, span)| !(0.0..=3.2e7).contains(span));
        match wrong {
            Some((key, span)) => {
                Err(PlanError(format!("run.{key}: {span} is out of range; give seconds from 0 to 32000000")))
            }
            None => Ok(()),
        }
    }
}
