//! A list as text: a network a line, with an end if it has one, and comments.
//!
//! ```text
//! # from a honeypot
//! 203.0.113.7                          # for ever
//! 203.0.113.64/26  2026-12-31T23:59:59Z
//! 2001:db8::/32,2027-01-31T12:00:00+01:00
//! ```
//!
//! Behind the network, blanks, tabs or a comma; `#` or `;` begin a comment. The time is RFC 3339's, with seconds and offset.
//! That is what exports of blocklists (a plain address a line) are, too.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::table::{Seconds, Until};
use crate::prefix::Prefix;

/// Longer lines are no list.
const LINE_BYTES_MAX: u64 = 4096;
/// Wrong lines that are named; the first ones say what kind of file it is.
const WRONG_LINES_MAX: usize = 10;

/// Networks and their ends, as read.
pub type Networks = BTreeMap<Prefix, Until>;

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read the list {}: {source}; sipweir's user must be able to read it", file.display())]
    Unread {
        /// Which.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is a folder, a pipe, a device: reading may wait for ever, or never end.
    #[error("the list {} is no file; name one, or copy what comes by a pipe into one", file.display())]
    NoFile {
        /// Which.
        file: PathBuf,
    },
    /// Some lines are no networks.
    #[error("the list {} is not used: {wrong}", file.display())]
    Wrong {
        /// Which.
        file: PathBuf,
        /// Their numbers, and why.
        wrong: WrongLines,
    },
    /// More networks than there is room for.
    #[error("with the list {} there are more than {room} networks; raise lists.room, which takes a restart", file.display())]
    TooLong {
        /// The one that is too much.
        file: PathBuf,
        /// How many there may be.
        room: usize,
    },
}

/// Lines that are no networks.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct WrongLines {
    first: Vec<(usize, String)>,
    count: usize,
}

impl WrongLines {
    fn add(&mut self, number: usize, why: String) {
        self.count += 1;
        if self.first.len() < WRONG_LINES_MAX {
            self.first.push((number, why));
        }
    }
}

