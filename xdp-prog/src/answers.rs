//! The program that sees what the servers answer (`answers.bpf.c`): loading it, its table of picked requests, its counters.
//!
//! It is independent of the classifier but for the service table, whose meaning the two share (`services.h`). How it gets
//! onto the interface is in `egress.rs`.

use std::os::fd::{AsFd as _, BorrowedFd};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapHandle, ProgramInput};

use crate::abi::SERVICES_MAX;
use crate::load::missing;
use crate::services::{enter_services, object_place, sum_of_cpus, write_services};
use crate::skeleton::answers::{AnswersSkel, AnswersSkelBuilder};
use crate::{Error, Settings};

/// Places of the table of picked requests, a power of two.
pub const AWAITED_PLACES: usize = 4096;
/// `AWAITED_TIME_BITS`.
const TIME_BITS: u32 = 40;

/// `STATUSES`.
const STATUSES: usize = 8;
/// `STATUS_UNAVAILABLE`.
const STATUS_UNAVAILABLE: usize = 7;
/// `TIMES`: buckets of the times to the first answer.
pub const ANSWER_TIMES: usize = 38;
/// Words of `struct answers`.
const WORDS: usize = STATUSES + 1 + ANSWER_TIMES;

/// What every packet that the program looks at gets: on to the next.
const GO_ON: i32 = -1;

/// The place in the table of a picked request with this branch hash, and its word, if it is handed over now.
#[must_use]
pub const fn awaited(branch_hash: u64, now_ns: u64) -> (usize, u64) {
    let place = branch_hash as usize & (AWAITED_PLACES - 1);
    let time = (now_ns / 1000) & ((1 << TIME_BITS) - 1);
    (place, branch_hash >> TIME_BITS << TIME_BITS | time)
}

/// Upper bounds of the buckets of times but the last, which has none, seconds; a time as long as a bound is in its bucket.
#[must_use]
pub fn answer_bounds_s() -> [f64; ANSWER_TIMES - 1] {
    std::array::from_fn(|bucket| {
        let octave_us = (64_u64 << (bucket / 2)) as f64;
        let us = if bucket % 2 == 0 { octave_us } else { 1.5 * octave_us };
        us / 1e6
    })
}

/// What a service's server has answered since the program was loaded, summed over CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerCounters {
    /// Responses of status class 1 to 6; at 0 those of no class that there is.
    pub classes: [u64; 7],
    /// Those of class 5 that are 503.
    pub unavailable: u64,
    /// Times to the first answer of picked requests, by bucket.
    pub times: [u64; ANSWER_TIMES],
    /// Their sum, microseconds.
    pub time_us: u64,
}

impl Default for AnswerCounters {
    fn default() -> Self {
        Self { classes: [0; 7], unavailable: 0, times: [0; ANSWER_TIMES], time_us: 0 }
    }
}

impl AnswerCounters {
    fn of(words: &[u64; WORDS]) -> Self {
        let mut counters = Self::default();
        counters.classes.copy_from_slice(&words[..STATUS_UNAVAILABLE]);
        counters.unavailable = words[STATUS_UNAVAILABLE];
        counters.time_us = words[STATUSES];
        counters.times.copy_from_slice(&words[STATUSES + 1..]);
        counters
    }

    /// Adds those of another service, or with `minus` takes them away.
    fn combine(&mut self, other: &Self, with: fn(u64, u64) -> u64) {
        let mine = self.classes.iter_mut().chain(&mut self.times);
        for (mine, other) in mine.zip(other.classes.iter().chain(&other.times)) {
            *mine = with(*mine, *other);
        }
        self.unavailable = with(self.unavailable, other.unavailable);
        self.time_us = with(self.time_us, other.time_us);
    }

    /// Adds those of another address of the same service.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, u64::wrapping_add);
    }

    /// What was counted since an earlier snapshot.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = *self;
        since.combine(earlier, u64::saturating_sub);
        since
    }
}

/// The program in the kernel. It sees nothing before it is attached.
pub struct Answers {
    skeleton: AnswersSkel<'static>,
}

impl std::fmt::Debug for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Answers")
    }
}

impl Answers {
    /// Loads the program for the services of `settings` whose bit in `watched` is set; `branch_seed` is that of
    /// `sip::branch_hash`. As for the classifier, the place of libbpf's object is never freed.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`], [`Error::NotPermitted`], [`Error::NoMemory`], [`Error::Kernel`].
    pub fn load(settings: &Settings, watched: u64, branch_seed: u64) -> Result<Self, Error> {
        settings.check()?;
        let failed = |action: &str, error: &libbpf_rs::Error| Error::from_libbpf(action, error);
        let mut open = AnswersSkelBuilder::default()
            .open(object_place())
            .map_err(|error| failed("opening the program that sees answers", &error))?;
        let rodata = open.maps.rodata_data.as_deref_mut().ok_or_else(|| missing("read-only data"))?;
        write_services!(rodata, settings);
        rodata.watched = watched;
        rodata.branch_seed = branch_seed;
        let skeleton =
            open.load().map_err(|error| failed("loading the program that sees answers", &error))?;
        enter_services(&skeleton.maps.services, settings)?;
        Ok(Self { skeleton })
    }

