//! Numbers for people: so many digits that count, and times in a unit that keeps them short.
//!
//! For standard output and for tables. Ticks of plots have thousands apart, which is `page/svg.rs`; what is aligned by its
//! digits keeps its zeros, which is `model/table.rs`.

/// So many digits that count, without needless zeros; powers of ten for what is far below 1. The value is finite.
pub(crate) fn digits(value: f64, count: i32) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let first = value.abs().log10().floor() as i32;
    if first < -4 {
        return format!("{value:.*e}", usize::try_from(count - 1).unwrap_or(0));
    }
    let text = format!("{value:.*}", usize::try_from(count - 1 - first).unwrap_or(0));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// The unit for a time, in seconds, and its sign.
pub(crate) fn unit_of(time_s: f64) -> (f64, &'static str) {
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")];
    units.into_iter().find(|(unit_s, _)| time_s.abs() >= *unit_s).unwrap_or(units[0])
}

/// A time with so many digits that count.
pub(crate) fn time(time_s: f64, count: i32) -> String {
    let (unit_s, unit) = unit_of(time_s);
    format!("{} {unit}", digits(time_s / unit_s, count))
}

#[cfg(test)]
mod tests {
    use super::{digits, time};

    #[test]
    fn numbers_have_the_digits_that_count() {
        let shown = [0.0, 2.0 / 3.0, 3000.0, 12_345.6, 2.6619e-5, 0.001].map(|value| digits(value, 4));
        assert_eq!(shown, ["0", "0.6667", "3000", "12346", "2.662e-5", "0.001"]);
        let shown = [1234.567, 0.012_345_67, 2.5, 1e-6, 120_401.4, -3.0].map(|value| digits(value, 5));
        assert_eq!(shown, ["1234.6", "0.012346", "2.5", "1.0000e-6", "120401", "-3"]);
    }

    #[test]
    fn times_have_a_fitting_unit() {
        let times = [0.3818, 1.5, 9.096e-4, 0.0, -0.25, 2e-7].map(|time_s| time(time_s, 4));
        assert_eq!(times, ["381.8 ms", "1.5 s", "909.6 µs", "0 s", "-250 ms", "2.000e-7 s"]);
    }
}
