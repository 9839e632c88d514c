//! What `libbpf-cargo` generates from the compiled programs. Nothing here is written by hand.

#![allow(
    unsafe_code,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    let_underscore_drop,
    dead_code,
    reason = "generated code"
)]
#![allow(clippy::all, clippy::pedantic, clippy::nursery, clippy::restriction, reason = "generated code")]

pub(crate) mod generator {
    include!(concat!(env!("OUT_DIR"), "/generator.skel.rs"));
}

pub(crate) mod rivals {
    include!(concat!(env!("OUT_DIR"), "/rivals.skel.rs"));
}
