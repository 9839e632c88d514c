//! `fuzz::targets::reply` under libFuzzer; built by `cargo xtask fuzz --targets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::reply(data));
