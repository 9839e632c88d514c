//! One case of the differential run: a datagram, the packet around it, the settings and the gate that it meets.

use crate::grammar::{write_message, write_noise};
use crate::mutate::mutate;
use crate::packet::Shape;
use crate::random::Random;

/// Longest datagram that is made; with the longest headers it is larger than a frame, which is a verdict of its own.
pub const DATAGRAM_LEN_MAX: usize = 2048;

const OVERLOAD: u64 = 1 << 32;
const DISCARD: u64 = 2 << 32;

/// Words of a shedding gate; each case meets an open one and one of these. A share of a half most often: it shows
/// whether the hash is right.
const SHEDDING: [u64; 8] = [
    OVERLOAD | 0x8000_0000,
    OVERLOAD | 0x8000_0000,
    OVERLOAD | 0x8000_0000,
    OVERLOAD | 0x8000_0000,
    OVERLOAD | 0xffff_ffff,
    OVERLOAD,
    DISCARD,
    // Nobody writes this; it must be as good as open.
    3 << 32 | 5,
];

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The datagram.
    pub datagram: Vec<u8>,
    /// What is around it.
    pub shape: Shape,
    /// The word of a shedding gate.
    pub shedding: u64,
    /// Settings: drop what is no SIP.
    pub drop_not_sip: bool,
}

impl Default for Case {
    fn default() -> Self {
        Self { datagram: Vec::new(), shape: Shape::PLAIN, shedding: OVERLOAD, drop_not_sip: false }
    }
}

impl Case {
    /// Makes this the case of a run's `seed` and its own `index`.
    pub fn make(&mut self, seed: u64, index: u64, corpus: &[Vec<u8>]) {
        let random = &mut Random::of(seed, index);
        let datagram = &mut self.datagram;
        let from_corpus = |random: &mut Random| &corpus[random.below(corpus.len())];
        match random.below(16) {
            0..=5 => write_message(random, datagram),
            6..=8 => {
                write_message(random, datagram);
                mutate(datagram, from_corpus(random), random);
            }
            9..=11 => {
                datagram.clone_from(from_corpus(random));
                mutate(datagram, from_corpus(random), random);
            }
            12 => {
                let mut other = Vec::new();
                write_message(random, &mut other);
                datagram.clone_from(from_corpus(random));
                mutate(datagram, &other, random);
            }
            13 => datagram.clone_from(from_corpus(random)),
            14 => {
                write_message(random, datagram);
                datagram.truncate(random.below(datagram.len() + 1));
            }
            _ => write_noise(random, datagram, DATAGRAM_LEN_MAX),
        }
        datagram.truncate(DATAGRAM_LEN_MAX);
        self.shape = Shape::random(random);
        self.shedding = SHEDDING[random.below(SHEDDING.len())];
        self.drop_not_sip = random.once_in(4);
    }
}
