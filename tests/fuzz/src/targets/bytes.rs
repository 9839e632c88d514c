//! Decisions out of a fuzzer's bytes, front to back; zeros when there are none left.

/// The bytes that have not been used yet.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        let (byte, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *byte
    }

    /// A number below `limit`, which is at most 256.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    /// The next bytes, up to so many.
    pub(super) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
