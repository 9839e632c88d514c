//! Compiling BPF programs with clang into skeletons: what every build script of this workspace that has a program
//! does. A part of build scripts, included by path, since a build script can share nothing else.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libbpf_cargo::SkeletonBuilder;

/// Instruction set: jumps on 32-bit registers, in every kernel since 5.1; the verifier sees the bounds of a
/// `__u32` without shifts.
const CPU: &str = "-mcpu=v3";

/// The `main` of a build script: `NAME.bpf.c` in `folder` becomes `NAME.skel.rs` in `OUT_DIR`, for each program. `headers`
/// lie in the same folder.
pub(crate) fn main(folder: &str, programs: &[&str], headers: &[&str]) -> ExitCode {
    for program in programs {
        println!("cargo::rerun-if-changed={folder}/{program}.bpf.c");
    }
    for header in headers {
        println!("cargo::rerun-if-changed={folder}/{header}");
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    match build(Path::new(folder), programs) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={}", message.replace('\n', "\ncargo::error="));
            ExitCode::FAILURE
        }
    }
}

fn build(folder: &Path, programs: &[&str]) -> Result<(), String> {
    let clang = env::var_os("CLANG").unwrap_or_else(|| OsString::from("clang"));
    if let Err(error) = Command::new(&clang).arg("--version").output() {
        return Err(format!(
            "the BPF programs are C and need clang 14 or later, but `{}` does not run ({error}): install the package \
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
    for program in programs {
        let source = folder.join(format!("{program}.bpf.c"));
        SkeletonBuilder::new()
            .source(&source)
            .obj(out_dir.join(format!("{program}.o")))
            .clang(&clang)
            .clang_args(args.clone())
            .build_and_generate(out_dir.join(format!("{program}.skel.rs")))
            .map_err(|error| format!("{}: {error:#}", source.display()))?;
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
