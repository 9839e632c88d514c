//! Two servers, the first of which forwards every message: the client goes on until the second has answered.
//!
//! A message of group τ at the first server leaves it in slots s in shares x_{τ,s}, is accepted by the second with p2(s),
//! and has left that by slot t with share 1 − u2_s(t). So of the messages of group τ the share
//!
//! ```text
//!   a_τ(t) = p1(τ) Σ_s x_{τ,s} p2(s) (1 − u2_s(t))
//! ```
//!
//! has been answered by t, and of the x calls of cohort i, each of whose messages meets its fate on its own,
//! x Π_{j'<j} (1 − a_{i+T_j'}(t)) send copy j at t = i + T_j. Lines are first in, first out, so the first message that is
//! accepted at both servers is the one that answers.

use overload::Discipline;

use super::line::{Leaving, Line};
use super::problem::{Flow, Hop};
use super::{FluidOutcome, FluidPoint, GIVE_UP, SLOT_S, Totals};

/// Originals and copies have lines of their own under priority; under FIFO all are in the first.
const CLASSES: usize = 2;

/// One of the two servers: two lines and p by line and slot.
#[derive(Debug)]
struct Station {
    discipline: Discipline,
    lines: [Line; CLASSES],
    accepted: [Vec<f64>; CLASSES],
    leaving: [Vec<Leaving>; CLASSES],
}

impl Station {
    fn new(hop: &Hop, slots: usize) -> Self {
        let line = || Line::new(hop.buffer, slots);
        Self {
            discipline: hop.discipline,
            lines: [line(), line()],
            accepted: [vec![0.0; slots], vec![0.0; slots]],
            leaving: [Vec::new(), Vec::new()],
        }
    }

    /// The line in which messages of a class wait.
    const fn line_of(&self, class: usize) -> usize {
        match self.discipline {
            Discipline::Fifo => 0,
            Discipline::Priority => class,
        }
    }

    fn length(&self) -> f64 {
        self.lines.iter().map(Line::length).sum()
    }

    /// Takes in and serves one slot's worth, by class.
    fn step(&mut self, slot: usize, arrives: [f64; CLASSES], mut capacity: f64) {
        let arrives = match self.discipline {
            Discipline::Fifo => [arrives.iter().sum(), 0.0],
            Discipline::Priority => arrives,
        };
        for (index, arrives) in arrives.into_iter().enumerate() {
            self.accepted[index][slot] = self.lines[index].accept(slot, arrives, capacity);
            self.leaving[index].clear();
            capacity -= self.lines[index].serve(slot, capacity, &mut self.leaving[index]);
        }
    }
}

/// Where a group of the first server went: slots, and the share that left in each.
type Course = Vec<(usize, f64)>;

#[derive(Debug)]
struct Tandem {
    first: Station,
    second: Station,
    /// By line of the first server and group.
    courses: [Vec<Course>; CLASSES],
    /// By line of the second server and group: groups of the first server in it.
    origins: [Vec<Vec<(usize, usize, f64)>>; CLASSES],
    sends: Vec<usize>,
    /// By line of the first server, slot and class: what arrived.
    sent: Vec<[f64; CLASSES]>,
    totals: Totals,
}

/// Follows a flow through a stateless first server.
pub(super) fn solve(flow: &Flow, first: &Hop, second: &Hop) -> FluidOutcome {
    let slots = flow.slots();
    let mut tandem = Tandem {
        first: Station::new(first, slots),
        second: Station::new(second, slots),
        courses: [vec![Vec::new(); slots], vec![Vec::new(); slots]],
        origins: [vec![Vec::new(); slots], vec![Vec::new(); slots]],
        sends: flow.sends(),
        sent: vec![[0.0; CLASSES]; slots],
        totals: Totals::default(),
    };
    let mut series = Vec::with_capacity(slots);
    for slot in 0..slots {
        let at_s = slot as f64 * SLOT_S;
        let capacity = |hop: &Hop| hop.rate.at(at_s).unwrap_or(0.0) * SLOT_S;
        tandem.step(flow, slot, [capacity(first), capacity(second)]);
        let lines = vec![tandem.first.length(), tandem.second.length()];
        series.push(FluidPoint { at_s: at_s + SLOT_S, lines });
    }
    tandem.totals.outcome(series)
}

