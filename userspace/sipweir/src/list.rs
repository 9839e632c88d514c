//! `sipweir list`: shows and changes the lists of sources of a running instance.
//!
//! Also what is asked and answered. Not here: who keeps the lists (`lists::keeper`), and how they are looked at (`xdp-prog/lists.h`).

use std::fmt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cli::{Socket, USAGE, asked, print_json, print_more, print_text};
use crate::config::Span;
use crate::control::{self, Request};
use crate::lists::file::parse_time;
use crate::lists::keeper::{Added, Page, Reloaded};
use crate::lists::table::{Origin, Seconds, Until};
use crate::prefix::Prefix;

/// What is in memory is there at once, but may have to wait for a reload.
const PATIENCE: Duration = Duration::from_secs(35);

/// A list, as it is named in commands and requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum List {
    /// Whose packets to a service are dropped.
    Deny,
    /// Whose are not all the same.
    Allow,
}

impl From<List> for xdp_prog::List {
    fn from(list: List) -> Self {
        match list {
            List::Deny => Self::Deny,
            List::Allow => Self::Allow,
        }
    }
}

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
    /// Show the networks on a list, in the form of its files.
    Show {
        /// Which.
        list: List,
        /// As JSON, a network a line.
        #[arg(long)]
        json: bool,
    },
    /// Add a network until the end of the instance, or a time; or give one that is there another end. To have it after a restart,
    /// write it into a file.
    Add {
        /// To which.
        list: List,
        /// As "203.0.113.0/24", "2001:db8::/32", or one address.
        network: Prefix,
        /// When it leaves the list, as in RFC 3339: 2026-12-31T23:59:59Z.
        #[arg(long, value_name = "TIME", conflicts_with = "span")]
        until: Option<String>,
        /// How long it stays there, such as 3600s.
        #[arg(long = "for", value_name = "SPAN")]
        span: Option<Span>,
    },
    /// Take a network out. One that is from a file comes back when the files are read again.
    Remove {
        /// From which.
        list: List,
        /// The very network that is there.
        network: Prefix,
    },
    /// Read the files again, all or nothing. What was added by command stays.
    Reload {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

/// A network on a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Which.
    pub network: Prefix,
    /// When it leaves the list, if it does.
    pub until: Option<String>,
    /// Where it is from.
    pub origin: Origin,
}

/// The line of a list's file.
impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { network, until, origin } = self;
        write!(f, "{network}")?;
        if let Some(until) = until {
            write!(f, " {until}")?;
        }
        write!(f, " # {}", origin.name())
    }
}

/// Some networks of a list, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// At most [`crate::lists::keeper::PAGE`].
    pub networks: Vec<Listed>,
    /// Ask again, behind the last of them.
    pub has_more: bool,
}

impl From<Page> for Shown {
    fn from(page: Page) -> Self {
        let listed = |(network, until, origin)| Listed { network, until: time_of(until), origin };
        Self { networks: page.networks.into_iter().map(listed).collect(), has_more: page.has_more }
    }
}

/// What was taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// Where it was from.
    pub origin: Origin,
}

/// What a reload has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BothReloaded {
    /// The one.
    pub deny: Reloaded,
    /// And the other.
    pub allow: Reloaded,
}

impl From<[Reloaded; 2]> for BothReloaded {
    fn from([deny, allow]: [Reloaded; 2]) -> Self {
        Self { deny, allow }
    }
}

/// As RFC 3339 writes it.
fn time_of(until: Until) -> Option<String> {
    match until {
        Until::Ever => None,
        Until::Time(Seconds(second)) => Some(Timestamp::from_second(second).ok()?.to_string()),
    }
}

/// Asks for it and says what became of it. Exit status: 0 done, 1 no instance answers, 2 refused.
pub fn main(args: &Args) -> ExitCode {
    let (socket, command) = (&args.instance.socket, &args.command);
    let done = match command {
        Command::Show { list, json } => show(socket, *list, *json),
        Command::Add { list, network, until, span } => {
            let until = match (until, span) {
                (Some(until), _) => Some(until.clone()),
                (None, Some(span)) => {
                    let end = SystemTime::now() + Duration::from_nanos(span.nanos());
                    Timestamp::try_from(end).ok().map(|end| end.to_string())
                }
                (None, None) => None,
            };
            if let Some(Err(error)) = until.as_deref().map(parse_time) {
                eprintln!("sipweir: {error}");
                return ExitCode::from(USAGE);
            }
            add(socket, *list, *network, until)
        }
        Command::Remove { list, network } => remove(socket, *list, *network),
        Command::Reload { json } => reload(socket, *json),
    };
    asked(done)
}

