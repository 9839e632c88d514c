//! `cargo xtask fuzz`: the differential run, and the coverage-guided targets (`tests/fuzz`).
//!
//! libFuzzer needs code that reports which of its edges were run. LLVM's pass for that is in the stable compiler; it is
//! asked for by flags, for this build alone and, because of `--target`, not for build scripts and macros.

use std::process::Command;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::cargo::{Cargo, workspace_root};
use crate::command;
use crate::need_root;
use crate::packages::{self, Purpose};

/// Seconds of each target otherwise.
const SECONDS: u64 = 60;

/// The binaries `target-…` of `tests/fuzz`.
const TARGETS: [&str; 3] = ["scanner", "reply", "worker"];

/// Findings and libFuzzer's own corpora, below the workspace.
const FOLDER: &str = "out/fuzz";

/// Flags that make code report its coverage: edges counted in eight-bit counters, with a table of addresses, and
/// comparisons reported with their operands.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                        -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
                        -Ccodegen-units=1";

/// What `cargo xtask fuzz` is asked for.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Run the coverage-guided targets instead of the differential run.
    #[arg(long, conflicts_with_all = ["quick", "messages", "from"])]
    targets: bool,
    /// Run one target only: scanner, reply or worker.
    #[arg(long, requires = "targets", value_parser = TARGETS)]
    only: Option<String>,
    /// A short differential run of 300,000 messages.
    #[arg(long, conflicts_with = "messages")]
    quick: bool,
    /// Messages of the differential run; ten million unless given.
    #[arg(long)]
    messages: Option<u64>,
    /// Seconds of the differential run, or of each target (60 unless given).
    #[arg(long)]
    seconds: Option<u64>,
    /// Seed of the run.
    #[arg(long)]
    seed: Option<u64>,
    /// Number of the first message of the differential run.
    #[arg(long)]
    from: Option<u64>,
    /// Behind `--`, with --only: handed to libFuzzer, for instance a file to be tried again.
    #[arg(last = true, requires = "only")]
    arguments: Vec<String>,
}

/// Runs what was asked for.
///
/// # Errors
/// If something was found, or the fuzzer cannot be built or run.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !options.targets {
        return differential(options);
    }
    let chosen = TARGETS.iter().filter(|target| options.only.as_deref().is_none_or(|only| only == **target));
    for target in chosen {
        run_target(target, options.seconds.unwrap_or(SECONDS), options.seed, &options.arguments)?;
    }
    Ok(())
}

fn differential(options: &Options) -> Result<()> {
    packages::ensure(&[Purpose::Build])?;
    need_root("the XDP program is loaded and run by the kernel")?;
    let mut arguments = vec!["--save".to_owned(), FOLDER.to_owned()];
    if options.quick {
        arguments.push("--quick".to_owned());
    }
    let numbers = [
        ("--messages", options.messages),
        ("--seconds", options.seconds),
        ("--seed", options.seed),
        ("--from", options.from),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            arguments.extend([name.to_owned(), number.to_string()]);
        }
    }
    Cargo::new(["run", "--release", "--package", "sipweir-fuzz", "--bin", "sipweir-differential", "--"])
        .arguments(&arguments)
        .run()
}

fn run_target(target: &str, seconds: u64, seed: Option<u64>, arguments: &[String]) -> Result<()> {
    packages::ensure(&[Purpose::Build])?;
    let corpus = format!("{FOLDER}/corpus-{target}");
    let folder = workspace_root().join(&corpus);
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let mut libfuzzer = vec![
        format!("-max_total_time={seconds}"),
        format!("-artifact_prefix={FOLDER}/{target}-"),
        "-dict=tests/fuzz/sip.dict".to_owned(),
        "-max_len=4096".to_owned(),
        "-timeout=10".to_owned(),
        "-verbosity=0".to_owned(),
        "-print_final_stats=1".to_owned(),
    ];
    libfuzzer.extend(seed.map(|seed| format!("-seed={seed}")));
    if arguments.is_empty() {
        // What is found goes into the first folder; the other holds the seeds.
        libfuzzer.extend([corpus, "tests/corpus".to_owned()]);
    }
    libfuzzer.extend_from_slice(arguments);

    let binary = format!("target-{target}");
    let ran = Cargo::new(["run", "--package", "sipweir-fuzz", "--features", "libfuzzer"])
        .arguments(&["--bin", &binary, "--target", &host()?, "--"])
        .arguments(&libfuzzer)
        .env("RUSTFLAGS", COVERAGE)
        .env("CXX", "clang++")
        .run();
    if let Err(error) = ran {
        bail!(
            "{error:#}; if libFuzzer found something, it lies in {FOLDER}, and \
             `cargo xtask fuzz --targets --only {target} -- FILE` tries it again"
        );
    }
    Ok(())
}

/// The compiler's own platform.
fn host() -> Result<String> {
    let version = command::output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc -vV names no host")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_names_its_platform() {
        let host = host().expect("a host");
        assert!(host.contains("-linux-"), "{host}");
    }

    #[test]
    fn every_target_has_its_binary() {
        for target in TARGETS {
            let file = workspace_root().join(format!("tests/fuzz/src/bin/target_{target}.rs"));
            assert!(file.exists(), "{}", file.display());
        }
    }
}
