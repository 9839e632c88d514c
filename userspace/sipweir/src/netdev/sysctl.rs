//! Settings of one device that only `/proc/sys/net` can change. The tree follows the thread's network namespace.

use std::io;
use std::path::Path;

use super::Error;

/// Writes a setting under `/proc/sys` if it has another value. In a container the tree may be read-only; then a value
/// that is right already is good enough.
fn set(setting: &str, value: &str) -> io::Result<()> {
    let path = Path::new("/proc/sys").join(setting);
    if std::fs::read_to_string(&path)?.trim() == value {
        return Ok(());
    }
    std::fs::write(&path, value)
}

/// A setting without which packets are lost.
pub(super) fn require_setting(setting: &str, value: &'static str) -> Result<(), Error> {
    set(setting, value).map_err(|source| Error::Setting {
        path: format!("/proc/sys/{setting}"),
        value,
        source,
    })
}

/// A setting that only keeps the pair quiet.
pub(super) fn prefer_setting(setting: &str, value: &'static str) {
    if let Err(error) = set(setting, value) {
        tracing::warn!(%error, setting, value, "left as it is; the hand-off works without");
    }
}