fn show(socket: &Path, list: List, json: bool) -> anyhow::Result<()> {
    let mut after = None;
    loop {
        let shown: Shown = control::ask(socket, &Request::ListShow { list, after }, PATIENCE)?;
        let lines: String = if json {
            let line = |listed| serde_json::to_string(listed).map(|line| line + "\n").unwrap_or_default();
            shown.networks.iter().map(line).collect()
        } else {
            shown.networks.iter().map(|listed| format!("{listed}\n")).collect()
        };
        if !print_more(&lines)? || !shown.has_more {
            return Ok(());
        }
        after = shown.networks.last().map(|listed| listed.network);
    }
}

fn add(socket: &Path, list: List, network: Prefix, until: Option<String>) -> anyhow::Result<()> {
    let added: Added = control::ask(socket, &Request::ListAdd { list, network, until }, PATIENCE)?;
    let what = if added.is_new { "is on the list" } else { "was on the list, and has this end now" };
    print_text(&format!("{network} {what}\n"))?;
    if added.is_allowed {
        eprintln!("sipweir: warning: it has no effect, since an allowed network holds it");
    }
    Ok(())
}

fn remove(socket: &Path, list: List, network: Prefix) -> anyhow::Result<()> {
    let removed: Removed = control::ask(socket, &Request::ListRemove { list, network }, PATIENCE)?;
    let until = match removed.origin {
        Origin::File => " until its files are read again",
        Origin::Command => "",
    };
    print_text(&format!("{network} is off the list{until}\n"))
}

fn reload(socket: &Path, json: bool) -> anyhow::Result<()> {
    let reloaded: BothReloaded = control::ask(socket, &Request::ListReload {}, PATIENCE)?;
    if json {
        return print_json(&reloaded);
    }
    let line = |list, Reloaded { networks, entered, left }| {
        format!("{list}: {networks} networks, {entered} new, {left} gone\n")
    };
    print_text(&(line("deny", reloaded.deny) + &line("allow", reloaded.allow)))
}

#[cfg(test)]
mod tests {
    use super::{List, Listed, Shown};
    use crate::control::Request;
    use crate::lists::file::parse_line;
    use crate::lists::keeper::Page;
    use crate::lists::table::{Origin, Seconds, Until};

    #[test]
    fn what_is_shown_can_be_a_file_again() {
        let network = "2001:db8::/32".parse().expect("a network");
        for until in [Until::Ever, Until::Time(Seconds(1_798_761_599))] {
            let page = Page { networks: vec![(network, until, Origin::Command)], has_more: false };
            let shown = Shown::from(page);
            let line = shown.networks[0].to_string();
            assert_eq!(parse_line(&line), Ok(Some((network, until))), "{line}");
            let json = serde_json::to_string(&shown).expect("JSON");
            assert_eq!(serde_json::from_str::<Shown>(&json).expect("JSON"), shown);
        }
        let until = Some("2026-12-31T23:59:59Z".to_owned());
        let listed = Listed { network, until, origin: Origin::File };
        assert_eq!(listed.to_string(), "2001:db8::/32 2026-12-31T23:59:59Z # file");
    }

    #[test]
    fn requests_are_lines() {
        for (line, request) in [
            (
                r#"{"request":"list_show","list":"deny","after":null}"#,
                Request::ListShow { list: List::Deny, after: None },
            ),
            (
                r#"{"request":"list_add","list":"allow","network":"192.0.2.1/32","until":"2026-12-31T23:59:59Z"}"#,
                Request::ListAdd {
                    list: List::Allow,
                    network: "192.0.2.1".parse().expect("a network"),
                    until: Some("2026-12-31T23:59:59Z".to_owned()),
                },
            ),
            (r#"{"request":"list_reload"}"#, Request::ListReload {}),
        ] {
            assert_eq!(String::from_utf8(request.line().expect("short")).expect("text"), format!("{line}\n"));
            assert_eq!(Request::parse(line.as_bytes()).expect(line), request);
        }
        let wrong = r#"{"request":"list_remove","list":"deny","network":"192.0.2.1/24"}"#;
        let error = Request::parse(wrong.as_bytes()).expect_err("no network").to_string();
        assert!(error.contains("behind the first 24"), "{error}");
    }
}
