//! The privilege of control messages ends at a cap per source: which message falls under which cap.
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
//! Not here: how buckets work (`overload::KeyedBuckets`), and the order of what waits (`overload::CallQueue`).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use overload::{Allowance, KeyedBuckets};
use sip::{Class, Method, Seed};

use crate::prefix::{Prefix, PrefixTable};

/// Sources that are known at a time, for each service and worker, 64 KiB. A trunk or a NAT of a site is one source.
/// Fewer places: under a flood of forged sources honest ones share the caps of strangers sooner.
const SOURCES: usize = 4096;

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
    fn allowance(self, rate_per_s: f64) -> Option<Allowance> {
        let per_s = match self {
            Self::PerSecond(per_s) => per_s,
            Self::Share(share) => share * rate_per_s,
            Self::Off => return None,
        };
        Some(Allowance { per_s, burst_ns: BURST_NS })
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
}

/// The number of that one.
const TOTAL: u32 = 5;

impl Caps {
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

/// The caps of a network, and what tells its buckets from those of others: an IPv6 site may be in several.
#[derive(Debug, Clone, Copy)]
struct Peer {
    caps: Caps,
    /// From 1; 0 are all others.
    number: u32,
}

/// The number of a network: the same whatever other networks have caps, so that its buckets survive a reload. Two of one
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
}

