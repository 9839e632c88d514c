//! What to offer: one typed tree, the same for the library, the command line and scenario files.
//!
//! Durations are nanoseconds (`_ns`), rates are per second. [`CallerConfig::check`] looks at relations too, so
//! that a run which could not measure what it claims never starts.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::clock::SECOND_NS;
use crate::error::Error;

/// RFC 3261 17.1.1.1: the round-trip estimate T1. Smaller makes needless copies, larger waits longer for repairs.
const T1_NS: u64 = 500_000_000;
/// RFC 3261 17.1.2.2: the longest interval between copies of a request other than INVITE, T2.
const T2_NS: u64 = 4 * SECOND_NS;
/// RFC 3261 timers B and F: a transaction fails this many T1 after its first send.
pub(crate) const TIMEOUT_T1: u64 = 64;
/// More live calls than this would need 32-bit links of the timer wheel to wrap.
const MAX_LIVE_CALLS: u32 = 1 << 24;

/// The arrival process of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// Independent exponential gaps.
    Poisson,
    /// Equal gaps.
    Constant,
}

/// How a request says which copy it is (see the project's page on the marker).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Marker {
    /// It does not, as nearly all phones: copies are the same bytes.
    Off,
    /// A fourth token of the request line: `INVITE sip:x SIP/2.0 rtx=1`; the original says `rtx=0`.
    Field,
    /// A parameter of the Request-URI: `INVITE sip:x;rtx=1 SIP/2.0`; the original says `rtx=0`.
    Uri,
}

/// Where the clients live.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sources {
    /// Local addresses, used in turn; none lets the kernel choose by route.
    pub addresses: Vec<IpAddr>,
    /// First source port; socket i on an address gets this plus i. 0 lets the kernel choose every port.
    pub first_port: u16,
    /// Sockets in all, spread over the addresses; each is a client address for the server.
    pub sockets: u16,
    /// Connect the sockets: cheaper sends and ICMP errors seen, but answers from another address or port are lost.
    pub connected: bool,
}

impl Default for Sources {
    fn default() -> Self {
        Self { addresses: Vec::new(), first_port: 0, sockets: 16, connected: true }
    }
}

/// Weights of the kinds of calls; they need not sum to one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mix {
    /// Calls: INVITE, ACK, a hold time, BYE.
    pub invite: f64,
    /// Registrations: one REGISTER.
    pub register: f64,
    /// Probes: one OPTIONS.
    pub options: f64,
}

impl Default for Mix {
    fn default() -> Self {
        Self { invite: 1.0, register: 0.0, options: 0.0 }
    }
}

/// How long an answered call lasts before its BYE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hold {
    /// Mean duration; 0 sends BYE right behind the ACK.
    pub mean_ns: u64,
    /// Exponentially distributed rather than always the mean.
    pub exponential: bool,
}

impl Default for Hold {
    fn default() -> Self {
        Self { mean_ns: SECOND_NS, exponential: false }
    }
}

/// From `at_ns` after the start on, calls arrive at another rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateStep {
    /// Offset from the start of the run.
    pub at_ns: u64,
    /// Calls per second from then on; 0 is a pause.
    pub rate_per_s: f64,
}

