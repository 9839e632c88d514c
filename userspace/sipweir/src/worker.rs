//! The worker: one pinned thread per NIC queue. **Read this file first.**
//!
//! ```text
//!  RX rings of the queue         waiting queue (per service)        out
//!  0 control ── cap ─────────┐   ┌─ control ─┐
//!  1 new ─────── gate ───────┼──▶├─ new ─────┼── credit ──▶ hand-off: kernel or embedded
//!  2 retransmission ─────────┘   └─ copy ────┘   (above the cap of its source, control goes to copy)
//!  3 reject ─────────────────────────────────── budget ──▶ stateless reply by TX
//!  side door ── class, gate ──▶ (the same queues)
//! ```
//!
//! Each [`Worker::turn`] does the same steps in the same order: change → reap → refill → replies → look → receive → serve →
//! answer → publish → flush. When a turn moved nothing the worker sleeps in poll(2), unless packets come so close together
//! that it does not pay (`worker/pause.rs`). What is decided is decided
//! by pure code: classes by `sip`, admission, order and credit by `overload`. Frames are owned: each one that
//! is taken from a ring ends in exactly one [`Outcome`] and goes back to the UMEM.
//!
//! How packets get from the rings into the queue is in `worker/receive.rs` (in order, by `worker/inflow.rs`), from the
//! side door in `worker/side.rs`, how they are answered in `worker/answer.rs`, how a reload changes it in
//! `worker/change.rs`. Not here: set-up and tear-down (`run.rs`), how a hand-off works (`handoff`), what a reply says (`sip`).

mod answer;
mod change;
mod fault;
mod inflow;
mod pause;
mod receive;
mod side;
mod timing;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use afxdp::{MappedWords, QueuePort};
use arrayvec::ArrayVec;
use overload::{Gate, Lane as Queue, Served, TransactionState};
use sip::{Seed, TransactionKey};
use xdp_prog::abi::QUEUES_MAX;

use crate::body::Body;
use crate::capture::Tap;
use crate::capture::live::{About, Probe};
use crate::change::ChangeBox;
use crate::clock;
use crate::counters::{Ending, Outcome, WorkerCounters};
use crate::handoff::Handoff;
use crate::handoff::kernel::{Egress, kick_all};
use crate::lane::{Lane, Waiting};
use crate::limits;
use crate::local::{LetterBox, LocalAddresses};
use crate::privileged::Privileged;
use crate::side_door::SideDoor;
use crate::sources::Sampler;
use crate::transactions::Transactions;
use crate::wake::Wake;
use inflow::Inflow;
use pause::Pause;
use receive::Arrived;

/// Ring numbers, as the verdicts of abi.h.
const RING_CONTROL: usize = 0;
const RING_NEW: usize = 1;
const RING_RETRANSMISSION: usize = 2;
const RING_REJECT: usize = 3;

/// Frames that a turn can hold between ring and queue, beside one batch.
pub(crate) const IN_HAND_MAX: usize = 2 * receive::INFLOW_MAX;

/// Bytes of a message that are asked for: all of nearly every one.
const PREFETCH_MAX: usize = 2048;
/// Messages that are handed over together. Fewer: each waits for the memory of the next. More: the first has left the
/// cache again.
const TOGETHER_MAX: usize = 16;

/// Without any work the worker still wakes this often, so that `status` shows it alive and a server that went
/// away is noticed.
const HEARTBEAT_NS: u64 = 1_000_000_000;
/// After a stop signal what waits is handed over or answered within this time; then the rest is let go.
const DRAIN_NS_MAX: u64 = 1_000_000_000;
/// While it drains, the worker looks at its queues this often.
const DRAIN_SLEEP_NS: u64 = 1_000_000;
/// A control message that has waited for T2 (RFC 3261 section 17.1.2.1) has been sent again by its client, and an
/// older one may belong to a call that nobody waits for any more.
const CONTROL_AGE_NS_MAX: u64 = 4_000_000_000;

