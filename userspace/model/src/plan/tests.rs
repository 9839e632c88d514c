//! Plans are read, refused with the key, and run.

use super::{Plan, execute};
use crate::simulate::State;

const SMALL: &str = r#"
title = "small"
[run]
duration_s = 20
cool_down_s = 0
seeds = 3
sample_s = 1
fluid = true
[source.callers]
rate_per_s = [50, 200]
to = "server"
[node.server]
rate_per_s = 100
[mechanism.fifo.gate]
kind = "fifo"
buffer = "100..1000 times 10"
[mechanism.shed.gate]
kind = "hysteretic"
low = 10
high = 20
buffer = 30
admit = 0.5
"#;

#[test]
fn every_mechanism_is_run_with_every_choice_of_values() {
    let plan = Plan::parse(SMALL).unwrap();
    let runs: Vec<_> = plan.runs.iter().map(|run| (run.mechanism.as_str(), run.parameters.clone())).collect();
    let rate = |value: &str| ("source.callers.rate_per_s".to_owned(), value.to_owned());
    let buffer = |value: &str| ("gate.buffer".to_owned(), value.to_owned());
    assert_eq!(
        runs,
        [
            ("fifo", vec![rate("50"), buffer("100")]),
            ("fifo", vec![rate("50"), buffer("1000")]),
            ("fifo", vec![rate("200"), buffer("100")]),
            ("fifo", vec![rate("200"), buffer("1000")]),
            ("shed", vec![rate("50")]),
            ("shed", vec![rate("200")]),
        ]
    );
}

#[test]
fn results_have_the_measures_with_their_spread_and_the_fluid_model_where_it_knows_the_gate() {
    let plan = Plan::parse(SMALL).unwrap();
    let seen = std::sync::Mutex::new(Vec::new());
    let results =
        execute(&plan, 2, |progress| seen.lock().unwrap().push((progress.done, progress.all))).unwrap();
    assert_eq!(results.len(), plan.runs.len());
    assert_eq!(seen.into_inner().unwrap().last(), Some(&(18, 18)));
    for result in &results {
        let of = |name: &str| result.measures.iter().find(|(found, _)| *found == name).map(|(_, e)| *e);
        let offered = of("offered_per_s").unwrap();
        let expected: f64 = result.parameters[0].1.parse().unwrap();
        assert!((offered.mean - expected).abs() < 6.0 * offered.standard_error, "{offered:?}");
        assert_eq!(offered.count, 3);
        assert_eq!(result.samples.len(), 20);
        assert_eq!(result.fluid.is_some(), result.mechanism == "fifo");
        assert!(result.sources.is_empty() && result.nodes[0].name == "server");
    }
    let line = &results[3].fluid.as_ref().unwrap().line;
    assert_eq!(line.len(), 20);
}

