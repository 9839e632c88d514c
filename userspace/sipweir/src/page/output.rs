//! A file that is promised before the work and written after it.
//!
//! That it can be written is found out at once, not after minutes. What is there stays untouched until the new
//! content is complete; a command that ends early leaves no file.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// A place for a file, known to be writable.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    /// Renamed onto `path` at the end; `None` for what is no regular file (a terminal, a pipe).
    draft: Option<PathBuf>,
}

impl Output {
    /// Makes sure that `path` can be written.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let special = fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
        let draft = if special {
            None
        } else {
            let name =
                path.file_name().with_context(|| format!("{} is no name for a file", path.display()))?;
            anyhow::ensure!(!path.is_dir(), "{} is a folder; give a file in it", path.display());
            let mut draft_name = name.to_os_string();
            draft_name.push(format!(".{}.part", std::process::id()));
            let draft = path.with_file_name(draft_name);
            // Tried and taken back, so that not even a killed command leaves it.
            let tried = File::create(&draft).and_then(|_| fs::remove_file(&draft));
            tried.with_context(|| format!("cannot write {}", path.display()))?;
            Some(draft)
        };
        Ok(Self { path: path.into(), draft })
    }

    /// Writes all of it; returns the path for a message.
    pub(crate) fn write(self, content: &str) -> anyhow::Result<String> {
        let shown = self.path.display().to_string();
        let failed = || format!("cannot write {shown}");
        match self.draft {
            Some(draft) => {
                let written = fs::write(&draft, content).and_then(|()| fs::rename(&draft, &self.path));
                if written.is_err() {
                    let _removed = fs::remove_file(&draft);
                }
                written.with_context(failed)?;
            }
            None => fs::write(&self.path, content).with_context(failed)?,
        }
        Ok(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::Output;
    use std::fs;
    use std::path::Path;

    #[test]
    fn a_file_appears_only_when_it_is_written() {
        let folder = std::env::temp_dir().join(format!("sipweir-output-{}", std::process::id()));
        fs::create_dir(&folder).expect("folder");
        let path = folder.join("report.html");
        drop(Output::open(&path).expect("writable"));
        assert_eq!(fs::read_dir(&folder).expect("list").count(), 0);
        fs::write(&path, "old").expect("write");
        let output = Output::open(&path).expect("writable");
        assert_eq!(fs::read_to_string(&path).expect("read"), "old");
        output.write("new").expect("write");
        assert_eq!(fs::read_to_string(&path).expect("read"), "new");
        assert_eq!(fs::read_dir(&folder).expect("list").count(), 1);
        fs::remove_dir_all(&folder).expect("remove");
    }

    #[test]
    fn what_cannot_be_written_is_refused_at_once_by_name() {
        for path in ["/nonexistent/folder/x.html", "/tmp", "/"] {
            let error = Output::open(Path::new(path)).expect_err("refused").to_string();
            assert!(error.contains(path), "{error}");
        }
    }

    #[test]
    fn a_device_is_written_in_place() {
        Output::open(Path::new("/dev/null")).expect("writable").write("x").expect("write");
        assert!(!Path::new("/dev/null").metadata().expect("there").is_file());
    }
}