/// Everything a run needs to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CallerConfig {
    /// Where all requests are sent.
    pub target: SocketAddr,
    /// Client addresses.
    pub sources: Sources,
    /// Arrival process of calls.
    pub arrival: Arrival,
    /// Calls per second, from the start on.
    pub rate_per_s: f64,
    /// Later rates, in order of time: surges and recoveries.
    pub steps: Vec<RateStep>,
    /// Kinds of calls.
    pub mix: Mix,
    /// Calls start during this time.
    pub duration_ns: u64,
    /// Calls that start before this offset are left out of the measurement window.
    pub warm_up_ns: u64,
    /// Calls that start later than this before the end of `duration_ns` are left out too.
    pub tail_ns: u64,
    /// At most this long after the last start, the run waits for calls to end. 64·T1 plus the hold time lets all do so.
    pub drain_ns: u64,
    /// Copy numbers in requests.
    pub marker: Marker,
    /// RFC 3261 T1.
    pub t1_ns: u64,
    /// RFC 3261 T2.
    pub t2_ns: u64,
    /// Time from answer to BYE.
    pub hold: Hold,
    /// Host part of the Request-URI; the target's address when absent.
    pub domain: Option<String>,
    /// Different called and calling numbers.
    pub users: u32,
    /// Ask for replies to the source port (RFC 3581).
    pub rport: bool,
    /// Put a session description into INVITE (about 150 bytes), as phones do.
    pub body: bool,
    /// Calls that can be alive at once. Room for all is taken at the start (about 600 bytes each, touched when used);
    /// a call that finds none is not sent and is counted as `not_started`, which spoils the measurement.
    pub max_live_calls: u32,
    /// Width of the bins of the time series.
    pub series_interval_ns: u64,
    /// Sleeps are at least this long, so that at high rates a wake-up serves several calls; 0 never sleeps. It is how
    /// late a send may be by design; how late sends really were is `send_lateness` in the report.
    pub wake_interval_ns: u64,
    /// Send and receive buffer of each socket. Too small loses answers at the caller, which looks like the server's loss.
    pub socket_buffer_bytes: usize,
    /// Core to pin the caller's thread to.
    pub core: Option<usize>,
    /// Seed of arrivals, kinds, hold times and identities.
    pub seed: u64,
}

impl Default for CallerConfig {
    fn default() -> Self {
        Self {
            target: SocketAddr::from(([127, 0, 0, 1], 5060)),
            sources: Sources::default(),
            arrival: Arrival::Poisson,
            rate_per_s: 100.0,
            steps: Vec::new(),
            mix: Mix::default(),
            duration_ns: 10 * SECOND_NS,
            warm_up_ns: 0,
            tail_ns: 0,
            drain_ns: TIMEOUT_T1 * T1_NS + 2 * SECOND_NS,
            marker: Marker::Off,
            t1_ns: T1_NS,
            t2_ns: T2_NS,
            hold: Hold::default(),
            domain: None,
            users: 100_000,
            rport: true,
            body: true,
            max_live_calls: 400_000,
            series_interval_ns: 100_000_000,
            wake_interval_ns: 100_000,
            socket_buffer_bytes: 4 << 20,
            core: None,
            seed: 1,
        }
    }
}

impl CallerConfig {
    /// Defaults (100 Poisson calls per second for 10 s, RFC 3261 timers) towards `target`.
    #[must_use]
    pub fn new(target: SocketAddr) -> Self {
        Self { target, ..Self::default() }
    }

    /// Timers B and F: 64·T1.
    #[must_use]
    pub fn timeout_ns(&self) -> u64 {
        TIMEOUT_T1 * self.t1_ns
    }

