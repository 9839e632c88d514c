//! Compiles the generator's and the rivals' programs.

#[path = "../../xdp-prog/build/clang.rs"]
mod clang;

fn main() -> std::process::ExitCode {
    clang::main("bpf", &["generator", "rivals"], &["generator.h"])
}
