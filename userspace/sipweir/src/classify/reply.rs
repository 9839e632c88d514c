//! `--reply`: what each request would be told if the gate shed it.
//!
//! The same policy and the same writer as in the worker; only budgets and caps are left out, which depend on what came
//! before. The gate is taken to be at the beginning of overload with the share of its configuration, and `oc-seq` counts the replies.

use super::say;
use std::net::IpAddr;

use overload::{GateState, GateWord};
use serde::Serialize;
use sip::{ControlGiven, Seed, Services};

use super::FRAME_BYTES_MAX;
use crate::config::{Config, Gate, Reply};
use crate::reply_policy::{ReplyPolicy, ReplyRules};

/// A reply, or the reason for none.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum ReplyAnswer {
    /// It would be sent.
    Sent {
        /// Address and port.
        to: String,
        /// All of it; bytes that are no UTF-8 are shown as U+FFFD.
        text: String,
        /// `overload_control` if there was no room for what the client offers.
        #[serde(skip_serializing_if = "Option::is_none")]
        left_out: Option<&'static str>,
    },
    /// None would.
    None {
        /// Why.
        none: &'static str,
    },
}

/// Writes the replies of a run.
#[derive(Debug)]
pub(super) struct Replies {
    seed: Seed,
    services: Services,
    /// By service index: the policy and the gate's word.
    policies: Vec<(ReplyPolicy, GateWord)>,
    /// Counts, one step of `oc-seq` each.
    written: u64,
    out: Vec<u8>,
}

impl Replies {
    /// For the services of a configuration, or for plain endpoints with default replies.
    pub(super) fn new(config: Option<&Config>, endpoints: &[(Option<IpAddr>, u16)], seed: Seed) -> Self {
        let word = |gate: &Gate| {
            GateWord::new(GateState::Overload, GateWord::threshold_of(gate.share_in_overload()))
        };
        let policies = match config {
            Some(config) => config
                .service
                .values()
                .flat_map(|service| {
                    let policy =
                        (ReplyPolicy::new(ReplyRules::of_service(service), 0, 0), word(&service.gate));
                    std::iter::repeat_n(policy, service.listen.0.len())
                })
                .collect(),
            None => {
                let policy =
                    (ReplyPolicy::new(ReplyRules::new(&Reply::default()), 0, 0), word(&Gate::default()));
                vec![policy; endpoints.len()]
            }
        };
        let seed = config.and_then(|config| config.seed.as_ref()).map_or(seed, |seed| Seed(seed.0));
        let services = Services::new(endpoints.iter().copied());
        // As much as a datagram and its headers can have.
        Self { seed, services, policies, written: 0, out: vec![0; 1 << 17] }
    }

    /// The reply to a packet.
    pub(super) fn answer(&mut self, packet: &[u8]) -> ReplyAnswer {
        match self.write(packet) {
            Ok(sent) => sent,
            Err(none) => ReplyAnswer::None { none },
        }
    }

    fn write(&mut self, packet: &[u8]) -> Result<ReplyAnswer, &'static str> {
        let parsed = sip::parse_packet(packet, &self.services, FRAME_BYTES_MAX as usize);
        let (datagram, service) = parsed.map_err(|_pass| "not_guarded")?;
        let message = sip::classify(datagram.payload(packet));
        if !message.class.may_be_shed() {
            return Err(if message.start_line_len == 0 || message.class == sip::Class::Response {
                "not_a_request"
            } else {
                "never_shed"
            });
        }
        let (policy, word) = self.policies.get_mut(usize::from(service)).ok_or("not_guarded")?;
        self.written += 1;
        // Hundred-thousandths of a second, in nanoseconds.
        let refusal = policy.refusal(datagram.source.ip(), *word, self.written * 10_000);
        let refusal = refusal.ok_or("silent_by_choice")?;
        let reply = sip::write_reply_packet(packet, &datagram, &self.seed, refusal, &mut self.out)
            .map_err(sip::NoReply::name)?;
        // The reply's headers are as long as the request's.
        let text = &self.out[datagram.payload_offset..reply.len];
        Ok(ReplyAnswer::Sent {
            to: reply.destination.to_string(),
            text: String::from_utf8_lossy(text).into_owned(),
            left_out: (reply.control == ControlGiven::LongerThanRequest).then_some("overload_control"),
        })
    }
}

/// The reply for people, indented below the packet's row.
pub(super) fn print(answer: &ReplyAnswer) {
    match answer {
        ReplyAnswer::None { none } => say(&format!("    no reply: {none}")),
        ReplyAnswer::Sent { to, text, left_out } => {
            let left_out = left_out.map_or(String::new(), |what| format!(", no room for {what}"));
            say(&format!("    reply to {to}{left_out}"));
            for line in text.trim_end().lines() {
                say(&format!("      {}", line.escape_debug()));
            }
        }
    }
}
