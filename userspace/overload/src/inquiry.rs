//! Who asks the transaction table of each request: the XDP program, or the worker.
//!
//! Both give the same answers. The XDP program spares the worker every copy of a request that waits or was shed, which is
//! what keeps a front-end alive when clients retransmit. But for an original the question is the dearest thing that it
//! does, and is asked on a core that has every packet to look at, while the worker can fetch what the question needs
//! long before it asks. So the XDP program asks while copies are to be expected, and otherwise the worker does. Only while
//! the gate is normal: else the table must know what is shed at the NIC.

use crate::{NANOS_PER_S, Nanos};

/// With as many originals waiting, the first of their clients may soon retransmit. Smaller: asked for nothing. Larger: a
/// burst of copies comes to the worker first.
const WAITING_MAX: usize = 64;

/// Messages between two looks at how many of them were copies. Smaller: a few copies by chance are enough. Larger: as many
/// copies reach the worker before the XDP program is asked for help.
const SAMPLE: u32 = 256;

/// One copy in so many messages is the load from which on the XDP program asks.
const COPIES_IN: u32 = 16;

/// How long it then asks, before the worker has another look.
const HELP_NS: Nanos = NANOS_PER_S;

/// The decision for one service at one worker.
#[derive(Debug, Clone, Default)]
pub struct Inquiry {
    seen: u32,
    copies: u32,
    helped_until: Nanos,
}

impl Inquiry {
    /// Notes a request that the worker has looked up, and whether it was a copy.
    pub fn note(&mut self, is_copy: bool, now: Nanos) {
        self.seen += 1;
        self.copies += u32::from(is_copy);
        if self.seen == SAMPLE {
            if self.copies >= SAMPLE / COPIES_IN {
                self.helped_until = now.saturating_add(HELP_NS);
            }
            (self.seen, self.copies) = (0, 0);
        }
    }

    /// Whether the worker asks alone while `waiting` originals wait.
    #[must_use]
    pub const fn is_workers(&self, waiting: usize, now: Nanos) -> bool {
        waiting < WAITING_MAX && now >= self.helped_until
    }
}

#[cfg(test)]
mod tests {
    use super::{COPIES_IN, HELP_NS, Inquiry, SAMPLE, WAITING_MAX};

    /// One copy in `every` messages, for so many messages.
    fn with_copies(every: u32, messages: u32) -> Inquiry {
        let mut inquiry = Inquiry::default();
        (0..messages).for_each(|number| inquiry.note(number % every == 0, 10));
        inquiry
    }

    #[test]
    fn the_worker_asks_alone_as_long_as_hardly_any_copies_come() {
        assert!(Inquiry::default().is_workers(0, 0));
        assert!(with_copies(COPIES_IN * 2, 100 * SAMPLE).is_workers(0, 10));
        assert!(with_copies(1, SAMPLE - 1).is_workers(0, 10), "too few to know");
    }

    #[test]
    fn many_copies_call_for_help_for_a_second() {
        for every in [1, 2, COPIES_IN] {
            let inquiry = with_copies(every, SAMPLE);
            assert!(!inquiry.is_workers(0, 10 + HELP_NS - 1), "{every}");
            assert!(inquiry.is_workers(0, 10 + HELP_NS), "{every}");
        }
    }

    #[test]
    fn a_long_line_calls_for_help_before_the_first_copy() {
        let inquiry = Inquiry::default();
        assert!(inquiry.is_workers(WAITING_MAX - 1, 0) && !inquiry.is_workers(WAITING_MAX, 0));
    }
}
