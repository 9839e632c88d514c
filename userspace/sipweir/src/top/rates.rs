//! From two statuses of an instance to what happens a second. Pure: time is the instance's own, its `uptime_s`.

use std::collections::BTreeMap;

use crate::status::{Answers, KernelRow, Service, Sources, StateSeconds, Status};

/// What happens between two looks, and what is at the second.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Rates {
    /// Version of sipweir.
    pub(super) version: String,
    /// The guarded interface.
    pub(super) interface: String,
    /// Seconds since its start.
    pub(super) uptime_s: f64,
    /// Seconds that the rates are of.
    pub(super) span_s: f64,
    /// By name.
    pub(super) services: Vec<ServiceRates>,
    /// In queue order.
    pub(super) workers: Vec<WorkerRates>,
    /// What the XDP program saw, by class and verdict.
    pub(super) kernel: Vec<KernelRate>,
    /// What was lost or dropped beside the services' own, by reason.
    pub(super) losses: Vec<Loss>,
    /// The instance's own estimate.
    pub(super) sources: Sources,
}

/// One service.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ServiceRates {
    /// Its name.
    pub(super) name: String,
    /// `enforce`, `monitor` or `monitor_some`.
    pub(super) mode: String,
    /// State of its gate.
    pub(super) gate: String,
    /// The share of originals that the gate admits, 0 to 1.
    pub(super) admits: f64,
    /// How closed the gate was: 0 normal, 0.5 overload, 1 discard, averaged over the span and the workers.
    pub(super) closed: f64,
    /// Messages waiting, or that would wait where originals are only watched.
    pub(super) waiting: u64,
    /// Messages at the server, by its receive queue.
    pub(super) at_server: u64,
    /// State of the server.
    pub(super) server: String,
    /// Measured service rate.
    pub(super) service_rate_per_s: f64,
    /// What it answers, if that is seen.
    pub(super) answers: Option<AnswerRates>,
    /// Messages by class.
    pub(super) classes: Vec<ClassRates>,
    /// The same at each worker.
    pub(super) workers: Vec<AtWorkerRates>,
    /// What was dropped, and why.
    pub(super) losses: Vec<Loss>,
}

/// Final answers of a server a second: one for each request, while 100 and 180 come before.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct AnswerRates {
    /// All of them.
    pub(super) finals: f64,
    /// Its own refusals with 503.
    pub(super) unavailable: f64,
}

/// One service at one worker.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct AtWorkerRates {
    /// NIC queue.
    pub(super) queue: u32,
    /// State of the gate there.
    pub(super) gate: String,
    /// Messages waiting there.
    pub(super) waiting: u64,
    /// Messages by class.
    pub(super) classes: Vec<ClassRates>,
}

/// Messages of one class a second.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ClassRates {
    /// Its name.
    pub(super) class: String,
    /// Taken in.
    pub(super) received: f64,
    /// Given to the server.
    pub(super) served: f64,
    /// Refused with an answer.
    pub(super) answered: f64,
    /// Everything else: refused without one, absorbed, stale, unfit.
    pub(super) dropped: f64,
}

/// One worker.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct WorkerRates {
    /// NIC queue.
    pub(super) queue: u32,
    /// CPU core.
    pub(super) core: usize,
    /// Share of that core, 0 to 1.
    pub(super) cpu: f64,
    /// Messages of all services taken in.
    pub(super) received: f64,
    /// Given to servers.
    pub(super) served: f64,
    /// Messages waiting.
    pub(super) waiting: u64,
}

/// Packets of one class and verdict a second.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct KernelRate {
    /// What they were.
    pub(super) class: String,
    /// What was done with them.
    pub(super) verdict: String,
    /// How many.
    pub(super) per_s: f64,
}

/// Something that did not reach the server.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Loss {
    /// Who dropped it and why.
    pub(super) reason: String,
    /// How many.
    pub(super) per_s: f64,
}

/// Σ over two levels of names.
type Counts = BTreeMap<String, BTreeMap<String, u64>>;

impl Rates {
    /// What happens between two looks. Of an instance that was started in between it is since its start.
    #[must_use]
    pub(super) fn between(before: &Status, now: &Status) -> Self {
        let nothing = Status::default();
        let before = if now.uptime_s > before.uptime_s { before } else { &nothing };
        let span = Span((now.uptime_s - before.uptime_s).max(1e-3));
        let none = Service::default();
        let services: Vec<_> = now
            .services
            .iter()
            .map(|(name, service)| span.service(name, before.services.get(name).unwrap_or(&none), service))
            .collect();
        Self {
            version: now.version.clone(),
            interface: now.interface.clone(),
            uptime_s: now.uptime_s,
            span_s: span.0,
            workers: span.workers(before, now, &services),
            services,
            kernel: span.kernel(&before.kernel, &now.kernel),
            losses: span.losses(before, now),
            sources: now.sources.clone(),
        }
    }
}

