//! The worker: one pinned thread per NIC queue. **Read this file first.**
//!
//! ```text
//!  RX rings of the queue         waiting queue (per service)        out
//!  0 control ────────────────┐   ┌─ control ─┐
//!  1 new ─────── gate ───────┼──▶├─ new ─────┼── credit ──▶ hand-off: kernel or embedded
//!  2 retransmission ─────────┘   └─ copy ────┘
//!  3 reject ─────────────────────────────────── budget ──▶ stateless reply by TX
//! ```
//!
//! Each [`Worker::turn`] does the same steps in the same order: reap → refill → receive → serve → answer →
//! publish → flush. When a turn moved nothing the worker sleeps in poll(2). Everything that is decided here
//! is decided by pure code: classes by `sip`, admission, order and credit by `overload`. Frames are owned:
//! each one that is taken from a ring ends in exactly one [`Outcome`] and goes back to the UMEM.
//!
//! Not here: set-up and tear-down (`run.rs`), how a hand-off works (`handoff`), what a reply says (`sip`).

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use afxdp::{Batch, Frame, Kick, MappedWords, QueuePort};
use overload::{Decision, Discipline, Gate, Lane as Queue, ServerState};
use sip::{Class, Datagram, KernelFindings, Marker, MarkerForm, Method, ReplyLine, Seed};
use xdp_prog::Meta;

use crate::clock;
use crate::counters::{Outcome, WorkerCounters};
use crate::handoff::{Handoff, kernel::Egress};
use crate::lane::{Lane, Waiting};
use crate::wake::Wake;

/// Ring numbers, as the verdicts of abi.h.
const RING_CONTROL: usize = 0;
const RING_NEW: usize = 1;
const RING_RETRANSMISSION: usize = 2;
const RING_REJECT: usize = 3;

/// Batches taken from ring `new` in one turn: with 64 frames each, more than the largest sensible ring, so
/// that a turn empties it, and yet bounded under a flood.
const NEW_BATCHES_MAX: usize = 64;
/// Without any work the worker still wakes this often, so that `status` shows it alive.
const HEARTBEAT_NS: u64 = 1_000_000_000;
/// After a stop signal what waits is handed over or answered within this time; then the rest is let go.
const DRAIN_NS_MAX: u64 = 1_000_000_000;

/// Everything that a worker is made of; see `run.rs` for the making.
#[derive(Debug)]
pub struct Parts {
    /// The NIC queue.
    pub port: QueuePort,
    /// The hand-off device, if any service uses the kernel hand-off.
    pub egress: Option<Egress>,
    /// The services at this worker.
    pub lanes: Vec<Lane>,
    /// For each service index of the XDP program (one per listen address) the lane that it belongs to.
    pub lane_of_service: Vec<u8>,
    /// Gate words, shared with the XDP program.
    pub gates: Arc<MappedWords>,
    /// Which NIC queue.
    pub queue: u32,
    /// Secret of the transaction hash.
    pub seed: Seed,
    /// Rouses this worker.
    pub wake: Arc<Wake>,
    /// Set to stop.
    pub stop: Arc<AtomicBool>,
    /// Spin instead of sleeping.
    pub spin: bool,
    /// Read by the control thread.
    pub counters: Arc<WorkerCounters>,
}

/// One NIC queue's worker.
#[derive(Debug)]
pub struct Worker {
    parts: Parts,
    /// Last word published per lane.
    published: Vec<u64>,
    statistics_ns: u64,
}

