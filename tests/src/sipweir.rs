//! The program under test, as a process.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::command::{Finished, run};
use crate::netns::NetNs;
use crate::process::Process;
use crate::wait_until;

/// From the start of the process to a status: AF_XDP binds are retried for some seconds after another instance died.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Orderly end: what waits is handed over or answered, devices are removed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Names the binary to test, instead of the one that stands beside the test's own.
const BINARY_VARIABLE: &str = "SIPWEIR_BIN";

/// The `sipweir` binary of the profile that the tests are built with; for other programs, the one that stands beside them.
///
/// `cargo test` builds it only for tests of its own package, so this calls cargo once per run of the tests; when the
/// binary is up to date, that takes a fraction of a second.
///
/// # Panics
/// If it cannot be built.
#[track_caller]
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os(BINARY_VARIABLE) {
            return path.into();
        }
        let test = std::env::current_exe().expect("path of the test binary");
        // target/PROFILE/deps/e2e-HASH, or target/PROFILE/PROGRAM
        if test.parent().is_none_or(|folder| !folder.ends_with("deps")) {
            let beside = test.with_file_name("sipweir");
            assert!(
                beside.exists(),
                "there is no {}: build it, or name one by {BINARY_VARIABLE}",
                beside.display()
            );
            return beside;
        }
        let folder = test.ancestors().nth(2).expect("target/PROFILE/deps around the test binary").to_owned();
        let (target, profile) =
            (folder.parent().expect("the target folder"), folder.file_name().expect("the profile"));
        // The profile `dev` is the one whose folder has another name.
        let profile = match profile.to_str().expect("a profile name") {
            "debug" => "dev",
            name => name,
        };
        let target = target.to_str().expect("a path in UTF-8");
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let package = ["--manifest-path", manifest, "--package", "sipweir", "--bin", "sipweir"];
        let place = ["--profile", profile, "--target-dir", target];
        run(&[&[cargo.as_str(), "build"], &package[..], &place].concat());
        folder.join("sipweir")
    })
}

/// Runs `sipweir` with these arguments in a namespace to its end, for what is to be refused.
///
/// # Panics
/// If it cannot be started.
#[track_caller]
#[must_use]
pub fn finish_in(namespace: &NetNs, arguments: &[&str]) -> Finished {
    namespace.finish(&[&[binary_str()], arguments].concat())
}

/// A running `sipweir run`.
#[derive(Debug)]
pub struct Sipweir {
    process: Process,
    socket: PathBuf,
    folder: TempDir,
}

impl Sipweir {
    /// Starts it in a namespace and waits until it answers on its control socket.
    ///
    /// `configuration` is TOML without the `[control]` table, which is added here.
    ///
    /// # Panics
    /// If it ends instead, with its output.
    #[track_caller]
    #[must_use]
    pub fn start(namespace: &NetNs, configuration: &str) -> Self {
        Self::start_by(&[], namespace, configuration, &[])
    }

    /// The same with one heap for all of its threads. Otherwise two that ask the C library for memory at the same moment
    /// have it map one more, 64 MiB of addresses, by chance.
    #[track_caller]
    #[must_use]
    pub fn start_with_one_heap(namespace: &NetNs, configuration: &str) -> Self {
        Self::start_by(&["env", "MALLOC_ARENA_MAX=1"], namespace, configuration, &[])
    }

    /// The same by a command that runs the command behind it, such as `setpriv …`, and with more arguments of `run`.
    ///
    /// # Panics
    /// As [`Self::start`].
    #[track_caller]
    #[must_use]
    pub fn start_by(by: &[&str], namespace: &NetNs, configuration: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("temporary folder");
        let socket = folder.path().join("control.sock");
        write(&folder, &socket, configuration);
        let argv = [by, &[binary_str(), "run", "--config", "sipweir.toml"], arguments].concat();
        let process = namespace.start("sipweir", &argv, folder.path());
        let mut sipweir = Self { process, socket, folder };
        wait_until("sipweir answers on its control socket or has ended", START_TIMEOUT, || {
            sipweir.ask().is_some() || sipweir.process.ended().is_some()
        });
        assert!(sipweir.process.ended().is_none(), "{}", sipweir.process.describe());
        sipweir
    }

    /// Its status document.
    ///
    /// # Panics
    /// If it does not answer, with its output.
    #[track_caller]
    pub fn status(&mut self) -> Value {
        self.ask().unwrap_or_else(|| panic!("no status from {}", self.process.describe()))
    }

    /// One number of the status document by its JSON pointer, as in `/services/main/waiting`; 0 if it is not there:
    /// counters that never counted are left out.
    ///
    /// # Panics
    /// If it does not answer, or there is something else at that place.
    #[track_caller]
    pub fn number(&mut self, pointer: &str) -> u64 {
        let status = self.status();
        let Some(value) = status.pointer(pointer) else { return 0 };
        value.as_u64().unwrap_or_else(|| panic!("{pointer} of the status is {value}"))
    }

    /// Changes its file, which it does not read before it is told to.
    ///
    /// # Panics
    /// If it cannot be written.
    #[track_caller]
    pub fn rewrite(&self, configuration: &str) {
        write(&self.folder, &self.socket, configuration);
    }

    /// `sipweir reload` with more arguments.
    ///
    /// # Panics
    /// If it cannot be started.
    #[track_caller]
    #[must_use]
    pub fn reload(&self, arguments: &[&str]) -> Finished {
        let socket = self.socket.to_str().expect("a path in UTF-8");
        crate::command::finish(&[&[binary_str(), "reload", "--socket", socket], arguments].concat())
    }

    /// The answer to a request, without starting a program.
    #[must_use]
    pub fn request(&self, line: &str) -> Option<Value> {
        let mut stream = UnixStream::connect(&self.socket).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream.write_all(format!("{line}\n").as_bytes()).ok()?;
        let mut document = String::new();
        stream.read_to_string(&mut document).ok()?;
        serde_json::from_str(&document).ok()
    }

    /// The path of its control socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Asks it to end (SIGTERM) and waits.
    ///
    /// # Panics
    /// If it does not end in time, with its output.
    #[track_caller]
    pub fn terminate(&mut self) -> ExitStatus {
        self.process.terminate(STOP_TIMEOUT)
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// What it has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.stderr()
    }

    /// Command line, state and output so far, for messages.
    pub fn describe(&mut self) -> String {
        self.process.describe()
    }

    fn ask(&self) -> Option<Value> {
        self.request("status")
    }
}

/// Writes the file of an instance, as a whole: a reader sees the old one or the new one.
#[track_caller]
fn write(folder: &TempDir, socket: &Path, configuration: &str) {
    let control = format!("\n[control]\nsocket = \"{}\"\n", socket.display());
    let next = folder.path().join("next.toml");
    std::fs::write(&next, format!("{configuration}{control}")).expect("write next.toml");
    std::fs::rename(&next, folder.path().join("sipweir.toml")).expect("rename next.toml");
}

fn binary_str() -> &'static str {
    binary().to_str().expect("a path in UTF-8")
}
