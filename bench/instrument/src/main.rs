//! `sipweir-bench`: see `cargo xtask bench`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    instrument::cli::main()
}