/// Everything that a worker is made of; see `run.rs` for the making.
#[derive(Debug)]
pub struct Parts {
    /// The NIC queue.
    pub port: QueuePort,
    /// The hand-off device, if any service uses the kernel hand-off.
    pub egress: Option<Egress>,
    /// The side door; one worker has it.
    pub side_door: Option<SideDoor>,
    /// The services at this worker.
    pub lanes: Vec<Lane>,
    /// For each service index of the XDP program (one per listen address) the lane that it belongs to.
    pub lane_of_service: Vec<u8>,
    /// Gate words, shared with the XDP program.
    pub gates: Arc<MappedWords>,
    /// Which NIC queue.
    pub queue: u32,
    /// Secret of all hashes but the transaction's.
    pub seed: Seed,
    /// Of the transaction hash.
    pub key: Arc<TransactionKey>,
    /// Which requests were seen lately.
    pub transactions: Transactions,
    /// Whom the configuration exempts from the gate.
    pub privileged: Privileged,
    /// From whom nothing can come.
    pub local: LocalAddresses,
    /// A newer list of them.
    pub letters: Arc<LetterBox>,
    /// Another configuration.
    pub changes: Arc<ChangeBox>,
    /// Rouses this worker.
    pub wake: Arc<Wake>,
    /// Set to stop.
    pub stop: Arc<AtomicBool>,
    /// Spin instead of sleeping.
    pub spin: bool,
    /// Where refused messages are exported, if they are.
    pub capture: Option<Tap>,
    /// Drop what user space finds to be no SIP, as the XDP program does with what it finds.
    pub drop_not_sip: bool,
    /// Read by the control thread.
    pub counters: Arc<WorkerCounters>,
}

/// One NIC queue's worker.
#[derive(Debug)]
pub struct Worker {
    parts: Parts,
    /// Last word published per lane.
    published: Vec<u64>,
    /// Messages on their way into the queue; what is left between turns is too young to be sure of its order.
    inflow: Inflow<Arrived>,
    statistics_ns: u64,
    /// Who sends most.
    sources: Sampler,
    /// What a capture wants.
    probe: Probe,
    /// Of the turn.
    now_ns: u64,
}

