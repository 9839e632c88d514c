//! From the rings into the waiting queue: each packet classified to the end, admitted or shed, and put in its place
//! without overtaking its call.
//!
//! # Order within a call
//!
//! Messages of one call may come by different rings: an INVITE by `new` and its CANCEL by `control`; or an ACK by
//! `control` and the INVITE after it by `new`, which user space may raise to control. They are put in the order of their
//! arrival first (`inflow`), and the queue keeps it: a control message waits behind older originals of its call.
//!
//! Copies are read first: a younger message of their call, whichever ring it comes by, then finds them waiting and
//! outdates them.

use afxdp::{BATCH, Batch, Frame};
use overload::{Decision, Discipline, Gate, Known, Lane as Queue, TransactionState};
use sip::{CallLines, Class, Datagram, KernelFindings, Marker, MarkerForm, Message, Method, Reason};
use xdp_prog::Meta;

use super::inflow::Ring;
use super::{Parts, RING_CONTROL, RING_NEW, RING_RETRANSMISSION, Worker};
use crate::body::Body;
use crate::counters::Outcome;
use crate::lane::Waiting;
use crate::limits;
use crate::transactions::{Entry, in_excess};

/// Rounds of reading in one turn: with a batch of 64 frames each, more than the largest sensible ring, so that a turn
/// empties it, and yet bounded under a flood.
const ROUNDS_MAX: usize = 64;
/// Messages of each ring that can be on their way at a time. A batch of one ring may have to wait for as many batches of
/// the other as were filled meanwhile.
pub(super) const INFLOW_MAX: usize = 4 * BATCH;

/// A packet that was read, on its way into a queue.
#[derive(Debug)]
pub(super) struct Arrived {
    /// Which lane.
    index: usize,
    /// Which of the listen addresses.
    service: u8,
    /// When the XDP program saw it.
    pub(super) arrival_ns: u64,
    /// For the limit of its copies.
    method: Method,
    /// The XDP program has found its transaction in the table.
    is_known: bool,
    /// An original that brings credentials is inside twice the share: it was admitted and challenged before, and to shed it
    /// now would waste that work. Not inside every share, since any bytes can be credentials.
    has_credentials: bool,
    pub(super) message: Waiting,
}

impl Arrived {
    /// A message that the XDP program has not looked at.
    pub(super) fn unhashed(
        index: usize,
        service: u8,
        arrival_ns: u64,
        found: &Message,
        message: Waiting,
    ) -> Self {
        let has_credentials = found.reason == Reason::Credentials;
        Self { index, service, arrival_ns, method: found.method, is_known: false, has_credentials, message }
    }
}

impl Worker {
    /// Moves packets from the rings into the waiting queues; how many.
    pub(super) fn receive(&mut self, now_ns: u64) -> usize {
        // At most a batch a turn: more of them is dropped in the kernel, at a full ring and no cost.
        let mut batch = Batch::new();
        let mut received = self.parts.port.receive(RING_RETRANSMISSION, &mut batch);
        for frame in batch.drain(..) {
            let Some(arrived) = self.read(frame) else { continue };
            let queue = self.queue_of(&arrived);
            self.enqueue(arrived, queue, now_ns);
        }

        received += self.read_side_door(now_ns);
        for _ in 0..ROUNDS_MAX {
            let read = self.read_ring(Ring::New, &mut batch) + self.read_ring(Ring::Control, &mut batch);
            received += read;
            while let Some(arrived) = self.inflow.next() {
                let queue = self.queue_of(&arrived);
                self.enqueue(arrived, queue, now_ns);
            }
            if read == 0 {
                break;
            }
            // A flood must neither drain the fill ring nor meet a gate that has changed since.
            self.parts.port.refill();
            self.publish_gates();
        }
        received
    }

    /// A batch of a ring, into `inflow`; how many.
    fn read_ring(&mut self, ring: Ring, batch: &mut Batch) -> usize {
        let number = match ring {
            Ring::Control => RING_CONTROL,
            Ring::New => RING_NEW,
        };
        let has_room = self.inflow.room_for(ring) >= BATCH;
        let read = if has_room { self.parts.port.receive(number, batch) } else { 0 };
        for frame in batch.drain(..) {
            if let Some(mut arrived) = self.read(frame) {
                self.prepare_recall(&mut arrived);
                self.inflow.push(ring, arrived.arrival_ns, arrived);
            }
        }
        self.inflow.was_read(ring, has_room && read < BATCH);
        read
    }

