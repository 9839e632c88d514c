//! Who is on one list, and until when: pure, with the time as a parameter.
//!
//! A table says which [`Step`]s lead from what it was to what it is; the keeper does them in the kernel. What changes whole
//! files first makes the table that would be, so that a step that fails leaves the old one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::file::Networks;
use crate::prefix::Prefix;

/// Seconds since 1970, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(pub i64);

/// When a network leaves a list. The order is that of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Until {
    /// From this time on it is not on the list.
    Time(Seconds),
    /// It stays.
    Ever,
}

impl Until {
    fn is_over(self, now: Seconds) -> bool {
        matches!(self, Self::Time(end) if end <= now)
    }
}

/// Where a network on a list is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// From a file: the next reload decides on it.
    File,
    /// Added by command: it stays at reloads, and is forgotten at the end of the instance.
    Command,
}

impl Origin {
    /// In one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Command => "command",
        }
    }
}

/// A change in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Into the list.
    Enter(Prefix),
    /// Out of it.
    Leave(Prefix),
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    until: Until,
    origin: Origin,
}

/// A list.
#[derive(Debug, Clone, Default)]
pub struct Table {
    entries: BTreeMap<Prefix, Entry>,
    /// Those that end, the earliest first.
    ends: BTreeSet<(Seconds, Prefix)>,
}

