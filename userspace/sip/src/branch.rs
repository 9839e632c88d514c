//! What ties a response to its request: the branch of the topmost Via, hashed.
//!
//! A server copies it verbatim and a client makes it unique for each transaction (RFC 3261 sections 8.1.1.7 and
//! 8.2.6.2). The kernel's half of the same function is `xdp-prog/branch.h`, which sees the responses;
//! `xdp-prog/tests/answers.rs` compares the two. Both are cheap rather than thorough: the first parameter `branch` behind
//! the start line is taken for that of the topmost Via. Where another header comes first and has one, an answer is not
//! recognised, and one measurement is lost.

use memchr::memchr;

/// Bytes behind the start line within which the branch must begin, as in branch.h.
const SEARCH_MAX: usize = 384;
/// The longest branch that is hashed, as in branch.h.
const LEN_MAX: usize = 128;
/// With bit 0x20 set in each byte, which all of them have.
const NAME: [u8; 8] = *b";branch=";
const FNV_PRIME: u64 = 0x100_0000_01b3;

/// The branch of the topmost Via in `headers`, which begin behind the start line, hashed from a secret `seed` on. `None`: there
/// is none, or it is empty or longer than 128 bytes.
#[must_use]
pub fn branch_hash(headers: &[u8], seed: u64) -> Option<u64> {
    let value = &headers[find(headers)?..];
    let is_end = |byte: &u8| *byte <= b' ' || matches!(byte, b';' | b',' | b'>');
    let len = value.iter().take(LEN_MAX + 1).position(is_end).unwrap_or(value.len());
    if len == 0 || len > LEN_MAX {
        return None;
    }
    let mut hash = seed;
    for byte in &value[..len] {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
    }
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
    Some(hash ^ hash >> 32).filter(|hash| *hash != 0)
}

/// Where the value begins.
fn find(headers: &[u8]) -> Option<usize> {
    let searched = &headers[..headers.len().min(SEARCH_MAX)];
    let mut from = 0;
    while let Some(at) = memchr(NAME[0], &searched[from..]) {
        let at = from + at;
        let name = searched.get(at..at + NAME.len())?;
        if name.iter().zip(NAME).all(|(byte, of_name)| byte | 0x20 == of_name) {
            return Some(at + NAME.len());
        }
        from = at + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{LEN_MAX, SEARCH_MAX, branch_hash};

    fn hash(headers: &str) -> Option<u64> {
        branch_hash(headers.as_bytes(), 7)
    }

    #[test]
    fn the_first_branch_counts_whatever_stands_around_it() {
        let plain = hash("Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKabc\r\n");
        assert!(plain.is_some());
        for same in [
            "v:SIP/2.0/UDP 192.0.2.1;rport;BRANCH=z9hG4bKabc;received=192.0.2.9\r\nVia: x;branch=other\r\n",
            "Max-Forwards: 70\r\nVia: SIP/2.0/UDP 192.0.2.1;Branch=z9hG4bKabc, SIP/2.0/UDP x;branch=z9\r\n",
            "Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKabc",
        ] {
            assert_eq!(hash(same), plain, "{same}");
        }
    }

    #[test]
    fn another_branch_case_or_seed_is_another_hash() {
        let of = |branch: &str, seed| branch_hash(format!("Via: x;branch={branch}\r\n").as_bytes(), seed);
        let plain = of("z9hG4bKabc", 7);
        for (branch, seed) in [("z9hG4bKabd", 7), ("z9hG4bKab", 7), ("z9hG4bKABC", 7), ("z9hG4bKabc", 8)] {
            assert_ne!(of(branch, seed), plain, "{branch} {seed}");
        }
    }

    #[test]
    fn what_has_no_branch_of_a_usual_length_has_no_hash() {
        let long = "a".repeat(LEN_MAX + 1);
        for none in [
            "",
            "Via: SIP/2.0/UDP 192.0.2.1\r\n",
            "Via: x;branch=;rport\r\n",
            "Via: x;branchx=1\r\n",
            ";bran",
        ] {
            assert_eq!(hash(none), None, "{none}");
        }
        assert_eq!(hash(&format!("Via: x;branch={long}\r\n")), None);
        assert!(hash(&format!("Via: x;branch={}\r\n", &long[1..])).is_some());
        let far = |blanks: usize| hash(&format!("{};branch=z9hG4bKabc\r\n", " ".repeat(blanks)));
        assert!(far(SEARCH_MAX - 8).is_some() && far(SEARCH_MAX - 7).is_none());
    }
}
