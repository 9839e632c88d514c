//! What one core of this machine can do as a caller: two runs on loopback with their tables.

use std::fmt::Write;
use std::sync::atomic::AtomicBool;

use crate::answerer::{Answerer, AnswererConfig};
use crate::clock::SECOND_NS;
use crate::config::{CallerConfig, Hold, Mix};
use crate::error::Error;
use crate::run::{Progress, run};

/// What the caller is meant to sustain on one core.
const GOAL_PER_S: f64 = 100_000.0;

/// Runs both and returns what to print, and whether both reached the goal.
///
/// # Errors
/// As [`run`] and [`Answerer::start`].
pub fn self_test(core: Option<usize>) -> Result<(String, bool), Error> {
    let bind = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let mut text = String::new();
    let mut reached = true;
    let calls = CallerConfig {
        rate_per_s: 40_000.0,
        duration_ns: 8 * SECOND_NS,
        warm_up_ns: SECOND_NS,
        hold: Hold { mean_ns: SECOND_NS / 2, exponential: true },
        ..CallerConfig::default()
    };
    // T1 = 200 ms: a failing call lives 12.8 s and sends 7 datagrams, so 16,000 calls/s keep 205,000 alive.
    let silence = CallerConfig {
        rate_per_s: 16_000.0,
        mix: Mix::default(),
        t1_ns: 200_000_000,
        t2_ns: 1_600_000_000,
        duration_ns: 18 * SECOND_NS,
        drain_ns: 0,
        max_live_calls: 500_000,
        ..CallerConfig::default()
    };
    let answering = AnswererConfig::new(bind);
    let silent = AnswererConfig { silent: true, ..answering.clone() };
    let runs = [
        ("40,000 calls/s, answered at once: INVITE, ACK, BYE out; 200, 200 in", calls, answering),
        ("16,000 calls/s into silence: 205,000 live calls and their copies", silence, silent),
    ];
    for (title, config, answerer) in runs {
        let answerer = Answerer::start(&answerer)?;
        let config = CallerConfig { target: answerer.address(), core, ..config };
        let report = run(&config, &AtomicBool::new(false), &Progress::default())?;
        // The last full second of starts: steady state in both runs.
        let bins_per_s = (SECOND_NS / config.series_interval_ns) as usize;
        let last = (config.duration_ns / config.series_interval_ns) as usize;
        let sent: u32 = report.series.bins[last - bins_per_s..last].iter().map(|bin| bin.sent).sum();
        let received: u32 = report.series.bins[last - bins_per_s..last].iter().map(|bin| bin.received).sum();
        reached &= f64::from(sent) >= GOAL_PER_S;
        let counts = answerer.stop();
        // Writing to a String cannot fail.
        writeln!(text, "== {title}\n{report}server: {counts:?}").unwrap_or_default();
        writeln!(
            text,
            "=> {sent} datagrams/s sent and {received} received in the last second (goal {GOAL_PER_S})\n"
        )
        .unwrap_or_default();
    }
    Ok((text, reached))
}
