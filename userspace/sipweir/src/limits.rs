//! How much each source may send: which message falls under which cap.
//!
//! # The privilege of control messages ends at a cap
//!
//! No class may be a way around the gate. A BYE, a To tag or an emergency number is easily forged, and control is
//! served before everything else; so each source has a token bucket for each kind of privileged message, and one for
//! all of them together, since the caps of the kinds add up to more than there is. Above its cap
//! such a message waits behind everything else, as copies do, unless its call was admitted lately
//! (`overload::AdmittedCalls`): it is handed over while the server has capacity to spare, and it is never refused,
//! since a refused BYE would leave a call standing. Below the server's capacity nothing is lost by it.
//!
//! So does a message in disguise: servers differ in whether they believe the start line or the CSeq, and what is a BYE
//! by one and an INVITE by the other has the lesser privilege of both.
//!
//! # Originals are refused above a cap
//!
//! That cap is off unless it is set. What is above it gets the answer that the gate gives, and its copies the same again:
//! nobody is banned, and the source has its rate all the time. It is asked after the transaction table, so a copy never takes
//! a token, and one of an admitted original is never refused for the cap. What the gate sheds in the XDP program takes none either.
//!
//! # A source
//!
//! is so many bits of an address: all 32 of IPv4, the 64 of IPv6 within which a host may take any address, or fewer.
//!
//! Not here: how buckets work (`overload::KeyedBuckets`), and the order of what waits (`overload::CallQueue`).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overload::{Allowance, KeyedBuckets};
use sip::{Class, Method, Seed};

use crate::prefix::{Prefix, PrefixTable};

/// Sources that are known at a time, for each service and worker, 64 KiB. A trunk or a NAT of a site is one source.
/// Fewer places: under a flood of forged sources honest ones share the caps of strangers sooner.
const SOURCES: usize = 4096;

/// What a source may begin at once beyond the rate of its cap on originals, as the time in which that grows: a phone that
/// comes back subscribes to a handful of things within a second.
const ORIGINAL_BURST_NS: u64 = 1_000_000_000;

/// What a source may send at once beyond the rate of its cap, as the time in which that grows: the bursts of a
/// mass hang-up are longer, but below capacity the gate lets all of them pass.
const BURST_NS: u64 = 250_000_000;

/// How much a source may send with privilege.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cap {
    /// Messages a second, at each worker.
    PerSecond(f64),
    /// A share of the messages that the server is measured to serve.
    Share(f64),
    /// No cap.
    Off,
}

impl Cap {
    /// What it allows beside a server of this rate; `None` for no cap.
    fn allowance(self, rate_per_s: f64, burst_ns: u64) -> Option<Allowance> {
        let per_s = match self {
            Self::PerSecond(per_s) => per_s,
            Self::Share(share) => share * rate_per_s,
            Self::Off => return None,
        };
        Some(Allowance { per_s, burst_ns })
    }
}

/// The caps of a service.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Caps {
    /// Requests in a dialog: a To tag, BYE, PRACK.
    pub in_dialog: Cap,
    /// ACK and CANCEL.
    pub control: Cap,
    /// Responses to the server's own requests.
    pub responses: Cap,
    /// Emergency calls.
    pub emergency: Cap,
    /// Probes of configured probers.
    pub prober: Cap,
    /// Everything that falls under one of these caps.
    pub total: Cap,
    /// Originals, which do not count for `total`.
    pub original: Cap,
}

/// The numbers of these two.
const TOTAL: u32 = 5;
const ORIGINAL: u32 = 6;

impl Caps {
    /// The same cap for each kind of message with privilege, by itself; all together and originals have none.
    #[must_use]
    pub const fn of_each_kind(cap: Cap) -> Self {
        Self {
            in_dialog: cap,
            control: cap,
            responses: cap,
            emergency: cap,
            prober: cap,
            total: Cap::Off,
            original: Cap::Off,
        }
    }

    /// The cap that a class falls under, and its number.
    const fn of(&self, class: Class) -> Option<(u32, Cap)> {
        match class {
            Class::InDialog => Some((0, self.in_dialog)),
            Class::Ack | Class::Cancel => Some((1, self.control)),
            Class::Emergency => Some((2, self.emergency)),
            Class::Prober => Some((3, self.prober)),
            Class::Response => Some((4, self.responses)),
            _ => None,
        }
    }
}

/// True for what has a cap: control messages, in the wide sense.
#[must_use]
pub const fn has_cap(class: Class) -> bool {
    matches!(sip::verdict_of(class), sip::Verdict::RingControl)
}

/// True for a request of privilege whose CSeq names another method. An emergency call keeps its privilege whatever it
/// looks like, and a response has no method to compare.
#[must_use]
pub fn is_in_disguise(class: Class, method: Method, cseq_method: Option<Method>) -> bool {
    matches!(class, Class::Ack | Class::Cancel | Class::InDialog)
        && cseq_method.is_some_and(|named| named != method)
}

