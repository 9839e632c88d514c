//! A real Kamailio of known capacity.

use std::net::SocketAddr;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::netns::NetNs;
use crate::process::Process;
use crate::udp_socket::{PortState, wait_until_bound};

/// What the server does; each is a routing script in `scenarios/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// Answers everything without state: copies cost as much as originals.
    Stateless,
    /// Registers phones and relays calls to them, with transactions, in the path of its dialogs.
    Registrar,
    /// Somebody else's, with the same places to fill in.
    Given(&'static str),
}

impl Script {
    fn template(self) -> &'static str {
        match self {
            Self::Stateless => include_str!("../scenarios/kamailio.cfg"),
            Self::Registrar => include_str!("../scenarios/registrar.cfg"),
            Self::Given(template) => template,
        }
    }
}

/// How the server is to be.
#[derive(Debug, Clone)]
pub struct KamailioPlan {
    /// What it does.
    pub script: Script,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Worker processes.
    pub children: u32,
    /// What each INVITE (of a registrar: each REGISTER too) costs one of them. They sleep it off.
    pub invite_cost: Duration,
    /// What it may ask of SO_RCVBUF. The kernel gives at most net.core.rmem_max and doubles it.
    ///
    /// The default is Debian 12's rmem_max, so that a machine with a larger one behaves the same. It holds some 180
    /// requests, 0.2 s of work of the default plan: overload shows as loss. With 4 MiB it shows as delay.
    pub receive_buffer_bytes: u32,
    /// The one core that it may use; any if none.
    pub core: Option<usize>,
}

impl KamailioPlan {
    /// A stateless server of about 1000 INVITE/s.
    #[must_use]
    pub fn new(listen: SocketAddr) -> Self {
        let invite_cost = Duration::from_micros(3900);
        Self {
            script: Script::Stateless,
            listen,
            children: 4,
            invite_cost,
            receive_buffer_bytes: 212_992,
            core: None,
        }
    }

    /// A registrar and proxy of 125 REGISTER and INVITE/s: each makes many messages more.
    #[must_use]
    pub fn registrar(listen: SocketAddr) -> Self {
        Self { script: Script::Registrar, invite_cost: Duration::from_millis(32), ..Self::new(listen) }
    }

    /// INVITEs a second if nothing but their cost took time. What it reaches is 2 to 6 % less; measure it.
    #[must_use]
    pub fn nominal_capacity_per_s(&self) -> f64 {
        f64::from(self.children) / self.invite_cost.as_secs_f64()
    }

    fn configuration(&self) -> String {
        let template = self.script.template();
        template
            .replace("@LISTEN@", &self.listen.to_string())
            .replace("@CHILDREN@", &self.children.to_string())
            .replace("@INVITE_COST_US@", &self.invite_cost.as_micros().to_string())
            .replace("@RECEIVE_BUFFER_BYTES@", &self.receive_buffer_bytes.to_string())
    }
}

/// A running Kamailio.
#[derive(Debug)]
pub struct Kamailio {
    process: Process,
    port: u16,
    _folder: TempDir,
}

impl Kamailio {
    /// Starts it in a namespace and waits until its socket is bound.
    ///
    /// # Panics
    /// If it does not start, with its output.
    #[track_caller]
    #[must_use]
    pub fn start(namespace: &NetNs, plan: &KamailioPlan) -> Self {
        let folder = tempfile::tempdir().expect("temporary folder");
        let configuration = folder.path().join("kamailio.cfg");
        std::fs::write(&configuration, plan.configuration()).expect("write kamailio.cfg");
        let core = plan.core.map(|core| core.to_string());
        // It replaces itself, so the process is Kamailio's.
        let pinned = core.as_ref().map(|core| ["taskset", "--cpu-list", core]);
        let argv = [
            "kamailio",
            "-f",
            "kamailio.cfg",
            // In the foreground but with children, and log to standard error.
            "-DD",
            "-E",
            // Shared and private memory, MiB: for transactions and bindings of a test's length.
            "-m",
            "64",
            "-M",
            "4",
        ];
        let argv = [pinned.as_ref().map_or(&[][..], |words| words), &argv].concat();
        let mut process = namespace.start("kamailio", &argv, folder.path());
        let port = plan.listen.port();
        wait_until_bound(&mut process, port);
        Self { process, port, _folder: folder }
    }

    /// What waits in its socket and what was dropped there.
    #[must_use]
    pub fn socket(&self) -> PortState {
        PortState::of_process(self.process.id(), self.port)
    }

    /// Its process id, which is also that of the group of all its processes.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends a signal to all of its processes.
    pub fn signal(&self, signal: Signal) {
        self.process.signal_group(signal);
    }

    /// Ends it in an orderly way.
    ///
    /// # Panics
    /// If it does not end, with its output.
    #[track_caller]
    pub fn terminate(mut self) -> ExitStatus {
        self.process.terminate(Duration::from_secs(10))
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.stderr()
    }
}
