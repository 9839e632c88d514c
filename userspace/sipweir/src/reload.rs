//! `sipweir reload`: has the running instance take over a changed configuration, and says what has changed.
//!
//! Also what the instance answers. Not here: how it does it (`run::reload`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args as ClapArgs;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::{ENVIRONMENT, USAGE, environment, fail, print_json, print_text};
use crate::config::Control;
use crate::control::{self, Request};
use crate::lists::keeper;

/// A change takes milliseconds, but for lists of millions of networks, and for other changes that are before it.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// What it is called with.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Configuration file. Default: the one that the instance was started with, which also is the one that SIGHUP and a restart
    /// read.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Say what would change, and change nothing.
    #[arg(long)]
    check: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// Control socket of the instance. Default: that of FILE, or else /run/sipweir/control.sock.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// What became of a reload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It holds, in all workers.
    #[default]
    Applied,
    /// It would be applied.
    WouldApply,
    /// Nothing has changed; `problems` and `restart` say why.
    Refused,
}

/// A key that is not as before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    /// As in `service.main.gate.low`.
    pub key: String,
    /// The value before; null if there was none, and for secrets.
    pub from: Value,
    /// The value after.
    pub to: Value,
}

/// A key that needs a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// As in `interface`.
    pub key: String,
    /// Why.
    pub reason: String,
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reloaded {
    /// What became of it.
    pub outcome: Outcome,
    /// The file that was read.
    pub file: Option<PathBuf>,
    /// All keys that differ from what holds.
    pub changed: Vec<Changed>,
    /// Those of them because of which it was refused.
    pub restart: Vec<Restart>,
    /// What is wrong with the file.
    pub problems: Vec<String>,
    /// The lists of sources, by name, whose files were read again; only if it was applied.
    pub lists: BTreeMap<String, keeper::Reloaded>,
}

impl Reloaded {
    /// A file that cannot be used.
    #[must_use]
    pub fn unusable(file: Option<PathBuf>, problem: String) -> Self {
        Self { outcome: Outcome::Refused, file, problems: vec![problem], ..Self::default() }
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ok = match (self.outcome, self.changed.len()) {
            (Outcome::Refused, _) => writeln!(text, "refused; nothing has changed"),
            (_, 0) => writeln!(text, "nothing differs from what holds"),
            (Outcome::Applied, count) => writeln!(text, "applied; changed: {count}"),
            (Outcome::WouldApply, count) => writeln!(text, "would be applied; would change: {count}"),
        };
        for problem in &self.problems {
            let _ok = writeln!(text, "  {}", problem.replace('\n', "\n  "));
        }
        for Restart { key, reason } in &self.restart {
            let _ok = writeln!(text, "  {key} needs a restart: {reason}");
        }
        let is_refused = |key: &str| self.restart.iter().any(|restart| restart.key == key);
        for Changed { key, from, to } in self.changed.iter().filter(|changed| !is_refused(&changed.key)) {
            let _ok = writeln!(text, "  {key}: {from} -> {to}");
        }
        for (list, keeper::Reloaded { networks, entered, left }) in &self.lists {
            if entered + left > 0 {
                let _ok = writeln!(
                    text,
                    "  list {list}: {entered} networks entered, {left} left; {networks} are on it"
                );
            }
        }
        text
    }
}

/// Asks for it and says what became of it. Exit status: 0 applied or would be, 1 no instance answers, 2 refused.
pub fn main(args: &Args) -> ExitCode {
    let absolute = args.config.as_ref().map(std::path::absolute).transpose();
    let config = match absolute {
        Ok(config) => config,
        Err(error) => return fail(ENVIRONMENT, &error),
    };
    let socket = args.socket.clone().or_else(|| socket_of(config.as_deref()?));
    let socket = socket.unwrap_or_else(|| Control::default().socket);
    let request = Request::Reload { config, check: args.check };
    match control::ask::<Reloaded>(&socket, &request, PATIENCE) {
        Err(error) => fail(ENVIRONMENT, &error),
        Ok(reloaded) if args.json => said(&reloaded, environment(print_json(&reloaded))),
        Ok(reloaded) if reloaded.outcome == Outcome::Refused => {
            eprint!("sipweir: {}", reloaded.text());
            ExitCode::from(USAGE)
        }
        Ok(reloaded) => environment(print_text(&reloaded.text())),
    }
}

fn said(reloaded: &Reloaded, printed: ExitCode) -> ExitCode {
    if reloaded.outcome == Outcome::Refused { ExitCode::from(USAGE) } else { printed }
}

/// The control socket that a file names, whatever else is wrong with it: the instance says that.
fn socket_of(file: &Path) -> Option<PathBuf> {
    let document: toml::Table = std::fs::read_to_string(file).ok()?.parse().ok()?;
    Some(document.get("control")?.get("socket")?.as_str()?.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Changed, Outcome, Reloaded, Restart, socket_of};

    #[test]
    fn the_text_says_what_has_changed_and_what_stands_in_the_way() {
        let changed = |key: &str| Changed { key: key.into(), from: json!("200ms"), to: json!(7) };
        let mut reloaded = Reloaded {
            outcome: Outcome::Applied,
            file: None,
            changed: vec![changed("service.main.gate.low")],
            ..Reloaded::default()
        };
        assert_eq!(reloaded.text(), "applied; changed: 1\n  service.main.gate.low: \"200ms\" -> 7\n");
        reloaded.outcome = Outcome::Refused;
        reloaded.changed.push(changed("interface"));
        reloaded.restart.push(Restart { key: "interface".into(), reason: "so it is".into() });
        let expected = "refused; nothing has changed\n  interface needs a restart: so it is\n  service.main.gate.low: \
                        \"200ms\" -> 7\n";
        assert_eq!(reloaded.text(), expected);
        let unusable = Reloaded::unusable(None, "x.toml has 1 problem:\n  interface: missing".into());
        assert_eq!(
            unusable.text(),
            "refused; nothing has changed\n  x.toml has 1 problem:\n    interface: missing\n"
        );
    }

    #[test]
    fn the_socket_is_found_in_a_file_that_is_wrong_otherwise() {
        let file = std::env::temp_dir().join(format!("sipweir-reload-{}", std::process::id()));
        std::fs::write(&file, "interfaec = 7\n[control]\nsocket = \"/run/x.sock\"\n").expect("write");
        assert_eq!(socket_of(&file), Some("/run/x.sock".into()));
        std::fs::write(&file, "no TOML").expect("write");
        assert_eq!(socket_of(&file), None);
        std::fs::remove_file(&file).expect("remove");
    }
}
