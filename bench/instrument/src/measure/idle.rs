//! What sipweir uses when there is nothing to do.

use std::time::{Duration, Instant};

use super::{Found, Guarded, Room};
use crate::report::{Details, Row};
use crate::scenario::Scenario;
use crate::stage::Wire;
use crate::statistics::Rounds;
use crate::subject::Subject;

/// Several of the worker's heartbeats, of which there is one a second.
const WINDOW: Duration = Duration::from_secs(2);

pub(super) fn measure(room: &Room<'_>, scenario: &Scenario) -> anyhow::Result<Found> {
    let server = room.stuck_server(Wire::Guarded)?;
    let mut subject = Subject::start(&room.stage.server, &scenario.sipweir)?;
    // What the start leaves to be done.
    subject.wait("it sleeps", |account| account.sleeps > 1)?;
    let mut rounds = Rounds::default();
    let mut wakes = 0;
    for _ in 0..room.rounds(scenario) {
        room.go_on()?;
        let (begin, before) = (Instant::now(), subject.usage()?);
        std::thread::sleep(WINDOW);
        let (used, elapsed) = (subject.usage()?.since(&before), begin.elapsed());
        rounds.push(100.0 * used.task_clock_ns as f64 / elapsed.as_nanos() as f64, 100.0);
        wakes += used.wake_ups;
    }
    let mut details = Details::default();
    details.note("wake_ups_per_s", wakes as f64 / (rounds.values.len() as f64 * WINDOW.as_secs_f64()));
    Guarded::end_subject(subject, &mut details, server)?;
    details.rounds("idle_cpu", &rounds);
    Ok(Found { rows: vec![Row::of_rounds("idle_cpu", "% of a core", "one core", &rounds)], details })
}