    /// Says by which sockets sipweir itself answers (`SO_COOKIE`, 0 for none): what they send is not counted.
    ///
    /// # Errors
    ///
    /// [`Error::Kernel`] without memory mapping of BPF arrays.
    pub fn set_own_sockets(&mut self, cookies: [u64; 2]) -> Result<(), Error> {
        self.skeleton.maps.data_own_data.as_deref_mut().ok_or_else(|| missing("own sockets"))?.own_sockets =
            cookies;
        Ok(())
    }

    /// The descriptor of the program.
    #[must_use]
    pub fn program_fd(&self) -> BorrowedFd<'_> {
        self.skeleton.progs.answers.as_fd()
    }

    /// The descriptor of the table of picked requests: [`AWAITED_PLACES`] words, mappable; see [`awaited`].
    #[must_use]
    pub fn awaited_fd(&self) -> BorrowedFd<'_> {
        self.skeleton.maps.data_awaited.as_fd()
    }

    /// A reader of the counters for another thread.
    ///
    /// # Errors
    ///
    /// No free descriptor.
    pub fn counter_reader(&self) -> Result<AnswerReader, Error> {
        let map = MapHandle::try_from(&self.skeleton.maps.answers_seen)
            .map_err(|error| Error::from_libbpf("duplicating the counters of answers", &error))?;
        Ok(AnswerReader { map })
    }

    /// One packet through the loaded program, as it would leave.
    ///
    /// # Errors
    ///
    /// What the kernel says; [`Error::TestRun`] if the program would not let the packet go on.
    pub fn test_run(&self, packet: &[u8]) -> Result<(), Error> {
        let input = ProgramInput { data_in: Some(packet), ..Default::default() };
        let output = self.skeleton.progs.answers.test_run(input);
        let output = output.map_err(|error| Error::from_libbpf("test run of what sees answers", &error))?;
        match output.return_value.cast_signed() {
            GO_ON => Ok(()),
            other => Err(Error::TestRun(format!("the program that sees answers returned {other}"))),
        }
    }

    /// Mean time of a run on this packet over `repeats` runs.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn cost(&self, packet: &[u8], repeats: u32) -> Result<std::time::Duration, Error> {
        let input = ProgramInput { data_in: Some(packet), repeat: repeats, ..Default::default() };
        let output = self.skeleton.progs.answers.test_run(input);
        let output = output.map_err(|error| Error::from_libbpf("timing what sees answers", &error))?;
        Ok(output.duration)
    }
}

/// Reads the counters from any thread.
#[derive(Debug)]
pub struct AnswerReader {
    map: MapHandle,
}

impl AnswerReader {
    /// The counters of one service, by its index in the settings.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfTable`], or the kernel's refusal, for which there is no reason.
    pub fn read(&self, service: usize) -> Result<AnswerCounters, Error> {
        let (what, limit) = ("service", SERVICES_MAX);
        let index = u32::try_from(service).ok().filter(|_| service < limit);
        let key = index.ok_or(Error::OutOfTable { what, index: service, limit })?;
        Ok(AnswerCounters::of(&sum_of_cpus(&self.map, key, "answers")?))
    }
}

#[cfg(test)]
mod tests {
    use super::{ANSWER_TIMES, AnswerCounters, WORDS, answer_bounds_s, awaited};

    #[test]
    fn bounds_are_two_an_octave() {
        let bounds = answer_bounds_s();
        assert_eq!(bounds[..4], [64e-6, 96e-6, 128e-6, 192e-6]);
        assert!(bounds.is_sorted());
        assert_eq!(bounds[ANSWER_TIMES - 2], 16.777_216);
    }

    #[test]
    fn a_word_has_the_highest_bits_of_the_hash_and_the_time() {
        let (place, word) = awaited(0xabcd_ef12_3456_7fff, 5_000);
        assert_eq!((place, word), (0xfff, 0xabcd_ef00_0000_0005));
        assert_eq!(awaited(0, 1_000 << 40).1, 0, "time wraps");
    }

    #[test]
    fn words_are_read_in_their_order_and_differences_have_what_came_between() {
        let words: [u64; WORDS] = std::array::from_fn(|word| word as u64);
        let counters = AnswerCounters::of(&words);
        assert_eq!((counters.classes, counters.unavailable), ([0, 1, 2, 3, 4, 5, 6], 7));
        assert_eq!((counters.time_us, counters.times[0]), (8, 9));
        let mut twice = counters;
        twice.add(&counters);
        assert_eq!(twice.since(&counters), counters);
        assert_eq!(counters.since(&twice), AnswerCounters::default());
    }
}