    /// What the packet is: the XDP program's word, finished where it was undecided.
    pub(super) fn read(&mut self, frame: Frame) -> Option<Arrived> {
        let meta = Meta::from_bytes(self.parts.port.umem().metadata(&frame));
        let packet = self.parts.port.umem().packet(&frame);
        let index = self.parts.lane_of_service.get(usize::from(meta.service)).map(|lane| usize::from(*lane));
        let datagram = Datagram::at(packet, usize::from(meta.payload_offset), usize::from(meta.payload_len));
        let (Some(index), Some(datagram)) = (index, datagram) else {
            // Only a program that is not ours could have written this; give the frame back, count it.
            self.parts.counters.bad_metadata.add(1);
            self.parts.port.give_back(frame);
            return None;
        };
        // An unknown number cannot come from our program; it is treated as what needs a closer look.
        let class = Class::from_u8(meta.class).unwrap_or(Class::Undecided);
        let marker = marker_of(&meta);
        let method = Method::from_u8(meta.method).unwrap_or(Method::Other);
        let reason = Reason::from_u8(meta.reason).unwrap_or(Reason::Unset);
        let (class, reason, method, marker) = if class == Class::Undecided {
            let findings = KernelFindings { start_line_len: meta.start_line_len, method, marker };
            let payload = datagram.payload(packet);
            let found = sip::classify_rest(payload, &findings);
            let message = self.parts.privileged.raise(found, payload, datagram.source.ip());
            (message.class, message.reason, message.method, message.marker)
        } else {
            (class, reason, method, marker)
        };
        let is_known =
            matches!(reason, Reason::OriginalServed | Reason::OriginalShed | Reason::OriginalWaits);
        let has_credentials = reason == Reason::Credentials;
        let begins_call = limits::begins_call(class, method);
        let message = Waiting {
            body: Body::Frame(frame),
            datagram,
            class,
            marker,
            txn: Entry::of(meta.txn_hash),
            begins_call,
        };
        let (service, arrival_ns) = (meta.service, meta.arrival_ns);
        Some(Arrived { index, service, arrival_ns, method, is_known, has_credentials, message })
    }

    /// Which of the waiting lines a message belongs to.
    pub(super) fn queue_of(&self, arrived: &Arrived) -> Queue {
        match (self.parts.lanes[arrived.index].gate.discipline(), arrived.message.class) {
            (Discipline::Fifo, _) | (Discipline::Priority, Class::Original) => Queue::New,
            (_, Class::Copy | Class::NotSip | Class::Keepalive | Class::Stun) => Queue::Copy,
            _ => Queue::Control,
        }
    }

