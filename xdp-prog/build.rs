//! Compiles the programs with clang and generates their skeletons into `OUT_DIR`.
//!
//! The compiler is `$CLANG`, else `clang` from the path. Nothing is downloaded and nothing is written beside the
//! source. The headers of libbpf come with `libbpf-sys`; those of the kernel (`linux/bpf.h`) are the system's.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libbpf_cargo::SkeletonBuilder;

/// Name of a program; its source is `NAME.bpf.c`.
const PROGRAMS: [&str; 3] = ["classifier", "side_door", "yardstick"];
const HEADERS: [&str; 12] = [
    "abi.h",
    "headers.h",
    "maps.h",
    "message.h",
    "parsing.h",
    "request_uri.h",
    "services.h",
    "start_line.h",
    "tokens.h",
    "transactions.h",
    "txn.h",
    "words.h",
];

/// Instruction set: jumps on 32-bit registers, in every kernel since 5.1; the verifier sees the bounds of a
/// `__u32` without shifts.
const CPU: &str = "-mcpu=v3";

fn main() -> ExitCode {
    for program in PROGRAMS {
        println!("cargo::rerun-if-changed={program}.bpf.c");
    }
    for header in HEADERS {
        println!("cargo::rerun-if-changed={header}");
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={}", message.replace('\n', "\ncargo::error="));
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    let clang = env::var_os("CLANG").unwrap_or_else(|| OsString::from("clang"));
    if let Err(error) = Command::new(&clang).arg("--version").output() {
        return Err(format!(
            "the XDP program is C and needs clang 14 or later, but `{}` does not run ({error}): install the package \
             `clang` (Debian, Ubuntu, Fedora), or set CLANG to the compiler",
            clang.to_string_lossy()
        ));
    }
    let include = kernel_headers()?;
    let out_dir = env::var_os("OUT_DIR").map(PathBuf::from).ok_or("OUT_DIR is not set: run cargo")?;
    let mut args: Vec<OsString> = ["-Wall", "-Werror", CPU].map(OsString::from).to_vec();
    if let Some(dir) = include {
        args.push(OsString::from("-idirafter"));
        args.push(dir.into_os_string());
    }
    for program in PROGRAMS {
        let source = format!("{program}.bpf.c");
        SkeletonBuilder::new()
            .source(&source)
            .obj(out_dir.join(format!("{program}.o")))
            .clang(&clang)
            .clang_args(args.clone())
            .build_and_generate(out_dir.join(format!("{program}.skel.rs")))
            .map_err(|error| format!("{source}: {error:#}"))?;
    }
    Ok(())
}

/// The directory of `asm/types.h`, which clang does not search when it compiles for BPF; none is needed where it is
/// directly under `/usr/include`.
fn kernel_headers() -> Result<Option<PathBuf>, String> {
    if Path::new("/usr/include/asm/types.h").exists() {
        return Ok(None);
    }
    // The build runs on the host, whose words have the size of BPF's; the target's architecture does not matter.
    let multiarch = PathBuf::from(format!("/usr/include/{}-linux-gnu", env::consts::ARCH));
    if multiarch.join("asm/types.h").exists() {
        return Ok(Some(multiarch));
    }
    Err("asm/types.h is neither in /usr/include nor in its multiarch directory: install the package \
         `linux-libc-dev` (Debian, Ubuntu) or `kernel-headers` (Fedora)"
        .to_owned())
}
