//! The picture of a running instance that `sipweir status` shows: gathered from the workers' counters and the
//! XDP program's, as JSON or for people.
//!
//! The JSON form is a promise (docs/status.md, made from these types): keys are added, not renamed. Counters count from the
//! start of the instance.

mod answers;
mod beside;
mod capturing;
mod lists;
mod page;
mod service;
mod sources;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use overload::{GateState, ServerState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sip::Class;

use crate::counters::{LaneCounters, Outcome, WorkerCounters};
use crate::netdev::Traffic;

pub use answers::{AnswerTime, Answers, STATUS_CLASSES};
pub use beside::{ProgramCost, SOCKET_NAMES, Socket};
pub use capturing::Capturing;
pub use lists::{List, Lists};
pub use page::{page, schema};
pub use service::{AtWorker, Wait};
pub use sources::{Source, Sources};

/// The version of the document that this program writes.
pub const FORMAT: u32 = 1;

/// A running instance.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Version of this document: raised only when a key goes or changes its meaning.
    #[serde(default)]
    pub format: u32,
    /// Version of sipweir.
    pub version: String,
    /// Seconds since start.
    pub uptime_s: f64,
    /// The guarded interface.
    pub interface: String,
    /// What was obtained from the kernel.
    pub mode: Mode,
    /// By name.
    pub services: BTreeMap<String, Service>,
    /// Upper bounds of the buckets in which waits are counted (`services.NAME.wait.CLASS.buckets`), seconds; the last bucket has
    /// none.
    #[serde(default)]
    pub wait_bounds_s: Vec<f64>,
    /// Upper bounds of the buckets in which times to the first answer are counted (`services.NAME.answers.time.buckets`),
    /// seconds; the last bucket has none.
    #[serde(default)]
    pub answer_bounds_s: Vec<f64>,
    /// The transaction table.
    #[serde(default)]
    pub transactions: Transactions,
    /// In queue order.
    pub workers: Vec<Worker>,
    /// Who sends most.
    #[serde(default)]
    pub sources: Sources,
    /// What only the kernel can put together.
    #[serde(default)]
    pub side_door: SideDoor,
    /// Sources whose packets are dropped, and those whose are not.
    #[serde(default)]
    pub lists: Lists,
    /// The export of refused messages, if it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<Capture>,
    /// What a client captures, while one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capturing: Option<Capturing>,
    /// What the kernel counts for the guarded interface.
    #[serde(default)]
    pub interface_counters: Traffic,
    /// What the programs `xdp`, `side_door` and `answers` cost a run; only what the kernel has timed, which it does while
    /// `kernel.bpf_stats_enabled` is 1.
    #[serde(default)]
    pub programs: BTreeMap<String, ProgramCost>,
    /// Packets seen by the XDP program, each in exactly one row; rows without packets are left out.
    pub kernel: Vec<KernelRow>,
    /// What would have been done with packets that were only watched; in `kernel` they have the reason `monitored`.
    #[serde(default)]
    pub monitored: Vec<KernelRow>,
    /// Lines of the log that were lost since nobody read standard error.
    #[serde(default)]
    pub log_lines_lost: u64,
}

/// The side door, by which datagrams come that the XDP program has let pass. What became of them is with their service.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SideDoor {
    /// Look-ups of the kernel for a service that ended at sipweir's socket.
    pub assigned: u64,
    /// Those that sipweir had no socket for: the server got the datagram.
    pub no_socket: u64,
    /// Those where the kernel refused the socket: the server, or another program's choice, got the datagram.
    pub refused: u64,
    /// Those from denied sources: nobody got the datagram.
    #[serde(default)]
    pub denied: u64,
    /// Datagrams taken in.
    pub received: u64,
    /// Datagrams that were for no service, dropped.
    pub foreign: u64,
    /// Datagrams lost at the full receive buffers.
    pub lost: u64,
    /// Large buffers free.
    pub large_free: u64,
}

/// The export of refused messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capture {
    /// Where they go.
    pub collector: String,
    /// Messages that the workers have left for it.
    pub captured: u64,
    /// Of these, messages that were cut short.
    pub cut: u64,
    /// Messages that found no buffer.
    pub lost: u64,
    /// Datagrams that the kernel has taken.
    pub sent: u64,
    /// Datagrams that it has not: no way to the collector, or nobody at its port.
    pub unsent: u64,
}

