//! The waiting line: strict priority between lanes, first come first served within one, and no call out of order.
//!
//! ```text
//!   push_control ──► control ──┐
//!              │               ├──► pop
//!              ▼               │       a control message of a call whose older originals still wait
//!   push_new ───────► new ─────┤       queues up behind them
//!                              │
//!   push_copy ──────► copy ────┘
//! ```
//!
//! A CANCEL or ACK must not overtake the INVITE that still waits: the server would answer 481 and ring afterwards. So
//! it gives up its priority and follows the INVITE. The other way, to move the INVITE forward, is as orderly but a way
//! round the gate: one forged response would then move every waiting original of a Call-ID to the front. What an original
//! has kept waiting for too long goes to the control line when that original is gone.
//!
//! Copies do not wait for their call: their original, which counts, always leaves before them, and once a younger message
//! of the call is here the client has moved on. A copy that still waits then is outdated and leaves by
//! [`CallQueue::pop_outdated`], not to the server.
//!
//! A control message of a source above its cap is *surplus*: it waits in the copy lane ([`CallQueue::push_surplus`]). It is
//! no copy, so a younger message of its call takes it along into the line that it joins.
//!
//! Everything is allocated by [`CallQueue::new`]. Each operation touches a bounded number of places: a slab slot,
//! list neighbours, and at most [`calls::GROUPS_PER_BUCKET`] calls of one index bucket, whatever the keys are.

mod calls;
mod copies;
mod slab;

use self::calls::CallIndex;
pub use self::copies::SURPLUS_PER_CALL_MAX;
use self::slab::{Entry, Line, Slab};
use crate::Nanos;
use crate::gate::Discipline;

/// What a message is to the waiting line, in order of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Lane {
    /// Whatever is never shed: responses, ACK, CANCEL, in-dialog, emergency.
    Control = 0,
    /// Originals.
    New = 1,
    /// Retransmissions.
    Copy = 2,
}

impl Lane {
    /// All lanes in order of service.
    pub const ALL: [Self; 3] = [Self::Control, Self::New, Self::Copy];

    /// The name in metrics and documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::New => "new",
            Self::Copy => "copy",
        }
    }
}

/// How many messages of each lane may wait. Each lane has its own room, so that copies cannot crowd out originals;
/// a queue without classes has one room of the total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueCapacity {
    /// Control messages.
    pub control: u32,
    /// Originals.
    pub new: u32,
    /// Copies.
    pub copy: u32,
}

impl QueueCapacity {
    /// The most messages that are held at once, which is what the frame budget must provide for.
    #[must_use]
    pub const fn total(self) -> usize {
        self.control as usize + self.new as usize + self.copy as usize
    }

    const fn of(self, lane: Lane) -> usize {
        match lane {
            Lane::Control => self.control as usize,
            Lane::New => self.new as usize,
            Lane::Copy => self.copy as usize,
        }
    }
}

/// A message on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served<T> {
    /// What was pushed.
    pub item: T,
    /// The lane it was pushed into.
    pub lane: Lane,
    /// The call that it was pushed under.
    pub call_key: u64,
    /// Time since its arrival; 0 when the clock says it arrives in the future.
    pub waited_ns: Nanos,
}

/// The waiting line of one service at one worker.
///
/// INVARIANT: a message is in the index of calls exactly while it waits in the new line of a priority queue under a key
/// other than 0, and in the index of copies while it waits in the copy line; and messages pushed = popped + expired + outdated + held.
#[derive(Debug)]
pub struct CallQueue<T> {
    discipline: Discipline,
    capacity: QueueCapacity,
    slab: Slab<T>,
    /// One line a lane; a queue without classes uses the first only.
    lines: [Line; 3],
    /// Messages held, by the lane they were pushed into.
    held: [usize; 3],
    calls: CallIndex,
    copies: CallIndex,
    /// Copies that are not to be served any more.
    outdated: Line,
}

impl<T> CallQueue<T> {
    /// Bytes that a place takes, in the line and in both indexes.
    pub const BYTES_PER_PLACE: usize = Slab::<T>::BYTES_PER_SLOT + 2 * CallIndex::BYTES_PER_SLOT;

