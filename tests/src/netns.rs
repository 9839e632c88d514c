//! Network namespaces that vanish with the test.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::command::{Finished, finish, run};
use crate::process::Process;

/// Where iproute2 keeps the names.
const NAMES_FOLDER: &str = "/run/netns";

/// A network namespace of this test, with its loopback up.
///
/// Declare it before what lives in it, so that it is dropped after it.
#[derive(Debug)]
pub struct NetNs {
    name: String,
}

impl NetNs {
    /// Makes `swt-LABEL-PID-N`. N tells apart tests of one process that use the same label.
    ///
    /// # Panics
    /// If it cannot be made: without root, for example.
    #[track_caller]
    #[must_use]
    pub fn new(label: &str) -> Self {
        Self::with_prefix("swt", label)
    }

    /// Makes `PREFIX-LABEL-PID-N`, for programs that tell their namespaces from those of the tests.
    ///
    /// # Panics
    /// As [`Self::new`].
    #[track_caller]
    #[must_use]
    pub fn with_prefix(prefix: &str, label: &str) -> Self {
        // The very first `ip netns add` on a machine makes the names' folder a shared mount, and two at once fail at it.
        static ADDING: Mutex<()> = Mutex::new(());
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{prefix}-{label}-{}-{number}", std::process::id());
        let adding = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
        if Path::new(NAMES_FOLDER).join(&name).exists() {
            // Of a run that was killed and whose process id came round again.
            run(&["ip", "netns", "del", &name]);
        }
        run(&["ip", "netns", "add", &name]);
        drop(adding);
        let namespace = Self { name };
        namespace.ip(&["link", "set", "lo", "up"]);
        namespace
    }

    /// The name that `ip netns` shows.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that stands for it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        Path::new(NAMES_FOLDER).join(&self.name)
    }

    /// `ip -n NAME …`, which must succeed; its output.
    ///
    /// # Panics
    /// If it fails, with command line and both streams.
    #[track_caller]
    pub fn ip(&self, arguments: &[&str]) -> String {
        run(&[&["ip", "-n", &self.name], arguments].concat())
    }

    /// Runs a command inside that must succeed; its output.
    ///
    /// # Panics
    /// If it fails, with command line and both streams.
    #[track_caller]
    pub fn run(&self, argv: &[&str]) -> String {
        self.finish(argv).expect_success()
    }

    /// Runs a command inside to its end, whatever its exit status.
    ///
    /// # Panics
    /// If it cannot be started.
    #[track_caller]
    #[must_use]
    pub fn finish(&self, argv: &[&str]) -> Finished {
        finish(&self.inside_argv(argv))
    }

    /// Starts a process inside; see [`Process::start`].
    ///
    /// # Panics
    /// If it cannot be started.
    #[track_caller]
    #[must_use]
    pub fn start(&self, name: &str, argv: &[&str], folder: &Path) -> Process {
        Process::start(name, &self.inside_argv(argv), folder)
    }

    /// Calls a function on a thread inside, and returns what it returns. Sockets made there stay there.
    ///
    /// # Panics
    /// If the function does, or if the namespace cannot be entered.
    #[track_caller]
    pub fn inside<R: Send>(&self, function: impl FnOnce() -> R + Send) -> R {
        let file = File::open(self.path()).unwrap_or_else(|error| panic!("namespace {}: {error}", self.name));
        let result = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                    .unwrap_or_else(|error| panic!("cannot enter namespace {}: {error}", self.name));
                function()
            });
            thread.join()
        });
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn inside_argv<'a>(&'a self, argv: &[&'a str]) -> Vec<&'a str> {
        [&["ip", "netns", "exec", &self.name], argv].concat()
    }
}

impl Drop for NetNs {
    fn drop(&mut self) {
        let deleted = finish(&["ip", "netns", "del", &self.name]);
        if !deleted.status.success() && !std::thread::panicking() {
            panic!("{deleted}");
        }
    }
}
