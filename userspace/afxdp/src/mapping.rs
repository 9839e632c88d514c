//! Memory that is shared with the kernel, or stands in for it: mapped once, unmapped on drop.
//!
//! Nothing here knows what lies in the memory.

use std::ptr::{NonNull, null_mut};

use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// A mapping that lives as long as this value. Page aligned, readable and writable.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the value owns its address range and holds no thread-bound state; whoever makes pointers into the
// range answers for synchronisation (see `ring` and `umem`).
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` only gives out raw pointers.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed memory of our own, present before it returns so that the data path takes no page fault. With
    /// `huge_pages`, the length must be a multiple of [`HUGE_PAGE`].
    pub(crate) fn anonymous(len: usize, huge_pages: bool) -> Result<Self, Errno> {
        let mut flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        if huge_pages {
            flags |= MapFlags::HUGETLB;
        }
        // SAFETY: with a null hint and without MAP_FIXED the kernel picks a range that nothing else uses.
        let base = unsafe { mmap_anonymous(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags) }?;
        let mapping = Self::own(base.cast(), len)?;
        // A forked child must not make the kernel copy pages that a socket has pinned. Where the advice is
        // not taken, the pages are merely copied at fork, which is slow and harmless.
        // SAFETY: the range is exactly the one just mapped, and `DONTFORK` doesn't change its contents.
        let _ = unsafe { madvise(base, len, Advice::LinuxDontFork) };
        Ok(mapping)
    }

    /// Memory behind a file descriptor, at one of the offsets that its owner documents.
    pub(crate) fn of_fd(fd: BorrowedFd<'_>, len: usize, offset: u64) -> Result<Self, Errno> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: with a null hint and without MAP_FIXED the kernel picks a range that nothing else uses.
        let base = unsafe { mmap(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags, fd, offset) }?;
        Self::own(base.cast(), len)
    }

    fn own(base: *mut u8, len: usize) -> Result<Self, Errno> {
        NonNull::new(base).map(|base| Self { base, len }).ok_or(Errno::NOMEM)
    }

    pub(crate) fn address(&self) -> u64 {
        self.base.as_ptr().addr() as u64
    }

    /// A pointer to `count` values of `T` at a byte offset, or `None` if they don't fit or aren't aligned
    /// there.
    pub(crate) fn at<T>(&self, offset: usize, count: usize) -> Option<NonNull<T>> {
        let bytes = size_of::<T>().checked_mul(count)?;
        if offset.checked_add(bytes)? > self.len || !offset.is_multiple_of(align_of::<T>()) {
            return None;
        }
        // SAFETY: `offset` lies within the mapping, by the comparison above, so the sum stays inside one
        // allocation.
        Some(unsafe { self.base.add(offset) }.cast())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is ours alone, and whoever holds pointers into it also holds this value (`Arc`)
        // or borrows from it.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Bytes of a huge page on x86-64 and on arm64 with 4 KiB pages. Where pages are larger the mapping fails and
/// ordinary pages are taken.
pub(crate) const HUGE_PAGE: usize = 2 << 20;
