use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::testing::ring_from;

/// What may happen to a ring, at either end.
#[derive(Clone, Copy, Debug)]
enum Op {
    Push(u8),
    Publish,
    Pop(u8),
    Release,
    CheckRoom(u32),
    CheckAvailable(u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (1..20_u8).prop_map(Op::Push),
        Just(Op::Publish),
        (1..20_u8).prop_map(Op::Pop),
        Just(Op::Release),
        any::<u32>().prop_map(Op::CheckRoom),
        any::<u32>().prop_map(Op::CheckAvailable),
    ]
}

/// The ring without indices: three queues that an entry goes through.
#[derive(Debug, Default)]
struct Oracle {
    written: VecDeque<u64>,
    visible: VecDeque<u64>,
    read_not_released: u32,
}

impl Oracle {
    fn used(&self) -> u32 {
        (self.written.len() + self.visible.len()) as u32 + self.read_not_released
    }
}

/// Indices that wrap around during the test, and some that don't.
fn first_index() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(u32::MAX), (u32::MAX - 64)..=u32::MAX, any::<u32>()]
}

proptest! {
    #[test]
    fn a_ring_behaves_like_queues_at_any_index(
        first in first_index(),
        log2_size in 0..7_u32,
        ops in prop::collection::vec(op(), 0..200),
    ) {
        let size = 1 << log2_size;
        let (mut producer, mut consumer) = ring_from::<u64>(size, first);
        let mut oracle = Oracle::default();
        let mut next = 0;
        for op in ops {
            match op {
                Op::Push(count) => for _ in 0..count {
                    let fits = oracle.used() < size;
                    prop_assert_eq!(producer.push(next), fits);
                    if fits {
                        oracle.written.push_back(next);
                    }
                    next += 1;
                },
                Op::Publish => {
                    producer.publish();
                    oracle.visible.append(&mut oracle.written);
                }
                Op::Pop(count) => for _ in 0..count {
                    let expected = oracle.visible.pop_front();
                    oracle.read_not_released += u32::from(expected.is_some());
                    prop_assert_eq!(consumer.pop(), expected);
                },
                Op::Release => {
                    consumer.release();
                    oracle.read_not_released = 0;
                }
                Op::CheckRoom(wanted) => {
                    // May be out of date, but never promises too much and never too little for what was
                    // wanted.
                    let (room, exact) = (producer.room(wanted), size - oracle.used());
                    prop_assert!(room <= exact && room >= exact.min(wanted), "{} of {}", room, exact);
                }
                Op::CheckAvailable(wanted) => {
                    let (there, exact) = (consumer.available(wanted), oracle.visible.len() as u32);
                    prop_assert!(there <= exact && there >= exact.min(wanted), "{} of {}", there, exact);
                }
            }
            prop_assert_eq!(producer.pending(), oracle.used());
        }
    }
}

#[test]
fn a_full_ring_drains_in_order_across_the_wrap_around() {
    let (mut producer, mut consumer) = ring_from::<u64>(64, u32::MAX - 31);
    for round in 0..4 {
        for entry in 0..64 {
            assert!(producer.push(round * 64 + entry));
        }
        assert!(!producer.push(0), "the ring is full");
        assert_eq!(consumer.pop(), None, "nothing is visible yet");
        producer.publish();
        for entry in 0..64 {
            assert_eq!(consumer.pop(), Some(round * 64 + entry));
        }
        assert_eq!(consumer.pop(), None);
        assert!(!producer.push(0), "the slots are not released yet");
        consumer.release();
    }
}

#[test]
fn an_index_that_makes_no_sense_means_an_empty_or_full_ring() {
    let (mut producer, mut consumer) = ring_from::<u64>(8, 0);
    consumer.ring.producer().store(9, Ordering::Release);
    assert_eq!(consumer.pop(), None, "nine entries in a ring of eight");
    producer.ring.consumer().store(1, Ordering::Release);
    producer.tail = 1;
    assert!(!producer.push(1), "an entry was read that was never written");
}

#[test]
fn two_threads_pass_entries_in_order() {
    const ENTRIES: u64 = 200_000;
    let (mut producer, mut consumer) = ring_from::<Descriptor>(32, u32::MAX - 1000);
    let writer = std::thread::spawn(move || {
        let mut next = 0;
        while next < ENTRIES {
            let descriptor = Descriptor { address: next, len: next as u32, options: !(next as u32) };
            if producer.push(descriptor) {
                next += 1;
            } else {
                std::thread::yield_now();
            }
            if next.is_multiple_of(7) || next == ENTRIES || producer.room(1) == 0 {
                producer.publish();
            }
        }
    });
    let mut next = 0;
    while next < ENTRIES {
        match consumer.pop() {
            Some(descriptor) => {
                let expected = Descriptor { address: next, len: next as u32, options: !(next as u32) };
                assert_eq!(descriptor, expected);
                next += 1;
            }
            None => std::thread::yield_now(),
        }
        if next.is_multiple_of(5) {
            consumer.release();
        }
    }
    writer.join().expect("the writer ends when all is read");
    assert_eq!(consumer.pop(), None);
}

#[test]
fn a_ring_that_does_not_fit_into_its_mapping_is_refused() {
    let mapping = Arc::new(Mapping::anonymous(4096, false).expect("a page"));
    let layout = RingLayout { producer: 0, consumer: 64, flags: None, entries: 128 };
    let new = |layout, size| {
        // SAFETY: the consuming ends are dropped at once; there is no other end.
        unsafe { Consumer::<Descriptor>::new(Arc::clone(&mapping), layout, size) }.is_some()
    };
    assert!(new(layout, 128));
    assert!(!new(layout, 256), "4,224 bytes in a page");
    assert!(!new(layout, 100), "not a power of two");
    assert!(!new(layout, 0));
    assert!(!new(RingLayout { producer: 2, ..layout }, 8), "misaligned");
    assert!(!new(RingLayout { consumer: usize::MAX, ..layout }, 8));
    assert!(!new(RingLayout { flags: Some(4096), ..layout }, 8));
}
