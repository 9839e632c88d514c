//! The busiest sources of the last seconds, from a sample of what each worker takes in.
//!
//! A worker counts its messages down to the next that it looks at; all others cost that. How many it skips follows the
//! load, so that it looks at [`SAMPLES_PER_S`] a second at most, in the long run, and at every message of a quiet service. How
//! many are skipped each time is drawn by lot, or a source that sends at regular intervals could be seen always or never.
//! A message that was looked at stands for as many as were skipped on average, so that what a source is said to send is
//! right on average; by how much it may be wrong is said beside it.
//!
//! What the XDP program drops by itself (copies of what waits, and what is shed without an answer) never reaches a worker and
//! is not in the sample. What it sheds while answers are owed is, by the ring *reject*.
//!
//! Not here: how the busiest are found in fixed memory (`overload::HeavyHitters`).

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use overload::{HeavyHitters, Hitter};

/// Sources that a worker tells apart. Fewer: the error, messages / places, grows under a flood from many. More: to look at a
/// source that has no place yet takes longer.
pub const PLACES: usize = 128;
/// Messages that a worker looks at a second. More: looking costs more than it is worth to know a tail of sources (what it costs:
/// `cargo bench -p sipweir --bench worker_turn -- sources`, beside `hand_over` of as many messages).
pub const SAMPLES_PER_S: u64 = 4096;
const SAMPLE_NS: u64 = 1_000_000_000 / SAMPLES_PER_S;
/// Messages that may be looked at at once beyond that: those of a turn or two.
const BURST_NS: u64 = 128 * SAMPLE_NS;
/// No worker takes in more than some million messages a second, of which one in so many is enough.
const ONE_IN_MAX: u32 = 1024;
/// What is said is of a span of this length. Longer: who has just begun is not seen yet. Shorter: fewer samples.
pub const WINDOW_NS: u64 = 5_000_000_000;

/// A source: an IPv4 address, or the /64 of an IPv6 address, any of which a single host may take (RFC 4291 section 2.5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(u128);

impl Source {
    /// The source that an address belongs to.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self(v4.to_ipv6_mapped().to_bits()),
            IpAddr::V6(v6) => Self(v6.to_bits() & (!0 << 64)),
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let address = Ipv6Addr::from_bits(self.0);
        match address.to_ipv4_mapped() {
            Some(v4) => write!(f, "{v4}"),
            None => write!(f, "{address}/64"),
        }
    }
}

/// What a worker's last full window has shown.
#[derive(Debug, Clone, Default)]
pub struct Window {
    /// Its length; 0 before there was one.
    pub len_ns: u64,
    /// Messages in it, estimated.
    pub messages: u64,
    /// The busiest sources, in no order; counts are messages, estimated.
    pub busiest: Vec<Hitter<Source>>,
}

/// Where a worker leaves its last window for the control thread.
#[derive(Debug)]
pub struct Board(Mutex<Window>);

impl Default for Board {
    fn default() -> Self {
        Self(Mutex::new(Window { busiest: Vec::with_capacity(PLACES), ..Window::default() }))
    }
}

