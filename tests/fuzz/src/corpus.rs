//! The messages of `tests/corpus`, from which mutations start.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

/// Where the corpora of this repository lie.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus")
}

/// Every message below a folder, in the order of the files' names.
///
/// # Errors
///
/// A folder or file that cannot be read, or no message at all.
pub fn load(folder: &Path) -> Result<Vec<Vec<u8>>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("corpus {}", folder.display()))?;
        for entry in entries {
            let path = entry.with_context(|| format!("corpus {}", folder.display()))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_none_or(|extension| extension != "md") {
                files.push(path);
            }
        }
    }
    files.sort();
    let read = |path: &PathBuf| fs::read(path).with_context(|| format!("message {}", path.display()));
    let messages = files.iter().map(read).collect::<Result<Vec<_>>>()?;
    ensure!(!messages.is_empty(), "no message below {}", folder.display());
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_torture_messages_are_there_and_the_explanations_are_not() {
        let messages = load(&folder()).expect("a corpus");
        assert!(messages.len() >= 50, "{}", messages.len());
        assert!(messages.iter().all(|message| !message.starts_with(b"# ")));
    }

    #[test]
    fn an_empty_folder_is_an_error() {
        let empty = tempfile::tempdir().expect("a folder");
        assert!(load(empty.path()).is_err());
        assert!(load(&empty.path().join("missing")).is_err());
    }
}