impl Table {
    /// Networks on the list.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Networks with their end and where they are from, in order, from the first behind `after` on.
    pub fn iter_from(&self, after: Option<Prefix>) -> impl Iterator<Item = (Prefix, Until, Origin)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let range = (after.map_or(Unbounded, Excluded), Unbounded);
        self.entries.range(range).map(|(network, entry)| (*network, entry.until, entry.origin))
    }

    /// The same list with these networks instead of those that came from files, and what leads there: first who enters.
    /// What was added by command stays; what is over does not enter.
    #[must_use]
    pub fn with_files(&self, networks: &Networks, now: Seconds) -> (Self, Vec<Step>) {
        let mut next = Self::default();
        let commanded = self.iter_from(None).filter(|(.., origin)| *origin == Origin::Command);
        for (network, until, origin) in commanded {
            next.put(network, Entry { until, origin });
        }
        for (network, until) in networks {
            if until.is_over(now) || next.entries.contains_key(network) {
                continue;
            }
            next.put(*network, Entry { until: *until, origin: Origin::File });
        }
        let entering = next.entries.keys().filter(|network| !self.entries.contains_key(network));
        let leaving = self.entries.keys().filter(|network| !next.entries.contains_key(network));
        let steps = entering.map(|n| Step::Enter(*n)).chain(leaving.map(|n| Step::Leave(*n))).collect();
        (next, steps)
    }

    /// Adds a network by command, or gives it another end. True if it was not there.
    pub fn add(&mut self, network: Prefix, until: Until) -> bool {
        self.put(network, Entry { until, origin: Origin::Command }).is_none()
    }

    /// Takes a network out, wherever it is from. False if it is not there.
    pub fn remove(&mut self, network: Prefix) -> bool {
        let Some(entry) = self.entries.remove(&network) else { return false };
        self.forget_end(network, entry);
        true
    }

    /// Whether this very network is on the list.
    #[must_use]
    pub fn origin_of(&self, network: Prefix) -> Option<Origin> {
        self.entries.get(&network).map(|entry| entry.origin)
    }

    /// The longest network on the list that holds this one, or is it.
    #[must_use]
    pub fn holder_of(&self, network: Prefix) -> Option<Prefix> {
        (0..=network.bits())
            .rev()
            .map(|bits| network.cut(bits))
            .find(|other| self.entries.contains_key(other))
    }

    /// Whether anything on it ends at some time.
    #[must_use]
    pub fn has_ends(&self) -> bool {
        !self.ends.is_empty()
    }

    /// Takes out those whose time is over, at most `most`, the earliest first.
    pub fn expire(&mut self, now: Seconds, most: usize) -> Vec<Prefix> {
        let over = self.ends.iter().take_while(|(end, _)| *end <= now).take(most);
        let over: Vec<Prefix> = over.map(|(_, network)| *network).collect();
        for network in &over {
            self.remove(*network);
        }
        over
    }

    fn put(&mut self, network: Prefix, entry: Entry) -> Option<Entry> {
        let known = self.entries.insert(network, entry);
        if let Some(known) = known {
            self.forget_end(network, known);
        }
        if let Until::Time(end) = entry.until {
            self.ends.insert((end, network));
        }
        known
    }

    fn forget_end(&mut self, network: Prefix, entry: Entry) {
        if let Until::Time(end) = entry.until {
            self.ends.remove(&(end, network));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{Networks, Origin, Prefix, Seconds, Step, Table, Until};

    const NOW: Seconds = Seconds(1000);

    fn network(last: u8) -> Prefix {
        format!("192.0.2.{last}").parse().expect("a network")
    }

    fn at(second: i64) -> Until {
        Until::Time(Seconds(second))
    }

    fn networks<const N: usize>(of: [(u8, Until); N]) -> Networks {
        of.into_iter().map(|(last, until)| (network(last), until)).collect()
    }

    #[test]
    fn files_replace_files_and_leave_what_was_added() {
        let mut table = Table::default();
        assert!(table.add(network(9), Until::Ever));
        let files = networks([(1, Until::Ever), (2, at(2000)), (3, at(1000))]);
        let (mut table, steps) = table.with_files(&files, NOW);
        assert_eq!(steps, [Step::Enter(network(1)), Step::Enter(network(2))], "the third is over");
        assert!(!table.add(network(2), Until::Ever), "it is there, and the operator's from now on");
        let (table, steps) = table.with_files(&networks([(2, at(1500)), (4, Until::Ever)]), NOW);
        assert_eq!(steps, [Step::Enter(network(4)), Step::Leave(network(1))]);
        let found: Vec<_> = table.iter_from(None).collect();
        let expected = [(2, Origin::Command), (4, Origin::File), (9, Origin::Command)];
        assert_eq!(found, expected.map(|(last, origin)| (network(last), Until::Ever, origin)));
        assert_eq!(table.iter_from(Some(network(4))).count(), 1);
    }

    #[test]
    fn what_is_over_leaves_the_earliest_first_and_no_more_than_asked_for() {
        let files = networks([(1, at(1003)), (2, at(1001)), (3, at(1002)), (4, Until::Ever)]);
        let (mut table, _) = Table::default().with_files(&files, NOW);
        assert_eq!(table.expire(NOW, 10), []);
        assert_eq!(table.expire(Seconds(1002), 1), [network(2)]);
        assert_eq!(table.expire(Seconds(1002), 10), [network(3)]);
        assert_eq!(table.expire(Seconds(9000), 10), [network(1)]);
        assert_eq!((table.len(), table.origin_of(network(4))), (1, Some(Origin::File)));
    }

    #[test]
    fn a_network_is_held_by_the_longest_that_is_there() {
        let mut table = Table::default();
        for text in ["192.0.0.0/8", "192.0.2.0/24", "::/0"] {
            table.add(text.parse().expect(text), Until::Ever);
        }
        let held = |text: &str| table.holder_of(text.parse().expect(text)).map(|holder| holder.to_string());
        assert_eq!(held("192.0.2.7").as_deref(), Some("192.0.2.0/24"));
        assert_eq!(held("192.0.2.0/24").as_deref(), Some("192.0.2.0/24"));
        assert_eq!(held("192.0.0.0/16").as_deref(), Some("192.0.0.0/8"));
        assert_eq!(held("2001:db8::1").as_deref(), Some("::/0"));
        assert_eq!(held("193.0.0.1"), None);
    }

    #[test]
    fn another_end_replaces_the_first() {
        let mut table = Table::default();
        table.add(network(1), at(1001));
        table.add(network(1), at(1005));
        assert_eq!(table.expire(Seconds(1004), 10), []);
        table.add(network(1), Until::Ever);
        assert_eq!(table.expire(Seconds(9000), 10), []);
        assert!(table.remove(network(1)));
        assert!(!table.remove(network(1)));
        assert!(table.is_empty());
    }

    proptest! {
        /// Steps, done one by one on a set, lead to what the table says; and ends are those of what is there.
        #[test]
        fn steps_lead_from_one_table_to_the_next(
            changes in proptest::collection::vec((0_u8..4, 0_u8..12, any::<bool>(), 1000_i64..1010), 0..60),
        ) {
            let mut table = Table::default();
            let mut kernel = BTreeSet::new();
            for (what, last, ever, second) in changes {
                let until = if ever { Until::Ever } else { at(second) };
                match what {
                    0 => {
                        let files = networks([(last, until), (last / 2, Until::Ever), (last + 1, at(second))]);
                        let (next, steps) = table.with_files(&files, NOW);
                        for step in steps {
                            let done = match step {
                                Step::Enter(network) => kernel.insert(network),
                                Step::Leave(network) => kernel.remove(&network),
                            };
                            proptest::prop_assert!(done);
                        }
                        table = next;
                    }
                    1 => prop_assert_eq!(table.add(network(last), until), kernel.insert(network(last))),
                    2 => prop_assert_eq!(table.remove(network(last)), kernel.remove(&network(last))),
                    _ => for network in table.expire(Seconds(second), 3) {
                        proptest::prop_assert!(kernel.remove(&network));
                    },
                }
                let found: BTreeSet<Prefix> = table.iter_from(None).map(|(network, ..)| network).collect();
                prop_assert_eq!(&found, &kernel);
                let ends = table.iter_from(None).filter(|(_, until, _)| *until != Until::Ever).count();
                prop_assert_eq!(table.ends.len(), ends);
            }
        }
    }
}
