//! Writing the text of a reply: into a buffer of the caller's, never beyond a limit, nothing allocated.
//!
//! Values are copied verbatim but for folds. What a reply says is not here but in `reply`.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use memchr::{memchr, memchr2};

use crate::headers::Header;
use crate::params::is_space;
use crate::refusal::NoReply;

/// Digits of the largest number of 64 bits.
const DIGITS_MAX: usize = u64::MAX.ilog10() as usize + 1;

/// Writes into a buffer up to a limit and says which of the two was too small.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    out: &'a mut [u8],
    len: usize,
    len_max: usize,
}

impl<'a> Writer<'a> {
    /// Writes into `out`, at most `len_max` bytes.
    pub(crate) fn new(out: &'a mut [u8], len_max: usize) -> Self {
        let end = out.len().min(len_max);
        Self { out: &mut out[..end], len: 0, len_max }
    }

    /// Bytes written so far.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Bytes as they are.
    #[inline]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), NoReply> {
        let end = self.len + bytes.len();
        let Some(room) = self.out.get_mut(self.len..end) else {
            return Err(if end > self.len_max { NoReply::LongerThanRequest } else { NoReply::NoRoom });
        };
        room.copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }

    /// A number in decimal.
    pub(crate) fn number(&mut self, number: impl Into<u64>) -> Result<(), NoReply> {
        self.digits(number, 1)
    }

    /// A number in decimal, filled up with zeros in front to at least `len_min` digits, of which there are at most 20.
    pub(crate) fn digits(&mut self, number: impl Into<u64>, len_min: usize) -> Result<(), NoReply> {
        let mut digits = [b'0'; DIGITS_MAX];
        let mut start = DIGITS_MAX;
        let mut rest = number.into();
        while rest > 0 {
            start -= 1;
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.bytes(&digits[start.min(DIGITS_MAX - len_min)..])
    }

    /// An address without brackets.
    pub(crate) fn address(&mut self, address: IpAddr) -> Result<(), NoReply> {
        match address {
            IpAddr::V4(v4) => self.ipv4(v4),
            IpAddr::V6(v6) => self.ipv6(v6),
        }
    }

    fn ipv4(&mut self, address: Ipv4Addr) -> Result<(), NoReply> {
        let [first, rest @ ..] = address.octets();
        self.number(first)?;
        rest.into_iter().try_for_each(|octet| {
            self.bytes(b".")?;
            self.number(octet)
        })
    }

    fn ipv6(&mut self, address: Ipv6Addr) -> Result<(), NoReply> {
        let mut formatter = Formatter { writer: self, outcome: Ok(()) };
        // `write!` fails only where `write_str` did, and that left its reason.
        match write!(formatter, "{address}") {
            Ok(()) => Ok(()),
            Err(std::fmt::Error) => formatter.outcome,
        }
    }

    /// A value with each fold replaced by one space (RFC 3261 section 7.3.1).
    pub(crate) fn unfolded(&mut self, value: &[u8]) -> Result<(), NoReply> {
        // Hardly any value is folded.
        if memchr2(b'\r', b'\n', value).is_none() {
            return self.bytes(value);
        }
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
    use proptest::prelude::*;

    use super::*;

    fn written(write: impl FnOnce(&mut Writer<'_>) -> Result<(), NoReply>) -> String {
        let mut out = [0; 64];
        let mut writer = Writer::new(&mut out, 64);
        write(&mut writer).unwrap();
        let len = writer.len();
        String::from_utf8(out[..len].to_vec()).unwrap()
    }

    proptest! {
        #[test]
        fn numbers_and_addresses_are_those_of_the_standard_library(
            // Shifted, so that there are numbers of every length.
            (number, shift) in (any::<u64>(), 0..64),
            len_min in 1_usize..=20,
            address: IpAddr,
        ) {
            let number: u64 = number >> shift;
            prop_assert_eq!(written(|writer| writer.number(number)), number.to_string());
            prop_assert_eq!(written(|writer| writer.digits(number, len_min)), format!("{number:0len_min$}"));
            prop_assert_eq!(written(|writer| writer.address(address)), address.to_string());
        }
    }

    #[test]
    fn the_smallest_and_the_largest_number_are_written() {
        assert_eq!(written(|writer| writer.number(0_u8)), "0");
        assert_eq!(written(|writer| writer.number(u64::MAX)), u64::MAX.to_string());
    }

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
        assert_eq!(writer.number(12_345_u32), Err(NoReply::LongerThanRequest));
        assert_eq!(writer.address(Ipv6Addr::LOCALHOST.into()), Ok(()));
        assert_eq!(writer.address(Ipv6Addr::LOCALHOST.into()), Err(NoReply::LongerThanRequest));
        assert_eq!(Writer::new(&mut out, 5).number(12_345_u32), Ok(()));
        assert_eq!(&out[..5], b"12345");
    }
}