/// Seconds between the looks.
struct Span(f64);

impl Span {
    fn rate(&self, before: u64, now: u64) -> f64 {
        now.saturating_sub(before) as f64 / self.0
    }

    fn service(&self, name: &str, before: &Service, now: &Service) -> ServiceRates {
        let at = |queue| before.workers.iter().find(|worker| worker.queue == queue);
        let workers = now.workers.iter().map(|worker| {
            let old = at(worker.queue).cloned().unwrap_or_default();
            AtWorkerRates {
                queue: worker.queue,
                gate: worker.gate_state.clone(),
                waiting: worker.waiting,
                classes: self.classes((&old.received, &old.outcomes), (&worker.received, &worker.outcomes)),
            }
        });
        let mut losses = self.outcomes(&before.outcomes, &now.outcomes);
        let drops = self.rate(before.server.drops, now.server.drops);
        losses.push(Loss { reason: "server's socket full".to_owned(), per_s: drops });
        losses.retain(|loss| loss.per_s > 0.0);
        ServiceRates {
            name: name.to_owned(),
            mode: now.mode.clone(),
            gate: now.gate.state.clone(),
            admits: now.gate.admits,
            closed: closed(before.gate.state_s, now.gate.state_s),
            waiting: now.waiting.max(now.would_wait),
            at_server: now.at_server,
            server: now.server.state.clone(),
            service_rate_per_s: now.service_rate_per_s,
            answers: now.answers.as_ref().map(|now| self.answers(before.answers.as_ref(), now)),
            classes: self.classes((&before.received, &before.outcomes), (&now.received, &now.outcomes)),
            workers: workers.collect(),
            losses,
        }
    }

    fn answers(&self, before: Option<&Answers>, now: &Answers) -> AnswerRates {
        let none = Answers::default();
        let before = before.unwrap_or(&none);
        AnswerRates {
            finals: self.rate(before.finals(), now.finals()),
            unavailable: self.rate(before.unavailable, now.unavailable),
        }
    }

    fn classes(
        &self,
        before: (&BTreeMap<String, u64>, &Counts),
        now: (&BTreeMap<String, u64>, &Counts),
    ) -> Vec<ClassRates> {
        let classes = now.0.iter().map(|(class, received)| {
            let mut rates = ClassRates {
                class: class.clone(),
                received: self.rate(before.0.get(class).copied().unwrap_or(0), *received),
                ..ClassRates::default()
            };
            for (outcome, count) in now.1.get(class).into_iter().flatten() {
                let old = before.1.get(class).and_then(|old| old.get(outcome)).copied().unwrap_or(0);
                let per_s = self.rate(old, *count);
                match outcome.as_str() {
                    "handed_over" => rates.served += per_s,
                    other if other.starts_with("rejected") => rates.answered += per_s,
                    _ => rates.dropped += per_s,
                }
            }
            rates
        });
        classes.collect()
    }

    /// What workers did not hand over, by outcome.
    fn outcomes(&self, before: &Counts, now: &Counts) -> Vec<Loss> {
        let sum = |counts: &Counts| {
            let mut sums: BTreeMap<String, u64> = BTreeMap::new();
            for (outcome, count) in counts.values().flatten() {
                *sums.entry(outcome.clone()).or_default() += count;
            }
            sums
        };
        let (before, now) = (sum(before), sum(now));
        let others = now.into_iter().filter(|(outcome, _)| outcome != "handed_over");
        let losses = others.map(|(reason, count)| {
            let per_s = self.rate(before.get(&reason).copied().unwrap_or(0), count);
            Loss { reason, per_s }
        });
        losses.collect()
    }

    fn workers(&self, before: &Status, now: &Status, services: &[ServiceRates]) -> Vec<WorkerRates> {
        let workers = now.workers.iter().map(|worker| {
            let old = before.workers.iter().find(|old| old.queue == worker.queue);
            let cpu_s = worker.cpu_s - old.map_or(0.0, |old| old.cpu_s);
            let here = services.iter().flat_map(|service| &service.workers);
            let here: Vec<_> = here.filter(|at| at.queue == worker.queue).collect();
            let sum = |of: fn(&ClassRates) -> f64| here.iter().flat_map(|at| &at.classes).map(of).sum();
            WorkerRates {
                queue: worker.queue,
                core: worker.core,
                cpu: (cpu_s / self.0).clamp(0.0, 1.0),
                received: sum(|class| class.received),
                served: sum(|class| class.served),
                waiting: here.iter().map(|at| at.waiting).sum(),
            }
        });
        workers.collect()
    }

