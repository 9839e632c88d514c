//! The core's side of rate control (RFC 7415 section 3.4): how many requests per second each client may send.
//!
//! The RFC leaves open how a server finds the number. Here all clients together get what the server can serve, corrected by
//! what waits, in equal parts:
//!
//! ```text
//!   R = u·μ + (w·μ − n)/τ          each of c active clients: R/c, at least 1
//! ```
//!
//! | symbol | here | meaning |
//! |---|---|---|
//! | μ | `service_rate_per_s` | measured by the caller |
//! | n | `in_system` | waiting plus in service |
//! | u | `load` | share of μ that is given away while the line is as long as it shall be |
//! | w | `wait_ns` | how long a request shall wait |
//! | τ | `horizon_ns` | in which time a longer or shorter line is corrected |
//!
//! A client is active if a request of it came within τ. The least rate is 1: clients that are told 0 would be silent
//! until their validity ends, and then all come back without any limit.

use super::{Algorithm, Announcement};
use crate::config::{ConfigError, Problem};
use crate::feedback::STEP_NS;
use crate::{NANOS_PER_S, Nanos};

/// Settings of [`RateShare`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateShareConfig {
    /// u, above 0 and at most 1. Below 1 the line empties by itself, at the price of capacity.
    pub load: f64,
    /// w. Well below T1 = 500 ms.
    pub wait_ns: Nanos,
    /// τ. Longer than an announcement takes to have effect, or the rate swings.
    pub horizon_ns: Nanos,
    /// How long an announcement holds, milliseconds, above 0.
    pub validity_ms: u32,
    /// Most clients that are told apart, at least 1; beyond it who was heard longest ago is forgotten.
    pub clients_max: u32,
}

impl Default for RateShareConfig {
    /// Full use of the server with 50 ms of work in store, corrected within half a second.
    fn default() -> Self {
        Self { load: 1.0, wait_ns: 50_000_000, horizon_ns: 500_000_000, validity_ms: 1000, clients_max: 1024 }
    }
}

impl RateShareConfig {
    /// All problems, one for each wrong parameter.
    #[must_use]
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if !(self.load > 0.0 && self.load <= 1.0) {
            let range = "above 0 and at most 1";
            problems.push(Problem::Range { field: "load", value: self.load, range });
        }
        for (field, is_zero) in [
            ("wait_ns", self.wait_ns == 0),
            ("horizon_ns", self.horizon_ns == 0),
            ("validity_ms", self.validity_ms == 0),
            ("clients_max", self.clients_max == 0),
        ] {
            if is_zero {
                problems.push(Problem::Zero { field });
            }
        }
        problems
    }
}

/// A client, and when a request of it came last.
#[derive(Debug, Clone, Copy)]
struct Client {
    key: u64,
    heard: Nanos,
}

/// Announces rates; one for each server.
#[derive(Debug, Clone)]
pub struct RateShare {
    config: RateShareConfig,
    clients: Vec<Client>,
    last_seq: u64,
}

impl RateShare {
    /// A server that no client has sent to yet.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration.
    pub fn new(config: &RateShareConfig) -> Result<Self, ConfigError> {
        ConfigError::check(config.check())?;
        let clients = Vec::with_capacity(config.clients_max as usize);
        Ok(Self { config: *config, clients, last_seq: 0 })
    }

    /// Notes that a request of this client came.
    pub fn hear(&mut self, now: Nanos, key: u64) {
        let is_full = self.clients.len() == self.config.clients_max as usize;
        if let Some(known) = self.clients.iter_mut().find(|client| client.key == key) {
            known.heard = now;
        } else if !is_full {
            self.clients.push(Client { key, heard: now });
        } else if let Some(oldest) = self.clients.iter_mut().min_by_key(|client| client.heard) {
            *oldest = Client { key, heard: now };
        }
    }

