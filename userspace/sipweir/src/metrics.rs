//! What monitoring systems scrape: every metric declared once, with its name, kind, unit, labels, sentence and source.
//!
//! ```text
//!  Status ──▶ table (metrics/table)   ──▶ encode ──▶ serve (HTTP, loopback or Unix socket)
//!                      └──▶ page (docs/metrics.md)
//! ```
//!
//! A metric is read from the same [`Status`] that `sipweir status --json` prints, so what one shows the other has, too. Names are
//! promises to dashboards: a metric is added, never renamed. Labels have closed sets of values (the enums of the packet
//! path), but for those that the configuration names. Nothing here is called by a worker.

mod encode;
mod labels;
mod page;
mod serve;
mod table;

pub use encode::{CONTENT_TYPE, text};
pub use labels::{Label, Values};
pub use page::page;
pub use serve::{Endpoint, ServeError, Serving};
pub use table::metrics;

use crate::status::Status;

/// In front of every name.
pub const PREFIX: &str = "sipweir";

/// What a number means over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows while an instance lives.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by length.
    Histogram,
    /// Is always 1; its labels are what it says.
    Info,
}

impl Kind {
    /// The word of OpenMetrics for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }

    /// What the names of its samples have behind the metric's own.
    #[must_use]
    pub const fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Counter => &["_total"],
            Self::Gauge => &[""],
            Self::Histogram => &["_bucket", "_count", "_sum"],
            Self::Info => &["_info"],
        }
    }
}

/// A metric family.
#[derive(Debug)]
pub struct Metric {
    /// Without prefix, unit and suffix.
    pub name: &'static str,
    /// What its numbers mean over time.
    pub kind: Kind,
    /// The base unit, which ends the name; without one it counts things.
    pub unit: Option<&'static str>,
    /// In the order in which samples give their values.
    pub labels: &'static [Label],
    /// What it counts or measures.
    pub sentence: &'static str,
    /// Its samples.
    pub(crate) read: fn(&Status, &mut Samples),
}

impl Metric {
    /// The name of the family, with prefix and unit.
    #[must_use]
    pub fn family(&self) -> String {
        let unit = self.unit.map_or_else(String::new, |unit| format!("_{unit}"));
        format!("{PREFIX}_{}{unit}", self.name)
    }

    /// The names of its samples, as they stand in queries.
    #[must_use]
    pub fn sample_names(&self) -> Vec<String> {
        let family = self.family();
        self.kind.suffixes().iter().map(|suffix| format!("{family}{suffix}")).collect()
    }

    /// Its samples in a status.
    #[must_use]
    pub fn samples(&self, status: &Status) -> Vec<Sample> {
        let mut samples = Samples { expected: self.labels.len(), found: Vec::new() };
        (self.read)(status, &mut samples);
        samples.found
    }
}

/// One number with its labels' values.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// In the order of the metric's labels.
    pub values: Vec<String>,
    /// The number.
    pub value: Value,
}

/// What a sample says.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A count.
    Whole(u64),
    /// A measure.
    Real(f64),
    /// Waits: upper bound and count of each bucket, not added up, and their sum.
    Waits {
        /// The bound of the last is infinite.
        buckets: Vec<(f64, u64)>,
        /// Seconds.
        sum_s: f64,
    },
}

/// Collects the samples of one metric.
#[derive(Debug)]
pub(crate) struct Samples {
    expected: usize,
    found: Vec<Sample>,
}

impl Samples {
    fn add<T: Into<String>>(&mut self, values: impl IntoIterator<Item = T>, value: Value) {
        let values: Vec<String> = values.into_iter().map(Into::into).collect();
        debug_assert_eq!(values.len(), self.expected, "{values:?}");
        self.found.push(Sample { values, value });
    }

    fn whole<const N: usize>(&mut self, values: [&str; N], value: u64) {
        self.add(values, Value::Whole(value));
    }

    fn real<const N: usize>(&mut self, values: [&str; N], value: f64) {
        self.add(values, Value::Real(value));
    }
}

#[cfg(test)]
mod tests;