    /// Gives a message its place in the queue, or sheds it.
    pub(super) fn enqueue(&mut self, mut arrived: Arrived, mut queue: Queue, now_ns: u64) {
        let index = arrived.index;
        if self.parts.local.contains(arrived.message.datagram.source.ip()) {
            self.parts.lanes[index].counters.received(arrived.message.class);
            return self.finish_frame(index, arrived.message, Outcome::SourceLocal);
        }
        let known = self.recall(&mut arrived, now_ns);
        if self.parts.lanes[index].monitored.has(arrived.message.class) {
            return self.let_pass(arrived, now_ns);
        }
        if known.is_some() {
            queue = Queue::Copy;
        }
        let Arrived { service, arrival_ns, method, has_credentials, mut message, .. } = arrived;
        let lane = &mut self.parts.lanes[index];
        lane.counters.received(message.class);
        match known {
            Some(known) if in_excess(known, method) => {
                return self.finish_frame(index, message, Outcome::CopyExcess);
            }
            Some(Known { state: TransactionState::Queued, .. }) => {
                return self.finish_frame(index, message, Outcome::CopyAbsorbed);
            }
            Some(Known { state: TransactionState::Shed, .. }) => {
                return self.shed(index, message, Outcome::Rejected, now_ns);
            }
            Some(Known { state: TransactionState::HandedOver, .. }) | None => {}
        }
        let lane = &mut self.parts.lanes[index];

        let payload = message.datagram.payload(message.body.packet(self.parts.port.umem()));
        if message.class == Class::Ack && sip::is_ack_of_own_reply(payload, &self.parts.seed) {
            if lane.queue.len_of(Queue::Copy) > 0 {
                lane.queue.outdate_copies(sip::call_key(&self.parts.seed, payload), arrival_ns);
            }
            return self.finish_frame(index, message, Outcome::AckAbsorbed);
        }
        if message.class == Class::NotSip && self.parts.drop_not_sip {
            return self.finish_frame(index, message, Outcome::NotSipDropped);
        }
        // The call matters to what waits behind control messages, and to what may move it.
        let others_wait = lane.queue.len_of(Queue::New) + lane.queue.len_of(Queue::Copy) > 0;
        let mut call = match queue {
            // What begins a call must be known by it when the server has it.
            Queue::Control if !others_wait && !message.begins_call => CallLines::default(),
            Queue::Control => sip::call_lines(&self.parts.seed, payload),
            // Noise and keep-alives belong to no call, whatever they contain.
            Queue::Copy if message.class != Class::Copy => CallLines::default(),
            Queue::Copy => CallLines { key: sip::call_key(&self.parts.seed, payload), cseq_method: None },
            // What is shed needs none.
            Queue::New => CallLines::default(),
        };
        if queue == Queue::Control && !lane.is_within_cap(&self.parts.seed, &message, call.key, now_ns) {
            if call.key == 0 {
                call = sip::call_lines(&self.parts.seed, payload);
            }
            if !lane.is_of_admitted_call(call.key, now_ns) {
                queue = Queue::Copy;
            }
        }
        if queue == Queue::Control && limits::is_in_disguise(message.class, method, call.cseq_method) {
            queue = Queue::Copy;
        }
        if queue == Queue::Copy && limits::has_cap(message.class) {
            lane.counters.above_cap(message.class);
        }
        let mut call_key = call.key;
        if queue == Queue::New {
            if lane.server_down() {
                return self.shed(index, message, Outcome::RejectedServerDown, now_ns);
            }
            // Before the gate, which shall not count it.
            if !lane.is_original_within_cap(&self.parts.seed, &message, now_ns) {
                return self.shed(index, message, Outcome::RejectedAboveCap, now_ns);
            }
            let share_hash = match (lane.gate.looks_at_hash(), message.txn.hash) {
                (false, _) => 0,
                (_, 0) => sip::share_hash(self.txn_hash(&message, service), service),
                (_, hash) => sip::share_hash(hash, service),
            };
            // As in the XDP program: inside twice the share.
            let share_hash = share_hash >> u32::from(has_credentials);
            let lane = &mut self.parts.lanes[index];
            let in_system = lane.in_system();
            if let Decision::Shed(_) = lane.gate.arrive(now_ns, share_hash, in_system) {
                return self.shed(index, message, Outcome::Rejected, now_ns);
            }
            let payload = message.datagram.payload(message.body.packet(self.parts.port.umem()));
            call_key = sip::call_key(&self.parts.seed, payload);
            afxdp::prefetch(self.parts.lanes[index].queue.memory_of(call_key));
        }
        let Parts { lanes, transactions, counters, .. } = &mut self.parts;
        let lane = &mut lanes[index];
        if queue == Queue::Copy {
            // It leaves the table as it is until the server has it; where there was room now, somebody else may be then.
            message.txn = Entry::of(message.txn.hash);
        } else {
            transactions.settle(&mut message.txn, TransactionState::Queued, now_ns, counters);
        }
        let arrival_ns = arrival_ns.min(now_ns);
        let pushed = if queue == Queue::Copy && limits::has_cap(message.class) {
            lane.queue.push_surplus(call_key, arrival_ns, message)
        } else {
            lane.queue.push(queue, call_key, arrival_ns, message)
        };
        if let Err(message) = pushed {
            let in_system = lane.in_system();
            lane.gate.depart(now_ns, in_system);
            if queue == Queue::New {
                self.shed(index, message, Outcome::Rejected, now_ns);
            } else {
                self.finish_frame(index, message, Outcome::NoRoom);
            }
        }
    }

