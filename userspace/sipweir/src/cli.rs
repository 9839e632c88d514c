//! The command line: what each command is called with, what it prints, and its exit status.
//!
//! Exit status: 0 fine, 1 the environment refused (interface, privileges, a running instance), 2 the call or
//! the configuration is wrong. Of `doctor` 0 fine, 1 warnings, 2 sipweir will not work on this host.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::config::{Config, Control};
use crate::control::ControlError;
use crate::run::janitor;
use crate::sip_helper::{self, SipHelper};
use crate::{
    capture, classify, control, demo, doctor, experiment, generate, limit, list, lists, log, model, netdev,
    reload, run, simulate, status, top, tune,
};

/// Keeps SIP servers alive under any load.
#[derive(Debug, Parser)]
#[command(name = "sipweir", version, about, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Where the commands of a command find the running instance.
#[derive(Debug, Args)]
pub(crate) struct Socket {
    /// Control socket of the instance.
    #[arg(long, global = true, value_name = "PATH", default_value_os_t = Control::default().socket)]
    pub(crate) socket: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Guard the services of a configuration until SIGTERM or Ctrl-C.
    Run {
        /// Configuration file; docs/example.toml explains every key.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// How the lines on standard error look.
        #[arg(long, value_enum, default_value_t)]
        log_format: log::Format,
    },
    /// Say everything that is wrong with a configuration.
    Check {
        /// Configuration file.
        file: PathBuf,
    },
    /// Say whether this host is ready, and what to change where it is not.
    Doctor(doctor::Args),
    /// Show what a running instance does.
    Status {
        /// As JSON; docs/status.md explains every key.
        #[arg(long)]
        json: bool,
        /// Print the JSON Schema of that, and ask nobody.
        #[arg(long, conflicts_with = "json")]
        schema: bool,
        /// Control socket of the instance.
        #[arg(long, value_name = "PATH", default_value_os_t = Control::default().socket)]
        socket: PathBuf,
    },
    /// Show what a running instance does, live.
    Top(top::Args),
    /// Have the running instance take over a changed configuration, all of it or nothing.
    Reload(reload::Args),
    /// Show and change the caps on what a source may send, of a running instance.
    Limit(limit::Args),
    /// Show and change the lists of sources of a running instance.
    List(list::Args),
    /// Write packets that a running instance sheds, absorbs, drops or serves into a pcapng file.
    Capture(capture::command::Args),
    /// Say what sipweir would do with recorded traffic.
    Classify(classify::Args),
    /// Show the main job on a server of known capacity: goodput under 0.5 to 10 times its load.
    Demo(demo::Args),
    /// Hold the data path against the theory, on this machine: measured beside computed.
    #[command(subcommand)]
    Experiment(experiment::Experiment),
    /// Say what queueing theory expects of thresholds, shares and disciplines.
    Model(model::Args),
    /// Simulate a plan: mechanisms compared over the gates and the waiting line that run live.
    Simulate(simulate::Args),
    /// Recommend thresholds, share and `max_wait` for a server, its peak and your limits.
    Tune(tune::Args),
    /// Make manual pages, completions, and the reference of the configuration.
    #[command(subcommand, hide = true)]
    Generate(generate::What),
    /// Wait until standard input ends, and remove what an instance leaves behind.
    #[command(name = janitor::COMMAND, hide = true)]
    Janitor(janitor::Left),
}

/// Error of the call or the configuration.
pub(crate) const USAGE: u8 = 2;
/// Error of the environment.
pub(crate) const ENVIRONMENT: u8 = 1;

/// Runs the command of the process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run { config, log_format } => guard(&config, log_format),
        Command::Check { file } => match usable(&file).and_then(with_lists) {
            Ok(config) => {
                println!("{}: no problems", file.display());
                if let Some(helper) = helper_of_host(&config, &sip_helper::Paths::default()) {
                    eprintln!("sipweir: warning: {helper}");
                }
                ExitCode::SUCCESS
            }
            Err(error) => fail(USAGE, &*error),
        },
        Command::Doctor(args) => doctor::main(&args),
        Command::Status { schema: true, .. } => environment(print_json(&status::schema())),
        Command::Status { json, socket, .. } => match control::ask_status(&socket) {
            Ok(status) if json => environment(print_json(&status)),
            Ok(status) => environment(print_text(&status.text())),
            Err(error) => fail(ENVIRONMENT, &error),
        },
        Command::Reload(args) => reload::main(&args),
        Command::Limit(args) => limit::main(&args),
        Command::List(args) => list::main(&args),
        Command::Capture(args) => capture::command::main(&args),
        Command::Classify(args) => classify::main(&args),
        Command::Demo(args) => {
            let _log = log::start(log::Format::Text);
            environment(demo::main(&args))
        }
        Command::Experiment(experiment) => {
            let _log = log::start(log::Format::Text);
            environment(experiment::main(&experiment))
        }
        Command::Model(args) => match model::main(&args) {
            Ok(text) => environment(print_text(&text)),
            Err(error) => fail(USAGE, &error),
        },
        Command::Simulate(args) => simulate::main(&args),
        Command::Top(args) => top::main(&args),
        Command::Tune(args) => tune::main(&args),
        Command::Generate(what) => environment(generate::main(&what)),
        Command::Janitor(left) => environment(janitor::main(&left)),
    }
}

