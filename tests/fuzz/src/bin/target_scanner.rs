//! `fuzz::targets::scanner` under libFuzzer; built by `cargo xtask fuzz --targets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::scanner(data));
