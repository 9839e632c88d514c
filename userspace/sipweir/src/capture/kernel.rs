//! What the XDP program drops by itself: switched on and off for a capture, and read.

use afxdp::MappedWords;
use xdp_prog::{Classifier, SAMPLING_WORDS, SampleReader, SampleRing, SamplingWord};

use super::filter::Bits;

/// The program's samples.
#[derive(Debug)]
pub struct Samples {
    words: MappedWords,
    ring: SampleRing,
}

impl Samples {
    /// Those of a loaded program.
    ///
    /// # Errors
    ///
    /// When the kernel gives no memory or no descriptor.
    pub fn of(classifier: &Classifier) -> anyhow::Result<Self> {
        let words = MappedWords::map(classifier.sampling_fd(), SAMPLING_WORDS)?;
        Ok(Self { words, ring: classifier.samples()? })
    }

    /// Begins: from now on what is wanted lies in the ring. `services` are bits by service index of the program. What an
    /// earlier capture has left is gone.
    ///
    /// # Errors
    ///
    /// When the kernel gives no memory or no descriptor.
    pub(super) fn switch_on(&self, bits: Bits, services: u64) -> anyhow::Result<SampleReader> {
        let mut reader = self.ring.reader()?;
        let nothing: Result<(), std::convert::Infallible> = reader.drain(usize::MAX >> 1, |_old| Ok(()));
        let Ok(()) = nothing;
        self.store(SamplingWord::Services, services);
        self.store(SamplingWord::Classes, bits.classes);
        self.store(SamplingWord::Share, bits.share.into());
        self.store(SamplingWord::Lost, 0);
        // The last: the program looks at it first.
        self.store(SamplingWord::Reasons, bits.reasons);
        Ok(reader)
    }

    fn store(&self, word: SamplingWord, value: u64) {
        self.words.store(word as usize, value);
    }

    /// Ends.
    pub(super) fn switch_off(&self) {
        self.store(SamplingWord::Reasons, 0);
    }

    /// Packets that found no place in the ring.
    pub(super) fn lost(&self) -> u64 {
        self.words.load(SamplingWord::Lost as usize)
    }
}
