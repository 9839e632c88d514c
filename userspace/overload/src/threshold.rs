//! A length of the waiting line, as a number of messages or as the time the server needs for them.

use std::fmt;
use std::str::FromStr;

use crate::{NANOS_PER_S, Nanos};

/// How long a waiting line may be.
///
/// A time says what the operator means (below T1 = 500 ms nobody sends a copy) and follows the server when it gets
/// slower or faster; a number of messages is what the models use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Threshold {
    /// So many messages.
    Messages(u32),
    /// As many messages as the measured service rate serves in this time, at least one.
    Time(Nanos),
}

impl Threshold {
    /// The number of messages at this service rate, rounded to the nearest and never below 1 for a time.
    #[must_use]
    pub fn messages_at(self, rate_per_s: f64) -> u32 {
        match self {
            Self::Messages(count) => count,
            // A float-to-integer cast saturates, and takes "not a number" to 0.
            Self::Time(span_ns) => ((rate_per_s * span_ns as f64 / NANOS_PER_S as f64).round() as u32).max(1),
        }
    }

    /// True for a length of zero, which no threshold may have.
    pub(crate) const fn is_zero(self) -> bool {
        matches!(self, Self::Messages(0) | Self::Time(0))
    }
}

/// Units by their suffix, each with its length and the digits that may follow a decimal point.
/// Longer suffixes come first, since `s` ends them all.
const UNITS: [(&str, Nanos, usize); 4] =
    [("ns", 1, 0), ("us", 1_000, 3), ("ms", 1_000_000, 6), ("s", NANOS_PER_S, 9)];

/// A threshold that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no threshold: write a number of messages (`700`) or a time (`350ms`, `0.4s`, `250us`)")]
pub struct ParseThresholdError {
    text: String,
}

impl FromStr for Threshold {
    type Err = ParseThresholdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text.trim()).ok_or_else(|| ParseThresholdError { text: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<Threshold> {
    for (suffix, unit_ns, decimals) in UNITS {
        if let Some(number) = text.strip_suffix(suffix) {
            return parse_decimal(number.trim_end(), unit_ns, decimals).map(Threshold::Time);
        }
    }
    digits(text)?.parse().ok().map(Threshold::Messages)
}

/// Exact: more decimals than nanoseconds are refused and not rounded.
fn parse_decimal(number: &str, unit_ns: Nanos, decimals: usize) -> Option<Nanos> {
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) => (whole, digits(fraction)?),
        None => (number, ""),
    };
    if fraction.len() > decimals {
        return None;
    }
    let whole_ns = digits(whole)?.parse::<Nanos>().ok()?.checked_mul(unit_ns)?;
    let scale = (fraction.len()..decimals).fold(1, |scale: Nanos, _| scale * 10);
    let fraction_ns = if fraction.is_empty() { 0 } else { fraction.parse::<Nanos>().ok()? * scale };
    whole_ns.checked_add(fraction_ns)
}

fn digits(text: &str) -> Option<&str> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

impl fmt::Display for Threshold {
    /// The shortest exact form; reading it gives the same threshold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Messages(count) => write!(f, "{count}"),
            Self::Time(span_ns) => {
                let (suffix, unit_ns, _) = UNITS
                    .into_iter()
                    .rev()
                    .find(|(_, unit_ns, _)| span_ns % unit_ns == 0)
                    .unwrap_or(UNITS[0]);
                write!(f, "{}{suffix}", span_ns / unit_ns)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, prop_oneof, proptest};
    use proptest::strategy::Strategy;

    use super::Threshold;

    #[test]
    fn numbers_and_times_are_read() {
        for (text, threshold) in [
            ("700", Threshold::Messages(700)),
            ("350ms", Threshold::Time(350_000_000)),
            ("0.4s", Threshold::Time(400_000_000)),
            (" 1.5 ms ", Threshold::Time(1_500_000)),
            ("250us", Threshold::Time(250_000)),
            ("10ns", Threshold::Time(10)),
            ("0.000000001s", Threshold::Time(1)),
        ] {
            assert_eq!(text.parse(), Ok(threshold), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_text_in_the_message() {
        for text in [
            "",
            "s",
            "-1",
            "1.5",
            "0.4",
            ".5s",
            "1.s",
            "1e3",
            "+7",
            "0.1ns",
            "5m",
            "4294967296",
            "99999999999s",
        ] {
            let error = text.parse::<Threshold>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn a_time_is_the_messages_served_in_it() {
        let threshold = Threshold::Time(350_000_000);
        assert_eq!(threshold.messages_at(200.0), 70);
        assert_eq!(threshold.messages_at(0.0), 1);
        assert_eq!(threshold.messages_at(f64::INFINITY), u32::MAX);
        assert_eq!(Threshold::Messages(5).messages_at(1e9), 5);
    }

    proptest! {
        #[test]
        fn what_is_displayed_reads_back_the_same(
            threshold in prop_oneof![
                any::<u32>().prop_map(Threshold::Messages),
                any::<u64>().prop_map(Threshold::Time),
                (0_u64..1 << 30).prop_map(|ms| Threshold::Time(ms * 1_000_000)),
            ]
        ) {
            prop_assert_eq!(threshold.to_string().parse(), Ok(threshold));
        }
    }
}
