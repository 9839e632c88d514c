//! Which keys of the configuration a running instance can take over (`sipweir reload`), and why others need a restart; and in
//! which keys two configurations differ.
//!
//! The table has every key: a test walks the types. What depends on more than the key is said by `run::reload`.

use serde_json::Value;

use super::Config;

/// What it takes for a changed key to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reload {
    /// A reload.
    Live,
    /// A restart, for this reason.
    Restart(&'static str),
}

impl Reload {
    /// As in the reference of the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "reload",
            Self::Restart(_) => "restart",
        }
    }
}

use Reload::{Live, Restart};

const INTERFACE: Reload = Restart("programs, rings and the hand-off device belong to the interface");
const PROGRAM: Reload = Restart("it is fixed when the XDP program is loaded");
const CORES: Reload = Restart("threads and their memory are bound to their cores at the start");
const MEMORY: Reload =
    Restart("rings and frames are made at the start, which takes privileges that are given up then");
const TABLE: Reload = Restart("the transaction table is made with the XDP program");
const SECRET: Reload =
    Restart("the transaction table is keyed by it, and nothing in it would be found any more");
const SOCKET: Reload = Restart("the socket is made at the start, and is the lock of the instance");
const METRICS: Reload = Restart("the socket is made at the start");
const CAPTURE: Reload = Restart("buffers and the thread that sends are made at the start");
const SERVICES: Reload = Restart("the table of services is fixed when the XDP program is loaded");
const ANSWERS: Reload = Restart("the program that sees the answers is loaded at the start");
const JUDGES: Reload = Restart("who judges a server and sends it probes is made at the start");
const PROCESSOR: Reload = Restart("the processor and its queue are made at the start");

/// Every key, with `NAME` for that of a service. A map from networks is one key.
pub const KEYS: &[(&str, Reload)] = &[
    ("interface", INTERFACE),
    ("seed", SECRET),
    ("xdp.mode", PROGRAM),
    ("xdp.zero_copy", MEMORY),
    ("xdp.not_sip", Live),
    ("xdp.link_addresses", PROGRAM),
    ("xdp.vlans", PROGRAM),
    ("workers.cores", CORES),
    ("workers.idle", Live),
    ("frames.count", MEMORY),
    ("frames.size", MEMORY),
    ("frames.ring_control", MEMORY),
    ("frames.ring_new", MEMORY),
    ("frames.ring_retransmission", MEMORY),
    ("frames.ring_reject", MEMORY),
    ("frames.ring_tx", MEMORY),
    ("frames.ring_fill", MEMORY),
    ("frames.large", MEMORY),
    ("transactions.memory_mib", TABLE),
    ("privileges.emergency_numbers", Live),
    ("privileges.probers", Live),
    ("lists.deny", Live),
    ("lists.allow", Live),
    ("lists.room", Restart("tables of the XDP program get their size when it is loaded")),
    ("control.socket", SOCKET),
    ("control.mode", SOCKET),
    ("control.group", SOCKET),
    ("metrics.listen", METRICS),
    ("capture.collector", CAPTURE),
    ("capture.agent_id", CAPTURE),
    ("capture.messages", CAPTURE),
    ("service.NAME.listen", SERVICES),
    ("service.NAME.handoff", PROCESSOR),
    ("service.NAME.mode", Live),
    ("service.NAME.monitor_classes", Live),
    ("service.NAME.max_wait", Live),
    ("service.NAME.initial_rate", Live),
    ("service.NAME.gate.kind", Live),
    ("service.NAME.gate.low", Live),
    ("service.NAME.gate.high", Live),
    ("service.NAME.gate.buffer", Live),
    ("service.NAME.gate.admit", Live),
    ("service.NAME.gate.weight", Live),
    ("service.NAME.gate.initial_probability", Live),
    ("service.NAME.limits.in_dialog_per_source", Live),
    ("service.NAME.limits.control_per_source", Live),
    ("service.NAME.limits.responses_per_source", Live),
    ("service.NAME.limits.emergency_per_source", Live),
    ("service.NAME.limits.prober_per_source", Live),
    ("service.NAME.limits.total_per_source", Live),
    ("service.NAME.limits.original_per_source", Live),
    ("service.NAME.limits.ipv4_source_bits", Live),
    ("service.NAME.limits.ipv6_source_bits", Live),
    ("service.NAME.limits.peers", Live),
    ("service.NAME.reply.code", Live),
    ("service.NAME.reply.rate", Live),
    ("service.NAME.reply.per_destination", Live),
    ("service.NAME.reply.retry_after_register", Live),
    ("service.NAME.reply.oc_validity", Live),
    ("service.NAME.reply.peers", Live),
    ("service.NAME.server.queue_target", Live),
    ("service.NAME.server.down_after", Live),
    ("service.NAME.server.watch_answers", ANSWERS),
    ("service.NAME.server.answer_time_max", JUDGES),
    ("service.NAME.server.unavailable_max", JUDGES),
    ("service.NAME.server.probe_interval", JUDGES),
    ("service.NAME.embedded.capacity", PROCESSOR),
    ("service.NAME.embedded.service_time", PROCESSOR),
    ("service.NAME.embedded.queue", PROCESSOR),
    ("service.NAME.embedded.slow_capacity", PROCESSOR),
    ("service.NAME.embedded.slow_for", PROCESSOR),
];

