//! Ports without a kernel: the same rings over anonymous memory, and a [`Wire`] that plays the kernel's part.
//!
//! Everything above this crate can thus be tested with real rings and real frames, without a device,
//! privileges, or anything that depends on timing. The wire does what `net/xdp/xsk.c` does in copy mode: it
//! takes a frame from the fill ring, or counts the packet as dropped; if the RX ring is full, it keeps the
//! frame for the next packet.
//!
//! All indices start shortly before 2^32, so every longer test crosses the wrap-around.
//!
//! ```
//! use afxdp::{Batch, PortConfig, testing};
//!
//! let (mut port, mut wire) = testing::pair(&PortConfig::default());
//! wire.deliver(1, b"a packet", &[7; 32]).unwrap();
//! let mut batch = Batch::new();
//! assert_eq!(port.receive(1, &mut batch), 1);
//! assert_eq!(port.umem().packet(&batch[0]), b"a packet");
//! assert_eq!(port.umem().metadata(&batch[0]), &[7; 32]);
//! port.give_back_all(&mut batch);
//! assert_eq!(port.umem().outstanding(), 0);
//! ```

use std::array;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::config::{CopyMode, EgressConfig, PortConfig};
use crate::egress::EgressPort;
use crate::link::{Link, Pairing, RingCounters};
use crate::mapping::Mapping;
use crate::port::{Mode, QueuePort, RxRing};
use crate::ring::{Consumer, Descriptor, Entry, Producer, RingLayout};
use crate::tx::TxLane;
use crate::umem::{Place, Umem};
use crate::{METADATA_LEN, RINGS, XDP_HEADROOM};

#[cfg(test)]
mod tests;

/// First index of every paired ring: near enough to 2^32 that a test of a few hundred packets wraps around.
const FIRST_INDEX: u32 = u32::MAX - 100;

/// Producer, consumer and flags on a cache line each, as in the kernel's rings.
const LAYOUT: RingLayout = RingLayout { producer: 0, consumer: 64, flags: Some(128), entries: 192 };

/// Why the wire couldn't deliver a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Dropped {
    /// No frame in the fill ring: packets of every ring are lost now.
    FillEmpty,
    /// No place in this RX ring.
    RingFull,
    /// Longer than a frame can hold.
    TooLong,
}

/// The kernel's end of a paired [`QueuePort`]. Can be used from another thread.
#[derive(Debug)]
pub struct Wire {
    fill: Consumer<u64>,
    /// Frames that the wire has taken and not used: the kernel keeps such a list too.
    spare: Vec<u64>,
    rx: [Producer<Descriptor>; RINGS],
    tx: TxWire,
    /// Where a packet starts in its frame.
    offset: usize,
    packet_len_max: usize,
}

/// The kernel's end of a paired [`EgressPort`]. Can be used from another thread.
#[derive(Debug)]
pub struct EgressWire {
    tx: TxWire,
}

/// The kernel's end of a TX ring and its completion ring.
#[derive(Debug)]
struct TxWire {
    tx: Consumer<Descriptor>,
    completion: Producer<u64>,
    memory: Arc<Mapping>,
    pairing: Arc<Pairing>,
}

/// A queue port and its wire.
///
/// # Panics
///
/// If the configuration can't work, or the machine lacks the memory: this is for tests.
#[must_use]
pub fn pair(config: &PortConfig) -> (QueuePort, Wire) {
    config.check().expect("a port configuration that works");
    let umem = Umem::new(&config.umem).expect("memory for a test");
    let pairing = pairing();
    let (fill, wire_fill) = ring(config.fill_ring_size);
    let (tx, tx_wire) = tx_pair(config.tx_ring_size, &umem, &pairing);
    let [r0, r1, r2, r3] = config.rx_ring_sizes.map(ring::<Descriptor>);
    let rx = |ring, number| RxRing { ring, link: Link::Paired(Arc::clone(&pairing), number) };
    let mode =
        Mode { copy_mode: CopyMode::Copy, need_wakeup: config.need_wakeup, huge_pages: umem.huge_pages() };
    let wire = Wire {
        fill: wire_fill,
        spare: Vec::new(),
        rx: [r0.0, r1.0, r2.0, r3.0],
        tx: tx_wire,
        offset: (XDP_HEADROOM + config.umem.headroom) as usize,
        packet_len_max: config.umem.packet_len_max() as usize,
    };
    let port = QueuePort::assemble(
        [rx(r0.1, 0), rx(r1.1, 1), rx(r2.1, 2), rx(r3.1, 3)],
        TxLane::new(tx.0, tx.1, Place::TX_NIC, CopyMode::Copy, config.need_wakeup),
        fill,
        umem,
        mode,
        config.busy_poll.map(|_| true),
    );
    (port, wire)
}

/// An egress port on the frames of a paired port, and its wire.
///
/// # Panics
///
/// As [`pair`], and if `port` has 64 egress ports already.
#[must_use]
pub fn egress_pair(port: &mut QueuePort, config: &EgressConfig) -> (EgressPort, EgressWire) {
    config.check().expect("an egress configuration that works");
    let pairing = pairing();
    let (tx, wire) = tx_pair(config.tx_ring_size, port.umem(), &pairing);
    let need_wakeup = port.mode().need_wakeup;
    let egress = EgressPort::assemble(port, Link::Paired(pairing, 0), |place| {
        TxLane::new(tx.0, tx.1, place, CopyMode::Copy, need_wakeup)
    });
    (egress.expect("at most 64 egress ports"), EgressWire { tx: wire })
}

fn pairing() -> Arc<Pairing> {
    Arc::new(Pairing {
        event: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("an eventfd"),
        rings: array::from_fn(|_| RingCounters::default()),
        fill_empty: 0.into(),
        closed: false.into(),
    })
}

