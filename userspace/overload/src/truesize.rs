//! How much of a receive queue one message takes.
//!
//! The kernel counts a socket's queue by truesize, the memory of buffer and bookkeeping, not by datagram bytes
//! (`sk_rmem_alloc`, net/core/sock.c). It is computed here as the kernel does for the buffer that AF_XDP's transmit
//! side makes of a packet in copy mode (`xsk_build_skb`, net/xdp/xsk.c), which is the very buffer that ends up in the
//! server's queue. It is deliberately not learned from the queue: several workers and strangers fill that too.
//!
//! Different messages wait at different times, so the queue's bytes are divided by the mean of what was handed over
//! lately. A wrong mean shortens or lengthens the server's queue by the same factor; it never loses count of
//! departures, which telescope (see `credit`).

/// Headroom that `xsk_build_skb` reserves (`NET_SKB_PAD`), and the `skb_shared_info` behind the data.
const ROOM_BYTES: u64 = 64 + 320;

/// A `sk_buff`, as `SKB_TRUESIZE` adds it (include/linux/skbuff.h).
const SK_BUFF_BYTES: u64 = 256;

/// Messages after which the older half of the memory is forgotten, as in `mix`: smaller, and single large messages
/// show; larger, and a changed mix takes longer to be believed.
const MEMORY_MESSAGES: u64 = 4096;

/// A packet of 642 bytes counts so much, observed and by the model: the mean before anything was handed over.
const INITIAL_BYTES: u64 = 2304;

/// What the kernel counts for a packet of this length: the allocator's next size, which is a power of two for all
/// that the room alone demands, and the `sk_buff`.
fn truesize_of(packet_len: u32) -> u64 {
    (u64::from(packet_len) + ROOM_BYTES).next_power_of_two() + SK_BUFF_BYTES
}

/// The mean size of the messages handed over lately.
#[derive(Debug, Clone)]
pub(crate) struct Truesize {
    bytes: u64,
    /// INVARIANT: never 0.
    messages: u64,
}

impl Truesize {
    pub(crate) const fn new() -> Self {
        Self { bytes: INITIAL_BYTES, messages: 1 }
    }

    /// Notes one message that was handed over.
    pub(crate) fn handed(&mut self, packet_len: u32) {
        self.bytes += truesize_of(packet_len);
        self.messages += 1;
        if self.messages >= MEMORY_MESSAGES {
            self.bytes /= 2;
            self.messages /= 2;
        }
    }

    /// Bytes that one message takes in the mean.
    pub(crate) const fn bytes_per_message(&self) -> u64 {
        self.bytes / self.messages
    }

    /// Messages that so many bytes are, rounded to the nearest but never to none.
    pub(crate) fn messages(&self, bytes: u64) -> u64 {
        match bytes {
            0 => 0,
            _ => {
                let each = self.bytes_per_message();
                (bytes.saturating_add(each / 2) / each).max(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::{INITIAL_BYTES, Truesize, truesize_of};

    #[test]
    fn a_packet_counts_as_the_kernel_counts_it() {
        for (packet_len, bytes) in [
            (42, 512 + 256),
            (128, 512 + 256),
            (129, 1024 + 256),
            (640, 1024 + 256),
            (641, 2048 + 256),
            (642, 2304),
            (1664, 2048 + 256),
            (1665, 4096 + 256),
            (3712, 4096 + 256),
            (3713, 8192 + 256),
        ] {
            assert_eq!(truesize_of(packet_len), bytes, "{packet_len}");
        }
    }

    #[test]
    fn the_mean_follows_what_is_handed_over() {
        let mut truesize = Truesize::new();
        assert_eq!(truesize.bytes_per_message(), INITIAL_BYTES);
        (0..5000).for_each(|_| truesize.handed(500));
        assert!(truesize.bytes_per_message().abs_diff(1280) < 2, "{}", truesize.bytes_per_message());
        (0..5000).for_each(|n| truesize.handed(if n % 2 == 0 { 500 } else { 2000 }));
        let half_of_each = u64::midpoint(1280, 4352);
        assert!(truesize.bytes_per_message().abs_diff(half_of_each) < 600);
        (0..100_000).for_each(|_| truesize.handed(2000));
        assert!(truesize.bytes_per_message().abs_diff(4352) < 2);
    }

    #[test]
    fn any_byte_in_the_queue_is_at_least_one_message() {
        let truesize = Truesize::new();
        assert_eq!([0, 1, 2304, 3455, 3457].map(|bytes| truesize.messages(bytes)), [0, 1, 1, 1, 2]);
        assert!(truesize.messages(u64::MAX) > 0);
    }

    proptest! {
        #[test]
        fn the_mean_lies_between_the_smallest_and_the_largest(
            lens in proptest::collection::vec(0_u32..9000, 1..200),
        ) {
            let mut truesize = Truesize::new();
            lens.iter().cycle().take(20_000).for_each(|&len| truesize.handed(len));
            let sizes = || lens.iter().map(|&len| truesize_of(len));
            let mean = truesize.bytes_per_message();
            // Halving both sums rounds each by less than one.
            prop_assert!(mean + 8 >= sizes().min().unwrap() && mean <= sizes().max().unwrap() + 8, "{mean}");
        }
    }
}
