//! The `sipweir` command; everything is in the library.

fn main() -> std::process::ExitCode {
    sipweir::cli::main()
}
