//! What the control thread reads while an instance runs, put together for `status`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::Context as _;
use sip::{Class, Reason, Verdict};

use super::Instance;
use super::answers::is_watched;
use super::current::Current;
use super::programs::Program;
use crate::capture;
use crate::config::Config;
use crate::counters::{LaneCounters, WorkerCounters, wait_bounds_s};
use crate::netdev::Traffic;
use crate::status;
use crate::transactions::Occupancy;
use crate::{lists, log};

/// What the control thread reads.
pub(super) struct View {
    pub(super) started: Instant,
    pub(super) interface: String,
    /// By which the kernel knows it.
    pub(super) ifindex: u32,
    pub(super) mode: status::Mode,
    pub(super) current: Arc<Current>,
    /// By name, in the order of the configuration, of which a reload changes neither.
    pub(super) services: Vec<(String, Vec<Arc<LaneCounters>>)>,
    pub(super) workers: Vec<(u32, usize, Arc<WorkerCounters>)>,
    pub(super) counters: xdp_prog::CounterReader,
    /// What would have been done with packets that are only watched.
    pub(super) monitored: xdp_prog::CounterReader,
    /// Slots of the transaction table.
    pub(super) transactions: u64,
    pub(super) occupancy: Arc<Occupancy>,
    pub(super) side_door: xdp_prog::SideDoorCounterReader,
    pub(super) lists: lists::keeper::Handle,
    /// What the servers answer, if it is seen.
    pub(super) answers: Option<Answers>,
    pub(super) programs: Vec<Program>,
    /// Where refused messages go, and what the thread counts that sends them.
    pub(super) capture: Option<(SocketAddr, Arc<capture::Sent>)>,
    /// Captures for clients.
    pub(super) capturing: Arc<capture::Capturing>,
}

impl Instance {
    /// What can be read of this run from now on.
    pub(super) fn view(&self, config: &Config, capturing: Arc<capture::Capturing>) -> anyhow::Result<View> {
        let (counters, monitored) = (self.classifier.counter_reader()?, self.classifier.monitored_reader()?);
        let programs = [
            Program::new("xdp", self.classifier.program_fd()),
            Program::new("side_door", self.door.program_fd()),
        ];
        let answers = self.answers.as_ref().map(|answers| Program::new("answers", answers.program_fd()));
        let programs = programs
            .into_iter()
            .chain(answers)
            .collect::<Result<_, _>>()
            .context("cannot hold on to the programs")?;
        Ok(View {
            started: Instant::now(),
            interface: config.interface.clone(),
            ifindex: self.interface.index,
            mode: status::Mode {
                handoff_device: self.device.as_ref().map(|device| device.receive().name.clone()),
                ..self.mode.clone()
            },
            current: Arc::clone(&self.current),
            services: self.lanes.clone(),
            workers: self.workers.iter().map(|w| (w.queue, w.core, Arc::clone(&w.counters))).collect(),
            counters,
            monitored,
            transactions: self.transactions.as_ref().map_or(0, |memory| memory.table.words().len() as u64),
            occupancy: Arc::clone(&self.occupancy),
            side_door: self.door.counter_reader()?,
            lists: self.lists.handle().clone(),
            answers: Answers::new(config, self.answers.as_ref())?,
            programs,
            capture: config
                .capture
                .as_ref()
                .zip(self.exporter.as_ref())
                .map(|(capture, exporter)| (capture.collector.0, exporter.counters())),
            capturing,
        })
    }
}

impl View {
    fn sum(&self, count: fn(&WorkerCounters) -> u64) -> u64 {
        self.workers.iter().map(|(_, _, counters)| count(counters)).sum()
    }

