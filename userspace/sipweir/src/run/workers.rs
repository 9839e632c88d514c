//! The workers of a run: each is put together from what belongs to its queue, started, and waited for at the end.

use std::sync::Arc;

use afxdp::{CopyMode, EgressConfig, EgressPort, MappedWords, QueuePort};
use anyhow::Context as _;

use super::health::Judged;
use super::plan::{BUSY_RETRY_NS, Plan};
use super::{Instance, ProcessorFactory, answers, door};
use crate::body::LARGE_LEN;
use crate::capture::Tap;
use crate::change::ChangeBox;
use crate::config::{Config, HandoffKind, Idle, NotSip};
use crate::counters::WorkerCounters;
use crate::handoff::Handoff;
use crate::handoff::embedded::{Exchange, PacketBytes};
use crate::handoff::kernel::{Egress, Server, packet_socket};
use crate::local::LetterBox;
use crate::privileged::Privileged;
use crate::transactions::Transactions;
use crate::wake::Wake;
use crate::worker::{Parts, Worker};
use crate::{capabilities, clock, cores};

/// A worker that was started.
pub(super) struct Running {
    pub(super) thread: std::thread::JoinHandle<u32>,
    pub(super) wake: Arc<Wake>,
    pub(super) letters: Arc<LetterBox>,
    pub(super) changes: Arc<ChangeBox>,
    pub(super) queue: u32,
    pub(super) core: usize,
    pub(super) counters: Arc<WorkerCounters>,
}

impl Instance {
    pub(super) fn start_worker(
        &mut self,
        config: &Config,
        gates: &Arc<MappedWords>,
        processors: &ProcessorFactory,
        queue: u32,
        core: usize,
        capture: Option<Tap>,
    ) -> anyhow::Result<()> {
        let plan = &self.plan;
        let wake = Arc::new(Wake::new().context("cannot make an eventfd")?);
        let (mut port, mode) = QueuePort::open(self.interface.index, queue, &plan.port)?;
        let has_door = queue == door::WORKER;
        let side_door =
            if has_door { Some(self.door.sockets(config, &self.settings, &self.interface)?) } else { None };
        if let (Some(answers), Some(door)) = (&mut self.answers, &side_door) {
            answers.leave_out(door)?;
        }
        let egress = match &self.device {
            Some(device) => {
                let tx = EgressConfig { tx_ring_size: config.frames.ring_tx, busy_retry_ns: BUSY_RETRY_NS };
                let egress = EgressPort::open(&mut port, device.transmit().index, queue, &tx)?;
                let egress =
                    Egress::new(egress, tx.tx_ring_size, device.receive().mac, device.transmit().mac);
                if has_door {
                    let name = &device.transmit().name;
                    let socket = packet_socket(name)
                        .with_context(|| format!("cannot open a packet socket on {name} (CAP_NET_RAW)"))?;
                    Some(egress.with_packet_socket(socket))
                } else {
                    Some(egress)
                }
            }
            None => None,
        };
        let mut lanes = Vec::new();
        for (index, (name, service)) in config.service.iter().enumerate() {
            let handoff = match service.handoff {
                HandoffKind::Kernel => {
                    let device = self.device.as_ref().map_or(0, |device| device.receive().index);
                    Handoff::Kernel(Server::new(Box::new(Plan::watches(service, device)?)))
                }
                HandoffKind::Embedded => {
                    let processor = processors(name, plan.queues, queue);
                    let frame = config.frames.size as usize;
                    let bytes =
                        PacketBytes { request: if has_door { LARGE_LEN } else { frame }, reply: frame };
                    let places = service.embedded.queue;
                    let title = format!("{name}-{queue}");
                    let exchange = Exchange::start(&title, processor, places, bytes, Arc::clone(&wake))
                        .context("cannot start a processor thread")?;
                    Handoff::Embedded(exchange)
                }
            };
            let answers = self.answers.as_ref().filter(|_| answers::is_watched(service));
            let picks = answers.map(|answers| answers.picks(plan.queues));
            let begin = plan.change(index, name, service, &self.arrivals, queue)?;
            let lane = plan.lane(name, handoff, picks, begin)?;
            self.lanes[index].1.push(Arc::clone(&lane.counters));
            let (counters, orders) = (Arc::clone(&lane.counters), Arc::clone(&lane.orders));
            self.judged[index].push(Judged { counters, orders });
            lanes.push(lane);
        }
        self.mode.af_xdp = if mode.copy_mode == CopyMode::ZeroCopy { "zero_copy" } else { "copy" }.into();
        self.mode.need_wakeup = mode.need_wakeup;
        self.mode.busy_poll = format!("{:?}", port.busy_poll()).to_lowercase();

        // Before packets come: what shall pass must not land in a ring.
        for (service, lane) in plan.lane_of_service.iter().enumerate() {
            let word = lanes[usize::from(*lane)].word_to_publish(clock::now());
            gates.store(service * xdp_prog::abi::QUEUES_MAX + queue as usize, word.bits());
        }
        port.refill();
        for ring in 0..afxdp::RINGS {
            self.classifier.set_socket(queue as usize, ring, port.rx_fd(ring))?;
        }
        let letters = Arc::new(LetterBox::default());
        let changes = Arc::new(ChangeBox::default());
        let counters = Arc::new(WorkerCounters::default());
        let parts = Parts {
            port,
            egress,
            side_door,
            lanes,
            lane_of_service: plan.lane_of_service.clone(),
            gates: Arc::clone(gates),
            queue,
            seed: *self.key.seed(),
            key: Arc::clone(&self.key),
            transactions: Transactions::new(self.transactions.clone()),
            privileged: Privileged::new(&config.privileges),
            local: self.local.clone(),
            letters: Arc::clone(&letters),
            changes: Arc::clone(&changes),
            wake: Arc::clone(&wake),
            stop: Arc::clone(&self.stop),
            spin: config.workers.idle == Idle::Spin,
            capture,
            drop_not_sip: config.xdp.not_sip == NotSip::Drop,
            counters: Arc::clone(&counters),
        };
        let thread = std::thread::Builder::new()
            .name(format!("worker-q{queue}"))
            .spawn(move || {
                capabilities::renounce_all_of_thread();
                if !cores::pin(core) {
                    tracing::warn!(
                        queue,
                        core,
                        "cannot pin the worker to its core; it runs where the system puts it"
                    );
                }
                Worker::new(parts).run()
            })
            .context("cannot start a worker thread")?;
        self.workers.push(Running { thread, wake, letters, changes, queue, core, counters });
        Ok(())
    }
}

/// Waits for all workers, whatever became of each.
pub(super) fn finish(workers: Vec<Running>) -> anyhow::Result<()> {
    let mut leaked = 0;
    let mut panicked = None;
    for worker in workers {
        worker.wake.notify();
        match worker.thread.join() {
            Ok(outstanding) => leaked += outstanding,
            Err(_) => panicked = Some(worker.queue),
        }
    }
    if let Some(queue) = panicked {
        anyhow::bail!("worker-q{queue} panicked; its message stands above. Please report it");
    }
    anyhow::ensure!(leaked == 0, "{leaked} frames leaked; please report it");
    Ok(())
}

#[cfg(test)]
mod tests;