/// What was obtained from the kernel.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Mode {
    /// `native` or `generic`.
    pub xdp: String,
    /// `copy` or `zero_copy`.
    pub af_xdp: String,
    /// Whether the kernel says when it needs a wake-up call.
    pub need_wakeup: bool,
    /// `off`, or why busy polling works or does not.
    pub busy_poll: String,
    /// How the servers' answers are seen: `tcx`, `clsact`, or `off`.
    #[serde(default)]
    pub answers: String,
    /// The hand-off device, if there is one.
    pub handoff_device: Option<String>,
}

/// One service, summed over the workers.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Service {
    /// Its addresses.
    pub listen: Vec<String>,
    /// `enforce`, `monitor` (all of its packets pass), or `monitor_some` (those of some classes do).
    #[serde(default)]
    pub mode: String,
    /// `kernel` or `embedded`.
    pub handoff: String,
    /// The gate; the most closed of the workers' states.
    pub gate: Gate,
    /// Messages waiting in sipweir.
    pub waiting: u64,
    /// Originals that would wait here or be at the server, while they are only watched.
    #[serde(default)]
    pub would_wait: u64,
    /// Messages taken to be at the server.
    pub at_server: u64,
    /// Measured service rate, originals per second.
    pub service_rate_per_s: f64,
    /// The server behind it.
    pub server: Server,
    /// What it answers; absent where that is not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Answers>,
    /// Longest wait of a message that was handed over.
    pub wait_ms_max: f64,
    /// Replies without the overload control that the client offers, which would have made them longer than the request.
    #[serde(default)]
    pub control_left_out: u64,
    /// Messages taken from the rings and the side door by class.
    pub received: BTreeMap<String, u64>,
    /// Of these, messages that lost their privilege above the cap of their source, by class.
    #[serde(default)]
    pub above_cap: BTreeMap<String, u64>,
    /// What became of them, by class and outcome.
    pub outcomes: BTreeMap<String, BTreeMap<String, u64>>,
    /// How long those waited that the server was given, by class.
    #[serde(default)]
    pub wait: BTreeMap<String, Wait>,
    /// The service at each worker, in queue order.
    #[serde(default)]
    pub workers: Vec<AtWorker>,
}

/// A gate.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Gate {
    /// `hysteretic`, `random`, `tail_drop` or `fifo`.
    pub kind: String,
    /// `normal`, `overload` or `discard`.
    pub state: String,
    /// The share of originals that it admits, 0 to 1; of `random` at least the sixteenth that it samples.
    pub admits: f64,
    /// Changes of state since start.
    pub transitions: u64,
    /// Seconds in normal, overload and discard since start, summed over the workers.
    #[serde(default)]
    pub state_s: StateSeconds,
    /// Returns to normal since start; each ends a control cycle.
    #[serde(default)]
    pub returns: u64,
    /// Σ of their times, seconds.
    #[serde(default)]
    pub return_s: f64,
    /// ∫ n dt since start, messages times seconds, n as the gates count it: waiting and at the server.
    #[serde(default)]
    pub in_system_s: f64,
}

/// Seconds in each state of a gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateSeconds {
    /// Everybody is admitted.
    pub normal: f64,
    /// A share is.
    pub overload: f64,
    /// Nobody is.
    pub discard: f64,
}

/// A server.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Server {
    /// `up`, `missing` or `down`.
    pub state: String,
    /// Datagrams that its own socket dropped.
    pub drops: u64,
    /// It is down although it has a socket: it answers no probes.
    #[serde(default)]
    pub silent: bool,
    /// Originals a second that it is given at most, while it is above its bounds; absent while there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_per_s: Option<f64>,
}

/// What is remembered of requests, to know their copies.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Transactions {
    /// How many can be remembered; 0 without a table.
    pub slots: u64,
    /// How many were, at the last full sweep (one a minute).
    pub live: u64,
    /// Forgotten before their time to make room; above 0 means that copies may pass for originals: raise
    /// `transactions.memory_mib`.
    pub evicted: u64,
    /// Not entered because other writers were faster.
    pub lost: u64,
}

