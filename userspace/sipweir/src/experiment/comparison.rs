//! What was measured beside what the theory says, as a table and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

/// A number and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Value {
    pub(super) value: f64,
    /// Half the width of its 95 % confidence interval; `null` for what has none: a closed form, or a single run.
    pub(super) half_width: Option<f64>,
}

impl Value {
    /// Without an interval.
    pub(super) const fn plain(value: f64) -> Self {
        Self { value, half_width: None }
    }

    /// In another unit.
    pub(super) fn scaled(self, factor: f64) -> Self {
        Self { value: self.value * factor, half_width: self.half_width.map(|half| half * factor) }
    }

    fn text(self) -> String {
        let half = self.half_width.map(|half| format!(" ± {}", digits(half)));
        digits(self.value) + &half.unwrap_or_default()
    }
}

/// One quantity of one run.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Quantity {
    pub(super) name: &'static str,
    /// Empty for shares and counts.
    pub(super) unit: &'static str,
    pub(super) measured: Value,
    pub(super) theory: Value,
}

/// One run.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Case {
    /// What distinguishes it from the others.
    pub(super) name: String,
    pub(super) quantities: Vec<Quantity>,
}

/// An experiment.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Comparison {
    pub(super) experiment: &'static str,
    /// What the column of the theory is.
    pub(super) theory: &'static str,
    pub(super) cases: Vec<Case>,
}

impl Comparison {
    /// As a Markdown table.
    pub(super) fn table(&self) -> String {
        let mut text = format!(
            "| run | quantity | measured | {} | measured / theory |\n|---|---|---|---|---|\n",
            self.theory
        );
        for case in &self.cases {
            for Quantity { name, unit, measured, theory } in &case.quantities {
                let name = if unit.is_empty() { (*name).to_owned() } else { format!("{name}, {unit}") };
                let ratio = measured.value / theory.value;
                let ratio = if ratio.is_finite() { format!("{ratio:.3}") } else { "–".to_owned() };
                // Writing to a String cannot fail.
                let _ok = writeln!(
                    text,
                    "| {} | {name} | {} | {} | {ratio} |",
                    case.name,
                    measured.text(),
                    theory.text()
                );
            }
        }
        text
    }

    /// As JSON.
    pub(super) fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// Four digits behind the point of what is around 1, one of what is above 100.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Case, Comparison, Quantity, Value};

    #[test]
    fn a_table_has_a_line_for_every_quantity_and_no_ratio_to_nothing() {
        let quantity = |name, unit, measured, theory| Quantity { name, unit, measured, theory };
        let measured = Value { value: 2.5, half_width: Some(0.125) };
        let comparison = Comparison {
            experiment: "test",
            theory: "closed form",
            cases: vec![Case {
                name: "a".into(),
                quantities: vec![
                    quantity("time", "ms", measured.scaled(100.0), Value::plain(200.0)),
                    quantity("share", "", Value::plain(0.0), Value::plain(0.0)),
                ],
            }],
        };
        let table = comparison.table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[0], "| run | quantity | measured | closed form | measured / theory |");
        assert_eq!(lines[2], "| a | time, ms | 250.0 ± 12.50 | 200.0 | 1.250 |");
        assert_eq!(lines[3], "| a | share | 0.0000 | 0.0000 | – |");
        assert_eq!(lines.len(), 4);
        let json: serde_json::Value = serde_json::from_str(&comparison.json().expect("json")).expect("valid");
        assert_eq!(json["cases"][0]["quantities"][1]["theory"]["half_width"], serde_json::Value::Null);
    }
}
