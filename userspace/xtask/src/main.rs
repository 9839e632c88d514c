//! `cargo xtask …`: the one door to set-up, demo, tests and checks of sipweir.
//!
//! Every command first makes sure that what it needs is installed ([`packages`]), then calls cargo ([`cargo`]). It is
//! compiled on machines where nothing is installed yet, so it depends on no crate that needs a C library, and it
//! knows nothing of the other crates but their names.

#![forbid(unsafe_code)]

mod cargo;
mod command;
mod deb;
mod format;
mod fuzz;
mod kernel;
mod packages;
mod probe;
mod quiet_services;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand};

use crate::packages::Purpose;

/// Set-up, demo, tests and checks of sipweir.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// What `cargo xtask` can do.
#[derive(Debug, Subcommand)]
enum Command {
    /// Install whatever any of the other commands needs, and do nothing else.
    Setup,
    /// The main job on an embedded server, in namespaces of its own: `sipweir demo`, built for release.
    Demo {
        /// Handed to `sipweir demo`: --quick, --json FILE, --html FILE.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// What sipweir carries and costs, against the bare kernel and against what would run instead (bench/METHODOLOGY.md).
    /// Full runs are kept under bench/record/.
    Bench {
        /// Handed to `sipweir-bench`: --quick, --only NAME, --json FILE, --html FILE.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// The data path against the theory, in namespaces of its own: `sipweir experiment`, built for release.
    Experiment {
        /// Handed to `sipweir experiment`: hysteresis, random or slowdown, and its options.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        arguments: Vec<String>,
    },
    /// All tests, end to end ones included.
    Test {
        /// Handed to `cargo test --workspace`: a filter, `-- --nocapture`, and the like.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Twice the load that a server can take, for minutes: memory and frames must be at the end what they were at first.
    Soak {
        /// How long.
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1440))]
        minutes: u32,
    },
    /// The simulated reference tables at full length and with all their seeds (some minutes of each core).
    Reference,
    /// Format Rust and C.
    Fmt {
        /// Change nothing; fail if anything is not formatted.
        #[arg(long)]
        check: bool,
    },
    /// Clippy over everything, warnings are errors.
    Lint,
    /// Write the documents that are made from the code (docs/configuration.md, docs/metrics.md); the tests compare them.
    Docs,
    /// Load the XDP program and print its size, the verifier's work and nanoseconds a packet.
    Verify,
    /// The XDP program's verdict tests on Debian 12's kernel (Linux 6.1), in an emulated machine; x86-64 only.
    Kernel,
    /// Hostile input: the XDP program against the classifier of user space over ten million messages, or with
    /// --targets the coverage-guided fuzz targets.
    Fuzz(fuzz::Options),
    /// A Debian package of the program, its unit, example configuration, manual pages and completions, in out/deb.
    Deb(deb::Options),
    /// What CI runs: setup, fmt --check, lint, test, deb --try, kernel. The fuzz targets run as ordinary tests there.
    Ci,
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Setup => setup(),
        Command::Demo { arguments } => demo(&arguments),
        Command::Bench { arguments } => bench(arguments),
        Command::Experiment { arguments } => experiment(&arguments),
        Command::Test { arguments } => test(&arguments),
        Command::Soak { minutes } => soak(minutes),
        Command::Reference => reference(),
        Command::Fmt { check } => fmt(check),
        Command::Lint => lint(),
        Command::Docs => docs(),
        Command::Verify => verify(),
        Command::Kernel => kernel::run(),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Deb(options) => deb::run(&options),
        Command::Ci => {
            setup()?;
            fmt(true)?;
            lint()?;
            test(&["--no-fail-fast".to_owned()])?;
            deb::run(&deb::Options::of_tests())?;
            if kernel::POSSIBLE { kernel::run() } else { Ok(()) }
        }
    }
}

fn setup() -> Result<()> {
    packages::ensure(&[
        Purpose::Build,
        Purpose::Namespaces,
        Purpose::EndToEnd,
        Purpose::Format,
        Purpose::Package,
    ])?;
    if kernel::POSSIBLE { packages::ensure(&[Purpose::Kernel]) } else { Ok(()) }
}

fn demo(arguments: &[String]) -> Result<()> {
    packages::ensure(&[Purpose::Build, Purpose::Namespaces])?;
    need_root("the demo makes network namespaces and loads an XDP program")?;
    cargo::Cargo::new(["run", "--release", "--package", "sipweir", "--", "demo"]).arguments(arguments).run()
}