/// One worker.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Worker {
    /// NIC queue.
    pub queue: u32,
    /// CPU core.
    pub core: usize,
    /// Turns of its loop.
    pub turns: u64,
    /// Times it slept.
    pub sleeps: u64,
    /// Frames and large buffers that it holds.
    pub frames_outstanding: u64,
    /// Frames free.
    pub frames_free: u64,
    /// Replies handed to the NIC.
    pub replies_sent: u64,
    /// Replies of embedded processors that the NIC's full ring refused.
    pub transmit_full: u64,
    /// Packets lost at full RX rings, by ring.
    pub ring_full: BTreeMap<String, u64>,
    /// Packets lost since no frame was free; above 0 means that priority isolation broke.
    pub fill_ring_empty: u64,
    /// Descriptors of the kernel that make no sense; above 0 is a bug.
    pub bad_descriptors: u64,
    /// Metadata in front of packets that make no sense; above 0 is a bug.
    pub bad_metadata: u64,
    /// Seconds that its thread has run on a CPU, brought up to date about once a second.
    #[serde(default)]
    pub cpu_s: f64,
    /// What else the kernel counts for its AF_XDP sockets, by ring; `handoff` is the one that sends to the server.
    #[serde(default)]
    pub sockets: BTreeMap<String, Socket>,
}

/// One combination of class, verdict and reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelRow {
    /// What the packets were.
    pub class: String,
    /// What was done with them.
    pub verdict: String,
    /// Why.
    pub reason: String,
    /// How many.
    pub packets: u64,
}

/// The names of the RX rings in ring order, as metric labels.
pub const RING_NAMES: [&str; afxdp::RINGS] = ["control", "new", "retransmission", "reject"];

impl Worker {
    /// Reads a worker's counters.
    #[must_use]
    pub fn read(queue: u32, core: usize, counters: &WorkerCounters) -> Self {
        let ring_full = RING_NAMES.iter().zip(&counters.ring_full);
        Self {
            queue,
            core,
            turns: counters.turns.get(),
            sleeps: counters.sleeps.get(),
            frames_outstanding: counters.frames_outstanding.get(),
            frames_free: counters.frames_free.get(),
            replies_sent: counters.replies_sent.get(),
            transmit_full: counters.transmit_full.get(),
            ring_full: ring_full.map(|(name, count)| ((*name).to_owned(), count.get())).collect(),
            fill_ring_empty: counters.fill_ring_empty.get(),
            bad_descriptors: counters.bad_descriptors.get(),
            bad_metadata: counters.bad_metadata.get(),
            cpu_s: counters.cpu_ns.get() as f64 / 1e9,
            sockets: beside::sockets(counters),
        }
    }
}

impl Service {
    /// A service by the counters of its lanes, one per worker in queue order.
    #[must_use]
    pub fn read(
        listen: Vec<String>,
        mode: &str,
        handoff: &str,
        gate: &str,
        lanes: &[Arc<LaneCounters>],
    ) -> Self {
        let mut service = Self::sum(lanes);
        service.listen = listen;
        mode.clone_into(&mut service.mode);
        handoff.clone_into(&mut service.handoff);
        gate.clone_into(&mut service.gate.kind);
        service.workers = (0..).zip(lanes).map(|(queue, lane)| AtWorker::read(queue, lane)).collect();
        service
    }