    pub(super) fn read(&self) -> status::Status {
        let config = self.current.get();
        status::Status {
            format: status::FORMAT,
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            interface: self.interface.clone(),
            mode: self.mode.clone(),
            services: self
                .services
                .iter()
                .zip(config.service.values())
                .map(|((name, lanes), service)| {
                    let listen = service.listen.to_strings();
                    let mut read = status::Service::read(
                        listen,
                        service.monitored().name(),
                        service.handoff.name(),
                        service.gate.kind.name(),
                        lanes,
                    );
                    read.answers = self.answers.as_ref().and_then(|answers| answers.of(name));
                    (name.clone(), read)
                })
                .collect(),
            wait_bounds_s: wait_bounds_s().into(),
            answer_bounds_s: xdp_prog::answer_bounds_s().into(),
            transactions: status::Transactions {
                slots: self.transactions,
                live: self.occupancy.live.load(Ordering::Relaxed),
                evicted: self.occupancy.evicted_in_kernel.load(Ordering::Relaxed)
                    + self.sum(|counters| counters.transactions_evicted.get()),
                lost: self.sum(|counters| counters.transactions_lost.get()),
            },
            workers: self
                .workers
                .iter()
                .map(|(queue, core, counters)| status::Worker::read(*queue, *core, counters))
                .collect(),
            sources: status::Sources::read(self.workers.iter().map(|(.., counters)| counters)),
            side_door: self.side_door(),
            lists: status::Lists::read(self.lists.counts()),
            capture: self.capture.as_ref().map(|(collector, sent)| status::Capture {
                collector: collector.to_string(),
                captured: self.sum(|counters| counters.captured.get()),
                cut: self.sum(|counters| counters.capture_cut.get()),
                lost: self.sum(|counters| counters.capture_lost.get()),
                sent: sent.sent.get(),
                unsent: sent.unsent.get(),
            }),
            capturing: self.capturing.status(),
            interface_counters: Traffic::of(self.ifindex).ok().flatten().unwrap_or_default(),
            programs: self.programs.iter().filter_map(Program::cost).collect(),
            kernel: rows_of(&self.counters),
            monitored: rows_of(&self.monitored),
            log_lines_lost: log::lost(),
        }
    }
}

impl View {
    fn side_door(&self) -> status::SideDoor {
        let kernel = self.side_door.read().unwrap_or_default();
        let workers = || self.workers.iter().map(|(.., counters)| counters);
        status::SideDoor {
            assigned: kernel.assigned,
            no_socket: kernel.no_socket,
            refused: kernel.refused,
            denied: kernel.denied,
            received: workers().map(|counters| counters.side_received.get()).sum(),
            foreign: workers().map(|counters| counters.side_foreign.get()).sum(),
            lost: workers().map(|counters| counters.side_lost.get()).sum(),
            large_free: workers().map(|counters| counters.large_free.get()).sum(),
        }
    }
}

/// Reads what the servers answer.
pub(super) struct Answers {
    reader: xdp_prog::AnswerReader,
    /// Of each service that is watched: the indexes of its addresses in the program.
    addresses: BTreeMap<String, Range<usize>>,
}

impl Answers {
    pub(super) fn new(config: &Config, answers: Option<&super::Answers>) -> anyhow::Result<Option<Self>> {
        let Some(answers) = answers else { return Ok(None) };
        let mut begin = 0;
        let mut addresses = BTreeMap::new();
        for (name, service) in &config.service {
            let end = begin + service.listen.0.len();
            if is_watched(service) {
                addresses.insert(name.clone(), begin..end);
            }
            begin = end;
        }
        Ok(Some(Self { reader: answers.reader()?, addresses }))
    }

    fn of(&self, service: &str) -> Option<status::Answers> {
        let mut sum = xdp_prog::AnswerCounters::default();
        for address in self.addresses.get(service)?.clone() {
            sum.add(&self.reader.read(address).ok()?);
        }
        Some(status::Answers::of(&sum))
    }
}

fn rows_of(reader: &xdp_prog::CounterReader) -> Vec<status::KernelRow> {
    let Ok(counters) = reader.read() else { return Vec::new() };
    counters
        .iter()
        .filter(|(.., packets)| *packets > 0)
        .map(|(class, verdict, reason, packets)| status::KernelRow {
            class: Class::from_u8(class).map_or("unknown", Class::name).into(),
            verdict: Verdict::from_u8(verdict).map_or("unknown", Verdict::name).into(),
            reason: Reason::from_u8(reason).map_or("unknown", Reason::name).into(),
            packets,
        })
        .collect()
}
