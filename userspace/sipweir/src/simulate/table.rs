//! Results as rows and columns, for standard output and for the page.

use std::collections::BTreeSet;

use model::plan::{Estimates, RunResult};
use model::simulate::Estimate;

use super::Report;
use crate::numbers::digits;

/// What the table of calls shows, with a head for people. The last is of calls of several sources only.
const CALLS: [(&str, &str); 9] = [
    ("offered_per_s", "offered /s"),
    ("goodput_per_s", "answered /s"),
    ("goodput_within_t1_per_s", "within T1 /s"),
    ("rejected_share", "rejected"),
    ("failed_share", "failed"),
    ("copies_per_call", "copies per call"),
    ("mean_delay_s", "delay s"),
    ("mean_delay_with_late_s", "with late s"),
    ("goodput_fairness", "fairness"),
];

/// How many of them there are for the calls of one source.
const OF_ONE_SOURCE: usize = CALLS.len() - 1;

/// What the table of nodes shows.
const NODES: [(&str, &str); 9] = [
    ("utilisation", "busy"),
    ("useless_share", "useless"),
    ("p_overload", "P1"),
    ("p_discard", "P2"),
    ("return_time_s", "E[R] s"),
    ("cycle_time_s", "cycle s"),
    ("mean_in_system", "E[N]"),
    ("longest_line", "longest line"),
    ("final_line", "final line"),
];

/// Rows of equal length under a head. The first columns are names, the others numbers.
#[derive(Debug)]
pub(super) struct Grid {
    pub(super) title: &'static str,
    pub(super) head: Vec<String>,
    pub(super) names: usize,
    pub(super) rows: Vec<Vec<String>>,
    /// The measures of the columns after the names.
    measures: Vec<&'static str>,
}

/// Keys of parameters that any run has, in their order.
pub(super) fn parameter_keys(results: &[RunResult]) -> Vec<String> {
    let keys = results.iter().flat_map(|result| result.parameters.iter().map(|(key, _)| key.clone()));
    keys.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The value of a parameter in a run; empty where it has none.
pub(super) fn parameter<'a>(result: &'a RunResult, key: &str) -> &'a str {
    result.parameters.iter().find(|(found, _)| found == key).map_or("", |(_, value)| value)
}

/// The estimate of a measure.
pub(super) fn estimate(measures: &Estimates, name: &str) -> Option<Estimate> {
    measures.iter().find(|(found, _)| *found == name).map(|(_, estimate)| *estimate)
}

/// All tables that have rows.
pub(super) fn grids(report: &Report) -> Vec<Grid> {
    let results = &report.results;
    let keys = parameter_keys(results);
    let several_sources = results.iter().any(|result| !result.sources.is_empty());
    let several_nodes = results.iter().any(|result| result.nodes.len() > 1);
    let of_calls = if several_sources { &CALLS[..] } else { &CALLS[..OF_ONE_SOURCE] };
    let mut calls = Grid::new("Calls", &keys, None, of_calls);
    let mut nodes = Grid::new("Nodes", &keys, several_nodes.then_some("node"), &NODES);
    let mut sources = Grid::new("Sources", &keys, Some("source"), &CALLS[..OF_ONE_SOURCE]);
    let fluid = results.iter().find_map(|result| result.fluid.as_ref());
    // The fluid model has its own measures, the same in every run.
    let of_fluid: Vec<_> =
        fluid.iter().flat_map(|fluid| &fluid.measures).map(|(name, _)| (*name, *name)).collect();
    let mut fluid = Grid::new("Fluid model", &keys, None, &of_fluid);
    for result in results {
        let names =
            std::iter::once(result.mechanism.as_str()).chain(keys.iter().map(|key| parameter(result, key)));
        let names: Vec<&str> = names.collect();
        calls.add(&names, None, |name| cell(estimate(&result.measures, name)));
        for node in &result.nodes {
            nodes.add(&names, several_nodes.then_some(&node.name), |name| {
                cell(estimate(&node.measures, name))
            });
        }
        for source in &result.sources {
            sources.add(&names, Some(&source.name), |name| cell(estimate(&source.measures, name)));
        }
        if let Some(found) = &result.fluid {
            let value =
                |name| found.measures.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
            fluid.add(&names, None, |name| figure(value(name).unwrap_or(f64::NAN)));
        }
    }
    [calls, nodes, sources, fluid].into_iter().filter(|grid| !grid.rows.is_empty()).collect()
}

