//! What the literature says of control at the edges, held against the plans `distributed` and `distributed_step`.
//!
//! Sources: Hilt and Widjaja (ICNP 2008) and RFC 6357: refusals by the overloaded server alone end in collapse; RFC 7339
//! section 7 and RFC 7415 section 1: a share follows the offered load, a rate bounds it; DEOC (Computer Networks 2012), PEOC
//! (JNCA 2014). Capacity: two cores of 150 a second. Figures are means over three seeds; the gaps are far wider than
//! their spread.

use model::plan::{Estimates, Plan, RunResult, execute};

const CAPACITY_PER_S: f64 = 300.0;

/// The runs of a plan, those with this rate of the callers of edge1 where the plan has several.
fn results(plan: &str, rate_per_s: Option<&str>) -> Vec<RunResult> {
    let path = format!("{}/plans/{plan}.toml", env!("CARGO_MANIFEST_DIR"));
    let mut plan = Plan::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    plan.seeds = 3;
    plan.runs
        .retain(|run| rate_per_s.is_none_or(|rate| run.parameters.iter().any(|(_, value)| value == rate)));
    execute(&plan, 2, |_| {}).unwrap()
}

fn of(estimates: &Estimates, measure: &str) -> f64 {
    estimates.iter().find(|(name, _)| *name == measure).unwrap_or_else(|| panic!("{measure}")).1.mean
}

fn run<'a>(results: &'a [RunResult], mechanism: &str) -> &'a RunResult {
    results.iter().find(|result| result.mechanism == mechanism).unwrap()
}

/// A measure of all calls, under each of these mechanisms.
fn calls<const N: usize>(results: &[RunResult], measure: &str, mechanisms: [&str; N]) -> [f64; N] {
    mechanisms.map(|mechanism| of(&run(results, mechanism).measures, measure))
}

/// A measure of the first core.
fn core<const N: usize>(results: &[RunResult], measure: &str, mechanisms: [&str; N]) -> [f64; N] {
    mechanisms.map(|mechanism| {
        let core = run(results, mechanism).nodes.iter().find(|node| node.name == "core1").unwrap();
        of(&core.measures, measure)
    })
}

/// The share of the calls of one source that were answered.
fn answered<const N: usize>(results: &[RunResult], source: &str, mechanisms: [&str; N]) -> [f64; N] {
    mechanisms.map(|mechanism| {
        let source = run(results, mechanism).sources.iter().find(|found| found.name == source).unwrap();
        of(&source.measures, "goodput_per_s") / of(&source.measures, "offered_per_s")
    })
}

#[track_caller]
fn assert_ascends<const N: usize>(what: &str, values: [f64; N]) {
    println!("{what}: {values:.3?}");
    assert!(values.windows(2).all(|pair| pair[0] < pair[1]), "{what}: {values:?}");
}

const EVERY: [&str; 7] = ["none", "local", "deoc", "peoc", "loss", "loss_random", "rate"];
const AT_THE_EDGE: [&str; 5] = ["deoc", "peoc", "loss", "loss_random", "rate"];

#[test]
fn below_capacity_no_control_holds_anybody_back() {
    let results = results("distributed", Some("60"));
    for rejected in calls(&results, "rejected_share", EVERY) {
        assert!(rejected < 0.005, "{rejected}");
    }
    for delay_s in calls(&results, "mean_delay_s", EVERY) {
        assert!(delay_s < 0.06, "{delay_s}");
    }
}

#[test]
fn at_four_times_the_capacity_only_control_at_the_edges_keeps_it() {
    let results = results("distributed", Some("1200"));

    let in_time = calls(&results, "goodput_within_t1_per_s", EVERY);
    println!("in time: {EVERY:?} {in_time:.1?}");
    assert!(in_time[0] < 0.02 * CAPACITY_PER_S && in_time[1] < 0.1 * CAPACITY_PER_S, "{in_time:?}");
    assert!(in_time[2..].iter().all(|per_s| *per_s > 0.8 * CAPACITY_PER_S), "{in_time:?}");
    let [local] = calls(&results, "goodput_per_s", ["local"]);
    assert!(local < 0.5 * CAPACITY_PER_S, "a server that only refuses spends itself on refusals: {local}");

    println!("refused: {EVERY:?} {:.3?}", core(&results, "refused_share", EVERY));
    println!("delay: {EVERY:?} {:.3?}", calls(&results, "mean_delay_s", EVERY));
    // Who is told a rate or looks at delays is stopped before the core has to refuse; who learns from refusals needs some;
    // a share is always of a load that grows with what the edges get.
    assert_ascends("refused", core(&results, "refused_share", ["rate", "peoc", "deoc", "loss", "local"]));
    assert_ascends(
        "delay by probes",
        calls(&results, "mean_delay_s", ["peoc", "deoc", "loss", "local", "none"]),
    );
    assert_ascends(
        "delay by rate",
        calls(&results, "mean_delay_s", ["rate", "deoc", "loss", "local", "none"]),
    );
    assert_ascends("goodput", calls(&results, "goodput_per_s", ["local", "loss", "deoc"]));
    assert_ascends("goodput by rate", calls(&results, "goodput_per_s", ["local", "loss", "rate"]));
}

#[test]
fn a_rate_protects_the_callers_of_a_modest_edge_and_a_share_does_not() {
    let results = results("distributed", Some("1200"));
    // Of 300 a second the modest edges ask for 60 each.
    let modest = answered(&results, "callers2", EVERY);
    println!("answered of the modest: {EVERY:?} {modest:.3?}");
    for (mechanism, share) in EVERY.into_iter().zip(modest) {
        let is_protected = ["deoc", "peoc", "rate"].contains(&mechanism);
        assert!(if is_protected { share > 0.75 } else { share < 0.35 }, "{mechanism}: {share}");
    }
    let [rate, deoc, loss] = calls(&results, "goodput_fairness", ["rate", "deoc", "loss"]);
    assert!(rate > loss + 0.2 && deoc > loss + 0.2, "{rate} {deoc} {loss}");
    let shares = calls(&results, "fairness", ["loss", "rate"]);
    assert!(
        shares[0] > 0.9 && shares[1] < shares[0],
        "a share is fair to requests and not to edges: {shares:?}"
    );
}

#[test]
fn after_a_step_every_control_recovers_and_a_rate_overshoots_least() {
    let results = results("distributed_step", None);
    let in_time = calls(&results, "goodput_within_t1_per_s", AT_THE_EDGE);
    let [none, local] = calls(&results, "goodput_within_t1_per_s", ["none", "local"]);
    println!("in time: none {none:.1}, local {local:.1}, {AT_THE_EDGE:?} {in_time:.1?}");
    assert!(none < local && in_time.iter().all(|per_s| *per_s > 1.4 * local), "{none} {local} {in_time:?}");

    println!("longest line: {EVERY:?} {:.0?}", core(&results, "longest_line", EVERY));
    assert_ascends("longest line", core(&results, "longest_line", ["rate", "deoc", "local", "none"]));
    let [rate, peoc, loss] = core(&results, "longest_line", ["rate", "peoc", "loss"]);
    assert!(rate < 0.7 * peoc && rate < 0.7 * loss, "{rate} {peoc} {loss}");

    // The load ends at 60 s; samples come every 0.2 s.
    for mechanism in EVERY {
        let line = |at_s: f64| run(&results, mechanism).samples[(at_s / 0.2).round() as usize].lines[0];
        let has_recovered = line(64.0) < 20;
        assert_eq!(has_recovered, mechanism != "none", "{mechanism}: {}", line(64.0));
    }
}
