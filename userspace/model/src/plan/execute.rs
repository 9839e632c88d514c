//! Runs a plan and puts its results together.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::document::{Plan, PlannedRun};
use crate::fluid::{self, Flow, FluidOutcome};
use crate::simulate::{
    Counted, Estimate, Measure, OF_CALLS, OF_NODES, OF_RUNS, Outcome, Sample, ScenarioError, replicate,
};

/// How far a plan has come.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Replications that are done, and all of them.
    pub done: usize,
    /// See `done`.
    pub all: usize,
    /// The run that is at work.
    pub run: &'a PlannedRun,
    /// None of its replications is done yet.
    pub begins: bool,
}

/// Estimates by the names of their measures; measures without a value in any replication are left out.
pub type Estimates = Vec<(&'static str, Estimate)>;

/// One source, where there are several.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceResult {
    /// Its name.
    pub name: String,
    /// Of its calls.
    pub measures: Estimates,
}

/// One node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeResult {
    /// Its name.
    pub name: String,
    /// What it did.
    pub measures: Estimates,
}

/// What the fluid model says of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct FluidResult {
    /// Its numbers, by the names of the measures that they correspond to.
    pub measures: Vec<(&'static str, f64)>,
    /// Seconds and waiting messages of all servers together, as often as the plan samples.
    pub line: Vec<(f64, f64)>,
}

/// One run of a plan with all its replications.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// The mechanism's name.
    pub mechanism: String,
    /// The values chosen from lists and ranges, by key.
    pub parameters: Vec<(String, String)>,
    /// Of all calls and of the run.
    pub measures: Estimates,
    /// By source, if there are several.
    pub sources: Vec<SourceResult>,
    /// By node.
    pub nodes: Vec<NodeResult>,
    /// The lines over time in the first replication.
    pub samples: Vec<Sample>,
    /// The fluid model beside it, if the plan asks for it and it knows the scenario.
    pub fluid: Option<FluidResult>,
}

/// Runs a plan on `threads` threads. `progress` is called before the first and after each replication.
///
/// # Errors
/// None for a plan that was read by [`Plan::parse`], which checks every scenario.
pub fn execute(
    plan: &Plan,
    threads: usize,
    progress: impl Fn(Progress<'_>) + Sync,
) -> Result<Vec<RunResult>, ScenarioError> {
    let all = plan.seeds * plan.runs.len();
    let done = AtomicUsize::new(0);
    let mut results = Vec::with_capacity(plan.runs.len());
    for run in &plan.runs {
        let show = |done, begins| progress(Progress { done, all, run, begins });
        show(done.load(Ordering::Relaxed), true);
        let outcomes = replicate(&run.scenario, plan.seeds, threads, || {
            show(1 + done.fetch_add(1, Ordering::Relaxed), false);
        })?;
        results.push(result(run, &outcomes, plan.fluid));
    }
    Ok(results)
}

fn result(run: &PlannedRun, outcomes: &[Outcome], fluid: bool) -> RunResult {
    let counted = |pick: &dyn Fn(&Outcome) -> crate::simulate::Calls| -> Vec<Counted> {
        let time_s = |outcome: &Outcome| outcome.counted_ns as f64 / 1e9;
        outcomes.iter().map(|outcome| Counted { calls: pick(outcome), time_s: time_s(outcome) }).collect()
    };
    let mut measures = estimates(&OF_CALLS, &counted(&Outcome::calls));
    measures.extend(estimates(&OF_RUNS, outcomes));
    let sources = run.scenario.sources.iter().enumerate().map(|(index, source)| SourceResult {
        name: source.name.clone(),
        measures: estimates(&OF_CALLS, &counted(&|outcome| outcome.sources[index])),
    });
    let nodes = run.scenario.nodes.iter().enumerate().map(|(index, node)| NodeResult {
        name: node.name.clone(),
        measures: estimates(
            &OF_NODES,
            &outcomes.iter().map(|outcome| outcome.nodes[index]).collect::<Vec<_>>(),
        ),
    });
    RunResult {
        mechanism: run.mechanism.clone(),
        parameters: run.parameters.clone(),
        measures,
        sources: if run.scenario.sources.len() > 1 { sources.collect() } else { Vec::new() },
        nodes: nodes.collect(),
        samples: outcomes.first().map(|outcome| outcome.samples.clone()).unwrap_or_default(),
        fluid: fluid.then(|| fluid_result(run)).flatten(),
    }
}

fn estimates<T>(measures: &[Measure<T>], values: &[T]) -> Estimates {
    let estimate = |measure: &Measure<T>| Some((measure.name, Estimate::of(values.iter().map(measure.of))?));
    measures.iter().filter_map(estimate).collect()
}

fn fluid_result(run: &PlannedRun) -> Option<FluidResult> {
    let flow = Flow::of(&run.scenario).ok()?;
    let FluidOutcome { copies_per_call, mean_delay_s, peak_lines, final_lines, failed_share, series } =
        fluid::solve(&flow);
    let every =
        run.scenario.sample_ns.map_or(usize::MAX, |sample_ns| (sample_ns / fluid::SLOT_NS).max(1) as usize);
    let line = series.iter().step_by(every).map(|point| (point.at_s, point.lines.iter().sum())).collect();
    let measures = vec![
        ("copies_per_call", copies_per_call),
        ("mean_delay_with_late_s", mean_delay_s),
        ("failed_share", failed_share),
        ("longest_line", peak_lines.iter().copied().fold(0.0, f64::max)),
        ("final_line", final_lines.iter().sum()),
    ];
    Some(FluidResult { measures, line })
}
