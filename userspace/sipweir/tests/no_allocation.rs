//! No allocation per packet after start: the worker's turn under a counting allocator.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use sip::{Class, Method};
use support::{Bench, MS, NEW, REJECT, Setup, request};

struct Counting;

thread_local! {
    static COUNTED: Cell<Option<u64>> = const { Cell::new(None) };
}

fn count() {
    // Allocations of a thread that is being torn down are not ours.
    let _gone = COUNTED.try_with(|counted| counted.set(counted.get().map(|n| n + 1)));
}

#[allow(unsafe_code, reason = "a global allocator can only be written with it; it passes everything on")]
// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    COUNTED.set(Some(0));
    work();
    COUNTED.replace(None).expect("counting")
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![0u8; 100]))), 1);
}

#[test]
fn a_turn_allocates_nothing_whatever_comes() {
    let mut bench = Bench::new(&Setup::default());
    let messages: Vec<String> = (0..64)
        .flat_map(|call| {
            let call = format!("c{call}");
            [
                request("INVITE", "sip:b@example.com;rtx=0", &call),
                request("INVITE", "sip:b@example.com;rtx=1", &call),
                request("OPTIONS", "sip:b@example.com", &call),
                request("CANCEL", "sip:b@example.com", &call),
                request("BYE", "sip:b@example.com", &call),
            ]
        })
        .collect();
    let mut served = 0;
    for round in 0..50 {
        for message in &messages {
            // What finds its ring full is lost, as in the kernel.
            let _full = bench.deliver(message);
            let _full = bench.deliver_as(REJECT, message.as_bytes(), Class::Original, Method::Invite, None);
        }
        let undecided = request("INVITE", "sip:b@example.com", &format!("u{round}"));
        let _full = bench.deliver_as(NEW, undecided.as_bytes(), Class::Undecided, Method::Invite, None);
        bench.server.set_waiting(u64::from(round % 3 == 0) * 20);
        for _ in 0..20 {
            bench.now_ns += 3 * MS;
            let now_ns = bench.now_ns;
            let worker = &mut bench.worker;
            let allocated = allocations(|| {
                std::hint::black_box(worker.turn(now_ns));
            });
            assert_eq!(allocated, 0, "round {round}");
            served += bench.at_server().len();
            bench.replies();
        }
    }
    assert!(served > 1000, "{served}");
    bench.assert_conserved();
}
