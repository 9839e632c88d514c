//! What is run: policies, loads, durations, and the configuration of each side.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use bench::CallerConfig;
use serde::Serialize;

use super::instance::Guarded;
use super::stage::{CLIENT_ADDRESS, SERVER_ADDRESS};
use crate::cores;

/// Where the demo's service listens.
pub(crate) const SERVICE: SocketAddr = SocketAddr::new(IpAddr::V4(SERVER_ADDRESS), 5060);
/// Its name in configuration and status.
pub(crate) const SERVICE_NAME: &str = "demo";
/// RFC 3261 T1: an answer later than this costs a copy.
pub(super) const T1_MS: f64 = 500.0;

/// The large buffer of the policies without control, in seconds of the server's work. It must be far above T1, since
/// a short buffer is a control of its own (it bounds the delay); 10 s are what a default socket buffer of some
/// megabytes holds in front of a slow server.
const BUFFER_S: u32 = 10;
/// Frames beyond that buffer, for all rings and for what is on its way.
const FRAMES_BESIDE_BUFFER: u32 = 8192;
/// Work that lies at the server, in milliseconds of its capacity; half of the messages are ACKs, which cost nothing.
/// Less than a hiccup of a busy machine (some 10 ms) would let the server idle and show the machine, not the policy;
/// much more would be a queue without priority.
const AT_SERVER_MS: u32 = 40;
/// The least that makes sense for slow servers: the default of `sipweir run`.
const AT_SERVER_MIN: u32 = 32;
/// Width of the caller's time bins; warm-up and window are multiples of it, so that bins belong to one of them.
const BIN_MS: u64 = 100;
/// Client addresses (ports): as many as a few busy proxies have.
const SOCKETS: u16 = 32;

/// What is done with more calls than the server can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Policy {
    /// One queue, no classes, a large buffer: a server as it comes.
    Fifo,
    /// Originals before copies, the same large buffer.
    Priority,
    /// The default of `sipweir run`.
    PriorityHysteresis,
}

impl Policy {
    pub(super) const ALL: [Self; 3] = [Self::Fifo, Self::Priority, Self::PriorityHysteresis];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Priority => "priority",
            Self::PriorityHysteresis => "priority_hysteresis",
        }
    }

    /// What it does, for the report.
    pub(super) fn sentence(self) -> &'static str {
        match self {
            Self::Fifo => {
                "one queue with a large buffer; originals and copies alike, first come, first served"
            }
            Self::Priority => "originals before copies, the same large buffer, nobody is refused in time",
            Self::PriorityHysteresis => {
                "what sipweir does: originals before copies, and a gate that refuses early"
            }
        }
    }

    fn gate(self, buffer: u32) -> String {
        match self {
            Self::Fifo => format!("kind = \"fifo\"\nbuffer = {buffer}\n"),
            Self::Priority => format!("kind = \"tail_drop\"\nbuffer = {buffer}\n"),
            Self::PriorityHysteresis => String::new(),
        }
    }
}

/// Laws of the embedded server's service time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(super) enum ServiceTime {
    /// Exponentially distributed.
    Exponential,
    /// Every request takes the mean.
    Constant,
}

impl ServiceTime {
    fn name(self) -> &'static str {
        match self {
            Self::Exponential => "exponential",
            Self::Constant => "constant",
        }
    }
}

/// How the caller marks copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(super) enum Marker {
    /// Not at all: copies are the same bytes.
    Off,
    /// `INVITE sip:x SIP/2.0 rtx=1`.
    Field,
    /// `INVITE sip:x;rtx=1 SIP/2.0`.
    Uri,
}

impl From<Marker> for bench::Marker {
    fn from(marker: Marker) -> Self {
        match marker {
            Marker::Off => Self::Off,
            Marker::Field => Self::Field,
            Marker::Uri => Self::Uri,
        }
    }
}

/// The phases of one run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Phases {
    /// Calls that start now are not counted. At twice the capacity a queue of 1 s takes 1 s to build.
    pub(super) warm_up: Duration,
    /// What happens now is counted.
    pub(super) window: Duration,
    /// The load goes on, so that calls of the window can end: longer than T1.
    pub(super) tail: Duration,
}

impl Phases {
    /// 15 runs with start and end in less than 5 minutes.
    const FULL: Self = Self::of_millis(3000, 10_000, 1000);
    /// 9 runs with start and end in less than 40 s.
    const QUICK: Self = Self::of_millis(1100, 1500, 600);

    const fn of_millis(warm_up: u64, window: u64, tail: u64) -> Self {
        assert!(
            warm_up.is_multiple_of(BIN_MS) && window.is_multiple_of(BIN_MS),
            "bins must not straddle the window's ends"
        );
        Self {
            warm_up: Duration::from_millis(warm_up),
            window: Duration::from_millis(window),
            tail: Duration::from_millis(tail),
        }
    }

    /// All of it.
    pub(super) fn total(self) -> Duration {
        self.warm_up + self.window + self.tail
    }
}

/// One run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) policy: Policy,
    /// Calls offered, as a multiple of the capacity.
    pub(super) load: f64,
}

/// The whole demo.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) quick: bool,
    pub(super) capacity_per_s: u32,
    pub(super) service_time: ServiceTime,
    pub(super) marker: Marker,
    pub(super) seed: u64,
    pub(super) phases: Phases,
    pub(super) caller_core: usize,
    pub(super) worker_core: usize,
    runs: Vec<Run>,
}

