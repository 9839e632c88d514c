//! One live run: an instance with an embedded server, a caller, and a look at the gate at the end of each batch.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use bench::{CallerConfig, Method, Progress, Report};

use super::comparison::Value;
use super::estimate;
use crate::cores;
use crate::demo::instance::{Guarded, Instance};
use crate::demo::plan::{SERVICE, SERVICE_NAME};
use crate::demo::stage::{CLIENT_ADDRESS, Stage};
use crate::status;

/// Between two looks whether somebody wants to stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// A caller that sends later than this (99th percentile) measures itself.
const LATE_US_MAX: u64 = 3_000;

/// What is run.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    /// Requests per second that the embedded server serves, exponentially.
    pub(super) capacity_per_s: f64,
    /// More lines of `[service.demo.embedded]`.
    pub(super) embedded: String,
    /// More lines of `[service.demo]`.
    pub(super) service: String,
    /// Lines of `[service.demo.gate]`.
    pub(super) gate: String,
    /// Whether copies are known without a marker.
    pub(super) transactions: bool,
    /// Frames of the UMEM.
    pub(super) frames: u32,
    /// What the caller offers, for the whole run.
    pub(super) caller: CallerConfig,
    /// Let go by before the first look.
    pub(super) warm_up: Duration,
    /// Between two looks.
    pub(super) batch: Duration,
    /// Looks after the first; 0 for runs that are judged by the caller alone.
    pub(super) batches: u32,
}

/// What was found.
#[derive(Debug)]
pub(super) struct Found {
    /// The gate at the beginning and at the end of each batch.
    pub(super) looks: Vec<Look>,
    /// What the caller saw.
    pub(super) report: Report,
}

/// The gate and the caller's counts at one moment.
#[derive(Debug, Clone)]
pub(super) struct Look {
    pub(super) gate: status::Gate,
    pub(super) offered: u64,
    pub(super) rejected: u64,
}

/// Batches of a run in equilibrium.
const BATCHES: u32 = 20;
/// Until a gate that began empty is in equilibrium.
const WARM_UP: Duration = Duration::from_secs(3);
/// Frames for rings, queues and what is on its way, beside what waits.
const FRAMES: u32 = 8192;

impl Setup {
    /// A run in equilibrium: load `rho` on this gate for `seconds` after the warm-up.
    pub(super) fn steady(capacity_per_s: f64, gate: String, rho: f64, seconds: u32, seed: u64) -> Self {
        let batch = Duration::from_secs(u64::from(seconds)) / BATCHES;
        Self {
            capacity_per_s,
            embedded: String::new(),
            service: String::new(),
            gate,
            transactions: true,
            frames: FRAMES,
            // A little longer than the looks, which then end it.
            caller: Self::caller(rho * capacity_per_s, WARM_UP + batch * (BATCHES + 1), seed),
            warm_up: WARM_UP,
            batch,
            batches: BATCHES,
        }
    }

    /// A caller of OPTIONS: one message a request and no ACK, so that what is at the server is what the model counts.
    pub(super) fn caller(rate_per_s: f64, duration: Duration, seed: u64) -> CallerConfig {
        // Far below 584 years.
        let duration_ns = duration.as_nanos() as u64;
        CallerConfig {
            sources: bench::Sources {
                addresses: vec![CLIENT_ADDRESS.into()],
                sockets: 32,
                ..Default::default()
            },
            mix: bench::Mix { invite: 0.0, register: 0.0, options: 1.0 },
            rate_per_s,
            duration_ns,
            drain_ns: 0,
            // No two requests alike for the table of transactions, whatever the length of the run.
            users: 10_000_000,
            core: cores::available().first().copied(),
            seed,
            ..CallerConfig::new(SERVICE)
        }
    }

    fn configuration(&self, control: &Path) -> String {
        let guarded = Guarded {
            seed: self.caller.seed,
            worker_core: cores::available().last().copied().unwrap_or(0),
            frames: self.frames,
            control,
            transactions: if self.transactions { "" } else { "memory_mib = 0\n" },
            service: &self.service,
            embedded: &format!("capacity = {:?}\n{}", self.capacity_per_s, self.embedded),
            gate: &self.gate,
        };
        guarded.configuration()
    }