impl fmt::Display for WrongLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (number, why)) in self.first.iter().enumerate() {
            write!(f, "{}line {number}: {why}", if index > 0 { "; " } else { "" })?;
        }
        match self.count - self.first.len() {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// Reads the files of a list, all or nothing. A network that stands there several times ends when the last of them does.
///
/// # Errors
///
/// The first file that cannot be used.
pub fn read_all(files: &[PathBuf], room: usize) -> Result<Networks, FileError> {
    let mut networks = Networks::new();
    for file in files {
        read(file, &mut networks, room)?;
    }
    Ok(networks)
}

fn read(file: &Path, networks: &mut Networks, room: usize) -> Result<(), FileError> {
    let unread = |source| FileError::Unread { file: file.into(), source };
    // Before it is opened: a pipe that nobody writes to would hold up a reload, and the end of the instance, for ever.
    if !std::fs::metadata(file).map_err(unread)?.is_file() {
        return Err(FileError::NoFile { file: file.into() });
    }
    let mut reader = io::BufReader::new(std::fs::File::open(file).map_err(unread)?);
    let mut wrong = WrongLines::default();
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let read = io::Read::take(&mut reader, LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
        if read.map_err(unread)? == 0 {
            break;
        }
        if bytes.len() as u64 == LINE_BYTES_MAX {
            wrong.add(number, format!("longer than {LINE_BYTES_MAX} bytes, this is no list"));
            break;
        }
        // Comments may be in any encoding; what is no text in front of them is no network.
        match parse_line(&String::from_utf8_lossy(&bytes)) {
            Ok(Some((network, until))) => put(networks, network, until),
            Ok(None) => {}
            Err(why) => wrong.add(number, why),
        }
        if networks.len() > room {
            return Err(FileError::TooLong { file: file.into(), room });
        }
    }
    if wrong.count == 0 { Ok(()) } else { Err(FileError::Wrong { file: file.into(), wrong }) }
}

/// The later end counts, and none is the latest.
fn put(networks: &mut Networks, network: Prefix, until: Until) {
    let known = networks.entry(network).or_insert(until);
    *known = (*known).max(until);
}

/// A network and its end; `None` for a line without.
///
/// # Errors
///
/// What is wrong with it.
pub fn parse_line(line: &str) -> Result<Option<(Prefix, Until)>, String> {
    let content = line.split(['#', ';']).next().unwrap_or_default();
    let mut words = content.split([' ', '\t', ',', '\r', '\n']).filter(|word| !word.is_empty());
    let Some(network) = words.next() else { return Ok(None) };
    let network = network.parse::<Prefix>()?;
    let until = words.next().map_or(Ok(Until::Ever), parse_time)?;
    match words.next() {
        Some(more) => Err(format!("{more:?} stands behind network and time; comments begin with #")),
        None => Ok(Some((network, until))),
    }
}

/// A time of RFC 3339.
///
/// # Errors
///
/// What it should look like.
pub fn parse_time(text: &str) -> Result<Until, String> {
    let time: Timestamp = text
        .parse()
        .map_err(|error| format!("{text:?} is no time such as 2026-12-31T23:59:59Z ({error})"))?;
    // Within a second it stays to the end of it: what shall stay for half of one is not over at once.
    let has_part = time.subsec_nanosecond() > 0;
    Ok(Until::Time(Seconds(time.as_second() + i64::from(has_part))))
}

#[cfg(test)]
mod tests {
    use super::{FileError, Networks, parse_line, read_all};
    use crate::lists::table::{Seconds, Until};

    #[track_caller]
    fn line(text: &str) -> (String, Until) {
        let (network, until) = parse_line(text).expect(text).expect("a network");
        (network.to_string(), until)
    }

    #[test]
    fn a_line_has_a_network_an_end_and_a_comment() {
        let end = Until::Time(Seconds(1_798_761_599));
        assert_eq!(line("203.0.113.7"), ("203.0.113.7/32".to_owned(), Until::Ever));
        assert_eq!(line("  203.0.113.64/26 # sipvicious\r\n"), ("203.0.113.64/26".to_owned(), Until::Ever));
        assert_eq!(line("203.0.113.7 2026-12-31T23:59:59Z").1, end);
        assert_eq!(line("203.0.113.7\t2027-01-01T00:59:59+01:00; why").1, end);
        assert_eq!(line("2001:db8::/32,2026-12-31T23:59:59Z"), ("2001:db8::/32".to_owned(), end));
        assert_eq!(line("203.0.113.7 2026-12-31T23:59:58.001Z").1, end, "never before its time");
        for nothing in ["", "\n", "  # 203.0.113.7", "; only a comment", " , "] {
            assert_eq!(parse_line(nothing), Ok(None), "{nothing:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        for (text, why) in [
            ("sip.example.com", "no network"),
            ("203.0.113.7/24", "behind the first 24"),
            ("203.0.113.7 2026-12-31", "no time such as"),
            ("203.0.113.7 tomorrow", "no time such as"),
            ("203.0.113.7 2026-12-31T23:59:59Z scanner", "comments begin with #"),
            ("203.0.113.7 - 203.0.113.9", "no time such as"),
        ] {
            let error = parse_line(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    /// A folder with these files, gone at the end.
    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str, files: &[(&str, &[u8])]) -> Self {
            let path = std::env::temp_dir().join(format!("sipweir-lists-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).expect("a folder");
            for (file, content) in files {
                std::fs::write(path.join(file), content).expect("a file");
            }
            Self(path)
        }

        fn read(&self, files: &[&str], room: usize) -> Result<Networks, FileError> {
            read_all(&files.iter().map(|file| self.0.join(file)).collect::<Vec<_>>(), room)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).expect("removed");
        }
    }

    #[test]
    fn files_are_one_list_in_which_the_later_end_of_a_network_counts() {
        let a = b"192.0.2.1 2026-01-01T00:00:00Z\n192.0.2.2\n# caf\xe9\n";
        let b = b"192.0.2.1 2027-01-01T00:00:00Z\r\n192.0.2.2 2027-01-01T00:00:00Z\r\n2001:db8::1";
        let folder = Folder::new("merge", &[("a", a), ("b", b)]);
        for order in [["a", "b"], ["b", "a"]] {
            let networks = folder.read(&order, 10).expect("read");
            let found: Vec<_> =
                networks.iter().map(|(network, until)| (network.to_string(), *until)).collect();
            let expected = [
                ("192.0.2.1/32".to_owned(), Until::Time(Seconds(1_798_761_600))),
                ("192.0.2.2/32".to_owned(), Until::Ever),
                ("2001:db8::1/128".to_owned(), Until::Ever),
            ];
            assert_eq!(found, expected);
        }
        assert!(matches!(folder.read(&["a", "b"], 2), Err(FileError::TooLong { room: 2, .. })));
        assert!(folder.read(&["a", "b"], 3).is_ok());
    }

    #[test]
    fn one_wrong_line_is_enough_and_the_first_of_many_are_named() {
        let many = "no network\n".repeat(12);
        let long = vec![b'1'; 5000];
        let files = [
            ("one", &b"192.0.2.1\n\n192.0.2.300\n"[..]),
            ("many", many.as_bytes()),
            ("binary", &[0; 64]),
            ("long", &long),
        ];
        let folder = Folder::new("wrong", &files);
        let said = |file| folder.read(&[file], 10).expect_err(file).to_string();
        assert!(said("one").contains("line 3: \"192.0.2.300\" is no network"), "{}", said("one"));
        assert!(said("many").ends_with("; and 2 more"), "{}", said("many"));
        assert!(said("binary").contains("line 1"), "{}", said("binary"));
        assert!(said("long").contains("no list"), "{}", said("long"));
        assert!(said("missing").contains("cannot read"), "{}", said("missing"));
    }

    #[test]
    fn a_pipe_that_nobody_writes_to_is_refused_and_not_waited_for() {
        let folder = Folder::new("pipe", &[]);
        let pipe = folder.0.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("coreutils").success());
        let (done, read) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(read_all(&[pipe], 10)));
        let read = read.recv_timeout(std::time::Duration::from_secs(10)).expect("not waited for");
        assert!(matches!(read, Err(FileError::NoFile { .. })), "{read:?}");
        assert!(matches!(folder.read(&["."], 10), Err(FileError::NoFile { .. })));
    }
}
