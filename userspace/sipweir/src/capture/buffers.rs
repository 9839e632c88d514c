//! Buffers that circulate between a worker and a thread: full ones there, spare ones back. Nobody waits, and nothing is allocated
//! after they are made.

use crossbeam_queue::ArrayQueue;

/// A fixed number of buffers. INVARIANT: each is in one of the two rings or in one hand, so there is a place for each.
#[derive(Debug)]
pub(super) struct Buffers<T> {
    full: ArrayQueue<Box<T>>,
    spare: ArrayQueue<Box<T>>,
}

impl<T> Buffers<T> {
    /// All of them spare.
    pub(super) fn new(places: usize, make: impl Fn() -> T) -> Self {
        let buffers = Self { full: ArrayQueue::new(places), spare: ArrayQueue::new(places) };
        while buffers.spare.push(Box::new(make())).is_ok() {}
        buffers
    }

    /// A spare one, if there is any.
    pub(super) fn take(&self) -> Option<Box<T>> {
        self.spare.pop()
    }

    /// One that holds something, for the thread.
    pub(super) fn put(&self, buffer: Box<T>) {
        let _placed = self.full.push(buffer);
    }

    /// The oldest that holds something.
    pub(super) fn next(&self) -> Option<Box<T>> {
        self.full.pop()
    }

    /// One that is not needed any more.
    pub(super) fn give_back(&self, buffer: Box<T>) {
        let _placed = self.spare.push(buffer);
    }

    /// How many there are in all.
    pub(super) fn places(&self) -> usize {
        self.full.capacity()
    }

    /// How many hold something.
    pub(super) fn waiting(&self) -> usize {
        self.full.len()
    }
}
