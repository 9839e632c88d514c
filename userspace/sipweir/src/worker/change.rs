//! A worker goes on by another configuration, between two turns: what waits, the transaction table, credit, counters and the
//! state of the gates stay.

use super::Worker;

impl Worker {
    /// Takes over a change that waits, if one does.
    pub(super) fn take_change(&mut self, now_ns: u64) {
        let parts = &mut self.parts;
        if !parts.changes.is_waiting() {
            return;
        }
        let Some(mut change) = parts.changes.take() else { return };
        for (lane, change) in parts.lanes.iter_mut().zip(&mut change.lanes) {
            lane.change(change, now_ns);
        }
        std::mem::swap(&mut parts.privileged, &mut change.privileged);
        std::mem::swap(&mut parts.spin, &mut change.spin);
        std::mem::swap(&mut parts.drop_not_sip, &mut change.drop_not_sip);
        parts.changes.give_back(change);
    }
}
