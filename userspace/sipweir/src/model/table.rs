//! A table of names and numbers for a reader, with units that keep the numbers short.

use std::fmt;

use crate::numbers::unit_of;

/// Rows of a name, a value and what it means.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<[String; 3]>,
}

impl Table {
    /// Adds a number without unit.
    pub(super) fn number(self, name: &str, value: f64, meaning: &str) -> Self {
        self.row(name, short(value), meaning)
    }

    /// Adds a number of messages.
    pub(super) fn count(self, name: &str, value: u32, meaning: &str) -> Self {
        self.row(name, value.to_string(), meaning)
    }

    /// Adds a time; none: not known for this model.
    pub(super) fn time(self, name: &str, value_s: Option<f64>, meaning: &str) -> Self {
        self.row(name, value_s.map_or_else(|| "not known".into(), time), meaning)
    }

    /// Adds a length of the waiting line; infinite: any will do, none: not known.
    pub(super) fn length(self, name: &str, value: Option<f64>, meaning: &str) -> Self {
        let value = match value {
            None => "not known".into(),
            Some(value) if value.is_infinite() => "any".into(),
            Some(value) => short(value),
        };
        self.row(name, value, meaning)
    }

    /// Adds a rate.
    pub(super) fn rate(self, name: &str, value_per_s: f64, meaning: &str) -> Self {
        self.row(name, format!("{}/s", short(value_per_s)), meaning)
    }

    fn row(mut self, name: &str, value: String, meaning: &str) -> Self {
        self.rows.push([name.into(), value, meaning.into()]);
        self
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let (name, value) = (width(0), width(1));
        for row in &self.rows {
            writeln!(formatter, "{:name$}  {:>value$}  {}", row[0], row[1], row[2])?;
        }
        Ok(())
    }
}

/// Six significant digits.
fn short(value: f64) -> String {
    if value.is_nan() {
        return "not known".into();
    }
    if value.is_infinite() {
        return "> 1e308".into();
    }
    if value == 0.0 {
        return "0".into();
    }
    if !(1e-4..1e6).contains(&value.abs()) {
        return format!("{value:.5e}");
    }
    let digits = (5.0 - value.abs().log10().floor()).max(0.0) as usize;
    format!("{value:.digits$}")
}

fn time(value_s: f64) -> String {
    if value_s.is_nan() {
        return short(value_s);
    }
    let (unit_s, unit) = unit_of(value_s);
    format!("{} {unit}", short(value_s / unit_s))
}

#[cfg(test)]
mod tests {
    use super::{Table, short, time};

    #[test]
    fn numbers_keep_six_digits_and_times_a_fitting_unit() {
        let values = [0.0, 0.666_744_769_9, 7.823_957_818e-5, 75.997_745, 123_456.7, 1e9];
        assert_eq!(values.map(short), ["0", "0.666745", "7.82396e-5", "75.9977", "123457", "1.00000e9"]);
        let times = [0.149_947_19, 1.411_385_7, 3.2e-5, 0.0, f64::INFINITY];
        assert_eq!(times.map(time), ["149.947 ms", "1.41139 s", "32.0000 µs", "0 s", "> 1e308 s"]);
    }

    #[test]
    fn odd_values_are_told_in_words() {
        assert_eq!([f64::NAN, f64::INFINITY, 5e-324].map(short), ["not known", "> 1e308", "4.94066e-324"]);
        assert_eq!([f64::NAN, 1e300, 1e-12].map(time), ["not known", "1.00000e300 s", "1.00000e-12 s"]);
        let table = Table::default().rate("r", f64::INFINITY, "much").number("n", f64::NAN, "nothing");
        assert!(table.to_string().contains("> 1e308/s") && !table.to_string().contains("NaN"), "{table}");
    }

    #[test]
    fn columns_are_aligned() {
        let table = Table::default().number("a", 0.5, "half").time("longer", None, "no idea");
        assert_eq!(table.to_string(), "a        0.500000  half\nlonger  not known  no idea\n");
    }
}
