//! One run: an instance, a caller, and somebody who looks at both while they work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use bench::Progress;
use serde::Serialize;

use super::instance::Instance;
use super::plan::{Plan, Run, SERVICE_NAME};
use super::progress::Display;
use super::row::{Curve, Row};
use super::stage::Stage;
use crate::status;

/// Between two looks at the instance. A control cycle of the gate takes some hundreds of milliseconds.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Everything that one run found.
#[derive(Debug)]
pub(super) struct Take {
    pub(super) row: Row,
    pub(super) delays: Curve,
    pub(super) gate: GateSeries,
    /// What the kernel granted.
    pub(super) mode: status::Mode,
}

/// Gate and queue over one run.
#[derive(Debug, Clone, Serialize)]
pub(super) struct GateSeries {
    pub(super) policy: super::plan::Policy,
    pub(super) load: f64,
    pub(super) points: Vec<GatePoint>,
}

/// Gate and queue at one moment.
#[derive(Debug, Clone, Serialize)]
pub(super) struct GatePoint {
    /// Since the first call.
    pub(super) t_s: f64,
    /// `normal`, `overload` or `discard`.
    pub(super) state: String,
    /// Messages waiting in sipweir.
    pub(super) waiting: u64,
    /// Messages at the server.
    pub(super) at_server: u64,
}

/// Does one run.
pub(super) fn take(
    plan: &Plan,
    stage: &Stage,
    run: Run,
    stop: &AtomicBool,
    display: &mut Display,
) -> anyhow::Result<Take> {
    display.starts(run);
    let mut instance = Instance::start(stage, |control| plan.guard_config(run.policy, control))?;
    instance.wait_ready(stop)?;

    let caller = plan.caller(run.load);
    let progress = Progress::default();
    let halt = AtomicBool::new(false);
    let (report, points) = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("caller".into())
            .spawn_scoped(scope, || {
                stage.client.enter()?;
                bench::run(&caller, &halt, &progress).context("the caller")
            })
            .context("cannot start the caller's thread")?;
        let started = Instant::now();
        let mut points = Vec::new();
        let mut looked = Ok(());
        while !thread.is_finished() {
            std::thread::sleep(LOOK_INTERVAL);
            looked = look(&mut instance, started, &mut points).and_then(|()| {
                if stop.load(Ordering::Relaxed) { Err(anyhow!("interrupted")) } else { Ok(()) }
            });
            if looked.is_err() {
                halt.store(true, Ordering::Relaxed);
                break;
            }
            display.tick(run, started.elapsed(), &progress, points.last());
        }
        let Ok(report) = thread.join() else { bail!("the caller panicked; its message stands above") };
        looked?;
        Ok::<_, anyhow::Error>((report?, points))
    })?;

    let status = instance.conserved_status()?;
    instance.stop()?;
    let row = Row::new(run, &report, &status).context("the caller offered no call")?;
    let delays = Curve::new(run, &report);
    Ok(Take {
        row,
        delays,
        gate: GateSeries { policy: run.policy, load: run.load, points },
        mode: status.mode,
    })
}

fn look(instance: &mut Instance, started: Instant, points: &mut Vec<GatePoint>) -> anyhow::Result<()> {
    instance.check_alive()?;
    let status = instance.status()?;
    let Some(service) = status.services.get(SERVICE_NAME) else {
        bail!("the status lacks the demo's service")
    };
    points.push(GatePoint {
        t_s: super::row::rounded(started.elapsed().as_secs_f64(), 3),
        state: service.gate.state.clone(),
        waiting: service.waiting,
        at_server: service.at_server,
    });
    Ok(())
}
