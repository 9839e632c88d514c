//! `docs/configuration.md`: every key with its value, default and reason, from the types of `config` and their comments.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::config::{Config, keys};

const HEAD: &str = "\
# Configuration

A TOML file. `sipweir check FILE` names everything that is wrong with one; unknown keys are refused. [example.toml](example.toml)
has every key with its default, ready to be changed; it is what the Debian package installs as `/etc/sipweir/sipweir.toml`.

*takes*: what it takes for a changed key to hold, a `sipweir reload` or a restart ([operations.md](operations.md#reload) says why).

This page is made from the types in `userspace/sipweir/src/config.rs` (`cargo xtask docs`), and a test compares the two. A
default of – means: none.
";

/// The page.
#[must_use]
pub fn page() -> String {
    let schema = schemars::schema_for!(Config).to_value();
    let mut page =
        Page { out: HEAD.to_owned(), definitions: schema.get("$defs").cloned().unwrap_or_default() };
    page.table("", &schema);
    page.out
}

/// Every key, with `NAME` for that of a service.
#[cfg(test)]
pub(crate) fn keys() -> Vec<String> {
    let schema = schemars::schema_for!(Config).to_value();
    let page = Page { out: String::new(), definitions: schema.get("$defs").cloned().unwrap_or_default() };
    let mut keys = Vec::new();
    page.keys_below("", &schema, &mut keys);
    keys
}

struct Page {
    out: String,
    definitions: Value,
}

impl Page {
    #[cfg(test)]
    fn keys_below(&self, path: &str, node: &Value, keys: &mut Vec<String>) {
        for (key, property) in node["properties"].as_object().into_iter().flatten() {
            match self.table_of(property) {
                Some((is_map, inner)) => self.keys_below(&below(path, key, is_map), &inner, keys),
                None => keys.push(below(path, key, false)),
            }
        }
    }

    /// One table of the file, and then those below it.
    fn table(&mut self, path: &str, node: &Value) {
        let none = Map::new();
        let properties = node["properties"].as_object().unwrap_or(&none);
        let (tables, keys): (Vec<_>, Vec<_>) =
            properties.iter().partition(|(_, property)| self.table_of(property).is_some());
        let title = if path.is_empty() { "Top level".to_owned() } else { format!("`[{path}]`") };
        // Writing to a String cannot fail.
        let _ok = writeln!(self.out, "\n## {title}\n\n{}", prose(node));
        if !keys.is_empty() {
            self.out += "\n| key | value | default | takes | what it is, and why |\n|---|---|---|---|---|\n";
        }
        let required: Vec<&str> =
            node["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (key, property) in keys {
            let default = match &property["default"] {
                _ if required.contains(&key.as_str()) => "must be given".to_owned(),
                Value::Null => "–".to_owned(),
                value => format!("`{value}`"),
            };
            let (value, choices) = self.value(property);
            let takes = keys::reload_of(&below(path, key, false)).map_or("restart", keys::Reload::name);
            let _ok = writeln!(
                self.out,
                "| `{key}` | {value} | {default} | {takes} | {}{choices} |",
                prose(property)
            );
        }
        for (key, property) in tables {
            let (is_map, inner) = self.table_of(property).unwrap_or_default();
            self.table(&below(path, key, is_map), &inner);
        }
    }

    /// The table behind a property, and whether there is one for each name.
    fn table_of(&self, property: &Value) -> Option<(bool, Value)> {
        let target = self.resolve(property);
        let each = self.resolve(&target["additionalProperties"]);
        [(true, each), (false, target)].into_iter().find(|(_, node)| node["properties"].is_object())
    }

    /// Follows references, also those of values that may be left out.
    fn resolve(&self, node: &Value) -> Value {
        if let Some(name) = node["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
            return self.resolve(&self.definitions[name]);
        }
        let some = node["anyOf"].as_array().into_iter().flatten().find(|choice| choice["type"] != "null");
        some.map_or_else(|| node.clone(), |some| self.resolve(some))
    }

    /// What one writes, and what each choice means.
    fn value(&self, property: &Value) -> (String, String) {
        let node = self.resolve(property);
        if let Some(how) = property["title"].as_str().or_else(|| node["title"].as_str()) {
            return (how.to_owned(), String::new());
        }
        if let Some(choices) = node["oneOf"].as_array() {
            let words: Vec<String> = choices.iter().map(|choice| format!("`{}`", choice["const"])).collect();
            let meanings =
                choices.iter().map(|choice| format!("<br>`{}`: {}", choice["const"], prose(choice)));
            return (words.join(", "), meanings.collect());
        }
        let kinds = match &node["type"] {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
            kind => kind.as_str(),
        };
        let value = match kinds {
            Some("boolean") => "`true`, `false`".to_owned(),
            Some("integer") => "whole number".to_owned(),
            Some("number") => "number".to_owned(),
            Some("string") => "text".to_owned(),
            Some("array") if node["maxItems"] == 2 => "two whole numbers, `[FROM, TO]`".to_owned(),
            Some("array") => format!("list; each: {}", self.value(&node["items"]).0),
            Some("object") => {
                format!("table; for each network {}", self.value(&node["additionalProperties"]).0)
            }
            _ => String::new(),
        };
        (value, String::new())
    }
}

/// The path of what is below a table.
fn below(path: &str, key: &str, is_map: bool) -> String {
    let name = if is_map { format!("{key}.NAME") } else { key.to_owned() };
    if path.is_empty() { name } else { format!("{path}.{name}") }
}

/// A comment as one line of a table.
fn prose(node: &Value) -> String {
    let text = node["description"].as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::page;

    #[test]
    fn the_page_in_the_docs_is_what_the_types_say() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(kept == page(), "docs/configuration.md is out of date: `cargo xtask docs`");
    }

    /// Every key that the example has is explained, and nothing is left without a word on what one writes or why.
    #[test]
    fn every_key_has_a_value_and_a_reason() {
        let page = page();
        let rows: Vec<Vec<&str>> = page
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
            .collect();
        assert!(rows.len() > 50, "{}", rows.len());
        for row in &rows {
            assert_eq!(row.len(), 5, "{row:?}");
            assert!(row.iter().all(|cell| !cell.is_empty()), "{row:?}");
        }
        let example = include_str!("../../../../docs/example.toml");
        for line in example.lines().map(|line| line.trim_start_matches("# ")) {
            let Some((key, _)) = line.split_once(" = ") else { continue };
            if key.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
                assert!(rows.iter().any(|row| row[0] == format!("`{key}`")), "{key}");
            }
        }
    }
}
