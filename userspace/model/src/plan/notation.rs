//! Values with a notation of their own: rates, thresholds, times.

use std::fmt;

use overload::{Nanos, Threshold};
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use super::PlanError;
use crate::simulate::Rate;

/// λ or μ.
#[derive(Debug, Clone)]
pub(super) struct RateValue(pub(super) Rate);

/// L, H or B.
#[derive(Debug, Clone, Copy)]
pub(super) struct ThresholdValue(pub(super) Threshold);

/// A number or a text with a notation of its own.
struct Notation<T>(std::marker::PhantomData<T>);

trait FromNotation: Sized {
    const EXPECTED: &'static str;
    fn number(number: f64) -> Option<Self>;
    fn text(text: &str) -> Result<Self, String>;
}

impl FromNotation for RateValue {
    const EXPECTED: &'static str = "a rate such as 200, \"steps 0:100, 30:1000\" or \"mmpp 1300:1, 500:1\"";

    fn number(number: f64) -> Option<Self> {
        Some(Self(Rate::Constant(number)))
    }

    fn text(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error: crate::simulate::ParseRateError| error.to_string())
    }
}

impl FromNotation for ThresholdValue {
    const EXPECTED: &'static str = "a count of messages such as 700 or a time such as \"350ms\"";

    fn number(number: f64) -> Option<Self> {
        let whole = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
        whole.then_some(Self(Threshold::Messages(number as u32)))
    }

    fn text(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error: overload::ParseThresholdError| error.to_string())
    }
}

impl<T: FromNotation> Visitor<'_> for Notation<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        T::number(number).ok_or_else(|| E::invalid_value(de::Unexpected::Float(number), &self))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_f64(number as f64)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        T::text(text).map_err(E::custom)
    }
}

macro_rules! by_notation {
    ($($name:ty),*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Notation(std::marker::PhantomData))
            }
        }
    )*};
}

by_notation!(RateValue, ThresholdValue);

/// A time in milliseconds; `key` and `name` say whose.
pub(super) fn span(key: &str, name: &str, ms: f64) -> Result<Nanos, PlanError> {
    if (0.0..=1e9).contains(&ms) {
        Ok((ms * 1e6).round() as Nanos)
    } else {
        Err(PlanError(format!("{key}.{name}: {ms} is out of range; give milliseconds from 0 to 1000000000")))
    }
}
