//! Compiles the programs with clang and generates their skeletons into `OUT_DIR`.
//!
//! The compiler is `$CLANG`, else `clang` from the path. Nothing is downloaded and nothing is written beside the
//! source. The headers of libbpf come with `libbpf-sys`; those of the kernel (`linux/bpf.h`) are the system's.

#[path = "build/clang.rs"]
mod clang;

/// Name of a program; its source is `NAME.bpf.c`.
const PROGRAMS: [&str; 4] = ["answers", "classifier", "side_door", "yardstick"];
const HEADERS: [&str; 17] = [
    "abi.h",
    "branch.h",
    "headers.h",
    "lists.h",
    "locals.h",
    "maps.h",
    "message.h",
    "parsing.h",
    "request_uri.h",
    "samples.h",
    "served.h",
    "services.h",
    "start_line.h",
    "tokens.h",
    "transactions.h",
    "txn.h",
    "words.h",
];

fn main() -> std::process::ExitCode {
    clang::main(".", &PROGRAMS, &HEADERS)
}