/// `sipweir run`. What ends it is said in the log, which nobody waits for.
fn guard(file: &Path, format: log::Format) -> ExitCode {
    let config = match usable(file) {
        Ok(config) => config,
        Err(error) => return fail(USAGE, &*error),
    };
    let _log = match log::start(format) {
        Ok(log) => log,
        Err(error) => return fail(ENVIRONMENT, &error),
    };
    match run::run(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{}", in_full(&error));
            explain(&error, &config);
            ExitCode::from(ENVIRONMENT)
        }
    }
}

/// What the doctor has to say about a start that failed.
fn explain(error: &anyhow::Error, config: &Config) {
    let findings = doctor::consult(error, config);
    if !findings.is_empty() {
        eprintln!(
            "sipweir: what may be the reason (`sipweir doctor` looks at everything):\n{}",
            findings.trim_end()
        );
    }
}

/// Reads a configuration and says everything that is wrong with it.
pub(crate) fn usable(file: &Path) -> Result<Config, Box<dyn std::error::Error>> {
    let config = Config::read(file)?;
    run::check(&config).map_err(|error| format!("{}: {}", file.display(), in_full(&error)))?;
    Ok(config)
}

/// Reads the lists that a configuration names, as a start would.
fn with_lists(config: Config) -> Result<Config, Box<dyn std::error::Error>> {
    for list in xdp_prog::List::ALL {
        lists::file::read_all(config.lists.files(list), config.lists.room as usize)?;
    }
    Ok(config)
}

/// The kernel's SIP helper, if this is the host that the configuration is for: it has the interface.
fn helper_of_host(config: &Config, paths: &sip_helper::Paths) -> Option<SipHelper> {
    netdev::Interface::find(&config.interface).ok().and_then(|_interface| SipHelper::find(paths))
}

pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    print_text(&text)
}

/// Prints, and takes a reader that has seen enough (`| head`) for no error.
pub(crate) fn print_text(text: &str) -> anyhow::Result<()> {
    print_more(text).map(drop)
}

/// Prints a part of something long; false when the reader has gone and wants no more of it.
pub(crate) fn print_more(text: &str) -> anyhow::Result<bool> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Exit status of a command that has asked a running instance: 2 when that has refused, 1 when anything else is wrong.
pub(crate) fn asked(done: anyhow::Result<()>) -> ExitCode {
    match done {
        Err(error) if matches!(error.downcast_ref(), Some(ControlError::Refused(_))) => fail(USAGE, &*error),
        done => environment(done),
    }
}

pub(crate) fn environment(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sipweir: {}", in_full(&error));
            ExitCode::from(ENVIRONMENT)
        }
    }
}

/// An error with its causes, each said once: some messages name their cause themselves, in the middle of the advice.
fn in_full(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let said = cause.to_string();
        if text.contains(&said) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&said);
    }
    text
}

pub(crate) fn fail(status: u8, error: &dyn std::error::Error) -> ExitCode {
    eprintln!("sipweir: {error}");
    ExitCode::from(status)
}

#[cfg(test)]
mod tests {
    use super::{helper_of_host, in_full};
    use crate::config::Config;
    use crate::control::ControlError;
    use crate::sip_helper::Paths;

    #[test]
    fn a_check_warns_of_the_kernels_sip_helper_on_the_host_that_has_the_interface() {
        let modules = std::env::temp_dir().join(format!("sipweir-cli-modules-{}", std::process::id()));
        std::fs::write(&modules, "nf_conntrack_sip 45056 0 - Live 0x0\n").expect("write");
        let paths = Paths { modules: modules.clone(), ..Paths::default() };
        let text = "interface = \"lo\"\n[service.main]\nlisten = \"*:5060\"\nhandoff = \"kernel\"\n";
        let mut config = Config::parse("test.toml", text).expect("valid");
        assert!(helper_of_host(&config, &paths).is_some_and(|helper| helper.is_module));
        config.interface = "nowhere0".into();
        assert_eq!(helper_of_host(&config, &paths), None, "another host's configuration");
        std::fs::remove_file(modules).expect("remove");
    }

    #[test]
    fn an_error_says_each_cause_once() {
        let source = std::io::Error::other("no space left");
        let error = anyhow::Error::new(ControlError::Bind { path: "/run/x.sock".into(), source });
        let expected = "eth0: cannot make the control socket /run/x.sock: no space left; change control.socket or the \
                        permissions";
        assert_eq!(in_full(&error.context("eth0")), expected);
        let plain = anyhow::anyhow!("first").context("second").context("third");
        assert_eq!(in_full(&plain), "third: second: first");
    }
}
