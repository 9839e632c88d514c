//! Sums of many positive numbers of any magnitude, sequences that leave the range of a float on their way, halving and
//! rounding.

/// A sum that is exact to the last digit or two however many terms there are (Neumaier, ZAMM 54, 1974).
pub(crate) fn sum(terms: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0_f64, 0.0_f64);
    for term in terms {
        let next = sum + term;
        lost += if sum.abs() >= term.abs() { (sum - next) + term } else { (term - next) + sum };
        sum = next;
    }
    // An infinite sum has lost "infinity less infinity".
    if sum.is_finite() { sum + lost } else { sum }
}

/// ln Σ e^x; −∞ for no terms.
pub(crate) fn log_sum_exp(logs: &[f64]) -> f64 {
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    largest + sum(logs.iter().map(|log| (log - largest).exp())).ln()
}

/// The last number of a range for which something holds that holds up to there, by halving.
pub(crate) fn last<E>(
    from: u32,
    to: u32,
    mut holds: impl FnMut(u32) -> Result<bool, E>,
) -> Result<Option<u32>, E> {
    // Most often all of the range will do, or nothing.
    if from > to || !holds(from)? {
        return Ok(None);
    }
    if holds(to)? {
        return Ok(Some(to));
    }
    let (mut found, mut beyond) = (from, to);
    while found + 1 < beyond {
        let middle = found.midpoint(beyond);
        if holds(middle)? { found = middle } else { beyond = middle }
    }
    Ok(Some(found))
}

/// Rounded up to so many digits.
pub(crate) fn up(value: f64, digits: i32) -> f64 {
    rounded(value, digits, f64::ceil)
}

/// Rounded down to so many digits.
pub(crate) fn down(value: f64, digits: i32) -> f64 {
    rounded(value, digits, f64::floor)
}

fn rounded(value: f64, digits: i32, round: fn(f64) -> f64) -> f64 {
    // 0 has no first digit.
    if value <= 0.0 {
        return value;
    }
    let behind = digits - 1 - value.log10().floor() as i32;
    // By its text: the nearest float of the digits, not a product that is next to it.
    let text = format!("{}e{}", round(value * 10_f64.powi(behind)), -behind);
    text.parse().unwrap_or(value)
}

/// Positive numbers, each made from those before it, of which the next may be e^100 times the last.
///
/// They are kept relative to a scale that moves with the newest ones; what is too old to matter may underflow. The
/// logarithms stand for good.
#[derive(Debug)]
pub(crate) struct LogSequence {
    /// How many of the newest numbers are still of use for the next.
    window: usize,
    relative: Vec<f64>,
    log_scale: f64,
    logs: Vec<f64>,
}

/// Relative numbers stay between this and its inverse, so that products of two of them do not overflow.
const RELATIVE_MAX: f64 = 1e100;

impl LogSequence {
    pub(crate) fn new(window: usize, capacity: usize) -> Self {
        Self {
            window,
            relative: Vec::with_capacity(capacity),
            log_scale: 0.0,
            logs: Vec::with_capacity(capacity),
        }
    }

    /// Adds a number that is relative to the present scale, as those of `relative` are.
    pub(crate) fn push(&mut self, relative: f64) {
        self.relative.push(relative);
        self.logs.push(relative.ln() + self.log_scale);
        if (1.0 / RELATIVE_MAX..RELATIVE_MAX).contains(&relative) {
            return;
        }
        let first = self.relative.len().saturating_sub(self.window);
        let recent = &mut self.relative[first..];
        let largest = recent.iter().copied().fold(0.0, f64::max);
        if largest > 0.0 && !(1.0 / RELATIVE_MAX..RELATIVE_MAX).contains(&largest) {
            recent.iter_mut().for_each(|number| *number /= largest);
            self.log_scale += largest.ln();
        }
    }

    /// All numbers relative to the present scale; only the newest `window` of them are right.
    pub(crate) fn relative(&self) -> &[f64] {
        &self.relative
    }

    /// What a number is at the present scale.
    pub(crate) fn to_relative(&self, number: f64) -> f64 {
        // 0 stays 0 also where the scale itself has left the range of a float.
        if number > 0.0 { (number.ln() - self.log_scale).exp() } else { 0.0 }
    }

    /// The logarithm of what is 1 at the present scale.
    pub(crate) const fn log_scale(&self) -> f64 {
        self.log_scale
    }

    /// The logarithms of all numbers.
    pub(crate) fn into_logs(self) -> Vec<f64> {
        self.logs
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::{LogSequence, down, last, log_sum_exp, sum, up};

    #[test]
    fn small_terms_are_not_lost_beside_large_ones() {
        assert_eq!(sum([1.0, 1e100, 1.0, -1e100]), 2.0);
        assert!((sum(std::iter::repeat_n(0.1, 1_000_000)) - 1e5).abs() < 1e-10);
        assert_eq!(sum([f64::INFINITY, 1.0]), f64::INFINITY);
    }

    #[test]
    fn the_last_that_holds_is_found_wherever_it_lies() {
        for end in 0..12 {
            let Ok(found) = last::<Infallible>(2, 9, |number| Ok(number < end));
            assert_eq!(found, (3..=10).contains(&end).then(|| end - 1).or((end > 10).then_some(9)), "{end}");
        }
        let Ok(none) = last::<Infallible>(3, 2, |_| Ok(true));
        assert_eq!(none, None);
        assert_eq!(last(0, 5, |number| if number < 5 { Ok(true) } else { Err(number) }), Err(5));
    }

    #[test]
    fn rounding_keeps_its_digits_and_its_side() {
        let given = [0.266_66, 0.8, 0.009_99, 0.09, 0.0];
        assert_eq!(given.map(|value| down(value, 2)), [0.26, 0.8, 0.0099, 0.09, 0.0]);
        assert_eq!(given.map(|value| up(value, 2)), [0.27, 0.8, 0.01, 0.09, 0.0]);
        assert_eq!((up(1.23456e-7, 4), down(1.23456e-7, 4)), (1.235e-7, 1.234e-7));
        assert_eq!((up(12_345.6, 4), down(12_345.6, 4)), (12_350.0, 12_340.0));
        assert_eq!((up(0.5, 4), down(0.5, 4)), (0.5, 0.5));
    }

    #[test]
    fn sums_of_exponentials_leave_no_range() {
        assert_eq!(log_sum_exp(&[]), f64::NEG_INFINITY);
        assert!((log_sum_exp(&[5_000.0, 5_000.0]) - 5_000.0 - 2_f64.ln()).abs() < 1e-12);
        assert!((log_sum_exp(&[-5_000.0, f64::NEG_INFINITY]) + 5_000.0).abs() < 1e-12);
    }

    #[test]
    fn a_sequence_grows_and_falls_past_the_range_of_a_float() {
        for factor in [1e60_f64, 1e-60, 1e150, 0.5] {
            let mut sequence = LogSequence::new(2, 50);
            sequence.push(1.0);
            for _ in 1..50 {
                let last = *sequence.relative().last().unwrap();
                sequence.push(last * factor);
            }
            assert_eq!(sequence.to_relative(0.0), 0.0);
            let one = sequence.to_relative(1.0).ln();
            assert!(one.is_infinite() || (one + sequence.log_scale()).abs() < 1e-9);
            for (step, log) in sequence.into_logs().into_iter().enumerate() {
                assert!((log - step as f64 * factor.ln()).abs() < 1e-9, "{factor} {step} {log}");
            }
        }
    }
}
