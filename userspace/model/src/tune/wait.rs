//! From times to places: how many services fit into a time.
//!
//! The sum of n services of mean 1 and squared coefficient of variation v is gamma with shape n/v, exactly so for the laws
//! that can be tuned for (exponential v = 1, deterministic v = 0). Above a shape of 1000 by the cube root approximation of
//! Wilson and Hilferty (PNAS 17, 1931), which is then right to four digits and cheap.

use std::convert::Infallible;

use statrs::function::erf::erfc;
use statrs::function::gamma::gamma_ur;

use crate::numeric::last;
use crate::service::ServiceLaw;

/// The exact function takes longer the larger the shape.
const EXACT_SHAPE_MAX: f64 = 1000.0;
/// The share of those admitted as overload begins that must be in time.
const IN_TIME: f64 = 0.99;

/// The probability that n services take longer than so many mean services.
pub(super) fn late(n: u32, law: ServiceLaw, services: f64) -> f64 {
    let v = law.cv2();
    let n = f64::from(n);
    if v == 0.0 || n == 0.0 {
        return if n > services { 1.0 } else { 0.0 };
    }
    if services <= 0.0 {
        return 1.0;
    }
    let shape = n / v;
    if shape <= EXACT_SHAPE_MAX {
        return gamma_ur(shape, services / v);
    }
    let spread = 1.0 / (9.0 * shape);
    let deviates = ((services / n).cbrt() - (1.0 - spread)) / spread.sqrt();
    0.5 * erfc(deviates / std::f64::consts::SQRT_2)
}

/// The most services that end within so many mean services nearly always.
pub(super) fn in_time(law: ServiceLaw, services: f64) -> u32 {
    // Never more than twice as many as on average: a float that is too large saturates.
    let most = (2.0 * services) as u32 + 1;
    let Ok(fits) = last::<Infallible>(0, most, |n| Ok(late(n, law, services) <= 1.0 - IN_TIME));
    fits.unwrap_or(0)
}

/// The time in mean services within which a share of 99 % ends, of sums of n exponential services with these weights.
pub(super) fn p99(sums: &[(u32, f64)]) -> f64 {
    let total: f64 = sums.iter().map(|(_, weight)| weight).sum();
    // What weighs less than this all together moves the quantile by nothing.
    let least = 1e-9 * total / sums.len() as f64;
    let sums: Vec<_> = sums.iter().filter(|(_, weight)| *weight > least).collect();
    let later = |time: f64| {
        sums.iter().map(|(n, weight)| weight * late(*n, ServiceLaw::Exponential, time)).sum::<f64>() / total
    };
    let longest = f64::from(sums.iter().map(|(n, _)| *n).max().unwrap_or(0));
    let (mut below, mut above) = (0.0, 2.0 * longest + 10.0);
    while above - below > 1e-6 * above {
        let middle = f64::midpoint(below, above);
        if later(middle) > 0.01 { below = middle } else { above = middle }
    }
    above
}

#[cfg(test)]
mod tests {
    use super::{in_time, late, p99};
    use crate::service::ServiceLaw::{Deterministic, Exponential, Gamma};

    #[test]
    fn services_are_late_as_the_poisson_law_says() {
        // n exponential services are late when fewer than n events of a Poisson process fall into the time.
        let poisson = |n: u32, time: f64| -> f64 {
            let terms = (1..).scan((-time).exp(), |term, i| {
                let next = *term * time / f64::from(i);
                Some(std::mem::replace(term, next))
            });
            terms.take(n as usize).sum()
        };
        for (n, time) in [(1, 0.5), (3, 8.0), (50, 40.0), (150, 170.0)] {
            assert!((late(n, Exponential, time) - poisson(n, time)).abs() < 1e-9, "{n} {time}");
        }
        // Four exponential services of a quarter.
        assert!((late(5, Gamma(0.25), 6.0) - late(20, Exponential, 24.0)).abs() < 1e-12);
        assert_eq!([9.9, 10.0].map(|time| late(10, Deterministic, time)), [1.0, 0.0]);
    }

    #[test]
    fn the_approximation_meets_the_exact_law_where_they_change_over() {
        for time in [930.0, 1000.0, 1070.0] {
            let (exact, next) = (late(1000, Exponential, time), late(1001, Exponential, time));
            let step = late(999, Exponential, time) - exact;
            assert!((next - exact + step).abs() < 2e-4, "{time}: {exact} {next}");
        }
    }

    #[test]
    fn what_fits_in_time_fits_and_one_more_does_not() {
        for services in [6.7, 40.0, 200.0, 4000.0] {
            let n = in_time(Exponential, services);
            assert!(late(n, Exponential, services) <= 0.01 && late(n + 1, Exponential, services) > 0.01);
        }
        assert_eq!(
            [(Exponential, 6.0), (Deterministic, 6.0), (Exponential, 6.7)]
                .map(|(law, time)| in_time(law, time)),
            [1, 6, 2]
        );
    }

    #[test]
    fn the_quantile_of_sums_is_that_of_their_mixture() {
        // −ln 0.01.
        assert!((p99(&[(1, 3.0)]) - 4.605_170).abs() < 1e-4);
        // Half of them take one service and half two: ½ e^−t + ½ (1 + t) e^−t is 0.01.
        let time: f64 = p99(&[(1, 2.0), (2, 2.0)]);
        assert!(((-time).exp() * (1.0 + time / 2.0) - 0.01).abs() < 1e-7, "{time}");
    }
}
