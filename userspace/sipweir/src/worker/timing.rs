//! Which requests' answers are timed.

use sip::Class;

use super::{Parts, Waiting, Worker};

impl Worker {
    /// Writes a request down that is about to be handed over, if it is its turn: the answer may leave before the hand-over
    /// has returned.
    pub(super) fn pick(&mut self, index: usize, message: &Waiting) {
        let Parts { port, lanes, .. } = &mut self.parts;
        let lane = &mut lanes[index];
        if let Some(picks) = &mut lane.picks
            && message.class == Class::Original
            && picks.is_due()
        {
            let datagram = message.datagram.payload(message.body.packet(port.umem()));
            picks.note(datagram, lane.credit.rate_per_s() * lane.mix.share());
        }
    }
}