impl Board {
    /// The last window.
    #[must_use]
    pub fn read(&self) -> Window {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// For the worker, which waits for nobody.
    fn try_lock(&self) -> Option<MutexGuard<'_, Window>> {
        match self.0.try_lock() {
            Ok(window) => Some(window),
            Err(TryLockError::Poisoned(window)) => Some(window.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The worker's part.
#[derive(Debug)]
pub struct Sampler {
    /// Messages until the next that is looked at.
    countdown: u32,
    /// How many a sample stands for.
    one_in: u32,
    random: u64,
    /// Samples are paid for up to here.
    paid_ns: u64,
    /// When the window did; `None` before the worker runs.
    begun_ns: Option<u64>,
    window: HeavyHitters<Source>,
}

impl Default for Sampler {
    fn default() -> Self {
        Self {
            countdown: 1,
            one_in: 1,
            random: 0,
            paid_ns: 0,
            begun_ns: None,
            window: HeavyHitters::new(PLACES),
        }
    }
}

impl Sampler {
    /// Counts a message, and looks at it if it is its turn. `is_refused` is said of requests that were not served, answered
    /// or not.
    #[inline]
    pub fn note(&mut self, source: IpAddr, is_refused: bool, now_ns: u64) {
        self.countdown -= 1;
        if self.countdown == 0 {
            self.look(source, is_refused, now_ns);
        }
    }

    #[inline(never)]
    fn look(&mut self, source: IpAddr, is_refused: bool, now_ns: u64) {
        self.window.note(Source::of(source), u64::from(self.one_in), is_refused);
        // Before the next gap is drawn, so that the weight of a sample and the gap in front of it belong together.
        self.paid_ns = self.paid_ns.max(now_ns) + SAMPLE_NS;
        if self.paid_ns > now_ns + BURST_NS {
            self.one_in = (2 * self.one_in).min(ONE_IN_MAX);
            self.paid_ns = now_ns + BURST_NS / 2;
        } else if self.paid_ns == now_ns + SAMPLE_NS {
            // Nothing was owed: there is time for more.
            self.one_in = (self.one_in / 2).max(1);
        }
        // Knuth's MMIX generator, whose upper bits are the good ones.
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let span = u64::from(2 * self.one_in - 1);
        // From 1 to 2N − 1, N on average.
        self.countdown = 1 + (((self.random >> 32) * span) >> 32) as u32;
    }

    /// Leaves what it has seen on the board when the window is over. A board that is being read is left for the next call.
    pub fn publish(&mut self, board: &Board, now_ns: u64) {
        let begun_ns = *self.begun_ns.get_or_insert(now_ns);
        let len_ns = now_ns.saturating_sub(begun_ns);
        if len_ns < WINDOW_NS {
            return;
        }
        let Some(mut window) = board.try_lock() else { return };
        window.len_ns = len_ns;
        window.messages = self.window.weight();
        window.busiest.clear();
        window.busiest.extend_from_slice(self.window.places());
        self.begun_ns = Some(now_ns);
        self.window.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::{Board, SAMPLES_PER_S, Sampler, Source, WINDOW_NS};

    const S: u64 = 1_000_000_000;

    fn address(number: u32) -> IpAddr {
        IpAddr::from((0x0a00_0000 + number).to_be_bytes())
    }

    /// A window of messages at a steady rate; the source of each by its number. Returns what the board shows.
    fn window(per_s: u64, source: impl Fn(u64) -> u32) -> (super::Window, u64) {
        let (mut sampler, board) = (Sampler::default(), Board::default());
        sampler.publish(&board, S);
        // One more, in which the gap finds its length.
        for second in 0..10 {
            for message in 0..per_s {
                let now_ns = S + second * S + message * S / per_s;
                sampler.note(address(source(message)), message % 2 == 0, now_ns);
            }
            sampler.publish(&board, S + (second + 1) * S);
        }
        (board.read(), u64::from(sampler.one_in))
    }

    fn count(window: &super::Window, number: u32) -> u64 {
        let found = window.busiest.iter().find(|hitter| hitter.key == Source::of(address(number)));
        found.map_or(0, |hitter| hitter.count)
    }

    #[test]
    fn a_quiet_service_is_counted_exactly() {
        let (window, one_in) = window(100, |message| u32::from(message % 10 == 0));
        assert_eq!((window.len_ns, window.messages, one_in), (WINDOW_NS, 500, 1));
        assert_eq!((count(&window, 1), count(&window, 0)), (50, 450));
        let marked: u64 = window.busiest.iter().map(|hitter| hitter.marked).sum();
        assert_eq!(marked, 250);
    }

    #[test]
    fn a_busy_one_is_sampled_no_more_often_than_allowed_and_estimated_well() {
        let per_s = 400_000;
        let (window, one_in) = window(per_s, |message| if message % 4 == 0 { 7 } else { message as u32 });
        assert!((64..=256).contains(&one_in), "one in {one_in} of {}", per_s / SAMPLES_PER_S);
        let (messages, busiest) = (window.messages as f64, count(&window, 7) as f64);
        let expected = (5 * per_s) as f64;
        assert!((messages / expected - 1.0).abs() < 0.05, "{messages} of {expected}");
        // 1/128 of all at most comes from other sources.
        assert!((0.22..0.29).contains(&(busiest / expected)), "{busiest}");
    }

    #[test]
    fn a_burst_is_looked_at_for_a_bounded_time() {
        let mut sampler = Sampler::default();
        let mut looked = 0;
        for _ in 0..100_000 {
            looked += u32::from(sampler.countdown == 1);
            sampler.note(address(1), false, S);
        }
        assert!(looked < 1500, "{looked}");
    }

    #[test]
    fn who_sends_at_regular_intervals_is_not_missed() {
        let (window, _) = window(65_536, |message| u32::from(message % 16 == 3));
        let share = count(&window, 1) as f64 / window.messages as f64;
        assert!((0.04..0.085).contains(&share), "{share} instead of 1/16");
    }

    #[test]
    fn a_site_of_ipv6_is_one_source_and_says_so() {
        let of = |text: &str| Source::of(text.parse().expect("address"));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:3:4:5:6"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_eq!(of("192.0.2.1").to_string(), "192.0.2.1");
        assert_eq!(of("2001:db8:1:2::1").to_string(), "2001:db8:1:2::/64");
    }

    #[test]
    fn a_board_that_is_being_read_is_written_later() {
        let (mut sampler, board) = (Sampler::default(), Board::default());
        sampler.publish(&board, S);
        sampler.note(address(1), true, S);
        let reading = board.0.lock().expect("not poisoned");
        sampler.publish(&board, S + WINDOW_NS);
        drop(reading);
        assert_eq!(board.read().messages, 0);
        sampler.publish(&board, 2 * S + WINDOW_NS);
        assert_eq!((board.read().messages, board.read().len_ns), (1, WINDOW_NS + S));
    }
}
