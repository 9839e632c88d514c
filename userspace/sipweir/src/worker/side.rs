//! From the side door into the waiting queue: the same classes, gate, order and counters as for packets of the rings.
//!
//! One worker does it, that of queue 0: the kernel has put these datagrams together on whatever CPU, so they belong to
//! no queue, and one reader keeps their order among themselves. With messages of the same call that came by the rings,
//! order is as good as arrival times: what the kernel noted when the last fragment came is compared with what the XDP
//! program noted. A call whose other messages belong to another worker has no order to them.
//!
//! Not here: the sockets (`side_door`).

use afxdp::BATCH;
use overload::{Lane as Queue, TransactionState};
use sip::Class;

use super::inflow::Ring;
use super::receive::Arrived;
use super::{Parts, Worker};
use crate::body::{Body, Large};
use crate::counters::Outcome;
use crate::lane::Waiting;
use crate::limits;
use crate::side_door::{Look, Received, SideDoor};
use crate::transactions::Entry;

/// Datagrams taken in a turn: so few that a flood of fragments leaves the turn to the rings.
pub(super) const SIDE_MAX: usize = BATCH / 2;

impl Worker {
    /// The next turn looks at the side door, even if the last has found nothing there.
    pub(super) fn look_at_side_door_soon(&mut self) {
        if let Some(door) = &mut self.parts.side_door {
            door.look_soon();
        }
    }

    /// Takes in what came by the side door, among the messages of the rings by its time. How many.
    pub(super) fn read_side_door(&mut self, now_ns: u64) -> usize {
        let families = self.parts.side_door.as_ref().map_or(0, SideDoor::families);
        let mut taken = 0;
        for family in 0..families {
            for _ in 0..SIDE_MAX / 2 {
                if self.inflow.room_for(Ring::Control) == 0 || self.inflow.room_for(Ring::New) == 0 {
                    return taken;
                }
                let Some(looked) = self.look_at_side_door(family, now_ns) else { break };
                taken += 1;
                if let Some(arrived) = looked {
                    let is_control = self.queue_of(&arrived) == Queue::Control;
                    let ring = if is_control { Ring::Control } else { Ring::New };
                    self.inflow.insert(ring, arrived.arrival_ns, arrived);
                }
            }
        }
        taken
    }

    /// One datagram: `None` if there is none, `Some(None)` if it has found its end.
    fn look_at_side_door(&mut self, family: usize, now_ns: u64) -> Option<Option<Arrived>> {
        let Parts { side_door, counters, lane_of_service, .. } = &mut self.parts;
        let door = side_door.as_mut().filter(|door| door.is_due(family, now_ns))?;
        let mut large = door.pool.take()?;
        let (received, index) = match door.look(family, &mut large, now_ns) {
            Look::Empty => {
                door.pool.give_back(large);
                return None;
            }
            Look::Datagram(received) => {
                let index = lane_of_service.get(usize::from(received.service)).copied();
                (Some(received), index)
            }
            Look::Foreign => (None, None),
        };
        let (Some(received), Some(index)) = (received, index) else {
            counters.side_foreign.add(1);
            door.pool.give_back(large);
            return Some(None);
        };
        counters.side_received.add(1);
        Some(self.admit(usize::from(index), large, &received, now_ns))
    }

    /// Classifies a datagram and finds it a place to wait in; what cannot wait is finished here.
    fn admit(&mut self, index: usize, large: Large, received: &Received, now_ns: u64) -> Option<Arrived> {
        let (payload, source) = (received.datagram.payload(large.packet()), received.datagram.source.ip());
        let found = self.parts.privileged.raise(sip::classify(payload), payload, source);
        let (body, datagram) = (self.body_of(large), received.datagram);
        let begins_call = limits::begins_call(found.class, found.method);
        let message = Waiting {
            body,
            datagram,
            class: found.class,
            marker: found.marker,
            txn: Entry::default(),
            begins_call,
        };
        let mut arrived = Arrived::unhashed(index, received.service, received.arrival_ns, &found, message);
        if self.parts.side_door.as_ref().is_none_or(|door| door.pool.free() > 0) {
            return Some(arrived);
        }
        // Without another buffer to receive into, the next datagram could not be looked at.
        let known = self.recall(&mut arrived, now_ns);
        let message = arrived.message;
        self.parts.lanes[index].counters.received(message.class);
        let was_shed = known.is_some_and(|known| known.state == TransactionState::Shed);
        if message.class == Class::Original || was_shed {
            self.shed(index, message, Outcome::Rejected, now_ns);
        } else {
            self.finish_frame(index, message, Outcome::NoRoom);
        }
        None
    }

    /// Moves a packet into a frame if it fits, and one is free.
    fn body_of(&mut self, large: Large) -> Body {
        let Parts { port, side_door, .. } = &mut self.parts;
        let Some(mut frame) = port.take() else { return Body::Large(large) };
        let packet = large.packet();
        let Some(room) = port.umem().buffer_mut(&mut frame).get_mut(..packet.len()) else {
            port.give_back(frame);
            return Body::Large(large);
        };
        room.copy_from_slice(packet);
        port.umem().set_range(&mut frame, 0..packet.len());
        if let Some(door) = side_door {
            door.pool.give_back(large);
        }
        Body::Frame(frame)
    }
}

impl Parts {
    /// Puts the place of a message's bytes back to where it came from.
    pub(super) fn give_back(&mut self, body: Option<Body>) {
        match (body, &mut self.side_door) {
            (Some(Body::Frame(frame)), _) => self.port.give_back(frame),
            (Some(Body::Large(large)), Some(door)) => door.pool.give_back(large),
            // Nothing to give back; and without a side door nobody makes large ones.
            (Some(Body::Large(_)) | None, _) => {}
        }
    }

    /// Frames and large buffers in this worker's hands.
    pub(super) fn outstanding(&self) -> u32 {
        let large = self.side_door.as_ref().map_or(0, |door| door.pool.outstanding());
        // A pool has far fewer buffers than 2^32.
        self.port.umem().outstanding() + large as u32
    }
}
