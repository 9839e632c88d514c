//! What a worker counts: plain numbers with one writer, read by the control thread.
//!
//! INVARIANT: for each class, received = sum over outcomes + waiting. The worker counts a message as received
//! when it leaves its RX ring or the side door's socket, and gives it exactly one [`Outcome`] when it leaves the worker.

mod wait;

use std::sync::atomic::{AtomicU64, Ordering};

pub use wait::{WAIT_BUCKETS, WaitHistogram, wait_bounds_s};

use sip::{Class, HandoffError, NoReply};

use crate::capture::live::Point;
use crate::reply_policy::Silence;
use crate::sources::Board;

/// What became of a frame that a worker took from a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Outcome {
    /// Given to the server.
    HandedOver,
    /// Shed by the gate; an answer was sent.
    Rejected,
    /// Waited longer than `max_wait`; an answer was sent.
    RejectedLate,
    /// The server has no socket; an answer was sent.
    RejectedServerDown,
    /// Above the cap of its source on originals; an answer was sent.
    RejectedAboveCap,
    /// Shed like the four above, without an answer since the configuration wants none for this peer. So are all the
    /// `Silent…` that follow, each for its own reason.
    SilentByChoice,
    /// Via, From, To, Call-ID or CSeq is missing: no client could match an answer.
    SilentMissingHeader,
    /// There is nowhere to send it: no usable Via, a `maddr` elsewhere, a source that nobody answers.
    SilentNoDestination,
    /// The answer would be longer than the request.
    SilentLongerThanRequest,
    /// A message that is never answered, or whose values cannot be copied.
    SilentUnanswerable,
    /// `reply.rate` is used up.
    SilentOverBudget,
    /// `reply.per_destination` is.
    SilentOverDestinationCap,
    /// No frame or no place in the TX ring.
    SilentNoTxRoom,
    /// A copy of a request that still waits here: one answer serves both.
    CopyAbsorbed,
    /// More copies than a client's timers make.
    CopyExcess,
    /// The ACK to an answer of our own: the server knows nothing of that transaction, so it ends here.
    AckAbsorbed,
    /// A copy that waited longer than `max_wait`.
    CopyStale,
    /// A copy that still waited when a younger message of its call arrived.
    CopyOutdated,
    /// A control message that waited so long that its sender has sent it again: 4 s, or `max_wait` above the cap of its
    /// source.
    ControlStale,
    /// The source is an address of this host, or a broadcast address of its subnets: the stack would drop it.
    SourceLocal,
    /// Not SIP, and `xdp.not_sip` says drop.
    NotSipDropped,
    /// No place in the waiting queue or on the way to the server.
    NoRoom,
    /// The UDP checksum is wrong.
    ChecksumWrong,
    /// Marker or headers are not where they should be: the packet cannot be rewritten.
    Unfit,
}

impl Outcome {
    /// All outcomes, in numeric order.
    pub const ALL: [Self; 24] = [
        Self::HandedOver,
        Self::Rejected,
        Self::RejectedLate,
        Self::RejectedServerDown,
        Self::RejectedAboveCap,
        Self::SilentByChoice,
        Self::SilentMissingHeader,
        Self::SilentNoDestination,
        Self::SilentLongerThanRequest,
        Self::SilentUnanswerable,
        Self::SilentOverBudget,
        Self::SilentOverDestinationCap,
        Self::SilentNoTxRoom,
        Self::CopyAbsorbed,
        Self::CopyExcess,
        Self::AckAbsorbed,
        Self::CopyStale,
        Self::CopyOutdated,
        Self::ControlStale,
        Self::SourceLocal,
        Self::NotSipDropped,
        Self::NoRoom,
        Self::ChecksumWrong,
        Self::Unfit,
    ];