    /// Refuses what cannot be run or would measure nothing.
    ///
    /// # Errors
    /// [`Error::Config`] names the first setting that must change.
    pub fn check(&self) -> Result<(), Error> {
        let rate_ok = |rate: f64| rate.is_finite() && (0.0..=10e6).contains(&rate);
        let Mix { invite, register, options } = self.mix;
        let weights = [invite, register, options];
        require("rate_per_s", rate_ok(self.rate_per_s), "must be between 0 and 10 million")?;
        require(
            "steps",
            self.steps.iter().all(|step| rate_ok(step.rate_per_s)),
            "each rate must be between 0 and 10 million",
        )?;
        require(
            "steps",
            self.steps.is_sorted_by(|a, b| a.at_ns < b.at_ns),
            "must be in order of time, none twice",
        )?;
        require("mix", weights.iter().all(|w| w.is_finite() && *w >= 0.0), "weights must be 0 or more")?;
        require("mix", weights.iter().sum::<f64>() > 0.0, "at least one weight must be above 0")?;
        require("duration_ns", self.duration_ns > 0, "must be above 0")?;
        require(
            "warm_up_ns",
            self.warm_up_ns.checked_add(self.tail_ns).is_some_and(|left_out| left_out < self.duration_ns),
            "warm-up and tail leave no measurement window; their sum must be below duration_ns",
        )?;
        require(
            "t1_ns",
            self.t1_ns >= 1_000_000,
            "must be 1 ms or more; the timer wheel ticks every 0.26 ms",
        )?;
        require("t1_ns", self.t1_ns <= 3600 * SECOND_NS, "must be an hour or less")?;
        require("t2_ns", self.t2_ns >= self.t1_ns, "must not be below t1_ns")?;
        require("sources.sockets", self.sources.sockets > 0, "must be above 0")?;
        let first_port = u32::from(self.sources.first_port);
        require(
            "sources.first_port",
            first_port == 0 || first_port + u32::from(self.sources.sockets) <= 65_536,
            "first_port + sockets goes beyond port 65535",
        )?;
        require(
            "sources.addresses",
            self.sources.addresses.iter().all(|a| a.is_ipv4() == self.target.is_ipv4()),
            "must be of the target's address family",
        )?;
        require("target", self.target.port() != 0, "needs a port")?;
        require("users", self.users > 0 && self.users <= 100_000_000, "must be between 1 and 100 million")?;
        require(
            "max_live_calls",
            self.max_live_calls > 0 && self.max_live_calls <= MAX_LIVE_CALLS,
            "must be between 1 and 16777216",
        )?;
        require("series_interval_ns", self.series_interval_ns >= 1_000_000, "must be 1 ms or more")?;
        let host_ok = |c: char| c.is_ascii_alphanumeric() || "-.[]:".contains(c);
        require(
            "domain",
            self.domain.as_ref().is_none_or(|d| !d.is_empty() && d.chars().all(host_ok)),
            "must be a host name or address",
        )
    }
}

fn require(key: &'static str, holds: bool, problem: &str) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::Config { key, problem: problem.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut CallerConfig)) -> &'static str {
        let mut config = CallerConfig::default();
        change(&mut config);
        match config.check() {
            Err(Error::Config { key, .. }) => key,
            other => panic!("accepted: {other:?}"),
        }
    }

    #[test]
    fn the_defaults_are_accepted_and_survive_a_round_trip() {
        let config = CallerConfig::default();
        config.check().unwrap();
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<CallerConfig>(&text).unwrap(), config);
    }

    #[test]
    fn contradictions_are_refused_by_name() {
        assert_eq!(refused(|c| c.rate_per_s = f64::NAN), "rate_per_s");
        assert_eq!(refused(|c| c.warm_up_ns = c.duration_ns), "warm_up_ns");
        assert_eq!(refused(|c| c.warm_up_ns = u64::MAX), "warm_up_ns");
        assert_eq!(refused(|c| c.mix.invite = 0.0), "mix");
        assert_eq!(refused(|c| c.mix.options = -1.0), "mix");
        assert_eq!(refused(|c| c.t2_ns = c.t1_ns - 1), "t2_ns");
        assert_eq!(refused(|c| c.sources.sockets = 0), "sources.sockets");
        assert_eq!(refused(|c| c.sources.first_port = 65_530), "sources.first_port");
        assert_eq!(refused(|c| c.sources.addresses = vec!["::1".parse().unwrap()]), "sources.addresses");
        assert_eq!(refused(|c| c.domain = Some("a b".into())), "domain");
        let step = |at_ns| RateStep { at_ns, rate_per_s: 1.0 };
        assert_eq!(refused(|c| c.steps = vec![step(5), step(5)]), "steps");
    }

    #[test]
    fn unknown_keys_are_refused() {
        assert!(serde_json::from_str::<CallerConfig>(r#"{"rate": 5}"#).is_err());
    }
}