impl Tandem {
    fn step(&mut self, flow: &Flow, slot: usize, capacity: [f64; 2]) {
        let calls = flow.calls_in(slot);
        let mut copies = 0.0;
        for copy in 1..self.sends.len() {
            let Some(cohort) = slot.checked_sub(self.sends[copy]) else { break };
            copies += flow.calls_in(cohort) * self.unanswered(cohort, copy, slot);
        }
        self.totals.calls += calls;
        self.totals.copies += copies;
        if let Some(cohort) = slot.checked_sub(GIVE_UP) {
            let calls = flow.calls_in(cohort);
            self.totals.judged += calls;
            self.totals.failed += calls * self.unanswered(cohort, self.sends.len(), slot);
        }
        self.sent[slot] = [calls, copies];
        self.first.step(slot, [calls, copies], capacity[0]);
        let forwarded = self.forward(slot);
        self.second.step(slot, forwarded, capacity[1]);
        self.answer(flow, slot);
    }

    /// a_τ(t) of the messages of a class; t is the end of the slots served so far.
    fn answered(&self, class: usize, group: usize) -> f64 {
        let line = self.first.line_of(class);
        let second = self.second.line_of(class);
        let through = self.courses[line][group].iter().map(|(slot, share)| {
            share * self.second.accepted[second][*slot] * (1.0 - self.second.lines[second].waits(*slot))
        });
        self.first.accepted[line][group] * through.sum::<f64>()
    }

    /// The share of a cohort that none of its first `copies` messages has got an answer for.
    fn unanswered(&self, cohort: usize, copies: usize, now: usize) -> f64 {
        let groups = (0..copies).map(|copy| (copy, cohort + self.sends[copy]));
        let groups = groups.filter(|(_, group)| *group < now);
        groups.map(|(copy, group)| 1.0 - self.answered(copy.min(1), group)).product()
    }

    /// Sends on what has left the first server; returns how much of each class.
    fn forward(&mut self, slot: usize) -> [f64; CLASSES] {
        let mut forwarded = [0.0; CLASSES];
        for line in 0..CLASSES {
            for &Leaving { group, share } in &self.first.leaving[line] {
                self.courses[line][group].push((slot, share));
                for (class, forwarded) in forwarded.iter_mut().enumerate() {
                    if self.first.line_of(class) == line && self.sent[group][class] > 0.0 {
                        *forwarded += self.sent[group][class] * self.first.accepted[line][group] * share;
                        self.origins[self.second.line_of(class)][slot].push((class, group, share));
                    }
                }
            }
        }
        forwarded
    }

    /// Counts what the second server has answered for the first time.
    fn answer(&mut self, flow: &Flow, slot: usize) {
        for line in 0..CLASSES {
            for part in 0..self.second.leaving[line].len() {
                let Leaving { group: middle, share: leaves } = self.second.leaving[line][part];
                let accepted = self.second.accepted[line][middle];
                for origin in 0..self.origins[line][middle].len() {
                    let (class, group, share) = self.origins[line][middle][origin];
                    let part =
                        self.first.accepted[self.first.line_of(class)][group] * share * accepted * leaves;
                    self.answer_group(flow, slot, class, group, part);
                }
            }
        }
    }

    /// Counts the calls of a class and group of which this share is answered now, unless an earlier message was.
    fn answer_group(&mut self, flow: &Flow, slot: usize, class: usize, group: usize, share: f64) {
        let copies = if class == 0 { 0..1 } else { 1..self.sends.len() };
        for copy in copies {
            let Some(cohort) = group.checked_sub(self.sends[copy]) else { break };
            let amount = flow.calls_in(cohort) * self.unanswered(cohort, copy, slot + 1) * share;
            self.totals.answered += amount;
            self.totals.delay_slots += amount * (slot - cohort) as f64;
        }
    }
}