    /// Rows of the XDP program, their reasons added up.
    fn kernel(&self, before: &[KernelRow], now: &[KernelRow]) -> Vec<KernelRate> {
        let mut sums: BTreeMap<(&str, &str), f64> = BTreeMap::new();
        for row in now {
            let per_s = self.rate(packets_of(before, row), row.packets);
            *sums.entry((&row.class, &row.verdict)).or_default() += per_s;
        }
        let rates = sums.into_iter().map(|((class, verdict), per_s)| KernelRate {
            class: class.to_owned(),
            verdict: verdict.to_owned(),
            per_s,
        });
        rates.collect()
    }

    /// What was dropped before any service had it.
    fn losses(&self, before: &Status, now: &Status) -> Vec<Loss> {
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        let mut add = |reason: String, per_s: f64| *sums.entry(reason).or_default() += per_s;
        for row in now.kernel.iter().filter(|row| row.verdict == "drop") {
            add(format!("xdp {}", row.reason), self.rate(packets_of(&before.kernel, row), row.packets));
        }
        for worker in &now.workers {
            let old = before.workers.iter().find(|old| old.queue == worker.queue);
            let old = old.cloned().unwrap_or_default();
            for (ring, count) in &worker.ring_full {
                let per_s = self.rate(old.ring_full.get(ring).copied().unwrap_or(0), *count);
                add(format!("ring {ring} full"), per_s);
            }
            add("no frame free".to_owned(), self.rate(old.fill_ring_empty, worker.fill_ring_empty));
        }
        add("side door full".to_owned(), self.rate(before.side_door.lost, now.side_door.lost));
        let (old, new) = (&before.interface_counters, &now.interface_counters);
        add("interface missed".to_owned(), self.rate(old.rx_missed, new.rx_missed));
        let losses = sums.into_iter().filter(|(_, per_s)| *per_s > 0.0);
        losses.map(|(reason, per_s)| Loss { reason, per_s }).collect()
    }
}

fn packets_of(rows: &[KernelRow], of: &KernelRow) -> u64 {
    let same =
        |row: &&KernelRow| (&row.class, &row.verdict, &row.reason) == (&of.class, &of.verdict, &of.reason);
    rows.iter().find(same).map_or(0, |row| row.packets)
}

/// How closed a gate was between two looks, 0 to 1.
fn closed(before: StateSeconds, now: StateSeconds) -> f64 {
    let [normal, overload, discard] =
        [now.normal - before.normal, now.overload - before.overload, now.discard - before.discard];
    let all = normal + overload + discard;
    if all > 0.0 { ((overload / 2.0 + discard) / all).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::{AnswerRates, ClassRates, Loss, Rates};
    use crate::top::testing::status;

    #[test]
    fn of_answers_the_final_ones_are_counted_where_answers_are_seen() {
        let rates = Rates::between(&status(1), &status(3));
        let of = |service: usize| rates.services[service].answers;
        assert_eq!(of(0), Some(AnswerRates { finals: 1400.0, unavailable: 350.0 }));
        assert_eq!(of(1), None);
    }

    #[test]
    fn rates_are_differences_by_the_instances_own_time() {
        let rates = Rates::between(&status(1), &status(3));
        assert_eq!(rates.span_s, 2.0);
        let main = &rates.services[0];
        assert_eq!((main.name.as_str(), main.gate.as_str(), main.waiting), ("main", "overload", 88));
        let original = ClassRates {
            class: "original".into(),
            received: 4000.0,
            served: 1500.0,
            answered: 2000.0,
            dropped: 400.0,
        };
        assert_eq!(main.classes.iter().find(|class| class.class == "original"), Some(&original));
        assert_eq!(main.closed, 0.5, "half of the time in discard");
        assert_eq!(main.losses[0], Loss { reason: "ack_absorbed".into(), per_s: 10.0 });
        assert!(main.losses.contains(&Loss { reason: "server's socket full".into(), per_s: 3.0 }));
        let worker = &rates.workers[1];
        assert_eq!((worker.queue, worker.cpu, worker.waiting), (1, 0.25, 44));
        assert_eq!((worker.received, worker.served), (2005.0, 750.0));
    }

    #[test]
    fn what_the_xdp_program_drops_is_named_and_what_it_passes_is_not_a_loss() {
        let rates = Rates::between(&status(1), &status(2));
        let reasons: Vec<&str> = rates.losses.iter().map(|loss| loss.reason.as_str()).collect();
        assert_eq!(reasons, ["ring new full", "xdp copy_excess", "xdp original_waits"]);
        let copies = rates.kernel.iter().find(|rate| (&*rate.class, &*rate.verdict) == ("copy", "drop"));
        assert_eq!(copies.map(|rate| rate.per_s), Some(700.0), "of two reasons");
    }

    #[test]
    fn an_instance_that_was_started_anew_counts_from_its_start() {
        let rates = Rates::between(&status(60), &status(2));
        assert_eq!((rates.span_s, rates.services[0].classes[1].received), (2.0, 4000.0));
        let still = Rates::between(&status(2), &status(2));
        assert!(still.services[0].classes[1].received.is_finite());
    }
}
