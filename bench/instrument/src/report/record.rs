//! Keeping a run: one file each, named by its time, never written over.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::Report;

/// Writes the report into the folder, as `2026-11-30T16-05-00Z.json` or `…-quick.json`.
pub(crate) fn keep(report: &Report, folder: &Path) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join(name(&report.machine.date, report.quick));
    let mut file = File::create_new(&path).with_context(|| format!("cannot create {}", path.display()))?;
    file.write_all(report.json()?.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Colons are no part of file names everywhere.
fn name(date: &str, quick: bool) -> String {
    format!("{}{}.json", date.replace(':', "-"), if quick { "-quick" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn names_sort_by_time_and_tell_quick_runs() {
        assert_eq!(name("2026-11-30T16:05:00Z", false), "2026-11-30T16-05-00Z.json");
        assert_eq!(name("2026-11-30T16:05:00Z", true), "2026-11-30T16-05-00Z-quick.json");
    }
}