impl Grid {
    fn new(
        title: &'static str,
        keys: &[String],
        part: Option<&str>,
        columns: &[(&'static str, &str)],
    ) -> Self {
        let names = std::iter::once("mechanism".to_owned())
            .chain(keys.iter().map(|key| short(key).to_owned()))
            .chain(part.map(str::to_owned));
        let mut head: Vec<String> = names.collect();
        let names = head.len();
        head.extend(columns.iter().map(|(_, head)| (*head).to_owned()));
        let measures = columns.iter().map(|(measure, _)| *measure).collect();
        Self { title, head, names, rows: Vec::new(), measures }
    }

    /// Adds a row: its names, the part of the run that it is of, and a cell for each measure.
    fn add(&mut self, names: &[&str], part: Option<&String>, cell: impl Fn(&'static str) -> String) {
        let names = names.iter().map(|name| (*name).to_owned()).chain(part.cloned());
        self.rows.push(names.chain(self.measures.iter().map(|measure| cell(measure))).collect());
    }
}

/// A key without the words that every plan has.
fn short(key: &str) -> &str {
    key.strip_prefix("gate.").unwrap_or(key)
}

/// All tables as text.
pub(super) fn text(report: &Report) -> String {
    let replications = report.plan.seeds;
    let mut text = format!(
        "{}\n{replications} replications; mean ± half the width of its 95 % confidence interval\n",
        report.plan.title
    );
    for grid in grids(report) {
        text.push_str(&format!("\n{}\n", grid.title));
        let lines: Vec<&Vec<String>> = std::iter::once(&grid.head).chain(&grid.rows).collect();
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..grid.head.len()).map(width).collect();
        for line in lines {
            let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                if column < grid.names { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
            text.push('\n');
        }
    }
    text
}

/// A mean with its uncertainty; a dash where nothing was measured.
pub(super) fn cell(estimate: Option<Estimate>) -> String {
    match estimate {
        None => "–".to_owned(),
        Some(Estimate { mean, half_width, .. }) if half_width == 0.0 || half_width.is_infinite() => {
            figure(mean)
        }
        Some(Estimate { mean, half_width, .. }) => format!("{} ± {}", figure(mean), digits(half_width, 2)),
    }
}

/// Five digits that count; a dash for a mean of nothing, such as the delay where nobody was answered.
fn figure(value: f64) -> String {
    if value.is_finite() { digits(value, 5) } else { "–".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::{Report, cell, figure, grids, text};
    use crate::simulate::html::tests::sample;
    use model::simulate::Estimate;

    #[test]
    fn a_mean_is_shown_with_its_uncertainty_or_as_a_dash() {
        assert_eq!((cell(None), figure(f64::NAN)), ("–".to_owned(), "–".to_owned()));
        let one = Estimate { count: 1, mean: 5.0, standard_error: f64::INFINITY, half_width: f64::INFINITY };
        assert_eq!(cell(Some(one)), "5");
        let some = Estimate { count: 9, mean: 5.0, standard_error: 0.01, half_width: 0.0231 };
        assert_eq!(cell(Some(some)), "5 ± 0.023");
    }

    #[test]
    fn calls_of_several_sources_have_their_fairness() {
        let plan = "title = \"two\"\n[run]\nduration_s = 5\ncool_down_s = 0\nseeds = 1\n\
                    [source.a]\nrate_per_s = [10, 20]\nto = \"server\"\n[source.b]\nrate_per_s = 10\nto = \"server\"\n\
                    [node.server]\nrate_per_s = 100\n[mechanism.fifo.gate]\nkind = \"fifo\"\nbuffer = 9\n";
        let plan = model::plan::Plan::parse(plan).expect("a plan");
        let results = model::plan::execute(&plan, 1, |_| {}).expect("results");
        let report = Report { file: "two.toml".into(), plan, results };
        let grids = grids(&report);
        assert_eq!(grids[0].head.last().map(String::as_str), Some("fairness"));
        assert!(
            grids
                .iter()
                .flat_map(|grid| grid.rows.iter().map(|row| (row.len(), grid.head.len())))
                .all(|(a, b)| a == b)
        );
        assert!(crate::simulate::html::page(&report).contains("Jain"));
        assert!(!text(&sample()).contains("fairness"));
    }

    #[test]
    fn every_run_has_its_rows_and_every_row_its_columns() {
        let report = sample();
        for grid in grids(&report) {
            assert!(!grid.rows.is_empty(), "{}", grid.title);
            assert!(grid.rows.iter().all(|row| row.len() == grid.head.len()), "{grid:?}");
        }
        let text = text(&report);
        for part in ["small", "mechanism", "buffer", "fifo", "shed", "within T1", "E[R]", "Fluid model"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