#[track_caller]
fn assert_refused(from: &str, to: &str, expected: &str) {
    assert!(SMALL.contains(from), "{from}");
    let error = Plan::parse(&SMALL.replacen(from, to, 1)).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_wrong_plan_gets_one_message_with_key_and_range() {
    for (from, to, expected) in [
        ("title", "titel", "titel: unknown field `titel`, expected one of `title`, `about`"),
        ("duration_s = 20", "duration_s = -20", "run.duration_s: -20 is out of range; give seconds from 0"),
        ("duration_s = 20", "duration_s = 0", "duration_s is 0; it must be above warm_up_s"),
        ("seeds = 3", "seeds = 0", "run.seeds: 0 is out of range; give 1 to"),
        ("seeds = 3", "seed = 3", "run.seed: unknown field `seed`"),
        ("sample_s = 1", "sample_s = 0", "sample_s is 0; it must be above 0"),
        (
            "[50, 200]",
            "-5",
            "source.callers.rate_per_s is -5 per second; a rate is 0 or a number above 0 (between 1e-9 and 1e9)",
        ),
        ("[50, 200]", "\"fast\"", "source.callers.rate_per_s: \"fast\" is no rate"),
        ("[50, 200]", "\"mmpp 1:1, 2\"", "is no rate"),
        ("[50, 200]", "\"5..2 step 1\"", "source.callers.rate_per_s: \"5..2 step 1\" is no range"),
        (
            "to = \"server\"",
            "to = \"servers\"",
            "source.callers.to: there is no node \"servers\"; there are server",
        ),
        ("to = \"server\"", "to = { server = 0.5 }", "source.callers.to has shares that add up to 0.5"),
        ("to = \"server\"", "to = 5", "source.callers.to: a node such as"),
        ("to = \"server\"", "to = \"server\"\ncv2 = 2", "source.callers.cv2: only law = \"gamma\" has it"),
        ("to = \"server\"", "to = \"server\"\nhop_ms = -1", "source.callers.hop_ms: -1 is out of range"),
        ("rate_per_s = 100", "rate_per_s = 100\nlaw = \"gamma\"\ncv2 = 0", "node.server.cv2 is 0"),
        (
            "rate_per_s = 100",
            "rate_per_s = 100\nlaw = \"weibull\"",
            "node.server.law: unknown variant `weibull`",
        ),
        ("rate_per_s = 100", "speed = 100", "node.server.speed: unknown field `speed`"),
        ("kind = \"fifo\"", "kind = \"lifo\"", "mechanism.fifo.gate.kind: unknown variant `lifo`"),
        ("\"100..1000 times 10\"", "0", "buffer is 0; it must be above 0"),
        ("\"100..1000 times 10\"", "\"350ms\"", "mechanism.fifo.room: missing; with a buffer in time"),
        ("\"100..1000 times 10\"", "-1", "mechanism.fifo.gate.buffer: invalid value"),
        ("low = 10\n", "", "mechanism.shed.gate.low: missing; the gate hysteretic needs it"),
        ("low = 10", "low = 25", "low = 25 must be at most high = 20"),
        ("admit = 0.5", "admit = 1.6", "admit = 1.6 is no share; it must be between 0 and 1"),
        (
            "kind = \"hysteretic\"",
            "kind = \"tail_drop\"",
            "mechanism.shed.gate.low: the gate tail_drop does not have it; remove it",
        ),
        ("admit = 0.5", "weight = 0.5", "mechanism.shed.gate.weight: the gate hysteretic does not have it"),
        (
            "kind = \"hysteretic\"\nlow = 10\nhigh = 20\nbuffer = 30\nadmit = 0.5",
            "kind = \"random\"\nlow = 10\nhigh = 20\nbuffer = 30\nweight = 0.5\ninitial_probability = 1.6",
            "initial_probability = 1.6 is no probability",
        ),
        ("[node.server]", "[nodes.server]", "nodes: unknown field `nodes`"),
        (
            "[mechanism.shed.gate]",
            "[mechanism.shed.control]\nkind = \"x\"\n[mechanism.shed.gate]",
            "unknown variant `x`",
        ),
        ("[run]", "[run", "no TOML in line 3: "),
    ] {
        assert_refused(from, to, expected);
    }
    let error = Plan::parse("title = \"empty\"").unwrap_err().to_string();
    assert!(error.contains("missing; a plan has at least one ["), "{error}");
}

/// Values that a slip of the pen or of a script may leave anywhere.
const HOSTILE: [&str; 34] = [
    "0",
    "-1",
    "nan",
    "inf",
    "-inf",
    "1e300",
    "1e-300",
    "1e9",
    "1e12",
    "9223372036854775807",
    "4294967295",
    "1e-9",
    "0.5",
    "1.6",
    "\"\"",
    "\"x\"",
    "true",
    "[]",
    "{ }",
    "[[1, 2], [3]]",
    "\"1..1e9 step 1\"",
    "\"1..1e300 times 1.0000001\"",
    "\"nan..5 step 1\"",
    "\"mmpp 1:1e-12, 1:1\"",
    "\"mmpp 1e300:1\"",
    "\"mmpp 0:1\"",
    "\"mmpp 0:1e-9\"",
    "\"mmpp nan:1\"",
    "\"steps 0:1e300\"",
    "\"steps 0:1, 1e300:5\"",
    "\"steps nan:1\"",
    "\"999999999999999999999s\"",
    "\"0ms\"",
    "\"350ms\"",
];

#[test]
fn no_value_of_any_key_hangs_a_plan_fills_the_memory_or_makes_nonsense() {
    for plan in [SMALL, CONTROLLED] {
        let (mut refused, mut run) = (0, 0);
        for (number, line) in plan.lines().enumerate() {
            let Some((key, _)) = line.split_once(" = ") else { continue };
            for value in HOSTILE {
                let lines = plan.lines().enumerate();
                let changed: Vec<String> = lines
                    .map(
                        |(other, text)| {
                            if other == number { format!("{key} = {value}") } else { text.to_owned() }
                        },
                    )
                    .collect();
                let what = format!("{key} = {value}");
                match Plan::parse(&changed.join("\n")) {
                    Err(error) => {
                        refused += 1;
                        let said = error.to_string();
                        assert!(!said.is_empty() && said.len() < 600, "{what}: {said}");
                    }
                    Ok(mut plan) => {
                        plan.seeds = 1;
                        // What takes long by its own wish is not waited for.
                        plan.runs.retain(|run| run.scenario.events() < 1e6);
                        plan.runs.truncate(2);
                        for result in execute(&plan, 1, |_| {}).unwrap() {
                            run += 1;
                            for (name, estimate) in &result.measures {
                                assert!(
                                    estimate.mean >= 0.0 && estimate.mean.is_finite(),
                                    "{what}: {name} {estimate:?}"
                                );
                            }
                        }
                    }
                }
            }
        }
        assert!(refused > 100 && run > 50, "{refused} refused, {run} run");
    }
}

#[test]
fn lists_that_multiply_and_seeds_that_take_days_are_refused_before_they_are_made() {
    let choices = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]";
    let many = SMALL
        .replace("[50, 200]", choices)
        .replace("rate_per_s = 100", &format!("rate_per_s = {choices}"))
        .replace("\"100..1000 times 10\"", "\"1..50 step 1\"");
    let error = Plan::parse(&many).unwrap_err().to_string();
    assert!(error.contains("mechanism.fifo: the lists of the plan make 20000 runs"), "{error}");

    let plan = Plan::parse(SMALL).unwrap();
    assert_eq!(plan.clone().with_seeds(5).unwrap().seeds, 5);
    assert!(plan.clone().with_seeds(0).is_err());
    let days = SMALL.replace("duration_s = 20", "duration_s = 30000000");
    let days = days.replace("sample_s = 1\n", "").replace("seeds = 3", "seeds = 30");
    let error = Plan::parse(&days).unwrap_err().to_string();
    assert!(error.contains("run.seeds: 30 replications of 6 runs come to about"), "{error}");
}

