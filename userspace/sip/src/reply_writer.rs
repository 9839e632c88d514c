//! Writing the text of a reply: into a buffer of the caller's, never beyond a limit, nothing allocated.
//!
//! Values are copied verbatim but for folds. What a reply says is not here but in `reply`.

use std::fmt::Write as _;

use memchr::memchr;

use crate::headers::Header;
use crate::params::is_space;
use crate::refusal::NoReply;

/// Writes into a buffer up to a limit and says which of the two was too small.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    out: &'a mut [u8],
    len: usize,
    len_max: usize,
}

impl<'a> Writer<'a> {
    /// Writes into `out`, at most `len_max` bytes.
    pub(crate) const fn new(out: &'a mut [u8], len_max: usize) -> Self {
        Self { out, len: 0, len_max }
    }

    /// Bytes written so far.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), NoReply> {
        let end = self.len + bytes.len();
        if end > self.len_max {
            return Err(NoReply::LongerThanRequest);
        }
        self.out.get_mut(self.len..end).ok_or(NoReply::NoRoom)?.copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }

    /// Numbers and addresses.
    pub(crate) fn formatted(&mut self, arguments: std::fmt::Arguments<'_>) -> Result<(), NoReply> {
        let mut formatter = Formatter { writer: self, outcome: Ok(()) };
        // `write_fmt` fails only where `write_str` did, and that left its reason.
        match formatter.write_fmt(arguments) {
            Ok(()) => Ok(()),
            Err(std::fmt::Error) => formatter.outcome,
        }
    }

    /// A value with each fold replaced by one space (RFC 3261 section 7.3.1).
    pub(crate) fn unfolded(&mut self, value: &[u8]) -> Result<(), NoReply> {
        let mut rest = value;
        while let Some(line_feed) = memchr(b'\n', rest) {
            let line = &rest[..line_feed];
            let kept = line.iter().rposition(|byte| !is_space(*byte)).map_or(0, |last| last + 1);
            self.line_part(&line[..kept])?;
            self.bytes(b" ")?;
            let behind = &rest[line_feed..];
            rest = &behind[behind.iter().position(|byte| !is_space(*byte)).unwrap_or(behind.len())..];
        }
        self.line_part(rest)
    }

    fn line_part(&mut self, text: &[u8]) -> Result<(), NoReply> {
        if memchr(b'\r', text).is_some() {
            return Err(NoReply::StrayReturn);
        }
        self.bytes(text)
    }

    /// A name as the request spells it, so that compact names stay compact.
    pub(crate) fn header_name(&mut self, header: &Header<'_>) -> Result<(), NoReply> {
        self.bytes(header.name)?;
        self.bytes(b": ")
    }

    /// A header copied from the request.
    pub(crate) fn header(&mut self, header: &Header<'_>) -> Result<(), NoReply> {
        self.header_name(header)?;
        self.unfolded(header.value)?;
        self.bytes(b"\r\n")
    }
}

struct Formatter<'a, 'b> {
    writer: &'a mut Writer<'b>,
    outcome: Result<(), NoReply>,
}

impl std::fmt::Write for Formatter<'_, '_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.outcome = self.writer.bytes(text.as_bytes());
        self.outcome.map_err(|_reason| std::fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unfolded(value: &[u8]) -> Result<Vec<u8>, NoReply> {
        let mut out = [0; 64];
        let mut writer = Writer::new(&mut out, 64);
        writer.unfolded(value)?;
        let len = writer.len();
        Ok(out[..len].to_vec())
    }

    #[test]
    fn a_fold_becomes_one_space_and_other_blanks_stay() {
        assert_eq!(unfolded(b"a  b\t;c ").unwrap(), b"a  b\t;c ");
        assert_eq!(unfolded(b"a \r\n\t b\n c").unwrap(), b"a b c");
        assert_eq!(unfolded(b"a\r\n \r\n b").unwrap(), b"a b");
    }

    #[test]
    fn a_carriage_return_within_a_line_is_refused() {
        assert_eq!(unfolded(b"a\rVia: b"), Err(NoReply::StrayReturn));
        assert_eq!(unfolded(b"a\r\r\n b\rc"), Err(NoReply::StrayReturn));
    }

    #[test]
    fn the_limit_and_the_buffer_are_told_apart() {
        let mut out = [0; 8];
        assert_eq!(Writer::new(&mut out, 4).bytes(b"12345"), Err(NoReply::LongerThanRequest));
        assert_eq!(Writer::new(&mut out, 99).bytes(b"123456789"), Err(NoReply::NoRoom));
        let mut writer = Writer::new(&mut out, 4);
        assert_eq!(writer.formatted(format_args!("{}{}", 12, 345)), Err(NoReply::LongerThanRequest));
        assert_eq!(Writer::new(&mut out, 5).formatted(format_args!("{}{}", 12, 345)), Ok(()));
        assert_eq!(&out[..5], b"12345");
    }
}