    /// The metric label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HandedOver => "handed_over",
            Self::Rejected => "rejected",
            Self::RejectedLate => "rejected_late",
            Self::RejectedServerDown => "rejected_server_down",
            Self::RejectedAboveCap => "rejected_above_cap",
            Self::SilentByChoice => "silent_by_choice",
            Self::SilentMissingHeader => "silent_missing_header",
            Self::SilentNoDestination => "silent_no_destination",
            Self::SilentLongerThanRequest => "silent_longer_than_request",
            Self::SilentUnanswerable => "silent_unanswerable",
            Self::SilentOverBudget => "silent_over_budget",
            Self::SilentOverDestinationCap => "silent_over_destination_cap",
            Self::SilentNoTxRoom => "silent_no_tx_room",
            Self::CopyAbsorbed => "copy_absorbed",
            Self::CopyExcess => "copy_excess",
            Self::AckAbsorbed => "ack_absorbed",
            Self::CopyStale => "copy_stale",
            Self::CopyOutdated => "copy_outdated",
            Self::ControlStale => "control_stale",
            Self::SourceLocal => "source_local",
            Self::NotSipDropped => "not_sip_dropped",
            Self::NoRoom => "no_room",
            Self::ChecksumWrong => "checksum_wrong",
            Self::Unfit => "unfit",
        }
    }
}

/// What an outcome means for the transaction table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Copies of the request get the same answer.
    Refused,
    /// The request was lost here: its copy is an original.
    Lost,
    /// The table has nothing to learn from it.
    Nothing,
}

impl Outcome {
    /// What the table shall remember of a request that ends so.
    #[must_use]
    pub const fn ending(self) -> Ending {
        match self {
            Self::Rejected
            | Self::RejectedLate
            | Self::RejectedServerDown
            | Self::RejectedAboveCap
            | Self::SilentByChoice
            | Self::SilentMissingHeader
            | Self::SilentNoDestination
            | Self::SilentLongerThanRequest
            | Self::SilentUnanswerable
            | Self::SilentOverBudget
            | Self::SilentOverDestinationCap
            | Self::SilentNoTxRoom => Ending::Refused,
            Self::ControlStale | Self::NoRoom | Self::ChecksumWrong | Self::Unfit => Ending::Lost,
            Self::HandedOver
            | Self::CopyAbsorbed
            | Self::CopyExcess
            | Self::AckAbsorbed
            | Self::CopyStale
            | Self::CopyOutdated
            | Self::SourceLocal
            | Self::NotSipDropped => Ending::Nothing,
        }
    }
}

impl From<NoReply> for Outcome {
    fn from(reason: NoReply) -> Self {
        match reason {
            NoReply::MissingHeader => Self::SilentMissingHeader,
            NoReply::BadVia | NoReply::ForeignMaddr | NoReply::BadSource | NoReply::GroupDestination => {
                Self::SilentNoDestination
            }
            NoReply::LongerThanRequest => Self::SilentLongerThanRequest,
            // A frame holds whatever is no longer than what came in one, so there is always room.
            NoReply::NotARequest | NoReply::UnansweredMethod | NoReply::StrayReturn | NoReply::NoRoom => {
                Self::SilentUnanswerable
            }
        }
    }
}

impl From<Silence> for Outcome {
    fn from(silence: Silence) -> Self {
        match silence {
            Silence::ByChoice => Self::SilentByChoice,
            Silence::OverBudget => Self::SilentOverBudget,
            Silence::OverDestinationCap => Self::SilentOverDestinationCap,
        }
    }
}

impl From<HandoffError> for Outcome {
    fn from(error: HandoffError) -> Self {
        match error {
            HandoffError::HeaderChecksum | HandoffError::DatagramChecksum => Self::ChecksumWrong,
            HandoffError::Malformed => Self::Unfit,
        }
    }
}

/// A counter or gauge with one writer: adding is a load and a store, no locked instruction.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// A count that has counted nothing, where `Default` cannot be called.
    const fn zero() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds `n`; only the owning worker may.
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Sets a gauge; only the owning worker may.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// Reads it, from anywhere.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

const CLASSES: usize = Class::ALL.len();
const OUTCOMES: usize = Outcome::ALL.len();

