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
    /// What was mapped, if that is more: to begin at the bounds of a huge page.
    whole: Option<(NonNull<u8>, usize)>,
}

// SAFETY: the value owns its address range and holds no thread-bound state; whoever makes pointers into the
// range answers for synchronisation (see `ring` and `umem`).
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` only gives out raw pointers.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed memory of our own, present before it returns so that the data path takes no page fault. With
    /// `reserved_huge_pages`, the length must be a multiple of [`HUGE_PAGE`], and so many must have been set aside for
    /// programs that ask for them; otherwise the kernel gives huge pages where it has them, which spares most misses of
    /// the TLB, and ordinary ones elsewhere.
    pub(crate) fn anonymous(len: usize, reserved_huge_pages: bool) -> Result<Self, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let mapping = if reserved_huge_pages {
            let flags = MapFlags::PRIVATE | MapFlags::POPULATE | MapFlags::HUGETLB;
            // SAFETY: with a null hint and without MAP_FIXED the kernel picks a range that nothing else uses.
            let base = unsafe { mmap_anonymous(null_mut(), len, protection, flags) }?;
            Self::own(base.cast(), len)?
        } else {
            let whole = len.checked_add(HUGE_PAGE).ok_or(Errno::NOMEM)?;
            // SAFETY: as above.
            let base = unsafe { mmap_anonymous(null_mut(), whole, protection, MapFlags::PRIVATE) }?;
            let mapping = Self::own(base.cast(), whole)?.aligned(len);
            // Where it is not taken, the pages are ordinary ones.
            let _ = mapping.advise(Advice::LinuxHugepage);
            mapping.advise(Advice::LinuxPopulateWrite)?;
            mapping
        };
        // A forked child must not make the kernel copy pages that a socket has pinned. Where the advice is
        // not taken, the pages are merely copied at fork, which is slow and harmless.
        let _ = mapping.advise(Advice::LinuxDontFork);
        Ok(mapping)
    }

    /// For a mapping of our own, and advice that doesn't change its contents.
    fn advise(&self, advice: Advice) -> Result<(), Errno> {
        debug_assert!(matches!(
            advice,
            Advice::LinuxHugepage | Advice::LinuxPopulateWrite | Advice::LinuxDontFork
        ));
        // SAFETY: the range is mapped for as long as `self` lives, and none of these changes its contents.
        unsafe { madvise(self.base.as_ptr().cast(), self.len, advice) }
    }

    /// The `len` bytes from the first bounds of a huge page on, in a mapping that is longer by one.
    fn aligned(mut self, len: usize) -> Self {
        let whole = (self.base, self.len);
        let skipped = self.base.as_ptr().align_offset(HUGE_PAGE);
        debug_assert!(skipped + len <= self.len);
        // SAFETY: `align_offset` of a byte pointer is less than the alignment, by which the mapping is longer than `len`.
        let base = unsafe { self.base.add(skipped) };
        self.whole = Some(whole);
        (self.base, self.len) = (base, len);
        self
    }

    /// Memory behind a file descriptor, at one of the offsets that its owner documents.
    pub(crate) fn of_fd(fd: BorrowedFd<'_>, len: usize, offset: u64) -> Result<Self, Errno> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: with a null hint and without MAP_FIXED the kernel picks a range that nothing else uses.
        let base = unsafe { mmap(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags, fd, offset) }?;
        Self::own(base.cast(), len)
    }

    fn own(base: *mut u8, len: usize) -> Result<Self, Errno> {
        NonNull::new(base).map(|base| Self { base, len, whole: None }).ok_or(Errno::NOMEM)
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
        let (base, len) = self.whole.unwrap_or((self.base, self.len));
        // SAFETY: the range is ours alone, and whoever holds pointers into it also holds this value (`Arc`)
        // or borrows from it.
        let unmapped = unsafe { munmap(base.as_ptr().cast(), len) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Bytes of a huge page on x86-64 and on arm64 with 4 KiB pages. Where pages are larger the mapping fails and
/// ordinary pages are taken.
pub(crate) const HUGE_PAGE: usize = 2 << 20;
