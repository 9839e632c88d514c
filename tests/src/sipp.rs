//! SIPp: callers as an operator would use them to test a server.
//!
//! SIPp retransmits by RFC 3261's timers A and E, but always the same bytes. So it can mark originals (`rtx=0`), and its
//! copies then say `rtx=0` too; callers that mark their copies are the business of the `bench` crate.

pub mod statistics;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::netns::NetNs;
use crate::process::Process;
use crate::wait::POLL_INTERVAL;
use crate::wait_until;
pub use statistics::{Snapshot, Statistics, Window};

/// Calls that may be going on at once, if the load does not say: more than any test starts in timer B's 32 s.
///
/// SIPp's own default, three seconds' worth, would hold back new calls just when a server does not answer.
const CONCURRENT_MAX: u32 = 1_000_000;

/// RFC 3261 timer A doubles from T1 until timer B, 64 T1, has passed: six copies. SIPp would send five.
const INVITE_COPIES_MAX: &str = "6";

/// Characters of SIPp's errors that are shown.
const ERRORS_SHOWN: usize = 4000;

/// RFC 3261 timer E doubles up to T2: ten copies until timer F.
const OTHER_COPIES_MAX: &str = "10";

/// What a call of the load does; each is a file in `scenarios/`. All of them count what was answered, completed and refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// INVITE, ACK, BYE. The only one that can be marked.
    Call,
    /// INVITE, ACK, re-INVITE, ACK, INFO with a DTMF digit, BYE.
    Conversation,
    /// INVITE, and CANCEL as soon as it rings.
    Cancelled,
    /// REGISTER with that address as contact.
    Register(SocketAddr),
}

impl Scenario {
    fn xml(self) -> &'static str {
        match self {
            Self::Call => include_str!("../scenarios/call.xml"),
            Self::Conversation => include_str!("../scenarios/conversation.xml"),
            Self::Cancelled => include_str!("../scenarios/cancelled.xml"),
            Self::Register(_) => include_str!("../scenarios/register.xml"),
        }
    }
}

/// Which marker the INVITEs carry (docs/marker.md). Originals and copies alike say `rtx=0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marking {
    /// None.
    Off,
    /// Behind the SIP version.
    Field,
    /// A parameter of the Request-URI.
    Uri,
}

impl Marking {
    /// What goes behind the Request-URI and behind the version.
    fn parts(self) -> (&'static str, &'static str) {
        match self {
            Self::Off => ("", ""),
            Self::Field => ("", " rtx=0"),
            Self::Uri => (";rtx=0", ""),
        }
    }
}

/// The calls that are to be made.
#[derive(Debug, Clone)]
pub struct CallLoad {
    /// What each call does.
    pub scenario: Scenario,
    /// New calls a second.
    pub rate_per_s: u32,
    /// End after so many calls. `None`: until stopped.
    pub calls: Option<u32>,
    /// Never have more calls going on; new ones wait. `None`: an open loop, as callers are in truth.
    pub concurrent_max: Option<u32>,
    /// The marker.
    pub marking: Marking,
    /// User part of the called or registered address. `scenarios/kamailio.cfg` refuses `busy`; `ringer` of
    /// `stacks/sofia.c` does not answer before it is cancelled.
    pub callee: &'static str,
}

impl CallLoad {
    /// Unmarked calls at that rate until stopped.
    #[must_use]
    pub fn at(rate_per_s: u32) -> Self {
        let (scenario, marking, callee) = (Scenario::Call, Marking::Off, "service");
        Self { scenario, rate_per_s, calls: None, concurrent_max: None, marking, callee }
    }

    /// The same with calls to that user that go that way.
    #[must_use]
    pub fn doing(self, scenario: Scenario, callee: &'static str) -> Self {
        Self { scenario, callee, ..self }
    }

    /// The same, ending after so many calls.
    #[must_use]
    pub fn ending_after(self, calls: u32) -> Self {
        Self { calls: Some(calls), ..self }
    }

    /// The same with a marker.
    #[must_use]
    pub fn marked(self, marking: Marking) -> Self {
        Self { marking, ..self }
    }
}

/// A running SIPp.
#[derive(Debug)]
pub struct Sipp {
    process: Process,
    statistics: PathBuf,
    folder: TempDir,
}

