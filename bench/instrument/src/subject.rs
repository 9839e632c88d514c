//! sipweir, as an operator sees it: a process, and the counters of its status. The conservation law is checked here.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;
use sipweir_tests::{NetNs, Sipweir};

use crate::cost::{Usage, task_clock_ns_of_threads};

/// The kernel's counters of lost packets are read once a second by the worker.
const SETTLING: Duration = Duration::from_secs(4);
const LOOK: Duration = Duration::from_millis(20);
const SHORT_LOOK: Duration = Duration::from_millis(1);

/// How sipweir names the threads of its workers.
const WORKER_THREADS: &str = "worker-q";

/// What the XDP program decided: class, verdict, reason.
pub(crate) type Decision = (String, String, String);

/// One reading of all counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    /// Packets by decision; foreign ones are left out.
    pub(crate) kernel: BTreeMap<Decision, u64>,
    /// Messages that workers took out of rings and the side door.
    pub(crate) received: u64,
    /// What became of them.
    pub(crate) outcomes: BTreeMap<String, u64>,
    pub(crate) waiting: u64,
    pub(crate) replies: u64,
    /// Lost at full RX rings, or for want of frames.
    pub(crate) ring_lost: u64,
    frames_outstanding: u64,
    side_door: u64,
    bad: u64,
    pub(crate) turns: u64,
    pub(crate) sleeps: u64,
}

impl Account {
    fn read(status: &Value) -> anyhow::Result<Self> {
        let mut account = Self::default();
        for row in array(status, "/kernel")? {
            let word = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            if word("class") != "foreign" {
                let decision = (word("class"), word("verdict"), word("reason"));
                *account.kernel.entry(decision).or_default() += number(row, "/packets");
            }
        }
        for service in status["services"].as_object().context("no services in the status")?.values() {
            account.waiting += number(service, "/waiting");
            for count in service["received"].as_object().into_iter().flat_map(serde_json::Map::values) {
                account.received += count.as_u64().unwrap_or(0);
            }
            for class in service["outcomes"].as_object().into_iter().flat_map(serde_json::Map::values) {
                for (outcome, count) in class.as_object().into_iter().flatten() {
                    *account.outcomes.entry(outcome.clone()).or_default() += count.as_u64().unwrap_or(0);
                }
            }
        }
        for worker in array(status, "/workers")? {
            let full = worker["ring_full"].as_object().into_iter().flat_map(serde_json::Map::values);
            account.ring_lost += full.map(|count| count.as_u64().unwrap_or(0)).sum::<u64>();
            account.ring_lost += number(worker, "/fill_ring_empty");
            account.frames_outstanding += number(worker, "/frames_outstanding");
            account.replies += number(worker, "/replies_sent");
            account.bad += number(worker, "/bad_descriptors") + number(worker, "/bad_metadata");
            account.turns += number(worker, "/turns");
            account.sleeps += number(worker, "/sleeps");
        }
        account.side_door = number(status, "/side_door/received");
        Ok(account)
    }

    /// Packets since an earlier reading, by decision.
    pub(crate) fn kernel_since(&self, earlier: &Self) -> BTreeMap<Decision, u64> {
        let since = |(decision, packets): (&Decision, &u64)| {
            (decision.clone(), packets - earlier.kernel.get(decision).copied().unwrap_or(0))
        };
        self.kernel.iter().map(since).filter(|(_, packets)| *packets > 0).collect()
    }

    /// Messages that got one of these outcomes.
    pub(crate) fn outcome(&self, is_meant: impl Fn(&str) -> bool) -> u64 {
        self.outcomes.iter().filter(|(name, _)| is_meant(name)).map(|(_, count)| count).sum()
    }

    /// Packets for rings since an earlier reading, and those taken from there or lost at full ones.
    fn rings_since(&self, start: &Self) -> (u64, u64) {
        let kernel = self.kernel_since(start);
        let for_rings = kernel.iter().filter(|((_, verdict, _), _)| verdict.starts_with("ring_"));
        let taken = self.received - start.received - (self.side_door - start.side_door);
        (for_rings.map(|(_, packets)| packets).sum(), taken + self.ring_lost - start.ring_lost)
    }

    /// What breaks the law of conservation, if `offered` packets were sent since `start`.
    fn breach(&self, start: &Self, offered: u64) -> Option<String> {
        let kernel = self.kernel_since(start);
        let (for_rings, from_rings) = self.rings_since(start);
        let ended: u64 = self.outcomes.values().sum();
        let checks = [
            ("offered = Σ verdicts", offered, kernel.values().sum()),
            ("verdicts for rings = received + lost at full rings", for_rings, from_rings),
            ("received = Σ outcomes + waiting", self.received, ended + self.waiting),
            ("frames outstanding = waiting", self.frames_outstanding, self.waiting),
            ("descriptors and metadata without sense = 0", self.bad, 0),
        ];
        let broken = checks.into_iter().find(|(_, left, right)| left != right);
        broken
            .map(|(law, left, right)| format!("{law}: {left} is not {right}; decided: {kernel:?}; {self:?}"))
    }
}

fn array<'a>(value: &'a Value, pointer: &str) -> anyhow::Result<&'a Vec<Value>> {
    value.pointer(pointer).and_then(Value::as_array).with_context(|| format!("no {pointer} in the status"))
}

fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// A running sipweir, and the packets that were sent to it.
#[derive(Debug)]
pub(crate) struct Subject {
    process: Sipweir,
    start: Account,
    offered: u64,
}