    /// What a client is told now.
    pub fn announce(&mut self, now: Nanos, in_system: usize, service_rate_per_s: f64) -> Announcement {
        let RateShareConfig { load, wait_ns, horizon_ns, validity_ms, .. } = self.config;
        let seconds = |span_ns: Nanos| span_ns as f64 / NANOS_PER_S as f64;
        let surplus = service_rate_per_s * seconds(wait_ns) - in_system as f64;
        let all_per_s = load * service_rate_per_s + surplus / seconds(horizon_ns);
        let since = now.saturating_sub(horizon_ns);
        let active = self.clients.iter().filter(|client| client.heard >= since).count().max(1);
        self.last_seq = (now / STEP_NS).max(self.last_seq + 1);
        Announcement {
            algorithm: Algorithm::Rate,
            // The cast saturates, and takes "not a number" to 0.
            value: ((all_per_s / active as f64) as u32).max(1),
            validity_ms: Some(validity_ms),
            seq: self.last_seq,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::{RateShare, RateShareConfig};
    use crate::config::Problem;

    const MS: u64 = 1_000_000;

    fn share(clients: u64) -> RateShare {
        let mut share = RateShare::new(&RateShareConfig::default()).unwrap();
        (0..clients).for_each(|key| share.hear(0, key));
        share
    }

    #[test]
    fn a_line_of_the_wanted_length_gives_all_of_the_server_away_in_equal_parts() {
        // 50 ms at 1000 per second.
        assert_eq!(share(1).announce(0, 50, 1000.0).value, 1000);
        assert_eq!(share(4).announce(0, 50, 1000.0).value, 250);
        assert_eq!(share(0).announce(0, 50, 1000.0).value, 1000, "nobody is taken for one");
    }

    #[test]
    fn a_longer_line_is_corrected_within_the_horizon_and_never_by_silence() {
        assert_eq!(share(1).announce(0, 150, 1000.0).value, 800, "100 too many within half a second");
        assert_eq!(share(1).announce(0, 0, 1000.0).value, 1100);
        assert_eq!(share(1).announce(0, 5000, 1000.0).value, 1);
        assert_eq!(share(9).announce(0, 50, f64::NAN).value, 1);
    }

    #[test]
    fn who_has_been_silent_for_the_horizon_gets_no_part() {
        let mut share = share(4);
        share.hear(400 * MS, 0);
        assert_eq!(share.announce(500 * MS, 50, 1000.0).value, 250);
        assert_eq!(share.announce(501 * MS, 50, 1000.0).value, 1000);
    }

    #[test]
    fn the_oldest_client_makes_room_for_a_new_one() {
        let config = RateShareConfig { clients_max: 2, ..RateShareConfig::default() };
        let mut share = RateShare::new(&config).unwrap();
        for (now, key) in [(1, 1), (2, 2), (3, 1), (4, 3)] {
            share.hear(now, key);
        }
        let mut keys: Vec<_> = share.clients.iter().map(|client| client.key).collect();
        keys.sort_unstable();
        assert_eq!(keys, [1, 3]);
    }

    #[test]
    fn each_wrong_parameter_is_named_once() {
        let valid = RateShareConfig::default();
        for (config, field) in [
            (RateShareConfig { load: 0.0, ..valid }, "load"),
            (RateShareConfig { load: 1.1, ..valid }, "load"),
            (RateShareConfig { wait_ns: 0, ..valid }, "wait_ns"),
            (RateShareConfig { horizon_ns: 0, ..valid }, "horizon_ns"),
            (RateShareConfig { validity_ms: 0, ..valid }, "validity_ms"),
            (RateShareConfig { clients_max: 0, ..valid }, "clients_max"),
        ] {
            let problems = RateShare::new(&config).unwrap_err().problems;
            assert_eq!(problems.iter().map(Problem::field).collect::<Vec<_>>(), [field]);
        }
    }

    proptest! {
        #[test]
        fn the_parts_never_add_up_to_more_than_there_is(
            clients in 1_u64..50, in_system in 0_usize..1000, rate in 1.0..1e5_f64,
        ) {
            let mut share = share(clients);
            let first = share.announce(0, in_system, rate);
            let all = rate + (rate * 0.05 - in_system as f64) / 0.5;
            prop_assert!(u64::from(first.value - 1) * clients <= all.max(0.0) as u64, "{first:?} {all}");
            prop_assert!(u64::from(first.value + 1) * clients >= all.max(0.0) as u64, "{first:?} {all}");
            prop_assert!(share.announce(0, in_system, rate).seq > first.seq);
            prop_assert_eq!(first.validity_ms, Some(1000));
        }
    }
}
