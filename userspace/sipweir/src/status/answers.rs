//! What a server answers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use overload::quantile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xdp_prog::{AnswerCounters, answer_bounds_s};

/// Names of status classes, as labels; at 0 what is none of them.
pub const STATUS_CLASSES: [&str; 7] = ["other", "1xx", "2xx", "3xx", "4xx", "5xx", "6xx"];

/// Answers of a service's server that left by the guarded interface, since start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Answers {
    /// By status class: `1xx` to `6xx`, and `other`.
    pub by_class: BTreeMap<String, u64>,
    /// Those of `5xx` that are 503: the server's own refusals.
    pub unavailable: u64,
    /// Times from hand-over to the first answer, of those requests that were picked.
    pub time: AnswerTime,
}

/// Times to the first answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AnswerTime {
    /// How many were measured.
    pub count: u64,
    /// Their sum, seconds.
    pub sum_s: f64,
    /// What half of them do not exceed, milliseconds; absent if none was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    /// What nine of ten do not exceed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p90_ms: Option<f64>,
    /// What 99 of a hundred do not exceed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
    /// By length: as long as the bound with the same index in `answer_bounds_s` or shorter, but longer than the one before;
    /// the last are those longer than all bounds.
    pub buckets: Vec<u64>,
}

impl Answers {
    /// By the counters of all addresses of the service.
    #[must_use]
    pub fn of(counters: &AnswerCounters) -> Self {
        let by_class = STATUS_CLASSES.iter().zip(counters.classes);
        let quantile_ms = |q| Some(1e3 * quantile(&counters.times, &answer_bounds_s(), q)?);
        Self {
            by_class: by_class.map(|(class, count)| ((*class).to_owned(), count)).collect(),
            unavailable: counters.unavailable,
            time: AnswerTime {
                count: counters.times.iter().sum(),
                sum_s: counters.time_us as f64 / 1e6,
                p50_ms: quantile_ms(0.5),
                p90_ms: quantile_ms(0.9),
                p99_ms: quantile_ms(0.99),
                buckets: counters.times.into(),
            },
        }
    }

    /// Those that end a transaction; `1xx` only say that it goes on.
    #[must_use]
    pub fn finals(&self) -> u64 {
        let is_final = |class: &str| !matches!(class, "other" | "1xx");
        self.by_class.iter().filter(|(class, _)| is_final(class)).map(|(_, count)| count).sum()
    }

    pub(super) fn write_text(&self, out: &mut String) -> std::fmt::Result {
        let counted = self.by_class.iter().filter(|(_, count)| **count > 0);
        let counted: Vec<String> = counted.map(|(class, count)| format!("{class} {count}")).collect();
        if counted.is_empty() {
            return writeln!(out, "  answers: none yet");
        }
        write!(out, "  answers: {}; own 503 {}", counted.join(", "), self.unavailable)?;
        if let AnswerTime { p50_ms: Some(half), p90_ms: Some(most), p99_ms: Some(nearly_all), .. } = self.time
        {
            write!(out, "; first answer after {half:.1} / {most:.1} / {nearly_all:.1} ms (50, 90, 99 %)")?;
        }
        writeln!(out)
    }
}

#[cfg(test)]
mod tests {
    use xdp_prog::AnswerCounters;

    use super::Answers;

    #[test]
    fn counts_have_their_names_and_times_their_quantiles() {
        let mut counters =
            AnswerCounters { classes: [0, 5, 4, 0, 1, 2, 0], unavailable: 2, ..Default::default() };
        // Ten in (1.024 ms, 1.536 ms].
        counters.times[9] = 10;
        counters.time_us = 12_800;
        let answers = Answers::of(&counters);
        assert_eq!((answers.by_class["1xx"], answers.by_class["5xx"], answers.by_class["6xx"]), (5, 2, 0));
        assert_eq!(answers.finals(), 7);
        assert_eq!((answers.time.count, answers.time.sum_s), (10, 0.0128));
        assert!(answers.time.p50_ms.is_some_and(|half| (half - 1.28).abs() < 1e-9), "{answers:?}");
        let mut text = String::new();
        answers.write_text(&mut text).expect("a string");
        assert_eq!(
            text,
            "  answers: 1xx 5, 2xx 4, 4xx 1, 5xx 2; own 503 2; first answer after 1.3 / 1.5 / 1.5 ms (50, 90, 99 %)\n"
        );
    }

    #[test]
    fn without_answers_nothing_is_made_up() {
        let answers = Answers::of(&AnswerCounters::default());
        assert_eq!(answers.time.p50_ms, None);
        let mut text = String::new();
        answers.write_text(&mut text).expect("a string");
        assert_eq!(text, "  answers: none yet\n");
    }
}
