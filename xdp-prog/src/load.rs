//! Loading: settings into read-only data, the program through the verifier, services into their table; then what
//! the worker sets while it runs: sockets and gate words. Settings that can change while it runs are in `change.rs`.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::abi::{QUEUES_MAX, RINGS, SERVICES_MAX};
use crate::change::Told;
use crate::counters::{self, CounterReader, Counters, Tables};
use crate::lists::SourceLists;
use crate::locals::Locals;
use crate::samples::SampleRing;
use crate::services::{enter_services, object_place, write_services};
use crate::skeleton::{ClassifierSkel, ClassifierSkelBuilder, types};
use crate::test_run::TestRuns;
use crate::{Error, Settings};

/// The program in the kernel, with its maps. It stays on the thread that loaded it (libbpf's objects are not shared);
/// [`CounterReader`] and the descriptors go elsewhere.
pub struct Classifier {
    pub(crate) skeleton: ClassifierSkel<'static>,
    pub(crate) test_runs: TestRuns,
    pub(crate) locals: Locals,
    /// Until somebody takes them.
    lists: Option<SourceLists>,
    pub(crate) told: Told,
}

impl std::fmt::Debug for Classifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Classifier").field("program_fd", &self.program_fd()).finish_non_exhaustive()
    }
}

impl Classifier {
    /// Loads the program with these settings. It decides nothing before it is attached.
    ///
    /// The generated skeleton borrows a place for libbpf's object; that place (the size of a pointer) is never freed,
    /// so load once a process, not once a packet. Programs and maps are freed as usual.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`], [`Error::NotPermitted`], [`Error::NoMemory`], [`Error::Kernel`].
    pub fn load(settings: &Settings) -> Result<Self, Error> {
        settings.check()?;
        let mut open = ClassifierSkelBuilder::default()
            .open(object_place())
            .map_err(|error| Error::from_libbpf("opening the XDP program", &error))?;
        let buckets = settings.transaction_buckets.max(1);
        open.maps
            .transactions
            .set_max_entries(buckets)
            .map_err(|error| Error::from_libbpf("sizing the transaction table", &error))?;
        open.maps
            .served
            .set_max_entries(settings.served_lines())
            .map_err(|error| Error::from_libbpf("sizing the filter of served requests", &error))?;
        let lists = [
            &mut open.maps.denied_ipv4,
            &mut open.maps.denied_ipv6,
            &mut open.maps.allowed_ipv4,
            &mut open.maps.allowed_ipv6,
        ];
        for list in lists {
            list.set_max_entries(settings.list_room)
                .map_err(|error| Error::from_libbpf("sizing a list of sources", &error))?;
        }
        let rodata = open.maps.rodata_data.as_deref_mut().ok_or_else(|| missing("read-only data"))?;
        write_settings(rodata, settings);
        let skeleton = open.load().map_err(|error| Error::from_libbpf("loading the XDP program", &error))?;
        let maps = &skeleton.maps;
        let lists = SourceLists::new(
            [handle_of(&maps.denied_ipv4)?, handle_of(&maps.denied_ipv6)?],
            [handle_of(&maps.allowed_ipv4)?, handle_of(&maps.allowed_ipv6)?],
            handle_of(&maps.data_lists)?,
        );
        enter_services(&skeleton.maps.services, settings)?;
        let (test_runs, locals, told) = Default::default();
        let mut classifier = Self { skeleton, test_runs, locals, lists: Some(lists), told };
        classifier.change(settings)?;
        Ok(classifier)
    }

