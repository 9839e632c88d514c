//! What refusals leave of the server, and the share to admit in overload.
//!
//! A server that refuses r originals a second at c services each serves μ − c r. So at the peak it serves μ − c (1−q) λ in
//! overload and μ − c λ in discard; over all states, with nobody idle, what is served and what is refused are λ together:
//!
//! ```text
//!   served = μ − c (λ − served)      so      served = (μ − c λ)/(1 − c)
//! ```
//!
//! and with the share a of what overload leaves of the server let in, q λ = a (μ − c (1−q) λ):
//!
//! ```text
//!   q = a (μ − c λ) / (λ (1 − a c))
//! ```

use super::Demand;
use crate::numeric::down;

/// a, in the order of trial. The first leaves a fifth of the server: a peak a quarter above the expected one still ends.
const ACCEPTED_LOADS: [f64; 9] = [0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0];
/// A gate that admits more than this in overload hardly differs from none.
const SHARE_MAX: f64 = 0.9;
/// Digits of q: rounded down, so that a fifth of the server is left.
const ADMIT_DIGITS: i32 = 2;

impl Demand {
    /// μ − c λ, services per second while all of the peak are refused; not above 0 if refusals take the whole server.
    pub(super) fn slowest_rate_per_s(&self) -> f64 {
        (-self.refusal_services()).mul_add(self.peak_rate_per_s(), self.service_rate_per_s)
    }

    /// Services per second in normal, overload and discard at the peak.
    pub(super) fn rates_per_s(&self, share: f64) -> [f64; 3] {
        let refused = (1.0 - share) * self.peak_rate_per_s();
        let in_overload = (-self.refusal_services()).mul_add(refused, self.service_rate_per_s);
        [self.service_rate_per_s, in_overload, self.slowest_rate_per_s()]
    }

    /// Services per second at the peak, over all states.
    pub(super) fn peak_service_rate_per_s(&self) -> f64 {
        if self.peak_rate_per_s() <= self.service_rate_per_s {
            return self.service_rate_per_s;
        }
        self.slowest_rate_per_s() / (1.0 - self.refusal_services())
    }

    /// Settings of q to try, the best first, each with the share that it admits.
    pub(super) fn shares(&self) -> impl Iterator<Item = (f64, f64)> {
        let (left_per_s, cost) = (self.slowest_rate_per_s(), self.refusal_services());
        let credentials = self.credentials;
        let mut last = f64::NAN;
        ACCEPTED_LOADS
            .iter()
            .map(move |load| {
                let share = load * left_per_s / (self.peak_rate_per_s() * (1.0 - load * cost));
                let admit = down(setting(share.min(SHARE_MAX), credentials), ADMIT_DIGITS);
                (admit, admitted(admit, credentials))
            })
            .filter(move |(admit, _)| std::mem::replace(&mut last, *admit) != *admit)
    }
}

/// The share that is admitted by a setting of q if those with credentials are by twice as much.
fn admitted(admit: f64, credentials: f64) -> f64 {
    credentials.mul_add((2.0 * admit).min(1.0), (1.0 - credentials) * admit)
}

/// The setting of q that admits a share.
fn setting(share: f64, credentials: f64) -> f64 {
    let admit = share / (1.0 + credentials);
    if admit <= 0.5 { admit } else { (share - credentials) / (1.0 - credentials) }
}

#[cfg(test)]
mod tests {
    use super::{admitted, setting};

    #[test]
    fn a_setting_admits_the_share_that_it_is_for() {
        for credentials in [0.0, 0.3, 0.9] {
            for share in [0.001, 0.2, 0.5, 0.7, 0.9] {
                // A share below that of all credentials alone is reached with q up to a half.
                let admit = setting(share, credentials);
                assert!(
                    (admitted(admit, credentials) - share).abs() < 1e-12,
                    "{share} {credentials} {admit}"
                );
            }
        }
    }
}
