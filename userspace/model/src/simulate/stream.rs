//! Random streams: one for each owner and purpose, so that variants of a scenario see the same callers and the same
//! server, and a change in one place draws no other numbers elsewhere.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

/// Who draws.
#[derive(Debug, Clone, Copy)]
pub(super) enum Owner {
    Source(usize),
    Node(usize),
}

/// What for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// Times between arrivals, or amounts of service.
    Work,
    /// The path of a modulated rate.
    Phases,
    /// What tells one call from another: share, route.
    Identity,
    /// A controller's own decisions.
    Control,
}

/// The stream of an owner and a purpose in the run of a seed.
pub(super) fn stream(seed: u64, owner: Owner, purpose: Purpose) -> Pcg64 {
    Pcg64::seed_from_u64(number(seed, owner, purpose))
}

/// A number of its own for each seed, owner and purpose.
pub(super) fn number(seed: u64, owner: Owner, purpose: Purpose) -> u64 {
    let (kind, index) = match owner {
        Owner::Source(index) => (0, index as u64),
        Owner::Node(index) => (1, index as u64),
    };
    mix(mix(mix(seed) ^ (2 * index + kind)) ^ purpose as u64)
}

/// Spreads a number over all 64 bits (the finaliser of SplitMix64; Steele, Lea, Flood, OOPSLA 2014).
pub(super) const fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// 53 of the bits as a number from 0 to below 1.
pub(super) const fn uniform(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Owner, Purpose, number};

    #[test]
    fn every_seed_owner_and_purpose_has_a_number_of_its_own() {
        let mut seen = BTreeSet::new();
        for seed in 0..20 {
            for index in 0..20 {
                for owner in [Owner::Source(index), Owner::Node(index)] {
                    for purpose in [Purpose::Work, Purpose::Phases, Purpose::Identity, Purpose::Control] {
                        assert!(seen.insert(number(seed, owner, purpose)), "{seed} {owner:?} {purpose:?}");
                    }
                }
            }
        }
    }
}
