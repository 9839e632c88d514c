//! What a refusal says and where it goes, or why there is none: the values that `reply` works with.
//!
//! Not here: how they are written (`reply`, `overload_control`), and who gets which of them (the caller's policy).

use std::net::SocketAddr;

use crate::overload_control::OverloadControl;
use crate::txn::mix64;

/// Separates Retry-After from the other uses of the MAC.
const RETRY_SALT: u64 = 0x7265_7472_792d_6166;

/// Code and phrase of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLine {
    /// The status code, 400 to 699.
    pub code: u16,
    /// The reason phrase, which only people read.
    pub phrase: &'static str,
}

impl ReplyLine {
    /// The codes that an overloaded element may want to say; 503 makes most peers try the next server, 480 and
    /// 500 end the hunt. `None` for any other.
    #[must_use]
    pub const fn of_code(code: u16) -> Option<Self> {
        let phrase = match code {
            480 => "Temporarily Unavailable",
            486 => "Busy Here",
            500 => "Server Internal Error",
            503 => "Service Unavailable",
            600 => "Busy Everywhere",
            603 => "Decline",
            _ => return None,
        };
        Some(Self { code, phrase })
    }
}

impl Default for ReplyLine {
    fn default() -> Self {
        Self { code: 503, phrase: "Service Unavailable" }
    }
}

/// The seconds that Retry-After may name (RFC 3261 section 20.33), both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryAfter {
    /// The shortest.
    pub min_s: u32,
    /// The longest; not below the shortest.
    pub max_s: u32,
}

impl RetryAfter {
    /// The seconds for a request with this MAC: even over the range, the same for every copy.
    pub(crate) fn seconds(self, mac: u64) -> u32 {
        let span = u64::from(self.max_s.saturating_sub(self.min_s)) + 1;
        let share = (u128::from(mix64(mac ^ RETRY_SALT)) * u128::from(span)) >> 64;
        // Below the span, so it fits, and so does the sum.
        self.min_s.saturating_add(share as u32)
    }
}

/// What a refusal says. A status line alone is one too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// The status line.
    pub line: ReplyLine,
    /// Retry-After for REGISTER. For nothing else: it takes a whole server out of service for that client (RFC 3261
    /// section 21.5.4, RFC 7339 section 5.10.2), but a phone that registers again too soon is a copy of itself.
    pub retry_after_register: Option<RetryAfter>,
    /// Told to clients that offer overload control.
    pub control: Option<OverloadControl>,
}

impl From<ReplyLine> for Refusal {
    fn from(line: ReplyLine) -> Self {
        Self { line, ..Self::default() }
    }
}

/// What became of the overload control parameters of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlGiven {
    /// None were to be given, or the client did not offer the `loss` algorithm.
    NotOffered,
    /// They are in the top Via.
    Given,
    /// With them the reply would have been longer than the request, so it went without.
    LongerThanRequest,
}

/// A reply that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its bytes in the buffer.
    pub len: usize,
    /// Where it must be sent; the address is always the request's source.
    pub destination: SocketAddr,
    /// What it says of overload control.
    pub control: ControlGiven,
}

/// Why a request gets no reply. One byte, to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoReply {
    /// It is a response or no SIP.
    NotARequest,
    /// ACK is never answered; a stateless server must ignore CANCEL too (RFC 3261 section 8.2.7). By the start line
    /// or by CSeq: peers match a response by the latter.
    UnansweredMethod,
    /// Via, From, To, Call-ID or CSeq is missing, so no client could match the reply.
    MissingHeader,
    /// The top Via names no sender or no usable port.
    BadVia,
    /// The top Via's `maddr` is not the address that the request came from.
    ForeignMaddr,
    /// The request's source is no address or port that one replies to: a group, reserved, or our own.
    BadSource,
    /// The request was sent to a group or broadcast address, from which nobody can reply.
    GroupDestination,
    /// A value to be copied has a carriage return within a line, which might end a line for others.
    StrayReturn,
    /// The reply would be longer than the request.
    LongerThanRequest,
    /// The buffer is too small.
    NoRoom,
}

impl NoReply {
    /// All reasons.
    pub const ALL: [Self; 10] = [
        Self::NotARequest,
        Self::UnansweredMethod,
        Self::MissingHeader,
        Self::BadVia,
        Self::ForeignMaddr,
        Self::BadSource,
        Self::GroupDestination,
        Self::StrayReturn,
        Self::LongerThanRequest,
        Self::NoRoom,
    ];

    /// The name in documents and in what is printed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotARequest => "not_a_request",
            Self::UnansweredMethod => "unanswered_method",
            Self::MissingHeader => "missing_header",
            Self::BadVia => "bad_via",
            Self::ForeignMaddr => "foreign_maddr",
            Self::BadSource => "bad_source",
            Self::GroupDestination => "group_destination",
            Self::StrayReturn => "stray_return",
            Self::LongerThanRequest => "longer_than_request",
            Self::NoRoom => "no_room",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_codes_have_phrases() {
        assert_eq!(ReplyLine::of_code(503), Some(ReplyLine::default()));
        assert_eq!(ReplyLine::of_code(480).unwrap().phrase, "Temporarily Unavailable");
        assert_eq!(ReplyLine::of_code(200), None);
        assert_eq!(ReplyLine::of_code(100), None);
    }

    #[test]
    fn retry_after_is_spread_evenly_over_its_range_ends_included() {
        let range = RetryAfter { min_s: 30, max_s: 39 };
        let mut counts = [0_u32; 10];
        for mac in 0..10_000 {
            counts[(range.seconds(mac) - 30) as usize] += 1;
        }
        // 1000 each, with a standard deviation of 30.
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        assert_eq!(RetryAfter { min_s: 7, max_s: 7 }.seconds(99), 7);
        let all = RetryAfter { min_s: 0, max_s: u32::MAX };
        assert!((0..100).any(|mac| all.seconds(mac) > u32::MAX / 2));
    }

    #[test]
    fn every_reason_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = NoReply::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), NoReply::ALL.len());
    }
}