    /// Sums the counters of lanes; what they do not know is left empty.
    fn sum(lanes: &[Arc<LaneCounters>]) -> Self {
        let sum = |count: fn(&LaneCounters) -> u64| lanes.iter().map(|lane| count(lane)).sum::<u64>();
        let most = |count: fn(&LaneCounters) -> u64| lanes.iter().map(|lane| count(lane)).max().unwrap_or(0);
        let least = |count: fn(&LaneCounters) -> u64| lanes.iter().map(|lane| count(lane)).min().unwrap_or(0);
        let state = u8::try_from(most(|lane| lane.gate_state.get())).ok().and_then(GateState::from_u8);
        let mut received = BTreeMap::new();
        let mut above_cap = BTreeMap::new();
        let mut outcomes = BTreeMap::new();
        for class in Class::ALL {
            let count: u64 = lanes.iter().map(|lane| lane.received_of(class)).sum();
            if count == 0 {
                continue;
            }
            received.insert(class.name().to_owned(), count);
            let above: u64 = lanes.iter().map(|lane| lane.above_cap_of(class)).sum();
            if above > 0 {
                above_cap.insert(class.name().to_owned(), above);
            }
            let by_outcome: BTreeMap<String, u64> = Outcome::ALL
                .into_iter()
                .map(|outcome| {
                    (outcome, lanes.iter().map(|lane| lane.outcome_of(class, outcome)).sum::<u64>())
                })
                .filter(|(_, count)| *count > 0)
                .map(|(outcome, count)| (outcome.name().to_owned(), count))
                .collect();
            outcomes.insert(class.name().to_owned(), by_outcome);
        }
        Self {
            gate: Gate {
                state: state.map_or("unknown", |state| state.name()).to_owned(),
                admits: least(|lane| lane.gate_admits_ppm.get()) as f64 / 1e6,
                transitions: sum(|lane| lane.gate_transitions.get()),
                state_s: StateSeconds {
                    normal: sum(|lane| lane.gate_state_ns[0].get()) as f64 / 1e9,
                    overload: sum(|lane| lane.gate_state_ns[1].get()) as f64 / 1e9,
                    discard: sum(|lane| lane.gate_state_ns[2].get()) as f64 / 1e9,
                },
                returns: sum(|lane| lane.gate_returns.get()),
                return_s: sum(|lane| lane.gate_return_ns.get()) as f64 / 1e9,
                in_system_s: sum(|lane| lane.in_system_us.get()) as f64 / 1e6,
                ..Gate::default()
            },
            waiting: sum(|lane| lane.waiting.get()),
            would_wait: sum(|lane| lane.would_wait.get()),
            at_server: sum(|lane| lane.at_server.get()),
            service_rate_per_s: sum(|lane| lane.service_rate_milli.get()) as f64 / 1e3,
            server: Server {
                state: server_state_name(most(|lane| lane.server_state.get())).to_owned(),
                drops: sum(|lane| lane.server_drops.get()),
                silent: most(|lane| lane.server_silent.get()) > 0,
                limit_per_s: Some(sum(|lane| lane.server_limit_milli.get()))
                    .filter(|limit| *limit > 0)
                    .map(|limit| limit as f64 / 1e3),
            },
            wait_ms_max: most(|lane| lane.wait_ns_max.get()) as f64 / 1e6,
            control_left_out: sum(|lane| lane.control_left_out.get()),
            received,
            above_cap,
            outcomes,
            wait: Wait::by_class(lanes),
            ..Self::default()
        }
    }
}

fn server_state_name(number: u64) -> &'static str {
    let state = usize::try_from(number).ok().and_then(|index| ServerState::ALL.get(index));
    state.map_or("unknown", |state| state.name())
}

fn write_rows(out: &mut String, rows: &[KernelRow]) -> std::fmt::Result {
    for KernelRow { class, verdict, reason, packets } in rows {
        writeln!(out, "  {class:<12} {verdict:<20} {reason:<20} {packets:>12}")?;
    }
    Ok(())
}

