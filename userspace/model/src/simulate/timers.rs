//! When a client over UDP sends a request again (RFC 3261 section 17.1).

use overload::Nanos;

const MS: Nanos = 1_000_000;

/// T1 of RFC 3261: an answer later than this has cost a copy.
pub const T1_NS: Nanos = 500 * MS;

/// 64·T1 (timers B and F): the client has given up, and an answer after this is of no use.
pub const GIVE_UP_NS: Nanos = 64 * T1_NS;

/// How a client sends a request again until it gets a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timers {
    /// INVITE: timer A doubles from T1 until timer B ends it at 64·T1; 7 sends (section 17.1.1.2).
    Invite,
    /// Any other request: timer E doubles from T1 up to T2 = 4 s until timer F ends it; 11 sends (section 17.1.2.2).
    Other,
    /// Never again, as queueing theory has it, or over TCP.
    Once,
}

impl Timers {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Invite, Self::Other, Self::Once];

    /// The name in plans and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Invite => "invite",
            Self::Other => "other",
            Self::Once => "once",
        }
    }

    /// Times of the sends after the first one; ascending, the first is 0.
    #[must_use]
    pub const fn sends_ns(self) -> &'static [Nanos] {
        match self {
            Self::Invite => &[0, 500 * MS, 1_500 * MS, 3_500 * MS, 7_500 * MS, 15_500 * MS, 31_500 * MS],
            Self::Other => &[
                0,
                500 * MS,
                1_500 * MS,
                3_500 * MS,
                7_500 * MS,
                11_500 * MS,
                15_500 * MS,
                19_500 * MS,
                23_500 * MS,
                27_500 * MS,
                31_500 * MS,
            ],
            Self::Once => &[0],
        }
    }

    /// Timers that run after the first send: one for each further send, and the last one that gives up.
    pub(super) const fn count(self) -> usize {
        match self {
            Self::Invite | Self::Other => self.sends_ns().len(),
            Self::Once => 0,
        }
    }

    /// When timer `number` (from 1) fires, after the first send. The last gives up.
    pub(super) const fn fires_ns(self, number: usize) -> Nanos {
        let sends_ns = self.sends_ns();
        if number < sends_ns.len() { sends_ns[number] } else { GIVE_UP_NS }
    }

    /// Whether a stateful server says 100 Trying, which silences the client. To other requests than INVITE it says
    /// nothing before its final response (RFC 4320 section 4.1).
    pub(super) const fn gets_trying(self) -> bool {
        matches!(self, Self::Invite)
    }
}

#[cfg(test)]
mod tests {
    use super::{GIVE_UP_NS, MS, Timers};

    /// The timers as section 17.1 tells them, step by step.
    fn told(double_up_to_ns: u64) -> Vec<u64> {
        let (mut sends_ns, mut interval_ns) = (vec![0], 500 * MS);
        while let Some(next) =
            sends_ns.last().map(|last| last + interval_ns).filter(|next| *next < GIVE_UP_NS)
        {
            sends_ns.push(next);
            interval_ns = (2 * interval_ns).min(double_up_to_ns);
        }
        sends_ns
    }

    #[test]
    fn the_schedules_are_those_of_the_rfc() {
        assert_eq!(Timers::Invite.sends_ns(), told(u64::MAX));
        assert_eq!(Timers::Other.sends_ns(), told(4_000 * MS));
        assert_eq!((Timers::Invite.sends_ns().len(), Timers::Other.sends_ns().len()), (7, 11));
    }

    #[test]
    fn the_last_timer_gives_up() {
        for timers in [Timers::Invite, Timers::Other] {
            assert_eq!(timers.fires_ns(timers.count()), 32_000 * MS);
            assert_eq!(timers.fires_ns(timers.count() - 1), 31_500 * MS);
        }
        assert_eq!(Timers::Once.count(), 0);
    }
}
