//! The random gate on the wire beside its exact chain, with w = 1: each request is judged by the number that it finds.

use model::random::RandomControl;

use super::comparison::{Case, Quantity, Value};
use super::live::{Found, Setup};

/// Tmin and Tmax, for which the models' document has values.
pub(super) const THRESHOLDS: [(u32, u32); 2] = [(25, 80), (15, 100)];
const BUFFER: u32 = 100;
const INITIAL_PROBABILITY: f64 = 0.16;
const RHO: f64 = 1.1;
const CAPACITY_PER_S: f64 = 1000.0;

/// The run between these thresholds.
pub(super) fn setup((low, high): (u32, u32), seconds: u32, seed: u64) -> Setup {
    let gate = format!(
        "kind = \"random\"\nlow = {low}\nhigh = {high}\nbuffer = {BUFFER}\nweight = 1.0\n\
         initial_probability = {INITIAL_PROBABILITY}\n"
    );
    Setup::steady(CAPACITY_PER_S, gate, RHO, seconds, seed)
}

/// What a run found, beside the theory.
///
/// # Errors
/// If the chain refuses the constants of this file.
pub(super) fn compare(thresholds: (u32, u32), found: &Found) -> anyhow::Result<Case> {
    let rates = (RHO * CAPACITY_PER_S, CAPACITY_PER_S);
    let theory = RandomControl::new(rates, thresholds, BUFFER, INITIAL_PROBABILITY)?.solve();
    let quantity =
        |name, measured, theory| Quantity { name, unit: "", measured, theory: Value::plain(theory) };
    Ok(Case {
        name: format!("thresholds {}, {}", thresholds.0, thresholds.1),
        quantities: vec![
            quantity("rejected share", found.rejected(), theory.reject_probability),
            quantity("mean in system", found.mean_in_system(), theory.mean_in_system),
        ],
    })
}
