//! Calling cargo again, from the root of the workspace, saying what is called.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::probe;

/// One call of cargo.
#[derive(Debug)]
pub(crate) struct Cargo {
    arguments: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
}

impl Cargo {
    /// A call with these arguments.
    pub(crate) fn new<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> Self {
        Self { arguments: arguments.into_iter().map(Into::into).collect(), environment: Vec::new() }
    }

    /// With an environment variable.
    pub(crate) fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// More arguments, behind those given so far.
    pub(crate) fn arguments<A: Into<OsString> + Clone>(mut self, more: &[A]) -> Self {
        self.arguments.extend(more.iter().cloned().map(Into::into));
        self
    }

    /// Runs it with this process's input and output.
    ///
    /// # Errors
    /// If cargo cannot be started or fails; cargo itself has said why.
    pub(crate) fn run(self) -> Result<()> {
        self.run_with(Stdio::inherit()).map(drop)
    }

    /// Runs it like [`Self::run`], but returns what it writes to its standard output.
    ///
    /// # Errors
    /// As of [`Self::run`].
    pub(crate) fn output(self) -> Result<String> {
        let output = self.run_with(Stdio::piped())?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn run_with(self, stdout: Stdio) -> Result<Output> {
        let shown = self.arguments.iter().map(|a| a.to_string_lossy()).collect::<Vec<_>>().join(" ");
        eprintln!("xtask: cargo {shown}");
        // The same cargo (and toolchain) that runs this program.
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(&self.arguments).current_dir(workspace_root()).env("PATH", probe::search_path()?);
        command.envs(self.environment);
        command.stdin(Stdio::inherit()).stdout(stdout).stderr(Stdio::inherit());
        let output = command.output().with_context(|| format!("cannot start `cargo {shown}`"))?;
        if !output.status.success() {
            bail!("`cargo {shown}` failed ({})", output.status);
        }
        Ok(output)
    }
}

/// The folder of the root `Cargo.toml`: this crate lies two folders below it.
pub(crate) fn workspace_root() -> PathBuf {
    // Cargo sets the variable for `cargo run`; what was compiled in is for a binary that was started by hand.
    let crate_folder =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&crate_folder).ancestors().nth(2).map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
