//! What is made from the program's own types for those who install and configure it: manual pages, completions for shells, the
//! reference of the configuration and its JSON schema. A hidden command, for `cargo xtask`.

pub mod reference;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{CommandFactory as _, Subcommand};
use clap_complete::Shell;

use crate::cli::{Cli, print_json, print_text};
use crate::config::Config;

/// What can be made.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Manual pages, one for each command.
    Man {
        /// Where to; it must exist.
        folder: PathBuf,
    },
    /// Completions: `sipweir.bash`, `_sipweir` (zsh), `sipweir.fish`.
    Completions {
        /// Where to; it must exist.
        folder: PathBuf,
    },
    /// `docs/configuration.md`.
    Reference,
    /// JSON schema of the configuration.
    Schema,
}

/// Makes it.
///
/// # Errors
///
/// When it cannot be written.
pub fn main(what: &What) -> anyhow::Result<()> {
    let written = |folder: &Path| format!("cannot write into {}", folder.display());
    match what {
        What::Man { folder } => {
            clap_mangen::generate_to(Cli::command(), folder).with_context(|| written(folder))
        }
        What::Completions { folder } => {
            for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
                clap_complete::generate_to(shell, &mut Cli::command(), "sipweir", folder)
                    .with_context(|| written(folder))?;
            }
            Ok(())
        }
        What::Reference => print_text(&reference::page()),
        What::Schema => print_json(&schemars::schema_for!(Config)),
    }
}
