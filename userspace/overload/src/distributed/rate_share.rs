//! The core's side of rate control (RFC 7415 section 3.4): how many requests per second each client may send.
//!
//! The RFC leaves open how a server finds the number. Here all clients are told the same limit r, whatever they ask for, so
//! that who sends less than r is not limited and the others share the rest equally (max-min fairness). In each period r is
//! multiplied by what the server wants over what it got:
//!
//! ```text
//!   R = u·μ + (w·μ − n)/τ          r ← r·R/A,   R/c ≤ r ≤ R,   at least 1
//! ```
//!
//! | symbol | here | meaning |
//! |---|---|---|
//! | μ | `service_rate_per_s` | measured by the caller |
//! | n | `in_system` | waiting plus in service |
//! | A | `arrivals` | requests per second that came in the last period |
//! | c | `clients` | active clients: a request of theirs came within τ |
//! | u | `load` | share of μ that is given away while the line is as long as it shall be |
//! | w | `wait_ns` | how long a request shall wait |
//! | τ | `horizon_ns` | in which time a longer or shorter line is corrected |
//!
//! With g clients at the limit and a rate L of the others A = L + g·r, so r has the fixed point (R − L)/g and comes to it
//! without swinging: the error is multiplied by 1 − g·r/R, between 0 and 1. Below R/c nobody need be limited. The least rate
//! is 1: clients that are told 0 would be silent until their validity ends, and then all come back without any limit.

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
    /// Time between two corrections of r. Long enough for some tens of requests, or chance moves r.
    pub period_ns: Nanos,
    /// How long an announcement holds, milliseconds, above 0.
    pub validity_ms: u32,
    /// Most clients that are told apart, at least 1; beyond it who was heard longest ago is forgotten.
    pub clients_max: u32,
}

impl Default for RateShareConfig {
    /// Full use of the server with 50 ms of work in store, corrected within half a second by steps of 200 ms.
    fn default() -> Self {
        Self {
            load: 1.0,
            wait_ns: 50_000_000,
            horizon_ns: 500_000_000,
            period_ns: 200_000_000,
            validity_ms: 1000,
            clients_max: 1024,
        }
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
            ("period_ns", self.period_ns == 0),
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
    /// r; none before the first announcement.
    limit_per_s: Option<f64>,
    /// Requests since the period began.
    arrivals: u32,
    period_start: Nanos,
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
        let (limit_per_s, arrivals, period_start, last_seq) = (None, 0, 0, 0);
        Ok(Self { config: *config, clients, limit_per_s, arrivals, period_start, last_seq })
    }

    /// Notes that a request of this client came.
    pub fn hear(&mut self, now: Nanos, key: u64) {
        self.arrivals = self.arrivals.saturating_add(1);
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
        let RateShareConfig { load, wait_ns, horizon_ns, period_ns, validity_ms, .. } = self.config;
        let surplus = service_rate_per_s * seconds(wait_ns) - in_system as f64;
        let wanted_per_s = load * service_rate_per_s + surplus / seconds(horizon_ns);
        let since = now.saturating_sub(horizon_ns);
        let active = self.clients.iter().filter(|client| client.heard >= since).count().max(1);
        let equal_part = wanted_per_s / active as f64;
        let elapsed_ns = now.saturating_sub(self.period_start);
        let mut limit_per_s = self.limit_per_s.unwrap_or(equal_part);
        if elapsed_ns >= period_ns {
            limit_per_s *= wanted_per_s / (f64::from(self.arrivals) / seconds(elapsed_ns));
            self.arrivals = 0;
            self.period_start = now;
        }
        // Also where the server wants less than nothing, or knows no rate. Not `clamp`: its bounds may be no numbers.
        let limit_per_s = limit_per_s.min(wanted_per_s).max(equal_part).max(1.0);
        self.limit_per_s = Some(limit_per_s);
        self.last_seq = (now / STEP_NS).max(self.last_seq + 1);
        Announcement {
            algorithm: Algorithm::Rate,
            // The cast saturates.
            value: limit_per_s as u32,
            validity_ms: Some(validity_ms),
            seq: self.last_seq,
        }
    }
}

