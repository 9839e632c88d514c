//! `fuzz::targets::worker` under libFuzzer; built by `cargo xtask fuzz --targets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::worker(data));
