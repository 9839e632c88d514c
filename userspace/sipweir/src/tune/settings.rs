//! What was chosen, as lines of the configuration.
//!
//! Thresholds are written as times at the rate that the gate measures at the peak, since they then follow a server
//! that gets slower; the number of messages that each means stands beside it. `max_wait` counts the time in sipweir alone,
//! so what may wait in the server's own sockets is taken off.

use std::fmt::Write as _;

use ::model::parameter::ParameterError;
use ::model::tune::{Recommendation, Tuning};
use anyhow::Context;
use overload::{CreditConfig, Threshold};

use crate::config::{Config, Frames, Server, Span};
use crate::run;

/// The lines.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// Time in sipweir, seconds.
    pub(super) max_wait_s: f64,
    /// L, H and B as they are written.
    pub(super) thresholds: [Threshold; 3],
    /// The lines.
    pub(super) toml: String,
}

impl Settings {
    /// Writes the lines, and reads them as `sipweir check` does.
    ///
    /// # Errors
    /// When the configuration does not take them: more places than there may be frames.
    pub(super) fn new(name: &str, tuning: &Tuning, chosen: &Recommendation) -> anyhow::Result<Self> {
        let demand = tuning.demand();
        let (service_rate_per_s, wait_s) = (demand.service_rate_per_s, demand.max_wait_s);
        let default_target = Server::default().queue_target;
        // Where that would be most of the wait, fewer may wait there.
        let queue_target = (2.0 * at_server_s(default_target, service_rate_per_s) > wait_s)
            .then(|| ((wait_s / 2.0 * service_rate_per_s) as u32).clamp(1, default_target));
        let at_server_s = at_server_s(queue_target.unwrap_or(default_target), service_rate_per_s);
        let max_wait = span(wait_s - at_server_s.min(wait_s / 2.0));
        let (low, high, buffer) = chosen.levels.as_tuple();
        let rate_per_s = chosen.peak_service_rate_per_s;
        let thresholds = [low, high, buffer].map(|places| threshold(places, rate_per_s));
        let key = toml_key(name);
        // Writing to a String cannot fail.
        let mut toml = String::new();
        let _ok = writeln!(toml, "[service.{key}]");
        let _ok = writeln!(toml, "max_wait = \"{max_wait}\"");
        let _ok = writeln!(toml, "initial_rate = {}", (service_rate_per_s * 10.0).round() / 10.0);
        let _ok = writeln!(toml, "[service.{key}.gate]\nkind = \"hysteretic\"");
        for (name, threshold, places) in
            [("low", thresholds[0], low), ("high", thresholds[1], high), ("buffer", thresholds[2], buffer)]
        {
            let _ok = match threshold {
                Threshold::Time(_) => writeln!(toml, "{name} = \"{threshold}\"  # {places} messages"),
                Threshold::Messages(_) => writeln!(toml, "{name} = {threshold}"),
            };
        }
        let _ok = writeln!(toml, "admit = {}", chosen.admit);
        if let Some(target) = queue_target {
            let _ok = writeln!(toml, "[service.{key}.server]\nqueue_target = {target}");
        }
        let places = run::places(&Self::read(&toml)?)?;
        if buffer > places {
            let count = Frames::default().count + buffer - places;
            let _ok = writeln!(toml, "[frames]\ncount = {count}");
        }
        run::check(&Self::read(&toml)?).context("the configuration")?;
        Ok(Self { max_wait_s: max_wait.nanos() as f64 / 1e9, thresholds, toml })
    }

    /// The lines in the smallest configuration.
    fn read(toml: &str) -> anyhow::Result<Config> {
        let (service, rest) = toml.split_once('\n').unwrap_or((toml, ""));
        let text = format!(
            "interface = \"lo\"\n{service}\nlisten = \"192.0.2.1:5060\"\nhandoff = \"kernel\"\n{rest}"
        );
        Ok(Config::parse("the recommendation", &text)?)
    }
}

/// How long what may wait in the server's own sockets takes, in seconds.
fn at_server_s(queue_target: u32, service_rate_per_s: f64) -> f64 {
    let config = CreditConfig { target_messages: queue_target, ..CreditConfig::default() };
    f64::from(config.target_at(service_rate_per_s)) / service_rate_per_s
}

/// The shortest time that means so many messages at this rate; the number itself where none is exact.
fn threshold(places: u32, rate_per_s: f64) -> Threshold {
    let exact_ns = f64::from(places) / rate_per_s * 1e9;
    // From milliseconds to nanoseconds by tens.
    let steps_ns = (0..=6).rev().map(|digits| 10_u64.pow(digits));
    let times = steps_ns.map(|step_ns| Threshold::Time((exact_ns / step_ns as f64).round() as u64 * step_ns));
    let mut fitting = times.filter(|time| time.messages_at(rate_per_s) == places);
    fitting.next().unwrap_or(Threshold::Messages(places))
}

/// A time rounded down to milliseconds, or to microseconds if it is short.
fn span(time_s: f64) -> Span {
    let step_ns: u64 = if time_s >= 0.02 { 1_000_000 } else { 1_000 };
    Span::from_nanos(((time_s * 1e9) as u64 / step_ns).max(1) * step_ns)
}

/// Whether a service can be called this.
///
/// # Errors
/// When a configuration does not take it.
pub(super) fn check_name(name: &str) -> Result<(), ParameterError> {
    let found = Settings::read(&format!("[service.{}]\n", toml_key(name)));
    if found.is_ok_and(|config| config.service.contains_key(name)) {
        return Ok(());
    }
    let range = "the name of a service as a key of TOML has it: one line of text";
    Err(ParameterError { name: "name", value: format!("{name:?}"), range: range.into() })
}

/// A name as a key of TOML.
fn toml_key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.chars().all(bare) { name.into() } else { toml::Value::from(name).to_string() }
}

#[cfg(test)]
mod tests {
    use super::{check_name, toml_key};

    #[test]
    fn a_name_is_quoted_as_toml_quotes_or_refused() {
        for name in ["main", "trunk-1", "a b", "a.b", "\"", "\u{1b}", "ä", ""] {
            assert_eq!(check_name(name), Ok(()), "{name:?} as {}", toml_key(name));
        }
        assert_eq!(toml_key("trunk-1"), "trunk-1");
        assert_eq!(check_name("a\nb").map_err(|error| error.name), Err("name"));
    }
}