impl Plan {
    pub(super) fn new(
        quick: bool,
        capacity_per_s: u32,
        service_time: ServiceTime,
        marker: Marker,
        seed: u64,
    ) -> Self {
        let loads: &[f64] = if quick { &[1.0, 2.0, 5.0] } else { &[0.5, 1.0, 2.0, 5.0, 10.0] };
        let runs = Policy::ALL.iter().flat_map(|&policy| loads.iter().map(move |&load| Run { policy, load }));
        let available = cores::available();
        Self {
            quick,
            capacity_per_s,
            service_time,
            marker,
            seed,
            phases: if quick { Phases::QUICK } else { Phases::FULL },
            caller_core: available.first().copied().unwrap_or(0),
            worker_core: available.last().copied().unwrap_or(0),
            runs: runs.collect(),
        }
    }

    pub(super) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// What the user reads first.
    pub(super) fn announcement(&self) -> String {
        /// Start and end of an instance; one with a full buffer takes a second to drain it.
        const AROUND_A_RUN: Duration = Duration::from_millis(1000);
        let runs = self.runs.len() as u32;
        let total_s = ((self.phases.total() + AROUND_A_RUN) * runs).as_secs_f64();
        format!(
            "{runs} runs against a server of {} requests/s, together about {total_s:.0} s. Ctrl-C ends it and leaves nothing behind.",
            self.capacity_per_s
        )
    }

    /// The large buffer, in messages.
    pub(super) fn buffer(&self) -> u32 {
        self.capacity_per_s * BUFFER_S
    }

    /// The configuration file of the guarded side.
    pub(super) fn guard_config(&self, policy: Policy, control: &Path) -> String {
        let buffer = self.buffer();
        let embedded = format!(
            "capacity = {:?}\nservice_time = \"{}\"\nqueue = {}\n",
            f64::from(self.capacity_per_s),
            self.service_time.name(),
            (self.capacity_per_s * AT_SERVER_MS / 1000).max(AT_SERVER_MIN)
        );
        let guarded = Guarded {
            seed: self.seed,
            worker_core: self.worker_core,
            frames: buffer + FRAMES_BESIDE_BUFFER,
            control,
            transactions: "",
            service: "",
            embedded: &embedded,
            gate: &policy.gate(buffer),
        };
        guarded.configuration()
    }

    /// What the caller offers.
    pub(super) fn caller(&self, load: f64) -> CallerConfig {
        let Phases { warm_up, window, tail } = self.phases;
        let rate_per_s = load * f64::from(self.capacity_per_s);
        let calls = rate_per_s * (warm_up + window + tail).as_secs_f64();
        CallerConfig {
            sources: bench::Sources {
                addresses: vec![CLIENT_ADDRESS.into()],
                sockets: SOCKETS,
                ..Default::default()
            },
            rate_per_s,
            duration_ns: nanos(warm_up + window + tail),
            warm_up_ns: nanos(warm_up),
            tail_ns: nanos(tail),
            drain_ns: 0,
            marker: self.marker.into(),
            // Longer than any run: a BYE costs the answering server nothing, but it would take part in the queues.
            hold: bench::Hold { mean_ns: nanos(Duration::from_secs(3600)), exponential: false },
            // Poisson arrivals stay within 5 standard deviations of their mean; no call is ever forgotten.
            max_live_calls: (calls + 5.0 * calls.sqrt()) as u32 + 100,
            series_interval_ns: BIN_MS * 1_000_000,
            core: Some(self.caller_core),
            seed: self.seed,
            ..CallerConfig::new(SERVICE)
        }
    }
}

/// Run phases are far below 584 years.
fn nanos(span: Duration) -> u64 {
    span.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::{Marker, Plan, Policy, SERVICE_NAME, ServiceTime};
    use crate::config::{Config, GateKind, HandoffKind};
    use std::path::Path;
    use std::time::Duration;

    fn plan(quick: bool) -> Plan {
        Plan::new(quick, 2000, ServiceTime::Constant, Marker::Uri, 7)
    }

    #[test]
    fn the_configuration_of_every_policy_is_accepted_and_says_what_it_should() {
        let plan = plan(false);
        let kinds = Policy::ALL.map(|policy| {
            let text = plan.guard_config(policy, Path::new("/run/x/control.sock"));
            let config =
                Config::parse(policy.name(), &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            let service = &config.service[SERVICE_NAME];
            assert_eq!(service.handoff, HandoffKind::Embedded);
            assert_eq!(service.embedded.capacity, 2000.0);
            assert_eq!(service.embedded.service_time, crate::config::ServiceTime::Constant);
            assert_eq!(config.control.socket, Path::new("/run/x/control.sock"));
            service.gate.kind
        });
        assert_eq!(kinds, [GateKind::Fifo, GateKind::TailDrop, GateKind::Hysteretic]);
    }

    #[test]
    fn the_caller_accepts_every_load() {
        for quick in [false, true] {
            let plan = plan(quick);
            for run in plan.runs() {
                let caller = plan.caller(run.load);
                caller.check().expect("a configuration that can run");
                assert_eq!(caller.rate_per_s, 2000.0 * run.load);
            }
        }
    }

    #[test]
    fn both_lengths_keep_their_promise() {
        let planned = |quick| {
            let plan = plan(quick);
            plan.phases.total() * plan.runs().len() as u32
        };
        assert!(planned(true) < Duration::from_secs(32), "8 s are needed around 9 runs");
        assert!(planned(false) < Duration::from_secs(270), "30 s are needed around 15 runs");
    }

    #[test]
    fn a_quick_demo_covers_loads_1_2_and_5_for_each_policy() {
        let runs: Vec<_> = plan(true).runs().iter().map(|run| (run.policy.name(), run.load)).collect();
        assert_eq!(runs.len(), 9);
        assert_eq!(&runs[3..6], [("priority", 1.0), ("priority", 2.0), ("priority", 5.0)]);
    }
}