/// What it takes for a key to hold, by its path in the table.
#[must_use]
pub fn reload_of(path: &str) -> Option<Reload> {
    KEYS.iter().find(|(key, _)| *key == path).map(|(_, reload)| *reload)
}

/// A key that is not the same in two configurations.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// As in `service.main.gate.low`.
    pub key: String,
    /// The value before; none for a secret, and what was not set.
    pub from: Value,
    /// The value after.
    pub to: Value,
    /// What it takes.
    pub reload: Reload,
}

/// All keys in which two configurations differ, whether values are written out or are defaults.
///
/// # Errors
///
/// When a configuration has a value that JSON cannot say, such as a path that is no UTF-8.
pub fn differences(before: &Config, after: &Config) -> Result<Vec<Difference>, serde_json::Error> {
    let mut found = Vec::new();
    if before.seed != after.seed {
        found.push(Difference { key: "seed".into(), from: Value::Null, to: Value::Null, reload: SECRET });
    }
    let (before, after) = (serde_json::to_value(before)?, serde_json::to_value(after)?);
    walk("", "", &before, &after, &mut found);
    Ok(found)
}

/// `path` is the one of the table, `key` the one of the configuration.
fn walk(path: &str, key: &str, before: &Value, after: &Value, found: &mut Vec<Difference>) {
    if before == after {
        return;
    }
    let is_service = path == "service.NAME" && (before.is_null() || after.is_null());
    let inner = before.as_object().or_else(|| after.as_object());
    let reload = if is_service { Some(SERVICES) } else { reload_of(path) };
    if let (None, Some(inner)) = (reload, inner) {
        let others = after.as_object().into_iter().flat_map(|after| after.keys());
        let mut names: Vec<&String> = inner.keys().chain(others).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let place = if path == "service" { "NAME" } else { name };
            let (path, key) = (joined(path, place), joined(key, name));
            walk(&path, &key, &before[name], &after[name], found);
        }
        return;
    }
    // Without a row of its own a key is taken for one that needs a restart: the test of the table fails.
    let reload = reload.unwrap_or(Restart("nobody has said that it can change"));
    found.push(Difference { key: key.to_owned(), from: before.clone(), to: after.clone(), reload });
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::{Difference, KEYS, Reload, differences};
    use crate::config::Config;
    use crate::config::tests::LEAST;
    use crate::generate::reference;

    fn parse(more: &str) -> Config {
        Config::parse("test.toml", &format!("{LEAST}{more}")).expect("valid")
    }

    fn between(before: &str, after: &str) -> Vec<Difference> {
        differences(&parse(before), &parse(after)).expect("JSON")
    }

    #[test]
    fn the_table_has_every_key_of_the_types_and_no_other() {
        let of_types: BTreeSet<String> = reference::keys().into_iter().collect();
        let of_table: BTreeSet<String> = KEYS.iter().map(|(key, _)| (*key).to_owned()).collect();
        assert_eq!(KEYS.len(), of_table.len(), "a key stands there twice");
        assert_eq!(of_types, of_table, "left: the types; right: the table in config/keys.rs");
    }

    #[test]
    fn what_is_written_out_and_is_the_default_is_no_difference() {
        assert_eq!(between("", "max_wait = \"400ms\"\n[service.main.gate]\nlow = \"0.2s\"\n[xdp]\n"), []);
    }

    #[test]
    fn each_difference_has_its_key_its_values_and_what_it_takes() {
        let found = between(
            "",
            "max_wait = \"300ms\"\n[service.main.limits.peers]\n\"192.0.2.0/24\" = \"off\"\n[metrics]\nlisten = \
             \"127.0.0.1:9464\"\n[frames]\ncount = 8192\n",
        );
        let short: Vec<_> = found.iter().map(|d| (d.key.as_str(), d.reload.name())).collect();
        let expected = [
            ("frames.count", "restart"),
            ("metrics.listen", "restart"),
            ("service.main.limits.peers", "reload"),
            ("service.main.max_wait", "reload"),
        ];
        assert_eq!(short, expected);
        assert_eq!((&found[3].from, &found[3].to), (&json!("400ms"), &json!("300ms")));
    }

    #[test]
    fn a_service_that_comes_or_goes_is_one_difference() {
        let other = "[service.other]\nlisten = \"192.0.2.1:5070\"\nhandoff = \"kernel\"\n";
        for (before, after) in [("", other), (other, "")] {
            let found = between(before, after);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].key, "service.other");
            assert!(matches!(found[0].reload, Reload::Restart(_)));
        }
    }

    #[test]
    fn a_seed_is_compared_and_never_shown() {
        let seed = |digit: &str| {
            let text = LEAST.replacen('\n', &format!("\nseed = \"{}\"\n", digit.repeat(64)), 1);
            Config::parse("test.toml", &text).expect("valid")
        };
        let found = differences(&seed("a"), &seed("b")).expect("JSON");
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].key.as_str(), &found[0].from, &found[0].to),
            ("seed", &json!(null), &json!(null))
        );
        assert!(!serde_json::to_string(&seed("a")).expect("JSON").contains("aaaa"));
        assert_eq!(differences(&seed("a"), &seed("a")).expect("JSON"), []);
    }
}
