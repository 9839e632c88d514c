//! `docs/status.md` and the JSON schema of the status, both from its types and their comments.

use std::fmt::Write as _;

use overload::{GateState, ServerState};
use serde_json::{Map, Value};
use sip::{Class, Reason, Verdict};

use super::Status;
use crate::counters::Outcome;

/// Whole numbers of the moment; all others count from the start of the instance.
const OF_THE_MOMENT: &[&str] = &[
    "at_server",
    "core",
    "format",
    "frames_free",
    "frames_outstanding",
    "large_free",
    "live",
    "lost_so_far",
    "one_in",
    "queue",
    "sent_so_far",
    "slots",
    "waiting",
    "would_wait",
];

const HEAD: &str = "\
# Status

<!-- Made by `cargo xtask docs` from the types in userspace/sipweir/src/status.rs; a test compares the two. -->

`sipweir status --json` prints one JSON document, which `sipweir status` and `sipweir top` show to people. `sipweir status --schema`
prints its JSON Schema (draft 2020-12), made from the same types as this page; a test holds the document of a running instance
under load against it.

## What you can rely on

- A key keeps its name, its type, its unit and its meaning as long as `format` keeps its number.
- New keys, and new words in the places that hold words, may come with any version of sipweir; read what you know and ignore the
  rest. `format` does not change for them.
- A key goes, or changes its meaning, only together with `format`, and not within a minor version of sipweir. `version` is that of
  the program.
- Where a key says that something is left out (a class that nobody sent, a row without packets), it counts 0.
- Counters start at 0 with the instance and never fall; when `uptime_s` falls, another instance answers.
- One document is not one moment: the workers go on counting while it is read, so sums may be off by what came meanwhile.

A unit of \"since start\" is a counter, \"now\" a figure of the moment. The order of keys means nothing. NAME is the name of a service,
`[]` an item of a list, and words in capitals are one of the [words](#words) below.
";

/// The JSON Schema of the document.
#[must_use]
pub fn schema() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<Status>().to_value()
}

/// The page; `cargo xtask docs` writes it.
#[must_use]
pub fn page() -> String {
    let schema = schema();
    let mut page =
        Page { out: HEAD.to_owned(), definitions: schema.get("$defs").cloned().unwrap_or_default() };
    page.object("", &schema);
    page.words();
    page.out
}

struct Page {
    out: String,
    definitions: Value,
}

impl Page {
    /// The table of one object, and then those of the objects in it.
    fn object(&mut self, path: &str, node: &Value) {
        let none = Map::new();
        let properties = node["properties"].as_object().unwrap_or(&none);
        let title = if path.is_empty() { "The document".to_owned() } else { format!("`{path}`") };
        // Writing to a String cannot fail.
        let _ok = writeln!(self.out, "\n## {title}\n\n{}", prose(node));
        self.out += "\n| key | value | unit | what it says |\n|---|---|---|---|\n";
        let mut inner = Vec::new();
        for (key, property) in properties {
            let (kind, objects) = self.kind(property);
            let unit = unit_of(key, &kind);
            let says = prose(property);
            let _ok = writeln!(self.out, "| `{key}` | {kind} | {unit} | {says} |");
            if let Some((suffix, object)) = objects {
                inner
                    .push((format!("{path}{}{key}{suffix}", if path.is_empty() { "" } else { "." }), object));
            }
        }
        for (path, object) in inner {
            self.object(&path, &object);
        }
    }

