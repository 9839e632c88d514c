//! clang-format over the C files: the BPF programs, and the server of the end-to-end tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::cargo::workspace_root;

/// The folders that hold C.
const C_FOLDERS: [&str; 3] = ["xdp-prog", "bench/instrument/bpf", "tests/stacks"];

/// Formats every `.c` and `.h` file in place; with `check`, only says which are not formatted.
///
/// # Errors
/// If clang-format cannot be started, or with `check` if a file is not formatted.
pub(crate) fn format_c(check: bool) -> Result<()> {
    let mut files = Vec::new();
    for folder in C_FOLDERS {
        collect(&workspace_root().join(folder), &mut files)?;
    }
    files.sort();
    eprintln!("xtask: clang-format{} of {} C files", if check { " --dry-run" } else { "" }, files.len());
    if files.is_empty() {
        bail!("no C file below {C_FOLDERS:?}; has the XDP program moved?");
    }
    let mut command = Command::new("clang-format");
    command.args(if check { &["--dry-run", "--Werror"][..] } else { &["-i"] }).args(&files);
    let status = command.status().context("cannot start clang-format")?;
    if !status.success() {
        bail!("C files are not formatted; `cargo xtask fmt` does it");
    }
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        let path = entry.path();
        if entry.file_type().with_context(|| format!("cannot look at {}", path.display()))?.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "c" || extension == "h") {
            files.push(path);
        }
    }
    Ok(())
}
