//! What a refusal costs the server: a part of a service, or a time whatever a service takes.

use std::fmt;

/// c, as it was given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cost {
    /// As a part of a mean service.
    Services(f64),
    /// In seconds: at another service rate it is another part of a service.
    Seconds(f64),
}

const UNITS: [(&str, f64); 3] = [("ms", 1e6), ("us", 1e3), ("ns", 1.0)];

impl Cost {
    /// In mean services at this service rate.
    pub(super) fn services(self, service_rate_per_s: f64) -> f64 {
        match self {
            Self::Services(services) => services,
            Self::Seconds(time_s) => time_s * service_rate_per_s,
        }
    }
}

impl fmt::Display for Cost {
    /// As the option takes it: a number, or a time to the nanosecond.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Services(services) => write!(f, "{services}"),
            Self::Seconds(time_s) => {
                let time_ns = (time_s * 1e9).round();
                let (suffix, unit_ns) =
                    UNITS.into_iter().find(|(_, unit_ns)| time_ns >= *unit_ns).unwrap_or(UNITS[2]);
                write!(f, "{}{suffix}", time_ns / unit_ns)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cost;

    #[test]
    fn a_cost_is_shown_as_the_option_takes_it() {
        let times =
            [2e-3, 1.5e-3, 20e-6, 166.6e-6, 1e-9, 0.0].map(|time_s| Cost::Seconds(time_s).to_string());
        assert_eq!(times, ["2ms", "1.5ms", "20us", "166.6us", "1ns", "0ns"]);
        assert_eq!(Cost::Services(0.02).to_string(), "0.02");
    }

    #[test]
    fn a_time_is_more_services_of_a_faster_server() {
        assert_eq!([100.0, 1000.0].map(|rate_per_s| Cost::Seconds(1e-3).services(rate_per_s)), [0.1, 1.0]);
        assert_eq!(Cost::Services(0.1).services(1000.0), 0.1);
    }
}
