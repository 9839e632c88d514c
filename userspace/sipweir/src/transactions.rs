//! The transaction table as an instance has it: memory shared with the XDP program, used by every worker, swept by the
//! main thread.
//!
//! What a slot means and why no state kills a call: `overload::TransactionTable`. What a copy gets is decided where it
//! is seen: in the XDP program (`classifier.bpf.c`), or for what that could not decide in `worker/receive.rs`. Here are
//! only the handles, and the counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use afxdp::MappedWords;
use overload::{
    COPIES_OF_INVITE, COPIES_OF_OTHERS, Entered, Known, Lookup, Place, ServedFilter, TransactionState,
    TransactionTable, Vacancy,
};
use sip::Method;

use crate::counters::WorkerCounters;

/// Every bucket is swept in this time, which must be below 200 s (times in slots wrap).
const SWEEP_NS: u64 = 64_000_000_000;

/// A message's request in the table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Entry {
    /// The transaction hash; 0 for what the table does not remember.
    pub hash: u64,
    at: At,
}

/// What is known of where it stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum At {
    /// Nothing.
    #[default]
    Unknown,
    /// It was looked up and not found; here is room for it.
    Vacant(Vacancy),
    /// It was entered here.
    Entered(Place),
}

impl Entry {
    /// A request that was not looked up.
    #[must_use]
    pub const fn of(hash: u64) -> Self {
        Self { hash, at: At::Unknown }
    }
}

/// The memory that is shared with the XDP program.
#[derive(Debug, Clone)]
pub struct Memory {
    /// The transaction table's.
    pub table: Arc<MappedWords>,
    /// That of the filter of served requests.
    pub served: Arc<MappedWords>,
}

impl Memory {
    fn table(&self) -> Option<TransactionTable<'_>> {
        TransactionTable::new(self.table.words())
    }

    fn served(&self) -> Option<ServedFilter<'_>> {
        ServedFilter::new(self.served.words())
    }
}

/// A worker's handle; without a table every request is unknown and nothing is entered.
#[derive(Debug, Clone, Default)]
pub struct Transactions {
    memory: Option<Memory>,
}

impl Transactions {
    /// The table in this memory.
    #[must_use]
    pub const fn new(memory: Option<Memory>) -> Self {
        Self { memory }
    }

    fn table(&self) -> Option<TransactionTable<'_>> {
        self.memory.as_ref()?.table()
    }

    /// True if there is a table.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.memory.is_some()
    }

    /// Has the CPU fetch what [`Self::recall`] or [`Self::settle`] will read.
    pub fn prefetch(&self, entry: Entry) {
        let Some(table) = self.table().filter(|_| entry.hash != 0) else { return };
        match entry.at {
            At::Entered(place) => afxdp::prefetch(std::slice::from_ref(table.memory_of(place))),
            At::Unknown | At::Vacant(_) => {
                table.buckets_of(entry.hash).into_iter().for_each(afxdp::prefetch);
            }
        }
    }

    /// What is known of a request that arrives. If nothing is, the entry says from now on where there is room for it.
    pub fn recall(&self, entry: &mut Entry, now_ns: u64) -> Option<Known> {
        match self.table()?.look_up(entry.hash, now_ns) {
            Lookup::Known(known) => Some(known),
            Lookup::Unknown(vacancy) => {
                entry.at = At::Vacant(vacancy);
                None
            }
        }
    }

    /// Notes what became of a request, and where in the table that stands.
    pub fn settle(&self, entry: &mut Entry, state: TransactionState, now_ns: u64, counters: &WorkerCounters) {
        let Some(table) = self.table().filter(|_| entry.hash != 0) else { return };
        let entered = match entry.at {
            At::Unknown => table.settle(entry.hash, state, now_ns),
            At::Vacant(vacancy) => {
                let (entered, place) = table.enter(vacancy, entry.hash, state, now_ns);
                entry.at = At::Entered(place);
                entered
            }
            At::Entered(place) => table.settle_at(place, entry.hash, state, now_ns),
        };
        match entered {
            Entered::Evicted => counters.transactions_evicted.add(1),
            Entered::Lost => counters.transactions_lost.add(1),
            Entered::New | Entered::Updated => {}
        }
    }

    /// Notes the beginning of a request that the server has got, for the XDP program's filter.
    pub fn note_served(&self, beginning: Option<u64>, now_ns: u64) {
        if let (Some(hash), Some(memory)) = (beginning, &self.memory)
            && let Some(filter) = memory.served()
        {
            filter.insert(hash, now_ns);
        }
    }

    /// Forgets a request that was lost before the server got it.
    pub fn forget(&self, entry: Entry, now_ns: u64) {
        if entry.hash != 0
            && let Some(table) = self.table()
        {
            table.forget(entry.hash, now_ns);
        }
    }
}

