//! Whether the program's word on a packet agrees with user space. Pure: a run goes in, a counter cell or a complaint
//! comes out.
//!
//! A run says less than the counters: class and reason of a packet that was passed or dropped stand only there, and so
//! does which ring a packet was for. So the judge says which cell the run must have counted in, and the engine compares
//! the sums.

use std::net::IpAddr;

use sip::class::{Class, MarkerForm, Method, Reason, Verdict};
use sip::{
    Datagram, KernelFindings, Marker, Message, Seed, Services, TransactionKey, classify, classify_rest,
    parse_packet, share_hash, transaction_hash, verdict_of,
};
use xdp_prog::{Action, BareRun, HashKey, Meta, ServiceAddress, Settings};

use crate::packet::{ANY_PORT, PORT, SERVICE_V4, SERVICE_V6};

/// Longest packet that is taken up.
pub const FRAME_LEN: u32 = 2048;

/// Class, verdict and reason under which a packet was counted.
pub type Cell = (Class, Verdict, Reason);

/// The settings of one loaded program, and the same for user space.
#[derive(Debug)]
pub struct Guard {
    /// For the program.
    pub settings: Settings,
    services: Services,
    key: TransactionKey,
}

impl Guard {
    /// Services of both families that owe replies, and one that owes none.
    #[must_use]
    pub fn new(drop_not_sip: bool) -> Self {
        let key = TransactionKey::new(&Seed([
            0x0f1e_2d3c_4b5a_6978,
            0x8796_a5b4_c3d2_e1f0,
            0x0123_4567_89ab_cdef,
            0xfedc_ba98_7654_3210,
        ]));
        let service = |ip, port, reply_owed| ServiceAddress { ip, port, reply_owed };
        let services = vec![
            service(Some(IpAddr::from(SERVICE_V4)), PORT, true),
            service(Some(IpAddr::from(SERVICE_V6)), PORT, true),
            service(None, ANY_PORT, false),
        ];
        // Any link: which frames are the host's is the configuration's matter, and tested with it. No table: what it makes
        // of copies follows from what came before (xdp-prog/tests/transactions.rs).
        let settings = Settings {
            max_frame_len: FRAME_LEN,
            not_sip_drop: drop_not_sip,
            ..Settings::new(HashKey(Box::new(*key.words())), services)
        };
        let services = Services::new(settings.services.iter().map(|service| (service.ip, service.port)));
        Self { settings, services, key }
    }

    /// Compares a run of the program on `packet`, under the gate word `word`, with what user space makes of it.
    ///
    /// # Errors
    ///
    /// What the two disagree about.
    pub fn judge(&self, packet: &[u8], word: u64, run: &BareRun<'_>) -> Result<Cell, String> {
        if run.packet_out != packet {
            return Err("the program changed the packet".to_owned());
        }
        let (datagram, service) = match parse_packet(packet, &self.services, FRAME_LEN as usize) {
            Ok(found) => found,
            Err((class, reason)) => {
                return match run {
                    BareRun { action: Action::Pass, meta: None, .. } => Ok((class, Verdict::Pass, reason)),
                    _ => Err(format!("user space passes it as {class:?}, {reason:?}; the program does not")),
                };
            }
        };
        let payload = datagram.payload(packet);
        let opinion = Opinion {
            message: classify(payload),
            payload,
            datagram,
            service,
            key: &self.key,
            gate: Gate::of(word),
        };
        let judged = match run.meta {
            None => self.judge_without_meta(&opinion, run.action),
            Some(meta) if self.settings.not_sip_drop && meta.class == Class::NotSip as u8 => {
                Err(format!("no SIP, and it was to be dropped: {meta:?}"))
            }
            Some(meta) if run.action == Action::Pass => opinion.judge_meta(&meta),
            Some(_) => Err("it has metadata, but no socket's empty slot let it pass".to_owned()),
        };
        judged.map_err(|complaint| format!("{complaint}; user space: {:?}", opinion.message))
    }

    /// A packet for a service that went to no ring: it was dropped.
    fn judge_without_meta(&self, opinion: &Opinion<'_>, action: Action) -> Result<Cell, String> {
        let Message { class, reason, .. } = opinion.message;
        match action {
            Action::Drop if class == Class::NotSip && self.settings.not_sip_drop => {
                Ok((class, Verdict::Drop, reason))
            }
            Action::Drop if class == Class::Original => match opinion.admission() {
                Some((reason, false)) if !self.settings.services[usize::from(opinion.service)].reply_owed => {
                    Ok((class, Verdict::Drop, reason))
                }
                _ => Err("an original was dropped that is admitted or owed a reply".to_owned()),
            },
            _ => Err(format!("the program says {action:?} without metadata")),
        }
    }
}

/// What a gate word means to originals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    Share(u32),
    Discard,
}

impl Gate {
    fn of(word: u64) -> Self {
        match word >> 32 {
            1 => Self::Share((word & 0xffff_ffff) as u32),
            2 => Self::Discard,
            // A state that nobody could have written opens the gate, too.
            _ => Self::Open,
        }
    }
}

