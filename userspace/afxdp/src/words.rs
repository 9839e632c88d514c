//! A BPF array of 64-bit words that user space and the XDP program share, such as the gate words.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fd::BorrowedFd;

use crate::error::Error;
use crate::mapping::Mapping;

/// A mapped array of words. Each is read and written as a whole; the XDP program sees a store at its next
/// load.
#[derive(Debug)]
pub struct MappedWords {
    /// INVARIANT: leads to `count` words in `mapping`.
    first: NonNull<AtomicU64>,
    count: usize,
    _mapping: Mapping,
}

// SAFETY: the words are atomics in a mapping that the value owns.
unsafe impl Send for MappedWords {}
// SAFETY: as above: shared access is by atomics only.
unsafe impl Sync for MappedWords {}

impl MappedWords {
    /// Maps the first `words` words of a BPF array with `BPF_F_MMAPABLE` (value size 8, or a data section of
    /// words). The mapping keeps the array alive, also when the descriptor is closed.
    ///
    /// # Errors
    ///
    /// If the array isn't as large, not mmapable, or frozen against writing.
    pub fn map(fd: BorrowedFd<'_>, words: usize) -> Result<Self, Error> {
        let failed = |source| Error::MapWords { words, source };
        let len = words.checked_mul(size_of::<AtomicU64>()).filter(|&len| len > 0);
        let len = len.ok_or_else(|| failed(rustix::io::Errno::INVAL))?;
        let mapping = Mapping::of_fd(fd, len, 0).map_err(failed)?;
        let first = mapping.at(0, words).ok_or_else(|| failed(rustix::io::Errno::INVAL))?;
        Ok(Self { first, count: words, _mapping: mapping })
    }

    /// All words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: `count` aligned words lie there for as long as `self` lives (invariant of `first`), any
        // bits are a value, and nobody accesses them other than atomically: the XDP program with single loads
        // and stores of 64 bits.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }

    /// Reads a word.
    ///
    /// # Panics
    ///
    /// If there is no such word.
    #[must_use]
    pub fn load(&self, index: usize) -> u64 {
        self.words()[index].load(Ordering::Acquire)
    }

    /// Writes a word.
    ///
    /// # Panics
    ///
    /// If there is no such word.
    pub fn store(&self, index: usize, word: u64) {
        self.words()[index].store(word, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    /// A file in shared memory maps as a BPF array does.
    fn shared_file(len: u64) -> File {
        let name = format!("/dev/shm/afxdp-words-{}-{len}", std::process::id());
        let file =
            File::options().read(true).write(true).create_new(true).open(&name).expect("shared memory");
        std::fs::remove_file(&name).expect("just made");
        file.set_len(len).expect("a few bytes");
        file
    }

    #[test]
    fn what_one_mapping_stores_another_one_loads() {
        let file = shared_file(64 * 8);
        let worker = MappedWords::map(file.as_fd(), 64).expect("mapped");
        let program = MappedWords::map(file.as_fd(), 64).expect("mapped");
        drop(file);
        assert_eq!(program.words().len(), 64);
        for index in 0..64 {
            worker.store(index, (1 << 40) + index as u64);
        }
        for index in 0..64 {
            assert_eq!(program.load(index), (1 << 40) + index as u64);
        }
    }

    #[test]
    fn nothing_to_map_is_an_error() {
        let file = shared_file(8);
        assert!(matches!(MappedWords::map(file.as_fd(), 0), Err(Error::MapWords { words: 0, .. })));
        assert!(matches!(MappedWords::map(file.as_fd(), usize::MAX), Err(Error::MapWords { .. })));
        let (not_mappable, _other) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
        assert!(matches!(MappedWords::map(not_mappable.as_fd(), 1), Err(Error::MapWords { words: 1, .. })));
    }
}
