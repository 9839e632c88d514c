//! What every gate answers, and the word by which a worker tells the XDP program.
//!
//! A gate is asked once for each original that is about to be queued and is told whenever the number in the system
//! has fallen. It never sees bytes and keeps no clock. What is not here: any policy.
//!
//! # Judged twice, with one answer
//!
//! The XDP program has applied the last published [`GateWord`] before a message reaches the worker, so
//! [`Gate::arrive`] sees only what was let through or left undecided, possibly under a word that is older than the
//! gate's state. It judges such a message again, by the current state alone. That is consistent because the share is
//! decided by the transaction's hash and not by a throw of the dice: inside the share at the NIC is inside the share
//! here, and every copy of one request, at every worker with the same seed, gets the same answer in the same state.
//! The second judgement can therefore only make up for the word's age (overload or discard began meanwhile), never
//! thin out the admitted share a second time.
//!
//! What a word sheds at the NIC no gate ever sees. A gate that averages over arrivals is therefore told which word is in
//! force ([`Gate::published`]), and keeps a sample coming in.

use crate::Nanos;

/// Where a gate stands. Numbers are those of `enum gate_state` in `abi.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum GateState {
    /// Every original is admitted.
    Normal = 0,
    /// A share of the originals is admitted.
    Overload = 1,
    /// No original is admitted.
    Discard = 2,
}

impl GateState {
    /// All states in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Normal, Self::Overload, Self::Discard];

    /// The name in metrics and documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Overload => "overload",
            Self::Discard => "discard",
        }
    }

    /// The state with this number, if there is one.
    #[must_use]
    pub const fn from_u8(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Normal),
            1 => Some(Self::Overload),
            2 => Some(Self::Discard),
            _ => None,
        }
    }
}

/// How many share hashes there are.
pub(crate) const HASHES: f64 = (1_u64 << u32::BITS) as f64;

/// The published form of a gate: admitted share as a 32-bit threshold in the low half, state and flags above it.
///
/// One aligned 64-bit store publishes it and one load reads it, so state and share always belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct GateWord(u64);

impl GateWord {
    /// `GATE_STATE_SHIFT` of `abi.h`.
    const STATE_SHIFT: u32 = 32;
    /// `GATE_STATE_MASK` of `abi.h`.
    const STATE_MASK: u64 = 0xff;
    /// `GATE_TABLE_UNASKED` of `abi.h`.
    const TABLE_UNASKED: u64 = 1 << 40;
    /// `GATE_SILENT` of `abi.h`.
    const SILENT: u64 = 1 << 41;
    /// `GATE_MONITORED_SHIFT` of `abi.h`.
    const MONITORED_SHIFT: u32 = 48;

    /// Everything is admitted. Also what a zeroed map says before the worker has published anything.
    pub const OPEN: Self = Self(0);

    /// The word for a state and the threshold of its share.
    #[must_use]
    pub const fn new(state: GateState, share_threshold: u32) -> Self {
        Self(((state as u64) << Self::STATE_SHIFT) | share_threshold as u64)
    }

    /// The word with the advice not to ask the transaction table while the gate is normal.
    #[must_use]
    pub const fn with_table_unasked(self, unasked: bool) -> Self {
        if unasked { Self(self.0 | Self::TABLE_UNASKED) } else { Self(self.0 & !Self::TABLE_UNASKED) }
    }

    /// The word with the order to answer nobody.
    #[must_use]
    pub const fn with_silence(self, silent: bool) -> Self {
        if silent { Self(self.0 | Self::SILENT) } else { Self(self.0 & !Self::SILENT) }
    }

    /// The word with the order to let these classes pass, one bit for each.
    #[must_use]
    pub const fn with_monitored(self, classes: u16) -> Self {
        let cleared = self.0 & !((u16::MAX as u64) << Self::MONITORED_SHIFT);
        Self(cleared | (classes as u64) << Self::MONITORED_SHIFT)
    }

    /// The word as it stands in the shared map.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Reads a word back; `None` when it has no state.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        if bits >> Self::STATE_SHIFT & Self::STATE_MASK <= GateState::Discard as u64 {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// A share as the threshold of a 32-bit hash. A share of 1 still refuses one transaction in 2^32 (see `abi.h`).
    #[must_use]
    pub const fn threshold_of(share: f64) -> u32 {
        // A float-to-integer cast saturates, which takes 1.0 to u32::MAX.
        (share * HASHES) as u32
    }

    /// The share of originals that this word admits, 0 to 1.
    #[must_use]
    pub fn admitted_share(self) -> f64 {
        match self.state() {
            GateState::Normal => 1.0,
            GateState::Overload => f64::from(self.share_threshold()) / HASHES,
            GateState::Discard => 0.0,
        }
    }

    /// The state.
    #[must_use]
    pub const fn state(self) -> GateState {
        match self.0 >> Self::STATE_SHIFT & Self::STATE_MASK {
            0 => GateState::Normal,
            1 => GateState::Overload,
            _ => GateState::Discard,
        }
    }

    /// The share half: in overload a message is admitted when its share hash is below this.
    #[must_use]
    pub const fn share_threshold(self) -> u32 {
        (self.0 & u32::MAX as u64) as u32
    }

    /// What the XDP program decides by this word. User space asks [`Gate::arrive`], which knows the count as well.
    pub const fn decide(self, share_hash: u32) -> Decision {
        match self.state() {
            GateState::Normal => Decision::Admit,
            GateState::Overload if share_hash < self.share_threshold() => Decision::Admit,
            GateState::Overload => Decision::Shed(ShedReason::ShareOutside),
            GateState::Discard => Decision::Shed(ShedReason::GateDiscard),
        }
    }
}

