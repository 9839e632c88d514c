//! Reads the facts: of the kernel, the process, the host and one interface. Decides nothing.
//!
//! Everything is of the calling thread's network namespace; `/sys/class/net` may show another one, so what is read there is
//! checked against the interface's number. Nothing on the host is changed; sipweir's own programs are loaded by way of trial
//! and freed at once.

mod host;
mod interface;
mod process;

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::str::FromStr;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::facts::{Absent, Facts, Reading, Unread};
use crate::netdev;

/// Reads everything, for this interface if there is one.
#[must_use]
pub(super) fn facts(interface: Option<&str>) -> Facts {
    let process = process::process();
    Facts {
        kernel: process::kernel(&process),
        host: host::host(),
        process,
        interface: interface.map(|name| match netdev::Interface::find(name) {
            Ok(found) => Ok(interface::interface(&found)),
            Err(error) => Err(Absent { name: name.to_owned(), reason: error.to_string() }),
        }),
    }
}

/// The content of a file without the line's end.
fn text(path: impl AsRef<Path>) -> Reading<String> {
    optional(path.as_ref())?.ok_or_else(|| Unread(format!("{} is not there", path.as_ref().display())))
}

/// The same; `None` if there is no such file.
fn optional(path: impl AsRef<Path>) -> Reading<Option<String>> {
    match std::fs::read_to_string(path.as_ref()) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Unread(format!("{}: {error}", path.as_ref().display()))),
    }
}

/// The number in a file.
fn number<T: FromStr>(path: impl AsRef<Path>) -> Reading<T> {
    parsed(path.as_ref(), &text(path.as_ref())?)
}

/// The same; `None` if there is no such file.
fn optional_number<T: FromStr>(path: impl AsRef<Path>) -> Reading<Option<T>> {
    optional(path.as_ref())?.map(|text| parsed(path.as_ref(), &text)).transpose()
}

fn parsed<T: FromStr>(path: &Path, text: &str) -> Reading<T> {
    text.parse()
        .map_err(|_error| Unread(format!("{} says {text:?}, which is no number here", path.display())))
}

/// A number under `/proc/sys/net/core` that there is once for all network namespaces and that the kernel shows in the first
/// one alone.
fn core_number(name: &'static str) -> Reading<u32> {
    core_number_by(name, Path::new("/proc/1/ns/net"))
}

/// The same; in another namespace it is read by a thread that goes to the first one, which takes CAP_SYS_ADMIN and a `/proc`
/// that shows the host's processes.
fn core_number_by(name: &'static str, first: &Path) -> Reading<u32> {
    let path = Path::new("/proc/sys/net/core").join(name);
    if let Some(number) = optional_number(&path)? {
        return Ok(number);
    }
    let namespace = File::open(first).map_err(|error| {
        Unread(format!(
            "it is the host's, and {}: {error}; run the doctor in the host's network namespace",
            first.display()
        ))
    })?;
    let there = std::thread::spawn(move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).map_err(|errno| {
            Unread(format!("it is the host's, whose network namespace cannot be entered: {errno}"))
        })?;
        number(&path)
    });
    there.join().unwrap_or_else(|_panic| Err(Unread("the thread that read it ended".to_owned())))
}

/// What `netdev` could not read.
fn of_netdev<T>(result: Result<T, netdev::Error>) -> Reading<T> {
    result.map_err(|error| Unread(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{core_number_by, number, optional_number, text};
    use crate::netdev::testing::in_new_namespace;

    #[test]
    fn what_only_the_first_network_namespace_shows_is_read_there() {
        let here =
            core_number_by("netdev_max_backlog", Path::new("/nowhere")).expect("the tests' own namespace");
        in_new_namespace(move || {
            // Of the process, whose first thread is not in the new namespace.
            let there = core_number_by("netdev_max_backlog", Path::new("/proc/self/ns/net"));
            assert_eq!(there, Ok(here));
            let reason =
                core_number_by("netdev_max_backlog", Path::new("/nowhere")).expect_err("no way").to_string();
            assert!(reason.contains("/nowhere"), "{reason}");
        });
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let missing = text("/proc/sipweir-is-not-here").expect_err("missing").to_string();
        assert_eq!(missing, "/proc/sipweir-is-not-here is not there");
        assert_eq!(optional_number::<u32>("/proc/sipweir-is-not-here"), Ok(None));
        let folder = text("/proc/sys").expect_err("a folder").to_string();
        assert!(folder.starts_with("/proc/sys: "), "{folder}");
        let word = number::<u32>("/proc/sys/kernel/ostype").expect_err("a word").to_string();
        assert_eq!(word, "/proc/sys/kernel/ostype says \"Linux\", which is no number here");
        assert!(number::<u32>("/proc/sys/kernel/pid_max").is_ok());
    }
}