/// More copies than clients of RFC 3261 send for this method.
#[must_use]
pub const fn in_excess(known: Known, method: Method) -> bool {
    known.copies > if matches!(method, Method::Invite) { COPIES_OF_INVITE } else { COPIES_OF_OTHERS }
}

/// How full the table is; read by the control thread.
#[derive(Debug, Default)]
pub struct Occupancy {
    /// Transactions remembered at the last full sweep.
    pub live: AtomicU64,
    /// Transactions that the XDP program forgot before their time.
    pub evicted_in_kernel: AtomicU64,
}

/// Clears what is too old in table and filter, of the table a part at a time, and counts the rest.
#[derive(Debug)]
pub struct Sweeper {
    memory: Memory,
    /// Of the filter: that in which the next one was cleared.
    generation: Option<u64>,
    next: usize,
    counted: usize,
    last_ns: u64,
    occupancy: Arc<Occupancy>,
}

impl Sweeper {
    /// A sweeper that begins at `now_ns`.
    #[must_use]
    pub const fn new(memory: Memory, occupancy: Arc<Occupancy>, now_ns: u64) -> Self {
        Self { memory, generation: None, next: 0, counted: 0, last_ns: now_ns, occupancy }
    }

    /// Sweeps as many buckets as are due since the last call. To be called every few seconds at least, for the filter.
    pub fn sweep(&mut self, now_ns: u64) {
        let generation = Some(ServedFilter::generation_at(now_ns));
        if self.generation != generation
            && let Some(filter) = self.memory.served()
        {
            filter.clear_next(now_ns);
            self.generation = generation;
        }
        let Some(table) = self.memory.table() else { return };
        let buckets = table.buckets();
        let elapsed_ns = now_ns.saturating_sub(self.last_ns).min(SWEEP_NS);
        // At most all of them: the product is below 2^22 * 2^36.
        let due = (buckets as u64 * elapsed_ns).div_ceil(SWEEP_NS) as usize;
        self.last_ns = now_ns;
        let end = (self.next + due).min(buckets);
        self.counted += table.sweep(self.next..end, now_ns);
        self.next = end;
        if self.next == buckets {
            self.occupancy.live.store(self.counted as u64, Ordering::Relaxed);
            (self.next, self.counted) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use overload::{GENERATIONS, SLOTS};
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn words(count: usize) -> Arc<MappedWords> {
        let fd = memfd_create("transactions", MemfdFlags::CLOEXEC).expect("memfd");
        ftruncate(&fd, 8 * count as u64).expect("size");
        Arc::new(MappedWords::map(fd.as_fd(), count).expect("map"))
    }

    fn memory(buckets: usize) -> Memory {
        Memory { table: words(SLOTS * buckets), served: words(GENERATIONS * 128) }
    }

    #[test]
    fn a_full_sweep_counts_and_forgets_in_time_whatever_the_intervals() {
        for interval_ns in [SECOND_NS / 4, 7 * SECOND_NS, 300 * SECOND_NS] {
            let memory = memory(64);
            let transactions = Transactions::new(Some(memory.clone()));
            let counters = WorkerCounters::default();
            let occupancy = Arc::new(Occupancy::default());
            let mut sweeper = Sweeper::new(memory, Arc::clone(&occupancy), 0);
            let mut seen = 0;
            let mut now_ns = 0;
            while now_ns < 1000 * SECOND_NS {
                now_ns += interval_ns;
                for n in 1..=50_u64 {
                    let hash = n << 32 | n;
                    transactions.settle(&mut Entry::of(hash), TransactionState::Shed, now_ns, &counters);
                }
                sweeper.sweep(now_ns);
                seen = seen.max(occupancy.live.load(Ordering::Relaxed));
            }
            assert_eq!(seen, 50, "{interval_ns}");
            for _ in 0..2 {
                now_ns += SWEEP_NS;
                sweeper.sweep(now_ns);
            }
            assert_eq!(occupancy.live.load(Ordering::Relaxed), 0, "{interval_ns}");
        }
    }

    #[test]
    fn without_a_table_every_request_is_unknown() {
        let transactions = Transactions::default();
        let counters = WorkerCounters::default();
        transactions.settle(&mut Entry::of(1), TransactionState::HandedOver, 0, &counters);
        transactions.forget(Entry::of(1), 0);
        assert!(!transactions.is_on() && transactions.recall(&mut Entry::of(1), 0).is_none());
    }
}
