//! What an answer does to a call.

use super::calls::Phase;
use super::{Engine, Outbox};
use crate::clock::Nanos;
use crate::identity::{Token, read_token};
use crate::response::{self, Response};
use crate::template::{BYE_TRANSACTION, FIRST_TRANSACTION, Fill, Method};

impl Engine {
    /// A datagram has arrived at one of the client addresses; its branch says at which call.
    pub fn receive(&mut self, now: Nanos, datagram: &[u8], outbox: &mut impl Outbox) {
        self.tally.wire.received += 1;
        self.tally.bin(now).received += 1;
        let Some(response) = response::parse(datagram) else {
            self.tally.aftermath.not_understood += 1;
            return;
        };
        let Some((token, transaction)) = self.own_branch(response.branch) else {
            self.tally.aftermath.strays += 1;
            return;
        };
        let first_method = self.identities.method(token);
        let method = if transaction == BYE_TRANSACTION { Method::Bye } else { first_method };
        if response.method != method.name().as_bytes() {
            self.tally.aftermath.strays += 1;
            return;
        }
        let Some(slot) = self.calls.find(token) else {
            self.tally.aftermath.forgotten += 1;
            self.acknowledge(token, method, &response, now, outbox);
            return;
        };
        let call = self.calls.get(slot);
        let open = call.method == method && !matches!(call.phase, Phase::Holding | Phase::Closed);
        match (open, response.is_provisional()) {
            (true, true) => self.provisional(slot, now),
            (true, false) => self.first_final(slot, &response, now, outbox),
            (false, true) => {}
            (false, false) => self.repeated_final(slot, method, &response, now, outbox),
        }
    }

    /// The call and the transaction that a branch of ours names.
    fn own_branch(&self, branch: &[u8]) -> Option<(Token, u8)> {
        let (transaction, digits) = branch.split_last()?;
        let token = read_token(digits)?;
        let ours = self.identities.call_no(token) < self.next_call_no;
        (ours && matches!(*transaction, FIRST_TRANSACTION | BYE_TRANSACTION)).then_some((token, *transaction))
    }

    /// Stops timers A and B of an INVITE (17.1.1.2), slows timer E of another request (17.1.2.2).
    fn provisional(&mut self, slot: u32, now: Nanos) {
        let call = self.calls.get_mut(slot);
        call.phase = match call.phase {
            Phase::Calling => {
                self.wheel.cancel(slot);
                Phase::Proceeding
            }
            Phase::Trying => Phase::TryingSlowly,
            same => same,
        };
        if !std::mem::replace(&mut call.provisional, true) {
            let (method, in_window) = (call.method, call.in_window);
            let delay_ns = now.saturating_sub(call.intended);
            self.tally.each(method, in_window, |t| t.to_provisional.record(delay_ns));
        }
    }

    fn first_final(&mut self, slot: u32, response: &Response<'_>, now: Nanos, outbox: &mut impl Outbox) {
        let in_window_now = self.window().contains(&now);
        let call = self.calls.get_mut(slot);
        let (token, method, in_window) = (call.token, call.method, call.in_window);
        let delay_ns = now.saturating_sub(call.intended);
        let in_t1 = delay_ns <= self.config.t1_ns;
        let success = response.is_success();
        self.tally.each(method, in_window, |t| t.finish(response.code, delay_ns, in_t1));
        if method == Method::Bye {
            // A server that refuses a BYE does not know the call (481), or could not take it.
            if !success {
                self.count_lost(slot);
            }
            self.close(slot, now);
            return;
        }
        call.final_code = response.code;
        call.final_at = now;
        let bin = self.tally.bin(now);
        if success {
            bin.answered += 1;
            bin.answered_in_t1 += u32::from(in_t1);
            self.tally.answers_in_window += u64::from(in_window_now);
        } else {
            bin.rejected += 1;
        }
        let fits = self.acknowledge(token, method, response, now, outbox);
        if method == Method::Invite && success && fits {
            self.hold(slot, now);
        } else {
            if method == Method::Invite && success {
                self.tally.aftermath.oversize_dialogs += 1;
                self.count_lost(slot);
            }
            self.close(slot, now);
        }
    }

    /// Keeps the dialog of the answer just acknowledged and sets the time of its BYE.
    fn hold(&mut self, slot: u32, now: Nanos) {
        let bye_at = now + self.hold_ns(self.calls.get(slot).token);
        let call = self.calls.get_mut(slot);
        call.phase = Phase::Holding;
        call.intended = bye_at;
        self.calls.dialog_mut(slot).clone_from(&self.dialog);
        self.wheel.set(slot, bye_at);
    }

    /// A final response to a request that has one or has failed: an INVITE's is acknowledged again.
    fn repeated_final(
        &mut self,
        slot: u32,
        method: Method,
        response: &Response<'_>,
        now: Nanos,
        outbox: &mut impl Outbox,
    ) {
        let t1_ns = self.config.t1_ns;
        let call = self.calls.get_mut(slot);
        let token = call.token;
        let aftermath = &mut self.tally.aftermath;
        if method == Method::Bye && call.method != Method::Bye {
            // An answer to a BYE that was never sent.
            aftermath.strays += 1;
            return;
        }
        if method == Method::Bye {
            aftermath.duplicates += 1;
            return;
        }
        if call.final_code == 0 {
            aftermath.after_failure += 1;
        } else {
            aftermath.duplicates += 1;
            let was_success = (200..300).contains(&call.final_code);
            aftermath.contradictions += u64::from(was_success != response.is_success());
            // T1 after our ACK a server that heard it has no reason to answer again.
            let unheard = method == Method::Invite && was_success && now > call.final_at + t1_ns;
            if unheard && !std::mem::replace(&mut call.ack_unheard, true) {
                aftermath.ack_unheard += 1;
            }
        }
        self.acknowledge(token, method, response, now, outbox);
    }

    /// Sends the ACK for a final response to an INVITE, from what the response says; the dialog stays in `self.dialog`.
    /// False when the response asks for more than a dialog can hold.
    fn acknowledge(
        &mut self,
        token: Token,
        method: Method,
        response: &Response<'_>,
        now: Nanos,
        outbox: &mut impl Outbox,
    ) -> bool {
        if method != Method::Invite || response.is_provisional() {
            return true;
        }
        // The INVITE's own address, so that the Via of an ACK for a refusal is the INVITE's.
        let socket = self.socket_of(self.identities.call_no(token));
        let text = self.identities.text(token);
        let domain = self.templates.domain();
        let fits = if response.is_success() {
            self.dialog.set(response, &[b"sip:", &text.callee, b"@", domain.as_bytes()])
        } else {
            self.dialog.set_refused(response)
        };
        if fits.is_none() {
            return false;
        }
        let fill = Fill { call: &text, local: &self.locals[socket], copy: 0, dialog: &self.dialog };
        if response.is_success() {
            self.templates.ack_answer(&fill, &mut self.message);
        } else {
            self.templates.ack_refusal(&fill, &mut self.message);
        }
        self.tally.wire.acks += 1;
        self.post(socket, now, outbox);
        true
    }
}
