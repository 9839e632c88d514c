//! `sipweir limit`: shows and changes the caps on what a source may send, of a running instance.
//!
//! Not here: what a cap does (`limits`), and how workers take a changed one over (`run::reload`).

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use clap::{Args as ClapArgs, Subcommand};
use serde_json::Value;

use crate::cli::{Socket, USAGE, asked, print_json, print_text};
use crate::config::{LimitKey, Rate};
use crate::control::{self, ControlError, Request};
use crate::prefix::Prefix;
use crate::reload::{Outcome, PATIENCE, Reloaded};

/// What it is called with.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    instance: Socket,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the caps that hold, by service.
    Show {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Give a cap another value, until the next reload or restart. To have it then, write it into the configuration.
    Set {
        /// Of which service.
        service: String,
        /// Which cap.
        key: LimitKey,
        /// A count per second such as 200, a share of the measured rate such as 50%, off; or default: for a network as for all
        /// others.
        value: String,
        /// For the sources of this network alone.
        #[arg(long)]
        network: Option<Prefix>,
    },
}

/// The word for a network's cap that is that of all others.
const DEFAULT: &str = "default";

/// The limits of each service, as in the configuration.
pub type Shown = BTreeMap<String, Value>;

/// Reads the value of a cap; `None` is that of all others.
///
/// # Errors
///
/// What a value is.
pub fn rate_of(value: &str) -> Result<Option<Rate>, String> {
    if value == DEFAULT { Ok(None) } else { value.parse().map(Some) }
}

/// Asks for it and says what became of it. Exit status: 0 done, 1 no instance answers, 2 refused.
pub fn main(args: &Args) -> ExitCode {
    let socket = &args.instance.socket;
    let done = match &args.command {
        Command::Show { json } => show(socket, *json),
        Command::Set { service, key, value, network } => {
            if let Err(error) = rate_of(value) {
                eprintln!("sipweir: {value:?}: {error}");
                return ExitCode::from(USAGE);
            }
            let (service, value) = (service.clone(), value.clone());
            set(socket, &Request::LimitSet { service, key: *key, value, network: *network })
        }
    };
    asked(done)
}

fn show(socket: &Path, json: bool) -> anyhow::Result<()> {
    let shown: Shown = control::ask(socket, &Request::LimitShow {}, PATIENCE)?;
    if json { print_json(&shown) } else { print_text(&text(&shown)) }
}

fn set(socket: &Path, request: &Request) -> anyhow::Result<()> {
    let reloaded: Reloaded = control::ask(socket, request, PATIENCE)?;
    if reloaded.outcome == Outcome::Refused {
        return Err(ControlError::Refused(reloaded.text()).into());
    }
    print_text(&reloaded.text())
}

/// A line for each key.
fn text(shown: &Shown) -> String {
    let mut text = String::new();
    for (service, limits) in shown {
        let keys = limits.as_object().into_iter().flatten();
        for (key, value) in keys.filter(|(key, _)| *key != "peers") {
            text += &format!("{service} {key} {}\n", word(value));
        }
        let peers = limits["peers"].as_object().into_iter().flatten();
        for (network, own) in peers {
            let own = own.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
            own.for_each(|(key, value)| text += &format!("{service} {key} {} for {network}\n", word(value)));
        }
    }
    text
}

/// Without the quotation marks.
fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{Shown, rate_of, text};
    use crate::config::{Config, LimitKey, Rate};
    use crate::control::Request;
    use crate::limits::Cap;

    #[test]
    fn what_holds_is_shown_with_what_differs_for_networks() {
        let toml = "interface = \"eth0\"\n[service.main]\nlisten = \"*:5060\"\nhandoff = \"kernel\"\n[service.main.limits]\n\
                    original_per_source = 20\n[service.main.limits.peers]\n\"192.0.2.0/24\" = { original_per_source = \"off\" }\n";
        let config = Config::parse("test.toml", toml).expect("valid");
        let limits = serde_json::to_value(&config.service["main"].limits).expect("JSON");
        let shown = Shown::from([("main".to_owned(), limits)]);
        let text = text(&shown);
        for line in [
            "main original_per_source 20\n",
            "main in_dialog_per_source 60%\n",
            "main responses_per_source off\n",
            "main original_per_source off for 192.0.2.0/24\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert_eq!(text.lines().filter(|line| line.contains(" for ")).count(), 1, "{text}");
    }

    #[test]
    fn a_value_is_a_rate_or_that_of_all_others() {
        assert_eq!(rate_of("default"), Ok(None));
        assert_eq!(rate_of("20"), Ok(Some(Rate(Cap::PerSecond(20.0)))));
        rate_of("much").expect_err("no rate");
        let request = Request::LimitSet {
            service: "main".to_owned(),
            key: LimitKey::OriginalPerSource,
            value: "20".to_owned(),
            network: None,
        };
        let line = r#"{"request":"limit_set","service":"main","key":"original_per_source","value":"20","network":null}"#;
        assert_eq!(Request::parse(line.as_bytes()).expect(line), request);
    }
}
