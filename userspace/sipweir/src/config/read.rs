//! From text to a checked [`Config`], collecting every problem on the way.
//!
//! Deserialisation stops at its first error. To report all of them, the value that was wrong is taken out
//! of the document and reading starts again, until it succeeds or the same path fails twice. A key that must be
//! there gets a value that is in nobody's way, so that the rest of its table is judged, too. Unknown keys are gathered
//! on the side, so they too are all named.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use thiserror::Error;

use super::{Config, check};

/// One thing that is wrong with a configuration, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Path of the key, e.g. `service.main.gate.low`.
    pub key: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read {file}: {source}; give the path of a configuration, docs/example.toml is one")]
    File {
        /// As given.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is no TOML.
    #[error("{file} is no TOML: {source}")]
    Syntax {
        /// As given.
        file: String,
        /// With line and column.
        source: Box<toml::de::Error>,
    },
    /// One or more keys are wrong.
    #[error("{file} has {}:\n{}", count(.problems.len()), list(.problems))]
    Problems {
        /// As given.
        file: String,
        /// All of them, by key.
        problems: Vec<Problem>,
    },
}

fn count(problems: usize) -> String {
    if problems == 1 { "1 problem".into() } else { format!("{problems} problems") }
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("  {problem}")).collect::<Vec<_>>().join("\n")
}

pub(super) fn read(path: &Path) -> Result<Config, ConfigError> {
    let file = path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::File { file: file.clone(), source })?;
    let mut config = parse(&file, &text)?;
    // Without a working directory the path stands as it was given.
    config.file = Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    Ok(config)
}

pub(super) fn parse(file: &str, text: &str) -> Result<Config, ConfigError> {
    let mut document: toml::Table =
        text.parse().map_err(|source| ConfigError::Syntax { file: file.into(), source: Box::new(source) })?;

    let mut problems = BTreeSet::new();
    let config = deserialize(&mut document, &mut problems);
    if let Some(config) = &config {
        // What could not be read was taken out; that is no second problem.
        let whole = problems.is_empty();
        check::relations(config, whole, &mut problems);
    }
    match config {
        Some(config) if problems.is_empty() => Ok(config),
        _ => Err(ConfigError::Problems { file: file.into(), problems: problems.into_iter().collect() }),
    }
}

/// Reads what can be read. `None` when a required key of the root is missing or wrong.
fn deserialize(document: &mut toml::Table, problems: &mut BTreeSet<Problem>) -> Option<Config> {
    let mut stand_ins = 0;
    loop {
        let mut unknown = Vec::new();
        let mut track = serde_path_to_error::Track::new();
        let deserializer = serde_path_to_error::Deserializer::new(document.clone(), &mut track);
        let result = serde_ignored::deserialize(deserializer, |path| unknown.push(path.to_string()));
        for key in unknown {
            let message = "unknown key; see docs/example.toml for those there are".into();
            problems.insert(Problem { key: key.replace(".?", ""), message });
        }
        let error: toml::de::Error = match result {
            Ok(config) => return Some(config),
            Err(error) => error,
        };
        let path = track.path().to_string();
        let message = error.message().to_owned();
        // A missing key is reported at its parent.
        let missing = message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
        let wrong = match missing {
            Some(key) if path.is_empty() || path == "." => key.to_owned(),
            Some(key) => format!("{path}.{key}"),
            None => path.clone(),
        };
        stand_ins += 1;
        let replaced = put(document, &wrong, stand_in(&wrong, stand_ins).as_ref());
        problems.insert(Problem { key: path, message });
        // Each round leaves one problem less; a path that does not lead anywhere would go round for ever.
        if !replaced {
            return None;
        }
    }
}

/// A value for a key that must be there, which no other value can be at odds with; none for the keys that have
/// defaults.
fn stand_in(path: &str, number: usize) -> Option<toml::Value> {
    let keys: Vec<&str> = path.split('.').collect();
    let text = match *keys.as_slice() {
        ["interface"] => "eth0".to_owned(),
        // The discard prefix of RFC 6666: nobody listens there.
        ["service", _, "listen"] => format!("[100::{number:x}]:9"),
        ["service", _, "handoff"] => "kernel".to_owned(),
        ["capture", "collector"] => "[100::1]:9".to_owned(),
        ["metrics", "listen"] => "127.0.0.1:9".to_owned(),
        _ => return None,
    };
    Some(toml::Value::String(text))
}

/// Puts another value at a dotted path of the document, or takes out the one that is there; false if the path leads
/// nowhere. Keys may have dots themselves.
fn put(table: &mut toml::Table, path: &str, value: Option<&toml::Value>) -> bool {
    if table.contains_key(path) || !path.contains('.') {
        return match value {
            Some(value) => table.insert(path.to_owned(), value.clone()).as_ref() != Some(value),
            None => table.remove(path).is_some(),
        };
    }
    table.iter_mut().any(|(key, inner)| {
        let rest = path.strip_prefix(key.as_str()).and_then(|rest| rest.strip_prefix('.'));
        match (rest, inner) {
            (Some(rest), toml::Value::Table(inner)) => put(inner, rest, value),
            _ => false,
        }
    })
}