/// Counters of one worker for one lane (a service at a worker).
#[derive(Debug)]
pub struct LaneCounters {
    received: [Count; CLASSES],
    above_cap: [Count; CLASSES],
    outcomes: [[Count; OUTCOMES]; CLASSES],
    waits: [WaitHistogram; CLASSES],
    /// Messages waiting in sipweir.
    pub waiting: Count,
    /// Originals that would wait or be at the server if they were not only watched.
    pub would_wait: Count,
    /// Messages taken to be at the server.
    pub at_server: Count,
    /// `overload::GateState` as a number.
    pub gate_state: Count,
    /// Share of originals that the gate's word admits, millionths.
    pub gate_admits_ppm: Count,
    /// Changes of the gate's state since start.
    pub gate_transitions: Count,
    /// `overload::GateSums`, its time in normal, overload and discard.
    pub gate_state_ns: [Count; 3],
    /// Returns of the gate to normal.
    pub gate_returns: Count,
    /// Sum of their times.
    pub gate_return_ns: Count,
    /// Integral over time of the number that the gate sees, in messages times microseconds: in nanoseconds, ten thousand
    /// messages would wrap it within three weeks.
    pub in_system_us: Count,
    /// Measured service rate, thousandths of an original per second.
    pub service_rate_milli: Count,
    /// `overload::ServerState` as a number.
    pub server_state: Count,
    /// 1 while the server has a socket.
    pub server_has_socket: Count,
    /// 1 while it has one and answers no probes.
    pub server_silent: Count,
    /// Thousandths of an original per second that the server is given at most for its health; 0 without a limit.
    pub server_limit_milli: Count,
    /// Changes of the server's state since start.
    pub server_changes: Count,
    /// This worker's even part of the datagrams that the server's own socket dropped since start.
    pub server_drops: Count,
    /// 1 when the embedded processor is gone, which ends the run.
    pub processor_gone: Count,
    /// Longest wait of a message that was handed over since start, nanoseconds.
    pub wait_ns_max: Count,
    /// Replies in which there was no room for the overload control that the client offers.
    pub control_left_out: Count,
}

impl Default for LaneCounters {
    fn default() -> Self {
        Self {
            received: [const { Count::zero() }; CLASSES],
            above_cap: [const { Count::zero() }; CLASSES],
            outcomes: [const { [const { Count::zero() }; OUTCOMES] }; CLASSES],
            waits: std::array::from_fn(|_| WaitHistogram::default()),
            waiting: Count::default(),
            would_wait: Count::default(),
            at_server: Count::default(),
            gate_state: Count::default(),
            gate_admits_ppm: Count::default(),
            gate_transitions: Count::default(),
            gate_state_ns: Default::default(),
            gate_returns: Count::default(),
            gate_return_ns: Count::default(),
            in_system_us: Count::default(),
            service_rate_milli: Count::default(),
            server_state: Count::default(),
            server_has_socket: Count::default(),
            server_silent: Count::default(),
            server_limit_milli: Count::default(),
            server_changes: Count::default(),
            server_drops: Count::default(),
            processor_gone: Count::default(),
            wait_ns_max: Count::default(),
            control_left_out: Count::default(),
        }
    }
}

impl LaneCounters {
    /// Counts a message taken from an RX ring or from the side door.
    pub fn received(&self, class: Class) {
        self.received[class as usize].add(1);
    }

    /// Counts a message above the cap of its source: it lost its privilege, and gets its outcome beside this.
    pub fn above_cap(&self, class: Class) {
        self.above_cap[class as usize].add(1);
    }

    /// Counts what became of it.
    pub fn outcome(&self, class: Class, outcome: Outcome) {
        self.outcomes[class as usize][outcome as usize].add(1);
    }

    /// Counts how long a message waited that the server was given.
    pub fn waited(&self, class: Class, waited_ns: u64) {
        self.waits[class as usize].add(waited_ns);
        self.wait_ns_max.set(self.wait_ns_max.get().max(waited_ns));
    }

    /// How long messages of a class have waited.
    #[must_use]
    pub fn waits_of(&self, class: Class) -> &WaitHistogram {
        &self.waits[class as usize]
    }

    /// Messages of a class taken in so far.
    #[must_use]
    pub fn received_of(&self, class: Class) -> u64 {
        self.received[class as usize].get()
    }

