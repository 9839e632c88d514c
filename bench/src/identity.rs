//! Who a call is: everything that makes it unique follows from the seed and the number of the call.
//!
//! The branch carries a scrambled call number, and the scrambling can be undone. So an answer leads back to its call
//! without a table of branches, and a late answer to a call that is long forgotten can still be acknowledged
//! correctly, because Call-ID, tags and numbers follow from the branch alone.
//!
//! Two runs with one seed send the same bytes: against one server leave 64·T1 between them or change the seed, or
//! the second run's requests are copies of the first's.

use crate::config::{CallerConfig, Mix};
use crate::template::Method;

/// Purposes for which a call's token is hashed; each gives an independent value.
#[derive(Debug, Clone, Copy)]
#[repr(u64)]
enum Purpose {
    CallId = 0x9e37_79b9_7f4a_7c15,
    FromTag = 0xbf58_476d_1ce4_e5b9,
    Callee = 0x94d0_49bb_1331_11eb,
    Caller = 0xd6e8_feb8_6659_fd93,
    Kind = 0xa076_1d64_78bd_642f,
    Hold = 0xe703_7ed1_a0b4_28db,
}

/// A call's number, scrambled with the seed: what its branch carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Token(pub(crate) u64);

/// The texts that a call's messages carry. Fixed widths, so rendering is copying.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallText {
    pub(crate) branch: [u8; 16],
    pub(crate) call_id: [u8; 16],
    pub(crate) from_tag: [u8; 16],
    pub(crate) callee: [u8; 8],
    pub(crate) caller: [u8; 8],
}

/// Maps call numbers to identities and back, for one seed.
#[derive(Debug, Clone)]
pub(crate) struct Identities {
    key: u64,
    users: u64,
    /// Cumulated shares of INVITE and of INVITE or REGISTER; the rest is OPTIONS.
    invite_below: f64,
    register_below: f64,
}

impl Identities {
    pub(crate) fn new(config: &CallerConfig) -> Self {
        let Mix { invite, register, options } = config.mix;
        let sum = invite + register + options;
        Self {
            key: mix(config.seed ^ 0x5349_5057_4549_5221),
            users: u64::from(config.users),
            invite_below: invite / sum,
            register_below: (invite + register) / sum,
        }
    }

    pub(crate) fn token(&self, call_no: u64) -> Token {
        Token(mix(call_no ^ self.key))
    }

    pub(crate) fn call_no(&self, token: Token) -> u64 {
        unmix(token.0) ^ self.key
    }

    /// Method of the call's first request.
    pub(crate) fn method(&self, token: Token) -> Method {
        let u = unit(token, Purpose::Kind);
        if u < self.invite_below {
            Method::Invite
        } else if u < self.register_below {
            Method::Register
        } else {
            Method::Options
        }
    }

    /// A uniform number in (0, 1] for the hold time.
    pub(crate) fn hold_share(&self, token: Token) -> f64 {
        1.0 - unit(token, Purpose::Hold)
    }

    pub(crate) fn text(&self, token: Token) -> CallText {
        CallText {
            branch: hex(token.0),
            call_id: hex(derive(token, Purpose::CallId)),
            from_tag: hex(derive(token, Purpose::FromTag)),
            callee: decimal(derive(token, Purpose::Callee) % self.users),
            caller: decimal(derive(token, Purpose::Caller) % self.users),
        }
    }
}

/// Reads the 16 hexadecimal digits that [`CallText::branch`] holds.
pub(crate) fn read_token(digits: &[u8]) -> Option<Token> {
    if digits.len() != 16 {
        return None;
    }
    let mut value = 0;
    for &digit in digits {
        value = value << 4 | u64::from((digit as char).to_digit(16)?);
    }
    Some(Token(value))
}

fn derive(token: Token, purpose: Purpose) -> u64 {
    mix(token.0 ^ purpose as u64)
}

fn unit(token: Token, purpose: Purpose) -> f64 {
    (derive(token, purpose) >> 11) as f64 / (1_u64 << 53) as f64
}

/// A bijective mixing of 64 bits (the finaliser of MurmurHash3).
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ x >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ x >> 33
}

/// Undoes [`mix`]: the inverses of both odd multipliers modulo 2^64, and shifts of 33 that undo themselves.
fn unmix(mut x: u64) -> u64 {
    x = (x ^ x >> 33).wrapping_mul(0x9cb4_b2f8_1293_37db);
    x = (x ^ x >> 33).wrapping_mul(0x4f74_430c_22a5_4005);
    x ^ x >> 33
}

fn hex(value: u64) -> [u8; 16] {
    std::array::from_fn(|i| b"0123456789abcdef"[(value >> (60 - 4 * i) & 15) as usize])
}

fn decimal(mut value: u64) -> [u8; 8] {
    let mut digits = [b'0'; 8];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_branch_leads_back_to_its_call(seed: u64, call_no: u64) {
            let ids = Identities::new(&CallerConfig { seed, ..Default::default() });
            let text = ids.text(ids.token(call_no));
            prop_assert_eq!(ids.call_no(read_token(&text.branch).unwrap()), call_no);
        }
    }

    #[test]
    fn calls_of_one_run_and_of_two_seeds_share_nothing() {
        let mut seen = std::collections::HashSet::new();
        for seed in 0..2 {
            let ids = Identities::new(&CallerConfig { seed, ..Default::default() });
            for call_no in 0..10_000 {
                let text = ids.text(ids.token(call_no));
                assert!(seen.insert(text.branch) && seen.insert(text.call_id) && seen.insert(text.from_tag));
            }
        }
    }

    #[test]
    fn the_mix_is_kept() {
        let mix = Mix { invite: 2.0, register: 1.0, options: 1.0 };
        let ids = Identities::new(&CallerConfig { mix, ..Default::default() });
        let mut counts = [0_u32; 4];
        for call_no in 0..40_000 {
            counts[ids.method(ids.token(call_no)) as usize] += 1;
        }
        // Standard deviations are 100 and 87; four of them.
        assert!(counts[0].abs_diff(20_000) < 400 && counts[1].abs_diff(10_000) < 350, "{counts:?}");
        assert_eq!(counts[3], 0);
    }

    #[test]
    fn digits_are_plain() {
        assert_eq!(&hex(0x0123_4567_89ab_cdef), b"0123456789abcdef");
        assert_eq!(&decimal(4711), b"00004711");
        assert_eq!(read_token(b"00000000000000zz"), None);
        assert_eq!(read_token(b"0"), None);
    }
}
