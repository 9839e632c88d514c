//! What goes over the control socket while a capture runs: lines of JSON, and behind the line of a packet its bytes.
//!
//! A line comes at least every [`PROGRESS`], so that both ends notice when the other is gone.

use std::io::{BufRead, ErrorKind, Read};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::live::PACKET_BYTES_MAX;

/// How often a line comes at least.
pub(super) const PROGRESS: Duration = Duration::from_millis(500);
/// Bytes of a line; the names of services are the longest part.
const LINE_MAX: u64 = 4096;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub(super) enum Line {
    /// The first: it has begun.
    Begun {
        /// The guarded interface.
        interface: String,
    },
    /// A packet; its bytes follow.
    Packet(Record),
    /// The packets so far that found no buffer.
    Progress {
        /// How many.
        lost: u64,
    },
    /// The last: count or duration is reached, or the instance ends.
    End {
        /// Packets that found no buffer.
        lost: u64,
    },
}

/// A packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Time of day in nanoseconds since 1970.
    pub(super) at_ns: u64,
    /// Bytes behind this line.
    pub(super) len: usize,
    /// Bytes that the packet had.
    pub(super) packet_len: usize,
    /// What became of it.
    pub(super) verdict: String,
    /// Why.
    pub(super) reason: String,
    /// What it was.
    pub(super) class: String,
    /// For which service.
    pub(super) service: String,
    /// Who decided: the XDP program or a worker.
    pub(super) by: String,
}

impl Record {
    /// For people, and for the filters of Wireshark.
    pub(super) fn comment(&self) -> String {
        let Self { verdict, reason, class, service, by, .. } = self;
        format!("{verdict}: {reason}; class {class}, service {service}, by {by}")
    }
}

impl Line {
    /// As it is sent.
    pub(super) fn bytes(&self) -> std::io::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }
}

/// Reads a line; `None` at the end.
pub(super) fn read_line(input: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    if input.take(LINE_MAX).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.pop_if(|byte| *byte == b'\n').is_none() {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(line))
}

/// Reads the bytes behind the line of a packet.
pub(super) fn read_packet(
    input: &mut impl Read,
    record: &Record,
    bytes: &mut Vec<u8>,
) -> std::io::Result<()> {
    if record.len > PACKET_BYTES_MAX {
        return Err(ErrorKind::InvalidData.into());
    }
    bytes.resize(record.len, 0);
    input.read_exact(bytes)
}

#[cfg(test)]
mod tests {
    use super::{Line, Record, read_line, read_packet};

    #[test]
    fn lines_and_packets_are_read_as_they_were_written() {
        let record = Record {
            at_ns: 1,
            len: 3,
            packet_len: 9,
            verdict: "shed".into(),
            reason: "rejected".into(),
            class: "original".into(),
            service: "a\nb\"".into(),
            by: "xdp".into(),
        };
        let lines = [
            Line::Begun { interface: "eth0".into() },
            Line::Packet(record.clone()),
            Line::Progress { lost: 4 },
            Line::End { lost: 5 },
        ];
        let mut stream = Vec::new();
        for line in &lines {
            stream.extend(line.bytes().expect("JSON"));
            if matches!(line, Line::Packet(_)) {
                stream.extend(b"\n{x");
            }
        }
        let mut input = stream.as_slice();
        let mut bytes = Vec::new();
        for expected in &lines {
            let line = read_line(&mut input).expect("read").expect("a line");
            assert_eq!(serde_json::from_slice::<Line>(&line).expect("JSON"), *expected);
            if let Line::Packet(record) = expected {
                read_packet(&mut input, record, &mut bytes).expect("bytes");
                assert_eq!(bytes, b"\n{x");
            }
        }
        assert_eq!(read_line(&mut input).expect("read"), None);
    }

    #[test]
    fn a_stream_that_breaks_off_or_makes_no_sense_is_an_error() {
        assert!(read_line(&mut &b"{\"line\":"[..]).is_err());
        assert!(read_line(&mut &[b'x'; 9000][..]).is_err());
        let mut record = Record {
            at_ns: 0,
            len: 9,
            packet_len: 9,
            verdict: String::new(),
            reason: String::new(),
            class: String::new(),
            service: String::new(),
            by: String::new(),
        };
        assert!(read_packet(&mut &b"abc"[..], &record, &mut Vec::new()).is_err());
        record.len = usize::MAX;
        assert!(read_packet(&mut &b"abc"[..], &record, &mut Vec::new()).is_err());
    }
}
