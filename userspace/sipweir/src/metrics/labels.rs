//! The labels, and which values each can have.

use overload::{GateState, ServerState};
use sip::{Class, Reason, Verdict};

use crate::counters::Outcome;
use crate::status::{SOCKET_NAMES, STATUS_CLASSES};

/// A dimension of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    /// Which guarded service.
    Service,
    /// Whether a service is only watched.
    Mode,
    /// How its server gets messages.
    Handoff,
    /// What its gate is.
    GateKind,
    /// Which NIC queue, and so which worker.
    Queue,
    /// What a message is.
    Class,
    /// What the XDP program has done with a packet.
    Verdict,
    /// Why.
    Reason,
    /// What became of a message at a worker.
    Outcome,
    /// State of a gate.
    GateState,
    /// State of a server.
    ServerState,
    /// Which AF_XDP socket of a queue.
    Socket,
    /// What frames are.
    Frames,
    /// How a look-up at the side door ended.
    LookUp,
    /// What became of a datagram at the side door.
    SideDoor,
    /// What became of a message on its way to the collector.
    Capture,
    /// Which list of sources.
    List,
    /// What became of a reload.
    Reload,
    /// Which BPF program.
    Program,
    /// What a server has answered.
    Status,
    /// Which way packets went.
    Direction,
    /// Version of sipweir.
    Version,
    /// The guarded interface.
    Interface,
    /// How the XDP program is attached.
    XdpMode,
    /// How AF_XDP gets at packets.
    AfXdpMode,
}

/// Which values a label can have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Values {
    /// These and no others.
    Closed(Vec<&'static str>),
    /// What the configuration, the host or the build says; the sentence says what.
    Open(&'static str),
}

impl Label {
    /// All labels.
    pub const ALL: [Self; 25] = [
        Self::Service,
        Self::Mode,
        Self::Handoff,
        Self::GateKind,
        Self::Queue,
        Self::Class,
        Self::Verdict,
        Self::Reason,
        Self::Outcome,
        Self::GateState,
        Self::ServerState,
        Self::Socket,
        Self::Frames,
        Self::LookUp,
        Self::SideDoor,
        Self::Capture,
        Self::List,
        Self::Reload,
        Self::Program,
        Self::Status,
        Self::Direction,
        Self::Version,
        Self::Interface,
        Self::XdpMode,
        Self::AfXdpMode,
    ];

    /// As it stands in samples and queries. Those that say how something ended share a name: no metric has two of them.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Mode => "mode",
            Self::Handoff => "handoff",
            Self::GateKind => "gate",
            Self::Queue => "queue",
            Self::Class => "class",
            Self::Verdict => "verdict",
            Self::Reason => "reason",
            Self::Outcome => "outcome",
            Self::GateState | Self::ServerState | Self::Frames => "state",
            Self::Socket => "socket",
            Self::LookUp | Self::SideDoor | Self::Capture | Self::Reload => "result",
            Self::List => "list",
            Self::Program => "program",
            Self::Status => "status",
            Self::Direction => "direction",
            Self::Version => "version",
            Self::Interface => "interface",
            Self::XdpMode => "xdp",
            Self::AfXdpMode => "af_xdp",
        }
    }

    /// Which values it can have.
    #[must_use]
    pub fn values(self) -> Values {
        let closed = |values: &[&'static str]| Values::Closed(values.into());
        match self {
            Self::Service => Values::Open("the services' names in the configuration"),
            Self::Mode => closed(&["enforce", "monitor", "monitor_some"]),
            Self::Handoff => closed(&["kernel", "embedded"]),
            Self::GateKind => closed(&["hysteretic", "random", "tail_drop", "fifo"]),
            Self::Queue => Values::Open("0 to the number of the interface's RX queues less one"),
            Self::Class => Values::Closed(Class::ALL.map(Class::name).into()),
            Self::Verdict => Values::Closed(Verdict::ALL.map(Verdict::name).into()),
            Self::Reason => Values::Closed(Reason::ALL.map(Reason::name).into()),
            Self::Outcome => Values::Closed(Outcome::ALL.map(Outcome::name).into()),
            Self::GateState => Values::Closed(GateState::ALL.map(GateState::name).into()),
            Self::ServerState => Values::Closed(ServerState::ALL.map(ServerState::name).into()),
            Self::Socket => closed(&SOCKET_NAMES),
            Self::Frames => closed(&["held", "free"]),
            Self::LookUp => closed(&["assigned", "no_socket", "refused", "denied"]),
            Self::SideDoor => closed(&["received", "foreign", "lost"]),
            Self::Capture => closed(&["captured", "cut", "lost", "sent", "unsent"]),
            Self::List => Values::Closed(xdp_prog::List::ALL.map(xdp_prog::List::name).into()),
            Self::Reload => closed(&["done", "refused"]),
            Self::Program => closed(&["xdp", "side_door", "answers"]),
            Self::Status => closed(&STATUS_CLASSES),
            Self::Direction => closed(&["receive", "transmit"]),
            Self::Version => Values::Open("the version of sipweir"),
            Self::Interface => Values::Open("the interface of the configuration"),
            Self::XdpMode => closed(&["native", "generic"]),
            Self::AfXdpMode => closed(&["copy", "zero_copy"]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Label, Values};

    #[test]
    fn closed_sets_are_what_a_query_can_name() {
        for label in Label::ALL {
            let Values::Closed(values) = label.values() else { continue };
            assert!(!values.is_empty(), "{label:?}");
            for value in values {
                let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
                assert!(value.bytes().all(is_plain), "{label:?}: {value:?}");
            }
        }
    }
}