    /// An empty queue with all the memory it will ever use.
    #[must_use]
    pub fn new(discipline: Discipline, capacity: QueueCapacity) -> Self {
        Self {
            discipline,
            capacity,
            slab: Slab::new(capacity.total()),
            lines: [Line::EMPTY; 3],
            held: [0; 3],
            calls: CallIndex::new(capacity.total(), capacity.total()),
            copies: CallIndex::new(capacity.total(), capacity.copy as usize),
            outdated: Line::EMPTY,
        }
    }

    /// Appends a message that arrived at `arrival_ns`. `call_key` says to which call it belongs, 0 that this is not
    /// known, in which case it neither waits for anything, nor is waited for, nor outdates a copy.
    ///
    /// # Errors
    /// The message itself, when its lane has no room. Nothing has changed then.
    pub fn push(&mut self, lane: Lane, call_key: u64, arrival_ns: Nanos, item: T) -> Result<(), T> {
        if self.room(lane) == 0 {
            return Err(item);
        }
        // Room in a lane is room in the slab, which is as large as all lanes together.
        let slot = self.slab.insert(Entry { item, lane, surplus: false, call_key, arrival_ns })?;
        self.held[lane as usize] += 1;
        match (self.discipline, lane) {
            (Discipline::Fifo, _) => self.slab.append(&mut self.lines[0], slot),
            (Discipline::Priority, Lane::Control) if !self.is_waited_for(call_key, arrival_ns) => {
                self.settle_copies(call_key, arrival_ns, Some(lane));
                self.slab.append(&mut self.lines[Lane::Control as usize], slot);
            }
            (Discipline::Priority, Lane::Control | Lane::New) => {
                let lane = Lane::New;
                self.settle_copies(call_key, arrival_ns, Some(lane));
                self.append_indexed(Lane::New, slot, call_key);
            }
            (Discipline::Priority, Lane::Copy) => self.append_indexed(Lane::Copy, slot, call_key),
        }
        Ok(())
    }

    fn append_indexed(&mut self, line: Lane, slot: u32, call_key: u64) {
        if call_key != 0 {
            let index = if line == Lane::New { &mut self.calls } else { &mut self.copies };
            index.append(slot, call_key);
        }
        self.slab.append(&mut self.lines[line as usize], slot);
    }

    /// [`CallQueue::push`] into the control lane.
    ///
    /// # Errors
    /// The message itself, when the lane has no room.
    pub fn push_control(&mut self, call_key: u64, arrival_ns: Nanos, item: T) -> Result<(), T> {
        self.push(Lane::Control, call_key, arrival_ns, item)
    }

    /// [`CallQueue::push`] into the new lane.
    ///
    /// # Errors
    /// The message itself, when the lane has no room.
    pub fn push_new(&mut self, call_key: u64, arrival_ns: Nanos, item: T) -> Result<(), T> {
        self.push(Lane::New, call_key, arrival_ns, item)
    }

    /// [`CallQueue::push`] into the copy lane.
    ///
    /// # Errors
    /// The message itself, when the lane has no room.
    pub fn push_copy(&mut self, call_key: u64, arrival_ns: Nanos, item: T) -> Result<(), T> {
        self.push(Lane::Copy, call_key, arrival_ns, item)
    }

    /// Whether a message of this call that is no younger waits in the new line.
    fn is_waited_for(&self, call_key: u64, arrival_ns: Nanos) -> bool {
        let oldest = (call_key != 0).then(|| self.calls.first(call_key)).flatten();
        oldest.and_then(|slot| self.slab.entry(slot)).is_some_and(|entry| entry.arrival_ns <= arrival_ns)
    }

    /// The message to serve next.
    pub fn pop(&mut self, now: Nanos) -> Option<Served<T>> {
        Lane::ALL.into_iter().find_map(|line| self.pop_line(line, now))
    }

    /// The memory that [`CallQueue::push`] will read for a call, for who wants to have it in the cache by then.
    pub fn memory_of(&self, call_key: u64) -> &[impl Sized + use<T>] {
        self.calls.memory_of(call_key)
    }

    /// The same that [`CallQueue::pop`] will read for the originals that are next.
    pub fn memory_of_next(&self) -> impl Iterator<Item = &[impl Sized + use<T>]> {
        let first = self.lines[Lane::New as usize].first();
        std::iter::successors(first, |&slot| self.slab.after(slot))
            .filter_map(|slot| self.slab.entry(slot))
            .map(|entry| self.calls.memory_of(entry.call_key))
    }

