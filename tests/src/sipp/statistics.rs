//! SIPp's statistics file: a row of running totals every second.

use std::time::Duration;

/// Running totals at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Snapshot {
    /// Seconds since 1970.
    pub at_s: f64,
    /// Calls begun.
    pub started: u64,
    /// Calls whose INVITE got a 200.
    pub answered: u64,
    /// Those of `answered` that got it within T1, 500 ms after the first INVITE.
    pub answered_within_t1: u64,
    /// Calls whose BYE got a 200.
    pub completed: u64,
    /// Calls whose INVITE got a 503.
    pub refused: u64,
    /// Calls that were given up: no answer until timer B or F, or an answer that does not fit.
    pub failed: u64,
    /// Requests sent again.
    pub copies: u64,
    /// Calls going on.
    pub in_progress: u64,
}

/// All rows.
#[derive(Debug, Clone, Default)]
pub struct Statistics {
    rows: Vec<Snapshot>,
}

/// What happened between two rows.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    from: Snapshot,
    to: Snapshot,
}

impl Statistics {
    /// Reads the file. A last row that is still being written is left out.
    ///
    /// # Panics
    /// If a column is missing or not a number.
    #[must_use]
    pub fn parse(csv: &str) -> Self {
        let mut lines = csv.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let Some(header) = lines.next() else { return Self::default() };
        let names: Vec<&str> = header.trim_end().split(';').collect();
        let rows =
            lines.map(|line| Row { names: &names, values: line.trim_end().split(';').collect() }.snapshot());
        Self { rows: rows.collect() }
    }

    /// The newest totals; zeros before the first row.
    #[must_use]
    pub fn totals(&self) -> Snapshot {
        self.rows.last().copied().unwrap_or_default()
    }

    /// From the first row to the last.
    #[must_use]
    pub fn duration(&self) -> Duration {
        let begin = self.rows.first().map_or(0.0, |row| row.at_s);
        Duration::from_secs_f64((self.totals().at_s - begin).max(0.0))
    }

    /// What happened from `warm_up` after the first row to the last row. Before SIPp has ended: behind that, the load was
    /// not what was asked for.
    ///
    /// # Panics
    /// If it all lasted no longer than the warm-up.
    #[track_caller]
    #[must_use]
    pub fn after(&self, warm_up: Duration) -> Window {
        let begin = self.rows.first().map_or(0.0, |row| row.at_s) + warm_up.as_secs_f64();
        let from = self.rows.iter().find(|row| row.at_s >= begin).copied();
        let window =
            from.map(|from| Window { from, to: self.totals() }).filter(|window| window.seconds() > 0.0);
        window
            .unwrap_or_else(|| panic!("SIPp ran for {:?}, the warm-up alone is {warm_up:?}", self.duration()))
    }
}

impl Window {
    /// Length.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.to.at_s - self.from.at_s
    }

    /// Calls begun a second.
    #[must_use]
    pub fn started_per_s(&self) -> f64 {
        self.rate(|row| row.started)
    }

    /// Calls completed a second.
    #[must_use]
    pub fn completed_per_s(&self) -> f64 {
        self.rate(|row| row.completed)
    }

    /// Calls refused a second.
    #[must_use]
    pub fn refused_per_s(&self) -> f64 {
        self.rate(|row| row.refused)
    }

    /// Copies sent a second.
    #[must_use]
    pub fn copies_per_s(&self) -> f64 {
        self.rate(|row| row.copies)
    }

    /// The share of the answered calls that were answered within T1; 1 if none was answered.
    #[must_use]
    pub fn share_within_t1(&self) -> f64 {
        let answered = self.to.answered - self.from.answered;
        let within = self.to.answered_within_t1 - self.from.answered_within_t1;
        if answered == 0 { 1.0 } else { within as f64 / answered as f64 }
    }

    fn rate(&self, count: impl Fn(&Snapshot) -> u64) -> f64 {
        (count(&self.to) - count(&self.from)) as f64 / self.seconds()
    }
}

struct Row<'a> {
    names: &'a [&'a str],
    values: Vec<&'a str>,
}

impl Row<'_> {
    fn snapshot(&self) -> Snapshot {
        Snapshot {
            // Date, time and seconds since 1970 in one column, with tabs between.
            at_s: self.number(self.text("CurrentTime").rsplit('\t').next().unwrap_or_default()),
            started: self.count("OutgoingCall(C)"),
            answered: self.count("answered(C)"),
            answered_within_t1: self.count_within_t1(),
            completed: self.count("completed(C)"),
            refused: self.count("refused(C)"),
            failed: self.count("FailedCall(C)"),
            copies: self.count("Retransmissions(C)"),
            in_progress: self.count("CurrentCall"),
        }
    }

    /// Sum of the buckets up to 500 ms. The columns are `ResponseTimeRepartitioninvite_<50` and so on, each without the
    /// ones before it.
    fn count_within_t1(&self) -> u64 {
        let bound = |name: &str| name.strip_prefix("ResponseTimeRepartitioninvite_<")?.parse::<u32>().ok();
        self.names
            .iter()
            .filter(|name| bound(name).is_some_and(|bound| bound <= 500))
            .map(|name| self.count(name))
            .sum()
    }

    fn count(&self, name: &str) -> u64 {
        self.number(self.text(name))
    }

    fn text(&self, name: &str) -> &str {
        let column = self.names.iter().position(|other| *other == name);
        column
            .and_then(|column| self.values.get(column))
            .unwrap_or_else(|| panic!("SIPp wrote no column {name:?}"))
    }

    fn number<N: std::str::FromStr>(&self, text: &str) -> N {
        text.parse()
            .unwrap_or_else(|_| panic!("SIPp wrote {text:?} where a number belongs: {:?}", self.values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "CurrentTime;OutgoingCall(C);FailedCall(C);Retransmissions(C);CurrentCall;answered(C);completed(C);refused(C);\
        ResponseTimeRepartitioninvite;ResponseTimeRepartitioninvite_<200;ResponseTimeRepartitioninvite_<500;ResponseTimeRepartitioninvite_<1000\n\
        2026-01-01\t00:00:00.5\t100.5;0;0;0;0;0;0;0;;0;0;0\n\
        2026-01-01\t00:00:01.5\t101.5;10;0;0;0;10;10;0;;8;1;1\n\
        2026-01-01\t00:00:03.5\t103.5;50;2;6;20;18;14;10;;10;3;5\n\
        2026-01-01\t00:00:04.5\t104.5;60;2";

    #[test]
    fn rates_are_those_behind_the_warm_up_and_a_torn_row_is_left_out() {
        let statistics = Statistics::parse(FILE);
        assert_eq!(statistics.duration(), Duration::from_secs(3));
        assert_eq!((statistics.totals().started, statistics.totals().in_progress), (50, 20));
        let window = statistics.after(Duration::from_secs(1));
        assert_eq!(window.seconds(), 2.0);
        assert_eq!((window.started_per_s(), window.completed_per_s()), (20.0, 2.0));
        assert_eq!((window.refused_per_s(), window.copies_per_s()), (5.0, 3.0));
        assert_eq!(window.share_within_t1(), 0.5);
    }

    #[test]
    fn before_the_first_row_everything_is_zero() {
        let statistics = Statistics::parse("");
        assert_eq!((statistics.totals(), statistics.duration()), (Snapshot::default(), Duration::ZERO));
    }

    #[test]
    #[should_panic(expected = "the warm-up alone is 3s")]
    fn a_window_without_time_is_refused() {
        let _ = Statistics::parse(FILE).after(Duration::from_secs(3));
    }
}