impl Worker {
    /// Puts the parts together; the gates are published open.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let published = vec![u64::MAX; parts.lanes.len()];
        let inflow = Inflow::new(receive::INFLOW_MAX);
        let sources = Sampler::default();
        let mut worker =
            Self { parts, published, inflow, statistics_ns: 0, sources, probe: Probe::default(), now_ns: 0 };
        worker.publish();
        worker
    }

    /// Runs until the stop flag is set and what waited is served or answered, or until the interface is gone.
    /// Returns the number of frames that are still outstanding, which is 0 unless a frame leaked.
    pub fn run(mut self) -> u32 {
        let mut drain_until_ns = None;
        let mut pause = Pause::default();
        loop {
            let now_ns = clock::now();
            let stopping = self.parts.stop.load(Ordering::Acquire);
            if stopping {
                self.look_at_side_door_soon();
            }
            let moved = self.turn(now_ns);
            if stopping {
                let deadline_ns = *drain_until_ns.get_or_insert(now_ns + DRAIN_NS_MAX);
                let lanes = &self.parts.lanes;
                let empty = lanes.iter().all(|lane| lane.queue.is_empty() && lane.credit.at_server() == 0);
                if (empty && !moved) || now_ns >= deadline_ns {
                    break;
                }
            }
            if moved {
                pause.moved(now_ns);
            } else if self.parts.spin || pause.is_short(now_ns) {
                self.spin();
            } else {
                self.sleep(if stopping { DRAIN_SLEEP_NS } else { HEARTBEAT_NS });
            }
            if self.statistics(now_ns).is_err() {
                break;
            }
        }
        self.finish(clock::now())
    }

    /// One turn of the loop. True when something moved, so that another turn is worth while at once.
    pub fn turn(&mut self, now_ns: u64) -> bool {
        self.now_ns = now_ns;
        self.parts.counters.turns.add(1);
        self.take_change(now_ns);
        self.probe.look(&self.parts.counters.capture_point);
        self.reap();
        // Before any work: an empty fill ring makes the kernel drop packets of every class.
        self.parts.port.refill();
        // The server's answers before our refusals: they end calls that cost it work.
        let replied = self.send_replies();
        // Before anybody is judged: whom the server has finished does not count.
        self.look_at_servers(now_ns);
        let received = self.receive(now_ns);
        let served = self.serve(now_ns);
        let answered = self.answer_rejected(now_ns);
        self.publish();
        let pending = self.flush();
        replied + received + served + answered > 0 || pending
    }

    fn reap(&mut self) {
        self.parts.port.reap();
        if let Some(egress) = &mut self.parts.egress {
            egress.reap(&mut self.parts.port);
        }
    }

    /// Brings what is known of the servers up to date, and the gates with it.
    fn look_at_servers(&mut self, now_ns: u64) {
        let in_flight = self.parts.egress.as_ref().map_or(0, Egress::in_flight);
        for lane in &mut self.parts.lanes {
            lane.look_if_due(in_flight, now_ns);
            let in_system = lane.in_system();
            lane.gate.depart(now_ns, in_system);
        }
    }

    /// Serves each lane while its server has credit: control, then originals, then copies.
    fn serve(&mut self, now_ns: u64) -> usize {
        let mut served = 0;
        for index in 0..self.parts.lanes.len() {
            served += self.expire(index, now_ns);
            let in_flight = self.parts.egress.as_ref().map_or(0, Egress::in_flight);
            let lane = &mut self.parts.lanes[index];
            lane.look_if_due(in_flight, now_ns);
            let mut grant = lane.grant(now_ns);
            if let (Handoff::Kernel(_), Some(egress)) = (&lane.handoff, &self.parts.egress) {
                grant = grant.min(egress.room());
            }
            while grant > 0 {
                let next = self.take_next(index, grant, now_ns);
                if next.is_empty() {
                    break;
                }
                // No more than were asked for.
                grant -= next.len() as u32;
                served += next.len();
                next.into_iter().for_each(|next| self.hand_over(index, next, now_ns));
            }
            let lane = &mut self.parts.lanes[index];
            let in_system = lane.in_system();
            lane.gate.depart(now_ns, in_system);
        }
        served
    }

    /// The next to be handed over, at most `most`. What waited long has left the cache, so the CPU is asked for it all
    /// before the first is touched.
    fn take_next(&mut self, index: usize, most: u32, now_ns: u64) -> ArrayVec<Served<Waiting>, TOGETHER_MAX> {
        let Parts { port, lanes, transactions, .. } = &mut self.parts;
        let most = (most as usize).min(TOGETHER_MAX);
        lanes[index].queue.memory_of_next().take(most).for_each(afxdp::prefetch);
        let pop = || lanes[index].queue.pop(now_ns);
        let next: ArrayVec<_, TOGETHER_MAX> = std::iter::from_fn(pop).take(most).collect();
        for Served { item, call_key, .. } in &next {
            let packet = item.body.packet(port.umem());
            afxdp::prefetch(&packet[..packet.len().min(PREFETCH_MAX)]);
            transactions.prefetch(item.txn);
            if item.begins_call {
                afxdp::prefetch(lanes[index].calls.memory_of(*call_key));
            }
        }
        next
    }

    /// Takes out what has waited too long: an original served after T1 would only double the work.
    fn expire(&mut self, index: usize, now_ns: u64) -> usize {
        let mut expired = 0;
        let (max_wait_ns, copy_wait_ns) =
            (self.parts.lanes[index].max_wait_ns, self.parts.lanes[index].copy_wait_ns);
        // Without room for answers they wait for the next turn: silence would bring them back as copies.
        while self.parts.port.tx_room() > 0
            && let Some(late) = self.parts.lanes[index].queue.expire(now_ns, max_wait_ns)
        {
            if late.lane == Queue::New {
                self.shed(index, late.item, Outcome::RejectedLate, now_ns);
            } else {
                // Surplus that an original of its call has taken along.
                self.finish_frame(index, late.item, Outcome::ControlStale);
            }
            expired += 1;
        }
        while let Some(late) = self.parts.lanes[index].queue.expire_copy(now_ns, copy_wait_ns) {
            let is_surplus = limits::has_cap(late.item.class);
            let outcome = if is_surplus { Outcome::ControlStale } else { Outcome::CopyStale };
            self.finish_frame(index, late.item, outcome);
            expired += 1;
        }
        while let Some(copy) = self.parts.lanes[index].queue.pop_outdated(now_ns) {
            self.finish_frame(index, copy.item, Outcome::CopyOutdated);
            expired += 1;
        }
        while let Some(late) = self.parts.lanes[index].queue.expire_control(now_ns, CONTROL_AGE_NS_MAX) {
            self.finish_frame(index, late.item, Outcome::ControlStale);
            expired += 1;
        }
        expired
    }

    /// Gives one message to the server: the marker comes off, the checksum is completed or checked.
    fn hand_over(&mut self, index: usize, next: Served<Waiting>, now_ns: u64) {
        let Served { item: mut message, call_key, waited_ns, .. } = next;
        // Before it is rewritten.
        let beginning = self.beginning_of(index, &message);
        let kept = if self.probe.is_on() {
            let about = self.about(index, &message);
            self.probe.keep(message.body.packet(self.parts.port.umem()), Outcome::HandedOver, about)
        } else {
            None
        };
        self.pick(index, &message);
        let Parts { port, egress, lanes, transactions, counters, .. } = &mut self.parts;
        let lane = &mut lanes[index];
        let sent = match (&mut lane.handoff, egress) {
            (Handoff::Kernel(_), Some(egress)) => {
                let packet = message.body.packet_mut(port.umem());
                let (to, from) = (egress.destination_mac, egress.source_mac);
                match sip::prepare_handoff(packet, &message.datagram, message.marker, to, from) {
                    Ok(range) => {
                        let len = range.len();
                        let left = egress.send(port, message.body, range);
                        left.map(|large| (large.map(Body::Large), len))
                    }
                    Err(error) => Err((message.body, error.into())),
                }
            }
            (Handoff::Embedded(exchange), _) => {
                let packet = message.body.packet(port.umem());
                let len = packet.len();
                match exchange.hand_over(packet, &message.datagram, message.marker, now_ns) {
                    Outcome::HandedOver => Ok((Some(message.body), len)),
                    other => Err((message.body, other)),
                }
            }
            (Handoff::Kernel(_), None) => Err((message.body, Outcome::NoRoom)),
        };
        match sent {
            Ok((left, len)) => {
                transactions.settle(&mut message.txn, TransactionState::HandedOver, now_ns, counters);
                transactions.note_served(beginning, now_ns);
                let begins_call = message.begins_call.then_some(call_key);
                lane.handed_over(message.class, begins_call, len, waited_ns, now_ns);
                self.sources.note(message.datagram.source.ip(), false, now_ns);
                self.probe.confirm(kept);
                self.parts.give_back(left);
            }
            Err((body, outcome)) => {
                self.probe.forget(kept);
                self.finish_frame(index, Waiting { body, ..message }, outcome);
            }
        }
    }

    /// What a capture is told of a message.
    fn about(&self, index: usize, message: &Waiting) -> About {
        About { now_ns: self.now_ns, class: message.class, lane: index, queue: self.parts.queue }
    }

    /// Counts what became of a message, tells the transaction table and the export, and gives its frame back.
    fn finish_frame(&mut self, index: usize, mut message: Waiting, outcome: Outcome) {
        let Parts { port, transactions, capture, counters, .. } = &self.parts;
        match outcome.ending() {
            Ending::Refused => {
                transactions.settle(&mut message.txn, TransactionState::Shed, self.now_ns, counters);
                if let Some(tap) = capture {
                    tap.put(message.body.packet(port.umem()), &message.datagram, self.now_ns, counters);
                }
            }
            Ending::Lost => transactions.forget(message.txn, self.now_ns),
            Ending::Nothing => {}
        }
        if self.probe.is_on() {
            let about = self.about(index, &message);
            self.probe.note(message.body.packet(self.parts.port.umem()), outcome, about);
        }
        let is_refused = outcome.ending() == Ending::Refused;
        self.sources.note(message.datagram.source.ip(), is_refused, self.now_ns);
        self.parts.lanes[index].counters.outcome(message.class, outcome);
        self.parts.give_back(Some(message.body));
    }

    /// Tells the XDP program the gates' states, where they changed.
    fn publish_gates(&mut self) {
        let Parts { lanes, lane_of_service, gates, queue, .. } = &mut self.parts;
        for (number, lane) in lanes.iter_mut().enumerate() {
            lane.note_gate(self.now_ns);
            let bits = lane.word_to_publish(self.now_ns).bits();
            if self.published[number] == bits {
                continue;
            }
            self.published[number] = bits;
            lane.gate.published(lane.word());
            for (service, of) in lane_of_service.iter().enumerate() {
                if usize::from(*of) == number {
                    gates.store(service * QUEUES_MAX + *queue as usize, bits);
                }
            }
        }
    }

    /// Tells the XDP program the gates' states, and the control thread the gauges.
    fn publish(&mut self) {
        self.publish_gates();
        for lane in &self.parts.lanes {
            lane.publish();
        }
        let umem = self.parts.port.umem();
        let counters = &self.parts.counters;
        if let Some(door) = &self.parts.side_door {
            counters.side_lost.set(door.lost());
            counters.large_free.set(door.pool.free() as u64);
        }
        counters.frames_outstanding.set(u64::from(self.parts.outstanding()));
        counters.frames_free.set(u64::from(umem.places().free));
        counters.bad_descriptors.set(umem.bad_descriptors());
    }

    /// Starts what was queued for sending; true when some is left for the next turn.
    fn flush(&mut self) -> bool {
        let port = &mut self.parts.port;
        // A device that is down keeps what is queued and is no reason to stay awake.
        let replies = kick_all(|| port.kick()).unwrap_or(false);
        let handed = self.parts.egress.as_mut().is_some_and(Egress::flush);
        replies || handed
    }

    /// Nanoseconds after which it wants a turn even if no packet comes; `None` if it has nothing to do.
    #[must_use]
    pub fn due_in_ns(&self) -> Option<u64> {
        self.parts.lanes.iter().filter_map(Lane::due_in_ns).min()
    }

    /// Waits a moment, awake. What was handed over and has not arrived lies with the kernel's thread for softirqs, which
    /// shares this core and would wait for the end of the time slice.
    fn spin(&self) {
        if self.parts.egress.as_ref().is_some_and(|egress| egress.in_flight() > 0) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }

    /// Sleeps until a packet comes, a processor calls, a lane is due, or `longest_ns` have passed.
    fn sleep(&mut self, longest_ns: u64) {
        self.parts.wake.prepare();
        let lanes = &self.parts.lanes;
        let replies = lanes
            .iter()
            .any(|lane| matches!(&lane.handoff, Handoff::Embedded(exchange) if exchange.has_replies()));
        if !replies && !self.parts.changes.is_waiting() {
            let due_ns = self.due_in_ns().map_or(longest_ns, |due_ns| due_ns.min(longest_ns));
            self.parts.counters.sleeps.add(1);
            let mut others = ArrayVec::<_, 3>::from_iter([self.parts.wake.as_fd()]);
            if let Some(door) = &self.parts.side_door {
                others.extend(door.sockets().map(|(_, socket)| socket));
            }
            // EINTR and the like: the next turn looks for work anyway.
            let _woken = self.parts.port.wait(&others, Some(due_ns));
        }
        self.look_at_side_door_soon();
        self.parts.wake.awake();
    }

    /// Takes over what changes slowly, at most once a second: the host's addresses and the kernel's own counters. An error
    /// says that the interface is gone.
    fn statistics(&mut self, now_ns: u64) -> Result<(), afxdp::Errno> {
        if now_ns.saturating_sub(self.statistics_ns) < HEARTBEAT_NS {
            return Ok(());
        }
        self.statistics_ns = now_ns;
        debug_assert!(!fault::is_due(&self.parts.counters), "a panic was asked for by {}", fault::VARIABLE);
        if let Some(local) = self.parts.letters.take() {
            self.parts.local = local;
        }
        // A device that is down may come up again; one that is gone does not.
        if let Err(afxdp::Errno::NXIO) = self.parts.port.probe() {
            return Err(afxdp::Errno::NXIO);
        }
        let counters = &self.parts.counters;
        self.sources.publish(&counters.sources, now_ns);
        let mut empty = 0;
        for ring in 0..afxdp::RINGS {
            if let Ok(statistics) = self.parts.port.statistics(ring) {
                counters.ring_full[ring].set(statistics.rx_ring_full);
                counters.sockets[ring].set(&statistics);
                // A number of the queue, which each of its sockets repeats.
                empty = statistics.rx_fill_ring_empty_descs;
            }
        }
        if let Some(statistics) = self.parts.egress.as_ref().and_then(Egress::statistics) {
            counters.sockets[afxdp::RINGS].set(&statistics);
        }
        counters.cpu_ns.set(clock::thread_cpu());
        if empty > counters.fill_ring_empty.get() {
            tracing::error!(
                empty,
                "the fill ring ran empty: packets of every class were lost; raise frames.count"
            );
        }
        counters.fill_ring_empty.set(empty);
        Ok(())
    }

    /// Answers the originals that could not be served in time, lets go of the rest and closes the hand-off.
    /// Returns the number of frames that are still outstanding.
    pub fn finish(mut self, now_ns: u64) -> u32 {
        self.now_ns = now_ns;
        let left: Vec<Arrived> = self.inflow.drain().collect();
        for arrived in left {
            let queue = self.queue_of(&arrived);
            self.enqueue(arrived, queue, now_ns);
        }
        for index in 0..self.parts.lanes.len() {
            while let Some(copy) = self.parts.lanes[index].queue.pop_outdated(now_ns) {
                self.finish_frame(index, copy.item, Outcome::CopyOutdated);
            }
            while let Some(rest) = self.parts.lanes[index].queue.pop(now_ns) {
                if rest.lane == Queue::New {
                    self.shed(index, rest.item, Outcome::Rejected, now_ns);
                    if self.parts.port.tx_room() == 0 {
                        self.flush();
                        self.reap();
                    }
                } else {
                    self.finish_frame(index, rest.item, Outcome::NoRoom);
                }
            }
        }
        self.flush();
        self.publish();
        self.statistics_ns = 0;
        // The last figures, if the interface still has any.
        let _gone = self.statistics(clock::now());
        if let Some(egress) = self.parts.egress.take() {
            egress.close(&mut self.parts.port);
        }
        self.parts.outstanding()
    }
}
