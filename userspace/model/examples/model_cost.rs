//! What the models cost: `cargo run --release -p sipweir-model --example model_cost`.

use std::time::{Duration, Instant};

use model::hysteresis::{Hysteresis, ModulatedHysteresis};
use model::parameter::levels;
use model::service::ServiceLaw;
use model::thresholds::ThresholdProblem;

const MU: f64 = 200.0;
const REPEATED: usize = 5;

/// The median of some runs.
fn cost(what: &str, run: &dyn Fn() -> f64) -> Result<(), String> {
    let mut times = [Duration::ZERO; REPEATED];
    for time in &mut times {
        let start = Instant::now();
        let result = run();
        *time = start.elapsed();
        if result.is_nan() {
            return Err(format!("{what}: no result"));
        }
    }
    times.sort_unstable();
    println!("{:9.2} ms  {what}", times[REPEATED / 2].as_secs_f64() * 1e3);
    Ok(())
}

fn gate(buffer: u32, rho: f64, share: f64) -> Result<Hysteresis, Box<dyn std::error::Error>> {
    let levels = levels(buffer * 74 / 100, buffer * 85 / 100, buffer)?;
    Ok(Hysteresis::new(levels, rho * MU, MU, share)?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for (rho, share) in [(1.2, 0.5), (2.0, 0.5), (0.01, 0.5), (100.0, 0.01), (100.0, 1.0)] {
        let model = gate(100_000, rho, share)?;
        cost(&format!("M|M|1 B = 100,000, ρ = {rho}, q = {share}: equilibrium"), &|| {
            model.solve().mean_wait_s
        })?;
        cost("  and its return time: sd, median, 99 %", &|| model.return_time().p99_s)?;
    }
    for (buffer, law) in [
        (1_000, ServiceLaw::Deterministic),
        (1_000, ServiceLaw::Hyperexponential(10.0)),
        (100_000, ServiceLaw::Deterministic),
    ] {
        let model = gate(buffer, 1.2, 0.5)?;
        model.solve_with_service(law)?;
        cost(&format!("M|G|1 B = {buffer}, {law}"), &|| {
            model.solve_with_service(law).map_or(f64::NAN, |found| found.mean_wait_s)
        })?;
    }
    for buffer in [100, 1_000, 10_000] {
        let levels = levels(buffer * 74 / 100, buffer * 85 / 100, buffer)?;
        let model = ModulatedHysteresis::new(levels, "400:1,80:1".parse()?, MU, 0.5)?;
        cost(&format!("MMPP|M|1 B = {buffer}, two phases"), &|| model.solve().0.mean_wait_s)?;
    }
    for buffer in [100, 1_000, 10_000, 100_000] {
        let problem = ThresholdProblem::new((1.2 * MU, MU), buffer, 0.5, 1e-4, 0.42)?;
        cost(&format!("thresholds B = {buffer}"), &|| {
            problem.solve().map_or(f64::NAN, |found| found.cycle_s)
        })?;
    }
    Ok(())
}
