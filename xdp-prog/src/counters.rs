//! Packets by class, verdict and reason, as the program counted them: each packet exactly once.
//!
//! A snapshot is one system call. Cells of one CPU only grow; those of several CPUs are not read at one instant, so
//! sums of a busy interface are exact only after the fact.

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::Error;
use crate::abi::{CLASS_FRAGMENT, CLASSES, REASON_MONITORED, REASONS, VERDICT_PASS, VERDICTS};

const CELLS: usize = CLASSES * VERDICTS * REASONS;

/// A snapshot, summed over CPUs. What a verdict says is what was *decided*: see the crate's page for redirects into
/// empty and into full sockets.
#[derive(Clone, PartialEq, Eq)]
pub struct Counters {
    packets: Box<[u64; CELLS]>,
}

impl Counters {
    /// Packets of one class, verdict and reason, by their numbers in `abi.h`; 0 outside of the table.
    #[must_use]
    pub fn packets(&self, class: u8, verdict: u8, reason: u8) -> u64 {
        let (class, verdict, reason) = (usize::from(class), usize::from(verdict), usize::from(reason));
        if verdict >= VERDICTS || reason >= REASONS {
            return 0;
        }
        self.packets.get((class * VERDICTS + verdict) * REASONS + reason).copied().unwrap_or(0)
    }

    /// Every cell that is not zero: class, verdict, reason, packets.
    pub fn iter(&self) -> impl Iterator<Item = (u8, u8, u8, u64)> + '_ {
        let cells = (0..CELLS).zip(self.packets.iter());
        cells.filter(|&(_, &packets)| packets != 0).map(|(cell, &packets)| {
            let (class, verdict, reason) = numbers_of(cell);
            (class, verdict, reason, packets)
        })
    }

    /// All packets that the program saw.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.packets.iter().sum()
    }

    /// Packets that were for a ring but went to the kernel because the driver has no room for metadata.
    #[must_use]
    pub fn without_metadata(&self) -> u64 {
        let lost = self.iter().filter(|&(class, verdict, reason, _)| {
            class < CLASS_FRAGMENT && verdict == VERDICT_PASS && reason != REASON_MONITORED
        });
        lost.map(|(.., packets)| packets).sum()
    }

    /// What was counted since an earlier snapshot.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut packets = self.packets.clone();
        for (now, before) in packets.iter_mut().zip(earlier.packets.iter()) {
            *now = now.saturating_sub(*before);
        }
        Self { packets }
    }

    /// The sum of the tables of all CPUs.
    fn sum(tables: &Tables) -> Self {
        let mut packets = Box::new([0_u64; CELLS]);
        for table in &tables.0 {
            let (words, _) = table.as_chunks::<8>();
            for (sum, word) in packets.iter_mut().zip(words) {
                *sum += u64::from_ne_bytes(*word);
            }
        }
        Self { packets }
    }
}

impl std::fmt::Debug for Counters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Counters ")?;
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Reads the counters from any thread, also after the [`crate::Classifier`] is gone.
#[derive(Debug)]
pub struct CounterReader {
    map: MapHandle,
}

impl CounterReader {
    pub(crate) fn new(map: MapHandle) -> Self {
        Self { map }
    }

    /// A snapshot.
    ///
    /// # Errors
    ///
    /// The kernel's refusal; there is no reason for one.
    pub fn read(&self) -> Result<Counters, Error> {
        read(&self.map)
    }
}

/// Class, verdict and reason of a cell.
fn numbers_of(cell: usize) -> (u8, u8, u8) {
    let number = |value: usize| u8::try_from(value).unwrap_or(u8::MAX);
    (number(cell / (VERDICTS * REASONS)), number(cell / REASONS % VERDICTS), number(cell % REASONS))
}

/// Reads the one entry of the map.
pub(crate) fn read<M: MapCore>(map: &M) -> Result<Counters, Error> {
    read_tables(map).map(|tables| Counters::sum(&tables))
}

/// The tables of all CPUs, as the kernel hands them out.
#[derive(PartialEq, Eq)]
pub(crate) struct Tables(Vec<Vec<u8>>);

