//! A real server on Sofia-SIP, the stack of FreeSWITCH (`stacks/sofia.c`).
//!
//! The stack is Debian's library; the program around it is compiled for each start, which takes a fraction of a second.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::command::run;
use crate::netns::NetNs;
use crate::process::Process;
use crate::udp_socket::{PortState, wait_until_bound};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/stacks/sofia.c");

/// How the server is to be.
#[derive(Debug, Clone, Copy)]
pub struct SofiaPlan {
    /// Where it listens.
    pub listen: SocketAddr,
    /// What each REGISTER and each INVITE that begins a call costs its only thread, which sleeps it off.
    pub cost: Duration,
    /// From 180 to 200.
    pub ring: Duration,
}

impl SofiaPlan {
    /// A server of 125 REGISTER and INVITE/s.
    #[must_use]
    pub fn new(listen: SocketAddr) -> Self {
        Self { listen, cost: Duration::from_millis(8), ring: Duration::from_millis(50) }
    }

    /// Phones behind a proxy: as fast as the stack can.
    #[must_use]
    pub fn phones(listen: SocketAddr) -> Self {
        Self { cost: Duration::ZERO, ..Self::new(listen) }
    }

    /// REGISTER and INVITE a second if nothing but their cost took time.
    ///
    /// # Panics
    /// If they cost nothing.
    #[must_use]
    pub fn nominal_capacity_per_s(&self) -> f64 {
        assert!(!self.cost.is_zero(), "this server has no known capacity");
        1.0 / self.cost.as_secs_f64()
    }
}

/// What it has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SofiaCounts {
    /// REGISTERs answered with 200.
    pub registered: u64,
    /// INVITEs that began a call.
    pub called: u64,
    /// Those answered with 200.
    pub answered: u64,
    /// re-INVITEs answered with 200.
    pub reinvited: u64,
    /// DTMF digits that came by INFO.
    pub digits: u64,
    /// Calls cancelled while they rang.
    pub cancelled: u64,
    /// Calls ended by BYE.
    pub ended: u64,
}

/// A running server on Sofia-SIP.
#[derive(Debug)]
pub struct Sofia {
    process: Process,
    port: u16,
    _folder: TempDir,
}

impl Sofia {
    /// Compiles it, starts it in a namespace and waits until its socket is bound.
    ///
    /// # Panics
    /// If it cannot be compiled or does not start, with its output.
    #[track_caller]
    #[must_use]
    pub fn start(namespace: &NetNs, plan: &SofiaPlan) -> Self {
        let folder = tempfile::tempdir().expect("temporary folder");
        let program = compile(folder.path());
        let (url, cost) = (format!("sip:{}", plan.listen), plan.cost.as_micros().to_string());
        let argv = [program.as_str(), &url, &cost, &plan.ring.as_millis().to_string()];
        let mut process = namespace.start("sofia", &argv, folder.path());
        let port = plan.listen.port();
        wait_until_bound(&mut process, port);
        Self { process, port, _folder: folder }
    }

    /// What waits in its socket and what was dropped there.
    #[must_use]
    pub fn socket(&self) -> PortState {
        PortState::of_process(self.process.id(), self.port)
    }

    /// Ends it in an orderly way; what it has done.
    ///
    /// # Panics
    /// If it does not end, fails, or says something else than its counts.
    #[track_caller]
    #[must_use]
    pub fn terminate(mut self) -> SofiaCounts {
        let status = self.process.terminate(Duration::from_secs(10));
        assert!(status.success(), "{}", self.process.describe());
        let said = self.process.stdout();
        let counts: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said:?}"));
        let count = |name: &str| counts[name].as_u64().unwrap_or_else(|| panic!("no {name} in {said:?}"));
        SofiaCounts {
            registered: count("registered"),
            called: count("called"),
            answered: count("answered"),
            reinvited: count("reinvited"),
            digits: count("digits"),
            cancelled: count("cancelled"),
            ended: count("ended"),
        }
    }
}

/// The path of the program, compiled into `folder`.
#[track_caller]
fn compile(folder: &Path) -> String {
    let program = folder.join("sofia").to_str().expect("a path in UTF-8").to_owned();
    let flags = run(&["pkg-config", "--cflags", "--libs", "sofia-sip-ua"]);
    let compiler = ["clang", "-std=gnu11", "-O1", "-Wall", "-Werror", SOURCE, "-o", &program];
    run(&compiler.into_iter().chain(flags.split_ascii_whitespace()).collect::<Vec<_>>());
    program
}
