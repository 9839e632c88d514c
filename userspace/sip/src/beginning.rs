//! The hash of a request's beginning: 128 bytes behind the start line, and the source address.
//!
//! For `overload::ServedFilter`: cheaper than the transaction hash by the rest of the datagram, the same for all copies of
//! a request, and nearly always another one for another request, since there stands the topmost Via with its branch
//! (RFC 3261 section 8.1.1.7). Who is taken for another by chance or on purpose is looked for in the transaction table, so
//! this hash need not be as strong; with the key it is NH of UMAC again (see `txn`), one sum of it.
//!
//! The XDP program computes the same number (`xdp-prog/served.h`).

use std::net::IpAddr;

use memchr::memchr;

use crate::start_line::skip_line_ends;
use crate::txn::{ADDRESS_POSITION, TransactionKey, address_bytes, mix64};

/// Bytes behind the start line that are hashed (`BEGINNING_WORDS` in `xdp-prog/served.h`).
pub const BEGINNING_LEN: usize = 128;

/// The hash of the beginning of a datagram from `source`; `None` if less than [`BEGINNING_LEN`] bytes follow its start
/// line.
#[must_use]
pub fn beginning_hash(key: &TransactionKey, source: IpAddr, datagram: &[u8]) -> Option<u64> {
    let message = &datagram[skip_line_ends(datagram)..];
    let headers = message.get(memchr(b'\n', message)? + 1..)?;
    let address = address_bytes(source);
    let sum = key
        .nh(ADDRESS_POSITION, address.as_chunks().0)
        .wrapping_add(key.nh(0, headers.first_chunk::<BEGINNING_LEN>()?.as_chunks().0));
    Some(mix64(sum))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::Seed;

    const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

    fn hash(datagram: &[u8]) -> Option<u64> {
        beginning_hash(&TransactionKey::new(&Seed([1, 2, 3, 4])), SOURCE, datagram)
    }

    fn message(first_line: &str, headers_len: usize) -> Vec<u8> {
        let headers: Vec<u8> = (b'a'..=b'z').cycle().take(headers_len).collect();
        [first_line.as_bytes(), &headers].concat()
    }

    #[test]
    fn copies_have_one_hash_whatever_may_differ_between_copies() {
        let plain = hash(&message("INVITE sip:b@x SIP/2.0\r\n", 200));
        assert!(plain.is_some());
        for other in ["\r\n\r\nINVITE sip:b@x SIP/2.0\r\n", "INVITE sip:b@x SIP/2.0 rtx=0\r\n"] {
            assert_eq!(hash(&message(other, 200)), plain, "{other}");
        }
    }

    #[test]
    fn each_byte_of_the_beginning_and_the_source_count() {
        let datagram = message("INVITE sip:b@x SIP/2.0\r\n", 200);
        let headers = datagram.len() - 200;
        let plain = hash(&datagram);
        for at in 0..200 {
            let mut other = datagram.clone();
            other[headers + at] ^= 1;
            assert_eq!(hash(&other) != plain, at < BEGINNING_LEN, "byte {at}");
        }
        let key = TransactionKey::new(&Seed([1, 2, 3, 4]));
        for source in ["192.0.2.8", "2001:db8::7"] {
            let source = source.parse().expect("an address");
            assert_ne!(beginning_hash(&key, source, &datagram), plain);
        }
        let mapped = "::ffff:192.0.2.7".parse().expect("an address");
        assert_eq!(beginning_hash(&key, mapped, &datagram), plain);
    }

    #[test]
    fn a_message_that_is_too_short_has_none() {
        assert!(hash(&message("INVITE sip:b@x SIP/2.0\r\n", BEGINNING_LEN)).is_some());
        assert!(hash(&message("INVITE sip:b@x SIP/2.0\r\n", BEGINNING_LEN - 1)).is_none());
        for datagram in [&b""[..], b"\r\n", b"INVITE", b"\n\n\n"] {
            assert!(hash(datagram).is_none());
        }
    }
}
