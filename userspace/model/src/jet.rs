//! Power series cut off after the square: what a transform near 0 says about mean and second moment.

use std::ops::{Add, AddAssign, Div, Mul};

/// c0 + c1 s + c2 s².
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Jet(pub(crate) [f64; 3]);

impl Add for Jet {
    type Output = Self;

    fn add(self, Self(b): Self) -> Self {
        let Self(a) = self;
        Self([a[0] + b[0], a[1] + b[1], a[2] + b[2]])
    }
}

impl AddAssign for Jet {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Mul for Jet {
    type Output = Self;

    fn mul(self, Self(b): Self) -> Self {
        let Self(a) = self;
        Self([a[0] * b[0], a[0] * b[1] + a[1] * b[0], a[0] * b[2] + a[1] * b[1] + a[2] * b[0]])
    }
}

impl Div for Jet {
    type Output = Self;

    fn div(self, Self(b): Self) -> Self {
        let Self(a) = self;
        let constant = a[0] / b[0];
        let slope = (a[1] - constant * b[1]) / b[0];
        Self([constant, slope, (a[2] - constant * b[2] - slope * b[1]) / b[0]])
    }
}

#[cfg(test)]
mod tests {
    use super::Jet;

    #[test]
    fn a_quotient_is_undone_by_its_product() {
        let (a, b) = (Jet([2.0, -3.0, 0.5]), Jet([4.0, 1.0, -0.25]));
        let Jet(found) = a / b * b + Jet([1.0, 0.0, 0.0]);
        assert!(found.iter().zip([3.0, -3.0, 0.5]).all(|(found, expected)| (found - expected).abs() < 1e-15));
    }

    #[test]
    fn the_series_of_an_exponential_law_has_its_moments() {
        // 1/(1+s): mean 1, second moment 2.
        assert_eq!(Jet([1.0, 0.0, 0.0]) / Jet([1.0, 1.0, 0.0]), Jet([1.0, -1.0, 1.0]));
    }
}