impl CapTable {
    /// `peers` have caps of their own.
    #[must_use]
    pub fn new(caps: Caps, peers: impl IntoIterator<Item = (Prefix, Caps)>) -> Self {
        let peers =
            peers.into_iter().map(|(prefix, caps)| (prefix, Peer { caps, number: number_of(prefix) }));
        Self { others: Peer { caps, number: 0 }, peers: PrefixTable::new(peers) }
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
        let Peer { caps, number } = self.table.peers.find(source).unwrap_or(self.table.others);
        let Some((kind, cap)) = caps.of(class) else { return true };
        let Some(own) = cap.allowance(rate_per_s) else { return true };
        let key_of = |kind| sip::address_key(seed, source, number << 8 | kind);
        let key = key_of(kind);
        let Some(total) = caps.total.allowance(rate_per_s) else {
            return self.buckets.take(key, tokens, own, now_ns);
        };
        let total_key = key_of(TOTAL);
        // Nothing is charged to one of both alone. If keys share places, the total may be used up in between.
        self.buckets.has(total_key, tokens, total, now_ns)
            && self.buckets.take(key, tokens, own, now_ns)
            && self.buckets.take(total_key, tokens, total, now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::{Cap, CapTable, Caps, SourceLimits, has_cap};
    use sip::{Class, Method, Seed};

    const SEED: Seed = Seed([1, 2, 3, 4]);

    fn caps(cap: Cap) -> Caps {
        Caps { in_dialog: cap, control: cap, responses: cap, emergency: cap, prober: cap, total: Cap::Off }
    }

    /// The same for everybody.
    fn alike(caps: Caps) -> SourceLimits {
        limits_with(caps, [])
    }

    fn table<const N: usize>(caps: Caps, peers: [(&str, Caps); N]) -> CapTable {
        CapTable::new(caps, peers.map(|(text, caps)| (text.parse().expect("network"), caps)))
    }

    fn limits_with<const N: usize>(caps: Caps, peers: [(&str, Caps); N]) -> SourceLimits {
        SourceLimits::new(table(caps, peers))
    }

    fn allowed(limits: &mut SourceLimits, class: Class, source: &str, rate_per_s: f64) -> usize {
        let source = source.parse().expect("address");
        (0..1000).filter(|_| limits.take(&SEED, class, source, 1, rate_per_s, 0)).count()
    }

    #[test]
    fn every_control_message_falls_under_a_cap_and_nothing_else_does() {
        for class in Class::ALL {
            assert_eq!(caps(Cap::Off).of(class).is_some(), has_cap(class), "{class:?}");
        }
    }

    #[test]
    fn a_share_is_one_of_the_measured_rate_and_a_number_is_not() {
        let mut limits = alike(caps(Cap::Share(0.5)));
        assert_eq!(allowed(&mut limits, Class::InDialog, "192.0.2.1", 240.0), 30);
        assert_eq!(allowed(&mut limits, Class::InDialog, "192.0.2.2", 2400.0), 300);
        let mut limits = alike(caps(Cap::PerSecond(40.0)));
        assert_eq!(allowed(&mut limits, Class::InDialog, "192.0.2.1", 240.0), 10);
        let mut limits = alike(caps(Cap::Off));
        assert_eq!(allowed(&mut limits, Class::InDialog, "192.0.2.1", 1.0), 1000);
    }

    #[test]
    fn each_kind_of_message_has_its_own_cap_and_acks_share_theirs_with_cancels() {
        let mut limits = alike(caps(Cap::PerSecond(40.0)));
        for class in [Class::InDialog, Class::Ack, Class::Emergency, Class::Prober, Class::Response] {
            assert_eq!(allowed(&mut limits, class, "192.0.2.1", 1.0), 10, "{class:?}");
        }
        assert_eq!(allowed(&mut limits, Class::Cancel, "192.0.2.1", 1.0), 0);
    }

    #[test]
    fn the_kinds_of_one_source_share_a_total_and_a_refusal_costs_neither() {
        let total = Cap::PerSecond(60.0);
        let mut limits = alike(Caps { total, ..caps(Cap::PerSecond(40.0)) });
        let order = [(Class::InDialog, 10), (Class::Ack, 5), (Class::Emergency, 0), (Class::InDialog, 0)];
        for (class, expected) in order {
            assert_eq!(allowed(&mut limits, class, "192.0.2.1", 1.0), expected, "{class:?}");
        }
        assert_eq!(allowed(&mut limits, Class::Prober, "192.0.2.2", 1.0), 10);
        let mut limits = alike(Caps { prober: Cap::Off, total, ..caps(Cap::PerSecond(40.0)) });
        assert_eq!(allowed(&mut limits, Class::Prober, "192.0.2.1", 1.0), 1000, "without a cap of its own");
    }

    #[test]
    fn a_request_whose_cseq_names_another_method_has_the_lesser_privilege_of_both() {
        use super::is_in_disguise;
        let invite = Some(Method::Invite);
        assert!(is_in_disguise(Class::Ack, Method::Ack, invite));
        assert!(is_in_disguise(Class::InDialog, Method::Bye, Some(Method::Other)));
        assert!(!is_in_disguise(Class::InDialog, Method::Bye, Some(Method::Bye)));
        assert!(!is_in_disguise(Class::InDialog, Method::Bye, None), "in doubt it keeps it");
        assert!(!is_in_disguise(Class::Emergency, Method::Options, invite));
        assert!(!is_in_disguise(Class::Response, Method::Other, invite));
    }

    #[test]
    fn an_ipv6_site_is_one_source_however_many_addresses_it_takes() {
        let mut limits = alike(caps(Cap::PerSecond(40.0)));
        assert_eq!(allowed(&mut limits, Class::InDialog, "2001:db8:1:2::1", 1.0), 10);
        assert_eq!(allowed(&mut limits, Class::InDialog, "2001:db8:1:2:3:4:5:6", 1.0), 0);
        assert_eq!(allowed(&mut limits, Class::InDialog, "2001:db8:1:3::1", 1.0), 10);
    }

    #[test]
    fn a_peer_has_the_caps_of_its_longest_prefix_and_others_have_theirs() {
        let forty = caps(Cap::PerSecond(40.0));
        let peers = [
            ("10.0.0.0/8", caps(Cap::PerSecond(80.0))),
            ("10.9.0.0/16", caps(Cap::Off)),
            ("10.9.0.7", Caps { prober: Cap::PerSecond(400.0), ..forty }),
            ("2001:db8::/32", caps(Cap::Share(0.5))),
        ];
        let mut limits = limits_with(forty, peers);
        let mut prober = |source| allowed(&mut limits, Class::Prober, source, 240.0);
        assert_eq!(prober("192.0.2.1"), 10);
        assert_eq!(prober("10.1.0.1"), 20);
        assert_eq!(prober("10.1.0.2"), 20, "each source of a network has the cap by itself");
        assert_eq!(prober("::ffff:10.1.0.3"), 20, "an IPv4 address in IPv6 clothes");
        assert_eq!(prober("10.9.0.1"), 1000);
        assert_eq!(prober("10.9.0.7"), 100);
        assert_eq!(
            allowed(&mut limits, Class::InDialog, "10.9.0.7", 1.0),
            10,
            "only one of its caps differs"
        );
        assert_eq!(allowed(&mut limits, Class::Prober, "2001:db8::1", 240.0), 30);
        assert_eq!(allowed(&mut limits, Class::Prober, "2001:db9::1", 240.0), 10);
    }

    #[test]
    fn a_peer_in_the_same_ipv6_site_as_others_is_a_source_of_its_own() {
        let forty = caps(Cap::PerSecond(40.0));
        let eighty = caps(Cap::PerSecond(80.0));
        let mut limits = limits_with(forty, [("2001:db8::7", eighty), ("2001:db8::8", eighty)]);
        let mut in_dialog = |source| allowed(&mut limits, Class::InDialog, source, 1.0);
        assert_eq!(in_dialog("2001:db8::1"), 10);
        assert_eq!(in_dialog("2001:db8::7"), 20);
        assert_eq!(in_dialog("2001:db8::8"), 20);
        assert_eq!(in_dialog("2001:db8::2"), 0, "the others share what they have");
    }

    #[test]
    fn what_a_source_has_used_survives_a_change_of_caps_and_of_other_networks() {
        let forty = caps(Cap::PerSecond(40.0));
        let mut limits = limits_with(forty, [("2001:db8::7", caps(Cap::PerSecond(80.0)))]);
        assert_eq!(allowed(&mut limits, Class::InDialog, "2001:db8::7", 1.0), 20);
        assert_eq!(allowed(&mut limits, Class::InDialog, "192.0.2.1", 1.0), 10);
        let peers =
            [("2001:db8::1", forty), ("2001:db8::7", caps(Cap::PerSecond(120.0))), ("10.0.0.0/8", forty)];
        let mut next = table(caps(Cap::PerSecond(40.0)), peers);
        limits.change(&mut next);
        assert_eq!(allowed(&mut limits, Class::InDialog, "192.0.2.1", 1.0), 0, "used up before");
        // A bucket is the time until it is full, which the new cap leaves as it is: 250 ms, all of a burst.
        assert_eq!(allowed(&mut limits, Class::InDialog, "2001:db8::7", 1.0), 0);
        assert_eq!(allowed(&mut limits, Class::InDialog, "2001:db8::1", 1.0), 10, "a bucket of its own now");
        limits.change(&mut next);
        assert_eq!(allowed(&mut limits, Class::InDialog, "192.0.2.1", 1.0), 0);
    }

    #[test]
    fn a_peers_total_is_its_own() {
        let forty = caps(Cap::PerSecond(40.0));
        let total = Caps { total: Cap::PerSecond(60.0), ..forty };
        let mut limits = limits_with(total, [("10.0.0.0/8", Caps { total: Cap::PerSecond(80.0), ..forty })]);
        for (source, acks) in [("192.0.2.1", 5), ("10.0.0.1", 10)] {
            assert_eq!(allowed(&mut limits, Class::InDialog, source, 1.0), 10);
            assert_eq!(allowed(&mut limits, Class::Ack, source, 1.0), acks, "{source}");
        }
    }
}