fn seconds(span_ns: Nanos) -> f64 {
    span_ns as f64 / NANOS_PER_S as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::{RateShare, RateShareConfig};
    use crate::config::Problem;

    const MS: u64 = 1_000_000;

    /// A server whose clients have sent one request each.
    fn share(clients: u64) -> RateShare {
        let mut share = RateShare::new(&RateShareConfig::default()).unwrap();
        (0..clients).for_each(|key| share.hear(0, key));
        share
    }

    #[test]
    fn at_first_all_of_the_server_is_given_away_in_equal_parts() {
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
        let mut share = share(2);
        share.announce(300 * MS, 5000, 1000.0);
        assert_eq!(share.announce(600 * MS, 50, 1000.0).value, 1000, "nothing came of it for long");
    }

    #[test]
    fn who_has_been_silent_for_the_horizon_is_no_client() {
        let mut share = share(4);
        (0..50).for_each(|_| share.hear(100 * MS, 0));
        assert_eq!(share.announce(150 * MS, 50, 1000.0).value, 250);
        // 1000 are wanted, and 105 came in 412 ms.
        (0..51).for_each(|_| share.hear(400 * MS, 0));
        assert_eq!(share.announce(412 * MS, 50, 1000.0).value, 980);
        let mut share = self::share(4);
        assert_eq!(share.announce(501 * MS, 50, 1000.0).value, 1000);
    }

    /// The limit after 40 periods in which clients with these demands get what the limit allows.
    fn settled(demands: &[f64], rate_per_s: f64) -> f64 {
        let mut share = RateShare::new(&RateShareConfig::default()).unwrap();
        let in_system = (rate_per_s * 0.05) as usize;
        let mut owed = vec![0.0; demands.len()];
        let mut limit = rate_per_s / demands.len() as f64;
        for period in 0..40 {
            let now = period * 200 * MS;
            for (key, (demand, owed)) in demands.iter().zip(&mut owed).enumerate() {
                *owed += demand.min(limit) * 0.2;
                while *owed >= 1.0 {
                    share.hear(now, key as u64);
                    *owed -= 1.0;
                }
            }
            limit = f64::from(share.announce(now, in_system, rate_per_s).value);
        }
        limit
    }

    #[test]
    fn what_modest_clients_leave_goes_to_the_others_in_equal_parts() {
        for (demands, limit) in [
            (&[3000.0, 100.0, 100.0][..], 800.0),
            (&[3000.0, 3000.0, 100.0], 450.0),
            (&[3000.0, 3000.0, 3000.0], 333.0),
            (&[100.0, 100.0], 1000.0),
        ] {
            let found = settled(demands, 1000.0);
            assert!((found / limit - 1.0).abs() < 0.03, "{demands:?}: {found}, not {limit}");
        }
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
            (RateShareConfig { period_ns: 0, ..valid }, "period_ns"),
            (RateShareConfig { validity_ms: 0, ..valid }, "validity_ms"),
            (RateShareConfig { clients_max: 0, ..valid }, "clients_max"),
        ] {
            let problems = RateShare::new(&config).unwrap_err().problems;
            assert_eq!(problems.iter().map(Problem::field).collect::<Vec<_>>(), [field]);
        }
    }

    proptest! {
        #[test]
        fn the_first_parts_never_add_up_to_more_than_there_is(
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

        /// Water is poured into vessels by hand: the limit at which all that is wanted is used.
        #[test]
        fn the_limit_settles_where_demands_cut_at_it_add_up_to_what_is_wanted(
            demands in proptest::collection::vec(20.0..2000.0_f64, 1..8),
        ) {
            let limit = settled(&demands, 1000.0);
            let used: f64 = demands.iter().map(|demand| demand.min(limit)).sum();
            let asked: f64 = demands.iter().sum();
            prop_assert!((used - asked.min(1000.0)).abs() < 60.0, "{demands:?} at {limit}: {used}");
        }
    }
}