/// What user space makes of a packet.
struct Opinion<'a> {
    message: Message,
    payload: &'a [u8],
    datagram: Datagram,
    service: u8,
    key: &'a TransactionKey,
    gate: Gate,
}

impl Opinion<'_> {
    fn hash(&self) -> u64 {
        let (source, start) = (self.datagram.source.ip(), usize::from(self.message.start));
        transaction_hash(self.key, source, self.service, self.payload, start, self.message.marker)
    }

    /// Why an original is admitted or shed, and which of the two; `None` while the gate is open.
    fn admission(&self) -> Option<(Reason, bool)> {
        match self.gate {
            Gate::Open => None,
            Gate::Discard => Some((Reason::GateDiscard, false)),
            Gate::Share(share) if self.message.reason == Reason::Credentials => {
                let inside = share_hash(self.hash(), self.service) >> 1 < share;
                Some(if inside { (Reason::Credentials, true) } else { (Reason::ShareOutside, false) })
            }
            Gate::Share(share) if share_hash(self.hash(), self.service) < share => {
                Some((Reason::ShareInside, true))
            }
            Gate::Share(_) => Some((Reason::ShareOutside, false)),
        }
    }

    /// A packet for a ring.
    fn judge_meta(&self, meta: &Meta) -> Result<Cell, String> {
        let says = |what: &str| Err(format!("{what}: {meta:?}"));
        let place = (usize::from(meta.payload_offset), usize::from(meta.payload_len));
        if meta.service != self.service || place != (self.datagram.payload_offset, self.datagram.payload_len)
        {
            return says("another service or another datagram");
        }
        let (Some(class), Some(reason)) = (Class::from_u8(meta.class), Reason::from_u8(meta.reason)) else {
            return says("a class or reason that does not exist");
        };
        if meta.arrival_ns == 0 {
            return says("no time of arrival");
        }
        if meta.txn_hash != 0 && meta.txn_hash != self.hash() {
            return says("another transaction hash");
        }
        let verdict = match (class, reason) {
            (Class::Undecided, Reason::ScanBound | Reason::HeaderUnclear) => Verdict::RingNew,
            (Class::Undecided, Reason::HeadersUnread) => {
                let by_headers =
                    [Reason::EmergencyCall, Reason::ToTag, Reason::NewRequest, Reason::Credentials];
                if self.gate != Gate::Open || !by_headers.contains(&self.message.reason) {
                    return says("headers left unread that were to be read, or that decide nothing");
                }
                Verdict::RingNew
            }
            (Class::Original, reason) if self.message.class == Class::Original => {
                let Some((expected, admitted)) = self.admission() else {
                    return says("an original with the gate open");
                };
                let hash_is_known = meta.txn_hash != 0 || reason == Reason::GateDiscard;
                if reason != expected || !hash_is_known {
                    return says("another admission, or none that the hash explains");
                }
                if admitted { Verdict::RingNew } else { Verdict::RingReject }
            }
            (class, reason) if (class, reason) == (self.message.class, self.message.reason) => {
                verdict_of(class)
            }
            _ => return says("another class"),
        };
        if verdict.ring().is_none() {
            return says("metadata in front of what no ring is for");
        }
        self.compare_findings(class, reason, meta)?;
        Ok((class, verdict, reason))
    }

    /// What the worker goes by: method, marker and start line, and the class that it derives from them.
    fn compare_findings(&self, class: Class, reason: Reason, meta: &Meta) -> Result<(), String> {
        let marker =
            MarkerForm::from_u8(meta.marker_form).filter(|form| *form != MarkerForm::None).map(|form| {
                let offset = meta.marker_offset.wrapping_sub(meta.payload_offset);
                Marker { form, copy: meta.marker_copy, offset, len: meta.marker_len }
            });
        let method = Method::from_u8(meta.method).unwrap_or(Method::Other);
        if class == Class::Undecided {
            let findings = KernelFindings { start_line_len: meta.start_line_len, method, marker };
            let finished = classify_rest(self.payload, &findings);
            if finished != self.message {
                return Err(format!("finished in user space it is {finished:?}: {meta:?}"));
            }
        }
        if class == Class::Undecided && reason != Reason::HeadersUnread {
            return Ok(());
        }
        let found = (meta.start_line_len, method, marker);
        if found == (self.message.start_line_len, self.message.method, self.message.marker) {
            Ok(())
        } else {
            Err(format!("another start line, method or marker: {meta:?}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Shape;

    const OPTIONS: &[u8] = b"OPTIONS sip:x SIP/2.0 rtx=0\r\nTo: <sip:x>\r\n\r\n";

    /// A packet and what the program must say about it with a gate that admits a half.
    fn shed() -> (Vec<u8>, Meta) {
        let mut packet = Vec::new();
        Shape::PLAIN.write(OPTIONS, &mut packet);
        let marker = Marker { form: MarkerForm::Field, copy: 0, offset: 21, len: 6 };
        let key = Guard::new(false).key;
        let meta = Meta {
            arrival_ns: 1,
            txn_hash: transaction_hash(&key, [198, 51, 100, 7].into(), 0, OPTIONS, 0, Some(marker)),
            payload_offset: 42,
            payload_len: OPTIONS.len() as u16,
            start_line_len: 27,
            marker_offset: 63,
            class: Class::Original as u8,
            reason: Reason::ShareOutside as u8,
            method: Method::Options as u8,
            marker_form: MarkerForm::Field as u8,
            marker_copy: 0,
            marker_len: 6,
            service: 0,
        };
        (packet, meta)
    }

    fn judge(packet: &[u8], word: u64, action: Action, meta: Option<Meta>) -> Result<Cell, String> {
        Guard::new(false).judge(packet, word, &BareRun { action, meta, packet_out: packet })
    }

    #[test]
    fn agreement_names_the_cell() {
        let (packet, meta) = shed();
        let cell = (Class::Original, Verdict::RingReject, Reason::ShareOutside);
        assert_eq!(judge(&packet, 1 << 32, Action::Pass, Some(meta)), Ok(cell));
        let unread =
            Meta { class: Class::Undecided as u8, reason: Reason::HeadersUnread as u8, txn_hash: 0, ..meta };
        let cell = (Class::Undecided, Verdict::RingNew, Reason::HeadersUnread);
        assert_eq!(judge(&packet, 0, Action::Pass, Some(unread)), Ok(cell));
        assert_eq!(
            judge(&packet[..14], 0, Action::Pass, None),
            Ok((Class::Exotic, Verdict::Pass, Reason::Truncated))
        );
    }

    #[test]
    fn every_single_lie_is_noticed() {
        let (packet, meta) = shed();
        let lies = [
            ("class", Meta { class: Class::Copy as u8, ..meta }),
            ("no class", Meta { class: 77, ..meta }),
            ("in dialog", Meta { class: Class::InDialog as u8, reason: Reason::ToTag as u8, ..meta }),
            ("reason", Meta { reason: Reason::ShareInside as u8, ..meta }),
            ("discard", Meta { reason: Reason::GateDiscard as u8, ..meta }),
            ("hash", Meta { txn_hash: meta.txn_hash ^ 1, ..meta }),
            ("no hash", Meta { txn_hash: 0, ..meta }),
            ("method", Meta { method: Method::Invite as u8, ..meta }),
            ("start line", Meta { start_line_len: 26, ..meta }),
            ("marker", Meta { marker_form: 0, ..meta }),
            ("marker's place", Meta { marker_offset: 62, ..meta }),
            ("marker's number", Meta { marker_copy: 1, ..meta }),
            ("service", Meta { service: 2, ..meta }),
            ("length", Meta { payload_len: 5, ..meta }),
            ("place", Meta { payload_offset: 43, ..meta }),
            ("time", Meta { arrival_ns: 0, ..meta }),
            ("unread", Meta { class: Class::Undecided as u8, reason: Reason::HeadersUnread as u8, ..meta }),
            ("keep-alive", Meta { class: Class::Keepalive as u8, reason: Reason::LinePing as u8, ..meta }),
        ];
        for (lie, meta) in lies {
            assert!(judge(&packet, 1 << 32, Action::Pass, Some(meta)).is_err(), "{lie}");
        }
        assert!(judge(&packet, 1 << 32, Action::Pass, None).is_err(), "passed");
        assert!(judge(&packet, 1 << 32, Action::Drop, None).is_err(), "dropped though a reply is owed");
        assert!(judge(&packet, 0, Action::Drop, None).is_err(), "dropped with the gate open");
        assert!(judge(&packet, 0, Action::Pass, Some(meta)).is_err(), "shed with the gate open");
        assert!(judge(&packet, 1 << 32, Action::Redirect, Some(meta)).is_err(), "redirected");
        assert!(judge(&packet[..14], 0, Action::Drop, None).is_err(), "dropped though cut short");
        let changed = BareRun { action: Action::Pass, meta: Some(meta), packet_out: &packet[1..] };
        assert!(Guard::new(false).judge(&packet, 1 << 32, &changed).is_err(), "changed");
    }

    #[test]
    fn a_wrong_finding_of_an_undecided_message_is_noticed() {
        let (packet, meta) = shed();
        let undecided =
            Meta { class: Class::Undecided as u8, reason: Reason::HeaderUnclear as u8, txn_hash: 0, ..meta };
        assert!(judge(&packet, 1 << 32, Action::Pass, Some(undecided)).is_ok());
        for lie in [Meta { method: Method::Ack as u8, ..undecided }, Meta { marker_copy: 3, ..undecided }] {
            assert!(judge(&packet, 1 << 32, Action::Pass, Some(lie)).is_err(), "{lie:?}");
        }
    }
}
