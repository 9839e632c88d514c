//! Looking at the machine: which tools and headers are there, and whose process this is.

use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Searched behind `PATH`: daemons and network tools are installed there, and an ordinary user's `PATH` lacks them.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Headers are looked for here and in the folder of the machine's architecture below it (Debian's multiarch).
const INCLUDE_FOLDER: &str = "/usr/include";

/// How one knows that a package is there.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sign {
    /// An executable of that name.
    Executable(&'static str),
    /// A C header, as it stands in an `#include <…>`.
    Header(&'static str),
    /// A file at that place.
    Path(&'static str),
}

impl Sign {
    pub(crate) fn is_there(self) -> bool {
        match self {
            Self::Executable(name) => find_executable(name).is_some(),
            Self::Header(name) => has_header(name),
            Self::Path(path) => Path::new(path).exists(),
        }
    }
}

impl std::fmt::Display for Sign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Executable(name) => write!(f, "`{name}`"),
            Self::Header(name) => write!(f, "<{name}>"),
            Self::Path(path) => path.fmt(f),
        }
    }
}

/// `PATH` with the system's folders behind it. Also what the called commands get: what is found here must be found there.
///
/// # Errors
/// If a folder of `PATH` cannot be part of a `PATH`.
pub(crate) fn search_path() -> Result<OsString> {
    std::env::join_paths(search_folders()).context("PATH has a folder with a quote or a colon in its name")
}

fn search_folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    for folder in SYSTEM_FOLDERS.map(PathBuf::from) {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

/// The first executable file of that name in `PATH` or one of the system's folders.
pub(crate) fn find_executable(name: &str) -> Option<PathBuf> {
    search_folders()
        .into_iter()
        .map(|folder| folder.join(name))
        .find(|file| file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0))
}

fn has_header(name: &str) -> bool {
    let multiarch = Path::new(INCLUDE_FOLDER).join(format!("{}-linux-gnu", std::env::consts::ARCH));
    Path::new(INCLUDE_FOLDER).join(name).is_file() || multiarch.join(name).is_file()
}

/// Whether this process runs as root: `/proc/self` belongs to its effective user.
pub(crate) fn is_root() -> Result<bool> {
    Ok(std::fs::metadata("/proc/self").context("cannot look at /proc/self; is /proc mounted?")?.uid() == 0)
}

/// Whether any process of that name runs. Names are those of `/proc/PID/comm`.
pub(crate) fn is_running(name: &str) -> bool {
    std::fs::read_dir("/proc").is_ok_and(|entries| {
        entries.flatten().any(|entry| {
            std::fs::read_to_string(entry.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_is_found_and_a_tool_that_nobody_has_is_not() {
        assert!(Sign::Executable("sh").is_there());
        assert!(!Sign::Executable("sipweir-no-such-tool").is_there());
        assert!(!Sign::Header("sipweir/no/such.h").is_there());
    }

    #[test]
    fn called_commands_find_what_is_in_the_system_s_folders() {
        let path = search_path().expect("a PATH");
        for folder in SYSTEM_FOLDERS {
            assert!(
                std::env::split_paths(&path).any(|other| other == Path::new(folder)),
                "{folder} in {path:?}"
            );
        }
    }

    #[test]
    fn a_folder_is_no_executable() {
        assert_eq!(find_executable("."), None);
    }

    #[test]
    fn signs_are_named_as_one_would_write_them() {
        assert_eq!(Sign::Executable("clang").to_string(), "`clang`");
        assert_eq!(Sign::Header("libelf.h").to_string(), "<libelf.h>");
    }
}
