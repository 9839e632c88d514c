//! What responses do: they end transactions, one stateful node after the other, until a client has its answer.

use overload::distributed::Announcement;

use super::{Engine, Event, OK, TIMEOUT, TRYING};
use crate::simulate::controller::Response;
use crate::simulate::station::Message;
use crate::simulate::timers::{GIVE_UP_NS, T1_NS};
use crate::simulate::transaction::{NONE, Progress, Transaction};

impl Engine<'_> {
    /// Sends a response back the way its message came. The message's reference goes with it.
    pub(super) fn respond(&mut self, message: Message, code: u16, announcement: Option<Announcement>) {
        if message.travelled_ns == 0 {
            self.deliver(message.transaction, code, announcement);
            self.transactions.release(message.transaction);
        } else {
            let at = self.now + message.travelled_ns;
            self.agenda.push_anywhere(at, Event::Answered(message.transaction, code, announcement));
        }
    }

    /// A response reaches the sender of a transaction.
    pub(super) fn deliver(&mut self, index: u32, code: u16, announcement: Option<Announcement>) {
        let transaction = self.transactions.get_mut(index);
        match (transaction.progress, code) {
            (Progress::Finished, _) => return,
            (Progress::Open, TRYING) => {
                transaction.progress = Progress::Trying;
                return;
            }
            (_, TRYING) => return,
            _ => {}
        }
        let given_up = transaction.progress == Progress::GivenUp;
        transaction.progress = Progress::Finished;
        let transaction = *transaction;
        match self.node_of(transaction.sender) {
            None => self.count(&transaction, code, given_up),
            Some(node) => {
                self.tell_controller(node, &transaction, code, announcement);
                if transaction.above == NONE {
                    return;
                }
                let message = Message {
                    transaction: transaction.above,
                    copy: false,
                    travelled_ns: transaction.above_delay_ns,
                };
                self.transactions.hold(transaction.above);
                self.respond(message, code, None);
            }
        }
    }

    fn tell_controller(
        &mut self,
        node: usize,
        transaction: &Transaction,
        code: u16,
        announcement: Option<Announcement>,
    ) {
        if self.controllers[node].is_none() {
            return;
        }
        let next = self.route(transaction.sender as usize, transaction).to;
        let delay_ns = self.now - transaction.first_sent;
        let is_probe = transaction.probes != NONE;
        if let Some(controller) = &mut self.controllers[node] {
            controller.respond(&Response { now: self.now, next, code, delay_ns, is_probe, announcement });
        }
    }

    /// A final response reaches a client.
    fn count(&mut self, transaction: &Transaction, code: u16, given_up: bool) {
        if !transaction.counts {
            return;
        }
        let calls = &mut self.outcome.sources[transaction.source as usize];
        let delay_ns = self.now - transaction.first_sent;
        match code {
            OK if !given_up && delay_ns <= GIVE_UP_NS => {
                calls.answered += 1;
                calls.answered_within_t1 += u64::from(delay_ns <= T1_NS);
                calls.delay_ns += u128::from(delay_ns);
                // An automatically sized histogram takes every value.
                let _recorded = self.outcome.delays.record((delay_ns / 1000).max(1));
            }
            OK => {
                // Without timers nobody has counted the failure yet.
                calls.failed += u64::from(!given_up);
                calls.late += 1;
                calls.late_delay_ns += u128::from(delay_ns);
            }
            TIMEOUT => calls.failed += u64::from(!given_up),
            // Refused after it had given up: it has failed already.
            _ => calls.rejected += u64::from(!given_up),
        }
    }
}