/// Why a gate refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ShedReason {
    /// The gate is in overload and the transaction is outside the admitted share.
    ShareOutside,
    /// The gate discards every original.
    GateDiscard,
    /// A baseline's buffer is full.
    BufferFull,
}

impl ShedReason {
    /// All reasons.
    pub const ALL: [Self; 3] = [Self::ShareOutside, Self::GateDiscard, Self::BufferFull];

    /// The name in metrics and documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ShareOutside => "share_outside",
            Self::GateDiscard => "gate_discard",
            Self::BufferFull => "buffer_full",
        }
    }
}

/// A gate's answer to one arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub enum Decision {
    /// Queue it. The gate has counted it already.
    Admit,
    /// Refuse it, with an answer if one is owed.
    Shed(ShedReason),
}

/// In which order admitted messages are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Discipline {
    /// One queue without classes, as a plain socket buffer.
    Fifo,
    /// Control before originals before copies.
    Priority,
}

/// An admission policy.
///
/// Callers keep this contract:
///
/// - `arrive` is called once for each original about to be queued, with the number in the system *before* it joins.
///   Under [`Discipline::Fifo`] it is called for every message, whatever its class.
/// - After [`Decision::Admit`] the message is queued. If that proves impossible, `depart` is called with the
///   unchanged number, which takes the count back.
/// - `depart` is called with the number that is left whenever it has fallen, for whatever reason (served, expired,
///   lost with the server). One call may cover several departures; an extra call changes nothing.
///
/// A gate's state is thus a function of the numbers at the instants of these calls. Several arrivals or departures
/// between two calls lead where single steps would have ended, except for detours in between.
pub trait Gate {
    /// Decides on a message with this share hash while `in_system` others are in the system. The hash is not looked
    /// at, and need not be computed, when [`Gate::looks_at_hash`] denies it before the call.
    fn arrive(&mut self, now: Nanos, share_hash: u32, in_system: usize) -> Decision;

    /// Whether the hash of the next arrival can matter. By default it does not in [`GateState::Normal`]: the arrival that
    /// turns normal into overload is judged as in normal.
    fn looks_at_hash(&self) -> bool {
        self.state() != GateState::Normal
    }

    /// Notes that from now on messages are let through by `word` before they arrive here. Never called where every
    /// message reaches the gate, as in most simulations.
    fn published(&mut self, _word: GateWord) {}

    /// Notes that `in_system` messages are left in the system.
    fn depart(&mut self, now: Nanos, in_system: usize);

    /// Resolves thresholds that are given in time. A rate that is negative or not a number is ignored.
    fn set_service_rate(&mut self, rate_per_s: f64);

    /// The current state.
    fn state(&self) -> GateState;

    /// What to publish for the XDP program.
    fn word(&self) -> GateWord;

    /// State changes since construction.
    fn transitions(&self) -> u64;

    /// The order of service that belongs to this policy.
    fn discipline(&self) -> Discipline;
}

#[cfg(test)]
mod tests {
    use super::{Decision, GateState, GateWord, ShedReason};

    #[test]
    fn a_word_has_the_layout_of_the_shared_header() {
        let word = GateWord::new(GateState::Discard, 0x8000_0001);
        assert_eq!(word.bits(), 0x0000_0002_8000_0001);
        assert_eq!((word.state(), word.share_threshold()), (GateState::Discard, 0x8000_0001));
        assert_eq!(GateWord::from_bits(word.bits()), Some(word));
        assert_eq!(GateWord::from_bits(3 << 32), None);
        assert_eq!(GateWord::OPEN, GateWord::new(GateState::Normal, 0));
        let flagged = word.with_table_unasked(true).with_silence(true);
        assert_eq!(flagged.bits(), 0x0000_0302_8000_0001);
        assert_eq!((flagged.state(), flagged.share_threshold()), (GateState::Discard, 0x8000_0001));
        assert_eq!(flagged.with_table_unasked(false).with_silence(false), word);
        let watched = flagged.with_monitored(0x8040);
        assert_eq!((watched.state(), watched.share_threshold()), (word.state(), word.share_threshold()));
        assert_eq!(watched.bits() >> 48, 0x8040);
        assert_eq!(watched.with_monitored(0), flagged);
    }

    #[test]
    fn states_are_numbered_as_in_the_shared_header() {
        for (number, state) in GateState::ALL.into_iter().enumerate() {
            assert_eq!(GateState::from_u8(u8::try_from(number).unwrap()), Some(state));
        }
        assert_eq!(GateState::from_u8(3), None);
    }

    #[test]
    fn a_share_is_a_threshold_and_a_threshold_a_share() {
        for (share, threshold) in [(0.0, 0), (0.5, 1 << 31), (0.25, 1 << 30), (1.0, u32::MAX)] {
            assert_eq!(GateWord::threshold_of(share), threshold);
            let word = GateWord::new(GateState::Overload, threshold);
            assert!((word.admitted_share() - share).abs() < 1e-9, "{share}");
        }
        assert_eq!(GateWord::new(GateState::Discard, 1 << 31).admitted_share(), 0.0);
        assert_eq!(GateWord::OPEN.admitted_share(), 1.0);
    }

    #[test]
    fn a_hash_is_inside_the_share_only_below_the_threshold() {
        let word = GateWord::new(GateState::Overload, 1000);
        assert_eq!(word.decide(999), Decision::Admit);
        assert_eq!(word.decide(1000), Decision::Shed(ShedReason::ShareOutside));
        assert_eq!(GateWord::new(GateState::Overload, 0).decide(0), Decision::Shed(ShedReason::ShareOutside));
        assert_eq!(
            GateWord::new(GateState::Discard, u32::MAX).decide(0),
            Decision::Shed(ShedReason::GateDiscard)
        );
        assert_eq!(GateWord::OPEN.decide(u32::MAX), Decision::Admit);
    }
}