/// Every plan of the repository, by name.
fn plans() -> Vec<(String, Plan)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("plans");
    let mut plans: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let plan = Plan::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, plan)
        })
        .collect();
    plans.sort_by(|a, b| a.0.cmp(&b.0));
    plans
}

#[test]
fn every_plan_of_the_repository_is_read_and_runs() {
    let plans = plans();
    let names: Vec<&str> = plans.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "distributed",
            "distributed_step",
            "hysteresis",
            "network",
            "random",
            "s1",
            "s2",
            "steady",
            "tandem",
            "y1"
        ]
    );
    for (name, mut plan) in plans {
        plan.seeds = 1;
        for run in &mut plan.runs {
            run.scenario.duration_ns = 2_000_000_000;
            run.scenario.cool_down_ns = 0;
            run.scenario.warm_up_ns = 0;
        }
        for result in execute(&plan, 2, |_| {}).unwrap() {
            assert!(!result.measures.is_empty(), "{name}");
            assert_eq!(result.measures[0].0, "offered_per_s");
            assert!(result.measures[0].1.mean > 0.0, "{name}");
        }
    }
}

/// A network of an edge and a core, both controls of RFC wired as they must be.
const CONTROLLED: &str = r#"
title = "controlled"
[run]
duration_s = 5
cool_down_s = 0
seeds = 1
[source.callers]
rate_per_s = 50
to = "edge"
[node.edge]
rate_per_s = 1000
state = "stateful"
to = "core"
controlled = true
own.gate = { kind = "fifo", buffer = 100 }
[node.core]
rate_per_s = 100
[mechanism.deoc]
gate = { kind = "random", low = 10, high = 20, buffer = 30, weight = 0.5, initial_probability = 0.1 }
control = { kind = "deoc", refusals = 0.1, adaptive = { period_ms = 100, exponent = 0.5 } }
[mechanism.peoc]
gate = { kind = "tail_drop", buffer = 30 }
control = { kind = "peoc", probe_period_ms = 50, idle_delay_ms = 10, load = 0.8 }
[mechanism.loss]
gate = { kind = "hysteretic", low = 10, high = 20, buffer = 30, admit = 0.5 }
control = { kind = "loss" }
announces = { algorithm = "loss", validity_ms = 500 }
[mechanism.rate]
gate = { kind = "tail_drop", buffer = 30 }
control = { kind = "rate", tolerance = 4 }
announces = { algorithm = "rate", validity_ms = 500, load = 0.9, wait_ms = 20, horizon_ms = 300 }
"#;

