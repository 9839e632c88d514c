//! Copies of packets that the program drops, for whoever captures (`samples.h`).

use std::cell::RefCell;
use std::rc::Rc;

use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};

use crate::Error;

/// Bytes in front of a packet in the ring.
const HEAD: usize = 16;

/// Words of the map that says what is wanted, `struct sampling`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplingWord {
    /// Bits by reason; 0: nothing is wanted.
    Reasons,
    /// Bits by index of the service.
    Services,
    /// Bits by class.
    Classes,
    /// A random number of 32 bits is not to be above it.
    Share,
    /// Packets that found no place, counted by the program.
    Lost,
}

/// How many there are.
pub const SAMPLING_WORDS: usize = SamplingWord::Lost as usize + 1;

/// A packet that was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample<'a> {
    /// When, by CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Its length, of which `bytes` may be the beginning only.
    pub packet_len: u16,
    /// Its class, as a number of `abi.h`.
    pub class: u8,
    /// Why it was dropped, as a number of `abi.h`.
    pub reason: u8,
    /// Index of its service.
    pub service: u8,
    /// The packet from its Ethernet header on.
    pub bytes: &'a [u8],
}

impl<'a> Sample<'a> {
    /// Reads `struct sample`; `None` for what our program cannot have written.
    #[must_use]
    pub fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        let (head, packet) = bytes.split_first_chunk::<HEAD>()?;
        let number = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
        let at_ns = u64::from_ne_bytes(*head.first_chunk()?);
        let bytes = packet.get(..usize::from(number(10)))?;
        let [class, reason, service] = [head[12], head[13], head[14]];
        Some(Self { at_ns, packet_len: number(8), class, reason, service, bytes })
    }
}

/// The ring that copies come by.
#[derive(Debug)]
pub struct SampleRing {
    map: MapHandle,
}

impl SampleRing {
    pub(crate) fn new(map: MapHandle) -> Self {
        Self { map }
    }

    /// Reads it from the calling thread. There must be one reader at a time.
    ///
    /// # Errors
    ///
    /// No memory, or no descriptor.
    pub fn reader(&self) -> Result<SampleReader, Error> {
        let failed = |error| Error::from_libbpf("reading the ring of samples", &error);
        let read = Rc::new(RefCell::new(Vec::new()));
        let into = Rc::clone(&read);
        let mut builder = RingBufferBuilder::new();
        let take = move |bytes: &[u8]| {
            into.borrow_mut().push(bytes.to_vec());
            0
        };
        builder.add(&self.map, take).map_err(failed)?;
        Ok(SampleReader { ring: builder.build().map_err(failed)?, read })
    }
}

/// Reads the ring. It belongs to one thread.
pub struct SampleReader {
    ring: RingBuffer<'static>,
    read: Rc<RefCell<Vec<Vec<u8>>>>,
}

impl std::fmt::Debug for SampleReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SampleReader").finish_non_exhaustive()
    }
}

impl SampleReader {
    /// Takes out what lies there, at most so many, the oldest first.
    ///
    /// # Errors
    ///
    /// The first one of `each`; what it did not get is gone.
    pub fn drain<E>(
        &mut self,
        most: usize,
        mut each: impl FnMut(Sample<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        // It never waits; the only errors are those of the callback, which has none.
        let _count = self.ring.consume_raw_n(most);
        let read = std::mem::take(&mut *self.read.borrow_mut());
        read.iter().filter_map(|bytes| Sample::from_bytes(bytes)).try_for_each(&mut each)
    }
}

#[cfg(test)]
mod tests {
    use super::Sample;

    #[test]
    fn a_sample_is_read_as_the_program_writes_it() {
        let mut bytes = 77_u64.to_ne_bytes().to_vec();
        bytes.extend([600_u16, 3].map(u16::to_ne_bytes).concat());
        bytes.extend([7, 31, 2, 0]);
        bytes.extend(b"abcdef");
        let expected = Sample { at_ns: 77, packet_len: 600, class: 7, reason: 31, service: 2, bytes: b"abc" };
        assert_eq!(Sample::from_bytes(&bytes), Some(expected));
        assert_eq!(Sample::from_bytes(&bytes[..15]), None);
        assert_eq!(Sample::from_bytes(&bytes[..18]), None, "cut short");
    }
}