    /// Gives a message of a class that is only watched its turn, whatever it is: it came by the side door, or only the
    /// worker could tell what it is.
    fn let_pass(&mut self, arrived: Arrived, now_ns: u64) {
        let Arrived { index, arrival_ns, mut message, .. } = arrived;
        let payload = message.datagram.payload(message.body.packet(self.parts.port.umem()));
        let call_key = sip::call_key(&self.parts.seed, payload);
        let Parts { lanes, transactions, counters, .. } = &mut self.parts;
        let lane = &mut lanes[index];
        lane.counters.received(message.class);
        transactions.settle(&mut message.txn, TransactionState::Queued, now_ns, counters);
        if let Err(message) = lane.queue.push(Queue::Control, call_key, arrival_ns.min(now_ns), message) {
            self.finish_frame(index, message, Outcome::NoRoom);
        }
    }

    /// Hashes what [`Self::recall`] will look up, and has its bucket fetched until then.
    fn prepare_recall(&self, arrived: &mut Arrived) {
        let Arrived { index, service, is_known, ref mut message, .. } = *arrived;
        if is_known || !self.is_remembered(index, message.class) {
            return;
        }
        if message.txn.hash == 0 {
            message.txn = Entry::of(self.txn_hash(message, service));
        }
        self.parts.transactions.prefetch(message.txn);
    }

    /// Looks up what the XDP program could not: messages whose start line or headers it left to user space, and requests
    /// whose original was still in a ring. What is known is a copy. Afterwards `txn` is set for exactly what the
    /// table shall remember: requests that may be copied and whose copies may wait.
    pub(super) fn recall(&mut self, arrived: &mut Arrived, now_ns: u64) -> Option<Known> {
        let Arrived { index, service, is_known, ref mut message, .. } = *arrived;
        // Of those that claim to be copies only the first.
        if !self.is_remembered(index, message.class) || (message.class == Class::Copy && is_known) {
            let priority = self.parts.lanes[index].gate.discipline() == Discipline::Priority;
            if !priority || message.class != Class::Original {
                message.txn = Entry::default();
            }
            return None;
        }
        if message.txn.hash == 0 {
            message.txn = Entry::of(self.txn_hash(message, service));
        }
        let known = self.parts.transactions.recall(&mut message.txn, now_ns);
        self.parts.lanes[index].inquiry.note(known.is_some(), now_ns);
        let known = known?;
        message.class = Class::Copy;
        message.txn = Entry::default();
        Some(known)
    }

    /// Whether the table remembers messages of this class. An emergency call's copies are never put last, and a prober may
    /// send the same bytes for ever.
    fn is_remembered(&self, index: usize, class: Class) -> bool {
        matches!(class, Class::Original | Class::InDialog | Class::Copy)
            && self.parts.lanes[index].gate.discipline() == Discipline::Priority
            && self.parts.transactions.is_on()
    }

    /// What the XDP program's filter knows a request by whose copies the table would know.
    pub(super) fn beginning_of(&self, index: usize, message: &Waiting) -> Option<u64> {
        if !self.is_remembered(index, message.class) {
            return None;
        }
        let payload = message.datagram.payload(message.body.packet(self.parts.port.umem()));
        sip::beginning_hash(&self.parts.key, message.datagram.source.ip(), payload)
    }

    fn txn_hash(&self, message: &Waiting, service: u8) -> u64 {
        let payload = message.datagram.payload(message.body.packet(self.parts.port.umem()));
        let start = sip::start_line::skip_line_ends(payload);
        let source = message.datagram.source.ip();
        sip::transaction_hash(&self.parts.key, source, service, payload, start, message.marker)
    }

    /// The lane and the message of a packet from the reject ring.
    pub(super) fn read_rejected(&mut self, frame: Frame) -> Option<(usize, Waiting)> {
        let Arrived { index, mut message, .. } = self.read(frame)?;
        // The XDP program has entered it.
        message.txn = Entry::default();
        self.parts.lanes[index].counters.received(message.class);
        if self.parts.local.contains(message.datagram.source.ip()) {
            self.finish_frame(index, message, Outcome::SourceLocal);
            return None;
        }
        Some((index, message))
    }
}

/// The marker that the XDP program found, its offset counted in the datagram.
fn marker_of(meta: &Meta) -> Option<Marker> {
    let form = MarkerForm::from_u8(meta.marker_form).filter(|form| *form != MarkerForm::None)?;
    let offset = meta.marker_offset.checked_sub(meta.payload_offset)?;
    Some(Marker { form, copy: meta.marker_copy, offset, len: meta.marker_len })
}