pub(crate) fn read_tables<M: MapCore>(map: &M) -> Result<Tables, Error> {
    let tables = map
        .lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)
        .map_err(|error| Error::from_libbpf("reading the counters", &error))?;
    Ok(Tables(tables.unwrap_or_default()))
}

/// Bytes compared at once when two tables are searched for a difference.
const BLOCK_LEN: usize = 512;

impl Tables {
    /// Class, verdict and reason of the one packet that was counted since `earlier`; `None` if it was not exactly one.
    pub(crate) fn one_packet_since(&self, earlier: &Self) -> Option<(u8, u8, u8)> {
        let mut found = None;
        for (now, before) in self.0.iter().zip(&earlier.0) {
            let blocks = now.chunks(BLOCK_LEN).zip(before.chunks(BLOCK_LEN)).enumerate();
            for (block, (now, before)) in blocks.filter(|(_, (now, before))| now != before) {
                let words = now.as_chunks::<8>().0.iter().zip(before.as_chunks::<8>().0).enumerate();
                for (word, (now, before)) in words.filter(|(_, (now, before))| now != before) {
                    let packets = u64::from_ne_bytes(*now).wrapping_sub(u64::from_ne_bytes(*before));
                    if packets != 1 || found.is_some() {
                        return None;
                    }
                    found = Some(numbers_of(block * BLOCK_LEN / 8 + word));
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(cells: &[(usize, u64)]) -> Vec<u8> {
        let mut words = vec![0_u64; CELLS];
        for &(cell, packets) in cells {
            words[cell] = packets;
        }
        words.into_iter().flat_map(u64::to_ne_bytes).collect()
    }

    #[test]
    fn a_cell_is_found_under_its_three_numbers() {
        let cell = (6 * VERDICTS + 3) * REASONS + 21;
        let counters = Counters::sum(&Tables(vec![table(&[(cell, 5)]), table(&[(cell, 7), (0, 1)])]));
        assert_eq!(counters.packets(6, 3, 21), 12);
        assert_eq!(counters.iter().collect::<Vec<_>>(), [(0, 0, 0, 1), (6, 3, 21, 12)]);
        assert_eq!(counters.total(), 13);
        assert_eq!(
            (counters.packets(16, 0, 0), counters.packets(0, 6, 0), counters.packets(0, 0, 32)),
            (0, 0, 0)
        );
    }

    #[test]
    fn only_a_ring_s_class_with_verdict_pass_lacked_metadata() {
        let at = |class: usize, verdict: usize| (class * VERDICTS + verdict) * REASONS + 1;
        let counters = Counters::sum(&Tables(vec![table(&[(at(0, 0), 1), (at(12, 4), 2), (at(15, 4), 4)])]));
        assert_eq!(counters.without_metadata(), 0);
        let counters = Counters::sum(&Tables(vec![table(&[(at(0, 4), 1), (at(11, 4), 2), (at(12, 4), 4)])]));
        assert_eq!(counters.without_metadata(), 3);
    }

    #[test]
    fn a_difference_has_only_what_was_counted_between() {
        let earlier = Counters::sum(&Tables(vec![table(&[(1, 5), (2, 1)])]));
        let later = Counters::sum(&Tables(vec![table(&[(1, 8), (2, 1)])]));
        assert_eq!(later.since(&earlier).iter().collect::<Vec<_>>(), [(0, 0, 1, 3)]);
    }
    #[test]
    fn one_packet_is_found_wherever_it_was_counted_and_two_are_not() {
        let earlier = Tables(vec![table(&[(5, 1)]), table(&[])]);
        for cell in 0..CELLS {
            let later = Tables(vec![table(&[(5, 1)]), table(&[(cell, 1)])]);
            assert_eq!(later.one_packet_since(&earlier), Some(numbers_of(cell)), "cell {cell}");
        }
        assert_eq!(earlier.one_packet_since(&earlier), None);
        assert_eq!(Tables(vec![table(&[(5, 3)]), table(&[])]).one_packet_since(&earlier), None);
        assert_eq!(Tables(vec![table(&[(5, 2)]), table(&[(5, 1)])]).one_packet_since(&earlier), None);
    }
}