    /// Does the run.
    ///
    /// # Errors
    /// When a part does not start or ends early, on a stop signal, and when the caller was late.
    pub(super) fn run(&self, stage: &Stage, stop: &AtomicBool) -> anyhow::Result<Found> {
        let mut instance = Instance::start(stage, |control| self.configuration(control))?;
        instance.wait_ready(stop)?;
        let progress = Progress::default();
        let halt = AtomicBool::new(false);
        let (report, looks) = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new()
                .name("caller".into())
                .spawn_scoped(scope, || {
                    stage.client.enter()?;
                    bench::run(&self.caller, &halt, &progress).context("the caller")
                })
                .context("cannot start the caller's thread")?;
            let looked = self.watch(&mut instance, &progress, stop, &|| thread.is_finished());
            if looked.is_err() || self.batches > 0 {
                halt.store(true, Ordering::Relaxed);
            }
            let Ok(report) = thread.join() else { bail!("the caller panicked; its message stands above") };
            Ok::<_, anyhow::Error>((report?, looked?))
        })?;
        instance.stop()?;
        let late_us = report.send_lateness.p99_us;
        anyhow::ensure!(
            late_us <= LATE_US_MAX,
            "the caller sent {late_us} us late (99th percentile), so the arrivals were not those of the model; run it on a quiet machine"
        );
        Ok(Found { looks, report })
    }

    fn watch(
        &self,
        instance: &mut Instance,
        progress: &Progress,
        stop: &AtomicBool,
        is_over: &dyn Fn() -> bool,
    ) -> anyhow::Result<Vec<Look>> {
        let started = Instant::now();
        let mut looks = Vec::new();
        while !is_over() {
            if stop.load(Ordering::Relaxed) {
                return Err(anyhow!("interrupted"));
            }
            instance.check_alive()?;
            if started.elapsed() >= self.warm_up + self.batch * looks.len() as u32 && self.batches > 0 {
                looks.push(look(instance, progress)?);
                if looks.len() > self.batches as usize {
                    return Ok(looks);
                }
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        anyhow::ensure!(looks.len() as u32 >= self.batches, "the caller ended before the last batch");
        Ok(looks)
    }
}

fn look(instance: &Instance, progress: &Progress) -> anyhow::Result<Look> {
    let status = instance.status()?;
    let service = status.services.get(SERVICE_NAME).context("the status lacks the service")?;
    Ok(Look {
        gate: service.gate.clone(),
        offered: progress.offered.load(Ordering::Relaxed),
        rejected: progress.rejected.load(Ordering::Relaxed),
    })
}

impl Look {
    /// All time of the gate.
    pub(super) fn seconds(&self) -> f64 {
        let times = self.gate.state_s;
        times.normal + times.overload + times.discard
    }
}

impl Found {
    /// The ratio of what grew, batch by batch.
    pub(super) fn ratio(&self, x: fn(&Look) -> f64, y: fn(&Look) -> f64) -> Value {
        let batches = self.looks.iter().zip(self.looks.iter().skip(1));
        let differences: Vec<_> = batches.map(|(from, to)| (x(to) - x(from), y(to) - y(from))).collect();
        estimate::ratio(&differences)
    }

    /// The share of requests that got a 503.
    pub(super) fn rejected(&self) -> Value {
        self.ratio(|look| look.rejected as f64, |look| look.offered as f64)
    }

    /// E\[N\].
    pub(super) fn mean_in_system(&self) -> Value {
        self.ratio(|look| look.gate.in_system_s, Look::seconds)
    }

    /// The caller's counts over the whole run.
    ///
    /// # Errors
    /// If it offered nothing.
    pub(super) fn options(&self) -> anyhow::Result<&bench::MethodCounts> {
        Ok(&self.report.of(Method::Options).context("the caller offered nothing")?.total)
    }
}