    /// Messages of a class above the caps of their sources so far.
    #[must_use]
    pub fn above_cap_of(&self, class: Class) -> u64 {
        self.above_cap[class as usize].get()
    }

    /// Frames of a class with that outcome so far.
    #[must_use]
    pub fn outcome_of(&self, class: Class, outcome: Outcome) -> u64 {
        self.outcomes[class as usize][outcome as usize].get()
    }

    /// Messages of all classes taken in so far.
    #[must_use]
    pub fn received_total(&self) -> u64 {
        self.received.iter().map(Count::get).sum()
    }

    /// Outcomes of all classes so far.
    #[must_use]
    pub fn outcomes_total(&self) -> u64 {
        self.outcomes.iter().flatten().map(Count::get).sum()
    }
}

/// The kernel's counters of one AF_XDP socket that have no place elsewhere (`afxdp::SocketStatistics`).
#[derive(Debug, Default)]
pub struct SocketCounters {
    /// Packets dropped for want of a frame, or because they were longer than one.
    pub rx_dropped: Count,
    /// Invalid addresses in the fill ring.
    pub rx_invalid_descs: Count,
    /// Invalid descriptors in the TX ring.
    pub tx_invalid_descs: Count,
    /// How often the TX ring was found empty; no loss.
    pub tx_ring_empty_descs: Count,
}

impl SocketCounters {
    /// Takes over what the kernel says.
    pub fn set(&self, statistics: &afxdp::SocketStatistics) {
        self.rx_dropped.set(statistics.rx_dropped);
        self.rx_invalid_descs.set(statistics.rx_invalid_descs);
        self.tx_invalid_descs.set(statistics.tx_invalid_descs);
        self.tx_ring_empty_descs.set(statistics.tx_ring_empty_descs);
    }
}

/// Counters of one worker that belong to no service.
#[derive(Debug, Default)]
pub struct WorkerCounters {
    /// Turns of the loop.
    pub turns: Count,
    /// Times the worker went to sleep.
    pub sleeps: Count,
    /// Frames and large buffers held by the worker (waiting or in hand).
    pub frames_outstanding: Count,
    /// Frames free.
    pub frames_free: Count,
    /// Replies handed to the NIC.
    pub replies_sent: Count,
    /// Replies of embedded processors that the NIC's full TX ring refused.
    pub transmit_full: Count,
    /// Descriptors from the kernel that point to no frame of ours; always 0.
    pub bad_descriptors: Count,
    /// Packets whose metadata make no sense; always 0.
    pub bad_metadata: Count,
    /// Transactions forgotten before their time, to make room for newer ones.
    pub transactions_evicted: Count,
    /// Requests that could not be entered in the transaction table because other writers were faster.
    pub transactions_lost: Count,
    /// Per ring: packets that the kernel dropped since the RX ring was full.
    pub ring_full: [Count; afxdp::RINGS],
    /// Packets that the kernel dropped since no frame was free: priority isolation broke. Always 0.
    pub fill_ring_empty: Count,
    /// Per ring, and at last the hand-off device's socket: what else the kernel counts for an AF_XDP socket.
    pub sockets: [SocketCounters; afxdp::RINGS + 1],
    /// Time that the worker's thread has run on a CPU, nanoseconds; brought up to date about once a second.
    pub cpu_ns: Count,
    /// The busiest sources of the last seconds.
    pub sources: Board,
    /// Where the worker finds that a capture has begun.
    pub capture_point: Point,
    /// Refused messages left for the export.
    pub captured: Count,
    /// Of these, messages that were cut to `capture::MESSAGE_BYTES_MAX`.
    pub capture_cut: Count,
    /// Refused messages for which no buffer was spare.
    pub capture_lost: Count,
    /// Datagrams that came by the side door and are for a service.
    pub side_received: Count,
    /// Datagrams that found the side door's sockets by themselves; dropped.
    pub side_foreign: Count,
    /// Datagrams that the side door's sockets had no room for.
    pub side_lost: Count,
    /// Large buffers free.
    pub large_free: Count,
}
