//! What leaves by the NIC: stateless answers to what is shed, and the replies of embedded processors.
//!
//! Replies of processors go first, and both stop where the TX ring is full: what waits in a ring or a queue can be
//! answered in the next turn, while an answer that is thrown away comes back as a copy.

use afxdp::{BATCH, Batch, Frame, QueuePort};
use sip::{Checksum, ControlGiven, Refusal, Seed};

use super::{Parts, RING_REJECT, Worker};
use crate::counters::Outcome;
use crate::handoff::Handoff;
use crate::lane::Waiting;
use crate::side_door::SideDoor;

impl Worker {
    /// Answers originals that the XDP program shed, as far as the reply budget goes.
    pub(super) fn answer_rejected(&mut self, now_ns: u64) -> usize {
        if (self.parts.port.tx_room() as usize) < BATCH {
            return 0;
        }
        let mut batch = Batch::new();
        let count = self.parts.port.receive(RING_REJECT, &mut batch);
        for frame in batch.drain(..) {
            let Some((index, message)) = self.read_rejected(frame) else { continue };
            let down = self.parts.lanes[index].server_down();
            let why = if down { Outcome::RejectedServerDown } else { Outcome::Rejected };
            self.shed(index, message, why, now_ns);
        }
        count
    }

    /// Sheds one message: `why` if an answer goes out, else the reason for silence. A damaged datagram is nobody's request
    /// (RFC 1122 section 4.1.3.4), and nothing is remembered of it.
    pub(super) fn shed(&mut self, index: usize, message: Waiting, why: Outcome, now_ns: u64) {
        let Parts { port, lanes, seed, counters, side_door, .. } = &mut self.parts;
        let lane = &mut lanes[index];
        if sip::verify_udp(message.body.packet(port.umem()), &message.datagram) == Checksum::Wrong {
            return self.finish_frame(index, message, Outcome::ChecksumWrong);
        }
        let word = lane.word();
        let outcome = match lane.reply.permit(seed, message.datagram.source.ip(), word, now_ns) {
            Err(silence) => silence.into(),
            Ok(permit) => match reply(port, side_door.as_ref(), seed, &permit.refusal, &message) {
                Err(silent) => silent,
                Ok(control) => {
                    lane.reply.spend(&permit, now_ns);
                    counters.replies_sent.add(1);
                    if control == ControlGiven::LongerThanRequest {
                        lane.counters.control_left_out.add(1);
                    }
                    why
                }
            },
        };
        self.finish_frame(index, message, outcome);
    }

    /// Puts replies of embedded processors on the NIC.
    pub(super) fn send_replies(&mut self) -> usize {
        let Parts { port, lanes, counters, side_door, .. } = &mut self.parts;
        let mut sent = 0;
        for lane in lanes {
            let Handoff::Embedded(exchange) = &mut lane.handoff else { continue };
            while sent < BATCH && port.tx_room() > 0 && exchange.has_replies() {
                let Some(mut frame) = port.take() else { break };
                let umem = port.umem();
                let mut len = 0;
                exchange.take_reply(|packet| {
                    if let Some(room) = umem.buffer_mut(&mut frame).get_mut(..packet.len()) {
                        room.copy_from_slice(packet);
                        len = packet.len();
                    }
                });
                umem.set_range(&mut frame, 0..len);
                sent += 1;
                match transmit(port, side_door.as_ref(), frame) {
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
}

/// Writes a stateless reply to `message` into a fresh frame and queues it on the NIC.
///
/// # Errors
///
/// The reason why none goes out.
fn reply(
    port: &mut QueuePort,
    side_door: Option<&SideDoor>,
    seed: &Seed,
    refusal: &Refusal,
    message: &Waiting,
) -> Result<ControlGiven, Outcome> {
    let mut out = port.take().ok_or(Outcome::SilentNoTxRoom)?;
    let umem = port.umem();
    let request = message.body.packet(umem);
    let room = umem.buffer_mut(&mut out);
    let reply = match sip::write_reply_packet(request, &message.datagram, seed, *refusal, room) {
        Ok(reply) => reply,
        Err(reason) => {
            port.give_back(out);
            return Err(reason.into());
        }
    };
    umem.set_range(&mut out, 0..reply.len);
    match transmit(port, side_door, out) {
        Ok(()) => Ok(reply.control),
        Err(out) => {
            port.give_back(out);
            Err(Outcome::SilentNoTxRoom)
        }
    }
}

/// Sends a reply the way its request came: by the NIC, or by the side door if it has no link to leave by.
fn transmit(port: &mut QueuePort, side_door: Option<&SideDoor>, frame: Frame) -> Result<(), Frame> {
    let packet = port.umem().packet(&frame);
    match side_door {
        Some(door) if !sip::has_link(packet) => {
            if !door.send(packet) {
                return Err(frame);
            }
            port.give_back(frame);
            Ok(())
        }
        _ => port.transmit(frame),
    }
}