impl Sipp {
    /// Starts it in a namespace, calling `to` from `from`.
    ///
    /// # Panics
    /// If it cannot be started.
    #[track_caller]
    #[must_use]
    pub fn start(namespace: &NetNs, from: SocketAddr, to: SocketAddr, load: &CallLoad) -> Self {
        let folder = tempfile::tempdir().expect("temporary folder");
        std::fs::write(folder.path().join("scenario.xml"), load.scenario.xml()).expect("write scenario.xml");
        let (rate, calls) = (load.rate_per_s.to_string(), load.calls.map(|calls| calls.to_string()));
        let concurrent = load.concurrent_max.unwrap_or(CONCURRENT_MAX).to_string();
        let (target, local_ip, local_port) = (to.to_string(), bracketed(from), from.port().to_string());
        let (mark_uri, mark_line) = load.marking.parts();
        let mut argv = vec!["sipp", &target, "-sf", "scenario.xml", "-i", &local_ip, "-p", &local_port];
        argv.extend(["-s", load.callee, "-key", "mark_uri", mark_uri, "-key", "mark_line", mark_line]);
        let contact = match load.scenario {
            Scenario::Register(contact) => contact.to_string(),
            Scenario::Call | Scenario::Conversation | Scenario::Cancelled => String::new(),
        };
        if !contact.is_empty() {
            argv.extend(["-key", "contact", &contact]);
        }
        if load.scenario != Scenario::Call {
            // Copies of earlier answers may come late and do not fail the call. A wrong answer
            // still does: the request is sent again until it is given up.
            argv.extend(["-default_behaviors", "all,-abortunexp"]);
        }
        argv.extend(["-r", &rate, "-l", &concurrent]);
        argv.extend(["-max_invite_retrans", INVITE_COPIES_MAX, "-max_non_invite_retrans", OTHER_COPIES_MAX]);
        // A row of statistics every second; no keyboard, no screen.
        argv.extend(["-trace_stat", "-stf", "statistics.csv", "-fd", "1", "-nostdin"]);
        argv.extend(["-trace_err", "-error_file", "errors.log"]);
        if let Some(calls) = &calls {
            argv.extend(["-m", calls]);
        }
        let process = namespace.start("sipp", &argv, folder.path());
        Self { process, statistics: folder.path().join("statistics.csv"), folder }
    }

    /// What it has counted so far.
    ///
    /// # Panics
    /// If its statistics cannot be understood.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        Statistics::parse(&std::fs::read_to_string(&self.statistics).unwrap_or_default())
    }

    /// Waits until it has counted for that long since its start.
    ///
    /// # Panics
    /// If it ends before, with its output.
    #[track_caller]
    pub fn run_for(&mut self, duration: Duration) {
        let what = format!("SIPp has called for {duration:?}");
        wait_until(&what, duration * 2 + Duration::from_secs(10), || {
            assert!(self.process.ended().is_none(), "{}", self.process.describe());
            self.statistics().duration() >= duration
        });
    }

    /// Ends it where it stands, calls in progress included.
    #[must_use]
    pub fn stop(mut self) -> Statistics {
        self.process.kill();
        self.statistics()
    }

    /// Waits until all of its calls have ended in one way or another.
    ///
    /// # Panics
    /// If that takes longer than `timeout` or it fails for another reason than a failed call, with its output.
    #[track_caller]
    pub fn finish(mut self, timeout: Duration) -> Statistics {
        let deadline = Instant::now() + timeout;
        let status = loop {
            if let Some(status) = self.process.ended() {
                break status;
            }
            if Instant::now() >= deadline {
                panic!("still calls after {timeout:?}: {}\n{}", self.process.describe(), self.errors());
            }
            std::thread::sleep(POLL_INTERVAL);
        };
        // 0: every call went through the scenario; 1: at least one did not. Which is for the test to judge, by counts.
        assert!(matches!(status.code(), Some(0 | 1)), "{}", self.process.describe());
        let statistics = self.statistics();
        if statistics.totals().failed > 0 {
            // Shown when the test fails.
            println!("{}", self.errors());
        }
        statistics
    }

    /// What it says of the first calls that did not go through the scenario.
    fn errors(&self) -> String {
        let errors = std::fs::read_to_string(self.folder.path().join("errors.log")).unwrap_or_default();
        format!("SIPp's first errors:\n{}", errors.chars().take(ERRORS_SHOWN).collect::<String>())
    }
}

/// An address as SIPp wants it: IPv6 in brackets.
fn bracketed(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(v4) => v4.ip().to_string(),
        SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
    }
}
