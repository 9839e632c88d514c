//! How much of a receive queue one message takes.
//!
//! The kernel counts a socket's queue by truesize, the memory of buffer and bookkeeping, not by datagram bytes
//! (`sk_rmem_alloc`, net/core/sock.c), and it differs by driver, packet size and kernel. So it is learned from what
//! the queue gains while messages are handed over.
//!
//! An *episode* begins at a look before which nothing was handed over, so nothing is on its way, and lasts while the
//! queue does not shrink. In it, (bytes gained) / (messages handed over) is never above the true mean size: messages
//! still on their way and messages already served only lower it. The episode's highest ratio is thus
//!
//! - proof that a smaller estimate is wrong, believed a quarter at a time because the sizes vary;
//! - evidence against a larger estimate only when all have arrived (the episode ends with a look before which nothing
//!   was handed over) and the server can hardly have served any of them meanwhile; then believed a sixteenth at a time.
//!
//! A wrong estimate shortens or lengthens the server's queue by the same factor; it never loses count of departures,
//! which telescope (see `credit`).

/// Bytes a message until something is learned: a 600-byte datagram over veth, measured. Smaller: the first burst to
/// an unknown server is longer than the target; larger: shorter.
const INITIAL_BYTES: u32 = 2304;

/// The least and the most that are believed: below a bare `sk_buff` and above what a frame of 4 KiB can take, the
/// queue holds something else than our messages.
const BYTES_MIN: u32 = 256;
const BYTES_MAX: u32 = 16_384;

#[derive(Debug, Clone)]
pub(crate) struct Truesize {
    /// In 1/16 byte, so that small steps are not lost to rounding.
    sixteenths: u64,
    episode: Option<Episode>,
    last_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Episode {
    base_bytes: u64,
    handed: u64,
    /// Messages that the server can have served since the episode began.
    servable: f64,
    /// The highest ratio, in 1/16 byte.
    peak: u64,
    /// What the server can have served when the peak was reached, and what had been handed over.
    servable_at_peak: f64,
    handed_at_peak: u64,
}

impl Truesize {
    pub(crate) const fn new() -> Self {
        Self { sixteenths: INITIAL_BYTES as u64 * 16, episode: None, last_bytes: 0 }
    }

    /// Bytes that one message takes.
    pub(crate) const fn bytes_per_message(&self) -> u32 {
        // Between BYTES_MIN and BYTES_MAX by `learn`.
        (self.sixteenths / 16) as u32
    }

    /// Messages that so many bytes are, rounded to the nearest but never to none.
    pub(crate) fn messages(&self, bytes: u64) -> u64 {
        match bytes {
            0 => 0,
            _ => (bytes.saturating_mul(16).saturating_add(self.sixteenths / 2) / self.sixteenths).max(1),
        }
    }

    /// Takes in a look: the queue's bytes now, what was handed over since the last look, whether nothing was (and
    /// nothing is on its way), how many messages the server can have served in that time, and whether the count is
    /// disturbed (drops, another socket).
    pub(crate) fn observe(&mut self, bytes: u64, handed: u64, settled: bool, servable: f64, disturbed: bool) {
        let shrank = bytes < self.last_bytes;
        self.last_bytes = bytes;
        if disturbed {
            self.episode = None;
            return;
        }
        if shrank {
            self.finish(false);
        } else if let Some(episode) = &mut self.episode {
            episode.handed += handed;
            episode.servable += servable;
            // A queue that has not grown says nothing about sizes, and no ratio exists before the first message.
            let gained = bytes.saturating_sub(episode.base_bytes).saturating_mul(16);
            let ratio = gained.checked_div(episode.handed).unwrap_or(0);
            if ratio > episode.peak {
                episode.peak = ratio;
                (episode.servable_at_peak, episode.handed_at_peak) = (episode.servable, episode.handed);
            }
        }
        if settled {
            self.finish(true);
            self.episode = Some(Episode {
                base_bytes: bytes,
                handed: 0,
                servable: 0.0,
                peak: 0,
                servable_at_peak: 0.0,
                handed_at_peak: 0,
            });
        }
    }