impl Status {
    /// The picture for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ok = self.write_text(&mut out);
        out
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        let mode = &self.mode;
        writeln!(out, "sipweir {} on {}, up {:.0} s", self.version, self.interface, self.uptime_s)?;
        let device = mode.handoff_device.as_deref().unwrap_or("none");
        writeln!(
            out,
            "xdp {}, af_xdp {}, need_wakeup {}, busy poll {}, hand-off device {device}",
            mode.xdp, mode.af_xdp, mode.need_wakeup, mode.busy_poll
        )?;
        for (name, service) in &self.services {
            let mode = match service.mode.as_str() {
                "monitor" => "; only watched",
                "monitor_some" => "; some classes only watched",
                _ => "",
            };
            writeln!(out, "\nservice {name} at {} ({}){mode}", service.listen.join(", "), service.handoff)?;
            let gate = &service.gate;
            let (state, kind, percent) = (&gate.state, &gate.kind, gate.admits * 100.0);
            writeln!(out, "  gate {state} ({kind}), admits {percent:.0} %, {} changes", gate.transitions)?;
            let StateSeconds { normal, overload, discard } = gate.state_s;
            writeln!(out, "  normal {normal:.1} s, overload {overload:.1} s, discard {discard:.1} s")?;
            writeln!(
                out,
                "  waiting {}, at server {}, server {} at {:.0}/s, its drops {}, longest wait {:.1} ms",
                service.waiting,
                service.at_server,
                service.server.state,
                service.service_rate_per_s,
                service.server.drops,
                service.wait_ms_max
            )?;
            if let Some(limit) = service.server.limit_per_s {
                writeln!(out, "  the server is above its bounds, so it is given {limit:.0}/s at most")?;
            }
            if service.server.silent {
                writeln!(out, "  the server has a socket and answers no probes")?;
            }
            if let Some(answers) = &service.answers {
                answers.write_text(out)?;
            }
            if service.would_wait > 0 {
                writeln!(out, "  {} would wait or be at the server", service.would_wait)?;
            }
            if service.control_left_out > 0 {
                writeln!(out, "  {} replies without room for overload control", service.control_left_out)?;
            }
            for (class, received) in &service.received {
                let outcomes: Vec<String> = service.outcomes[class]
                    .iter()
                    .map(|(outcome, count)| format!("{outcome} {count}"))
                    .collect();
                let above = service.above_cap.get(class);
                let above = above.map_or_else(String::new, |count| format!("; above cap {count}"));
                writeln!(out, "  {class:<12} {received:>12}  {}{above}", outcomes.join(", "))?;
            }
        }
        let table = &self.transactions;
        writeln!(
            out,
            "\ntransactions {} of {} remembered, {} forgotten early, {} not entered",
            table.live, table.slots, table.evicted, table.lost
        )?;
        writeln!(out, "\nworkers")?;
        for worker in &self.workers {
            let full: Vec<String> =
                worker.ring_full.iter().map(|(ring, count)| format!("{ring} {count}")).collect();
            writeln!(
                out,
                "  queue {} on core {}: {} turns, {} sleeps, {} frames held, {} free, {} replies; rings full: {}; fill ring empty: {}",
                worker.queue,
                worker.core,
                worker.turns,
                worker.sleeps,
                worker.frames_outstanding,
                worker.frames_free,
                worker.replies_sent,
                full.join(", "),
                worker.fill_ring_empty
            )?;
        }
        let door = &self.side_door;
        writeln!(
            out,
            "\nside door: {} received, {} foreign, {} lost, {} large buffers free; look-ups: {} assigned, {} without socket, {} refused, {} denied",
            door.received,
            door.foreign,
            door.lost,
            door.large_free,
            door.assigned,
            door.no_socket,
            door.refused,
            door.denied
        )?;
        self.lists.write_text(out)?;
        if let Some(Capture { collector, captured, cut, lost, sent, unsent }) = &self.capture {
            writeln!(
                out,
                "\ncapture to {collector}: {captured} captured, {cut} cut short, {lost} lost; {sent} sent, {unsent} not"
            )?;
        }
        if let Some(capturing) = &self.capturing {
            capturing.write_text(out)?;
        }
        writeln!(out, "\nXDP program")?;
        write_rows(out, &self.kernel)?;
        if !self.monitored.is_empty() {
            writeln!(out, "\nwhat would have been done with packets that were only watched")?;
            write_rows(out, &self.monitored)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Capture, Status};

    #[test]
    fn the_export_is_shown_where_it_is_on_and_only_there() {
        let off = Status::default();
        assert!(!off.text().contains("capture"));
        assert!(!serde_json::to_string(&off).expect("JSON").contains("capture"));
        let collector = "192.0.2.9:9060".to_owned();
        let capture = Capture { collector, captured: 7, cut: 1, lost: 2, sent: 4, unsent: 3 };
        let on = Status { capture: Some(capture), ..off };
        let line = "\ncapture to 192.0.2.9:9060: 7 captured, 1 cut short, 2 lost; 4 sent, 3 not\n";
        assert!(on.text().contains(line), "{}", on.text());
        let read: Status = serde_json::from_str(&serde_json::to_string(&on).expect("JSON")).expect("status");
        assert_eq!(read.capture, on.capture);
    }
}