    /// What [`CallQueue::pop`] would give, and the lane it was pushed into.
    #[must_use]
    pub fn peek(&self) -> Option<(Lane, &T)> {
        let slot = self.lines.iter().find_map(Line::first)?;
        let entry = self.slab.entry(slot)?;
        Some((entry.lane, &entry.item))
    }

    /// Takes out the longest waiting original if it has waited for more than `max_wait_ns`; call until `None`. Control
    /// messages that have waited as long behind originals of their call wait in the control line from now on. Nothing
    /// expires in a queue without classes: it stands for a plain socket buffer.
    pub fn expire(&mut self, now: Nanos, max_wait_ns: Nanos) -> Option<Served<T>> {
        loop {
            let slot = self.lines[Lane::New as usize].first()?;
            let oldest = self.slab.entry(slot)?;
            if now.saturating_sub(oldest.arrival_ns) <= max_wait_ns {
                return None;
            }
            if oldest.lane != Lane::Control {
                return self.pop_line(Lane::New, now);
            }
            // Only messages of known calls come here as control messages.
            let call_key = oldest.call_key;
            self.calls.remove_oldest(slot, call_key);
            self.slab.unlink(&mut self.lines[Lane::New as usize], slot);
            self.slab.append(&mut self.lines[Lane::Control as usize], slot);
        }
    }

    /// The same for the copy lane.
    pub fn expire_copy(&mut self, now: Nanos, max_wait_ns: Nanos) -> Option<Served<T>> {
        self.expire_line(Lane::Copy, now, max_wait_ns)
    }

    /// The same for the control line: after this long the peer has sent whatever it was again, or given up. Not in a queue
    /// without classes, whose only line this is.
    pub fn expire_control(&mut self, now: Nanos, max_age_ns: Nanos) -> Option<Served<T>> {
        match self.discipline {
            Discipline::Priority => self.expire_line(Lane::Control, now, max_age_ns),
            Discipline::Fifo => None,
        }
    }

    fn expire_line(&mut self, line: Lane, now: Nanos, max_wait_ns: Nanos) -> Option<Served<T>> {
        let oldest = self.slab.entry(self.lines[line as usize].first()?)?;
        if now.saturating_sub(oldest.arrival_ns) > max_wait_ns { self.pop_line(line, now) } else { None }
    }

    fn pop_line(&mut self, line: Lane, now: Nanos) -> Option<Served<T>> {
        let slot = self.lines[line as usize].first()?;
        self.slab.unlink(&mut self.lines[line as usize], slot);
        let entry = self.slab.remove(slot)?;
        self.held[entry.lane as usize] -= 1;
        if self.discipline == Discipline::Priority {
            match line {
                Lane::New if entry.call_key != 0 => self.calls.remove_oldest(slot, entry.call_key),
                Lane::Copy if entry.call_key != 0 => self.copies.remove_oldest(slot, entry.call_key),
                Lane::Control | Lane::New | Lane::Copy => {}
            }
        }
        let waited_ns = now.saturating_sub(entry.arrival_ns);
        Some(Served { item: entry.item, lane: entry.lane, call_key: entry.call_key, waited_ns })
    }

    /// Messages held, outdated copies among them until they are taken out.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.iter().sum()
    }

    /// True when nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Messages held that were pushed into this lane, wherever they wait now. For [`Lane::New`] this is the number of
    /// waiting originals that the gate counts.
    #[must_use]
    pub const fn len_of(&self, lane: Lane) -> usize {
        self.held[lane as usize]
    }

    /// How many more messages this lane takes.
    #[must_use]
    pub fn room(&self, lane: Lane) -> usize {
        match self.discipline {
            Discipline::Fifo => self.capacity.total() - self.len(),
            Discipline::Priority => self.capacity.of(lane) - self.held[lane as usize],
        }
    }

    /// The room that was asked for.
    #[must_use]
    pub const fn capacity(&self) -> QueueCapacity {
        self.capacity
    }

    /// The order of service.
    #[must_use]
    pub const fn discipline(&self) -> Discipline {
        self.discipline
    }
}

#[cfg(test)]
mod tests;