    /// The descriptor of the program.
    #[must_use]
    pub fn program_fd(&self) -> BorrowedFd<'_> {
        self.skeleton.progs.sipweir.as_fd()
    }

    /// The descriptor of the gate words: one entry of `SERVICES_MAX * QUEUES_MAX` words, mappable; the word of a service
    /// and queue is at `service * QUEUES_MAX + queue`.
    #[must_use]
    pub fn gates_fd(&self) -> BorrowedFd<'_> {
        self.skeleton.maps.data_gates.as_fd()
    }

    /// The descriptor of the transaction table: `transaction_buckets * SLOTS` words, mappable (a single bucket if the
    /// settings want no table).
    #[must_use]
    pub fn transactions_fd(&self) -> BorrowedFd<'_> {
        self.skeleton.maps.transactions.as_fd()
    }

    /// The descriptor of the filter of served requests: `Settings::served_lines` times `overload::GENERATIONS` words,
    /// mappable.
    #[must_use]
    pub fn served_fd(&self) -> BorrowedFd<'_> {
        self.skeleton.maps.served.as_fd()
    }

    /// The descriptor of the counts of what is watched: `SERVICES_MAX * QUEUES_MAX * ARRIVAL_WORDS` words, mappable; those
    /// of a service and queue begin at `(service * QUEUES_MAX + queue) * ARRIVAL_WORDS`.
    #[must_use]
    pub fn arrivals_fd(&self) -> BorrowedFd<'_> {
        self.skeleton.maps.arrivals.as_fd()
    }

    /// The descriptor of the words that say which dropped packets are copied: [`crate::SAMPLING_WORDS`] words, mappable.
    #[must_use]
    pub fn sampling_fd(&self) -> BorrowedFd<'_> {
        self.skeleton.maps.data_sampling.as_fd()
    }

    /// The ring that copies of dropped packets come by.
    ///
    /// # Errors
    ///
    /// No free descriptor.
    pub fn samples(&self) -> Result<SampleRing, Error> {
        handle_of(&self.skeleton.maps.samples).map(SampleRing::new)
    }

    /// Transactions that the program forgot before their time to make room for newer ones. Workers count their own.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        // Read once, as the kernel writes it meanwhile.
        self.skeleton.maps.data_evicted_data.as_deref().map_or(0, |data| {
            let evicted: &u64 = &data.evicted;
            std::hint::black_box(*evicted)
        })
    }

    /// Writes one gate word. A worker maps the words instead and writes its own with one store; this is for tests and
    /// for setting up.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfTable`].
    pub fn publish_gate(&mut self, service: usize, queue: usize, word: u64) -> Result<(), Error> {
        within("service", service, SERVICES_MAX)?;
        within("queue", queue, QUEUES_MAX)?;
        let data = self.skeleton.maps.data_gates_data.as_deref_mut().ok_or_else(|| missing("gate words"))?;
        data.gates[service * QUEUES_MAX + queue] = word;
        Ok(())
    }

    /// Puts a bound AF_XDP socket into the slot of a queue's ring. From then on packets with that verdict go to it;
    /// when it is closed, the slot empties itself and they go to the kernel again.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfTable`], or what the kernel says about the socket.
    pub fn set_socket(&self, queue: usize, ring: usize, socket: BorrowedFd<'_>) -> Result<(), Error> {
        within("queue", queue, QUEUES_MAX)?;
        within("ring", ring, RINGS)?;
        let slot = u32::try_from(queue * RINGS + ring).unwrap_or(u32::MAX);
        let value = socket.as_raw_fd().to_ne_bytes();
        let entered = self.skeleton.maps.sockets.update(&slot.to_ne_bytes(), &value, MapFlags::ANY);
        entered.map_err(|error| {
            Error::from_libbpf(format!("queue {queue}, ring {ring}: entering its socket"), &error)
        })
    }

    /// A snapshot of the counters.
    ///
    /// # Errors
    ///
    /// The kernel's refusal; there is no reason for one.
    pub fn counters(&self) -> Result<Counters, Error> {
        counters::read(&self.skeleton.maps.counters)
    }

    pub(crate) fn counter_tables(&self) -> Result<Tables, Error> {
        counters::read_tables(&self.skeleton.maps.counters)
    }

    /// The lists of sources, for whoever keeps them: there is one keeper, so they are given once.
    pub const fn take_source_lists(&mut self) -> Option<SourceLists> {
        self.lists.take()
    }

    /// A reader of the counters for another thread.
    ///
    /// # Errors
    ///
    /// No free descriptor.
    pub fn counter_reader(&self) -> Result<CounterReader, Error> {
        reader_of(&self.skeleton.maps.counters)
    }

    /// The same of what would have been done with packets that are only watched.
    ///
    /// # Errors
    ///
    /// No free descriptor.
    pub fn monitored_reader(&self) -> Result<CounterReader, Error> {
        reader_of(&self.skeleton.maps.monitored)
    }
}

fn reader_of(map: &libbpf_rs::MapMut<'_>) -> Result<CounterReader, Error> {
    Ok(CounterReader::new(handle_of(map)?))
}

fn handle_of(map: &libbpf_rs::MapMut<'_>) -> Result<MapHandle, Error> {
    MapHandle::try_from(map).map_err(|error| Error::from_libbpf("duplicating a map's descriptor", &error))
}

fn write_settings(rodata: &mut types::rodata, settings: &Settings) {
    rodata.hash_key = *settings.hash_key.0;
    write_services!(rodata, settings);
    rodata.max_frame_len = settings.max_frame_len;
    (rodata.link_addresses, rodata.link_addresses_count) = settings.link_address_words();
    rodata.vlans_checked = settings.vlans.is_some().into();
    rodata.vlans_taken = settings.vlan_bitmap();
    rodata.single_ring = settings.single_ring.into();
    rodata.has_transactions = (settings.transaction_buckets > 0).into();
    rodata.bucket_mask = settings.transaction_buckets.saturating_sub(1);
    rodata.served_mask = settings.served_lines() - 1;
}

fn within(what: &'static str, index: usize, limit: usize) -> Result<(), Error> {
    if index < limit { Ok(()) } else { Err(Error::OutOfTable { what, index, limit }) }
}

/// libbpf maps these when it loads; without memory mapping of BPF arrays (before Linux 5.5) it cannot.
pub(crate) fn missing(what: &str) -> Error {
    Error::Kernel {
        action: format!("mapping the program's {what}"),
        source: std::io::Error::from(std::io::ErrorKind::Unsupported),
    }
}