/// True for a request after which messages of its call are to be expected.
#[must_use]
pub const fn begins_call(class: Class, method: Method) -> bool {
    let alone = matches!(method, Method::Register | Method::Options | Method::Publish | Method::Message);
    matches!(class, Class::Original | Class::Emergency) && !alone
}

/// Bits of an address that make a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceBits {
    /// Of IPv4, up to 32.
    pub ipv4: u8,
    /// Of IPv6, up to 64.
    pub ipv6: u8,
}

impl Default for SourceBits {
    fn default() -> Self {
        Self { ipv4: 32, ipv6: 64 }
    }
}

impl SourceBits {
    fn source_of(self, address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.ipv4.min(32))).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.ipv6.min(128))).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        }
    }
}

/// The caps of a network, and what tells its buckets from those of others: an IPv6 site may be in several.
#[derive(Debug, Clone, Copy)]
struct Peer {
    caps: Caps,
    /// 0 are all others.
    number: u32,
}

/// The number of a network: the same whatever other networks have caps, so that its buckets survive a change. Two of one
/// IPv6 site may share one by chance, in one case of eight millions, and then share their caps.
fn number_of(prefix: Prefix) -> u32 {
    let mut hasher = DefaultHasher::new();
    prefix.hash(&mut hasher);
    // 23 bits, since the kind of a message comes behind it.
    (hasher.finish() >> 41) as u32 + 1
}

/// Who has which caps.
#[derive(Debug)]
pub struct CapTable {
    others: Peer,
    peers: PrefixTable<Peer>,
    bits: SourceBits,
}

impl CapTable {
    /// `peers` have caps of their own.
    #[must_use]
    pub fn new(caps: Caps, peers: impl IntoIterator<Item = (Prefix, Caps)>, bits: SourceBits) -> Self {
        let peers =
            peers.into_iter().map(|(prefix, caps)| (prefix, Peer { caps, number: number_of(prefix) }));
        Self { others: Peer { caps, number: 0 }, peers: PrefixTable::new(peers), bits }
    }

    fn of(&self, source: IpAddr) -> Peer {
        self.peers.find(source).unwrap_or(self.others)
    }

    fn key(&self, seed: &Seed, source: IpAddr, peer: Peer, kind: u32) -> u64 {
        sip::address_key(seed, self.bits.source_of(source), peer.number << 8 | kind)
    }
}

/// The caps of a service at one worker, and what each source has used.
#[derive(Debug)]
pub struct SourceLimits {
    table: CapTable,
    buckets: KeyedBuckets,
}

impl SourceLimits {
    /// All memory that it will ever use.
    #[must_use]
    pub fn new(table: CapTable) -> Self {
        Self { table, buckets: KeyedBuckets::new(SOURCES) }
    }

    /// Goes on by other caps, and leaves the old ones there. What each source has used stays.
    pub const fn change(&mut self, table: &mut CapTable) {
        std::mem::swap(&mut self.table, table);
    }

    /// Takes `tokens` messages of a source out of its cap; false if that is used up. `rate_per_s` is what the server
    /// serves this worker.
    pub fn take(
        &mut self,
        seed: &Seed,
        class: Class,
        source: IpAddr,
        tokens: u32,
        rate_per_s: f64,
        now_ns: u64,
    ) -> bool {
        let peer = self.table.of(source);
        let Some((kind, cap)) = peer.caps.of(class) else { return true };
        let Some(own) = cap.allowance(rate_per_s, BURST_NS) else { return true };
        let key = self.table.key(seed, source, peer, kind);
        let Some(total) = peer.caps.total.allowance(rate_per_s, BURST_NS) else {
            return self.buckets.take(key, tokens, own, now_ns);
        };
        let total_key = self.table.key(seed, source, peer, TOTAL);
        // Nothing is charged to one of both alone. If keys share places, the total may be used up in between.
        self.buckets.has(total_key, tokens, total, now_ns)
            && self.buckets.take(key, tokens, own, now_ns)
            && self.buckets.take(total_key, tokens, total, now_ns)
    }

    /// Takes an original of a source out of its cap; false if that is used up. `rate_per_s` are the originals that the server
    /// serves this worker.
    pub fn take_original(&mut self, seed: &Seed, source: IpAddr, rate_per_s: f64, now_ns: u64) -> bool {
        let peer = self.table.of(source);
        let Some(allowance) = peer.caps.original.allowance(rate_per_s, ORIGINAL_BURST_NS) else {
            return true;
        };
        let key = self.table.key(seed, source, peer, ORIGINAL);
        self.buckets.take(key, 1, allowance, now_ns)
    }
}

#[cfg(test)]
mod tests;