impl Subject {
    /// Starts `sipweir run` in a namespace.
    pub(crate) fn start(namespace: &NetNs, configuration: &str) -> anyhow::Result<Self> {
        let mut process = Sipweir::start(namespace, configuration);
        let start = Account::read(&process.status())?;
        Ok(Self { process, start, offered: 0 })
    }

    /// Notes that packets were sent to it.
    pub(crate) fn was_offered(&mut self, packets: u64) {
        self.offered += packets;
    }

    pub(crate) fn account(&mut self) -> anyhow::Result<Account> {
        Account::read(&self.process.status())
    }

    /// What it and its threads have used.
    pub(crate) fn usage(&self) -> anyhow::Result<Usage> {
        Usage::of_group(self.process.id())
    }

    /// CPU time of its workers alone, nanoseconds: without the thread that tells the status.
    pub(crate) fn workers_task_clock_ns(&self) -> anyhow::Result<u64> {
        task_clock_ns_of_threads(self.process.id(), WORKER_THREADS)
    }

    /// The state of the gate of its service `main`.
    pub(crate) fn gate(&mut self) -> String {
        let status = self.process.status();
        status.pointer("/services/main/gate/state").and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// Waits for a reading that fulfils a condition.
    pub(crate) fn wait(
        &mut self,
        what: &str,
        holds: impl FnMut(&Account) -> bool,
    ) -> anyhow::Result<Account> {
        self.wait_looking(LOOK, what, holds)
    }

    /// Waits until the worker has taken all packets out of its rings.
    pub(crate) fn wait_until_taken(&mut self) -> anyhow::Result<()> {
        let start = self.start.clone();
        let is_taken = |account: &Account| {
            let (for_rings, from_rings) = account.rings_since(&start);
            for_rings == from_rings
        };
        self.wait_looking(SHORT_LOOK, "the rings are empty", is_taken)?;
        Ok(())
    }

    /// Waits until the XDP program has decided on so many packets more. The last may still be in the wire's ring.
    pub(crate) fn wait_until_decided(&mut self, packets: u64, earlier: &Account) -> anyhow::Result<Account> {
        let are_decided = |account: &Account| account.kernel_since(earlier).values().sum::<u64>() >= packets;
        self.wait_looking(SHORT_LOOK, &format!("{packets} packets are decided on"), are_decided)
    }

    fn wait_looking(
        &mut self,
        look: Duration,
        what: &str,
        mut holds: impl FnMut(&Account) -> bool,
    ) -> anyhow::Result<Account> {
        let deadline = Instant::now() + SETTLING;
        loop {
            let account = self.account()?;
            if holds(&account) {
                return Ok(account);
            }
            if Instant::now() > deadline {
                bail!("waited {SETTLING:?} in vain until {what}: {account:?}");
            }
            std::thread::sleep(look);
        }
    }

    /// Checks that everything offered is accounted for.
    pub(crate) fn check_law(&mut self) -> anyhow::Result<Account> {
        let deadline = Instant::now() + SETTLING;
        loop {
            let account = self.account()?;
            match account.breach(&self.start, self.offered) {
                None => return Ok(account),
                Some(breach) if Instant::now() > deadline => {
                    bail!("the conservation law is broken: {breach}")
                }
                Some(_) => std::thread::sleep(LOOK),
            }
        }
    }

    /// Ends it. It checks its own frames then: exit status 0 means that none is outstanding.
    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        let status = self.process.terminate();
        anyhow::ensure!(status.success(), "sipweir ended with {status}: {}", self.process.describe());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Account;

    fn status(packets: u64, received: u64, ring_full: u64, waiting: u64, outstanding: u64) -> Account {
        let handed = received - waiting;
        Account::read(&json!({
            "kernel": [
                {"class": "original", "verdict": "ring_new", "reason": "new_request", "packets": packets},
                {"class": "foreign", "verdict": "pass", "reason": "not_ip", "packets": 5},
            ],
            "services": {"main": {
                "waiting": waiting,
                "received": {"original": received},
                "outcomes": {"original": {"handed_over": handed}},
            }},
            "workers": [{"ring_full": {"new": ring_full}, "frames_outstanding": outstanding}],
        }))
        .expect("a status")
    }

    #[test]
    fn what_is_accounted_for_keeps_the_law() {
        let start = status(0, 0, 0, 0, 0);
        assert_eq!(status(10, 7, 3, 2, 2).breach(&start, 10), None);
    }

    #[test]
    fn each_kind_of_loss_breaks_the_law_by_its_name() {
        let start = status(0, 0, 0, 0, 0);
        let breach = |account: Account, offered| account.breach(&start, offered).expect("broken");
        assert!(breach(status(10, 7, 3, 2, 2), 11).starts_with("offered = Σ verdicts: 11 is not 10"));
        assert!(breach(status(10, 7, 2, 2, 2), 10).starts_with("verdicts for rings"));
        assert!(breach(status(10, 7, 3, 2, 3), 10).starts_with("frames outstanding"));
        let mut leaking = status(10, 7, 3, 2, 2);
        leaking.received += 1;
        leaking.kernel.values_mut().for_each(|packets| *packets += 1);
        assert!(breach(leaking, 11).starts_with("received = Σ outcomes + waiting"));
    }

    #[test]
    fn only_what_came_since_the_start_counts() {
        let (start, end) = (status(5, 5, 0, 0, 0), status(9, 8, 1, 0, 0));
        assert_eq!(end.breach(&start, 4), None);
        assert_eq!(end.kernel_since(&start).into_values().collect::<Vec<_>>(), [4]);
    }
}
