//! The hysteretic gate on the wire beside M|M|1|⟨L,H⟩|B: thresholds of `docs/model.md`, an exponential server, Poisson callers.
//!
//! Requests are OPTIONS: one message each, and a refusal is not acknowledged, so that the number in the system is the
//! model's. What the wire has and the model lacks: the gate learns of a departure when the worker looks (some 50 us after
//! it), and a request that finds the gate's word out of date is judged again by the worker.

use model::hysteresis::Hysteresis;
use overload::Levels;

use super::comparison::{Case, Quantity, Value};
use super::live::{Found, Look, Setup};

/// L, H, B.
const LEVELS: [u32; 3] = [74, 85, 100];
/// q.
const ADMIT: f64 = 0.5;
/// Requests per second: slow enough that 50 us are a twentieth of a service, fast enough for thousands of cycles.
const CAPACITY_PER_S: f64 = 1000.0;
/// The run at load `rho`, `seconds` long after the warm-up.
pub(super) fn setup(rho: f64, seconds: u32, seed: u64) -> Setup {
    let [low, high, buffer] = LEVELS;
    let gate = format!("low = {low}\nhigh = {high}\nbuffer = {buffer}\nadmit = {ADMIT:?}\n");
    Setup::steady(CAPACITY_PER_S, gate, rho, seconds, seed)
}

/// The theory at load `rho`.
///
/// # Errors
/// If `rho` is no load.
pub(super) fn theory(rho: f64) -> anyhow::Result<model::hysteresis::Equilibrium> {
    let [low, high, buffer] = LEVELS;
    let levels = Levels::new(low, high, buffer)?;
    Ok(Hysteresis::new(levels, rho * CAPACITY_PER_S, CAPACITY_PER_S, ADMIT)?.solve())
}

/// What a run found, beside the theory.
///
/// # Errors
/// If `rho` is no load.
pub(super) fn compare(rho: f64, found: &Found) -> anyhow::Result<Case> {
    let theory = theory(rho)?;
    let [p0, p1, _] = theory.states;
    let quantity =
        |name, unit, measured, theory| Quantity { name, unit, measured, theory: Value::plain(theory) };
    let per_return = |x: fn(&Look) -> f64| found.ratio(x, |look| look.gate.returns as f64).scaled(1e3);
    Ok(Case {
        name: format!("load {rho}"),
        quantities: vec![
            quantity("P0", "", found.ratio(|look| look.gate.state_s.normal, Look::seconds), p0),
            quantity("P1", "", found.ratio(|look| look.gate.state_s.overload, Look::seconds), p1),
            quantity("rejected share", "", found.rejected(), theory.rejected),
            quantity(
                "mean return time",
                "ms",
                per_return(|look| look.gate.return_s),
                theory.return_time_s * 1e3,
            ),
            quantity("mean control cycle", "ms", per_return(Look::seconds), theory.cycle_s * 1e3),
            quantity("mean in system", "", found.mean_in_system(), theory.mean_in_system),
        ],
    })
}