/// Where full runs are kept.
const RECORD: &str = "bench/record";

fn bench(mut arguments: Vec<String>) -> Result<()> {
    packages::ensure(&[Purpose::Build, Purpose::Namespaces, Purpose::EndToEnd])?;
    need_root("the bench makes network namespaces and loads BPF programs")?;
    // Also as `--only=NAME`.
    let name_of = |argument: &String| argument.split('=').next().unwrap_or_default().to_owned();
    if !arguments
        .iter()
        .any(|argument| ["--quick", "--only", "--record"].contains(&name_of(argument).as_str()))
    {
        arguments.extend(["--record", RECORD].map(str::to_owned));
    }
    // One by one: built together, their dependencies would have other features, and be built again to be run.
    cargo::Cargo::new(["build", "--release", "--package", "sipweir"]).run()?;
    let run = ["run", "--release", "--package", "sipweir-instrument", "--"];
    cargo::Cargo::new(run).arguments(&arguments).run()
}

fn experiment(arguments: &[String]) -> Result<()> {
    packages::ensure(&[Purpose::Build, Purpose::Namespaces])?;
    need_root("an experiment makes network namespaces and loads an XDP program")?;
    cargo::Cargo::new(["run", "--release", "--package", "sipweir", "--", "experiment"])
        .arguments(arguments)
        .run()
}

fn test(arguments: &[String]) -> Result<()> {
    packages::ensure(&[Purpose::Build, Purpose::Namespaces, Purpose::EndToEnd])?;
    need_root("the tests make network namespaces and load XDP programs")?;
    // The end-to-end tests run `sipweir` as a process, and `cargo test` alone need not build it. Built for the whole
    // workspace, so that cargo chooses the same features of the dependencies as for the tests and compiles them once.
    cargo::Cargo::new(["build", "--workspace", "--bins"]).run()?;
    cargo::Cargo::new(["test", "--workspace"]).arguments(arguments).run()
}

fn soak(minutes: u32) -> Result<()> {
    packages::ensure(&[Purpose::Build, Purpose::Namespaces, Purpose::EndToEnd])?;
    need_root("the soak makes network namespaces and loads an XDP program")?;
    // The tests start this one.
    cargo::Cargo::new(["build", "--package", "sipweir"]).run()?;
    cargo::Cargo::new(["test", "--package", "sipweir-tests", "--test", "e2e", "--", "soak", "--nocapture"])
        .env("SIPWEIR_SOAK_S", (60 * minutes).to_string())
        .run()
}

fn reference() -> Result<()> {
    packages::ensure(&[Purpose::Build])?;
    cargo::Cargo::new(["run", "--release", "--package", "sipweir-model", "--example", "reference"]).run()
}

fn fmt(check: bool) -> Result<()> {
    packages::ensure(&[Purpose::Format])?;
    // Both are run before either fails: one report for Rust and C.
    let rust =
        cargo::Cargo::new(["fmt", "--all"]).arguments(if check { &["--check"][..] } else { &[] }).run();
    let c = format::format_c(check);
    rust.and(c)
}

fn lint() -> Result<()> {
    packages::ensure(&[Purpose::Build])?;
    cargo::Cargo::new(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]).run()
}

fn docs() -> Result<()> {
    packages::ensure(&[Purpose::Build])?;
    let page = cargo::Cargo::new(["run", "--package", "sipweir", "--", "generate", "reference"]).output()?;
    let file = cargo::workspace_root().join("docs/configuration.md");
    std::fs::write(&file, page).with_context(|| format!("cannot write {}", file.display()))?;
    // The test that compares them writes them, if it is told to.
    let test = ["test", "--package", "sipweir", "--test", "documents"];
    cargo::Cargo::new(test).env("SIPWEIR_WRITE_DOCS", "1").run()
}

fn verify() -> Result<()> {
    packages::ensure(&[Purpose::Build])?;
    need_root("the verifier runs in the kernel")?;
    cargo::Cargo::new(["run", "--release", "--package", "sipweir-xdp-prog", "--example", "program_cost"])
        .run()
}

pub(crate) fn need_root(why: &str) -> Result<()> {
    if !probe::is_root()? {
        bail!("this needs root: {why}. Run it as root (sudo -E env \"PATH=$PATH\" cargo xtask …)");
    }
    Ok(())
}
