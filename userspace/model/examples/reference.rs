//! The plans Y1 and steady at their full length and with all their seeds, against the values of the models' document.
//!
//! `cargo xtask reference` runs this program, which takes minutes of each core; it ends with a panic that names the first value that is
//! not met. What the tests run of the same scenarios stands in `src/simulate/tests/retransmission.rs`.

use model::plan::{Plan, RunResult, execute};
use model::simulate::Estimate;

fn main() {
    hold_y1();
    hold_steady_overload();
    println!("every value is met");
}

/// All runs of a plan, as it stands in the repository.
fn results(plan: &str) -> Vec<RunResult> {
    let path = format!("{}/plans/{plan}.toml", env!("CARGO_MANIFEST_DIR"));
    let plan = Plan::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(plan.seeds, 10);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    execute(&plan, threads, |_| {}).unwrap()
}

/// A measure of the run of a mechanism with these values.
fn of(results: &[RunResult], mechanism: &str, values: &[&str], measure: &str) -> Estimate {
    let chosen = |result: &&RunResult| {
        result.mechanism == mechanism
            && values.iter().all(|value| result.parameters.iter().any(|(_, found)| found == value))
    };
    let run = results.iter().find(chosen).unwrap_or_else(|| panic!("{mechanism} {values:?}"));
    run.measures.iter().find(|(name, _)| *name == measure).unwrap_or_else(|| panic!("{measure}")).1
}

/// The rule for simulated values: within 4 standard errors plus 2 %. The reference is simulated as well, so the error is that of
/// a difference: the root of the squares of what was found and of what is printed. Where none is printed it is taken to be that
/// which was found, as of as many seeds.
#[track_caller]
fn assert_near(what: &str, found: Estimate, expected: f64, printed_error: Option<f64>) {
    let error = found.standard_error.hypot(printed_error.unwrap_or(found.standard_error));
    let tolerance = 4.0_f64.mul_add(error, 0.02 * expected);
    println!("{what}: {:.5} ± {:.5}, reference {expected}", found.mean, found.standard_error);
    assert!((found.mean - expected).abs() <= tolerance, "{what}: {found:?}, reference {expected}");
}

/// 2000 s with ten seeds.
fn hold_y1() {
    let results = results("y1");
    for (buffer, fifo_failed, fifo_delay_s, priority_failed, priority_delay_s) in [
        ("1000", (0.0311, 0.0007), (2.69, 0.03), (5e-5, 3e-5), (0.197, 0.007)),
        ("5000", (0.183, 0.001), (8.61, 0.02), (0.0, 0.0), (0.195, 0.005)),
        ("200000", (0.982, 0.002), (177.1, 0.5), (0.0, 0.0), (0.188, 0.005)),
    ] {
        let near = |mechanism: &str, measure: &str, (expected, error): (f64, f64)| {
            let found = of(&results, mechanism, &[buffer], measure);
            assert_near(&format!("{mechanism} {buffer} {measure}"), found, expected, Some(error));
        };
        near("fifo", "failed_share", fifo_failed);
        near("fifo", "mean_delay_with_late_s", fifo_delay_s);
        near("priority", "failed_share", priority_failed);
        near("priority", "mean_delay_s", priority_delay_s);
    }
}

/// 400 s at five loads with ten seeds.
fn hold_steady_overload() {
    let results = results("steady");
    for (mechanism, values, answered, within_t1) in [
        ("fifo", &["2000", "500"][..], 958.0, 102.0),
        ("fifo", &["2000", "20000"], 667.0, 3.0),
        ("priority", &["2000"], 1001.0, 500.0),
        ("hysteretic", &["2000"], 1005.0, 1005.0),
    ] {
        let near = |measure: &str, expected: f64| {
            let found = of(&results, mechanism, values, measure);
            assert_near(&format!("{mechanism} {values:?} {measure}"), found, expected, None);
        };
        near("goodput_per_s", answered);
        near("goodput_within_t1_per_s", within_t1);
    }
    let gate = |measure: &str| of(&results, "hysteretic", &["2000"], measure);
    assert_near("rejected", gate("rejected_share"), 0.498, None);
    assert_near("delay", gate("mean_delay_s"), 0.0854, None);
}