/// Our end of a TX ring and its completion ring, and the kernel's.
fn tx_pair(
    size: u32,
    umem: &Umem,
    pairing: &Arc<Pairing>,
) -> ((Producer<Descriptor>, Consumer<u64>), TxWire) {
    let (tx, wire_tx) = ring(size);
    let (wire_completion, completion) = ring(size);
    let wire = TxWire {
        tx: wire_tx,
        completion: wire_completion,
        memory: Arc::clone(umem.memory()),
        pairing: Arc::clone(pairing),
    };
    ((tx, completion), wire)
}

fn ring<T: Entry>(size: u32) -> (Producer<T>, Consumer<T>) {
    ring_from(size, FIRST_INDEX)
}

/// Both ends of a ring whose indices start at `first`.
pub(crate) fn ring_from<T: Entry>(size: u32, first: u32) -> (Producer<T>, Consumer<T>) {
    let mapping = Arc::new(Mapping::anonymous(LAYOUT.len::<T>(size), false).expect("memory for a ring"));
    for offset in [LAYOUT.producer, LAYOUT.consumer] {
        let index = mapping.at::<u32>(offset, 1).expect("the layout fits");
        // SAFETY: an aligned word of a mapping that nobody else has yet.
        unsafe { index.write(first) };
    }
    // SAFETY: the only producing end of a ring made here; the consuming end is the `Consumer` below.
    let producer = unsafe { Producer::new(Arc::clone(&mapping), LAYOUT, size) };
    // SAFETY: the only consuming end; the producing end is the `Producer` above.
    let consumer = unsafe { Consumer::new(mapping, LAYOUT, size) };
    (producer.expect("the layout fits"), consumer.expect("the layout fits"))
}

impl Wire {
    /// Delivers a packet to an RX ring, with the metadata that the XDP program would have written.
    ///
    /// # Errors
    ///
    /// If the packet is dropped, which the statistics of the port's ring then count.
    ///
    /// # Panics
    ///
    /// If `ring` is not below [`RINGS`].
    pub fn deliver(
        &mut self,
        ring: usize,
        packet: &[u8],
        metadata: &[u8; METADATA_LEN],
    ) -> Result<(), Dropped> {
        let counters = &self.tx.pairing.rings[ring];
        if packet.len() > self.packet_len_max {
            counters.dropped.fetch_add(1, Ordering::Relaxed);
            return Err(Dropped::TooLong);
        }
        let Some(frame) = self.spare.pop().or_else(|| self.fill.pop()) else {
            self.tx.pairing.fill_empty.fetch_add(1, Ordering::Relaxed);
            counters.dropped.fetch_add(1, Ordering::Relaxed);
            return Err(Dropped::FillEmpty);
        };
        self.fill.release();
        if self.rx[ring].room(1) == 0 {
            self.spare.push(frame);
            counters.ring_full.fetch_add(1, Ordering::Relaxed);
            return Err(Dropped::RingFull);
        }
        let start = frame as usize + self.offset;
        write(&self.tx.memory, start - METADATA_LEN, metadata);
        write(&self.tx.memory, start, packet);
        let descriptor = Descriptor { address: start as u64, len: packet.len() as u32, options: 0 };
        let pushed = self.rx[ring].push(descriptor);
        assert!(pushed, "there was room");
        self.rx[ring].publish();
        rustix::io::write(&self.tx.pairing.event, &1_u64.to_ne_bytes())
            .expect("an eventfd takes 2^64 - 2 events");
        Ok(())
    }

    /// Sends all packets that the port has kicked and completes them; returns their bytes.
    pub fn sent(&mut self) -> Vec<Vec<u8>> {
        self.tx.sent(usize::MAX)
    }

    /// As [`Wire::sent`] for at most so many packets.
    pub fn sent_max(&mut self, count: usize) -> Vec<Vec<u8>> {
        self.tx.sent(count)
    }
}

impl EgressWire {
    /// Sends all packets that the port has kicked and completes them; returns their bytes.
    pub fn sent(&mut self) -> Vec<Vec<u8>> {
        self.tx.sent(usize::MAX)
    }

    /// As [`EgressWire::sent`] for at most so many packets.
    pub fn sent_max(&mut self, count: usize) -> Vec<Vec<u8>> {
        self.tx.sent(count)
    }
}

impl TxWire {
    fn sent(&mut self, count: usize) -> Vec<Vec<u8>> {
        let closed = self.pairing.closed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut packets = Vec::new();
        while !*closed && packets.len() < count && self.completion.room(1) > 0 {
            let Some(Descriptor { address, len, .. }) = self.tx.pop() else { break };
            let start =
                self.memory.at::<u8>(address as usize, len as usize).expect("a descriptor within the UMEM");
            // SAFETY: the frame went through the TX ring and is the wire's until it is completed below, and
            // the port isn't closed while `closed` is locked; the bytes lie in the mapping by the check
            // above.
            let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), len as usize) };
            packets.push(bytes.to_vec());
            let pushed = self.completion.push(address);
            assert!(pushed, "there was room");
        }
        self.tx.release();
        self.completion.publish();
        packets
    }
}

/// Copies bytes into a frame that the wire has.
fn write(memory: &Mapping, offset: usize, bytes: &[u8]) {
    let start = memory.at::<u8>(offset, bytes.len()).expect("a frame within the UMEM");
    // SAFETY: the frame came out of the fill ring and is the wire's until it goes into an RX ring; `at` has
    // checked the range, and `bytes` is none of the UMEM's (it would have to be borrowed from a frame that
    // the user has).
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.as_ptr(), bytes.len()) };
}