impl Worker {
    /// Puts the parts together; the gates are published open.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let published = vec![u64::MAX; parts.lanes.len()];
        let mut worker = Self { parts, published, statistics_ns: 0 };
        worker.publish();
        worker
    }

    /// Runs until the stop flag is set and what waited is served or answered, or until the interface is gone.
    /// Returns the number of frames that are still outstanding, which is 0 unless a frame leaked.
    pub fn run(mut self) -> u32 {
        let mut drain_until_ns = None;
        loop {
            let now_ns = clock::now();
            let moved = self.turn(now_ns);
            if self.parts.stop.load(Ordering::Acquire) {
                let deadline_ns = *drain_until_ns.get_or_insert(now_ns + DRAIN_NS_MAX);
                let empty =
                    self.parts.lanes.iter().all(|lane| lane.queue.is_empty() && lane.credit.at_server() == 0);
                if (empty && !moved) || now_ns >= deadline_ns {
                    break;
                }
            }
            if !moved && !self.parts.spin {
                self.sleep();
            }
            if self.statistics(now_ns).is_err() {
                break;
            }
        }
        self.finish()
    }

    /// One turn of the loop. True when something moved, so that another turn is worth while at once.
    pub fn turn(&mut self, now_ns: u64) -> bool {
        self.parts.counters.turns.add(1);
        self.reap();
        // Before any work: an empty fill ring makes the kernel drop packets of every class.
        self.parts.port.refill();
        let received = self.receive(now_ns);
        let served = self.serve(now_ns);
        let answered = self.answer_rejected(now_ns);
        let replied = self.send_replies();
        self.publish();
        let pending = self.flush();
        received + served + answered + replied > 0 || pending
    }

    fn reap(&mut self) {
        self.parts.port.reap();
        if let Some(egress) = &mut self.parts.egress {
            egress.reap(&mut self.parts.port);
        }
    }

    /// Moves packets from the rings into the waiting queues.
    fn receive(&mut self, now_ns: u64) -> usize {
        // Control leaves its ring first and enters the queue last: an INVITE that came before its CANCEL is
        // then waiting where the CANCEL looks for it.
        let mut control = Batch::new();
        let mut received = self.parts.port.receive(RING_CONTROL, &mut control);

        let mut batch = Batch::new();
        for _ in 0..NEW_BATCHES_MAX {
            if self.parts.port.receive(RING_NEW, &mut batch) == 0 {
                break;
            }
            received += batch.len();
            for frame in batch.drain(..) {
                self.admit(frame, now_ns);
            }
        }
        for frame in control.drain(..) {
            self.admit(frame, now_ns);
        }
        // Copies stay in their ring, where the kernel drops them at no cost, unless each lane has room.
        if self.parts.lanes.iter().all(|lane| lane.queue.room(Queue::Copy) >= afxdp::BATCH) {
            received += self.parts.port.receive(RING_RETRANSMISSION, &mut batch);
            for frame in batch.drain(..) {
                self.admit(frame, now_ns);
            }
        }
        received
    }

    /// Finishes the classification of one packet and gives it a place in the queue, or sheds it.
    fn admit(&mut self, frame: Frame, now_ns: u64) {
        let meta = Meta::from_bytes(self.parts.port.umem().metadata(&frame));
        let Some((index, message)) = self.read(&meta, frame) else { return };
        let lane = &mut self.parts.lanes[index];
        lane.counters.received(message.class);

        let payload = message.datagram.payload(self.parts.port.umem().packet(&message.frame));
        if message.class == Class::Ack && sip::is_ack_of_own_reply(payload, &self.parts.seed) {
            return self.finish_frame(index, message, Outcome::AckAbsorbed);
        }
        let queue = match (lane.gate.discipline(), message.class) {
            (Discipline::Fifo, _) | (Discipline::Priority, Class::Original) => Queue::New,
            (_, Class::Copy | Class::NotSip | Class::Keepalive | Class::Stun) => Queue::Copy,
            _ => Queue::Control,
        };
        if queue == Queue::New {
            if lane.server_down() {
                return self.shed(index, message, Outcome::RejectedServerDown, now_ns);
            }
            let share_hash = if lane.gate.state() == overload::GateState::Overload {
                sip::share_hash(self.txn_hash(&meta, &message))
            } else {
                0
            };
            let lane = &mut self.parts.lanes[index];
            let in_system = lane.in_system();
            if let Decision::Shed(_) = lane.gate.arrive(now_ns, share_hash, in_system) {
                return self.shed(index, message, Outcome::Rejected, now_ns);
            }
        }
        let lane = &mut self.parts.lanes[index];
        // The call matters to originals, which may have to step forward, and to what may make them do so.
        let call_key = match queue {
            Queue::New => sip::call_key(&self.parts.seed, payload),
            Queue::Control if lane.queue.len_of(Queue::New) > 0 => sip::call_key(&self.parts.seed, payload),
            Queue::Control | Queue::Copy => 0,
        };
        if let Err(message) = lane.queue.push(queue, call_key, meta.arrival_ns.min(now_ns), message) {
            let in_system = lane.in_system();
            lane.gate.depart(now_ns, in_system);
            if queue == Queue::New {
                self.shed(index, message, Outcome::Rejected, now_ns);
            } else {
                self.finish_frame(index, message, Outcome::NoRoom);
            }
        }
    }

    /// What the packet is: the XDP program's word, finished where it was undecided.
    fn read(&mut self, meta: &Meta, frame: Frame) -> Option<(usize, Waiting)> {
        let packet = self.parts.port.umem().packet(&frame);
        let index = self.parts.lane_of_service.get(usize::from(meta.service)).map(|lane| usize::from(*lane));
        let datagram = Datagram::at(packet, usize::from(meta.payload_offset), usize::from(meta.payload_len));
        let (Some(index), Some(datagram)) = (index, datagram) else {
            // Only a program that is not ours could have written this; give the frame back, count it.
            self.parts.counters.bad_descriptors.add(1);
            self.parts.port.give_back(frame);
            return None;
        };
        // An unknown number cannot come from our program; it is treated as what needs a closer look.
        let class = Class::from_u8(meta.class).unwrap_or(Class::Undecided);
        let marker = marker_of(meta);
        let (class, marker) = if class == Class::Undecided {
            let method = Method::from_u8(meta.method).unwrap_or(Method::Other);
            let findings = KernelFindings { start_line_len: meta.start_line_len, method, marker };
            let message = sip::classify_rest(datagram.payload(packet), &findings);
            (message.class, message.marker)
        } else {
            (class, marker)
        };
        Some((index, Waiting { frame, datagram, class, marker }))
    }

    fn txn_hash(&self, meta: &Meta, message: &Waiting) -> u64 {
        if meta.txn_hash != 0 {
            return meta.txn_hash;
        }
        let payload = message.datagram.payload(self.parts.port.umem().packet(&message.frame));
        let start = sip::start_line::skip_line_ends(payload);
        sip::transaction_hash(&self.parts.seed, message.datagram.source.ip(), payload, start, message.marker)
    }

    /// Serves each lane while its server has credit: control, then originals, then copies.
    fn serve(&mut self, now_ns: u64) -> usize {
        let mut served = 0;
        for index in 0..self.parts.lanes.len() {
            self.expire(index, now_ns);
            let in_flight = self.parts.egress.as_ref().map_or(0, Egress::in_flight);
            let lane = &mut self.parts.lanes[index];
            lane.look_if_due(in_flight, now_ns);
            let mut grant = lane.credit.grant();
            if let (Handoff::Kernel(_), Some(egress)) = (&lane.handoff, &self.parts.egress) {
                grant = grant.min(egress.room());
            }
            while grant > 0 {
                let Some(next) = self.parts.lanes[index].queue.pop(now_ns) else { break };
                self.hand_over(index, next.item, next.waited_ns, now_ns);
                grant -= 1;
                served += 1;
            }
            let lane = &mut self.parts.lanes[index];
            let in_system = lane.in_system();
            lane.gate.depart(now_ns, in_system);
        }
        served
    }

    /// Sheds what has waited too long: served after T1 it would only double the work.
    fn expire(&mut self, index: usize, now_ns: u64) {
        let max_wait_ns = self.parts.lanes[index].max_wait_ns;
        while let Some(late) = self.parts.lanes[index].queue.expire(now_ns, max_wait_ns) {
            self.shed(index, late.item, Outcome::RejectedLate, now_ns);
        }
        while let Some(late) = self.parts.lanes[index].queue.expire_copy(now_ns, max_wait_ns) {
            self.finish_frame(index, late.item, Outcome::CopyStale);
        }
    }

    /// Gives one message to the server: the marker comes off, the checksum is completed or checked.
    fn hand_over(&mut self, index: usize, mut message: Waiting, waited_ns: u64, now_ns: u64) {
        let Parts { port, egress, lanes, .. } = &mut self.parts;
        let lane = &mut lanes[index];
        let outcome = match (&mut lane.handoff, egress) {
            (Handoff::Kernel(_), Some(egress)) => {
                let packet = port.umem().packet_mut(&mut message.frame);
                let (to, from) = (egress.destination_mac, egress.source_mac);
                match sip::prepare_handoff(packet, &message.datagram, message.marker, to, from) {
                    Ok(range) => {
                        port.umem().set_range(&mut message.frame, range);
                        match egress.transmit(port, message.frame) {
                            Ok(()) => return lane.handed_over(message.class, waited_ns),
                            Err(frame) => {
                                message.frame = frame;
                                Outcome::NoRoom
                            }
                        }
                    }
                    Err(error) => Outcome::from(error),
                }
            }
            (Handoff::Embedded(exchange), _) => {
                let packet = port.umem().packet(&message.frame);
                match exchange.hand_over(packet, &message.datagram, message.marker, now_ns) {
                    Outcome::HandedOver => {
                        lane.handed_over(message.class, waited_ns);
                        return port.give_back(message.frame);
                    }
                    other => other,
                }
            }
            (Handoff::Kernel(_), None) => Outcome::NoRoom,
        };
        self.finish_frame(index, message, outcome);
    }

    /// Answers originals that the XDP program shed, as far as the reply budget goes.
    fn answer_rejected(&mut self, now_ns: u64) -> usize {
        let mut batch = Batch::new();
        let count = self.parts.port.receive(RING_REJECT, &mut batch);
        for frame in batch.drain(..) {
            let meta = Meta::from_bytes(self.parts.port.umem().metadata(&frame));
            let Some((index, message)) = self.read(&meta, frame) else { continue };
            let lane = &self.parts.lanes[index];
            lane.counters.received(message.class);
            let why = if lane.server_down() { Outcome::RejectedServerDown } else { Outcome::Rejected };
            self.shed(index, message, why, now_ns);
        }
        count
    }

    /// Sheds one message: `why` if an answer goes out, silently if none may.
    fn shed(&mut self, index: usize, message: Waiting, why: Outcome, now_ns: u64) {
        let Parts { port, lanes, seed, counters, .. } = &mut self.parts;
        let lane = &mut lanes[index];
        let outcome = match lane.reply.line {
            Some(line) if lane.reply_budget.take(now_ns) => {
                if reply(port, seed, line, &message) {
                    counters.replies_sent.add(1);
                    why
                } else {
                    Outcome::ShedSilently
                }
            }
            _ => Outcome::ShedSilently,
        };
        self.finish_frame(index, message, outcome);
    }

    /// Counts what became of a message and gives its frame back.
    fn finish_frame(&mut self, index: usize, message: Waiting, outcome: Outcome) {
        self.parts.lanes[index].counters.outcome(message.class, outcome);
        self.parts.port.give_back(message.frame);
    }

    /// Puts replies of embedded processors on the NIC.
    fn send_replies(&mut self) -> usize {
        let Parts { port, lanes, counters, .. } = &mut self.parts;
        let mut sent = 0;
        for lane in lanes {
            let Handoff::Embedded(exchange) = &mut lane.handoff else { continue };
            while sent < afxdp::BATCH {
                let Some(mut frame) = port.take() else { break };
                let umem = port.umem();
                let mut len = 0;
                let taken = exchange.take_reply(|packet| {
                    let buffer = umem.buffer_mut(&mut frame);
                    if let Some(room) = buffer.get_mut(..packet.len()) {
                        room.copy_from_slice(packet);
                        len = packet.len();
                    }
                });
                if !taken {
                    port.give_back(frame);
                    break;
                }
                sent += 1;
                umem.set_range(&mut frame, 0..len);
                match port.transmit(frame) {
                    Ok(()) => counters.replies_sent.add(1),
                    Err(frame) => {
                        counters.transmit_full.add(1);
                        port.give_back(frame);
                    }
                }
            }
        }
        sent
    }

    /// Tells the XDP program the gates' states, and the control thread the gauges.
    fn publish(&mut self) {
        for (service, lane) in self.parts.lane_of_service.iter().enumerate() {
            let word = self.parts.lanes[usize::from(*lane)].word().bits();
            if self.published[usize::from(*lane)] != word {
                self.parts.gates.store(service * xdp_prog::abi::QUEUES_MAX + self.parts.queue as usize, word);
            }
        }
        for (lane, published) in self.parts.lanes.iter().zip(&mut self.published) {
            *published = lane.word().bits();
            lane.publish();
        }
        let umem = self.parts.port.umem();
        self.parts.counters.frames_outstanding.set(u64::from(umem.outstanding()));
        self.parts.counters.frames_free.set(u64::from(umem.places().free));
    }

    /// Starts what was queued for sending; true when some is left for the next turn.
    fn flush(&mut self) -> bool {
        let replies = matches!(self.parts.port.kick(), Ok(Kick::Again));
        let handed = self.parts.egress.as_mut().is_some_and(Egress::flush);
        replies || handed
    }

    /// Sleeps until a packet comes, a processor calls, or a lane is due.
    fn sleep(&mut self) {
        self.parts.wake.prepare();
        let replies = self
            .parts
            .lanes
            .iter()
            .any(|lane| matches!(&lane.handoff, Handoff::Embedded(exchange) if exchange.has_replies()));
        if !replies && !self.parts.stop.load(Ordering::Acquire) {
            let due_ns = self.parts.lanes.iter().filter_map(Lane::due_in_ns).min().unwrap_or(HEARTBEAT_NS);
            self.parts.counters.sleeps.add(1);
            // EINTR and the like: the next turn looks for work anyway.
            let _woken = self.parts.port.wait(&[self.parts.wake.as_fd()], Some(due_ns));
        }
        self.parts.wake.awake();
    }

    /// Copies the kernel's own counters, at most once a second; an error says that the interface is gone.
    fn statistics(&mut self, now_ns: u64) -> Result<(), afxdp::Errno> {
        if now_ns.saturating_sub(self.statistics_ns) < HEARTBEAT_NS {
            return Ok(());
        }
        self.statistics_ns = now_ns;
        // A device that is down may come up again; one that is gone does not.
        if let Err(afxdp::Errno::NXIO) = self.parts.port.probe() {
            return Err(afxdp::Errno::NXIO);
        }
        let counters = &self.parts.counters;
        let mut empty = 0;
        for ring in 0..afxdp::RINGS {
            if let Ok(statistics) = self.parts.port.statistics(ring) {
                counters.ring_full[ring].set(statistics.rx_ring_full);
                // A number of the queue, which each of its sockets repeats.
                empty = statistics.rx_fill_ring_empty_descs;
            }
        }
        if empty > counters.fill_ring_empty.get() {
            tracing::error!(
                empty,
                "the fill ring ran empty: packets of every class were lost; raise frames.count"
            );
        }
        counters.fill_ring_empty.set(empty);
        Ok(())
    }

    /// Lets go of what could not be served in time and closes the hand-off.
    fn finish(mut self) -> u32 {
        for index in 0..self.parts.lanes.len() {
            while let Some(rest) = self.parts.lanes[index].queue.pop(clock::now()) {
                self.finish_frame(index, rest.item, Outcome::NoRoom);
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
        self.parts.port.umem().outstanding()
    }
}

/// Writes a stateless reply to `message` into a fresh frame and queues it on the NIC.
fn reply(port: &mut QueuePort, seed: &Seed, line: ReplyLine, message: &Waiting) -> bool {
    let Some(mut out) = port.take() else { return false };
    let umem = port.umem();
    let request = umem.packet(&message.frame);
    let written = sip::write_reply_packet(request, &message.datagram, seed, line, umem.buffer_mut(&mut out));
    let Ok(reply) = written else {
        port.give_back(out);
        return false;
    };
    umem.set_range(&mut out, 0..reply.len);
    match port.transmit(out) {
        Ok(()) => true,
        Err(out) => {
            port.give_back(out);
            false
        }
    }
}

/// The marker that the XDP program found, its offset counted in the datagram.
fn marker_of(meta: &Meta) -> Option<Marker> {
    let form = MarkerForm::from_u8(meta.marker_form).filter(|form| *form != MarkerForm::None)?;
    let offset = meta.marker_offset.checked_sub(meta.payload_offset)?;
    Some(Marker { form, copy: meta.marker_copy, offset, len: meta.marker_len })
}

/// Whether the server of a lane can be reached; for the status page.
#[must_use]
pub fn server_state_name(number: u64) -> &'static str {
    ServerState::ALL.get(number as usize).map_or("unknown", |state| state.name())
}
