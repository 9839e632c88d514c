//! Which parameters a model takes, and what is said when one is outside its range.
//!
//! A name is spelled as the option of `sipweir model` that sets it, so that one message serves library and command.

use std::fmt::Display;

use overload::Levels;

/// A parameter outside its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} {value} must be {range}")]
pub struct ParameterError {
    /// The parameter, spelled as the option of `sipweir model`.
    pub name: &'static str,
    /// What it was.
    pub value: String,
    /// What it may be.
    pub range: String,
}

impl ParameterError {
    pub(crate) fn new(name: &'static str, value: impl Display, range: impl Display) -> Self {
        Self { name, value: value.to_string(), range: range.to_string() }
    }
}

/// Rates and times that a float carries without loss through every formula; no server is near either end.
const POSITIVE_MIN: f64 = 1e-9;
const POSITIVE_MAX: f64 = 1e12;

/// The longest buffer: what is kept for each place (40 bytes) stays below the memory of a small machine.
pub const BUFFER_MAX: u32 = 1_000_000;

/// A rate per second or a time in seconds, above 0.
pub(crate) fn positive(name: &'static str, value: f64) -> Result<f64, ParameterError> {
    if (POSITIVE_MIN..=POSITIVE_MAX).contains(&value) {
        return Ok(value);
    }
    Err(ParameterError::new(name, value, "a number above 0 (between 1e-9 and 1e12)"))
}

/// A probability or a share.
pub(crate) fn share(name: &'static str, value: f64) -> Result<f64, ParameterError> {
    if (0.0..=1.0).contains(&value) {
        return Ok(value);
    }
    Err(ParameterError::new(name, value, "between 0 and 1"))
}

/// A buffer in messages of at least `min`.
pub(crate) fn buffer(value: u32, min: u32) -> Result<u32, ParameterError> {
    if (min..=BUFFER_MAX).contains(&value) {
        return Ok(value);
    }
    Err(ParameterError::new("buffer", value, format_args!("between {min} and {BUFFER_MAX} messages")))
}

/// L, H and B with 0 < L ≤ H < B.
///
/// # Errors
/// The first that is out of order or too large.
pub fn levels(low: u32, high: u32, buffer: u32) -> Result<Levels, ParameterError> {
    self::buffer(buffer, 2)?;
    if !(1..buffer).contains(&high) {
        let range = format_args!("between 1 and {} (below buffer {buffer})", buffer - 1).to_string();
        return Err(ParameterError::new("high", high, range));
    }
    if !(1..=high).contains(&low) {
        return Err(ParameterError::new("low", low, format_args!("between 1 and high {high}")));
    }
    Levels::new(low, high, buffer).map_err(|error| ParameterError::new("buffer", buffer, error))
}

#[cfg(test)]
mod tests {
    use super::{levels, positive, share};

    #[test]
    fn what_is_no_number_is_in_no_range() {
        for value in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
            let error = positive("arrival-rate", value).unwrap_err();
            assert_eq!((error.name, error.value), ("arrival-rate", value.to_string()));
        }
        assert!(share("admit", f64::NAN).is_err());
        assert_eq!(share("admit", 1.6).unwrap_err().to_string(), "admit 1.6 must be between 0 and 1");
    }

    #[test]
    fn levels_out_of_order_are_named_one_at_a_time() {
        assert_eq!(levels(1, 1, 2).unwrap().as_tuple(), (1, 1, 2));
        for ((low, high, buffer), message) in [
            ((90, 85, 100), "low 90 must be between 1 and high 85"),
            ((0, 85, 100), "low 0 must be between 1 and high 85"),
            ((74, 100, 100), "high 100 must be between 1 and 99 (below buffer 100)"),
            ((1, 1, 1), "buffer 1 must be between 2 and 1000000 messages"),
        ] {
            assert_eq!(levels(low, high, buffer).unwrap_err().to_string(), message);
        }
    }
}