    /// What a value is, and the object in it with how one gets there.
    fn kind(&self, property: &Value) -> (String, Option<(&'static str, Value)>) {
        let node = self.resolve(property);
        if node["properties"].is_object() {
            return ("object".to_owned(), Some(("", node)));
        }
        let type_name = match &node["type"] {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
            kind => kind.as_str(),
        };
        match type_name {
            Some("array") => {
                let (kind, inner) = self.kind(&node["items"]);
                (format!("list of {kind}"), inner.map(|(_, object)| ("[]", object)))
            }
            Some("object") => {
                let (kind, inner) = self.kind(&node["additionalProperties"]);
                (format!("map to {kind}"), inner.map(|(_, object)| (".NAME", object)))
            }
            Some("integer") => ("whole number".to_owned(), None),
            Some("string") => ("text".to_owned(), None),
            Some("boolean") => ("true or false".to_owned(), None),
            other => (other.unwrap_or_default().to_owned(), None),
        }
    }

    /// Follows references, also those of values that may be left out.
    fn resolve(&self, node: &Value) -> Value {
        if let Some(name) = node["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
            return self.resolve(&self.definitions[name]);
        }
        let some = node["anyOf"].as_array().into_iter().flatten().find(|choice| choice["type"] != "null");
        some.map_or_else(|| node.clone(), |some| self.resolve(some))
    }

    /// The closed sets of words. More may come with a later version.
    fn words(&mut self) {
        self.out += "\n## Words\n\n| where | words |\n|---|---|\n";
        let sets: [(&str, Vec<&str>); 6] = [
            ("CLASS: what a message is", Class::ALL.map(Class::name).to_vec()),
            (
                "OUTCOME: what became of a message that a worker took in",
                Outcome::ALL.map(Outcome::name).to_vec(),
            ),
            ("VERDICT: what the XDP program did with a packet", Verdict::ALL.map(Verdict::name).to_vec()),
            ("REASON: why", Reason::ALL.map(Reason::name).to_vec()),
            ("state of a gate", GateState::ALL.map(GateState::name).to_vec()),
            ("state of a server", ServerState::ALL.map(ServerState::name).to_vec()),
        ];
        for (of, words) in sets {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            let _ok = writeln!(self.out, "| {of} | {} |", words.join(", "));
        }
    }
}

/// Units stand at the end of names.
fn unit_of(key: &str, kind: &str) -> &'static str {
    let is_whole = kind.ends_with("whole number");
    match key {
        _ if !is_whole && !kind.ends_with("number") => "",
        _ if key.ends_with("_per_s") => "1/s",
        _ if key.ends_with("_ms") || key.ends_with("_ms_max") => "ms",
        _ if key.ends_with("_s") || matches!(key, "normal" | "overload" | "discard") => "s",
        _ if key.ends_with("_bytes") => "bytes, since start",
        _ if OF_THE_MOMENT.contains(&key) => "now",
        _ if is_whole => "since start",
        _ => "share, now",
    }
}

/// A comment as one line of a table.
fn prose(node: &Value) -> String {
    let text = node["description"].as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::{OF_THE_MOMENT, page, schema};

    /// The names of all keys, and of those without a description.
    fn keys(node: &Value, all: &mut BTreeSet<String>, bare: &mut Vec<String>) {
        for (key, property) in node["properties"].as_object().into_iter().flatten() {
            all.insert(key.clone());
            if property["description"].as_str().is_none_or(str::is_empty) {
                bare.push(key.clone());
            }
        }
    }

    #[test]
    fn each_key_is_described_and_has_a_row() {
        let schema = schema();
        let (mut all, mut bare) = (BTreeSet::new(), Vec::new());
        keys(&schema, &mut all, &mut bare);
        schema["$defs"].as_object().expect("objects").values().for_each(|of| keys(of, &mut all, &mut bare));
        assert!(bare.is_empty(), "{bare:?}");
        let page = page();
        for key in &all {
            assert!(page.contains(&format!("| `{key}` | ")), "{key}");
        }
        for key in OF_THE_MOMENT {
            assert!(all.contains(*key), "{key}");
        }
        assert!(all.len() > 100, "{}", all.len());
    }

    #[test]
    fn units_follow_the_names() {
        for (key, kind, unit) in [
            ("service_rate_per_s", "number", "1/s"),
            ("wait_ms_max", "number", "ms"),
            ("uptime_s", "number", "s"),
            ("wait_bounds_s", "list of number", "s"),
            ("admits", "number", "share, now"),
            ("waiting", "whole number", "now"),
            ("received", "map to whole number", "since start"),
            ("rx_bytes", "whole number", "bytes, since start"),
            ("version", "text", ""),
        ] {
            assert_eq!(super::unit_of(key, kind), unit, "{key}");
        }
    }
}