#[test]
fn every_control_is_read_and_refused_with_the_key() {
    let plan = Plan::parse(CONTROLLED).unwrap();
    assert!(
        plan.runs.iter().all(|run| run.scenario.nodes[1].controller.is_some()),
        "nodes are sorted by name"
    );
    assert_eq!(execute(&plan, 1, |_| {}).unwrap().len(), 4);
    for (from, to, expected) in [
        ("refusals = 0.1", "refusals = 1", "mechanism.deoc.control: cannot be: refusals = 1 is out of range"),
        ("period_ms = 100", "period_ms = 0", "mechanism.deoc.control: cannot be: period_ns is 0"),
        (
            "period_ms = 100",
            "period_ms = -1",
            "mechanism.deoc.control.adaptive.period_ms: -1 is out of range",
        ),
        ("exponent = 0.5", "beta = 0.5", "unknown field `beta`"),
        ("initial_probability = 0.1", "initial_probability = 1.6", "1.6 is no probability"),
        ("weight = 0.5, ", "", "mechanism.deoc.gate.weight: missing; the gate random needs it"),
        ("idle_delay_ms = 10", "idle_delay_ms = 0", "mechanism.peoc.control: cannot be: idle_delay_ns is 0"),
        ("tolerance = 4", "tolerance = -4", "mechanism.rate.control: cannot be: tolerances = -4"),
        ("load = 0.9", "load = 0", "cannot be: load = 0 is out of range"),
        ("algorithm = \"loss\"", "algorithm = \"lost\"", "unknown variant `lost`"),
        ("announces = { algorithm = \"loss\", validity_ms = 500 }", "", "add mechanism.loss.announces = "),
    ] {
        assert!(CONTROLLED.contains(from), "{from}");
        let error = Plan::parse(&CONTROLLED.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn the_network_plan_has_three_edges_and_two_cores() {
    let (_, plan) = plans().into_iter().find(|(name, _)| name == "network").unwrap();
    for run in &plan.runs {
        let edges = run.scenario.nodes.iter().filter(|node| node.state == State::Stateful).count();
        let cores = run.scenario.nodes.iter().filter(|node| node.routes.is_empty()).count();
        assert_eq!((edges, cores, run.scenario.sources.len()), (3, 2, 3));
    }
}
