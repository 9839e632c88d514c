//! Rows as they are told: JSON, a table, a page; and the record of a run with the machine that it was made on.

mod html;
mod machine;
mod record;

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::Serialize;
use serde_json::Value;

pub(crate) use html::page;
pub(crate) use machine::Machine;
pub(crate) use record::keep;

use crate::scenario::{Scenario, Target};
use crate::statistics::Rounds;

/// One comparison. Values are medians over the rounds; the ratio is the median of the rounds' ratios, and the spread their
/// largest less their smallest, as a share of that median.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
    pub(crate) rival: String,
    pub(crate) rival_value: f64,
    pub(crate) ratio: f64,
    pub(crate) spread: f64,
}

impl Row {
    pub(crate) fn of_rounds(name: &str, unit: &str, rival: &str, rounds: &Rounds) -> Self {
        Self {
            name: name.to_owned(),
            value: rounds.value(),
            unit: unit.to_owned(),
            rival: rival.to_owned(),
            rival_value: rounds.rival_value(),
            ratio: rounds.ratio(),
            spread: rounds.spread(),
        }
    }

    /// Whether the target is reached; none without one.
    pub(crate) fn reaches(&self, target: Option<&Target>) -> Option<bool> {
        let target = target?;
        let ratio = target.ratio_min.is_none_or(|least| self.ratio >= least);
        Some(ratio && target.value_max.is_none_or(|most| self.value <= most))
    }
}

/// What else a scenario has found: costs, counts, the value of each round.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct Details(BTreeMap<String, Value>);

impl Details {
    pub(crate) fn note(&mut self, name: &str, value: impl Serialize) {
        // What is noted here are numbers and maps of them.
        self.0.insert(name.to_owned(), serde_json::to_value(value).unwrap_or(Value::Null));
    }

    pub(crate) fn rounds(&mut self, row: &str, rounds: &Rounds) {
        self.note(&format!("rounds_{row}"), rounds);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

/// A run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) quick: bool,
    pub(crate) seconds: f64,
    pub(crate) rows: Vec<Row>,
    /// By scenario.
    pub(crate) details: BTreeMap<String, Details>,
    /// By row.
    #[serde(skip)]
    pub(crate) targets: BTreeMap<String, Target>,
}

impl Report {
    pub(crate) fn new(machine: Machine, quick: bool, scenarios: &[Scenario]) -> Self {
        let targets = scenarios.iter().flat_map(|scenario| scenario.target.clone()).collect();
        Self { machine, quick, seconds: 0.0, rows: Vec::new(), details: BTreeMap::new(), targets }
    }

    pub(crate) fn json(&self) -> anyhow::Result<String> {
        let mut text = serde_json::to_string_pretty(self).context("cannot write the report as JSON")?;
        text.push('\n');
        Ok(text)
    }

    /// The heads of the lines that [`Self::line`] makes.
    pub(crate) fn header() -> String {
        format!(
            "{:<24} {:>12} {:<15} {:>12}  {:<34} {:>9} {:>7}  target",
            "row", "value", "unit", "rival", "which rival", "ratio", "spread"
        )
    }

    pub(crate) fn line(&self, row: &Row) -> String {
        let target = self.targets.get(&row.name);
        format!(
            "{:<24} {:>12} {:<15} {:>12}  {:<34} {:>9} {:>6.0}%  {}",
            row.name,
            figure(row.value),
            row.unit,
            figure(row.rival_value),
            row.rival,
            figure(row.ratio),
            100.0 * row.spread,
            verdict(row, target)
        )
    }
}

/// What was wanted, and whether it is so.
pub(crate) fn verdict(row: &Row, target: Option<&Target>) -> String {
    let Some(reached) = row.reaches(target) else { return String::new() };
    let wanted = match target {
        Some(Target { ratio_min: Some(least), .. }) => format!("ratio ≥ {least}"),
        Some(Target { value_max: Some(most), .. }) => format!("≤ {most}"),
        _ => String::new(),
    };
    format!("{wanted}: {}", if reached { "reached" } else { "missed" })
}

/// Three significant digits, or whole numbers.
pub(crate) fn figure(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "–".to_owned(),
        _ if size >= 100.0 => format!("{value:.0}"),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Row, figure, verdict};
    use crate::scenario::Target;
    use crate::statistics::Rounds;

    fn row(value: f64, rival_value: f64) -> Row {
        let mut rounds = Rounds::default();
        rounds.push(value, rival_value);
        Row::of_rounds("x", "Mpps", "bare", &rounds)
    }

    #[test]
    fn rows_have_the_keys_that_were_promised() {
        let value = serde_json::to_value(row(1.0, 4.0)).expect("JSON");
        let keys: Vec<&str> = value.as_object().expect("an object").keys().map(String::as_str).collect();
        let mut promised = ["name", "value", "unit", "rival", "rival_value", "ratio", "spread"];
        promised.sort_unstable();
        assert_eq!(keys, promised);
    }

    #[test]
    fn a_target_is_reached_by_ratio_or_by_value() {
        let ratio = Target { ratio_min: Some(0.25), value_max: None };
        assert_eq!(row(1.0, 4.0).reaches(Some(&ratio)), Some(true));
        assert_eq!(row(0.9, 4.0).reaches(Some(&ratio)), Some(false));
        let value = Target { ratio_min: None, value_max: Some(15.0) };
        assert_eq!(row(15.0, 1.0).reaches(Some(&value)), Some(true));
        assert_eq!(verdict(&row(15.1, 1.0), Some(&value)), "≤ 15: missed");
        assert_eq!(row(1.0, 1.0).reaches(None), None);
    }

    #[test]
    fn figures_have_three_digits_that_count() {
        assert_eq!(
            ["0.123", "1.23", "12.3", "123", "12346"].map(str::to_owned),
            [figure(0.1234), figure(1.234), figure(12.34), figure(123.4), figure(12_345.6)]
        );
        assert_eq!(figure(f64::NAN), "–");
    }
}