    /// Ends the episode and learns from it. `arrived` says that nothing was on its way any more.
    fn finish(&mut self, arrived: bool) {
        let Some(episode) = self.episode.take().filter(|episode| episode.peak > 0) else {
            return;
        };
        // One eighth of the messages served unseen makes the ratio one eighth too small.
        let hardly_any_served = episode.servable_at_peak * 8.0 <= episode.handed_at_peak as f64;
        if episode.peak > self.sixteenths {
            self.learn(self.sixteenths + (episode.peak - self.sixteenths) / 4);
        } else if arrived && hardly_any_served {
            self.learn(self.sixteenths - (self.sixteenths - episode.peak) / 16);
        }
    }

    fn learn(&mut self, sixteenths: u64) {
        self.sixteenths = sixteenths.clamp(u64::from(BYTES_MIN) * 16, u64::from(BYTES_MAX) * 16);
    }
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, BYTES_MIN, INITIAL_BYTES, Truesize};

    /// Bursts of 16 messages into an empty queue, seen while they grow and when they are gone.
    fn bursts(truesize: &mut Truesize, count: usize, bytes_each: u64, servable: f64) {
        for _ in 0..count {
            truesize.observe(0, 0, true, 0.0, false);
            truesize.observe(8 * bytes_each, 16, false, servable, false);
            truesize.observe(16 * bytes_each, 0, true, 0.0, false);
        }
    }

    #[test]
    fn small_and_large_messages_are_learned_from_bursts() {
        for bytes_each in [768, 1280, 4608, 9216] {
            let mut truesize = Truesize::new();
            bursts(&mut truesize, 200, bytes_each, 1.0);
            let learned = u64::from(truesize.bytes_per_message());
            assert!(learned.abs_diff(bytes_each) <= bytes_each / 50, "{bytes_each}: {learned}");
            assert_eq!(truesize.messages(10 * bytes_each), 10);
        }
    }

    #[test]
    fn a_server_that_keeps_up_does_not_make_messages_look_small() {
        let mut truesize = Truesize::new();
        for _ in 0..1000 {
            truesize.observe(0, 0, true, 10.0, false);
            truesize.observe(2304, 10, false, 10.0, false);
        }
        assert_eq!(truesize.bytes_per_message(), INITIAL_BYTES);
    }

    #[test]
    fn messages_still_on_their_way_do_not_make_the_others_look_small() {
        let mut truesize = Truesize::new();
        for _ in 0..1000 {
            truesize.observe(0, 0, true, 0.0, false);
            truesize.observe(4 * 2304, 16, false, 0.1, false);
            truesize.observe(0, 16, false, 0.1, false);
        }
        assert_eq!(truesize.bytes_per_message(), INITIAL_BYTES);
    }

    #[test]
    fn a_full_or_replaced_socket_teaches_nothing() {
        let mut truesize = Truesize::new();
        for _ in 0..100 {
            truesize.observe(0, 0, true, 0.0, false);
            truesize.observe(1_000_000, 1, 1 == 0, 0.0, true);
        }
        assert_eq!(truesize.bytes_per_message(), INITIAL_BYTES);
    }

    #[test]
    fn what_is_believed_has_limits() {
        let mut truesize = Truesize::new();
        bursts(&mut truesize, 500, 1 << 40, 0.0);
        assert_eq!(truesize.bytes_per_message(), BYTES_MAX);
        bursts(&mut truesize, 500, 1, 0.0);
        assert_eq!(truesize.bytes_per_message(), BYTES_MIN);
        truesize.observe(u64::MAX, 1, 1 == 0, 0.0, false);
        assert!(truesize.messages(u64::MAX) > 0);
    }

    #[test]
    fn any_byte_in_the_queue_is_at_least_one_message() {
        let truesize = Truesize::new();
        assert_eq!([0, 1, 2304, 3455, 3457].map(|bytes| truesize.messages(bytes)), [0, 1, 1, 1, 2]);
    }
}
