//! One server and the clients that send to it, by the equations for one server in `fluid`.

use overload::Discipline;

use super::line::{Leaving, Line};
use super::problem::{Flow, Hop};
use super::{Entering, GIVE_UP, SLOT_S};
use crate::simulate::Rate;

/// A server with its clients.
#[derive(Debug)]
pub(super) struct Server {
    discipline: Discipline,
    rate: Rate,
    /// T_j.
    sends: Vec<usize>,
    /// Everything under FIFO, originals under priority.
    first: Line,
    /// Copies under priority.
    second: Line,
    /// By cohort: n at its present j, and w by j.
    unaccepted: Vec<f64>,
    accepted: Vec<Vec<f64>>,
    age: Vec<f64>,
    /// Calls so far, and copies that they sent.
    pub(super) entered: f64,
    pub(super) copies: f64,
    /// Calls of which a message was served, and Σ amount · (slots since the client sent them).
    pub(super) left: f64,
    pub(super) delay_slots: f64,
    /// Calls whose client has had its 32 s while they were here, and those of them that were still here then.
    pub(super) judged: f64,
    pub(super) failed: f64,
    /// By slot: cohorts whose clients give up then, and what they were.
    judgements: Vec<Vec<(usize, f64)>>,
    leaving: Vec<Leaving>,
    due: Vec<Due>,
}

/// A copy that falls due: cohort, j, and the two amounts.
#[derive(Debug, Clone, Copy)]
struct Due {
    cohort: usize,
    copy: usize,
    fresh: f64,
    redundant: f64,
}

impl Server {
    pub(super) fn new(flow: &Flow, hop: &Hop) -> Self {
        let slots = flow.slots();
        let sends = flow.sends();
        Self {
            discipline: hop.discipline,
            rate: hop.rate.clone(),
            first: Line::new(hop.buffer, slots),
            second: Line::new(hop.buffer, slots),
            unaccepted: vec![0.0; slots],
            accepted: vec![vec![0.0; sends.len()]; slots],
            age: vec![0.0; slots],
            sends,
            entered: 0.0,
            copies: 0.0,
            left: 0.0,
            delay_slots: 0.0,
            judged: 0.0,
            failed: 0.0,
            judgements: vec![Vec::new(); slots],
            leaving: Vec::new(),
            due: Vec::new(),
        }
    }

    /// Messages that wait.
    pub(super) fn waiting(&self) -> f64 {
        self.first.length() + self.second.length()
    }

    /// One slot; returns what leaves for the first time.
    pub(super) fn step(&mut self, slot: usize, entering: Entering) -> Entering {
        self.entered += entering.amount;
        self.age[slot] = entering.age;
        self.plan_judgement(slot, entering);
        self.judge(slot);
        self.find_due(slot);
        let copies: f64 = self.due.iter().map(|due| due.fresh + due.redundant).sum();
        self.copies += copies;
        // Rates are 0 where they are not known, which the check of the flow has excluded.
        let capacity = self.rate.at(slot as f64 * SLOT_S).unwrap_or(0.0) * SLOT_S;
        match self.discipline {
            Discipline::Fifo => {
                let share = self.first.accept(slot, entering.amount + copies, capacity);
                self.settle_originals(slot, entering.amount, share);
                self.settle_copies(share);
                self.serve(slot, capacity, false).1
            }
            Discipline::Priority => {
                let share = self.first.accept(slot, entering.amount, capacity);
                self.settle_originals(slot, entering.amount, share);
                let (served, originals) = self.serve(slot, capacity, false);
                let left_over = capacity - served;
                let share = self.second.accept(slot, copies, left_over);
                self.settle_copies(share);
                let (_, others) = self.serve(slot, left_over, true);
                originals.and(others)
            }
        }
    }

    /// Which copies fall due.
    fn find_due(&mut self, slot: usize) {
        self.due.clear();
        for copy in 1..self.sends.len() {
            let Some(cohort) = slot.checked_sub(self.sends[copy]) else { break };
            let (fresh, redundant) = (self.unaccepted[cohort], self.waiting_of(cohort, copy));
            self.due.push(Due { cohort, copy, fresh, redundant });
        }
    }

    /// Σ w u over the first `copies` messages of a cohort: what has been accepted and waits.
    fn waiting_of(&self, cohort: usize, copies: usize) -> f64 {
        let waits = |copy: usize| {
            let group = cohort + self.sends[copy];
            let line =
                if copy > 0 && self.discipline == Discipline::Priority { &self.second } else { &self.first };
            self.accepted[cohort][copy] * line.waits(group)
        };
        (0..copies).map(waits).sum()
    }

    /// Splits the originals of a slot into accepted and dropped.
    fn settle_originals(&mut self, slot: usize, originals: f64, share: f64) {
        self.accepted[slot][0] = originals * share;
        self.unaccepted[slot] = originals - originals * share;
    }

    /// The same for the copies that are due.
    fn settle_copies(&mut self, share: f64) {
        for due in &self.due {
            self.accepted[due.cohort][due.copy] = due.fresh * share;
            self.unaccepted[due.cohort] = due.fresh - due.fresh * share;
        }
    }

    /// Serves a line; returns how much, and what of it leaves for the first time.
    fn serve(&mut self, slot: usize, capacity: f64, copies: bool) -> (f64, Entering) {
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.clear();
        let line = if copies { &mut self.second } else { &mut self.first };
        let served = line.serve(slot, capacity, &mut leaving);
        let kinds = match (self.discipline, copies) {
            (Discipline::Fifo, _) => 0..self.sends.len(),
            (Discipline::Priority, false) => 0..1,
            (Discipline::Priority, true) => 1..self.sends.len(),
        };
        let mut firsts = Entering::NOTHING;
        for part in &leaving {
            for copy in kinds.clone() {
                let Some(cohort) = part.group.checked_sub(self.sends[copy]) else { break };
                let amount = self.accepted[cohort][copy] * part.share;
                let age = self.age[cohort] + (slot - cohort) as f64;
                self.left += amount;
                self.delay_slots += amount * age;
                firsts = firsts.and(Entering { amount, age });
            }
        }
        self.leaving = leaving;
        (served, firsts)
    }

    /// Notes when the clients of a new cohort will give up. Those that have done so already are failed elsewhere.
    fn plan_judgement(&mut self, slot: usize, entering: Entering) {
        let age = entering.age.round() as usize;
        if let Some(patience) = GIVE_UP.checked_sub(age)
            && let Some(list) = self.judgements.get_mut(slot + patience)
        {
            list.push((slot, entering.amount));
        }
    }

    /// Counts the calls whose clients give up now.
    fn judge(&mut self, slot: usize) {
        for (cohort, amount) in std::mem::take(&mut self.judgements[slot]) {
            let sent = self.sends.iter().take_while(|send| cohort + **send < slot).count();
            self.judged += amount;
            self.failed += self.unaccepted[cohort] + self.waiting_of(cohort, sent);
        }
    }
}
